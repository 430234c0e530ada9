//! Did you mean …? Edit distance with transpositions (optimal string alignment), case ignored.

/// At most three of `names` that look like `wrong`, best first.
///
/// ```
/// let near = truecount_events::did_you_mean("instrutions", ["cycles", "instructions", "branches"]);
/// assert_eq!(near, ["instructions"]);
/// ```
pub fn did_you_mean<S: AsRef<str>>(wrong: &str, names: impl IntoIterator<Item = S>) -> Vec<String> {
    const LONGEST: usize = 96;
    let wrong: Vec<char> = wrong
        .chars()
        .take(LONGEST)
        .flat_map(char::to_lowercase)
        .collect();
    if wrong.is_empty() {
        return Vec::new();
    }
    let limit = (wrong.len() / 3).clamp(1, 4);
    let mut found: Vec<(usize, String)> = Vec::new();
    for name in names {
        let name = name.as_ref();
        let lower: Vec<char> = name
            .chars()
            .take(LONGEST)
            .flat_map(char::to_lowercase)
            .collect();
        let rank = if wrong.len() >= 3 && starts_or_holds(&lower, &wrong) {
            Some(limit)
        } else if lower.len().abs_diff(wrong.len()) <= limit {
            Some(distance(&wrong, &lower)).filter(|&d| d <= limit)
        } else {
            None
        };
        if let Some(rank) = rank
            && !found.iter().any(|(_, n)| n == name)
        {
            found.push((rank, name.to_owned()));
        }
    }
    found.sort_by(|a, b| {
        a.0.cmp(&b.0)
            .then_with(|| a.1.len().cmp(&b.1.len()))
            .then_with(|| a.1.cmp(&b.1))
    });
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Whether the whole wrong word is part of the name.
fn starts_or_holds(name: &[char], wrong: &[char]) -> bool {
    name.windows(wrong.len()).any(|w| w == wrong)
}

fn distance(a: &[char], b: &[char]) -> usize {
    // Three rows: two back (for transpositions), the last, the current one.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut a_before = None;
    for (i, &ca) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(last.len());
        row.push(i.saturating_add(1));
        let mut b_before = None;
        for (j, &cb) in b.iter().enumerate() {
            let at = |r: &[usize], k: usize| r.get(k).copied().unwrap_or(usize::MAX / 2);
            let mut best = at(&last, j).saturating_add(usize::from(ca != cb));
            best = best
                .min(at(&last, j.saturating_add(1)).saturating_add(1))
                .min(at(&row, j).saturating_add(1));
            if j > 0 && a_before == Some(cb) && b_before == Some(ca) {
                best = best.min(at(&before, j.saturating_sub(1)).saturating_add(1));
            }
            row.push(best);
            b_before = Some(cb);
        }
        before = std::mem::replace(&mut last, row);
        a_before = Some(ca);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(a: &str, b: &str) -> usize {
        distance(
            &a.chars().collect::<Vec<_>>(),
            &b.chars().collect::<Vec<_>>(),
        )
    }

    #[test]
    fn distances() {
        assert_eq!(d("", "abc"), 3);
        assert_eq!(d("abc", "abc"), 0);
        assert_eq!(d("abc", "acb"), 1);
        assert_eq!(d("kitten", "sitting"), 3);
    }

    #[test]
    fn far_names_are_not_offered() {
        assert!(did_you_mean("xyzzy", ["instructions", "cycles"]).is_empty());
        assert!(did_you_mean("", ["instructions"]).is_empty());
    }

    #[test]
    fn parts_are_offered() {
        assert_eq!(
            did_you_mean("dcache", ["L1-dcache-loads", "cycles"]),
            ["L1-dcache-loads"]
        );
    }
}
