//! A small seeded generator, so that a schedule can be repeated from its printed seed.
//!
//! xoshiro256** (Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", 2018),
//! its state filled by SplitMix64 from one 64-bit seed as its authors advise. Not for secrets.

/// A seeded pseudo-random generator.
///
/// ```
/// use truecount_stats::Rng;
/// let (mut a, mut b) = (Rng::new(7), Rng::new(7));
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert!(a.below(10) < 10);
/// ```
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator whose whole sequence is fixed by `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self {
            state: [next(), next(), next(), next()],
        }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A uniform integer in `0..n`; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // Values under `2^64 mod n` would make the small remainders likelier: draw again.
        let reject_below = n.wrapping_neg() % n;
        loop {
            let x = self.next_u64();
            if x >= reject_below {
                return x % n;
            }
        }
    }

    /// A uniform number in `[0, 1)` with 53 random bits.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// Shuffles in place (Fisher and Yates): every order is equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_xoshiro256_starstar() {
        // State {1, 2, 3, 4}: first outputs computed by hand from the definition.
        let mut r = Rng {
            state: [1, 2, 3, 4],
        };
        assert_eq!(r.next_u64(), 11520);
        assert_eq!(r.next_u64(), 0);
        assert_eq!(r.next_u64(), 1_509_978_240);
    }

    #[test]
    fn shuffles_are_uniform_over_the_six_orders_of_three() {
        let mut r = Rng::new(11);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut v = [0, 1, 2];
            r.shuffle(&mut v);
            *seen.entry(v).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|&c| (850..1150).contains(&c)), "{seen:?}");
    }

    #[test]
    fn below_covers_its_range_and_nothing_else() {
        let mut r = Rng::new(3);
        let mut hit = [0u32; 5];
        for _ in 0..5000 {
            hit[r.below(5) as usize] += 1;
        }
        assert!(hit.iter().all(|&c| c > 800), "{hit:?}");
        assert_eq!(r.below(0), 0);
        assert_eq!(r.below(1), 0);
    }
}
