//! One test for each family: counts whose answers were worked out by hand from the publisher's definition.

mod files;

use super::*;

/// Values of all metrics of a pack from counts by the pack's short names.
struct Worked {
    pack: &'static Pack,
    counts: Vec<(&'static str, f64)>,
    context: Context,
}

impl Worked {
    fn new(pack: &str, counts: &[(&'static str, f64)]) -> Self {
        let metrics = Metrics::embedded();
        Self {
            pack: metrics.packs().iter().find(|p| p.name == pack).unwrap(),
            counts: counts.to_vec(),
            context: Context {
                smt: Some(false),
                wall_ns: Some(1e9),
                slots: None,
            },
        }
    }

    fn count(&self, event: &str) -> Option<f64> {
        let (name, _) = self.pack.events.iter().find(|(_, e)| *e == event)?;
        self.counts.iter().find(|(n, _)| n == name).map(|(_, v)| *v)
    }

    fn value(&self, metric: &str) -> Result<f64, NoValue> {
        let counts = |event: &str| self.count(event);
        let values = self.pack.evaluate(&[metric], &counts, &self.context);
        assert_eq!(values.len(), 1, "{metric}");
        values[0].result.clone()
    }

    #[track_caller]
    fn is(&self, expected: &[(&str, f64)]) {
        for (metric, expected) in expected {
            let value = self.value(metric).unwrap();
            assert!(
                (value - expected).abs() < 1e-6,
                "{metric}: {value}, not {expected}"
            );
        }
    }

    #[track_caller]
    fn sums_to_100(&self) {
        let check = self.pack.check(&|e| self.count(e), &self.context).unwrap();
        assert!(check.holds(), "{check:?}");
        assert!((check.sum - 100.0).abs() < 1e-6, "{check:?}");
    }
}

/// Every pack of slots names an event that shows whether the machine counts them at all; where it stays 0, the pack has
/// no values, whatever else was counted.
#[test]
fn a_silent_witness_refuses_its_pack() {
    let metrics = Metrics::embedded();
    for pack in metrics.packs() {
        let of_slots = pack.sum.is_some();
        assert!(
            !of_slots || pack.witnesses().next().is_some(),
            "{}",
            pack.name
        );
    }
    let named = |name: &str| metrics.packs().iter().find(|p| p.name == name).unwrap();
    let mut pack = named("tma-skylake").clone();
    pack.try_witnesses(|_| false);
    assert_eq!(pack.refused, None);
    pack.try_witnesses(|event| event == "UOPS_RETIRED.RETIRE_SLOTS");
    let counts = |_: &str| Some(1e6);
    let context = Context {
        smt: Some(false),
        ..Context::default()
    };
    for value in pack.evaluate(
        &["frontend-bound", "backend-bound", "retiring"],
        &counts,
        &context,
    ) {
        let why = value.result.unwrap_err().to_string();
        assert!(
            why.contains("does not count UOPS_RETIRED.RETIRE_SLOTS"),
            "{why}"
        );
    }
    assert_eq!(pack.check(&counts, &context), None);
    let mut general = named("general").clone();
    general.try_witnesses(|_| true);
    assert_eq!(general.refused, None);
}

#[test]
fn general() {
    let counts = [
        ("I", 3e9),
        ("C", 2e9),
        ("B", 5e8),
        ("BM", 1e7),
        ("CR", 4e7),
        ("CM", 6e6),
        ("T", 5e8),
    ];
    Worked::new("general", &counts).is(&[
        ("ipc", 1.5),
        ("cpi", 2.0 / 3.0),
        ("branch-miss-ratio", 2.0),
        ("branch-mpki", 10.0 / 3.0),
        ("cache-miss-ratio", 15.0),
        ("cache-mpki", 2.0),
        ("ghz", 4.0),
        ("cpus-utilized", 0.5),
    ]);
}

#[test]
fn nothing_counted_is_no_zero() {
    let worked = Worked::new("general", &[("I", 0.0), ("C", 0.0)]);
    assert_eq!(
        worked.value("ipc"),
        Err(NoValue::DivisionByZero("C".into()))
    );
    assert_eq!(
        worked.value("branch-mpki"),
        Err(NoValue::Missing("branch-misses".into()))
    );
}

const SKYLAKE: [(&str, f64); 16] = [
    ("CLK", 1000.0),
    ("ANY", 1600.0),
    ("NOT", 800.0),
    ("ISS", 2600.0),
    ("RET", 2400.0),
    ("REC", 50.0),
    ("RECA", 80.0),
    ("LAT", 100.0),
    ("BM", 30.0),
    ("MC", 10.0),
    ("SM", 200.0),
    ("BS", 50.0),
    ("ST", 300.0),
    ("P1", 100.0),
    ("P2", 200.0),
    ("MF", 200.0),
];

#[test]
fn skylake() {
    let mut counts = SKYLAKE.to_vec();
    counts.push(("I", 2400.0));
    let worked = Worked::new("tma-skylake", &counts);
    worked.is(&[
        ("slots", 4000.0),
        ("frontend-bound", 20.0),
        ("bad-speculation", 10.0),
        ("retiring", 60.0),
        ("backend-bound", 10.0),
        ("fetch-latency", 10.0),
        ("fetch-bandwidth", 10.0),
        ("branch-mispredicts", 7.5),
        ("machine-clears", 2.5),
        // 250 of 300 + 100 + 0.6 · 200 + 50 = 570
        ("memory-bound", 10.0 * 250.0 / 570.0),
        ("core-bound", 10.0 * 320.0 / 570.0),
        ("heavy-operations", 5.0),
        ("light-operations", 55.0),
    ]);
    worked.sums_to_100();
}

#[test]
fn skylake_with_smt_counts_the_core() {
    let mut worked = Worked::new("tma-skylake", &SKYLAKE);
    worked.context.smt = Some(true);
    // 2 · 1600 slots; recovery 80 / 2
    worked.is(&[
        ("slots", 3200.0),
        ("frontend-bound", 25.0),
        ("retiring", 75.0),
        ("bad-speculation", 11.25),
    ]);
    let events = worked.pack.events_for(&["frontend-bound"], &worked.context);
    assert_eq!(
        events,
        ["CPU_CLK_UNHALTED.THREAD_ANY", "IDQ_UOPS_NOT_DELIVERED.CORE"]
    );
}

#[test]
fn sandy_bridge_level_1() {
    let worked = Worked::new("tma-sandybridge", &SKYLAKE);
    worked.is(&[
        ("frontend-bound", 20.0),
        ("bad-speculation", 10.0),
        ("retiring", 60.0),
        ("backend-bound", 10.0),
    ]);
    worked.sums_to_100();
}

#[test]
fn ice_lake() {
    let worked = Worked::new(
        "tma-icelake",
        &[
            ("SLOTS", 5000.0),
            ("TR", 2000.0),
            ("TS", 500.0),
            ("TF", 1000.0),
            ("TB", 1500.0),
            ("DROP", 50.0),
            ("CLR", 10.0),
            ("LAT", 110.0),
            ("BM", 30.0),
            ("MC", 10.0),
            ("SM", 200.0),
            ("BS", 50.0),
            ("ST", 300.0),
            ("P1", 100.0),
            ("P2", 125.0),
        ],
    );
    worked.is(&[
        ("frontend-bound", 19.0),
        ("backend-bound", 31.0),
        ("retiring", 40.0),
        ("bad-speculation", 10.0),
        ("fetch-latency", 10.0),
        ("fetch-bandwidth", 9.0),
        ("branch-mispredicts", 7.5),
        // 250 of 300 + 100 + 0.4 · 125 + 50 = 500
        ("memory-bound", 15.5),
        ("core-bound", 15.5),
    ]);
    worked.sums_to_100();
    let expression = worked.pack.expression(&["retiring"], &worked.context);
    assert_eq!(
        expression,
        "{cpu/event=0x0,umask=0x4/,cpu/event=0x0,umask=0x80/,cpu/event=0x0,umask=0x81/,\
         cpu/event=0x0,umask=0x82/,cpu/event=0x0,umask=0x83/}",
        "slots leads"
    );
}

#[test]
fn sapphire_rapids_and_hybrids() {
    for pack in ["tma-sapphirerapids", "tma-hybrid"] {
        let worked = Worked::new(
            pack,
            &[
                ("SLOTS", 6000.0),
                ("TR", 3000.0),
                ("TS", 600.0),
                ("TF", 1200.0),
                ("TB", 1200.0),
                ("DROP", 60.0),
                ("TL", 600.0),
                ("TM", 300.0),
                ("TMEM", 720.0),
                ("TH", 240.0),
            ],
        );
        worked.is(&[
            ("frontend-bound", 19.0),
            ("backend-bound", 20.0),
            ("retiring", 50.0),
            ("bad-speculation", 11.0),
            ("fetch-latency", 9.0),
            ("fetch-bandwidth", 10.0),
            ("branch-mispredicts", 5.0),
            ("machine-clears", 6.0),
            ("memory-bound", 12.0),
            ("core-bound", 8.0),
            ("heavy-operations", 4.0),
            ("light-operations", 46.0),
        ]);
        worked.sums_to_100();
    }
}

#[test]
fn zen_4_and_5() {
    for (pack, width) in [("pipeline-zen4", 6.0), ("pipeline-zen5", 8.0)] {
        let slots = width * 1000.0;
        let worked = Worked::new(
            pack,
            &[
                ("C", 1000.0),
                ("FE", 0.20 * slots),
                ("BE", 0.30 * slots),
                ("SMTC", 0.10 * slots),
                ("D", 0.40 * slots),
                ("R", 0.35 * slots),
                ("FEL", 120.0),
                ("BM", 30.0),
                ("RS", 10.0),
                ("NL", 300.0),
                ("NC", 400.0),
                ("UC", 0.07 * slots),
            ],
        );
        worked.is(&[
            ("frontend-bound", 20.0),
            ("backend-bound", 30.0),
            ("smt-contention", 10.0),
            ("bad-speculation", 5.0),
            ("retiring", 35.0),
            // 120 cycles without any op, of 1000
            ("fetch-latency", 12.0),
            ("fetch-bandwidth", 8.0),
            ("branch-mispredicts", 3.75),
            ("memory-bound", 22.5),
            ("core-bound", 7.5),
            ("heavy-operations", 7.0),
        ]);
        worked.sums_to_100();
    }
}

#[test]
fn neoverse() {
    let counts = |slots: f64| {
        vec![
            ("C", 1000.0),
            ("SF", 0.2 * slots * 1000.0),
            ("SB", 0.3 * slots * 1000.0),
            ("S", 0.5 * slots * 1000.0),
            ("OR", 800.0),
            ("OS", 1000.0),
            ("BM", 5.0),
        ]
    };
    for (pack, width, values) in [
        ("topdown-neoverse-v1", 8.0, [18.0, 12.0, 30.0, 40.0]),
        ("topdown-neoverse-v2", 8.0, [19.5, 12.0, 28.5, 40.0]),
        ("topdown-neoverse-n2", 5.0, [20.0, 10.0, 30.0, 40.0]),
    ] {
        let worked = Worked::new(pack, &counts(width));
        let names = [
            "frontend-bound",
            "bad-speculation",
            "backend-bound",
            "retiring",
        ];
        let expected: Vec<_> = names.into_iter().zip(values).collect();
        worked.is(&expected);
        worked.sums_to_100();
    }
    let n1 = [("C", 1000.0), ("SF", 150.0), ("SB", 400.0)];
    Worked::new("stalls-neoverse-n1", &n1).is(&[
        ("frontend-stalled-cycles", 15.0),
        ("backend-stalled-cycles", 40.0),
    ]);
}

#[test]
fn sandy_bridge_shares() {
    let worked = Worked::new(
        "look-here-sandybridge",
        &[
            ("CLK", 1e6),
            ("RET", 2e6),
            ("LM", 1000.0),
            ("LH", 2000.0),
            ("XH", 100.0),
            ("XM", 500.0),
            ("SH", 1000.0),
            ("WD", 93_000.0),
            ("AL", 1000.0),
            ("SL", 2000.0),
            ("BM", 10_000.0),
            ("MO", 100.0),
            ("SMC", 50.0),
            ("MM", 50.0),
            ("NOT", 400_000.0),
        ],
    );
    worked.is(&[
        ("slots-filled", 0.5),
        ("memory-share", 0.18),
        // 26 · 2000 + 43 · 100 + 60 · 500 = 86300
        ("llc-share", 0.0863),
        ("contested-lines", 0.03),
        ("dtlb-share", 0.1),
        ("aliasing-4k", 0.005),
        ("split-loads", 0.01),
        ("mispredicts-share", 0.2),
        ("machine-clears-share", 0.02),
        ("front-end-share", 0.1),
    ]);
}

#[test]
fn a_sum_that_is_not_100_is_reported() {
    let counts = [
        ("C", 1000.0),
        ("FE", 3000.0),
        ("BE", 3000.0),
        ("SMTC", 0.0),
        ("D", 2000.0),
        ("R", 1500.0),
    ];
    let worked = Worked::new("pipeline-zen4", &counts);
    let check = worked
        .pack
        .check(&|e| worked.count(e), &worked.context)
        .unwrap();
    assert!(!check.holds());
    assert!((check.sum - 8000.0 / 60.0).abs() < 1e-6, "{check:?}");
}

#[test]
fn thresholds_say_what_to_look_at() {
    let worked = Worked::new("general", &[("I", 300.0), ("C", 1000.0)]);
    let values = worked
        .pack
        .evaluate(&["ipc", "cpi"], &|e| worked.count(e), &worked.context);
    assert!(values[0].flag.as_ref().unwrap().next.contains("topdown-1"));
    assert!(values[1].flag.is_none());
}
