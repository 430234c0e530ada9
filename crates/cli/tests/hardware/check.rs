//! What `check` says of a machine with a PMU.

use serde_json::Value;

use super::{no_hardware, skip, truecount};

/// Whether programs may read their counters is what the kernel's switch says, and the hint names it.
#[test]
fn rdpmc_is_what_user_access_says() {
    if let Some(reason) = no_hardware() {
        skip(&reason);
        return;
    }
    if !truecount_testing::required("known-pmu") {
        truecount_testing::skip!("known-pmu", "settings are changed on test machines only");
        return;
    }
    let (switch, hint) = if cfg!(target_arch = "aarch64") {
        ("/proc/sys/kernel/perf_user_access", "perf_user_access")
    } else {
        ("/sys/bus/event_source/devices/cpu/rdpmc", "/rdpmc")
    };
    let before = std::fs::read_to_string(switch).unwrap();
    for (value, status, required) in [("0", "missing", 1), ("1", "ok", 0)] {
        std::fs::write(switch, value).unwrap();
        let output = truecount().args(["check", "--json"]).output().unwrap();
        let needs = truecount()
            .args(["check", "--require", "rdpmc"])
            .output()
            .unwrap();
        std::fs::write(switch, before.trim()).unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut findings = document["findings"].as_array().unwrap().iter();
        let found = findings.find(|each| each["name"] == "rdpmc").unwrap();
        assert_eq!(found["status"], status, "{value}: {found}");
        if value == "0" {
            assert!(found["hint"].as_str().unwrap().contains(hint), "{found}");
        }
        assert_eq!(needs.status.code(), Some(required), "{value}: {needs:?}");
    }
}
