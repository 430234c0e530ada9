//! From measured cells to the model's inputs. Two measured times give one unknown: the branch stack's RDMSR are the only
//! difference between a cell with it and one without it, so their cost follows; the ratio of WRMSR to RDMSR is stated.

use super::{Input, Inputs, Stack};
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
}

/// Fits the classic handler to the time of a sample without (`plain_ns`) and with a branch stack (`stack_ns`).
///
/// `None` where the second is not above the first: then there is nothing to fit.
#[must_use]
pub fn fit(plain_ns: f64, stack_ns: f64, stack: Stack, base: &Inputs) -> Option<Fitted> {
    let reads = stack.reads() as f64;
    let difference = stack_ns - plain_ns;
    if reads < 1.0 || !difference.is_finite() || difference <= 0.0 {
        return None;
    }
    let from_stack = difference / reads;
    // Reading the stack is more than RDMSR (its entries are copied, too). The registers cannot take more than the whole
    // sample without branch stack.
    let inside = plain_ns - base.entry_ns.value - base.exit_ns.value;
    let most = inside / (5.0 * WRITE_TO_READ + 2.0);
    if most <= 0.0 {
        return None;
    }
    let (rdmsr, from) = if from_stack <= most {
        let from =
            format!("({stack_ns:.0} − {plain_ns:.0}) ns / {reads:.0} RDMSR of the branch stack");
        (from_stack, from)
    } else {
        let from = format!(
            "at most, as a sample without branch stack takes {inside:.0} ns between entry and exit"
        );
        (most, from)
    };
    let wrmsr = rdmsr * WRITE_TO_READ;
    let rest = inside - 5.0 * wrmsr - 2.0 * rdmsr;
    Some(Fitted {
        rdmsr_ns: Input::measured(rdmsr, &from),
        wrmsr_ns: Input::stated(wrmsr, &format!("{WRITE_TO_READ} times the RDMSR")),
        body_ns: Input::measured(
            rest.max(0.0),
            "what is left of the sample without branch stack",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Handler, simulate};

    #[test]
    fn a_fit_gives_back_the_times_it_was_made_of() {
        let mut inputs = Inputs::stated();
        let (plain, stack) = (3000.0, 3000.0 + 97.0 * 40.0);
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
        // 196 ns a read by the stack alone: 17 of them are more than the 1554 ns there are.
        let fitted = fit(1954.0, 20_960.0, Stack::Info, &inputs).unwrap();
        assert!(
            (fitted.rdmsr_ns.value - 1554.0 / 17.0).abs() < 1e-9,
            "{fitted:?}"
        );
        assert!(fitted.rdmsr_ns.origin.contains("at most") && fitted.body_ns.value < 1e-9);
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
