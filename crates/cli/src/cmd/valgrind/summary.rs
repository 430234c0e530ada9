//! The last lines of the log, as Cachegrind and Callgrind write them.

use truecount_model::number::grouped;

use super::options::Options;

/// Widths of the numbers: all, read or conditional, written or indirect.
struct Widths(usize, usize, usize);

/// A number, and its two parts.
struct Parts(u64, u64, u64);

impl Parts {
    fn of(one: u64, other: u64) -> Self {
        Self(one.saturating_add(other), one, other)
    }
}

/// The words behind the two parts.
type Words = (&'static str, &'static str);

const DATA: Words = ("rd  ", "wr");
const BRANCHES: Words = ("cond", "ind");

impl Widths {
    fn counts(&self, label: &str, parts: &Parts, words: Words) -> String {
        let Self(all, one, other) = self;
        let numbers = [parts.0, parts.1, parts.2].map(grouped);
        let [sum, first, second] = &numbers;
        format!(
            "{label:<14} {sum:>all$}  ({first:>one$} {} + {second:>other$} {})",
            words.0, words.1
        )
    }

    /// Shares of the same parts of others.
    fn rates(&self, label: &str, parts: &Parts, of: &Parts) -> String {
        let Self(all, one, other) = self;
        format!(
            "{label:<14} {} ({}     + {}  )",
            rate(parts.0, of.0, 1, *all),
            rate(parts.1, of.1, 1, *one),
            rate(parts.2, of.2, 1, *other),
        )
    }
}

/// `0.7%`, one wider than a count, for the sign.
fn rate(part: u64, of: u64, digits: usize, width: usize) -> String {
    let share = 100.0 * part as f64 / of.max(1) as f64;
    format!("{:>1$}", format!("{share:.digits$}%"), width + 1)
}

/// The lines; `total` has the sums by Valgrind's names of events.
pub(super) fn lines(options: &Options, total: &dyn Fn(&str) -> u64) -> Vec<String> {
    let width = |number: u64| grouped(number).len();
    let instructions = total("Ir");
    let data = Parts::of(total("Dr"), total("Dw"));
    let branches = Parts::of(total("Bc"), total("Bi"));
    let widths = Widths(
        width(instructions.max(data.0)),
        width(data.1.max(branches.1)),
        width(data.2.max(branches.2)),
    );
    let Widths(all, ..) = widths;
    let count = |label: &str, number| format!("{label:<14} {:>all$}", grouped(number));
    let mut lines = vec![count("I   refs:", instructions)];
    if options.cache_sim {
        let fetches = [("I1", total("I1mr")), ("LLi", total("ILmr"))];
        for (cache, misses) in fetches {
            lines.push(count(&format!("{cache:<3} misses:"), misses));
        }
        for (cache, misses) in fetches {
            let label = format!("{cache:<3} miss rate:");
            lines.push(format!("{label} {}", rate(misses, instructions, 2, all)));
        }
        lines.push(String::new());
        let first = Parts::of(total("D1mr"), total("D1mw"));
        let last = Parts::of(total("DLmr"), total("DLmw"));
        lines.push(widths.counts("D   refs:", &data, DATA));
        lines.push(widths.counts("D1  misses:", &first, DATA));
        lines.push(widths.counts("LLd misses:", &last, DATA));
        lines.push(widths.rates("D1  miss rate:", &first, &data));
        lines.push(widths.rates("LLd miss rate:", &last, &data));
        lines.push(String::new());
        let [(_, fetch_first), (_, fetch_last)] = fetches;
        let references = Parts::of(first.1.saturating_add(fetch_first), first.2);
        let missed = Parts::of(last.1.saturating_add(fetch_last), last.2);
        let made = Parts::of(instructions.saturating_add(data.1), data.2);
        lines.push(widths.counts("LL refs:", &references, DATA));
        lines.push(widths.counts("LL misses:", &missed, DATA));
        lines.push(widths.rates("LL miss rate:", &missed, &made));
    }
    if options.branch_sim {
        if options.cache_sim {
            lines.push(String::new());
        }
        let wrong = Parts::of(total("Bcm"), total("Bim"));
        lines.push(widths.counts("Branches:", &branches, BRANCHES));
        lines.push(widths.counts("Mispredicts:", &wrong, BRANCHES));
        lines.push(widths.rates("Mispred rate:", &wrong, &branches));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::options::{Asked, parse};
    use super::*;

    /// What Cachegrind 3.19 wrote for these numbers.
    #[test]
    fn it_is_what_cachegrind_writes() {
        let words = ["--tool=cachegrind", "--branch-sim=yes", "p"].map(Into::into);
        let Ok(Asked::Run(options)) = parse(None, &words) else {
            panic!("options");
        };
        let total = |name: &str| match name {
            "Ir" => 61_016,
            "I1mr" => 429,
            "ILmr" => 428,
            "Dr" => 8_039,
            "Dw" => 2_452,
            "D1mr" | "DLmr" => 153,
            "D1mw" | "DLmw" => 179,
            "Bc" => 12_505,
            "Bcm" => 1_201,
            "Bi" => 59,
            _ => 37,
        };
        let expected = "\
I   refs:      61,016
I1  misses:       429
LLi misses:       428
I1  miss rate:   0.70%
LLi miss rate:   0.70%

D   refs:      10,491  ( 8,039 rd   + 2,452 wr)
D1  misses:       332  (   153 rd   +   179 wr)
LLd misses:       332  (   153 rd   +   179 wr)
D1  miss rate:    3.2% (   1.9%     +   7.3%  )
LLd miss rate:    3.2% (   1.9%     +   7.3%  )

LL refs:          761  (   582 rd   +   179 wr)
LL misses:        760  (   581 rd   +   179 wr)
LL miss rate:     1.1% (   0.8%     +   7.3%  )

Branches:      12,564  (12,505 cond +    59 ind)
Mispredicts:    1,238  ( 1,201 cond +    37 ind)
Mispred rate:     9.9% (   9.6%     +  62.7%   )";
        let lines = lines(&options, &total);
        let pairs = lines.iter().map(String::as_str).zip(expected.lines());
        for (ours, theirs) in pairs {
            // (The last line has one space more there.)
            assert_eq!(ours.replace(' ', ""), theirs.replace(' ', ""));
            assert!(
                ours == theirs || theirs.starts_with("Mispred rate"),
                "{ours}"
            );
        }
        assert_eq!(lines.len(), expected.lines().count());
    }
}
