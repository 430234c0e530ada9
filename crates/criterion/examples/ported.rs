//! A suite of criterion's, ported by its first line: `cargo run --release -p truecount-criterion --example ported -- --bench`.

use std::collections::HashMap;
use truecount_criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};

fn sums(c: &mut Criterion) {
    let mut group = c.benchmark_group("sums");
    for size in [10u64, 1000] {
        group.bench_with_input(BenchmarkId::from_parameter(size), &size, |b, &size| {
            b.iter(|| (0..std::hint::black_box(size)).sum::<u64>());
        });
    }
    group.finish();
}

fn sorting(c: &mut Criterion) {
    c.bench_function("sort", |b| {
        b.iter_batched(
            || (0..100u64).rev().collect::<Vec<_>>(),
            |mut data| data.sort_unstable(),
            BatchSize::SmallInput,
        );
    });
}

/// A hash map of the standard library has another seed in every run, and another cost, unless `getrandom` is held constant.
fn hashes(c: &mut Criterion) {
    c.bench_function("hashes", |b| {
        b.iter(|| (0..100u64).map(|n| (n, n)).collect::<HashMap<_, _>>());
    });
}

criterion_group! {
    name = short;
    config = criterion::Criterion::default()
        .sample_size(10)
        .nresamples(1000)
        .warm_up_time(std::time::Duration::from_millis(1))
        .measurement_time(std::time::Duration::from_millis(5));
    targets = sums, sorting, hashes
}
criterion_main!(short);
