//! Sums by key: of the last interval, and since the start. Memory is bounded: the smallest rows of a full table are
//! added up in one row, "others".

use std::collections::HashMap;
use std::hash::Hash;

use super::types::{Span, Weight};

/// The sums of a row, per event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums(Box<[(Weight, Weight)]>);

impl Sums {
    fn new(events: usize) -> Self {
        Self(vec![<(Weight, Weight)>::default(); events].into())
    }

    /// The sum of an event.
    pub fn get(&self, event: usize, span: Span) -> Weight {
        let (last, total) = self.0.get(event).copied().unwrap_or_default();
        match span {
            Span::Last => last,
            Span::Total => total,
        }
    }

    fn add(&mut self, event: usize, more: (Weight, Weight)) {
        if let Some((last, total)) = self.0.get_mut(event) {
            last.add(more.0);
            total.add(more.1);
        }
    }

    fn add_all(&mut self, other: &Self) {
        for (mine, more) in self.0.iter_mut().zip(&other.0) {
            mine.0.add(more.0);
            mine.1.add(more.1);
        }
    }

    fn next(&mut self) {
        for (last, _) in &mut self.0 {
            *last = Weight::default();
        }
    }

    fn samples(&self) -> u64 {
        self.0.iter().map(|(_, total)| total.samples).sum()
    }
}

/// Sums by key.
#[derive(Debug, Clone)]
pub struct Tally<K> {
    rows: HashMap<K, Sums>,
    others: Sums,
    /// Rows that were added to `others`.
    folded: u64,
    limit: usize,
    events: usize,
}

impl<K: Hash + Eq> Tally<K> {
    /// At most `limit` rows.
    pub fn new(events: usize, limit: usize) -> Self {
        Self {
            rows: HashMap::new(),
            others: Sums::new(events),
            folded: 0,
            limit,
            events,
        }
    }

    /// The same, without rows.
    pub fn anew(&self) -> Self {
        Self::new(self.events, self.limit)
    }

    /// A new interval begins.
    pub fn next(&mut self) {
        self.rows.values_mut().for_each(Sums::next);
        self.others.next();
    }

    /// Adds to a row, now and in all.
    pub fn add(&mut self, key: K, event: usize, weight: Weight) {
        self.add_pair(key, event, (weight, weight));
    }

    /// Adds to the last interval and, mostly more, to the total.
    pub fn add_pair(&mut self, key: K, event: usize, weights: (Weight, Weight)) {
        if self.rows.len() >= self.limit && !self.rows.contains_key(&key) {
            self.fold();
        }
        self.rows
            .entry(key)
            .or_insert_with(|| Sums::new(self.events))
            .add(event, weights);
    }

    /// What belongs to no row.
    pub fn add_other(&mut self, event: usize, weights: (Weight, Weight)) {
        self.others.add(event, weights);
    }

    /// Adds the smaller half of the rows up in "others".
    fn fold(&mut self) {
        let mut sizes: Vec<u64> = self.rows.values().map(Sums::samples).collect();
        let middle = sizes.len() / 2;
        if sizes.is_empty() {
            return;
        }
        let (_, median, _) = sizes.select_nth_unstable(middle);
        let median = *median;
        // Of the rows as large as the median, so many go that half of all remains.
        let smaller = self.rows.values().filter(|s| s.samples() < median).count();
        let mut of_median = middle
            .saturating_sub(smaller)
            .max(usize::from(smaller == 0));
        let (others, folded) = (&mut self.others, &mut self.folded);
        self.rows.retain(|_, sums| {
            let size = sums.samples();
            let goes = size < median || (size == median && of_median > 0);
            if goes {
                if size == median {
                    of_median -= 1;
                }
                others.add_all(sums);
                *folded += 1;
            }
            !goes
        });
    }

    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = (&K, &Sums)> {
        self.rows.iter()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.rows.len()
    }

    /// What belongs to no row.
    pub fn others(&self) -> &Sums {
        &self.others
    }

    /// Rows that were added up in "others".
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// The sum of all rows.
    pub fn all(&self, event: usize, span: Span) -> Weight {
        let mut sum = self.others.get(event, span);
        for sums in self.rows.values() {
            sum.add(sums.get(event, span));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn w(samples: u64) -> Weight {
        Weight {
            samples,
            events: samples * 10,
        }
    }

    #[test]
    fn the_last_interval_and_the_total() {
        let mut t = Tally::new(2, 10);
        t.add("a", 0, w(1));
        t.add("a", 0, w(2));
        t.add("b", 1, w(5));
        t.next();
        t.add("a", 0, w(4));
        t.add_other(1, (w(7), w(7)));
        let a = t.rows().find(|(k, _)| **k == "a").unwrap().1;
        assert_eq!((a.get(0, Span::Last), a.get(0, Span::Total)), (w(4), w(7)));
        assert_eq!(a.get(1, Span::Total), Weight::default());
        assert_eq!((t.all(1, Span::Last), t.all(1, Span::Total)), (w(7), w(12)));
        assert_eq!(t.others().get(1, Span::Total), w(7));
    }

    #[test]
    fn a_full_table_keeps_the_largest_and_loses_no_sample() {
        for equal in [true, false] {
            let mut t = Tally::new(1, 100);
            let mut all = 0;
            for key in 0..10_000u64 {
                let size = if equal { 1 } else { key % 97 + 1 };
                t.add(key, 0, w(size));
                t.add(u64::MAX, 0, w(3));
                all += size + 3;
                assert!(t.len() <= 100);
            }
            assert_eq!(t.all(0, Span::Total), w(all));
            let biggest = t.rows().max_by_key(|(_, s)| s.samples()).unwrap();
            assert_eq!(
                (*biggest.0, biggest.1.get(0, Span::Total)),
                (u64::MAX, w(30_000))
            );
            assert!(t.folded() + t.len() as u64 == 10_001);
        }
    }
}
