//! What follows from a price: the period for a budget, and whether this kernel would spare registers.

use serde::{Deserialize, Serialize};

/// Events from one sample to the next so that sampling takes no more than `budget` of the time, where a sample costs
/// `cost_ns` and `per_second` events happen; `None` for numbers that make no sense.
///
/// ```
/// // 2 µs a sample, 1 %: no more than one sample in 200 µs, which are 600,000 cycles at 3 GHz.
/// assert_eq!(truecount_lab::model::period_for(0.01, 2000.0, 3e9), Some(600_000));
/// ```
#[must_use]
pub fn period_for(budget: f64, cost_ns: f64, per_second: f64) -> Option<u64> {
    let period = cost_ns / budget * per_second / 1e9;
    (budget > 0.0 && budget < 1.0 && period.is_finite() && (0.0..1e18).contains(&period))
        .then(|| (period.ceil() as u64).max(1))
}

/// Whether counter freezing can be had, and why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freezing {
    /// The kernel has it and it is switched on.
    pub available: bool,
    /// In words.
    pub reason: String,
}

/// Whether counter freezing can be had: `pmu_version` is the architectural version of an Intel PMU (`None`: not Intel,
/// or no PMU), `kernel` the release, `command_line` the kernel's.
#[must_use]
pub fn freezing(
    pmu_version: Option<u32>,
    kernel: Option<(u32, u32)>,
    command_line: &str,
) -> Freezing {
    let no = |reason: String| Freezing {
        available: false,
        reason,
    };
    match pmu_version {
        None => {
            return no(
                "it is a feature of Intel's PMU, version 4 and later; this machine offers none"
                    .to_owned(),
            );
        }
        Some(version) if version < 4 => {
            return no(format!(
                "it needs version 4 of Intel's PMU; this one is version {version}"
            ));
        }
        Some(_) => {}
    }
    let Some((major, minor)) = kernel else {
        return no("the kernel's release is not known; Linux had it from 4.20 to 5.11".to_owned());
    };
    if (major, minor) < (4, 20) || (major, minor) > (5, 11) {
        return no(format!(
            "Linux had it from 4.20 to 5.11, and this is {major}.{minor}: it was dropped in 5.12 because the hardware \
             freezes when the interrupt is raised, not when it is served, so events in between are lost to every counter"
        ));
    }
    if command_line
        .split_whitespace()
        .any(|word| word == "perf_v4_pmi=1")
    {
        return Freezing {
            available: true,
            reason: "perf_v4_pmi=1 is on the kernel's command line".to_owned(),
        };
    }
    no("this kernel has it, switched off: boot with perf_v4_pmi=1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freezing_by_cpu_and_kernel() {
        let has = |version, kernel, line: &str| freezing(version, kernel, line);
        assert!(has(Some(4), Some((5, 4)), "ro perf_v4_pmi=1 quiet").available);
        assert!(
            has(Some(4), Some((5, 4)), "ro")
                .reason
                .contains("perf_v4_pmi=1")
        );
        assert!(
            has(Some(5), Some((6, 18)), "perf_v4_pmi=1")
                .reason
                .contains("5.12")
        );
        assert!(has(Some(2), Some((5, 4)), "").reason.contains("version 2"));
        assert!(!has(None, Some((5, 4)), "perf_v4_pmi=1").available);
        assert!(has(Some(4), Some((4, 19)), "").reason.contains("4.20"));
    }

    #[test]
    fn budgets_that_make_no_sense_have_no_period() {
        assert_eq!(period_for(0.01, 1000.0, 1e9), Some(100_000));
        for (budget, cost, rate) in [
            (0.0, 1.0, 1.0),
            (2.0, 1.0, 1.0),
            (0.1, f64::NAN, 1.0),
            (1e-300, 1e300, 1e9),
        ] {
            assert_eq!(period_for(budget, cost, rate), None);
        }
    }
}
