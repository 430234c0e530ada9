//! Counts a command by single-stepping: the oracle beside `run`.
use std::process::Command;
use truecount_engine::step;

fn main() {
    let mut args = std::env::args_os().skip(1);
    let Some(program) = args.next() else {
        eprintln!("usage: step PROGRAM [ARGUMENTS]");
        std::process::exit(2);
    };
    let mut command = Command::new(program);
    command.args(args);
    match step::run(command, step::StepOptions::default()) {
        Ok(totals) => eprintln!("{} instructions:u", totals.instructions()),
        Err(error) => eprintln!("truecount: {error}"),
    }
}
