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
    registers(&document);
    if cfg!(target_arch = "x86_64") {
        // 5 cycles for 4 instructions, one a nanosecond: of the time that they were counted in.
        let hertz = document["cycles_per_second"].as_f64().unwrap();
        assert!((hertz / 1.25e9 - 1.0).abs() < 0.02, "{hertz}");
        // Rings that are freed while another cell is visited would be stolen from that one, and from nobody.
        let stolen = document["background_share"].as_f64().unwrap();
        println!("without sampling: {stolen}");
        assert!(stolen < 0.01, "{stolen}");
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

/// Register accesses of an interrupt, by the kernel's tracepoints: those that the model states for Linux 6.1.
fn registers(document: &Value) {
    let found = document["registers"].as_array().unwrap();
    println!("{found:?} {}", document["registers_reason"]);
    if cfg!(not(target_arch = "x86_64")) {
        return assert!(found.is_empty());
    }
    if let Some(reason) = document["registers_reason"].as_str() {
        // Said, and the model goes by what it states.
        assert!(found.is_empty(), "{reason}");
        let origin = document["model"]["inputs"]["classic"]["origin"].as_str();
        return assert!(origin.unwrap().starts_with("stated: "), "{origin:?}");
    }
    let of = |payload: &str, register: &str| {
        let mut all = found.iter();
        let one = all.find(|used| used["payload"] == payload).unwrap();
        one["per_sample"][register].as_f64().unwrap()
    };
    // An interrupt at the edge of the watch has its accesses in it and its sample not, or the other way round.
    for (register, plain, stack) in [
        ("wrmsr", 4.0, 1.0),
        ("rdmsr", 2.0, 98.0),
        ("rdpmc", 1.0, 0.0),
    ] {
        let (without, with) = (of("none", register), of("lbr", register));
        assert!((without - plain).abs() < 0.7, "{register}: {without}");
        assert!(
            (with - without - stack).abs() < 1.0,
            "{register}: {without}, {with}"
        );
    }
    let origin = document["model"]["inputs"]["classic"]["origin"].as_str();
    assert!(origin.unwrap().starts_with("measured: "), "{origin:?}");
}
