//! What one read costs: `cargo bench -p truecount --bench read_cost`. Where there is no PMU only the clocks are measured,
//! and the rest is reported as skipped. In one run, so that the ratios can be compared.

#[cfg(not(target_arch = "aarch64"))]
mod measured {
    use criterion::{Criterion, criterion_group};
    use std::hint::black_box;
    use truecount::{Counter, Fence, Mode, Options, PerThread, Policy, Unordered};

    fn one<P: Policy>(criterion: &mut Criterion, label: &str, event: &str, options: &Options) {
        match options.open::<P>(event) {
            Ok(counter) => {
                let name = format!("{label}: {event} ({:?}, {:?})", counter.method(), P::KIND);
                criterion.bench_function(&name, |b| b.iter(|| black_box(counter.read())));
            }
            Err(error) => println!("skipped: {label}: {event}: {error}"),
        }
    }

    fn reads(criterion: &mut Criterion) {
        let auto = Options::new();
        one::<Fence>(criterion, "read", "zero", &auto);
        one::<Fence>(criterion, "read", "wall-time", &auto);
        one::<Fence>(criterion, "read", "user-time", &auto);
        one::<Fence>(criterion, "read", "page-faults", &auto);
        for event in ["instructions:u", "instructions-minus-irqs:u"] {
            one::<Unordered>(criterion, "read", event, &auto);
            one::<Fence>(criterion, "read", event, &auto);
            one::<Fence>(
                criterion,
                "syscall",
                event,
                &auto.clone().mode(Mode::Syscall),
            );
        }
        one::<Fence>(
            criterion,
            "safe",
            "instructions:u",
            &auto.clone().mode(Mode::Safe),
        );
        match PerThread::<Fence>::new("wall-time") {
            Ok(handle) => {
                criterion.bench_function("per thread: wall-time", |b| {
                    b.iter(|| black_box(handle.read().map_or(0, truecount::Stamp::raw)));
                });
            }
            Err(error) => println!("skipped: per thread: {error}"),
        }
        if let Ok(counter) = Counter::<Fence>::open("wall-time") {
            criterion.bench_function("region: wall-time", |b| {
                b.iter(|| {
                    let start = counter.read();
                    black_box(counter.since(start))
                });
            });
        }
    }

    criterion_group!(benches, reads);
}

#[cfg(not(target_arch = "aarch64"))]
criterion::criterion_main!(measured::benches);

#[cfg(target_arch = "aarch64")]
fn main() {
    println!("skipped: criterion is not built for this architecture here");
}
