//! Event expressions: parsing and resolving never panic; what parses prints to something that parses to the same; an
//! error points into the expression.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use truecount_events::{Catalogue, Cpu, Definition, Machine, Vendor, parse, parse_terms, resolve_parsed};

/// A catalogue whose definitions are the fuzzer's: terms come from the name itself.
#[derive(Debug)]
struct Echo;

impl Catalogue for Echo {
    fn find(&self, name: &str, _pmu: Option<&str>) -> Vec<Definition> {
        let Some(rest) = name.strip_prefix("echo.") else { return Vec::new() };
        vec![Definition {
            name: name.to_owned(),
            pmu: "cpu".to_owned(),
            terms: rest.replace('.', ",").replace('-', "="),
            unit: None,
            scale: None,
        }]
    }

    fn names(&self, _pmu: Option<&str>) -> Vec<String> {
        vec!["echo.event-1".to_owned()]
    }
}

/// An x86 machine without sysfs: PMU `cpu` with the architecture's formats.
static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let cpu = Cpu { vendor: Vendor::Intel, family: 6, model: 94, stepping: 3 };
    Machine::at(std::path::Path::new("/nonexistent")).with_cpu(cpu).with_catalogue(Echo)
});

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = parse_terms(text);
    let _ = text.parse::<truecount_events::Format>();
    let _ = truecount_events::cpu_list(text);
    let _ = Cpu::from_cpuinfo(text);
    match parse(text) {
        Ok(tree) => {
            let canonical = tree.to_string();
            let again = parse(&canonical).expect("the canonical spelling parses");
            assert_eq!(again.to_string(), canonical);
            if let Err(error) = resolve_parsed(&tree, text, &MACHINE) {
                check(&error);
            }
        }
        Err(error) => check(&error),
    }
});

fn check(error: &truecount_events::Error) {
    assert!(error.expression.get(error.span.start..error.span.end).is_some(), "{error:?}");
    assert!(!error.to_string().is_empty() && error.near.len() <= 3);
    let _ = error.pointer();
}
