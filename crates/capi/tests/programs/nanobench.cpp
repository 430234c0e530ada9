// nanobench counts by perf_event_open, which the virtual PMU answers.
#define ANKERL_NANOBENCH_IMPLEMENT
#include <cstdio>
#include <nanobench.h>
#include <truecount.h>

int main() {
    using ankerl::nanobench::Result;
    for (const std::uint64_t size : {1000, 2000}) {
        ankerl::nanobench::Bench bench;
        bench.output(nullptr).epochs(5).epochIterations(1000);
        bench.run("loop", [&] { truecount_known_loop(size); });
        const Result &result = bench.results().front();
        if (!result.has(Result::Measure::instructions)) {
            std::puts("no counter");
            return 3;
        }
        std::printf("loop %.3f\n", result.median(Result::Measure::instructions));
    }
}
