//! The JSON schemas in `docs/schemas` against real output, and against output that is wrong.

use crate::support::{fails, hardware, json, run, stdout, stepped, virtual_pmu};
pub(crate) use truecount_testing::schemas::follows as check;
use truecount_testing::schemas::refuses;

#[test]
fn check_follows_its_schema() {
    let document = json(&["check", "--json"]);
    check("check.json", &document);
    refuses("check.json", &document, |wrong| {
        wrong["findings"][0]["status"] = "great".into();
    });
    refuses("check.json", &document, |wrong| {
        wrong["schema"] = "truecount.check/9".into();
    });
}

#[test]
fn stat_follows_its_schema() {
    let document = json(&[
        "stat",
        "--json",
        "-e",
        "page-faults,max-rss,cycles:u",
        "--",
        "true",
    ]);
    check("stat.json", &document);
    refuses("stat.json", &document, |wrong| {
        wrong["counters"][0]["unit"] = 5.into();
    });
    // A value without a source, and nothing without a reason.
    refuses("stat.json", &document, |wrong| {
        wrong["counters"][0]["source"] = serde_json::Value::Null;
    });
    refuses("stat.json", &document, |wrong| {
        wrong["counters"][0]["value"] = serde_json::Value::Null;
        wrong["counters"][0]["reason"] = serde_json::Value::Null;
    });
    let lines = stdout(&run(&[
        "stat",
        "--json",
        "-I",
        "20",
        "-M",
        "ipc",
        "-e",
        "page-faults",
        "--",
        "sleep",
        "0.05",
    ]));
    for line in lines.lines() {
        let line = serde_json::from_str(line).unwrap();
        check("stat-interval.json", &line);
        refuses("stat-interval.json", &line, |wrong| {
            wrong["since_ns"] = serde_json::Value::Null;
        });
        refuses("stat-interval.json", &line, |wrong| {
            wrong["counters"][0]["value"] = "many".into();
        });
    }
    assert!(lines.lines().count() >= 2, "{lines}");
    let metrics = json(&["stat", "--json", "-M", "ipc,cpus-utilized", "--", "true"]);
    check("stat.json", &metrics);
    refuses("stat.json", &metrics, |wrong| {
        wrong["metrics"][0]["value"] = serde_json::Value::Null;
        wrong["metrics"][0]["reason"] = serde_json::Value::Null;
    });
    let killed = run(&["stat", "--json", "--", "sh", "-c", "kill -9 $$"]);
    check(
        "stat.json",
        &serde_json::from_slice(&killed.stdout).unwrap(),
    );
    check("stat.json", &json(&["stat", "-a", "--json", "--", "true"]));
    if let Some((_directory, program)) = stepped() {
        check(
            "stat.json",
            &json(&["stat", "--source", "step", "--json", "--", &program]),
        );
    }
    if !hardware() {
        let row = document["counters"].as_array().unwrap().last().unwrap();
        assert!(row["value"].is_null() && row["reason"].is_string(), "{row}");
    }
}

#[test]
fn bench_follows_its_schema() {
    let document = json(&["bench", "-n", "7", "--json", "-P", "n", "1..2", "echo {n}"]);
    check("bench.json", &document);
    refuses("bench.json", &document, |wrong| {
        wrong["commands"][0]["metrics"]["wall-time"]["samples"] = "x".into();
    });
    refuses("bench.json", &document, |wrong| {
        wrong["comparisons"][0]["verdict"] = "better".into();
    });
    let gated = [
        "bench",
        "-n",
        "2",
        "--clean-env",
        "--fail-above",
        "max-rss=900%",
        "true",
        "true",
    ];
    let gated = run(&[&gated[..], &["--json"]].concat());
    let gated = serde_json::from_slice(&gated.stdout).unwrap();
    check("bench.json", &gated);
    refuses("bench.json", &gated, |wrong| {
        wrong["gates"][0]["outcome"] = "fine".into();
    });
    refuses("bench.json", &document, |wrong| {
        let _ = wrong.as_object_mut().unwrap().remove("seed");
    });
    check(
        "bench.json",
        &json(&["bench", "-n", "1", "--json", "--", "true"]),
    );
    if let Some((_directory, program)) = stepped() {
        let document = json(&[
            "bench",
            "-n",
            "1",
            "--source",
            "step",
            "--exact-runs",
            "1",
            "--json",
            &program,
            &program,
        ]);
        check("bench.json", &document);
    }
}

#[test]
fn run_follows_its_schema() {
    if !virtual_pmu() {
        return;
    }
    let args = [
        "run",
        "--json",
        "--per-thread",
        "--per-process",
        "--functions",
        "--",
    ];
    let output = run(&[&args[..], &["sh", "-c", "/bin/true; exit 3"]].concat());
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    check("run.json", &document);
    refuses("run.json", &document, |wrong| {
        wrong["source"] = "hardware".into();
    });
    refuses("run.json", &document, |wrong| {
        wrong["processes"][0]["instructions"] = serde_json::Value::Null;
    });
    refuses("run.json", &document, |wrong| {
        wrong["functions"][0]["events"] = serde_json::json!({ "loads:u": -1 });
    });
    refuses("run.json", &document, |wrong| {
        wrong["counters"][0]["value"] = serde_json::Value::Null;
    });
    let plain = run(&["run", "--json", "--", "true"]);
    check("run.json", &serde_json::from_str(&stdout(&plain)).unwrap());
    check(
        "stat.json",
        &json(&["stat", "--source", "virtual", "--json", "--", "true"]),
    );
}

#[test]
fn events_and_models_follow_their_schemas() {
    for args in [
        &["events", "--json"][..],
        &["events", "--cpu", "skl", "--json"],
        &["events", "--cpu", "adl", "--json"],
        &["events", "--cpu", "zen2", "--json"],
        &["events", "--cpu", "neoverse-n1", "--json"],
    ] {
        let document = json(args);
        assert!(!document["events"].as_array().unwrap().is_empty());
        check("events.json", &document);
    }
    if !hardware() {
        // What this machine counts: that of the virtual PMU, too, and no event of a PMU. (`cycles` alone may be a part of
        // the name of an event in the tables of this CPU.)
        fails(&["events", "ref-cycles"], 1, &["ref-cycles needs a PMU"]);
        if virtual_pmu() {
            let document = json(&["events", "branch", "--json"]);
            let events = document["events"].as_array().unwrap();
            let branches = events.iter().find(|event| event["name"] == "branches");
            let branches = branches.unwrap_or_else(|| panic!("{document}"));
            assert_eq!(branches["origin"], "virtual");
            assert_eq!(branches["perf"], "branches:u");
            check("events.json", &document);
        }
    }
    let document = json(&["events", "--cpu", "snb", "HW_INTERRUPTS.RECEIVED", "--json"]);
    assert_eq!(document["events"][0]["raw"], "r01cb");
    check("events.json", &document);
    refuses("events.json", &document, |wrong| {
        wrong["events"][0]["raw"] = "0x1cb".into();
    });
    // An undocumented event without its provenance.
    refuses("events.json", &document, |wrong| {
        wrong["events"][0]["provenance"] = serde_json::Value::Null;
    });
    let document = json(&["events", "--cpu", "list", "--json"]);
    assert!(document["models"].as_array().unwrap().len() > 50);
    check("models.json", &document);
    refuses("models.json", &document, |wrong| {
        let _ = wrong["models"][0].as_object_mut().unwrap().remove("cpus");
    });
}

#[test]
fn metrics_follow_their_schema() {
    for cpu in ["snb", "skl", "icl", "spr", "zen5", "neoverse-v1"] {
        let document = json(&["events", "--metrics", "--cpu", cpu, "--json"]);
        assert!(document["packs"].as_array().unwrap().len() > 1, "{cpu}");
        check("metrics.json", &document);
    }
    let document = json(&["events", "--metrics", "--json"]);
    check("metrics.json", &document);
    refuses("metrics.json", &document, |wrong| {
        wrong["packs"][0]["metrics"][0]["formula"] = "".into();
    });
    refuses("metrics.json", &document, |wrong| {
        let _ = wrong["packs"][0].as_object_mut().unwrap().remove("source");
    });
}

#[test]
fn system_follows_its_schema() {
    for per in ["cpu", "core", "socket", "node"] {
        let document = json(&["system", "-n", "1", "-I", "50", "--per", per, "--json"]);
        check("system.json", &document);
        // A value out of nothing, and nothing without a reason.
        refuses("system.json", &document, |wrong| {
            wrong["rows"][0]["cells"][0]["reason"] = serde_json::Value::Null;
            wrong["rows"][0]["cells"][0]["value"] = serde_json::Value::Null;
        });
        refuses("system.json", &document, |wrong| {
            wrong["rows"][0]["cells"][0] = serde_json::json!({
                "value": 0, "source": null, "precision": null, "reason": "no PMU",
            });
        });
    }
}
