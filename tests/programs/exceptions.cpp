// C++ exceptions through several frames, rethrown, across threads, with destructors on the way.
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static int destroyed;
struct Guard {
    ~Guard() { ++destroyed; }
};

__attribute__((noinline)) static int deep(int n) {
    Guard g;
    if (n == 0) throw std::runtime_error("bottom");
    return deep(n - 1) + 1;
}

__attribute__((noinline)) static int middle(int n) {
    try {
        return deep(n);
    } catch (const std::runtime_error &e) {
        throw std::logic_error(std::string(e.what()) + " of " + std::to_string(n));
    }
}

int main() {
    int caught = 0;
    for (int i = 0; i < 200; i++) {
        try {
            middle(i % 20);
        } catch (const std::logic_error &e) {
            caught++;
            if (i % 50 == 0) std::printf("%s\n", e.what());
        }
    }
    std::exception_ptr from_thread;
    std::thread([&] {
        try {
            std::vector<int>(3).at(7);
        } catch (...) {
            from_thread = std::current_exception();
        }
    }).join();
    try {
        std::rethrow_exception(from_thread);
    } catch (const std::out_of_range &) {
        std::puts("out of range, from another thread");
    }
    std::printf("caught %d destroyed %d\n", caught, destroyed);
    return 0;
}
