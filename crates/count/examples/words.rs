//! Counts words, in regions of `instructions:u`. A `HashMap` draws its seed from the system: the work of inserting and
//! the order that comes out differ from run to run. `truecount noise` says which factor does it, and in which region:
//! `truecount noise -- target/release/examples/words` (see docs/determinism.md).

use std::collections::HashMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recorder = truecount::Recorder::with_counters("words", &["instructions:u"])?;
    let text: String = {
        let _region = recorder.region("write");
        let words = (0..2000_u32).map(|number| format!("w{} ", number * number % 997));
        words.collect()
    };
    let mut counts: HashMap<&str, u32> = HashMap::new();
    {
        let _region = recorder.region("count");
        for word in text.split_whitespace() {
            *counts.entry(word).or_default() += 1;
        }
    }
    let mut sorted: Vec<(&str, u32)> = {
        let _region = recorder.region("collect");
        counts.into_iter().collect()
    };
    {
        let _region = recorder.region("sort");
        sorted.sort_unstable_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
    }
    println!("{} words, most often {:?}", sorted.len(), sorted.first());
    recorder.finish()?;
    Ok(())
}
