//! Runs in turn beside others, and beyond the end of the program: one number all the same.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::expect_used)] // tests

mod support;

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{built, fixed_layout, launch};
use truecount_engine::inputs::kind;
use truecount_engine::virt::{Options, Outcome};

/// One run, all of whose random numbers are the same in each; `None` where the machine forbids it.
fn once(program: &Path, arguments: &[&Path]) -> Option<(String, Outcome)> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::null());
    command.stdout(Stdio::piped());
    fixed_layout(&mut command);
    let options = Options::default().in_turn(true).own_getrandom(true);
    let mut running = launch(&mut command, &options.at_random(Some([7; 16])))?;
    let mut text = String::new();
    let mut output = running.child_mut().stdout.take().expect("a pipe");
    std::io::Read::read_to_string(&mut output, &mut text).expect("text");
    let outcome = running.wait().expect("an outcome");
    assert_eq!(outcome.status.code(), Some(0), "{text}");
    Some((text, outcome))
}

fn taken(outcome: &Outcome) -> u64 {
    let inputs = outcome.totals.inputs.iter();
    let taken = inputs.filter(|input| input.kind == kind::TAKEN_NAME);
    taken.map(|input| input.times).sum()
}

/// Temporary files have the same names in every run: beside another run the first name was taken, and the count another.
#[test]
fn temporary_files_of_another_run_are_waited_for() {
    let source = include_str!("alongside/names.c");
    let Some(program) = built("alongside-names.c", source, &["-w"]) else {
        return;
    };
    let directory = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("alongside-files");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir(&directory).expect("a directory of our own");
    let Some((name, alone)) = once(&program, &[&directory]) else {
        return;
    };
    let (again, second) = once(&program, &[&directory]).expect("as before");
    assert_eq!(again, name);
    assert_eq!(second.totals.instructions(), alone.totals.instructions());
    let make = || {
        let mut options = std::fs::OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600);
        made.open(name.trim_end()).expect("nobody has it");
    };
    // Another run has it for a while.
    make();
    let start = Instant::now();
    let remover = std::thread::spawn({
        let name = name.trim_end().to_owned();
        move || {
            std::thread::sleep(Duration::from_millis(700));
            std::fs::remove_file(name)
        }
    });
    let (beside, outcome) = once(&program, &[&directory]).expect("as before");
    assert!(start.elapsed() >= Duration::from_millis(600));
    remover.join().expect("no panic").expect("it was there");
    assert_eq!(beside, name);
    assert_eq!(outcome.totals.instructions(), alone.totals.instructions());
    assert_eq!(taken(&outcome), 0);
    // It stays.
    make();
    let (other, outcome) = once(&program, &[&directory]).expect("as before");
    assert_ne!(other, name);
    assert_eq!(taken(&outcome), 1);
}

/// How far it came before the program was seen to have ended was chance.
#[test]
fn processes_that_end_after_the_program_are_counted_to_their_end() {
    let source = include_str!("alongside/later.c");
    let Some(program) = built("alongside-later.c", source, &[]) else {
        return;
    };
    let mut counts = Vec::new();
    for _ in 0..5 {
        let Some((_, outcome)) = once(&program, &[]) else {
            return;
        };
        assert!(outcome.totals.threads.iter().all(|thread| thread.ended));
        counts.push(outcome.totals.instructions());
    }
    counts.dedup();
    assert_eq!(counts.len(), 1, "{counts:?}");
}
