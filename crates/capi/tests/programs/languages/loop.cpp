// Loops of known length: what is counted beyond them, at least (a PMU counts interrupts, too).
#include <algorithm>
#include <cstdio>
#include <truecount.hpp>

int main(int argc, char **argv) try {
    truecount::counter c(argc > 1 ? argv[1] : "instructions:u");
    for (const std::uint64_t size : {1000, 100000, 1000, 100000}) {
        std::uint64_t least = UINT64_MAX, length = 0;
        for (int i = 0; i < 20; i++)
            least = std::min<std::uint64_t>(least, c([&] { length = truecount_known_loop(size); }));
        std::printf("beyond %lld\n", static_cast<long long>(least - length));
    }
    return 0;
} catch (const truecount::error &e) {
    std::printf("no counter: %s\n", e.what());
    return 3;
}
