//! What a region costs, to be counted from outside: `regions COUNTER N PATH` records N empty regions, and
//! `regions COUNTER N -` only reads the counter twice, N times. The difference of two runs' instructions, divided
//! by the difference of their Ns, is what one takes.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, counter, count, path] = arguments.as_slice() else {
        return Err("usage: regions COUNTER N PATH|-".into());
    };
    let count: u32 = count.parse()?;
    if path == "-" {
        let counter: truecount::Counter = truecount::Counter::open(counter)?;
        for _ in 0..count {
            std::hint::black_box(counter.read());
            std::hint::black_box(counter.read());
        }
        return Ok(());
    }
    let recorder = truecount::Recorder::with_counters(path, &[counter])?;
    let label = recorder.label("region");
    for _ in 0..count {
        let _region = recorder.region(label);
    }
    recorder.finish()?;
    Ok(())
}
