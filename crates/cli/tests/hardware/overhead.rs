//! `overhead` on a machine with a PMU: the price of its interrupt, by fixed period and by frequency, with and without
//! branch stacks where there are any.

use serde_json::Value;

use super::{no_hardware, skip, truecount};

#[test]
fn the_pmus_interrupt_has_a_price() {
    if let Some(reason) = no_hardware() {
        return skip(&reason);
    }
    let output = truecount()
        .args([
            "overhead",
            "--json",
            "--seconds",
            "3",
            "--event",
            "cycles",
            "--rates",
            "1000",
        ])
        .args(["--payloads", "none,lbr", "--model"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cell = |method: &str, payload: &str| -> Option<&Value> {
        let mut cells = document["cells"].as_array().unwrap().iter();
        cells.find(|c| c["method"] == method && c["payload"] == payload)
    };
    for method in ["frequency", "period"] {
        let plain = cell(method, "none").expect("the PMU can be sampled");
        println!(
            "{method}: {} samples, stolen {}, handler {}",
            plain["samples"], plain["stolen"], plain["handler"]
        );
        assert!(plain["samples"].as_u64() > Some(5), "{plain}");
        assert!(plain["stolen"]["p50"].as_u64() > Some(0), "{plain}");
        if cfg!(target_arch = "x86_64") {
            let stack = cell(method, "lbr").expect("this PMU has branch stacks");
            println!(
                "{method} with branch stacks: stolen {}, handler {}",
                stack["stolen"], stack["handler"]
            );
            assert!(stack["branches"].as_f64() > Some(1.0), "{stack}");
        }
    }
    let handlers = document["handlers"].as_array().unwrap();
    println!("{handlers:?}");
    if handlers.iter().any(|h| h["tracepoints"].is_string()) {
        let period = cell("period", "none").unwrap();
        assert!(period["handler"]["p50"].as_u64() > Some(0), "{period}");
        // Entering and leaving the kernel is stolen, too; nmi_handler's time holds no tracing.
        if cfg!(target_arch = "x86_64") {
            let (handler, stolen) = (&period["handler"]["p50"], &period["stolen"]["p50"]);
            assert!(handler.as_u64() <= stolen.as_u64(), "{period}");
        }
    }
    for read in document["reads"].as_array().unwrap() {
        println!("{read}");
    }
    let syscall = |r: &&Value| r["event"] == "instructions:u" && r["way"] == "system call";
    let read = document["reads"]
        .as_array()
        .unwrap()
        .iter()
        .find(syscall)
        .unwrap();
    assert!(
        read["ns"].is_f64() && read["instructions"].is_f64(),
        "{read}"
    );
}
