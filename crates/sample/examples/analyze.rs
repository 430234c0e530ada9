//! Prints what `blocks::analyze` finds: `cargo run --release -p truecount-sample --example analyze -- FILE`.
use truecount_sample::{Recording, blocks};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: analyze FILE")?;
    let recording = Recording::open(path.as_ref())?;
    let a = blocks::analyze(&recording)??;
    println!("{:#?}\n{:?}", a.cleaning, a.misprediction);
    for b in a.blocks.iter().take(12) {
        let h = b.all_cycles();
        println!(
            "{:?} {:#x}..{:#x} n={} mis={} cycles={} mean={:?} p50={:?} modes={:?}",
            b.file,
            b.start,
            b.end,
            b.count(),
            b.mispredicted.count(),
            b.total_cycles(),
            h.mean(),
            h.percentile(0.5),
            h.modes()
                .iter()
                .map(|m| (m.cycles, (m.weight * 1000.0).round() / 10.0))
                .collect::<Vec<_>>()
        );
    }
    for l in a.loops.iter().take(8) {
        println!(
            "loop {:#x} back {:#x} iterations {} trips {:?} ({}/{}) p50 {:?} bodies {:?}",
            l.header,
            l.back_edge,
            l.iterations,
            l.trip_count(),
            l.header_executions,
            l.entries,
            l.cycles.percentile(0.5),
            l.bodies
                .iter()
                .take(3)
                .map(|b| (b.blocks.len(), b.count))
                .collect::<Vec<_>>()
        );
    }
    for p in a.paths.iter().take(5) {
        println!(
            "path {:?} loop {} n={} per pass {:?}",
            p.blocks, p.is_loop, p.count, p.cycles_per_pass
        );
    }
    Ok(())
}
