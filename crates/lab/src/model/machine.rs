//! The registers of the modelled PMU: one sampled counter, the global enable, the global status, the two freeze bits of
//! IA32_DEBUGCTL. Source: Intel SDM vol. 3B, "Performance Monitoring", versions 2 and 4.

/// IA32_DEBUGCTL, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Bit 12: an interrupt clears the enables of all counters.
    pub freeze_perfmon_on_pmi: bool,
    /// Bit 11: an interrupt stops the branch stack.
    pub freeze_lbrs_on_pmi: bool,
}

/// IA32_PERF_GLOBAL_STATUS, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status {
    /// The counter has overflowed.
    pub overflow: bool,
    /// Bit 59: counters are frozen.
    pub counters_frozen: bool,
    /// Bit 58: the branch stack is frozen.
    pub branches_frozen: bool,
}

/// The PMU.
#[derive(Debug, Clone, PartialEq)]
pub struct Pmu {
    control: Control,
    status: Status,
    /// IA32_PERF_GLOBAL_CTRL.
    enabled: bool,
    /// Events until the counter overflows; not above 0 when it has.
    left: f64,
}

impl Pmu {
    /// Counting, with `period` events to go.
    #[must_use]
    pub fn new(period: f64, control: Control) -> Self {
        Self {
            control,
            status: Status::default(),
            enabled: true,
            left: period,
        }
    }

    /// The status register.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether the counters count and the branch stack records.
    #[must_use]
    pub fn counting(&self) -> bool {
        self.enabled && !self.status.counters_frozen
    }

    /// Events until the overflow; 0 where it has happened, or nothing is counted.
    #[must_use]
    pub fn until_overflow(&self) -> f64 {
        if self.counting() {
            self.left.max(0.0)
        } else {
            0.0
        }
    }

    /// Events happen: how many of them were counted. At the overflow the interrupt is raised, and freezing begins.
    pub fn count(&mut self, events: f64) -> f64 {
        if !self.counting() {
            return 0.0;
        }
        let before = self.left;
        if before > 0.0 && events >= before {
            self.status.overflow = true;
            self.status.branches_frozen = self.control.freeze_lbrs_on_pmi;
            self.status.counters_frozen = self.control.freeze_perfmon_on_pmi;
            if self.status.counters_frozen {
                self.left = 0.0;
                return before;
            }
        }
        self.left = before - events;
        events
    }

    /// Writes IA32_PERF_GLOBAL_CTRL.
    pub fn global_control(&mut self, on: bool) {
        self.enabled = on;
    }

    /// Acknowledges all of the status: what was frozen goes on.
    pub fn acknowledge(&mut self) {
        self.status = Status::default();
    }

    /// Gives the counter its next period; what it counted beyond the overflow belongs to that one.
    pub fn reload(&mut self, period: f64) {
        // A period that is over already gets the shortest one there is, as `x86_perf_event_set_period` does.
        self.left = (self.left.min(0.0) + period).max(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pmu(freeze: bool) -> Pmu {
        let control = Control {
            freeze_perfmon_on_pmi: freeze,
            freeze_lbrs_on_pmi: true,
        };
        Pmu::new(100.0, control)
    }

    #[test]
    fn a_classic_counter_counts_on_over_its_overflow() {
        let mut pmu = pmu(false);
        assert_eq!(pmu.count(99.0), 99.0);
        assert!(!pmu.status().overflow);
        assert_eq!(pmu.count(11.0), 11.0);
        assert!(pmu.status().overflow && pmu.status().branches_frozen && pmu.counting());
        pmu.global_control(false);
        assert_eq!((pmu.count(5.0), pmu.until_overflow()), (0.0, 0.0));
        pmu.acknowledge();
        pmu.reload(100.0);
        pmu.global_control(true);
        assert_eq!(pmu.until_overflow(), 90.0);
    }

    #[test]
    fn a_freezing_counter_stops_at_its_overflow_until_it_is_acknowledged() {
        let mut pmu = pmu(true);
        assert_eq!(pmu.count(130.0), 100.0);
        assert!(pmu.status().counters_frozen && !pmu.counting());
        assert_eq!(pmu.count(50.0), 0.0);
        pmu.reload(100.0);
        pmu.acknowledge();
        assert_eq!(pmu.until_overflow(), 100.0);
        assert_eq!(pmu.count(1.0), 1.0);
    }
}
