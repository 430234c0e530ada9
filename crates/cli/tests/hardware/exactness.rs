//! `exactness` on a machine with a PMU. The x86 rig's counters add one to `instructions:u` per interrupt in user mode
//! (unless that is switched off); the arm64 rig's add nothing.

use serde_json::Value;

use super::{no_hardware, skip, truecount};

fn counter<'d>(document: &'d Value, event: &str) -> Option<&'d Value> {
    let counters = document["counters"].as_array().unwrap();
    counters.iter().find(|counter| counter["event"] == event)
}

#[test]
fn what_an_interrupt_adds_is_found_and_subtracted() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let state = std::env::temp_dir().join(format!("truecount-state-{}", std::process::id()));
    let output = truecount()
        .args(["exactness", "--json", "--seconds", "2"])
        .env("XDG_STATE_HOME", &state)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let plain = counter(&document, "instructions:u").expect("instructions:u opens");
    println!("instructions:u: {}", plain["verdict"]["text"]);
    assert_eq!(plain["source"], "hardware");
    match counter(&document, "instructions-minus-irqs:u") {
        // It opens only where an interrupt adds one.
        Some(minus) => {
            println!("instructions-minus-irqs:u: {}", minus["verdict"]["text"]);
            assert_eq!(plain["verdict"]["kind"], "per-interrupt", "{plain}");
            assert_eq!(minus["verdict"]["kind"], "exact", "{minus}");
            let tell = |value: &Value| -> Vec<i64> {
                let loops = value["loops"].as_array().unwrap().iter();
                loops
                    .filter_map(|each| each["per_interrupt"].as_i64())
                    .collect()
            };
            let (with, without) = (tell(plain), tell(minus));
            assert!(!with.is_empty() && with.iter().all(|&k| k == 1), "{plain}");
            assert!(
                !without.is_empty() && without.iter().all(|&k| k == 0),
                "{minus}"
            );
            let text = plain["verdict"]["text"].as_str().unwrap();
            assert!(text.contains("+1 per interrupt"), "{text}");
        }
        None => assert_eq!(plain["verdict"]["kind"], "exact", "{plain}"),
    }
    if cfg!(target_arch = "aarch64") {
        assert_eq!(plain["verdict"]["kind"], "exact", "{plain}");
    }
    let orderings = document["orderings"].as_array().unwrap();
    assert!(
        orderings.len() >= 2 && document["ordering_verdict"].is_string(),
        "{document}"
    );
    let check = truecount()
        .arg("check")
        .env("XDG_STATE_HOME", &state)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(text.contains("instructions:u (hardware)"), "{text}");
    let _ = std::fs::remove_dir_all(&state);
}

#[test]
fn no_overcount_is_said_where_an_interrupt_adds_nothing() {
    if !truecount_testing::in_setting("no-overcount") {
        return;
    }
    let output = truecount()
        .args(["exactness", "--json", "--no-save", "--seconds", "1"])
        .args(["-e", "instructions:u,instructions-minus-irqs:u"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let plain = counter(&document, "instructions:u").expect("instructions:u opens");
    println!("instructions:u: {}", plain["verdict"]["text"]);
    assert_eq!(plain["source"], "hardware");
    assert_eq!(plain["verdict"]["kind"], "exact", "{plain}");
    let loops = plain["loops"].as_array().unwrap();
    assert!(
        loops.iter().all(|each| each["exact"] == each["samples"]),
        "{plain}"
    );
    // Interrupts did arrive while it counted.
    let interrupts = |each: &Value| each["interrupts"].as_u64().unwrap_or(0);
    assert!(loops.iter().map(interrupts).sum::<u64>() > 0, "{plain}");
    // There is nothing to subtract: counting the difference is refused, with the reason.
    assert!(counter(&document, "instructions-minus-irqs:u").is_none());
    let missing = document["unavailable"].as_array().unwrap().iter();
    let minus = missing
        .clone()
        .find(|m| m["name"] == "instructions-minus-irqs:u");
    println!("{minus:?}");
    assert!(
        minus.is_some_and(|m| m["reason"].as_str().unwrap().contains("interrupt")),
        "{document}"
    );
}

/// A PMU that adds one per page fault and one per interrupt: both rules are found, and what was found is said wherever a
/// count is shown.
#[test]
fn fault_overcount_is_found_beside_interrupts_and_no_count_is_called_exact() {
    if !truecount_testing::in_setting("fault-overcount") {
        return;
    }
    let state = std::env::temp_dir().join(format!("truecount-faults-{}", std::process::id()));
    let run = |arguments: &[&str]| {
        let output = truecount()
            .args(arguments)
            .env("XDG_STATE_HOME", &state)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (said, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (stdout, stderr) = run(&["exactness", "--json", "--seconds", "2"]);
    let document: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stderr}"));
    let plain = counter(&document, "instructions:u").expect("instructions:u opens");
    let text = plain["verdict"]["text"].as_str().unwrap();
    println!("instructions:u: {text}");
    assert_eq!(plain["verdict"]["kind"], "per-turn", "{plain}");
    assert!(
        text.contains("+1 per page fault") && text.contains("+1 per interrupt"),
        "{text}"
    );
    let minus = counter(&document, "instructions-minus-irqs:u");
    println!("{:?}", minus.map(|minus| &minus["verdict"]["text"]));

    let (check, _) = run(&["check"]);
    assert!(check.contains("+1 per page fault"), "{check}");
    assert!(
        !check.contains("instructions-minus-irqs:u is exact"),
        "{check}"
    );
    let (_, stat) = run(&[
        "stat",
        "-e",
        "instructions:u,instructions-minus-irqs:u",
        "true",
    ]);
    for event in ["instructions:u", "instructions-minus-irqs:u"] {
        let words = format!("{event} is not exact on this machine");
        assert!(stat.contains(&words), "{stat}");
    }
    let (bench, _) = run(&[
        "bench",
        "--json",
        "-n",
        "6",
        "-e",
        "instructions-minus-irqs:u",
        "true",
    ]);
    let document: Value = serde_json::from_str(&bench).unwrap();
    let metric = &document["commands"][0]["metrics"]["instructions-minus-irqs:u"];
    println!("{metric}");
    assert_eq!(metric["exact"], false, "{metric}");
    assert!(
        metric["deviation"]
            .as_str()
            .is_some_and(|why| why.contains("page fault")),
        "{metric}"
    );
    let _ = std::fs::remove_dir_all(&state);
}
