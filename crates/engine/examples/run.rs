//! Runs a command under the virtual PMU and prints its counts: the smallest user of
//! `virt`.
use std::process::Command;
use truecount_engine::virt;

fn main() {
    let mut args = std::env::args_os().skip(1);
    let Some(program) = args.next() else {
        eprintln!("usage: run PROGRAM [ARGUMENTS]");
        std::process::exit(2);
    };
    let mut command = Command::new(program);
    command.args(args);
    // ENGINE_EVENTS=1: per-block counters, every event.
    let per_block = std::env::var_os("ENGINE_EVENTS").is_some_and(|v| v == "1");
    // ENGINE_CLOCK=1: clocks of the engine's.
    let own_clock = std::env::var_os("ENGINE_CLOCK").is_some_and(|v| v == "1");
    let mut options = virt::Options::default()
        .per_block(per_block)
        .own_clock(own_clock)
        .in_turn(std::env::var_os("ENGINE_TURN").is_some_and(|v| v == "1"));
    // ENGINE_MACHINE=x86-64-v3: a reference machine; ENGINE_RANDOM=1: random devices of the engine's.
    if let Ok(name) = std::env::var("ENGINE_MACHINE") {
        match truecount_engine::machine::Machine::named(&name) {
            Ok(machine) => options.machine = Some(machine),
            Err(error) => eprintln!("{error}"),
        }
    }
    // ENGINE_CLEAN=1: no environment but a locale.
    if std::env::var_os("ENGINE_CLEAN").is_some_and(|v| v == "1") {
        command.env_clear().env("LC_ALL", "C");
    }
    options.own_random = std::env::var_os("ENGINE_RANDOM").is_some_and(|v| v == "1");
    if let Some(directory) = std::env::var_os("ENGINE_CACHE") {
        match virt::Cache::open(directory.as_ref()) {
            Ok(cache) => options.cache = Some(cache),
            Err(error) => eprintln!("no cache: {error}"),
        }
    }
    let running = match virt::launch(&mut command, &options) {
        Ok(running) => running,
        Err(error) => {
            eprintln!("truecount: {error}");
            std::process::exit(125);
        }
    };
    match running.wait() {
        Ok(outcome) => {
            use std::os::unix::process::ExitStatusExt;
            let status = outcome.status;
            let code = status.code().unwrap_or(128 + status.signal().unwrap_or(0));
            if std::env::var_os("ENGINE_QUIET").is_some() {
                std::process::exit(code);
            }
            if std::env::var_os("ENGINE_THREADS").is_some() {
                for thread in &outcome.totals.threads {
                    eprintln!("{thread:?}");
                }
            }
            let sum = |f: fn(&virt::ThreadTotals) -> u64| -> u64 {
                outcome.totals.threads.iter().map(f).sum()
            };
            eprintln!(
                "{} instructions:u, {} blocks translated, {} from disk",
                outcome.totals.instructions(),
                sum(|t| t.translated),
                sum(|t| t.cached)
            );
            if outcome.totals.clock_followed > 0 {
                let times = outcome.totals.clock_followed;
                eprintln!("the clock was set on after the real one {times} times");
            }
            for outside in &outcome.totals.outside {
                eprintln!("outside: {} times: {}", outside.times, outside.what);
            }
            for event in virt::Event::ALL {
                if let Some(count) = outcome.totals.event(event) {
                    eprintln!("{count} {}:u", event.name());
                }
            }
            std::process::exit(code);
        }
        Err(error) => {
            eprintln!("truecount: {error}");
            std::process::exit(123);
        }
    }
}
