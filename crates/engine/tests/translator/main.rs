//! Random code leaves the same state under the virtual PMU as natively, and executes as many instructions as
//! single-stepping counts.
//!
//! A run makes a few thousand cases from a fixed seed. Longer:
//! `TRUECOUNT_SECONDS=600 cargo test --release -p truecount-engine --test translator -- --ignored --nocapture`
//! (`TRUECOUNT_SEED` begins elsewhere).
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::precedence,
    clippy::cast_lossless,
    clippy::match_bool,
    reason = "helpers of tests, and encodings"
)]

mod case;
mod child;
mod choose;
mod generate;

use case::{Case, Outcome, SIGNAL};
use generate::Generator;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use truecount_engine::virt;

/// Set for the process that executes cases; its value is the file of the cases, `.out` beside it the results.
const CHILD: &str = "TRUECOUNT_TRANSLATOR_CASES";
/// How: any of the letters t (timer), s (stepping), p (in place), c (counting).
const HOW: &str = "TRUECOUNT_TRANSLATOR_HOW";

/// Executes the cases that a parent asks for; nothing otherwise.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let how = std::env::var(HOW).unwrap_or_default();
    let how = child::How {
        ticking: how.contains('t'),
        stepping: how.contains('s'),
        in_place: how.contains('p'),
        counting: how.contains('c'),
    };
    let words = child::run(&case::from_bytes(&std::fs::read(&path).unwrap()), how);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    std::fs::write(PathBuf::from(path).with_extension("out"), bytes).unwrap();
}

/// A directory for one batch of cases.
struct Batch {
    file: PathBuf,
}

impl Batch {
    fn new(name: &str, cases: &[Case]) -> Self {
        let file = truecount_testing::scratch(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}.cases", std::process::id()));
        std::fs::write(&file, case::to_bytes(cases)).unwrap();
        Self { file }
    }

    fn command(&self, how: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child", "--quiet", "--test-threads=1"])
            .env_clear()
            .env(CHILD, &self.file)
            .env(HOW, how)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        // SAFETY: one system call without memory arguments.
        unsafe {
            command.pre_exec(|| {
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
                Ok(())
            });
        }
        command
    }

    fn results(&self) -> Vec<(Outcome, u64)> {
        let path = self.file.with_extension("out");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        Outcome::all(&bytes)
    }

    fn natively(&self, how: &str) -> Vec<(Outcome, u64)> {
        let status = self.command(how).status().unwrap();
        assert!(
            status.success(),
            "natively: {status}; cases in {}",
            self.file.display()
        );
        self.results()
    }

    /// Results; `None` (and a printed reason) where the machine forbids ptrace.
    fn translated(&self, how: &str, per_block: bool) -> Option<Vec<(Outcome, u64)>> {
        let options = virt::Options::default().per_block(per_block);
        match virt::launch(&mut self.command(how), &options) {
            Ok(running) => match running.wait() {
                Ok(outcome) if outcome.status.success() => Some(self.results()),
                Ok(outcome) => panic!("translated: {}; {}", outcome.status, self.file.display()),
                Err(error) => panic!("{error}; cases in {}", self.file.display()),
            },
            Err(virt::LaunchError::PtraceForbidden { error }) => {
                truecount_testing::skip!("virtual", "ptrace is not permitted: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // Where the test fails the cases stay, to be looked at.
        if !std::thread::panicking() {
            let _ = std::fs::remove_file(&self.file);
        }
    }
}

/// A case in words: bytes and instructions.
fn listing(number: usize, case: &Case) -> String {
    use iced_x86::{Decoder, DecoderOptions};
    let address = Case::address(number);
    let mut text = format!("case {number}: {case:x?}\n");
    for instruction in Decoder::with_ip(64, &case.code, address, DecoderOptions::NONE) {
        let from = (instruction.ip() - address) as usize;
        let bytes = &case.code[from..from + instruction.len()];
        text += &format!("{from:4}: {:?} {bytes:02x?}\n", instruction.code());
        if instruction.code() == iced_x86::Code::Jmp_rm64 {
            break;
        }
    }
    text
}

/// The case alone, with as many instructions as possible replaced by `nop`, and what differs then.
fn shrink(number: usize, case: &Case, how: &str) -> (Case, Vec<String>) {
    use iced_x86::{Code, Decoder, DecoderOptions};
    let rest = |number| Case {
        code: generate::nothing(number),
        ..case.clone()
    };
    let differences = |case: &Case| -> Vec<String> {
        let mut cases: Vec<Case> = (0..number).map(rest).collect();
        cases.push(case.clone());
        let batch = Batch::new("shrink", &cases);
        let native = batch.natively(how);
        // A case that has lost something may end differently altogether.
        let run = || batch.translated(how, false).expect("it worked before");
        let translated = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        translated.map_or(Vec::new(), |translated| {
            native[number].0.differences(&translated[number].0)
        })
    };
    let mut small = case.clone();
    for i in Decoder::with_ip(64, &case.code, 0, DecoderOptions::NONE) {
        if i.code() == Code::Jmp_rm64 && i.len() == 6 {
            break;
        }
        // What ends loops and keeps the stack stays.
        let counts = matches!(i.code(), Code::Mov_r32_imm32 | Code::Dec_rm32);
        if counts || i.flow_control() != iced_x86::FlowControl::Next || i.is_stack_instruction() {
            continue;
        }
        let mut smaller = small.clone();
        smaller.code[i.ip() as usize..i.next_ip() as usize].fill(0x90);
        if !differences(&smaller).is_empty() {
            small = smaller;
        }
    }
    let still = differences(&small);
    (small, still)
}

fn compare(cases: &[Case], native: &[(Outcome, u64)], translated: &[(Outcome, u64)], how: &str) {
    assert_eq!(native.len(), cases.len());
    assert_eq!(translated.len(), cases.len());
    for (number, case) in cases.iter().enumerate() {
        let differences = native[number].0.differences(&translated[number].0);
        if !differences.is_empty() {
            println!("{differences:#?}\n{}", listing(number, case));
            let (small, still) = shrink(number, case, how);
            panic!(
                "how {how:?}: {differences:#?}\nwith less: {still:#?}\n{}",
                listing(number, &small)
            );
        }
    }
}

/// Cases of one seed, natively and translated in several ways. Gives how many ran to their end.
fn round(name: &str, seed: u64, count: usize) -> Option<usize> {
    let mut generator = Generator::new(seed);
    let cases: Vec<Case> = (0..count).map(|number| generator.case(number)).collect();
    let batch = Batch::new(name, &cases);
    let native = batch.natively("");
    for (how, per_block) in [("", false), ("", true), ("t", false)] {
        let translated = batch.translated(how, per_block)?;
        compare(&cases, &native, &translated, how);
    }
    Some(
        native
            .iter()
            .filter(|(outcome, _)| outcome.0[SIGNAL] == 0)
            .count(),
    )
}

#[test]
fn random_code_leaves_the_same_state() {
    if let Some(ended) = round("state", 1, 2000) {
        println!("{ended} of 2000 cases without a fault");
        assert!(ended > 1000, "{ended}");
    }
}

#[test]
fn random_code_that_replaces_itself_leaves_the_same_state() {
    let mut generator = Generator::new(2);
    let cases: Vec<Case> = (0..300).map(|_| generator.case(0)).collect();
    let batch = Batch::new("in-place", &cases);
    let native = batch.natively("p");
    if let Some(translated) = batch.translated("p", false) {
        compare(&cases, &native, &translated, "p");
    }
}

#[test]
fn random_code_is_counted_as_single_stepping_counts_it() {
    let mut generator = Generator::new(3);
    let mut cases: Vec<Case> = (0..800).map(|number| generator.case(number)).collect();
    // What lies between the reads beside the case: one that only leaves, and one that only faults.
    cases[0].code = generate::nothing(0);
    cases[1].code = vec![0x0f, 0x0b];
    let batch = Batch::new("counts", &cases);
    let stepped = batch.natively("s");
    for per_block in [false, true] {
        let Some(counted) = batch.translated("c", per_block) else {
            return;
        };
        // The way out of a case is an instruction, too.
        let beside = [counted[0].1 - 1, counted[1].1];
        for (number, case) in cases.iter().enumerate() {
            let (outcome, steps) = &stepped[number];
            let expected = beside[usize::from(outcome.0[SIGNAL] != 0)] + steps;
            let count = counted[number].1;
            assert_eq!(
                count,
                expected,
                "per block: {per_block}, {}",
                listing(number, case)
            );
        }
    }
}

#[test]
#[ignore = "as long as TRUECOUNT_SECONDS says (60 without it)"]
fn random_code_for_minutes() {
    let number = |name, otherwise| {
        std::env::var(name).map_or(otherwise, |text: String| text.parse().expect("a number"))
    };
    let (seconds, first) = (
        number("TRUECOUNT_SECONDS", 60),
        number("TRUECOUNT_SEED", 1000),
    );
    let start = std::time::Instant::now();
    let (mut seed, mut ended) = (first, 0);
    while start.elapsed().as_secs() < seconds {
        let Some(more) = round("minutes", seed, 2000) else {
            return;
        };
        ended += more;
        seed += 1;
        println!(
            "seed {seed}: {} cases, {ended} without a fault",
            (seed - first) * 2000
        );
    }
}
