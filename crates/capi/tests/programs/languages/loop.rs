//! Loops of known length: what is counted beyond them, at least (a PMU counts interrupts, too).

use std::hint::black_box;
use truecount::{Counter, Fence, known_loop};

fn main() {
    let counter = match Counter::<Fence>::open("instructions:u") {
        Ok(counter) => counter,
        Err(error) => {
            println!("no counter: {error}");
            std::process::exit(3);
        }
    };
    let overhead = counter.overhead(16);
    for size in [1000, 100_000, 1000, 100_000] {
        let mut least = u64::MAX;
        let mut length = None;
        for _ in 0..20 {
            let start = counter.read();
            length = known_loop(black_box(size));
            least = least.min(counter.since(start));
        }
        println!("beyond {}", least as i64 - overhead as i64 - length.unwrap_or(0) as i64);
    }
}
