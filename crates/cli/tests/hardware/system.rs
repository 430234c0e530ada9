//! `system` on a machine with a PMU: its CPUs have an IPC.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_cpu_has_an_ipc() {
    let truecount = || {
        let built = std::env::var_os("TRUECOUNT_BIN");
        Command::new(built.unwrap_or_else(|| env!("CARGO_BIN_EXE_truecount").into()))
    };
    let check = truecount()
        .args(["check", "--require", "hardware"])
        .output()
        .unwrap();
    if !check.status.success() {
        let reason = String::from_utf8_lossy(&check.stderr).into_owned();
        assert!(
            std::env::var_os("TRUECOUNT_REQUIRE_PMU").is_none(),
            "must not be skipped here: {reason}"
        );
        println!("skipped: {reason}");
        return;
    }
    let output = truecount()
        .args(["system", "-n", "1", "-I", "500", "--json"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let columns = document["columns"].as_array().unwrap();
    let at = |name: &str| columns.iter().position(|c| c["name"] == name).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert!(rows.len() >= 2, "{document}");
    for row in rows {
        let cell = &row["cells"][at("ipc")];
        println!("{} {}: {cell}", row["scope"], row["id"]);
        let ipc = cell["value"].as_f64().unwrap_or_else(|| panic!("{cell}"));
        assert!(ipc > 0.0 && ipc < 20.0, "{cell}");
        assert_eq!(cell["source"], "hardware");
    }
}
