//! Programs that once went wrong under the virtual PMU: each does under it what it does natively.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used)] // helpers of tests

mod support;

use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use support::{built, fixed_layout, launch};
use truecount_engine::virt::{Cache, Options, Outcome};

/// What a program did.
#[derive(Debug, PartialEq, Eq)]
struct Did {
    code: Option<i32>,
    signal: Option<i32>,
    output: String,
}

fn did(status: std::process::ExitStatus, output: String) -> Did {
    Did {
        code: status.code(),
        signal: status.signal(),
        output,
    }
}

/// Runs a program under the virtual PMU; `None` (and a printed reason) where the machine forbids ptrace.
fn under_virtual_pmu(mut command: Command, options: &Options) -> Option<(Did, Outcome)> {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    command.stdout(writer).stderr(Stdio::inherit());
    fixed_layout(&mut command);
    let running = launch(&mut command, options)?;
    // The command holds an end of the pipe.
    drop(command);
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = reader.read_to_string(&mut text);
        text
    });
    let outcome = running.wait().expect("the engine ends well");
    let output = reading.join().expect("reads");
    Some((did(outcome.status, output), outcome))
}

/// Builds a program of `tests/trust` and runs it natively and under the virtual PMU, `rounds` times with either way of
/// counting: it must do the same.
fn same_as_native(name: &str, source: &str, arguments: &[&str], rounds: usize) -> Option<Did> {
    let arguments = [&["-O1", "-pthread"], arguments].concat();
    let program = built(&format!("trust-{name}.c"), source, &arguments)?;
    // The same addresses: where they are drawn, a program that maps at fixed ones may meet its own heap.
    let mut native = Command::new(&program);
    fixed_layout(&mut native);
    let native = native.output().expect("it was just built");
    let native = did(
        native.status,
        String::from_utf8_lossy(&native.stdout).into_owned(),
    );
    for round in 0..rounds {
        for per_block in [false, true] {
            let options = Options::default().per_block(per_block);
            let (under, _) = under_virtual_pmu(Command::new(&program), &options)?;
            assert_eq!(
                under, native,
                "{name}, round {round}, per block: {per_block}"
            );
        }
    }
    Some(native)
}

fn good(name: &str, source: &str, arguments: &[&str], rounds: usize) {
    if let Some(native) = same_as_native(name, source, arguments, rounds) {
        assert_eq!(
            (native.code, native.output.as_str()),
            (Some(0), "good\n"),
            "{name}"
        );
    }
}

#[test]
fn threads_after_vfork_children_that_ended_by_exit_have_stacks_of_their_own() {
    good("vfork_exit", include_str!("trust/vfork_exit.c"), &[], 4);
}

#[test]
fn a_child_that_shares_memory_keeps_its_stack_while_it_runs() {
    good("shared_child", include_str!("trust/shared_child.c"), &[], 2);
}

/// `mov eax, VALUE; ret` and the like, for programs that write code.
const CODE: &str = include_str!("trust/code.h");

fn good_code(name: &str, source: &str, rounds: usize) {
    let source = source.replacen("#include \"code.h\"", CODE, 1);
    good(name, &source, &[], rounds);
}

#[test]
fn code_that_lost_its_execute_permission_cannot_be_called() {
    good_code("lost_execute", include_str!("trust/lost_execute.c"), 1);
}

#[test]
fn handlers_are_cleared_for_a_child_that_asks_for_it() {
    good_code("clear_handlers", include_str!("trust/clear_handlers.c"), 1);
}

#[test]
fn code_that_system_calls_write_is_executed_as_written() {
    good_code("written_code", include_str!("trust/written_code.c"), 1);
}

#[test]
fn code_that_a_child_writes_is_executed_as_written() {
    good_code("child_writes", include_str!("trust/child_writes.c"), 3);
}

/// Trampolines on a stack that grows, code next to data that is written all the time, code that writes itself.
#[test]
fn code_on_pages_that_are_written_all_the_time_runs() {
    good_code("nested", include_str!("trust/nested.c"), 1);
}

#[test]
fn code_that_another_thread_supplies_when_it_is_touched_runs() {
    good_code("supplied", include_str!("trust/supplied.c"), 1);
}

#[test]
fn children_that_execute_all_at_once_are_all_followed() {
    let arguments = ["-static"];
    good(
        "exec_at_once",
        include_str!("trust/exec_at_once.c"),
        &arguments,
        1,
    );
}

/// Places to count in are taken again once their threads are gone, and nothing that they counted is lost.
#[test]
fn more_threads_and_processes_than_places_are_counted() {
    let source = include_str!("trust/many.c");
    let Some(program) = built("trust-many.c", source, &["-O1", "-pthread", "-static"]) else {
        return;
    };
    let run = |options: &Options, rounds: &str| {
        let mut command = Command::new(&program);
        command.arg(rounds);
        let (under, outcome) = under_virtual_pmu(command, options)?;
        assert_eq!(
            (under.code, under.output.as_str()),
            (Some(0), "good\n"),
            "{rounds} rounds"
        );
        assert_eq!(outcome.totals.uncounted, 0);
        Some(outcome.totals)
    };
    let all = Options::default();
    let few = all.clone().slot_limit(40);
    for rounds in ["60", "+60"] {
        let Some(plain) = run(&all, rounds) else {
            return;
        };
        let reused = run(&few, rounds).expect("it ran before");
        let retired = reused.threads.iter().find(|thread| thread.slot == 0);
        assert!(retired.is_some(), "no place was taken again");
        assert!(plain.threads.len() > 70 && reused.threads.len() <= 40);
        if rounds.starts_with('+') {
            assert_eq!(reused.instructions(), plain.instructions());
        }
    }
}

/// At the bound itself there is a report.
#[test]
fn too_many_at_the_same_time_end_with_a_report() {
    let source = "#include <unistd.h>\n#include <sys/wait.h>\n\
        int main(void) { for (int i = 0; i < 100; i++) if (!fork()) { sleep(1); _exit(0); }\n\
        while (wait(0) > 0); return 0; }";
    let Some(program) = built("trust-too-many.c", source, &["-O1"]) else {
        return;
    };
    let mut command = Command::new(program);
    let Some(running) = launch(&mut command, &Options::default().slot_limit(30)) else {
        return;
    };
    let error = running.wait().expect_err("no place is left");
    let text = error.to_string();
    assert!(
        text.contains("more than 30 threads and processes"),
        "{text}"
    );
}

#[test]
fn limits_that_a_program_sets_are_its_own_and_all_its_memory_can_be_locked() {
    good("limits", include_str!("trust/limits.c"), &[], 1);
}

/// Sets a limit for a program, the hard one, too.
fn limit(command: &mut Command, resource: libc::__rlimit_resource_t, bytes: u64) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: one async-signal-safe call on a local.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit {
                rlim_cur: bytes,
                rlim_max: bytes,
            };
            match libc::setrlimit(resource, &raw const limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

/// `ulimit -v` of a few gigabytes leaves room for the engine, also where nobody may raise it.
#[test]
fn programs_with_little_address_space_are_counted() {
    for per_block in [false, true] {
        let options = Options::default().per_block(per_block);
        let Some((_, free)) = under_virtual_pmu(Command::new("true"), &options) else {
            return;
        };
        for bytes in [4_000_000 << 10, 1_000_000 << 10, 600_000 << 10] {
            let mut command = Command::new("true");
            limit(&mut command, libc::RLIMIT_AS, bytes);
            let (did, outcome) = under_virtual_pmu(command, &options).expect("it ran before");
            assert_eq!(did.code, Some(0), "{bytes} bytes");
            let [limited, free] = [&outcome, &free].map(|outcome| outcome.totals.instructions());
            assert_eq!(limited, free, "{bytes} bytes, per block: {per_block}");
        }
    }
}

/// Where the engine finds no memory the program does not run under it, and nothing of it has been executed.
#[test]
fn without_memory_for_the_engine_nothing_of_the_program_runs() {
    use truecount_engine::virt::{LaunchError, launch};
    for (resource, bytes) in [
        (libc::RLIMIT_AS, 300 << 20),
        (libc::RLIMIT_AS, 100 << 20),
        (libc::RLIMIT_DATA, 100 << 20),
    ] {
        let mark = std::env::temp_dir().join(format!("truecount-limit-{}", std::process::id()));
        let mut command = Command::new("touch");
        command.arg(&mark);
        limit(&mut command, resource, bytes);
        match launch(&mut command, &Options::default()) {
            // Who may raise limits (root) finds memory.
            Ok(running) => {
                let outcome = running.wait().expect("the engine ends well");
                assert!(outcome.status.success() && outcome.totals.instructions() > 10_000);
                std::fs::remove_file(&mark).expect("the program has made it");
            }
            Err(LaunchError::Start { reason }) => {
                assert!(reason.contains("errno 12"), "{reason}");
                assert!(!mark.exists(), "something of the program ran");
            }
            Err(LaunchError::PtraceForbidden { error }) => {
                truecount_testing::skip!("virtual", "ptrace is not permitted: {error}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Pending until it is waited for, as natively; a fault ends the program although its signal is blocked.
#[test]
fn signals_of_faults_that_are_blocked_stay_pending() {
    let source = include_str!("trust/blocked_faults.c").replacen("#include \"code.h\"", CODE, 1);
    if let Some(native) = same_as_native("blocked_faults", &source, &[], 3) {
        assert!(native.output.ends_with("good\n"), "{}", native.output);
    }
}

/// User dispatch, seccomp's strict mode, filters that end who opens files: with kept translations, too.
#[test]
fn programs_that_restrict_their_system_calls_run() {
    let source = include_str!("trust/confined.c").replacen("#include \"code.h\"", CODE, 1);
    let Some(native) = same_as_native("confined", &source, &[], 1) else {
        return;
    };
    assert!(native.output.ends_with("good\ngood\n"), "{}", native.output);
    let directory =
        truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("trust-confined.cache");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&directory)
        .expect("a directory of the test's");
    for run in 0..3 {
        let mut options = Options::default();
        options.cache = Some(Cache::open(&directory).expect("it is ours alone"));
        let program =
            truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("trust-confined");
        let Some((under, _)) = under_virtual_pmu(Command::new(program), &options) else {
            return;
        };
        assert_eq!(under, native, "run {run} with kept translations");
    }
}

/// A filter that sends calls to a handler, also those that the runtime makes for the program.
#[test]
fn calls_that_a_sandbox_answers_itself_come_to_its_handler() {
    good_code("trapped", include_str!("trust/trapped.c"), 2);
}

/// A filter that ends the process for what only the runtime asks.
#[test]
fn nothing_is_asked_for_a_sandboxed_program() {
    good_code("sandboxed", include_str!("trust/sandboxed.c"), 1);
}

/// Who attached memory had all pages forgotten that were being watched, but not their permissions: EFAULT, SIGSEGV.
#[test]
fn code_can_be_written_when_memory_has_been_attached() {
    good_code("attached", include_str!("trust/attached.c"), 1);
}

/// More mappings with code than there were places for; no /proc, no descriptor to open it with.
#[test]
fn code_is_mapped_many_times_and_where_proc_cannot_be_opened() {
    good_code("mappings", include_str!("trust/mappings.c"), 1);
}

#[test]
fn what_was_killed_in_the_middle_of_a_block_is_known() {
    let source = include_str!("trust/killed.c");
    let killed = |how: &str| {
        let program = built("trust-killed.c", source, &["-O1", "-pthread"])?;
        let mut command = Command::new(program);
        command.arg(how);
        let (_, outcome) = under_virtual_pmu(command, &Options::default())?;
        assert_eq!(outcome.totals.left_out, None, "{how}");
        assert_eq!(outcome.totals.uncounted, 0, "{how}");
        let threads = outcome.totals.threads.iter();
        Some(threads.filter(|thread| !thread.whole).count())
    };
    for (how, cut) in [("0", 2), ("7", 1)] {
        let Some(found) = killed(how) else { return };
        assert_eq!(found, cut, "{how}");
    }
    // In a system call, by a fault, by their own signals, before their first instruction, the count is whole.
    for how in ["1", "2", "3", "4", "5", "8"] {
        assert_eq!(killed(how), Some(0), "{how}");
    }
    // (Some of these got as far as the program's own start.)
    assert!(killed("6").is_some());
}

/// A program of 32 bits: `mov eax, 1; xor ebx, ebx; int 0x80`.
fn exit_of_32_bits() -> Vec<u8> {
    let base = 0x0804_8000u32;
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0\x01\0\0\0".to_vec();
    let code = [0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80];
    let length = 84 + code.len() as u32;
    for word in [base + 84, 52, 0, 0] {
        file.extend(u32::to_le_bytes(word));
    }
    for half in [52u16, 32, 1, 0, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    for word in [1, 0, base, base, length, length, 5, 0x1000] {
        file.extend(u32::to_le_bytes(word));
    }
    file.extend(code);
    file
}

#[test]
fn the_program_that_is_not_counted_is_named() {
    let path = std::env::temp_dir().join(format!("truecount-32-bits-{}", std::process::id()));
    std::fs::write(&path, exit_of_32_bits()).expect("a temporary file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("its own file");
    if Command::new(&path).status().is_err() {
        truecount_testing::skip("ia32", "this kernel runs no programs of 32 bits");
        let _ = std::fs::remove_file(&path);
        return;
    }
    let mut command = Command::new("/bin/sh");
    command
        .arg("-c")
        .arg(format!("{}; :", truecount_testing::quoted(&path)));
    let outcome = under_virtual_pmu(command, &Options::default());
    let _ = std::fs::remove_file(&path);
    let Some((_, outcome)) = outcome else { return };
    assert_eq!(outcome.totals.uncounted, 1);
    let first = outcome.totals.left_out.expect("it is named");
    assert!(
        first.contains("truecount-32-bits") && first.ends_with("no 64-bit program"),
        "{first}"
    );
}

#[test]
fn programs_that_use_gs_run() {
    good("gs", include_str!("trust/gs.c"), &["-w"], 1);
}

/// The engine is nowhere where programs want to be.
#[test]
fn programs_map_memory_at_addresses_of_their_choice() {
    good(
        "fixed",
        include_str!("trust/fixed.c"),
        &["-fpie", "-pie"],
        1,
    );
    good(
        "fixed-low",
        include_str!("trust/fixed.c"),
        &["-no-pie", "-static"],
        1,
    );
}

/// Sanitizers map and forbid most of the address space at places of their own (GCC's here; where a compiler has others,
/// they keep to the same ones).
#[test]
fn programs_with_sanitizers_run() {
    let source = include_str!("trust/threads.c");
    for sanitizer in ["thread", "address", "undefined"] {
        let flag = format!("-fsanitize={sanitizer}");
        let arguments = [flag.as_str(), "-g"];
        let name = format!("trust-{sanitizer}.c");
        // (Not every compiler has every run-time library.)
        if built(
            &name,
            source,
            &[&["-pthread", "-O1"][..], &arguments].concat(),
        )
        .is_none()
        {
            continue;
        }
        good(sanitizer, source, &arguments, 1);
    }
}

/// Critical sections that come with a library are not executed: no kernel could interrupt them in translated code.
#[test]
fn restartable_sequences_of_libraries_end_with_a_report() {
    let source = "#include <stdio.h>\n__asm__(\".data\\n.balign 32\\nsection: .quad 0, first, last - first, 3f\\n\"\n\
        \".text\\n.long 0x53053053\\n3: ret\\n\"\n\
        \".globl work\\nwork: lea section(%rip), %rax\\nfirst: nop\\nlast: ret\\n\");\n\
        void work(void);\nint main(int n, char **v) { puts(\"begun\"); fflush(stdout); if (n > 1) work(); return 0; }";
    let Some(program) = built("trust-sequences.c", source, &["-O1"]) else {
        return;
    };
    for (argument, registers) in [(false, true), (true, false), (true, true)] {
        let mut command = Command::new(&program);
        command.args(argument.then_some("work"));
        if !registers {
            command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        }
        let Some(running) = launch(&mut command, &Options::default()) else {
            return;
        };
        match running.wait() {
            Ok(outcome) => {
                assert!(outcome.status.success());
                assert!(!(argument && registers), "it was executed");
            }
            Err(error) => {
                let text = error.to_string();
                assert!(argument && registers, "{text}");
                assert!(
                    text.contains("GLIBC_TUNABLES=glibc.pthread.rseq=0"),
                    "{text}"
                );
            }
        }
    }
}

/// Looking for a block takes no longer the more there are: 50,000 changes of a function and 2,000 faults among 20,000
/// blocks took minutes when it did.
#[test]
fn functions_that_are_written_anew_all_the_time_take_little_time() {
    let start = std::time::Instant::now();
    good_code("rewritten", include_str!("trust/rewritten.c"), 1);
    let seconds = start.elapsed().as_secs();
    assert!(seconds < 60, "{seconds} s");
}

/// A page of larger ones cannot be protected alone.
#[test]
fn code_on_huge_pages_runs() {
    good_code("huge", include_str!("trust/huge.c"), 1);
}
