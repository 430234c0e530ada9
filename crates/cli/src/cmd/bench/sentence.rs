//! The result in a sentence: "B ran 1.65 ± 0.02 times faster than A, executing 38 % fewer instructions".

use super::document::{Compared, Document};
use truecount_model::number::{change, significant};

/// One sentence for each pair of commands that was compared.
pub(super) fn sentences(document: &Document) -> Vec<String> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for compared in &document.comparisons {
        let pair = (compared.base.as_str(), compared.other.as_str());
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs
        .into_iter()
        .filter_map(|(base, other)| {
            let rows = document.comparisons.iter();
            let rows: Vec<&Compared> = rows
                .filter(|row| row.base == base && row.other == other)
                .collect();
            sentence(base, other, &rows)
        })
        .collect()
}

/// Whether a verdict says that two things differ or not; what is undecided or described says neither.
fn decided(row: &Compared) -> bool {
    row.verdict == "same" || direction(row).is_some()
}

/// Whether it is more than the base's; `None` where that is not decided, or it is the same.
fn direction(row: &Compared) -> Option<bool> {
    match row.verdict.as_str() {
        "slower" | "more" | "larger" | "higher" => Some(true),
        "faster" | "fewer" | "smaller" | "lower" => Some(false),
        _ => None,
    }
}

fn sentence(base: &str, other: &str, rows: &[&Compared]) -> Option<String> {
    let plain = |row: &Compared| row.metric.split(':').next().unwrap_or_default().to_owned();
    let find = |name: &str| rows.iter().copied().find(|row| plain(row) == name);
    let time = find("wall-time").filter(|row| decided(row));
    let instructions = find("instructions").filter(|row| decided(row));
    let against = base.strip_prefix("baseline: ").map_or_else(
        || base.to_owned(),
        |name| {
            if name == other {
                "the baseline".to_owned()
            } else {
                format!("the baseline {name}")
            }
        },
    );
    let (other, base) = (other.to_owned(), against);
    match time {
        Some(row) => {
            let slower = direction(row) == Some(true);
            let (subject, object) = if slower {
                (&base, &other)
            } else {
                (&other, &base)
            };
            let mut text = match direction(row) {
                None => format!(
                    "{other} took as long as {base} (within {} %)",
                    significant(row.floor * 100.0)
                ),
                Some(_) => format!("{subject} ran {} faster than {object}", times(row, slower)),
            };
            if let Some(instructions) = instructions {
                text.push_str(&executing(instructions, slower, direction(row).is_some()));
            }
            Some(format!("{text}."))
        }
        None => {
            let judged: Vec<String> = rows
                .iter()
                .filter(|row| decided(row))
                .map(|row| plainly(row))
                .collect();
            if !judged.is_empty() {
                let mut text = format!("{other} against {base}: {}", judged.join(", "));
                if find("wall-time").is_some_and(|row| row.verdict != "described") {
                    text.push_str("; whether it is faster is undecided");
                }
                return Some(format!("{text}."));
            }
            let open = rows
                .iter()
                .find(|row| !matches!(row.verdict.as_str(), "described" | "incomparable"))?;
            Some(format!(
                "Whether {other} differs from {base} in {} is open ({}).",
                open.metric, open.explanation
            ))
        }
    }
}

/// `1.65 ± 0.02 times`: how many times the one took what the other took.
fn times(row: &Compared, slower: bool) -> String {
    let turned = |ratio: f64| if slower { ratio } else { ratio.recip() };
    let Some(ratio) = row.ratio.map(turned) else {
        return "infinitely many times".to_owned();
    };
    let half = row.interval.and_then(|(low, high)| {
        let (low, high) = (turned(low?), turned(high?));
        Some((high - low).abs() / 2.0).filter(|half| half.is_finite())
    });
    match half {
        Some(half) if half >= 0.005 => format!("{ratio:.2} ± {half:.2} times"),
        Some(half) => format!("{ratio:.3} ± {half:.3} times"),
        None => format!("{ratio:.2} times"),
    }
}

/// `, executing 38 % fewer instructions`, as the one of the two sees it that is faster.
fn executing(row: &Compared, of_base: bool, differ: bool) -> String {
    let Some(more) = direction(row) else {
        return ", executing as many instructions".to_owned();
    };
    let ratio = row.ratio.map(|r| if of_base { r.recip() } else { r });
    let more = more != of_base;
    let word = if more { "more" } else { "fewer" };
    let how = if differ && more { "though " } else { "" };
    match ratio {
        Some(ratio) if ratio >= 10.0 => {
            format!(
                ", {how}executing {} times as many instructions",
                significant(ratio)
            )
        }
        Some(ratio) => format!(", {how}executing {} {word} instructions", share(ratio)),
        None => format!(", {how}executing {word} instructions"),
    }
}

/// `38 %`, without a sign.
fn share(ratio: f64) -> String {
    let percent = ((ratio - 1.0) * 100.0).abs();
    if percent >= 9.95 {
        format!("{percent:.0} %")
    } else if percent >= 0.095 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.2} %")
    }
}

/// `max-rss +12.0 % (larger)`, `page-faults the same`.
fn plainly(row: &Compared) -> String {
    match direction(row) {
        None => format!("{} the same", row.metric),
        Some(_) => {
            let change = row.ratio.map_or_else(|| "from 0".to_owned(), change);
            format!("{} {change} ({})", row.metric, row.verdict)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(metric: &str, ratio: f64, half: f64, verdict: &str) -> Compared {
        Compared {
            base: "A".into(),
            other: "B".into(),
            metric: metric.into(),
            ratio: Some(ratio),
            median_ratio: Some(ratio),
            interval: Some((Some(ratio - half), Some(ratio + half))),
            confidence: 0.95,
            p: Some(0.001),
            p_adjusted: Some(0.001),
            verdict: verdict.into(),
            explanation: "undecided: about 9 more rounds would decide: -n 19".into(),
            worse: Some("higher".into()),
            floor: 0.02,
            exact: false,
        }
    }

    fn say(rows: &[Compared]) -> String {
        sentence("A", "B", &rows.iter().collect::<Vec<_>>()).unwrap_or_default()
    }

    #[test]
    fn the_faster_one_is_the_subject() {
        let slow = row("wall-time", 1.65, 0.02, "slower");
        assert_eq!(
            say(&[slow.clone(), row("instructions:u", 1.6129, 0.0, "more")]),
            "A ran 1.65 ± 0.02 times faster than B, executing 38 % fewer instructions."
        );
        let fast = row("wall-time", 0.5, 0.0, "faster");
        assert_eq!(
            say(&[fast.clone(), row("instructions:u", 0.62, 0.0, "fewer")]),
            "B ran 2.000 ± 0.000 times faster than A, executing 38 % fewer instructions."
        );
        assert_eq!(
            say(&[fast, row("instructions:u", 1.01, 0.0, "more")]),
            "B ran 2.000 ± 0.000 times faster than A, though executing 1.0 % more instructions."
        );
        assert_eq!(
            say(&[slow, row("instructions:u", 1.0, 0.0, "same")]),
            "A ran 1.65 ± 0.02 times faster than B, executing as many instructions."
        );
    }

    #[test]
    fn what_is_not_decided_is_not_claimed() {
        let open = row("wall-time", 1.02, 0.05, "undecided");
        assert_eq!(
            say(&[open.clone(), row("instructions:u", 0.62, 0.0, "fewer")]),
            "B against A: instructions:u -38.0 % (fewer); whether it is faster is undecided."
        );
        assert_eq!(
            say(&[open]),
            "Whether B differs from A in wall-time is open (undecided: about 9 more rounds would decide: -n 19)."
        );
        assert_eq!(say(&[row("wall-time", 1.3, 0.1, "described")]), "");
        let same = row("wall-time", 1.0, 0.01, "same");
        assert_eq!(say(&[same]), "B took as long as A (within 2.000 %).");
    }
}
