//! A PMU's `format/` files: which bits of which config word a term fills. Facts: Linux
//! `Documentation/ABI/testing/sysfs-bus-event_source-devices-format`.

/// Where a term's value goes.
///
/// ```
/// use truecount_events::Format;
/// let event: Format = "config:0-7,32-35".parse().unwrap();
/// let mut words = [0; 4];
/// event.put(0x1c4, &mut words).unwrap();
/// assert_eq!(words[0], 0x1_0000_00c4);
/// assert_eq!(event.put(0x1000, &mut words), Err(0xfff));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// 0 for `config`, 1 for `config1`, …, 3.
    word: usize,
    /// First and last bit of each run, in the order in which the value's bits fill them.
    runs: Vec<(u32, u32)>,
}

impl Format {
    /// The largest value that fits.
    #[must_use]
    pub fn max(&self) -> u64 {
        let width: u32 = self
            .runs
            .iter()
            .map(|(first, last)| last.saturating_sub(*first).saturating_add(1))
            .sum();
        if width >= 64 {
            u64::MAX
        } else {
            (1 << width) - 1
        }
    }

    /// Index of the config word, 0 to 3.
    #[must_use]
    pub fn word(&self) -> usize {
        self.word
    }

    /// Replaces the term's bits in `words` by `value`.
    ///
    /// # Errors
    /// The largest value that fits, when `value` is larger; `words` is unchanged then.
    pub fn put(&self, value: u64, words: &mut [u64; 4]) -> Result<(), u64> {
        if value > self.max() {
            return Err(self.max());
        }
        let Some(word) = words.get_mut(self.word) else {
            return Ok(());
        };
        for (i, bit) in self.bits().enumerate() {
            let one = value
                .checked_shr(u32::try_from(i).unwrap_or(u32::MAX))
                .unwrap_or(0)
                & 1;
            *word = *word & !(1 << bit) | one << bit;
        }
        Ok(())
    }

    /// The term's value in `words`: the inverse of [`put`](Self::put).
    #[must_use]
    pub fn get(&self, words: &[u64; 4]) -> u64 {
        let word = words.get(self.word).copied().unwrap_or(0);
        self.bits()
            .enumerate()
            .take(64)
            .fold(0, |value, (i, bit)| value | (word >> bit & 1) << i)
    }

    fn bits(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|&(first, last)| first..=last)
    }
}

/// What a format file should hold.
pub(crate) const EXPECTED: &str = "a format such as config:0-7,32-35";

impl std::str::FromStr for Format {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (word, bits) = text.trim().split_once(':').unwrap_or((text.trim(), "0-63"));
        let word = match word {
            "config" => 0,
            "config1" => 1,
            "config2" => 2,
            "config3" => 3,
            _ => return Err(EXPECTED),
        };
        let mut runs = Vec::new();
        let mut seen = 0u64;
        for run in bits.split(',') {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let first: u32 = first.trim().parse().map_err(|_| EXPECTED)?;
            let last: u32 = last.trim().parse().map_err(|_| EXPECTED)?;
            if first > last || last > 63 {
                return Err(EXPECTED);
            }
            for bit in first..=last {
                if seen >> bit & 1 == 1 {
                    return Err("each bit once in the format");
                }
                seen |= 1 << bit;
            }
            runs.push((first, last));
        }
        Ok(Self { word, runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_kernels_write() {
        for (text, max, word) in [
            ("config:0-7", 0xff, 0),
            ("config1:0-63\n", u64::MAX, 1),
            ("config:18", 1, 0),
            ("config3:0-15", 0xffff, 3),
        ] {
            let format: Format = text.parse().unwrap();
            assert_eq!((format.max(), format.word()), (max, word), "{text}");
        }
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for text in [
            "",
            "config:",
            "config:8-7",
            "config:64",
            "config4:0",
            "config:0-7,7",
            "config:-1",
            "x",
        ] {
            assert!(text.parse::<Format>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn get_inverts_put(cuts in proptest::collection::btree_set(0u32..64, 2..8), value: u64, noise: u64, word in 0usize..4) {
            let cuts: Vec<u32> = cuts.into_iter().collect();
            let mut runs: Vec<String> = cuts.chunks_exact(2).map(|c| format!("{}-{}", c[0], c[1])).collect();
            runs.reverse();
            let name = ["config", "config1", "config2", "config3"][word];
            let format: Format = format!("{name}:{}", runs.join(",")).parse().unwrap();
            let value = value & format.max();
            let mut words = [noise; 4];
            format.put(value, &mut words).unwrap();
            prop_assert_eq!(format.get(&words), value);
            // Bits that are not the term's stay as they were.
            let mut mask = [0; 4];
            format.put(format.max(), &mut mask).unwrap();
            for i in 0..4 {
                prop_assert_eq!(words[i] & !mask[i], noise & !mask[i]);
            }
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Format>();
        }
    }
}
