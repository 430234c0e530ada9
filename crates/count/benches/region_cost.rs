//! What recording one region costs, beside measureme's own profiler, in one run.
//!
//! `cargo bench -p truecount --bench region_cost`; the least over many batches, on one thread and on two.

use std::time::Instant;
use truecount::Recorder;

const BATCHES: usize = 200;
const REGIONS: usize = 2000;

/// Least nanoseconds a region over the batches.
fn least(mut region: impl FnMut()) -> f64 {
    (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..REGIONS).for_each(|_| region());
            start.elapsed().as_nanos() as f64 / REGIONS as f64
        })
        .fold(f64::INFINITY, f64::min)
}

/// Least on each of `threads` threads at once, the slowest of them.
fn on<F: FnMut()>(threads: usize, make: impl Fn() -> F + Sync) -> f64 {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| least(make())))
            .collect();
        workers
            .into_iter()
            .filter_map(|worker| worker.join().ok())
            .fold(0.0, f64::max)
    })
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let directory = tempfile::tempdir()?;
    println!(
        "wall time from: {}",
        truecount::recorder::wall_time_source()
    );
    let clock = least(|| {
        std::hint::black_box(Instant::now());
    });
    println!("Instant::now: {clock:.1} ns");
    let theirs = measureme::Profiler::new(directory.path().join("theirs"))?;
    let kind = theirs.alloc_string("GenericActivity");
    let id = measureme::EventId::from_label(theirs.alloc_string("region"));
    let recorder = Recorder::new(directory.path().join("ours"))?;
    let label = recorder.label("region");
    for threads in [1, 2] {
        let measureme = on(threads, || {
            || drop(theirs.start_recording_interval_event(kind, id, 0))
        });
        let ours = on(threads, || || drop(recorder.region("region")));
        let prepared = on(threads, || || drop(recorder.region(label)));
        println!(
            "{threads} threads: measureme {measureme:.1} ns, region(\"…\") {ours:.1} ns, region(label) {prepared:.1} ns, ratio {:.2}",
            measureme / ours
        );
    }
    recorder.finish()?;
    Ok(())
}
