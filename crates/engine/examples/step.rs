//! Counts a program's user-mode instructions by single-stepping: `cargo run --example step -- true`.

use truecount_engine::step::{StepOptions, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next().ok_or("usage: step PROGRAM [ARGUMENT…]")?;
    let mut command = std::process::Command::new(program);
    command.args(arguments);
    let totals = run(command, StepOptions::default())?;
    eprintln!("{:?}", totals.exit);
    for t in &totals.threads {
        eprintln!("process {} thread {}: {}", t.pid, t.tid, t.instructions);
    }
    eprintln!("{} instructions:u", totals.instructions());
    Ok(())
}
