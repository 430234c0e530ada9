//! What a change is made of, as lines: the functions that moved, and the paths of calls.

use truecount_history::decide::{Moved, MovedPath};
use truecount_model::number::grouped;

/// Functions of a path that are shown: the innermost.
const MAX_NAMES: usize = 4;

/// A line for every function, then one for every path.
pub(super) fn lines(moved: &[Moved], paths: &[MovedPath]) -> Vec<String> {
    let functions = moved.iter().map(function);
    functions.chain(paths.iter().map(path)).collect()
}

/// `+1,234`.
fn signed(base: u64, other: u64) -> String {
    let sign = if other >= base { '+' } else { '-' };
    format!("{sign}{}", grouped(other.abs_diff(base)))
}

/// `+1,234  function (module): 1,000 → 2,234`.
fn function(moved: &Moved) -> String {
    format!(
        "{}  {} ({}): {} → {}",
        signed(moved.base, moved.other),
        moved.function,
        moved.module,
        grouped(moved.base),
        grouped(moved.other)
    )
}

/// `+1,234  function ← caller ← main: 1,000 → 2,234, 10 → 12 calls`.
fn path(moved: &MovedPath) -> String {
    let cut = moved.path.len().saturating_sub(MAX_NAMES);
    let mut names: Vec<&str> = moved.path.iter().skip(cut).map(String::as_str).collect();
    names.reverse();
    let more = if cut > 0 { " ← …" } else { "" };
    let calls = match (moved.base_calls, moved.other_calls) {
        (base, other) if base == other => format!("{} calls", grouped(other)),
        (base, other) => format!("{} → {} calls", grouped(base), grouped(other)),
    };
    format!(
        "{}  {}{more}: {} → {}, {calls}",
        signed(moved.base, moved.other),
        names.join(" ← "),
        grouped(moved.base),
        grouped(moved.other)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_the_inside() {
        let moved = MovedPath {
            path: ["prog", "main", "a", "b", "c"].map(str::to_owned).to_vec(),
            base: 1000,
            other: 900,
            base_calls: 10,
            other_calls: 9,
        };
        assert_eq!(
            lines(&[], &[moved]),
            ["-100  c ← b ← a ← main ← …: 1,000 → 900, 10 → 9 calls"]
        );
    }
}
