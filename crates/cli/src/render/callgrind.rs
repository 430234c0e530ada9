//! What functions cost, as files in Callgrind's format have it.

use truecount_profile::export::{CallCost, CostedFunction, PlaceCost};
use truecount_run::functions::{Edge, FunctionCosts, LineCost};

/// The functions with their lines and calls; `own` and `inclusive` are the costs of a line and of a call, one number an
/// event of the file.
pub(crate) fn functions(
    all: &[FunctionCosts],
    own: &dyn Fn(&LineCost) -> Vec<u64>,
    inclusive: &dyn Fn(&Edge) -> Vec<u64>,
) -> Vec<CostedFunction> {
    let function = |function: &FunctionCosts| CostedFunction {
        object: function.object.clone(),
        file: function.file.clone(),
        name: function.name.clone(),
        costs: function
            .costs
            .iter()
            .map(|cost| PlaceCost {
                file: cost.file.clone(),
                address: cost.address,
                line: cost.line,
                costs: own(cost),
            })
            .collect(),
        calls: function
            .calls
            .iter()
            .map(|edge| CallCost {
                callee: edge.callee,
                count: edge.calls,
                callee_address: edge.callee_address,
                callee_line: edge.callee_line,
                site: PlaceCost {
                    file: edge.file.clone(),
                    address: edge.address,
                    line: edge.line,
                    costs: inclusive(edge),
                },
            })
            .collect(),
    };
    all.iter().map(function).collect()
}
