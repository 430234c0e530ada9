//! What regions of a program cost, on two threads, exactly where the machine can.
//!
//! `cargo run --release -p truecount --example regions [EVENT]`

use std::hint::black_box;
use truecount::{Counter, Error, Fence, PerThread};

fn fibonacci(n: u32) -> u64 {
    if n < 2 {
        u64::from(n)
    } else {
        fibonacci(n - 1) + fibonacci(n - 2)
    }
}

fn main() -> Result<(), Error> {
    let event = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "instructions-minus-irqs:u".to_owned());
    let best = Counter::<Fence>::open_or_best(&event);
    let counter = best.counter;
    if let Some(reason) = best.instead_because {
        println!("counting {} instead: {reason}", counter.name());
    }
    println!(
        "{} from {}, read by {:?}",
        counter.name(),
        counter.source(),
        counter.method()
    );

    // A region: two reads. The cost of the reads themselves is the least count of an empty region.
    let empty = counter.overhead(100);
    for n in [10, 20, 25] {
        let start = counter.read();
        black_box(fibonacci(black_box(n)));
        let cost = counter.since(start).saturating_sub(empty);
        println!("fibonacci({n}): {cost} {}", counter.unit());
    }
    if let Err(reason) = counter.check() {
        println!("do not believe these: {reason}");
    }

    // The same on two threads: every thread reads its own counter.
    let everywhere = PerThread::<Fence>::new(counter.name())?;
    std::thread::scope(|scope| {
        for n in [20, 21] {
            let everywhere = &everywhere;
            scope.spawn(move || match everywhere.counter() {
                Ok(counter) => {
                    let start = counter.read();
                    black_box(fibonacci(black_box(n)));
                    println!(
                        "thread: fibonacci({n}): {} {}",
                        counter.since(start),
                        counter.unit()
                    );
                }
                Err(error) => println!("thread: {error}"),
            });
        }
    });
    Ok(())
}
