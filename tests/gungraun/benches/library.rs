//! Library benchmarks: parameters, the default entry point, one of its own, limits, a flame graph, Cachegrind.

use gungraun::{
    Cachegrind, Callgrind, EntryPoint, EventKind, FlamegraphConfig, LibraryBenchmarkConfig, library_benchmark,
    library_benchmark_group, main,
};
use std::hint::black_box;

fn fibonacci(n: u64) -> u64 {
    match n {
        0 | 1 => n,
        n => fibonacci(n - 1) + fibonacci(n - 2),
    }
}

#[library_benchmark]
#[bench::short(5)]
#[bench::long(12)]
fn recursion(n: u64) -> u64 {
    black_box(fibonacci(black_box(n)))
}

fn numbers(length: u32) -> Vec<u32> {
    (0..length).map(|i| i.wrapping_mul(2_654_435_761) >> 8).collect()
}

#[library_benchmark(setup = numbers)]
#[benches::sizes(10, 500)]
fn sorting(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort();
    black_box(numbers)
}

#[inline(never)]
fn inner(n: u64) -> u64 {
    (0..n).fold(0, |sum, i| black_box(sum ^ i))
}

#[library_benchmark(config = LibraryBenchmarkConfig::default()
    .tool(Callgrind::default().entry_point(EntryPoint::Custom("*::inner".to_owned()))))]
fn only_inside() -> u64 {
    black_box(inner(black_box(1000)) + fibonacci(black_box(10)))
}

#[library_benchmark(config = LibraryBenchmarkConfig::default()
    .tool(Callgrind::default().soft_limits([(EventKind::Ir, 5.0)]).flamegraph(FlamegraphConfig::default()))
    .tool(Cachegrind::default()))]
fn limited() -> u64 {
    black_box(fibonacci(black_box(8)))
}

library_benchmark_group!(name = all; benchmarks = recursion, sorting, only_inside, limited);
main!(library_benchmark_groups = all);
