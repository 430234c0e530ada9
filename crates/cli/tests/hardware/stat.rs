//! `stat` on a machine with a PMU, with a program whose instructions are known: a static file of a
//! few instructions that this test writes. Debian's `perf` counts the same where it is there.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{no_hardware, skip, truecount};

/// Turns of the loop, each two instructions.
const TURNS: u32 = 40_000_000;

/// The machine code of the loop and the exit, and how many instructions retire.
fn code() -> (Vec<u8>, u16, u64) {
    if cfg!(target_arch = "aarch64") {
        let [low, high] = [TURNS & 0xffff, TURNS >> 16];
        let words: [u32; 7] = [
            0x5280_0001 | low << 5,  // mov w1, #low
            0x72a0_0001 | high << 5, // movk w1, #high, lsl #16
            0x7100_0421,             // subs w1, w1, #1
            0x54ff_ffe1,             // b.ne -4
            0xd280_0ba8,             // mov x8, #93
            0xd280_0000,             // mov x0, #0
            0xd400_0001,             // svc #0
        ];
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        (bytes, 183, 2 * u64::from(TURNS) + 5)
    } else {
        let mut bytes = vec![0xb9]; // mov ecx, TURNS
        bytes.extend(TURNS.to_le_bytes());
        bytes.extend([0xff, 0xc9, 0x75, 0xfc]); // dec ecx; jnz -4
        bytes.extend([0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05]); // mov eax, 60; xor edi, edi; syscall
        (bytes, 62, 2 * u64::from(TURNS) + 4)
    }
}

/// Writes the program: an ELF header, one program header, the code.
pub(super) fn program(directory: &Path) -> (PathBuf, u64) {
    let (code, machine, instructions) = code();
    let base: u64 = 0x40_0000;
    let size = 120 + code.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2u16, machine].iter().flat_map(|half| half.to_le_bytes()));
    file.extend(1u32.to_le_bytes());
    file.extend(
        [base + 120, 64, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes()),
    );
    file.extend(0u32.to_le_bytes());
    file.extend(
        [64u16, 56, 1, 0, 0, 0]
            .iter()
            .flat_map(|half| half.to_le_bytes()),
    );
    file.extend([1u32, 5].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(
        [0, base, base, size, size, 0x1000]
            .iter()
            .flat_map(|word: &u64| word.to_le_bytes()),
    );
    assert_eq!(file.len(), 120);
    file.extend(code);
    let path = directory.join("loop");
    fs::write(&path, file).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    (path, instructions)
}

/// A directory of this test's own: the guest has no `tempfile` but a writable `/tmp`.
pub(super) fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("truecount-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn stat(events: &str, program: &Path) -> Value {
    let output = truecount()
        .args(["stat", "--json", "-e", events, "--"])
        .arg(program)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn value(document: &Value, index: usize) -> Option<u64> {
    document["counters"][index]["value"].as_u64()
}

/// The whole program, by single-stepping as well: both must say what the code says.
#[test]
fn the_program_of_these_tests_is_what_it_says() {
    let directory = directory("known");
    let (path, _) = program(&directory);
    // A test beside this one may be about to execute something, with the file still open for writing in its child.
    let status = loop {
        match Command::new(&path).status() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            status => break status.unwrap(),
        }
    };
    let _ = fs::remove_dir_all(&directory);
    assert!(status.success(), "{status}");
}

#[test]
fn instructions_are_exact_up_to_the_interrupts_and_as_perf_counts_them() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let directory = directory("stat");
    let (path, known) = program(&directory);
    if cfg!(target_arch = "aarch64") {
        let document = stat("instructions:u", &path);
        assert_eq!(value(&document, 0), Some(known), "{document}");
        assert_eq!(document["counters"][0]["precision"], "counted");
    } else {
        let document = stat("instructions:u,r01cb:u", &path);
        let (Some(instructions), Some(interrupts)) = (value(&document, 0), value(&document, 1))
        else {
            panic!("{document}");
        };
        println!("truecount: {instructions} instructions, {interrupts} interrupts, {known} known");
        assert_eq!(instructions - interrupts, known, "{document}");
        let minus = stat("instructions-minus-irqs:u", &path);
        assert_eq!(value(&minus, 0), Some(known), "{minus}");
        perf(&path, known);
    }
    let _ = fs::remove_dir_all(&directory);
}

/// Debian's perf on the same program.
fn perf(path: &Path, known: u64) {
    let output = Command::new("perf")
        .args(["stat", "-x,", "-e", "instructions:u,r01cb:u", "--"])
        .arg(path)
        .output();
    let Ok(output) = output else {
        truecount_testing::skip!("perf", "no perf here to compare with");
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let counts: Vec<u64> = text
        .lines()
        .filter_map(|line| line.split(',').next()?.parse().ok())
        .collect();
    let [instructions, interrupts] = counts.as_slice() else {
        panic!("perf printed {text}");
    };
    println!("perf: {instructions} instructions, {interrupts} interrupts");
    assert_eq!(instructions - interrupts, known, "{text}");
}

#[test]
fn more_events_than_counters_are_labelled_scaled() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let directory = directory("many");
    let (path, known) = program(&directory);
    let events = vec!["instructions:u"; 24].join(",");
    let document = stat(&events, &path);
    let counters = document["counters"].as_array().unwrap();
    let scaled = counters
        .iter()
        .filter(|counter| counter["precision"] == "scaled")
        .count();
    assert!(scaled > 0, "{document}");
    for counter in counters.iter().filter(|counter| counter["value"].is_u64()) {
        let (enabled, running) = (&counter["enabled_ns"], &counter["running_ns"]);
        assert_eq!(
            counter["precision"] == "scaled",
            running.as_u64() < enabled.as_u64(),
            "{counter}"
        );
        let value = counter["value"].as_u64().unwrap();
        assert!(
            value > known / 4 && value < known * 4,
            "{counter}, known {known}"
        );
    }
    let _ = fs::remove_dir_all(&directory);
}

#[test]
fn a_group_is_counted_at_once_and_children_are_included() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let directory = directory("group");
    let (path, known) = program(&directory);
    let document = stat("{instructions:u,cycles:u}", &path);
    let counters = document["counters"].as_array().unwrap();
    assert_eq!(
        counters[0]["enabled_ns"], counters[1]["enabled_ns"],
        "{document}"
    );
    let script = format!("{0}; {0}", path.display());
    let output = truecount()
        .args([
            "stat",
            "--json",
            "-e",
            "instructions:u",
            "--",
            "sh",
            "-c",
            &script,
        ])
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        value(&document, 0).is_some_and(|count| count >= 2 * known),
        "{document}"
    );
    let _ = fs::remove_dir_all(&directory);
}

#[test]
fn a_metric_is_counted_in_one_group() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let directory = directory("metric");
    let (path, known) = program(&directory);
    let output = truecount()
        .args(["stat", "--json", "-M", "IPC:u", "--"])
        .arg(&path)
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counters = document["counters"].as_array().unwrap();
    let names: Vec<_> = counters
        .iter()
        .map(|c| c["event"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["cycles:u", "instructions:u"], "{document}");
    assert_eq!(counters[0]["enabled_ns"], counters[1]["enabled_ns"]);
    assert_eq!(counters[0]["running_ns"], counters[1]["running_ns"]);
    let (cycles, instructions) = (value(&document, 0).unwrap(), value(&document, 1).unwrap());
    assert!(
        instructions >= known && instructions < known + 1_000,
        "{document}"
    );
    let ipc = &document["metrics"][0];
    println!("{ipc}");
    assert_eq!(ipc["together"], true);
    assert_eq!(ipc["source"], "hardware");
    assert_eq!(
        ipc["value"].as_f64().unwrap(),
        instructions as f64 / cycles as f64
    );
    // More than the PMU has counters for: groups multiplexed, each labelled.
    let output = truecount()
        .args(["stat", "--json", "-M", "general:u", "--"])
        .arg(&path)
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let metrics = document["metrics"].as_array().unwrap();
    assert!(metrics.len() >= 8, "{document}");
    for metric in metrics.iter().filter(|m| m["value"].is_number()) {
        assert!(metric["precision"].is_string(), "{metric}");
    }
    let ipc = &metrics[0];
    assert!(ipc["value"].as_f64().unwrap() > 0.0, "{ipc}");
    let _ = fs::remove_dir_all(&directory);
}

/// Where an interrupt adds nothing to the count, nothing is subtracted for it.
#[test]
fn no_overcount_nothing_is_subtracted() {
    if !truecount_testing::in_setting("no-overcount") {
        return;
    }
    let directory = directory("no-overcount");
    let (program, instructions) = program(&directory);
    let document = stat("instructions-minus-irqs:u,instructions:u", &program);
    let counts = [value(&document, 0), value(&document, 1)];
    assert_eq!(counts, [Some(instructions); 2], "{document}");
    let _ = fs::remove_dir_all(&directory);
}

/// A PMU that opens the events of slots and counts none of them: no share is made of zeros.
#[test]
#[cfg_attr(target_arch = "aarch64", ignore = "this PMU has no events of slots")]
fn slots_that_stay_0_are_no_top_down() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let output = truecount()
        .args(["stat", "--json", "-M", "topdown-1", "--", "true"])
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let metrics = document["metrics"].as_array().unwrap();
    assert_eq!(metrics.len(), 4, "{document}");
    for metric in metrics {
        assert!(metric["value"].is_null(), "{metric}");
        let why = metric["reason"].as_str().unwrap();
        assert!(why.contains("stays 0 while instructions retire"), "{why}");
    }
    let output = truecount()
        .args(["system", "-n", "1", "-I", "300", "--json"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let document: Value = serde_json::from_str(&text).unwrap();
    let columns = document["columns"].as_array().unwrap();
    let at = columns.iter().position(|c| c["name"] == "backend-bound");
    let at = at.unwrap_or_else(|| panic!("{columns:?}"));
    for row in document["rows"].as_array().unwrap() {
        assert!(row["cells"][at]["value"].is_null(), "{row}");
    }
}

/// The first two counters have no value, and this in their reason.
fn two_are_not_counted(document: &Value, cause: &str) {
    for index in [0, 1] {
        let counter = &document["counters"][index];
        assert!(counter["value"].is_null(), "{counter}");
        let why = counter["reason"].as_str().unwrap();
        assert!(why.contains(cause), "{why}");
    }
}

/// Architectural events that an Arm PMU does not have open and read 0.
#[test]
#[cfg_attr(
    not(target_arch = "aarch64"),
    ignore = "only Arm PMUs say which events they have"
)]
fn an_event_that_the_pmu_lacks_is_not_counted() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let directory = directory("lacks");
    let (path, known) = program(&directory);
    let document = stat("r21:u,BR_RETIRED:u,r08:u", &path);
    two_are_not_counted(&document, "PMCEID");
    assert_eq!(value(&document, 2), Some(known), "{document}");
    let _ = fs::remove_dir_all(&directory);
}

/// How precisely samples fall says nothing of a count: refused, and not counted as if it had not been asked for.
#[cfg(target_arch = "x86_64")] // Arm's drivers do not look at the level
#[test]
fn a_precise_level_of_a_count_is_refused() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let directory = directory("precise");
    let (path, known) = program(&directory);
    let document = stat("instructions:up,instructions:upp,instructions:u", &path);
    two_are_not_counted(&document, "where samples fall");
    assert!(value(&document, 2).unwrap() >= known, "{document}");
    let _ = fs::remove_dir_all(&directory);
}

/// Switches happen in the kernel: without it there are none to count.
#[test]
fn switches_in_user_mode_are_not_counted() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let directory = directory("switches");
    let (path, _) = program(&directory);
    let document = stat("context-switches:u,cpu-migrations:u,page-faults:u", &path);
    for index in [0, 1] {
        let counter = &document["counters"][index];
        let why = counter["reason"]
            .as_str()
            .unwrap_or_else(|| panic!("{counter}"));
        assert!(why.contains("happens in the kernel"), "{counter}");
    }
    assert!(
        value(&document, 2).is_some_and(|faults| faults > 0),
        "{document}"
    );
    let _ = fs::remove_dir_all(&directory);
}

/// What an ordinary user may count follows `kernel.perf_event_paranoid`, and what is refused has the reason.
#[test]
fn a_paranoid_level_decides_what_is_counted() {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let level: i32 = level.trim().parse().unwrap_or(2);
    let expected = std::env::var("TRUECOUNT_EXPECT_PARANOID");
    if expected.is_err() {
        truecount_testing::skip!("paranoid", "only as an ordinary user in a rig");
        return;
    }
    assert_eq!(expected.as_deref(), Ok(level.to_string().as_str()));
    // The arm64 guest has no directory that an ordinary user may write to.
    let directory = std::env::temp_dir().join(format!("truecount-paranoid-{}", std::process::id()));
    let (path, known) = match fs::create_dir_all(&directory) {
        Ok(()) => program(&directory),
        Err(_) => (PathBuf::from("true"), 1000),
    };
    let counter = |arguments: &[&str]| -> Value {
        let output = truecount()
            .args(["stat", "--json", "--source", "hardware"])
            .args(arguments)
            .arg("--")
            .arg(&path)
            .output()
            .unwrap();
        match serde_json::from_slice::<Value>(&output.stdout) {
            Ok(document) => document["counters"][0].clone(),
            Err(_) => Value::String(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    // Up to this level it is allowed; a hint names this one and no other.
    let check = |what: &str, arguments: &[&str], needed: i32| {
        let allowed = level <= needed;
        let counter = counter(arguments);
        println!("{what} at {level}: {counter}");
        let value = counter["value"].as_u64();
        assert_eq!(value.is_some(), allowed, "{what} at {level}: {counter}");
        if !allowed {
            let said = counter.to_string();
            let hint = format!("perf_event_paranoid={needed}");
            // Where nothing is allowed at all, before it is known what is asked for.
            let each = "perf_event_paranoid=2 (1 to count in the kernel, 0 for whole CPUs)";
            assert!(
                said.contains(&hint) || said.contains(each),
                "{what}: {said}"
            );
        }
        value
    };
    let user = check("user mode", &["-e", "instructions:u"], 2);
    assert!(user.is_none_or(|count| count >= known), "{user:?}");
    check("the kernel alone", &["-e", "instructions:k"], 1);
    // As perf: of user mode where only that may be counted, and so called.
    let all = check("kernel, too", &["-e", "instructions"], 2);
    assert!(all.is_none_or(|count| count >= known), "{all:?}");
    if level <= 2 {
        let name = counter(&["-e", "instructions"])["event"].clone();
        let expected = if level <= 1 {
            "instructions"
        } else {
            "instructions:u"
        };
        assert_eq!(name, expected, "at {level}");
    }
    check("every CPU", &["-a", "-e", "instructions:u"], 0);
    let _ = fs::remove_dir_all(&directory);
}
