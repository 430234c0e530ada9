//! What is known and not yet repaired: a list that only gets shorter.
//!
//! A row of `known.tsv` is a check, a file and who repairs it. What stands there is no finding; a row that nothing
//! answers to is one.

use std::collections::BTreeSet;

use super::Finding;

const LIST: &str = include_str!("known.tsv");
const FILE: &str = "xtask/src/tidy/known.tsv";

/// The findings without those that are known, and with the rows that have become wrong; and how many are known.
pub fn without(findings: Vec<Finding>) -> (Vec<Finding>, usize) {
    remove(LIST, findings)
}

fn remove(list: &str, findings: Vec<Finding>) -> (Vec<Finding>, usize) {
    let rows: Vec<(usize, (&str, &str))> = list
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(at, line)| {
            let mut cells = line.split('\t');
            (
                at + 1,
                (
                    cells.next().unwrap_or_default(),
                    cells.next().unwrap_or_default(),
                ),
            )
        })
        .collect();
    let mut seen = BTreeSet::new();
    let mut left = Vec::new();
    let mut spared = 0;
    for finding in findings {
        let row = rows
            .iter()
            .find(|(_, (check, path))| *check == finding.check && *path == finding.path);
        match row {
            Some((line, _)) => {
                seen.insert(*line);
                spared += 1;
            }
            None => left.push(finding),
        }
    }
    let stale = rows.iter().filter(|(line, _)| !seen.contains(line));
    left.extend(stale.map(|(line, (check, path))| {
        let message = format!("{check} has nothing to say of {path} any more: remove the row");
        Finding {
            check: "known",
            ..Finding::new(FILE, *line, message)
        }
    }));
    (left, spared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_findings_are_spared_and_rows_without_one_are_findings() {
        let finding = |check, path: &str| Finding {
            check,
            ..Finding::new(path, 3, "x")
        };
        let list = "# check, file, owner\nsizes\ta.rs\tme\nwords\tb.rs\tyou\n";
        let findings = vec![
            finding("sizes", "a.rs"),
            finding("sizes", "a.rs"),
            finding("words", "a.rs"),
        ];
        let (left, spared) = remove(list, findings);
        assert_eq!(spared, 2);
        let left: Vec<(&str, &str, usize)> = left
            .iter()
            .map(|f| (f.check, f.path.as_str(), f.line))
            .collect();
        assert_eq!(left, [("words", "a.rs", 3), ("known", FILE, 3)]);
    }
}
