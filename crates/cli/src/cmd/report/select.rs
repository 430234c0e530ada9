//! Which samples count (`--comm`, `--pid`, `--tid`, `--cpu`, `--time`) and which rows are shown (`--dso`, `--symbol`).

use truecount_record::listing::is_it;
use truecount_record::names::Named;

/// A part of the recording's time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Span {
    /// Nanoseconds of the recording's clock.
    Clock(Option<u64>, Option<u64>),
    /// Shares of the time from the first to the last sample.
    Share(f64, f64),
}

/// `START,STOP` in seconds as `perf script` shows them, either may be left out; or `10%-20%`.
pub(super) fn span(text: &str) -> Result<Span, String> {
    let wrong =
        || format!("{text}: write START,STOP in seconds (either may be left out), or 10%-20%");
    if let Some((from, to)) = text.split_once("%-") {
        let to = to.strip_suffix('%').ok_or_else(wrong)?;
        let share = |text: &str| {
            let percent: f64 = text.parse().ok()?;
            (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
        };
        let (from, to) = share(from).zip(share(to)).ok_or_else(wrong)?;
        return if from <= to {
            Ok(Span::Share(from, to))
        } else {
            Err(wrong())
        };
    }
    let (from, to) = text.split_once(',').ok_or_else(wrong)?;
    let seconds = |text: &str| match text.trim() {
        "" => Ok(None),
        text => {
            let seconds: f64 = text.parse().map_err(|_| wrong())?;
            if !(0.0..1e10).contains(&seconds) {
                return Err(wrong());
            }
            // Twice in whole numbers: nanoseconds since boot have more digits than a float.
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            let whole: u64 = if whole.is_empty() {
                0
            } else {
                whole.parse().map_err(|_| wrong())?
            };
            let digits = format!("{fraction:0<9}");
            let nanoseconds = digits.get(..9).and_then(|d| d.parse::<u64>().ok());
            Ok(Some(whole * 1_000_000_000 + nanoseconds.ok_or_else(wrong)?))
        }
    };
    let (from, to) = (seconds(from)?, seconds(to)?);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(wrong());
    }
    Ok(Span::Clock(from, to))
}

/// What was asked for; empty lists ask for nothing.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) comms: Vec<String>,
    pub(super) pids: Vec<u32>,
    pub(super) tids: Vec<u32>,
    pub(super) cpus: Vec<u32>,
    pub(super) time: Option<Span>,
    pub(super) dsos: Vec<String>,
    pub(super) symbols: Vec<String>,
    pub(super) no_inline: bool,
}

impl Selection {
    /// Whether a row of this function is shown.
    pub(super) fn shows(&self, named: &Named) -> bool {
        let plain = |name: &str| {
            let name = name.trim_matches(['[', ']']);
            name.strip_suffix(".kallsyms").unwrap_or(name).to_owned()
        };
        let dso = plain(&named.dso);
        let last = |wanted: &str| wanted.rsplit('/').next().unwrap_or(wanted).to_owned();
        let dso = self.dsos.is_empty() || self.dsos.iter().any(|d| plain(&last(d)) == dso);
        let symbols = &self.symbols;
        dso && (symbols.is_empty() || symbols.iter().any(|s| is_it(&named.function, s)))
    }

    /// Whether all rows are shown.
    pub(super) fn shows_all(&self) -> bool {
        self.dsos.is_empty() && self.symbols.is_empty()
    }

    pub(super) fn words(&self) -> String {
        let list = |name: &str, values: Vec<String>| {
            (!values.is_empty()).then(|| format!("{name} {}", values.join(",")))
        };
        let numbers = |values: &[u32]| values.iter().map(u32::to_string).collect();
        let words = [
            list("--comm", self.comms.clone()),
            list("--pid", numbers(&self.pids)),
            list("--tid", numbers(&self.tids)),
            list("--cpu", numbers(&self.cpus)),
            self.time.map(|_| "--time".to_owned()),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::{Span, span};

    #[test]
    fn spans_are_seconds_or_shares() {
        let clock = |a, b| Ok(Span::Clock(a, b));
        assert_eq!(
            span("12345.678901234,12345.7"),
            clock(Some(12_345_678_901_234), Some(12_345_700_000_000))
        );
        assert_eq!(span(",1"), clock(None, Some(1_000_000_000)));
        assert_eq!(span(".5,"), clock(Some(500_000_000), None));
        assert_eq!(span("10%-20%"), Ok(Span::Share(0.1, 0.2)));
        for wrong in [
            "", "5", "2,1", "-1,2", "20%-10%", "1%-", "a,b", "0%-101%", "1e3,", "nan,",
        ] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }
}
