//! Parsers of text.

use std::sync::LazyLock;

use truecount_events::metrics::{Expr, Metrics, NoValue};
use truecount_events::tables::Tables;
use truecount_events::{Catalogue, Cpu, Definition, Error, Format, Machine, Vendor};
use truecount_events::{cpu_list, did_you_mean, parse, parse_terms, resolve_parsed};

/// A catalogue whose definitions are the fuzzer's: terms come from the name itself.
#[derive(Debug)]
struct Echo;

impl Catalogue for Echo {
    fn find(&self, name: &str, _pmu: Option<&str>) -> Vec<Definition> {
        let Some(rest) = name.strip_prefix("echo.") else {
            return Vec::new();
        };
        vec![Definition {
            name: name.to_owned(),
            pmu: "cpu".to_owned(),
            terms: rest.replace('.', ",").replace('-', "="),
            unit: None,
            scale: None,
            precise: rest.contains('p'),
        }]
    }

    fn names(&self, _pmu: Option<&str>) -> Vec<String> {
        vec!["echo.event-1".to_owned()]
    }
}

/// An x86 machine without sysfs: PMU `cpu` with the architecture's formats.
static MACHINE: LazyLock<Machine> = LazyLock::new(|| {
    let cpu = Cpu {
        vendor: Vendor::Intel,
        family: 6,
        model: 94,
        stepping: 3,
    };
    Machine::at(std::path::Path::new("/nonexistent"))
        .with_cpu(cpu)
        .with_catalogue(Echo)
});

/// Event expressions: parsing and resolving never panic; what parses prints to something that parses to the same; an
/// error points into the expression.
pub(crate) fn event_expr(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = parse_terms(text);
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
}

fn check(error: &Error) {
    let points_into = error.expression.get(error.span.start..error.span.end);
    assert!(points_into.is_some(), "{error:?}");
    assert!(!error.to_string().is_empty() && error.near.len() <= 3);
    let _ = error.pointer();
}

/// `/proc/cpuinfo`, lists of CPUs, formats of sysfs, near names, codes of `discover --select`.
pub(crate) fn cpu_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = Cpu::from_cpuinfo(text);
    if let Some(list) = cpu_list(text) {
        assert!(list.is_sorted());
    }
    if let Ok(format) = text.parse::<Format>() {
        let mut words = [0; 4];
        if format.put(format.max(), &mut words).is_ok() {
            assert_eq!(format.get(&words), format.max(), "{text}");
        }
    }
    let _ = did_you_mean(text, ["instructions", "branches"].map(str::to_owned));
    for layout in [
        truecount_lab::discovery::Layout::Intel,
        truecount_lab::discovery::Layout::Amd,
    ] {
        let _ = truecount_lab::discovery::parse_codes(text, layout);
    }
}

/// Formulas: what parses has a value or a reason.
pub(crate) fn metric_expr(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(expression) = Expr::parse(text) {
        let _ = expression.names(&|_| None);
        for value in [0.0, 1.0, f64::MAX] {
            let look_up = |name: &str| -> Result<f64, NoValue> { Ok(value + name.len() as f64) };
            let _ = expression.value(&look_up);
        }
    }
}

/// Files of `--metrics-file`.
pub(crate) fn metrics_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(metrics) = Metrics::parse(text, "fuzz.toml") {
        let names = ["instructions", "cycles", "branches"];
        let _ = metrics.packs_for(&names);
        let _ = metrics.find("ipc", &names);
    }
}

/// Vendors' event files, as a file of events and as the mapfile of a directory.
pub(crate) fn vendor_events(data: &[u8]) {
    crate::in_directory(|directory| {
        let file = directory.join("events.json");
        if std::fs::write(&file, data).is_err() {
            return;
        }
        let _ = Tables::from_dir(&file);
        if std::fs::write(directory.join("mapfile.csv"), data).is_ok() {
            let _ = Tables::from_dir(directory);
        }
    });
}

/// `/proc/stat` and `/proc/interrupts`, as `system` and as the laboratory read them.
pub(crate) fn proc_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for cpu in [0, 2, usize::MAX] {
        let _ = truecount_lab::machine::sum_column(&text, cpu);
    }
    let _ = truecount_lab::machine::lines_with(&text, &["timer", "pmu"]);
    let _ = truecount_system::proc::Stat::parse(&text);
    let _ = truecount_system::proc::Interrupts::parse(&text);
}

/// `/proc/kallsyms` and the mappings of a process: a name that is found stands in the text.
pub(crate) fn kallsyms(data: &[u8]) {
    if let Ok(symbols) = truecount_record::kallsyms::Kallsyms::read(data) {
        let at = symbols.start().unwrap_or(u64::MAX);
        for address in [0, at, at.wrapping_add(0x180), u64::MAX] {
            if let Some(found) = symbols.find(address) {
                assert!(!found.name.is_empty() && found.offset <= address);
            }
        }
    }
    for line in String::from_utf8_lossy(data).lines() {
        let _ = truecount_record::procfs::mapping(line);
    }
}

/// The text of `perf script -F ip,brstack`.
pub(crate) fn branch_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(analysis) = truecount_sample::blocks::analyze_text(&text, None) {
        crate::binary::look_at(&analysis);
    }
}

/// The text of `perf script` as `report` reads it.
pub(crate) fn script_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(script) = truecount_sample::script::parse(&text) {
        let samples = |entries: &[(_, truecount_sample::profile::Weight)]| {
            entries
                .iter()
                .map(|(_, weight)| weight.samples)
                .sum::<u64>()
        };
        assert!(samples(&script.profile.entries) as usize <= text.lines().count());
    }
}
