//! `record`, `blocks` and `report` on a machine with a PMU: a program with known loops, and what the machine's
//! model (x86 rig: 1.25 cycles per instruction, 24 more per division) makes of them.
//!
//! The program that is recorded is this test itself, started with [`WORKLOAD`] set.

use std::path::PathBuf;
#[cfg(target_arch = "x86_64")]
use std::process::Command;
use std::process::Output;

use serde_json::Value;

use super::{skip, truecount};

/// Set: run the loops and nothing else.
const WORKLOAD: &str = "TRUECOUNT_TEST_LOOPS";

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// 20 turns of 6 instructions with a division, 10 turns of 4 without, again and again.
#[cfg(target_arch = "x86_64")]
fn loops() -> u64 {
    let mut x = 1u64;
    for _ in 0..20_000u32 {
        // SAFETY: registers only; rdx:rax / rcx cannot overflow because rdx is cleared before each division.
        unsafe {
            std::arch::asm!(
                "2: add {x}, 3", "xor {x}, 1", "dec {n}", "jnz 2b",
                x = inout(reg) x, n = inout(reg) 10u64 => _,
            );
            x &= 0xffff;
            std::arch::asm!(
                "2: xor edx, edx", "mov rax, {x}", "div rcx", "add {x}, rax", "dec {n}", "jnz 2b",
                x = inout(reg) x, n = inout(reg) 20u64 => _, in("rcx") 3u64, out("rax") _, out("rdx") _,
            );
        }
    }
    x
}

#[cfg(not(target_arch = "x86_64"))]
fn loops() -> u64 {
    (0..20_000_000u64).fold(1, |x, i| std::hint::black_box(x.rotate_left(1) ^ i))
}

/// Three quarters of the cycles in `called_leaf`, one in `called_other`; both are called by `called_middle`, that by
/// `called_outer`.
#[cfg(target_arch = "x86_64")]
mod tree {
    // Written out twice: a function of its own would take the samples, inlined or not.
    #[inline(never)]
    fn called_leaf() {
        // SAFETY: one register, and flags.
        unsafe { std::arch::asm!("2: dec {n}", "jnz 2b", n = inout(reg) 30_000u64 => _) };
    }

    #[inline(never)]
    fn called_other() {
        // SAFETY: as above.
        unsafe { std::arch::asm!("2: dec {n}", "jnz 2b", n = inout(reg) 10_000u64 => _) };
    }

    #[inline(never)]
    fn called_middle() -> u64 {
        called_leaf();
        called_other();
        std::hint::black_box(1)
    }

    #[inline(never)]
    pub(super) fn called_outer() -> u64 {
        std::hint::black_box(called_middle()) + 1
    }
}

/// Not a test of its own: what the recordings below run.
#[test]
fn record_workload() {
    match std::env::var(WORKLOAD).as_deref() {
        #[cfg(target_arch = "x86_64")]
        Ok("tree") => assert!((0..1000).all(|_| tree::called_outer() == 2)),
        Ok(_) => assert_ne!(loops(), 0),
        Err(_) => {}
    }
}

/// Records this program's loops; `None` where this machine cannot.
fn record(name: &str, options: &[&str]) -> Option<(PathBuf, Output)> {
    record_of("loops", name, options)
}

fn record_of(workload: &str, name: &str, options: &[&str]) -> Option<(PathBuf, Output)> {
    let file = std::env::temp_dir().join(format!("truecount-{name}-{}.data", std::process::id()));
    let output = truecount()
        .arg("record")
        .args(options)
        .arg("-o")
        .arg(&file)
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["record_workload", "--nocapture", "--test-threads=1"])
        .env(WORKLOAD, workload)
        .output()
        .unwrap();
    if !output.status.success() {
        let why = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{why}");
        assert!(
            why.starts_with("truecount: ") && why.contains("; "),
            "one line with cause and hint: {why}"
        );
        skip(why.trim());
        return None;
    }
    Some((file, output))
}

fn json(arguments: &[&str], file: &PathBuf) -> Value {
    let output = truecount()
        .args(arguments)
        .arg("--json")
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The number before "samples of" in the summary.
fn samples(output: &Output) -> u64 {
    let said = text(&output.stderr);
    let line = said.lines().find(|l| l.contains("samples of")).unwrap();
    let number = line
        .strip_prefix("truecount record: ")
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    number.replace(',', "").parse().unwrap()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn blocks_finds_the_loops_that_were_recorded() {
    let Some((file, output)) = record("blocks", &["-b", "-e", "cycles:u", "-c", "20011"]) else {
        return;
    };
    let document = json(&["blocks", "--top", "100"], &file);
    let blocks = document["blocks"].as_array().unwrap();
    let one_block_loops: Vec<(&Value, &Value)> = document["loops"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|l| {
            let body = l["bodies"][0]["blocks"].as_array()?;
            let [name] = body.as_slice() else { return None };
            Some((l, blocks.iter().find(|b| b["name"] == *name)?))
        })
        .collect();
    let with = |instructions: u64, divisions: u64| {
        let is_it = |b: &Value| {
            b["code"]["instructions"] == instructions && b["code"]["divisions"] == divisions
        };
        one_block_loops.iter().find(|(_, b)| is_it(b)).copied()
    };
    let (divisions, division_block) = with(6, 1).expect("the loop with the division");
    let (plain, _) = with(4, 0).expect("the loop without");
    let trips = |l: &Value| l["trip_count"].as_f64().unwrap();
    assert!(
        (trips(divisions) - 20.0).abs() < 3.0,
        "{}",
        trips(divisions)
    );
    assert!((trips(plain) - 10.0).abs() < 2.0, "{}", trips(plain));
    let cycles = |l: &Value| l["cycles"]["mean"].as_f64().unwrap();
    assert!(
        (cycles(divisions) - (6.0 * 1.25 + 24.0)).abs() < 0.6,
        "{}",
        cycles(divisions)
    );
    assert!(
        (cycles(plain) - 4.0 * 1.25).abs() < 0.6,
        "{}",
        cycles(plain)
    );
    assert_eq!(
        document["blocks"][0]["name"], division_block["name"],
        "the division's loop takes most cycles"
    );

    // The samples fall where the cycles are.
    let report = json(&["report", "--by", "address"], &file);
    let first = report["events"][0]["rows"][0]["key"].as_str().unwrap();
    let offset = u64::from_str_radix(first.rsplit("+0x").next().unwrap(), 16).unwrap();
    let range =
        divisions["header_offset"].as_u64().unwrap()..=divisions["back_edge"].as_u64().unwrap();
    assert!(
        range.contains(&offset),
        "{first} is not in the loop {range:?}"
    );
    assert_eq!(
        report["events"][0]["samples"].as_u64().unwrap(),
        samples(&output)
    );

    // And perf reads the file.
    match Command::new("perf")
        .args(["script", "-F", "ip,brstack", "-i"])
        .arg(&file)
        .output()
    {
        Ok(perf) if perf.status.success() => {
            let lines = text(&perf.stdout)
                .lines()
                .filter(|l| !l.trim().is_empty())
                .count() as u64;
            assert_eq!(lines, samples(&output), "one line of perf script a sample");
            let path = file.with_extension("txt");
            std::fs::write(&path, &perf.stdout).unwrap();
            let again = json(&["blocks"], &path);
            assert_eq!(
                again["cleaning"]["timed_blocks"],
                document["cleaning"]["timed_blocks"]
            );
            std::fs::remove_file(path).unwrap();
        }
        Ok(perf) => panic!("perf script: {}", text(&perf.stderr)),
        Err(error) => truecount_testing::skip!("perf", "perf script ({error})"),
    }
    std::fs::remove_file(file).unwrap();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn call_stacks_of_the_branch_unit_are_chains() {
    let options = ["-g", "lbr", "-e", "cycles:u", "-c", "50021"];
    let Some((file, _)) = record_of("tree", "lbr", &options) else {
        return;
    };
    leads_to_the_known_tree(&file);
    let refused = truecount().arg("blocks").arg(&file).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("filtered (call stack"),
        "{}",
        text(&refused.stderr)
    );
    std::fs::remove_file(&file).unwrap();
    // The same, recorded by perf.
    let recorded = Command::new("perf")
        .args("record -q --call-graph lbr -e cycles:u -c 50021 -o".split(' '))
        .arg(&file)
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["record_workload", "--nocapture", "--test-threads=1"])
        .env(WORKLOAD, "tree")
        .output();
    match recorded {
        Ok(output) if output.status.success() => leads_to_the_known_tree(&file),
        Ok(output) => panic!("perf record: {}", text(&output.stderr)),
        Err(error) => truecount_testing::skip!("perf", "perf record ({error})"),
    }
    let _ = std::fs::remove_file(file);
}

/// The shares and callers of `tree` in a recording, here and in perf's own report.
#[cfg(target_arch = "x86_64")]
fn leads_to_the_known_tree(file: &PathBuf) {
    let report = json(&["report", "--top", "1000"], file);
    let samples = report["events"][0]["samples"].as_u64().unwrap() as f64;
    let rows = report["events"][0]["rows"].as_array().unwrap();
    let share = |name: &str, part: &str| {
        let of_it = rows
            .iter()
            .find(|row| row["key"].as_str().unwrap().contains(name));
        let of_it = of_it.unwrap_or_else(|| panic!("{name}: {report}"));
        100.0 * of_it[part]["samples"].as_u64().unwrap() as f64 / samples
    };
    assert!(samples > 500.0, "{report}");
    // Four times the sampling error, and what starting the program takes.
    let error = 400.0 * (0.75 * 0.25 / samples).sqrt() + 3.0;
    let (leaf, other) = (share("called_leaf", "self"), share("called_other", "self"));
    assert!((leaf - 75.0).abs() < error, "{leaf} % of {samples}");
    assert!((other - 25.0).abs() < error, "{other} % of {samples}");
    for caller in ["called_middle", "called_outer"] {
        assert!(share(caller, "total") > 95.0, "{caller}: {report}");
    }
    // perf's own report of the recording takes it for call chains, too, and has the same shares.
    let options = ["-g", "none", "-F", "overhead,sym", "--stdio", "-i"];
    match Command::new("perf")
        .args(["report", "--no-children", "-q"])
        .args(options)
        .arg(file)
        .output()
    {
        Ok(perf) if perf.status.success() => {
            let said = text(&perf.stdout);
            for (name, here) in [("called_leaf", leaf), ("called_other", other)] {
                let line = said.lines().find(|line| line.contains(name));
                let line = line.unwrap_or_else(|| panic!("{said}"));
                let percent = line.split('%').next().unwrap().trim().parse::<f64>();
                assert!((percent.unwrap() - here).abs() < 0.1, "{line}, here {here}");
            }
        }
        Ok(perf) => panic!("perf report: {}", text(&perf.stderr)),
        Err(error) => truecount_testing::skip!("perf", "perf report ({error})"),
    }
}

#[test]
fn a_fixed_period_gives_counts_by_period() {
    let Some((file, output)) = record("period", &["-e", "instructions:u", "-c", "100003"]) else {
        return;
    };
    let report = json(&["report", "--by", "dso"], &file);
    let event = &report["events"][0];
    assert_eq!(event["samples"].as_u64().unwrap(), samples(&output));
    assert_eq!(
        event["events"].as_u64().unwrap(),
        samples(&output) * 100_003
    );
    assert_eq!(report["losses"]["records"], 0);
    std::fs::remove_file(file).unwrap();
}

/// Of a timer, which every machine has: also one whose branches nobody records, as most of Arm.
#[test]
fn without_branch_records_there_is_a_report_and_no_blocks() {
    let Some((file, output)) = record("plain", &["-e", "cpu-clock:u", "-c", "100000"]) else {
        return;
    };
    let report = json(&["report", "--by", "symbol"], &file);
    assert_eq!(
        report["events"][0]["samples"].as_u64().unwrap(),
        samples(&output)
    );
    let first = &report["events"][0]["rows"][0]["key"];
    let (hot, _) = first.as_str().unwrap().rsplit_once(" [").unwrap();
    // The code of the machine it runs on is decoded.
    let annotated = truecount()
        .args(["report", "--annotate", hot])
        .arg(&file)
        .output()
        .unwrap();
    let listing = text(&annotated.stdout);
    assert!(annotated.status.success(), "{}", text(&annotated.stderr));
    assert!(listing.contains(" ret"), "no return in\n{listing}");
    let refused = truecount().arg("blocks").arg(&file).output().unwrap();
    let why = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{why}");
    assert!(
        why.contains("branch stack") && why.trim().lines().count() == 1,
        "{why}"
    );
    std::fs::remove_file(file).unwrap();
}
