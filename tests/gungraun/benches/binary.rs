//! Binary benchmarks: whole programs.

use gungraun::{Command, binary_benchmark, binary_benchmark_group, main};

#[binary_benchmark]
#[bench::once("the quick brown fox", 1)]
#[bench::often("the quick brown fox", 500)]
fn words(text: &str, times: usize) -> Command {
    Command::new(env!("CARGO_BIN_EXE_words")).arg(text).arg(times.to_string()).build()
}

binary_benchmark_group!(name = all; benchmarks = words);
main!(binary_benchmark_groups = all);
