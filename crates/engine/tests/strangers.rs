//! Programs of kinds that the engine's own tests had not: what they do natively, they do under it.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used)] // helpers of tests

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{built, fixed_layout, launch, run};
use truecount_engine::machine::Machine;
use truecount_engine::virt::{Options, Totals};

fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::null());
    command
}

fn program(name: &str, source: &str, arguments: &[&str]) -> Option<PathBuf> {
    let arguments = [&["-O1", "-w", "-pthread"], arguments].concat();
    built(&format!("strangers-{name}.c"), source, &arguments)
}

/// The same output and status as natively, either way of counting; the counts of the last run.
fn same(name: &str, source: &str, arguments: &[&str]) -> Option<Totals> {
    let program = program(name, source, &[])?;
    let mut native = command(&program, arguments);
    fixed_layout(&mut native);
    let native = native.output().expect("it was just built");
    let expected = String::from_utf8_lossy(&native.stdout).into_owned();
    let mut last = None;
    for per_block in [false, true] {
        let options = Options::default().per_block(per_block);
        let (status, output, totals) = run(command(&program, arguments), &options)?;
        assert_eq!(output, expected, "{name}, per block: {per_block}");
        assert_eq!(status, native.status, "{name}, per block: {per_block}");
        assert!(totals.failure.is_none(), "{:?}", totals.failure);
        last = Some(totals);
    }
    last
}

/// Address 0 is one that programs jump to, and the engine had it for none at all: it ended with a report of its own.
#[test]
fn calls_to_nowhere_fault_where_they_lead() {
    let source = include_str!("strangers/nowhere.c");
    if same("nowhere", source, &[]).is_none() {
        return;
    }
    for which in ["0", "1", "2", "3", "4"] {
        let totals = same("nowhere", source, &[which]).expect("as before");
        // Where it goes is no address: the call itself faults, and was counted.
        let whole = which != "4";
        assert!(
            totals.threads.iter().all(|thread| thread.whole == whole),
            "{which}"
        );
    }
}

/// Handlers had the rounding, the masks and the registers of what they interrupted.
#[test]
fn handlers_begin_with_a_state_of_their_own() {
    same("afresh", include_str!("strangers/afresh.c"), &[]);
}

/// The runtime read code with the rights of the thread.
#[test]
fn code_that_cannot_be_read_is_executed() {
    same("keys", include_str!("strangers/keys.c"), &[]);
}

/// A fault of the runtime's own reading ended the run.
#[test]
fn code_of_files_that_are_truncated_faults() {
    same("gone", include_str!("strangers/gone.c"), &[]);
}

#[test]
fn instructions_that_cannot_be_fault_where_they_are() {
    same("invalid", include_str!("strangers/invalid.c"), &[]);
}

/// The runtime reads the counter in the program's place, and the fault was its own.
#[test]
fn the_time_stamp_counter_is_forbidden() {
    same("stamps", include_str!("strangers/stamps.c"), &[]);
}

/// What a tracer wrote was told to a process that was being replaced, and the next program was killed by that.
#[test]
fn tracers_exchange_the_paths_of_their_tracees() {
    let Some(program) = program("exchanges", include_str!("strangers/exchanges.c"), &[]) else {
        return;
    };
    let Some((status, output, _)) = run(command(&program, &[]), &Options::default()) else {
        return;
    };
    assert_eq!(output, "it was exchanged\n1 stats; status 0\n");
    assert!(status.success(), "{status}");
}

/// A signal that the runtime put off had the next program begin with all signals blocked.
#[test]
fn signals_during_an_execve_leave_the_mask_as_it_is() {
    same("replaced", include_str!("strangers/replaced.c"), &[]);
}

/// The child is in nobody's schedule, and nobody could tell that its turn was over: the run stood still.
#[test]
fn children_in_a_namespace_of_process_ids_go_on_beside_the_schedule() {
    let Some(program) = program("apart", include_str!("strangers/apart.c"), &[]) else {
        return;
    };
    let native = command(&program, &[]).output().expect("it was just built");
    let expected = String::from_utf8_lossy(&native.stdout).into_owned();
    for in_turn in [false, true] {
        let options = Options::default().in_turn(in_turn);
        let Some((status, output, totals)) = run(command(&program, &[]), &options) else {
            return;
        };
        assert_eq!(output, expected, "in turn: {in_turn}");
        assert!(status.success(), "{status}");
        let apart = expected != "not allowed\n";
        assert_eq!(totals.outside.is_empty(), !(in_turn && apart));
    }
}

/// The kernel leaves no room below a stack with very many pointers, and what the launcher wrote there was lost: programs
/// were not counted, or, with a stack that had been arranged in part, did not find their libraries.
#[test]
fn programs_with_very_many_arguments_begin() {
    let echo = Path::new("/bin/echo");
    if !echo.is_file() {
        truecount_testing::skip!("tools", "no /bin/echo");
        return;
    }
    let machine = Machine::named("x86-64-v2").expect("a known one");
    for more in (0..512).step_by(37) {
        let words: Vec<String> = (0..40_000 + more).map(|n: u32| n.to_string()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        for machine in [None, Some(machine)] {
            let mut options = Options::default();
            options.machine = machine;
            let Some((status, output, totals)) = run(command(echo, &words), &options) else {
                return;
            };
            assert!(status.success(), "{more}: {status}");
            assert_eq!(output, words.join(" ") + "\n", "{more}");
            assert!(totals.instructions() > 0, "{more}");
        }
    }
}

/// Stepping oneself is not served: that is said, instead of steps that are left out.
#[test]
fn the_trap_flag_is_refused() {
    let source = r#"
        #include <signal.h>
        static volatile int steps;
        static void on(int signal) { steps++; }
        int main(void) {
            signal(SIGTRAP, on);
            __asm__ volatile("pushf; orl $0x100, (%rsp); popf; nop; nop; pushf; andl $~0x100, (%rsp); popf");
            return steps;
        }"#;
    let Some(program) = program("steps", source, &[]) else {
        return;
    };
    assert!(Command::new(&program).status().expect("built").code() > Some(2));
    let mut command = command(&program, &[]);
    let Some(running) = launch(&mut command, &Options::default()) else {
        return;
    };
    match running.wait() {
        Ok(outcome) => {
            let failure = outcome.totals.failure.unwrap_or_default();
            assert!(
                failure.contains("trap flag"),
                "{failure} {}",
                outcome.status
            );
        }
        Err(error) => assert!(error.to_string().contains("trap flag"), "{error}"),
    }
}
