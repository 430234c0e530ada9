//! `discover` on a machine with a PMU. The x86 rig's PMU counts instructions (c0), branches (c4) and interrupts (cb,
//! mask 01); its other selectors open and stay silent. The arm64 rig's counts 08 and 11.

use std::process::{Command, Output};

use serde_json::Value;

use super::{no_hardware, skip, truecount};

/// Whether this is a rig whose PMU is known: elsewhere other selectors count.
fn rig() -> bool {
    if let Some(reason) = no_hardware() {
        skip(&reason);
        return false;
    }
    if !truecount_testing::required("known-pmu") {
        truecount_testing::skip!("known-pmu", "what this PMU counts is not known");
        return false;
    }
    true
}

fn discover(arguments: &[&str]) -> Output {
    truecount()
        .arg("discover")
        .args(arguments)
        .output()
        .unwrap()
}

fn document(arguments: &[&str]) -> Value {
    let output = discover(&[&["--json"], arguments].concat());
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(document: &Value) -> Vec<&str> {
    let events = document["events"].as_array().unwrap().iter();
    events
        .map(|event| event["event"].as_str().unwrap())
        .collect()
}

fn event<'d>(document: &'d Value, name: &str) -> &'d Value {
    let mut events = document["events"].as_array().unwrap().iter();
    let found = events.find(|event| event["event"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {:?}", names(document)))
}

fn like<'d>(event: &'d Value, reference: &str) -> &'d Value {
    let mut relations = event["relations"].as_array().unwrap().iter();
    let found = relations.find(|relation| relation["reference"] == reference);
    found.unwrap_or_else(|| panic!("nothing like {reference}: {event}"))
}

/// What one phase counted for each turn.
fn per_turn(event: &Value, phase: &str) -> f64 {
    let mut phases = event["phases"].as_array().unwrap().iter();
    let found = phases.find(|each| each["phase"] == phase);
    found.map_or(0.0, |each| each["per_turn"].as_f64().unwrap())
}

/// All that the x86 rig's PMU knows of c0 to cc: the masks that the tables name are tried.
const X86: [&str; 11] = [
    "r00c0:u", "r01c0:u", "r00c4:u", "r01c4:u", "r02c4:u", "r04c4:u", "r08c4:u", "r10c4:u",
    "r20c4:u", "r40c4:u", "r01cb:u",
];

#[test]
fn the_rigs_events_are_found_and_no_others() {
    if !rig() {
        return;
    }
    if cfg!(target_arch = "aarch64") {
        let document = document(&["--select", "0x00..0x20", "-n", "3"]);
        assert_eq!(names(&document), ["r0008:u", "r0011:u"]);
        assert_eq!(event(&document, "r0008:u")["umask"], Value::Null);
        // CHAIN (1e) counts the overflows of its neighbour: the kernel opens it, and never puts it on a counter alone.
        let count = |list: &str| document[list].as_array().unwrap().len();
        assert_eq!(count("silent") + count("not_counted"), 31, "{document:#}");
        assert!(
            document["not_counted"]
                .as_array()
                .unwrap()
                .iter()
                .all(|each| each["event"] == "r001e:u")
        );
        let plain = per_turn(event(&document, "r0008:u"), "plain");
        assert!((2.0..2.1).contains(&plain), "{plain}");
        return;
    }
    let document = document(&["--select", "0xc0..0xcc", "-n", "3"]);
    println!("{}", document["events"]);
    assert_eq!(names(&document), X86);
    let instructions = event(&document, "r00c0:u");
    assert!(
        (2.0..2.1).contains(&per_turn(instructions, "plain")),
        "{instructions}"
    );
    // All branches, and the conditional ones alone.
    let calls = |name: &str| per_turn(event(&document, name), "calls");
    assert!((3.0..3.1).contains(&calls("r00c4:u")) && (1.0..1.1).contains(&calls("r01c4:u")));
    // 0xff of all 13, and 00 and 01 of those that have no events.
    let silent = document["silent"].as_array().unwrap();
    assert!(silent.len() >= 34, "{silent:?}");
    assert!(document["not_opened"].as_array().unwrap().is_empty() && document["complete"] == true);
    assert!(
        document["at_once"].as_u64() >= Some(4),
        "{}",
        document["at_once"]
    );
    let interrupts = event(&document, "r01cb:u");
    let found = like(interrupts, "interrupts");
    println!("{found}");
    assert!(found["pearson"].as_f64() > Some(0.95), "{found}");
}

#[test]
fn single_bits_of_the_masks_are_tried_for_codes_that_count() {
    if !rig() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let document = document(&["--select", "0xc3,0xc4", "--umasks", "-n", "2"]);
    let branches = [
        "r00c4:u", "r01c4:u", "r02c4:u", "r04c4:u", "r08c4:u", "r10c4:u", "r20c4:u", "r40c4:u",
    ];
    assert_eq!(names(&document), branches);
    assert!((1.0..1.1).contains(&per_turn(event(&document, "r02c4:u"), "calls")));
    let silent = document["silent"].as_array().unwrap();
    assert!(silent.iter().any(|s| s["event"] == "r80c4:u"), "{silent:?}");
    assert!(
        !silent.iter().any(|s| s["event"] == "r80c3:u"),
        "{silent:?}"
    );
}

#[test]
fn interrupts_are_recognised_and_a_sum_of_two() {
    if !rig() || !cfg!(target_arch = "x86_64") {
        return;
    }
    let document = document(&[
        "--select",
        "0xca..0xcc",
        "--reference",
        "r01cb:u",
        "--reference",
        "irq_vectors:local_timer_entry",
        "--reference",
        "instructions:u",
        "--reference",
        "instructions-minus-irqs:u",
    ]);
    assert_eq!(names(&document), ["r01cb:u"]);
    let found = event(&document, "r01cb:u");
    assert_eq!(like(found, "r01cb:u")["relation"], "equal", "{found}");
    let timer = like(found, "irq_vectors:local_timer_entry");
    println!("{timer}");
    assert!(timer["pearson"].as_f64() > Some(0.99), "{timer}");
    // The rig adds one instruction for each interrupt.
    let sums = document["sums"].as_array().unwrap();
    println!("{sums:?}");
    let sum = sums.iter().find(|sum| {
        sum["event"] == "instructions:u" && sum["of"][0] == "instructions-minus-irqs:u"
    });
    let sum = sum.expect("a sum");
    assert_eq!(
        (&sum["of"][1], &sum["equal_points"]),
        (&"r01cb:u".into(), &sum["points"])
    );
}

#[test]
fn an_interrupted_scan_prints_what_it_has_and_goes_on() {
    if !rig() {
        return;
    }
    let state = std::env::temp_dir().join(format!("truecount-scan-{}", std::process::id()));
    let select = if cfg!(target_arch = "aarch64") {
        "0x00..0x1f"
    } else {
        "0xc0..0xcc"
    };
    let file = state.to_str().unwrap();
    let arguments = ["--select", select, "-n", "3", "--resume", file];
    let child = truecount()
        .args(["discover", "--json"])
        .args(arguments)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Until some batches are in the file.
    let begun = std::time::Instant::now();
    let has_some =
        || std::fs::read_to_string(&state).is_ok_and(|text| text.contains("\"silent\":[{"));
    while !has_some() {
        assert!(begun.elapsed().as_secs() < 60, "nothing is kept");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    let output = child.wait_with_output().unwrap();
    let first: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!(
        "interrupted: {:?}, then {}",
        output.status.code(),
        first["complete"]
    );
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(
        (&first["interrupted"], &first["complete"]),
        (&2.into(), &false.into())
    );
    let rest = document(&arguments);
    assert_eq!(
        (&rest["resumed"], &rest["complete"]),
        (&true.into(), &true.into())
    );
    let expected: &[&str] = if cfg!(target_arch = "aarch64") {
        &["r0008:u", "r0011:u"]
    } else {
        &X86
    };
    assert_eq!(names(&rest), expected);
    // What is complete is not counted again; another scan's file is refused.
    let again = document(&arguments);
    assert_eq!(again["events"], rest["events"]);
    let other = discover(&["--select", select, "-n", "4", "--resume", file]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("number of runs"));
    let _ = std::fs::remove_file(&state);
}

#[test]
fn a_command_is_the_workload() {
    if !rig() {
        return;
    }
    let binary = std::env::var("TRUECOUNT_BIN").unwrap();
    let select = if cfg!(target_arch = "aarch64") {
        "0x07..0x09"
    } else {
        "0xc0..0xc1"
    };
    let document = document(&[
        "--select",
        select,
        "-n",
        "3",
        "--reference",
        "instructions:u",
        "--",
        &binary,
        "--version",
    ]);
    let name = if cfg!(target_arch = "aarch64") {
        "r0008:u"
    } else {
        "r00c0:u"
    };
    let found = event(&document, name);
    println!("{found}");
    assert!(found["min"].as_u64() > Some(10_000), "{found}");
    assert_eq!(
        like(found, "instructions:u")["relation"],
        "equal",
        "{found}"
    );
}

#[test]
fn a_run_that_fails_costs_only_its_batch() {
    if !rig() {
        return;
    }
    let directory = std::env::temp_dir().join(format!("truecount-gone-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (program, state) = (directory.join("sh"), directory.join("state"));
    std::fs::copy("/bin/sh", &program).unwrap();
    let select = if cfg!(target_arch = "aarch64") {
        "0x00..0x1f"
    } else {
        "0xc0..0xcc"
    };
    // Gone after its second run: the first batch is whole, and nothing else is.
    let script = "n=0; [ -s n ] && read n < n; echo $((n+1)) > n; [ $n -lt 1 ] || rm -f sh";
    let scan = || {
        truecount()
            .args(["discover", "--json", "-n", "2", "--select", select])
            .arg("--resume")
            .arg(&state)
            .arg("--")
            .arg(&program)
            .args(["-c", script])
            .current_dir(&directory)
            .output()
            .unwrap()
    };
    let output = scan();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(127), "{told}");
    let first: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(first["complete"], false);
    let found = |document: &Value| {
        let [counting, silent] = ["events", "silent"].map(|key| document[key].as_array().unwrap());
        counting.len() + silent.len()
    };
    assert!((1..=8).contains(&found(&first)), "{first:#}");
    let notes = first["notes"].to_string();
    assert!(notes.contains("Run 1 of 2 with r"), "{notes}");
    // With the program there again the scan goes on, and comes to its end.
    std::fs::copy("/bin/sh", &program).unwrap();
    std::fs::write(directory.join("n"), "-100000").unwrap();
    let output = scan();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let rest: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&rest["resumed"], &rest["complete"]),
        (&true.into(), &true.into())
    );
    assert!(found(&rest) > found(&first));
    let _ = std::fs::remove_dir_all(&directory);
}
