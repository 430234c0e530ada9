//! An executable **model** of the sampling interrupt of an x86 PMU, under the classic handler and under the one that
//! counter freezing allowed: how often each register is accessed, how long it takes, how much of the handler counts
//! itself, and how many events are lost between the overflow and its interrupt. Nothing here is measured: the inputs
//! are, or are stated, and everything that comes out is to be labelled a model.
//!
//! Facts the model rests on:
//! * The classic handler (`intel_pmu_handle_irq` and what it calls in Linux' `arch/x86/events/intel/core.c`) switches
//!   counting off by IA32_PERF_GLOBAL_CTRL, reads and acknowledges IA32_PERF_GLOBAL_STATUS, reads the counter, gives it
//!   its next period, looks at the status again, and switches counting on: 4 WRMSR, 2 RDMSR and 1 RDPMC (`accesses`).
//! * With FREEZE_PERFMON_ON_PMI in IA32_DEBUGCTL (Intel SDM vol. 3B, "Architectural Performance Monitoring Version 4")
//!   the hardware clears the enables itself, and acknowledging the status sets them again: 1 WRMSR and 1 RDMSR, with a
//!   fixed period, whose reload the patch kept out of the handler's way (Linux 4.20 to 5.11, `perf_v4_pmi=1`).
//! * The hardware freezes when it raises the interrupt, not when the interrupt is served: what happens in between is
//!   counted by no counter, those that only count included. For that Linux 5.12 dropped the feature
//!   (commit 3daa96d67274, "perf/x86/intel: Remove Perfmon-v4 counter_freezing support").
//! * FREEZE_LBRS_ON_PMI (the same register) stops the branch stack in both; the classic handler switches it on
//!   again (1 WRMSR, 1 RDMSR). Reading a stack of 32 takes 65 RDMSR (top
//!   of stack, from, to) or 97 (and info).

mod accesses;
mod advice;
mod fit;
mod machine;
mod patch;

pub use accesses::{Accesses, Classic};
pub use advice::{Freezing, freezing, period_for};
pub use fit::{Fitted, fit};
pub use machine::{Control, Pmu, Status};
pub use patch::{PatchRow, patch_table, skylake};

use serde::{Deserialize, Serialize};

/// Which handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handler {
    /// Switches counting off and on itself.
    Classic,
    /// Counting was frozen by the hardware. Fixed period only, as in the patch.
    Freezing,
}

/// What a sample carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// No branch stack.
    None,
    /// 32 entries of from and to.
    FromTo,
    /// 32 entries of from, to and info.
    Info,
}

impl Stack {
    /// RDMSR to read it.
    #[must_use]
    pub fn reads(self) -> u64 {
        match self {
            Self::None => 0,
            Self::FromTo => 1 + 2 * 32,
            Self::Info => 1 + 3 * 32,
        }
    }
}

/// A number that goes into the model, and where it is from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// The number.
    pub value: f64,
    /// `measured: …` or `stated: …`.
    pub origin: String,
}

impl Input {
    /// A number that was measured.
    #[must_use]
    pub fn measured(value: f64, how: &str) -> Self {
        Self {
            value,
            origin: format!("measured: {how}"),
        }
    }

    /// A number that is only said.
    #[must_use]
    pub fn stated(value: f64, why: &str) -> Self {
        Self {
            value,
            origin: format!("stated: {why}"),
        }
    }
}

/// All that goes in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// Events per microsecond in the program.
    pub events_per_us: Input,
    /// Events from one sample to the next.
    pub period: Input,
    /// From the overflow to the handler's first instruction, ns.
    pub delivery_ns: Input,
    /// From there to the first register access, ns (entry, saving registers).
    pub entry_ns: Input,
    /// The handler's work between the register accesses, ns (writing the sample).
    pub body_ns: Input,
    /// From the last register access back to the program, ns.
    pub exit_ns: Input,
    /// One WRMSR, ns.
    pub wrmsr_ns: Input,
    /// One RDMSR, ns.
    pub rdmsr_ns: Input,
    /// One RDPMC, ns.
    pub rdpmc_ns: Input,
    /// Register accesses of the classic handler.
    pub classic: Classic,
    /// Events per microsecond in the handler, as far as the counters see the kernel.
    pub handler_events_per_us: Input,
    /// Whether the sampled counter sees the kernel.
    pub counts_kernel: bool,
}

impl Inputs {
    /// Plausible numbers of a 3 GHz machine sampling cycles every 2 million; each is a statement, none a measurement.
    #[must_use]
    pub fn stated() -> Self {
        let say = |value, why| Input::stated(value, why);
        Self {
            events_per_us: say(3000.0, "cycles of a 3 GHz core"),
            period: say(2_000_003.0, "the default period of truecount record"),
            delivery_ns: say(
                100.0,
                "an interrupt through the local APIC takes some 10 to 200 ns to arrive",
            ),
            entry_ns: say(200.0, "NMI entry with saving of registers"),
            body_ns: say(1000.0, "a sample without call chain"),
            exit_ns: say(200.0, "NMI exit"),
            wrmsr_ns: say(
                100.0,
                "serialising writes of PMU registers take 50 to 200 ns",
            ),
            rdmsr_ns: say(30.0, "reads of PMU and LBR registers take 20 to 60 ns"),
            rdpmc_ns: say(10.0, "a read of a counter takes 20 to 40 cycles"),
            classic: Classic::stated(),
            handler_events_per_us: say(3000.0, "cycles again"),
            counts_kernel: true,
        }
    }

    /// What cannot be simulated: the name of the input and what is wrong with it.
    ///
    /// # Errors
    /// Numbers that are negative, not finite, or (period, events per microsecond) not above 0.
    pub fn check(&self) -> Result<(), String> {
        let all = [
            ("events_per_us", &self.events_per_us, true),
            ("period", &self.period, true),
            ("delivery_ns", &self.delivery_ns, false),
            ("entry_ns", &self.entry_ns, false),
            ("body_ns", &self.body_ns, false),
            ("exit_ns", &self.exit_ns, false),
            ("wrmsr_ns", &self.wrmsr_ns, false),
            ("rdmsr_ns", &self.rdmsr_ns, false),
            ("rdpmc_ns", &self.rdpmc_ns, false),
            ("handler_events_per_us", &self.handler_events_per_us, false),
        ];
        for (name, input, above) in all {
            let value = input.value;
            let good = value.is_finite() && value < 1e15 && (value > 0.0 || !above && value >= 0.0);
            if !good {
                return Err(format!(
                    "{name} is {value}: it must be a number {} 0",
                    if above { "above" } else { "of at least" }
                ));
            }
        }
        if self.period.value < 1.0 {
            return Err("period is less than one event".to_owned());
        }
        Ok(())
    }
}

/// What comes out, for one handler and payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which handler.
    pub handler: Handler,
    /// Which payload.
    pub stack: Stack,
    /// Interrupts simulated.
    pub interrupts: u64,
    /// WRMSR per interrupt.
    pub wrmsr: f64,
    /// RDMSR per interrupt, the branch stack's included.
    pub rdmsr: f64,
    /// RDPMC per interrupt.
    pub rdpmc: f64,
    /// Time taken from the program per interrupt, ns.
    pub time_ns: f64,
    /// Of that, in register accesses, ns.
    pub registers_ns: f64,
    /// Share of all time.
    pub share: f64,
    /// Events per interrupt that the handler itself added to the sampled counter.
    pub self_counted: f64,
    /// Events per interrupt of the program that no counter counted, because counting was frozen before the handler ran.
    pub lost: f64,
    /// Share of the program's events that were lost.
    pub lost_share: f64,
    /// Events of the program from one sample to the next, on average: the period, plus what was lost, minus what the
    /// handler counted of itself.
    pub events_per_sample: f64,
}

/// Runs the model for `interrupts` interrupts on a steady stream of events.
///
/// # Errors
/// An input that is not a number for its purpose, by name.
///
/// ```
/// use truecount_lab::model::{Handler, Inputs, Stack, simulate};
/// let inputs = Inputs::stated();
/// let classic = simulate(&inputs, Handler::Classic, Stack::None, 100)?;
/// let freezing = simulate(&inputs, Handler::Freezing, Stack::None, 100)?;
/// assert_eq!((classic.wrmsr, classic.rdmsr, classic.rdpmc), (4.0, 2.0, 1.0));
/// assert_eq!((freezing.wrmsr, freezing.rdmsr, freezing.rdpmc), (1.0, 1.0, 1.0));
/// // What the patch saved, and what it cost.
/// assert!(freezing.time_ns < classic.time_ns);
/// assert!(classic.lost == 0.0 && freezing.lost > 0.0);
/// # Ok::<(), String>(())
/// ```
pub fn simulate(
    inputs: &Inputs,
    handler: Handler,
    stack: Stack,
    interrupts: u64,
) -> Result<Outcome, String> {
    inputs.check()?;
    let mut run = Simulation::new(inputs, handler, stack);
    for _ in 0..interrupts {
        run.until_overflow();
        run.interrupt();
    }
    Ok(run.outcome(interrupts))
}

/// A PMU, a clock, and a handler.
struct Simulation<'i> {
    inputs: &'i Inputs,
    handler: Handler,
    stack: Stack,
    pmu: Pmu,
    /// ns since the beginning, and of them in the program's own instructions.
    time: f64,
    program: f64,
    /// Events of the program.
    events: f64,
    lost: f64,
    own: f64,
    accesses: Accesses,
    registers: f64,
}

impl<'i> Simulation<'i> {
    fn new(inputs: &'i Inputs, handler: Handler, stack: Stack) -> Self {
        let control = Control {
            freeze_perfmon_on_pmi: handler == Handler::Freezing,
            freeze_lbrs_on_pmi: true,
        };
        Self {
            inputs,
            handler,
            stack,
            pmu: Pmu::new(inputs.period.value, control),
            time: 0.0,
            program: 0.0,
            events: 0.0,
            lost: 0.0,
            own: 0.0,
            accesses: Accesses::default(),
            registers: 0.0,
        }
    }

    /// The program runs for so many ns.
    fn run_program(&mut self, ns: f64) {
        let events = ns * self.inputs.events_per_us.value / 1000.0;
        self.events += events;
        self.lost += events - self.pmu.count(events);
        self.time += ns;
        self.program += ns;
    }

    fn until_overflow(&mut self) {
        let left = self.pmu.until_overflow();
        self.run_program(left * 1000.0 / self.inputs.events_per_us.value);
    }

    /// The handler runs for so many ns.
    fn run_handler(&mut self, ns: f64) {
        if self.inputs.counts_kernel {
            let events = ns * self.inputs.handler_events_per_us.value / 1000.0;
            self.own += self.pmu.count(events);
        }
        self.time += ns;
    }

    fn write(&mut self, times: f64) {
        self.accesses.wrmsr += times;
        self.registers += times * self.inputs.wrmsr_ns.value;
        self.run_handler(times * self.inputs.wrmsr_ns.value);
    }

    /// So many RDMSR and RDPMC.
    fn read(&mut self, rdmsr: f64, rdpmc: f64) {
        let ns = rdmsr * self.inputs.rdmsr_ns.value + rdpmc * self.inputs.rdpmc_ns.value;
        self.accesses.rdmsr += rdmsr;
        self.accesses.rdpmc += rdpmc;
        self.registers += ns;
        self.run_handler(ns);
    }

    fn interrupt(&mut self) {
        // The program runs on until the interrupt arrives; a frozen PMU does not see it.
        self.run_program(self.inputs.delivery_ns.value);
        self.run_handler(self.inputs.entry_ns.value);
        let each = self.inputs.classic.of(self.handler, self.stack);
        match self.handler {
            Handler::Classic => {
                // The first write switches counting off, the last one on.
                let first = each.wrmsr.min(1.0);
                let last = (each.wrmsr - first).min(1.0);
                self.write(first);
                self.pmu.global_control(false);
                self.read(each.rdmsr, each.rdpmc);
                self.write((each.wrmsr - first - last).max(0.0));
                self.pmu.acknowledge();
                self.run_handler(self.inputs.body_ns.value);
                self.pmu.reload(self.inputs.period.value);
                self.write(last);
                self.pmu.global_control(true);
            }
            Handler::Freezing => {
                self.read(each.rdmsr, each.rdpmc);
                self.run_handler(self.inputs.body_ns.value);
                self.pmu.reload(self.inputs.period.value);
                self.write(each.wrmsr);
                self.pmu.acknowledge();
            }
        }
        self.run_handler(self.inputs.exit_ns.value);
    }

    fn outcome(&self, interrupts: u64) -> Outcome {
        let n = interrupts.max(1) as f64;
        let stolen = self.time - self.program;
        Outcome {
            handler: self.handler,
            stack: self.stack,
            interrupts,
            wrmsr: self.accesses.wrmsr / n,
            rdmsr: self.accesses.rdmsr / n,
            rdpmc: self.accesses.rdpmc / n,
            time_ns: stolen / n,
            registers_ns: self.registers / n,
            share: if self.time > 0.0 {
                stolen / self.time
            } else {
                0.0
            },
            self_counted: self.own / n,
            lost: self.lost / n,
            lost_share: if self.events > 0.0 {
                self.lost / self.events
            } else {
                0.0
            },
            events_per_sample: self.events / n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> Inputs {
        // 1 event a ns; 1000 events a sample; every number easy to add up by hand.
        let say = |value| Input::stated(value, "test");
        Inputs {
            events_per_us: say(1000.0),
            period: say(10_000.0),
            delivery_ns: say(50.0),
            entry_ns: say(20.0),
            body_ns: say(300.0),
            exit_ns: say(30.0),
            wrmsr_ns: say(100.0),
            rdmsr_ns: say(10.0),
            rdpmc_ns: say(5.0),
            classic: Classic::stated(),
            handler_events_per_us: say(1000.0),
            counts_kernel: true,
        }
    }

    fn run(inputs: &Inputs, handler: Handler, stack: Stack) -> Outcome {
        simulate(inputs, handler, stack, 1000).unwrap()
    }

    #[test]
    fn register_accesses_are_those_of_the_handlers() {
        for (stack, reads) in [
            (Stack::None, 0.0),
            (Stack::FromTo, 65.0),
            (Stack::Info, 97.0),
        ] {
            let classic = run(&inputs(), Handler::Classic, stack);
            // As counted by tracepoints on Linux 6.1: 1 RDMSR and 1 WRMSR switch a branch stack on again.
            let (wrmsr, rdmsr) = if reads > 0.0 { (5.0, 3.0) } else { (4.0, 2.0) };
            let of = |outcome: &Outcome| (outcome.wrmsr, outcome.rdmsr, outcome.rdpmc);
            assert_eq!(of(&classic), (wrmsr, rdmsr + reads, 1.0));
            let freezing = run(&inputs(), Handler::Freezing, stack);
            assert_eq!(of(&freezing), (1.0, 1.0 + reads, 1.0));
        }
    }

    #[test]
    fn times_add_up_by_hand() {
        let classic = run(&inputs(), Handler::Classic, Stack::None);
        assert!(
            (classic.time_ns - (20.0 + 425.0 + 300.0 + 30.0)).abs() < 1e-6,
            "{classic:?}"
        );
        assert!((classic.registers_ns - 425.0).abs() < 1e-6);
        let freezing = run(&inputs(), Handler::Freezing, Stack::None);
        assert!(
            (freezing.time_ns - (20.0 + 115.0 + 300.0 + 30.0)).abs() < 1e-6,
            "{freezing:?}"
        );
    }

    #[test]
    fn the_classic_handler_counts_itself_and_loses_nothing() {
        let classic = run(&inputs(), Handler::Classic, Stack::None);
        // Entry and the write that switches off (counted until it is done), then the exit.
        assert!(
            (classic.self_counted - (20.0 + 100.0 + 30.0)).abs() < 1e-6,
            "{classic:?}"
        );
        assert_eq!(classic.lost, 0.0);
        // What it counts of itself is missing in the program's part of the period (the first one is whole).
        assert!(
            (classic.events_per_sample - (10_000.0 - 150.0)).abs() < 1.0,
            "{classic:?}"
        );
        let blind = run(
            &Inputs {
                counts_kernel: false,
                ..inputs()
            },
            Handler::Classic,
            Stack::None,
        );
        assert_eq!(blind.self_counted, 0.0);
    }

    #[test]
    fn the_freezing_handler_counts_nothing_of_itself_and_loses_the_delivery() {
        let freezing = run(&inputs(), Handler::Freezing, Stack::None);
        // Only what runs after the acknowledgement.
        assert!((freezing.self_counted - 30.0).abs() < 1e-6, "{freezing:?}");
        assert!((freezing.lost - 50.0).abs() < 1e-6, "{freezing:?}");
        assert!(
            freezing.lost_share > 0.004 && freezing.lost_share < 0.006,
            "{freezing:?}"
        );
        // No delay, no loss.
        let prompt = Inputs {
            delivery_ns: Input::stated(0.0, "test"),
            ..inputs()
        };
        assert_eq!(run(&prompt, Handler::Freezing, Stack::None).lost, 0.0);
    }

    #[test]
    fn what_is_no_number_is_refused_by_name() {
        for (spoil, name) in [
            (
                (|i: &mut Inputs| i.period.value = 0.0) as fn(&mut Inputs),
                "period",
            ),
            (|i| i.wrmsr_ns.value = f64::NAN, "wrmsr_ns"),
            (|i| i.delivery_ns.value = -1.0, "delivery_ns"),
            (|i| i.events_per_us.value = f64::INFINITY, "events_per_us"),
        ] {
            let mut wrong = inputs();
            spoil(&mut wrong);
            let error = simulate(&wrong, Handler::Classic, Stack::None, 1).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn periods_shorter_than_the_delivery_do_not_hang() {
        let mut short = inputs();
        short.period.value = 1.0;
        for handler in [Handler::Classic, Handler::Freezing] {
            let outcome = run(&short, handler, Stack::Info);
            assert!(
                outcome.share > 0.9 && outcome.time_ns.is_finite(),
                "{outcome:?}"
            );
        }
    }
}
