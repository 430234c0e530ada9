// google-benchmark with a count beside the time: works with every build of it, with libpfm and without.
#include <benchmark/benchmark.h>
#include <truecount.hpp>

static void loop(benchmark::State &state) {
    truecount::counter c("instructions:u");
    std::uint64_t least = UINT64_MAX;
    for (auto _ : state) {
        auto region = c.start();
        truecount_known_loop(static_cast<std::uint64_t>(state.range(0)));
        const auto count = region.count();
        least = count < least ? count : least;
    }
    state.counters["instructions"] = static_cast<double>(least);
}
BENCHMARK(loop)->Arg(1000)->Arg(2000);

// What --benchmark_perf_counters=INSTRUCTIONS counts, in a build with libpfm.
static void plain(benchmark::State &state) {
    for (auto _ : state)
        truecount_known_loop(static_cast<std::uint64_t>(state.range(0)));
}
BENCHMARK(plain)->Arg(1000)->Arg(2000)->Iterations(1000);

BENCHMARK_MAIN();
