//! `system` on a machine with a PMU: its CPUs have an IPC.

use serde_json::Value;

use super::{no_hardware, skip, truecount};

#[test]
fn every_cpu_has_an_ipc() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
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
