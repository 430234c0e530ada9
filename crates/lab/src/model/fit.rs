//! From measured cells to the model's inputs. Two measured times give one unknown: the branch stack's RDMSR are the only
//! difference between a cell with it and one without it, so their cost follows; the ratio of WRMSR to RDMSR is stated.

use super::{Accesses, Handler, Input, Inputs, Stack};
use serde::{Deserialize, Serialize};

/// A WRMSR of a PMU register costs some times an RDMSR of one (it serialises).
const WRITE_TO_READ: f64 = 3.0;

/// What the fit found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// One RDMSR, ns.
    pub rdmsr_ns: Input,
    /// One WRMSR, ns.
    pub wrmsr_ns: Input,
    /// What is left of the plain cell's time, ns.
    pub body_ns: Input,
    /// The costs of the registers are upper bounds: with the branch stack's they would exceed the plain sample.
    pub upper_bound: bool,
}

/// Fits the classic handler to the time of a sample without (`plain_ns`) and with a branch stack (`stack_ns`).
///
/// `None` where the second is not above the first: then there is nothing to fit.
#[must_use]
pub fn fit(plain_ns: f64, stack_ns: f64, stack: Stack, base: &Inputs) -> Option<Fitted> {
    let difference = stack_ns - plain_ns;
    if stack.reads() < 1 || !difference.is_finite() || difference <= 0.0 {
        return None;
    }
    let without = base.classic.of(Handler::Classic, Stack::None);
    let with = base.classic.of(Handler::Classic, stack);
    // In units of an RDMSR.
    let units = |of: Accesses| of.rdmsr + WRITE_TO_READ * of.wrmsr;
    let more = units(with) - units(without);
    if more < 1.0 {
        return None;
    }
    let from_stack = difference / more;
    // Reading the stack is more than its registers (its entries are copied, too). They cannot take more than the whole
    // sample without branch stack.
    let counters = without.rdpmc * base.rdpmc_ns.value;
    let inside = plain_ns - base.entry_ns.value - base.exit_ns.value - counters;
    let most = inside / units(without);
    if most <= 0.0 {
        return None;
    }
    let bound = from_stack > most;
    let (rdmsr, from) = if bound {
        let from = format!(
            "at most, as a sample without branch stack takes {inside:.0} ns between entry and exit"
        );
        (most, from)
    } else {
        let from = format!(
            "({stack_ns:.0} − {plain_ns:.0}) ns / {:.0} RDMSR and {:.0} WRMSR of the branch stack",
            with.rdmsr - without.rdmsr,
            with.wrmsr - without.wrmsr
        );
        (from_stack, from)
    };
    let wrmsr = rdmsr * WRITE_TO_READ;
    let rest = inside - rdmsr * units(without);
    Some(Fitted {
        rdmsr_ns: Input::measured(rdmsr, &from),
        wrmsr_ns: Input::stated(wrmsr, &format!("{WRITE_TO_READ} times the RDMSR")),
        body_ns: Input::measured(
            rest.max(0.0),
            "what is left of the sample without branch stack",
        ),
        upper_bound: bound,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::simulate;

    #[test]
    fn a_fit_gives_back_the_times_it_was_made_of() {
        let mut inputs = Inputs::stated();
        // 98 RDMSR, and 1 WRMSR of three times the cost.
        let (plain, stack) = (3000.0, 3000.0 + 101.0 * 40.0);
        let fitted = fit(plain, stack, Stack::Info, &inputs).unwrap();
        assert!((fitted.rdmsr_ns.value - 40.0).abs() < 1e-9);
        assert!(fitted.rdmsr_ns.origin.starts_with("measured"));
        assert!(fitted.wrmsr_ns.origin.starts_with("stated"));
        inputs.rdmsr_ns = fitted.rdmsr_ns;
        inputs.wrmsr_ns = fitted.wrmsr_ns;
        inputs.body_ns = fitted.body_ns;
        let again = |stack| {
            simulate(&inputs, Handler::Classic, stack, 10)
                .unwrap()
                .time_ns
        };
        assert!((again(Stack::None) - plain).abs() < 1e-6);
        assert!((again(Stack::Info) - stack).abs() < 1e-6);
    }

    #[test]
    fn registers_take_no_more_than_the_sample() {
        let inputs = Inputs::stated();
        // 188 ns a read by the stack alone: 14 of them are more than the 1544 ns there are.
        let fitted = fit(1954.0, 20_960.0, Stack::Info, &inputs).unwrap();
        assert!(
            (fitted.rdmsr_ns.value - 1544.0 / 14.0).abs() < 1e-9,
            "{fitted:?}"
        );
        assert!(
            fitted.upper_bound
                && fitted.rdmsr_ns.origin.contains("at most")
                && fitted.body_ns.value < 1e-9
        );
        assert!(fit(300.0, 20_960.0, Stack::Info, &inputs).is_none());
    }

    #[test]
    fn nothing_is_made_of_noise() {
        let inputs = Inputs::stated();
        assert!(fit(3000.0, 2900.0, Stack::Info, &inputs).is_none());
        assert!(fit(3000.0, f64::NAN, Stack::Info, &inputs).is_none());
        assert!(fit(3000.0, 4000.0, Stack::None, &inputs).is_none());
    }
}
