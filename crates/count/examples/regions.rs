//! Records N empty regions of a counter: `regions COUNTER N PATH`. For counting what a region costs from outside:
//! the difference of two runs' instructions, divided by the difference of their Ns.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, counter, count, path] = arguments.as_slice() else {
        return Err("usage: regions COUNTER N PATH".into());
    };
    let count: u32 = count.parse()?;
    let recorder = truecount::Recorder::with_counters(path, &[counter])?;
    let label = recorder.label("region");
    for _ in 0..count {
        let _region = recorder.region(label);
    }
    recorder.finish()?;
    Ok(())
}
