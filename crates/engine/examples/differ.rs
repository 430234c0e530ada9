//! Where the virtual PMU and single-stepping disagree about a command, address by address.
//!
//! ```text
//! cargo run --release -p truecount-engine --example differ -- grep -c root /etc/passwd
//! ```
//! Lines are address, executions by stepping, executions by the engine. The program's output is dropped.

fn main() {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    differ::main();
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod differ {
    use std::collections::BTreeMap;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio, exit};
    use truecount_engine::{step, virt};

    fn command(words: &[String]) -> Command {
        let Some((program, arguments)) = words.split_first() else {
            eprintln!("usage: differ COMMAND [ARGUMENT…]");
            exit(2);
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: one system call without memory arguments.
        unsafe {
            command.pre_exec(|| {
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                Ok(())
            });
        }
        command
    }

    pub(super) fn main() {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let mut places: BTreeMap<u64, (u64, u64, String)> = BTreeMap::new();
        let options = virt::Options::default().per_block(true);
        let outcome = virt::launch(&mut command(&words), &options).and_then(virt::Running::wait);
        let blocks = match outcome {
            Ok(outcome) => outcome.blocks,
            Err(error) => {
                eprintln!("{error}");
                exit(1);
            }
        };
        if let Some(blocks) = blocks {
            blocks.each(&mut |executed| {
                let mut pc = executed.pc;
                for facts in executed.facts {
                    let place = places.entry(pc).or_default();
                    place.1 = place.1.wrapping_add(executed.times);
                    if let Some(mapping) = executed.mapping {
                        let offset = pc.wrapping_sub(mapping.start).wrapping_add(mapping.offset);
                        place.2 = format!("{}+{offset:#x}", mapping.path.display());
                    }
                    pc = pc.wrapping_add(facts.len());
                }
            });
        }
        let mut see = |_, pc: u64| places.entry(pc).or_default().0 += 1;
        let options = step::StepOptions {
            retired: Some(&mut see),
            ..step::StepOptions::default()
        };
        if let Err(error) = step::run(command(&words), options) {
            eprintln!("{error}");
            exit(1);
        }
        let mut sums = (0u64, 0u64);
        for (pc, (stepped, counted, place)) in &places {
            sums = (sums.0 + stepped, sums.1.wrapping_add(*counted));
            if stepped != counted {
                println!("{pc:#x} {stepped} {counted} {place}");
            }
        }
        println!("sum {} {}", sums.0, sums.1);
    }
}
