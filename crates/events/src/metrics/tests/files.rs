//! The built-in file, users' files, names.

use super::*;

#[test]
fn names_and_groups_are_found() {
    let metrics = Metrics::embedded();
    let (pack, names) = metrics.find("topdown-1", &["skylake"]).unwrap();
    assert_eq!(pack.name, "tma-skylake");
    assert_eq!(
        names,
        [
            "frontend-bound",
            "bad-speculation",
            "backend-bound",
            "retiring"
        ]
    );
    assert_eq!(metrics.find("IPC", &[]).unwrap().1, ["ipc"]);
    let unknown = metrics.find("topdown-1", &["amdzen2"]).unwrap_err();
    assert!(unknown.to_string().contains("amdzen4"), "{unknown}");
    let unknown = metrics.find("branch-mpkl", &[]).unwrap_err();
    assert_eq!(unknown.near, ["branch-mpki"]);
    let general = metrics
        .packs()
        .iter()
        .find(|p| p.name == "general")
        .unwrap();
    assert_eq!(
        general.expression(&["ipc"], &Context::default()),
        "{cycles,instructions}"
    );
}

#[test]
fn users_files() {
    let mine = "[[pack]]\nname = \"mine\"\ncpus = [\"*\"]\nsource = \"me\"\nevents = { A = \"faults\", T = \"task-clock\" }\n\
                [[pack.metric]]\nname = \"fault-rate\"\nformula = \"1e9 * A / T\"\nunit = \"per s\"\nabout = \"Faults per second.\"\n";
    let metrics = Metrics::embedded()
        .clone()
        .with(Metrics::parse(mine, "mine.toml").unwrap());
    let (pack, names) = metrics.find("fault-rate", &["skylake"]).unwrap();
    let counts = |e: &str| Some(if e == "faults" { 10.0 } else { 1e9 });
    assert_eq!(
        pack.evaluate(&names, &counts, &Context::default())[0].result,
        Ok(10.0)
    );
    for (change, reason) in [
        (("1e9 * A / T", "A / B"), "which nobody defines"),
        (("1e9 * A / T", "A /"), "expected"),
        (("unit", "units"), "units"),
        (("cpus", "cpu"), "cpu"),
    ] {
        let error = Metrics::parse(&mine.replace(change.0, change.1), "mine.toml").unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    let circle = mine.replace("1e9 * A / T", "`fault-rate` + A");
    let metrics = Metrics::parse(&circle, "mine.toml").unwrap();
    let value = &metrics.packs()[0].evaluate(&["fault-rate"], &counts, &Context::default())[0];
    assert_eq!(value.result, Err(NoValue::Circular("fault-rate".into())));
}

#[test]
fn the_built_in_file_parses() {
    let text = include_str!("../../../data/metrics.toml");
    let metrics = Metrics::parse(text, "metrics.toml").unwrap();
    assert!(metrics.packs().len() >= 12);
    for pack in metrics.packs() {
        assert!(!pack.source.is_empty() && !pack.metrics.is_empty());
        for metric in &pack.metrics {
            assert!(!metric.about.is_empty() && !metric.unit.is_empty());
            let flagged = metric.above.is_some() || metric.below.is_some();
            assert!(
                !flagged || !metric.next.is_empty(),
                "{} {}",
                pack.name,
                metric.name
            );
        }
    }
}

/// The worse direction of every built-in metric: a row that does not say, or says otherwise than here, is a fault.
#[test]
fn the_worse_direction_of_every_metric() {
    let lower = ["ipc", "ghz", "retiring", "light-operations", "slots-filled"];
    let higher = [
        "cpi",
        "branch-miss-ratio",
        "branch-mpki",
        "cache-miss-ratio",
        "cache-mpki",
        "slots",
        "topdown-sum",
        "recovery",
        "frontend-bound",
        "bad-speculation",
        "backend-bound",
        "fetch-latency",
        "fetch-bandwidth",
        "branch-mispredicts",
        "machine-clears",
        "memory-bound",
        "core-bound",
        "heavy-operations",
        "smt-contention",
        "frontend-stalled-cycles",
        "backend-stalled-cycles",
        "aliasing-4k",
        "contested-lines",
        "dtlb-share",
        "front-end-share",
        "llc-share",
        "machine-clears-share",
        "memory-share",
        "mispredicts-share",
        "page-faults-per-second",
        "split-loads",
    ];
    let metrics = Metrics::embedded();
    for metric in metrics.packs().iter().flat_map(|pack| &pack.metrics) {
        let name = metric.name.as_str();
        let expected = match name {
            "cpus-utilized" => Worse::Neither,
            _ if lower.contains(&name) => Worse::Lower,
            _ if higher.contains(&name) => Worse::Higher,
            _ => panic!("{name}: which direction is worse?"),
        };
        assert_eq!(metric.worse, Some(expected), "{name}");
        assert_eq!(metrics.worse(name), Some(expected), "{name}");
    }
    assert_eq!(metrics.worse("no-such-metric"), None);
}

/// Every event of every pack is an event of each of its CPUs (or terms, or a generic event).
#[cfg(feature = "tables")]
#[test]
fn the_events_exist() {
    use crate::tables::Tables;
    for pack in Metrics::embedded().packs() {
        for cpu in pack.cpus.iter().filter(|c| *c != "*") {
            let model = Tables::embedded().model(cpu).unwrap();
            for event in pack.events.values() {
                if let Some(code) = event
                    .strip_prefix("cpu/")
                    .or(event.strip_prefix("cpu_core/"))
                {
                    assert!(code.starts_with("event="), "{event}");
                } else {
                    assert!(
                        !model.find(event).is_empty(),
                        "{cpu} has no {event} ({})",
                        pack.name
                    );
                }
            }
        }
    }
}
