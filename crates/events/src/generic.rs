//! The kernel's generic events: hardware, software and cache names. Numbers: `include/uapi/linux/perf_event.h`
//! (`enum perf_hw_id`, `perf_sw_ids`, `perf_hw_cache_id`, `perf_hw_cache_op_id`, `perf_hw_cache_op_result_id`);
//! spellings: perf-list(1).

/// `PERF_TYPE_HARDWARE`.
pub const TYPE_HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`.
pub const TYPE_SOFTWARE: u32 = 1;
/// `PERF_TYPE_TRACEPOINT`.
pub const TYPE_TRACEPOINT: u32 = 2;
/// `PERF_TYPE_HW_CACHE`.
pub const TYPE_HW_CACHE: u32 = 3;
/// `PERF_TYPE_RAW`.
pub const TYPE_RAW: u32 = 4;

/// One generic event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generic {
    /// Canonical name.
    pub name: String,
    /// `perf_event_attr.type`.
    pub type_: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `count` or `ns`.
    pub unit: &'static str,
}

struct Row {
    names: &'static [&'static str],
    type_: u32,
    config: u64,
    unit: &'static str,
}

const fn hw(names: &'static [&'static str], config: u64) -> Row {
    Row {
        names,
        type_: TYPE_HARDWARE,
        config,
        unit: "count",
    }
}

const fn sw(names: &'static [&'static str], config: u64, unit: &'static str) -> Row {
    Row {
        names,
        type_: TYPE_SOFTWARE,
        config,
        unit,
    }
}

/// The first name of a row is the canonical one.
const ROWS: &[Row] = &[
    // enum perf_hw_id
    hw(&["cycles", "cpu-cycles"], 0),
    hw(&["instructions"], 1),
    hw(&["cache-references"], 2),
    hw(&["cache-misses"], 3),
    hw(&["branches", "branch-instructions"], 4),
    hw(&["branch-misses"], 5),
    hw(&["bus-cycles"], 6),
    hw(&["stalled-cycles-frontend", "idle-cycles-frontend"], 7),
    hw(&["stalled-cycles-backend", "idle-cycles-backend"], 8),
    hw(&["ref-cycles"], 9),
    // enum perf_sw_ids; clocks count nanoseconds (kernel/events/core.c, perf_swevent_init_hrtimer)
    sw(&["cpu-clock"], 0, "ns"),
    sw(&["task-clock"], 1, "ns"),
    sw(&["page-faults", "faults"], 2, "count"),
    sw(&["context-switches", "cs"], 3, "count"),
    sw(&["cpu-migrations", "migrations"], 4, "count"),
    sw(&["minor-faults"], 5, "count"),
    sw(&["major-faults"], 6, "count"),
    sw(&["alignment-faults"], 7, "count"),
    sw(&["emulation-faults"], 8, "count"),
    sw(&["dummy"], 9, "count"),
    sw(&["bpf-output"], 10, "count"),
    sw(&["cgroup-switches"], 11, "count"),
];

/// What Arm's PMUs call the events that the generic hardware ones mean there: the first that a PMU has. Sources:
/// `armv8_pmuv3_perf_map` and `armv8_pmuv3_event_attrs` in drivers/perf/arm_pmuv3.c; `m1_pmu_event_attrs` in
/// drivers/perf/apple_m1_cpu_pmu.c.
const ON_ARM: &[(u64, &[&str])] = &[
    (0, &["cpu_cycles", "cycles"]),
    (1, &["inst_retired", "instructions"]),
    (2, &["l1d_cache"]),
    (3, &["l1d_cache_refill"]),
    (4, &["br_retired", "pc_write_retired"]),
    (5, &["br_mis_pred"]),
    (6, &["bus_cycles"]),
    (7, &["stall_frontend"]),
    (8, &["stall_backend"]),
];

/// The names that an Arm PMU may have for a generic hardware event in sysfs.
pub(crate) fn names_on_arm(generic: &Generic) -> Option<&'static [&'static str]> {
    let row = ON_ARM.iter().find(|(config, _)| *config == generic.config);
    row.filter(|_| generic.type_ == TYPE_HARDWARE)
        .map(|(_, names)| *names)
}

/// `perf_hw_cache_id` with spellings and the operations that exist (`evsel__hw_cache_stat`): read, write, prefetch.
const CACHES: &[(&[&str], [bool; 3])] = &[
    (&["L1-dcache", "l1-d", "l1d", "L1-data"], [true, true, true]),
    (
        &["L1-icache", "l1-i", "l1i", "L1-instruction"],
        [true, false, true],
    ),
    (&["LLC", "L2"], [true, true, true]),
    (&["dTLB", "d-tlb", "Data-TLB"], [true, true, true]),
    (&["iTLB", "i-tlb", "Instruction-TLB"], [true, false, false]),
    (&["branch", "bpu", "btb", "bpc"], [true, false, false]),
    (&["node"], [true, true, true]),
];

/// `perf_hw_cache_op_id`: canonical plural (accesses), canonical singular (misses), spellings.
const OPERATIONS: [(&str, &str, &[&str]); 3] = [
    ("loads", "load", &["load", "loads", "read"]),
    ("stores", "store", &["store", "stores", "write"]),
    (
        "prefetches",
        "prefetch",
        &[
            "prefetch",
            "prefetches",
            "speculative-read",
            "speculative-load",
        ],
    ),
];

/// `perf_hw_cache_op_result_id`.
const RESULTS: [&[&str]; 2] = [&["refs", "reference", "ops", "access"], &["misses", "miss"]];

/// Looks a generic name up, case ignored.
///
/// ```
/// let event = truecount_events::generic::find("L1-dcache-load-misses").unwrap();
/// assert_eq!((event.type_, event.config), (3, 0x10000));
/// assert_eq!(truecount_events::generic::find("cpu-cycles").unwrap().name, "cycles");
/// ```
#[must_use]
pub fn find(name: &str) -> Option<Generic> {
    for row in ROWS {
        if row.names.iter().any(|n| n.eq_ignore_ascii_case(name)) {
            let canonical = row.names.first().copied().unwrap_or(name);
            return Some(Generic {
                name: canonical.to_owned(),
                type_: row.type_,
                config: row.config,
                unit: row.unit,
            });
        }
    }
    find_cache(name)
}

/// `CACHE[-OPERATION][-RESULT]`, the last two in either order, as in perf.
fn find_cache(name: &str) -> Option<Generic> {
    for (id, (spellings, operations)) in CACHES.iter().enumerate() {
        for spelling in *spellings {
            let Some(rest) = strip_prefix_ignoring_case(name, spelling) else {
                continue;
            };
            let Some((operation, result)) = suffixes(rest) else {
                continue;
            };
            if !operations.get(operation).copied().unwrap_or(false) {
                continue;
            }
            // "branch" alone would read as a cache; perf has no such spelling.
            if rest.is_empty() && *spelling == "branch" {
                continue;
            }
            let config = u64::try_from(id | operation << 8 | result << 16).ok()?;
            return Some(Generic {
                name: cache_name(id, operation, result)?,
                type_: TYPE_HW_CACHE,
                config,
                unit: "count",
            });
        }
    }
    None
}

fn cache_name(cache: usize, operation: usize, result: usize) -> Option<String> {
    let cache = CACHES.get(cache)?.0.first()?;
    let (plural, singular, _) = OPERATIONS.get(operation)?;
    Some(if result == 0 {
        format!("{cache}-{plural}")
    } else {
        format!("{cache}-{singular}-misses")
    })
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    if head.eq_ignore_ascii_case(prefix) {
        text.get(prefix.len()..)
    } else {
        None
    }
}

/// What follows the cache's name; nothing means loads.
fn suffixes(rest: &str) -> Option<(usize, usize)> {
    if rest.is_empty() {
        return Some((0, 0));
    }
    let rest = rest.strip_prefix('-')?;
    if let Some(operation) = operation(rest) {
        return Some((operation, 0));
    }
    if let Some(result) = result(rest) {
        return Some((0, result));
    }
    for (at, _) in rest.match_indices('-') {
        let (head, tail) = (rest.get(..at)?, rest.get(at.saturating_add(1)..)?);
        if let (Some(o), Some(r)) = (operation(head), result(tail)) {
            return Some((o, r));
        }
        if let (Some(r), Some(o)) = (result(head), operation(tail)) {
            return Some((o, r));
        }
    }
    None
}

fn operation(word: &str) -> Option<usize> {
    OPERATIONS
        .iter()
        .position(|(_, _, spellings)| spellings.iter().any(|s| s.eq_ignore_ascii_case(word)))
}

fn result(word: &str) -> Option<usize> {
    RESULTS
        .iter()
        .position(|spellings| spellings.iter().any(|s| s.eq_ignore_ascii_case(word)))
}

/// Every generic name: canonical names, other spellings, then cache events.
#[must_use]
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = ROWS
        .iter()
        .flat_map(|row| row.names.iter().map(|n| (*n).to_owned()))
        .collect();
    for (id, (_, operations)) in CACHES.iter().enumerate() {
        for operation in
            (0..OPERATIONS.len()).filter(|&o| operations.get(o).copied().unwrap_or(false))
        {
            names.extend((0..RESULTS.len()).filter_map(|result| cache_name(id, operation, result)));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(name: &str) -> Option<(u32, u64)> {
        find(name).map(|g| (g.type_, g.config))
    }

    #[test]
    fn hardware_and_software() {
        assert_eq!(config("instructions"), Some((0, 1)));
        assert_eq!(config("branch-misses"), Some((0, 5)));
        assert_eq!(config("idle-cycles-backend"), Some((0, 8)));
        assert_eq!(config("task-clock"), Some((1, 1)));
        assert_eq!(config("cs"), Some((1, 3)));
        assert_eq!(find("task-clock").unwrap().unit, "ns");
    }

    #[test]
    fn caches() {
        assert_eq!(config("L1-dcache-loads"), Some((3, 0)));
        assert_eq!(config("L1-dcache-load-misses"), Some((3, 0x1_0000)));
        assert_eq!(config("LLC-stores"), Some((3, 0x102)));
        assert_eq!(config("LLC-store-misses"), Some((3, 0x1_0102)));
        assert_eq!(config("dTLB-prefetch-misses"), Some((3, 0x1_0203)));
        assert_eq!(config("iTLB-load-misses"), Some((3, 0x1_0004)));
        assert_eq!(config("branch-load-misses"), Some((3, 0x1_0005)));
        assert_eq!(config("node-speculative-read-misses"), Some((3, 0x1_0206)));
        assert_eq!(config("l1d-misses-store"), Some((3, 0x1_0100)));
        assert_eq!(config("L1-dcache"), Some((3, 0)));
    }

    #[test]
    fn what_does_not_exist() {
        for name in [
            "iTLB-stores",
            "L1-icache-stores",
            "branch-stores",
            "branch",
            "L1-dcache-",
            "L3-loads",
            "",
            "é",
        ] {
            assert_eq!(config(name), None, "{name}");
        }
    }

    #[test]
    fn every_listed_name_is_found_under_itself() {
        let names = names();
        // 22 rows with 7 further spellings; loads, stores, prefetches and their misses of 7 caches.
        assert_eq!(names.len(), 22 + 7 + 6 + 4 + 6 + 6 + 2 + 2 + 6);
        for name in names {
            assert!(find(&name).is_some(), "{name}");
        }
    }
}
