//! Every fuzz target on mutants of its seeds, the same ones on every run: a parser that panics or hangs on damaged input
//! is noticed without a fuzzer. `TRUECOUNT_MUTANTS=100000` makes more of them.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use truecount_cli::parsers;
use truecount_fuzz_targets::mutants::{SEED, corpus, mutant};
use truecount_fuzz_targets::{TARGETS, Target, named};

/// Mutants of each target, where the environment asks for no other number.
const MUTANTS: u64 = 3000;
/// No input of some kilobytes may take longer, on a loaded machine in a debug build.
const TOO_LONG: Duration = Duration::from_secs(60);

fn feed(target: Target, data: &[u8]) {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(data)));
    let mut text = data.escape_ascii().to_string();
    text.truncate(1000);
    assert!(outcome.is_ok(), "{} panics on b\"{text}\"", target.name);
    let took = start.elapsed();
    assert!(
        took < TOO_LONG,
        "{} took {took:?} on b\"{text}\"",
        target.name
    );
}

fn mutate(name: &str) {
    let target = named(name);
    let seeds = corpus(target);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for seed in &seeds {
        feed(target, seed);
    }
    feed(target, b"");
    let number = std::env::var("TRUECOUNT_MUTANTS");
    let number = number.map_or(MUTANTS, |number| number.parse().unwrap());
    for number in 0..number {
        feed(target, &mutant(SEED, number, &seeds));
    }
}

macro_rules! mutated {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                mutate(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_mutated_and_has_its_fuzz_target() {
            let here: BTreeSet<&str> = [$(stringify!($name)),*].into();
            let all: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(here, all);
            let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
            let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
            for name in &all {
                let source = fuzz.join("fuzz_targets").join(format!("{name}.rs"));
                let source = std::fs::read_to_string(&source).unwrap();
                assert!(source.contains(&format!("named(\"{name}\")")), "{source}");
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in the manifest");
            }
            let files = std::fs::read_dir(fuzz.join("fuzz_targets")).unwrap().count();
            assert_eq!(files, all.len(), "a fuzz target that is not in the list");
        }
    };
}

mutated! {
    event_expr cpu_text metric_expr metrics_file vendor_events proc_text branch_text perf_data profile_reader elf code
    cpuid kept_translations kallsyms shell_words arguments command_line documents scan_state verdicts script_text
    symbols unwind recording_directory facts trace_formats dirents process_start requests block_specs
    records imports suites series
}

/// The seeds must reach behind the first check of their parser, or mutating them is idle.
#[test]
fn seeds_are_accepted() {
    let seeds = (named("perf_data").seeds)();
    assert_eq!(seeds.len(), 3);
    for seed in seeds {
        let recording = truecount_sample::Recording::from_bytes(seed).unwrap();
        let analysis = truecount_sample::blocks::analyze(&recording);
        assert_eq!(analysis.unwrap().unwrap().blocks.len(), 2);
    }
    let bytes = (named("elf").seeds)().remove(0);
    let elf = truecount_elf::Elf::parse(&bytes).unwrap();
    assert!(
        elf.section(".text").is_some() && elf.build_id.len() == 20,
        "{elf:?}"
    );
    let script = (named("script_text").seeds)().remove(0);
    let script = truecount_sample::script::parse(std::str::from_utf8(&script).unwrap()).unwrap();
    assert_eq!(script.profile.entries.len(), 3);
    for name in [
        "documents",
        "scan_state",
        "verdicts",
        "shell_words",
        "command_line",
    ] {
        for seed in (named(name).seeds)() {
            let text = String::from_utf8(seed).unwrap();
            let words = || truecount_run::runner::split(&text).unwrap();
            let taken = match name {
                "documents" => parsers::baseline(&text) || parsers::latency_result(&text),
                "scan_state" => truecount_lab::discovery::kept_state(&text).is_ok(),
                "verdicts" => truecount_run::exactness::Verdicts::parse(&text).is_some(),
                "command_line" => parsers::command_line(&words()),
                // One of them is an error's.
                _ => text.contains('|') || !words().is_empty(),
            };
            assert!(taken, "{name}: {text}");
        }
    }
    let text = String::from_utf8((named("metrics_file").seeds)().remove(0)).unwrap();
    let metrics = truecount_events::metrics::Metrics::parse(&text, "seed.toml").unwrap();
    let names = ["general"];
    assert!(!metrics.packs_for(&names).is_empty(), "{text}");
    let trace = (named("trace_formats").seeds)();
    assert_eq!(
        truecount_sample::tracepoint_names(&trace[1]),
        [(170, "nmi:nmi_handler".to_owned())]
    );
    let format = std::str::from_utf8(&trace[0]).unwrap();
    let place = truecount_lab::sampling::place_in_format(format, "irq");
    assert_eq!(place, Some((8, 4)));
    let entries = (named("dirents").seeds)().remove(0);
    let (sorted, calls) = truecount_run::determinism::reordered(&entries, false, None, 64).unwrap();
    assert_eq!((sorted.len(), calls), (entries.len(), 3));
    let stat = String::from_utf8((named("process_start").seeds)().remove(1)).unwrap();
    assert_eq!(truecount_run::determinism::start_of_stack(&stat), Some(28));
    for spec in (named("block_specs").seeds)() {
        let called = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/symbols/called");
        let spec = String::from_utf8(spec).unwrap();
        let at = truecount_run::latency::parse(&spec, &called);
        assert!(at.is_ok(), "{spec}: {at:?}");
    }
    for seed in (named("metric_expr").seeds)().iter().take(2) {
        let text = std::str::from_utf8(seed).unwrap();
        assert!(
            truecount_events::metrics::Expr::parse(text).is_ok(),
            "{text}"
        );
    }
}

/// The recorded stack of the seed leads from the innermost function to the outermost, with their names.
#[test]
fn the_seed_of_unwinding_has_its_chain() {
    let seed = (named("unwind").seeds)().remove(0);
    let functions = truecount_fuzz_targets::unwound(&seed);
    assert_eq!(functions, ["spin", "leaf", "middle", "outer", "_start"]);
}
