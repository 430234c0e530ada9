//! Sizes of caches: written by a user, taken from this CPU, or Cachegrind's.

use crate::{Predictor, Prefetch, Replacement};
use std::fmt;
use std::str::FromStr;

/// One cache: bytes, ways, bytes of a line, replacement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes in all.
    pub size: u64,
    /// Lines of a set.
    pub ways: u32,
    /// Bytes of a line, a power of two.
    pub line: u32,
    /// Which line of a full set makes room.
    pub replacement: Replacement,
}

/// Why a geometry cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeometryError(String);

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GeometryError {}

impl GeometryError {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }
}

impl Geometry {
    /// Sets.
    pub fn sets(self) -> u64 {
        self.size / (u64::from(self.ways) * u64::from(self.line))
    }

    /// Checks that it can be simulated: the sets are a power of two, as an address chooses one by its bits.
    ///
    /// # Errors
    /// What is wrong, and with which number.
    pub fn new(size: u64, ways: u32, line: u32) -> Result<Self, GeometryError> {
        const LARGEST: u64 = 1 << 32;
        let error = |text: String| Err(GeometryError(text));
        if !line.is_power_of_two() || !(16..=4096).contains(&line) {
            return error(format!(
                "a line of {line} bytes: it must be a power of two from 16 to 4096"
            ));
        }
        if ways == 0 || size == 0 || size > LARGEST {
            return error(format!(
                "{size} bytes in {ways} ways: there must be some, and at most 4 GiB"
            ));
        }
        let one = u64::from(ways) * u64::from(line);
        if !size.is_multiple_of(one) || !(size / one).is_power_of_two() {
            return error(format!(
                "{size} bytes in {ways} ways of {line}-byte lines make no power of two of sets"
            ));
        }
        Ok(Self {
            size,
            ways,
            line,
            replacement: Replacement::Lru,
        })
    }

    /// The same with another replacement policy.
    ///
    /// # Errors
    /// There are more ways than a tree has.
    pub fn with(self, replacement: Replacement) -> Result<Self, GeometryError> {
        const MOST: u32 = Replacement::MOST_OF_TREE;
        if replacement == Replacement::Plru && self.ways > MOST {
            let ways = self.ways;
            return Err(GeometryError(format!(
                "plru of {ways} ways: at most {MOST}"
            )));
        }
        Ok(Self {
            replacement,
            ..self
        })
    }

    /// The nearest geometry that can be simulated where the sets are no power of two: fewer sets, and more ways in
    /// place of the rest (what Cachegrind does with last-level caches of odd sizes).
    pub fn nearest(size: u64, ways: u32, line: u32) -> Result<Self, GeometryError> {
        Self::new(size, ways, line).or_else(|error| {
            let lines = size / u64::from(line.max(1));
            let sets = (lines / u64::from(ways.max(1))).max(1);
            let sets = 1u64 << sets.ilog2();
            let more = u32::try_from(lines / sets).map_err(|_| error)?;
            Self::new(sets * u64::from(more) * u64::from(line), more, line)
        })
    }
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.size, self.ways, self.line)?;
        match self.replacement {
            Replacement::Lru => Ok(()),
            other => write!(f, ",{other}"),
        }
    }
}

/// `size,ways,line`, as Valgrind's `--D1=` takes it, and perhaps a replacement policy: `49152,12,64,plru`.
impl FromStr for Geometry {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        let number = |part: Option<&str>| part.and_then(|part| part.trim().parse::<u64>().ok());
        let mut parts = text.split(',');
        let all = (
            number(parts.next()),
            number(parts.next()),
            number(parts.next()),
            parts
                .next()
                .map_or(Ok(Replacement::Lru), |policy| policy.trim().parse()),
            parts.next(),
        );
        let (Some(size), Some(ways), Some(line), Ok(replacement), None) = all else {
            return Err(GeometryError(format!(
                "'{text}' is no geometry: bytes,ways,bytes of a line are wanted, as in 32768,8,64, and perhaps a \
                 replacement policy: lru, plru, fifo, random"
            )));
        };
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self::new(size, small(ways), small(line))?.with(replacement)
    }
}

/// The caches of a machine as Cachegrind sees one: first-level caches, and the last level behind both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// First level, instructions.
    pub i1: Geometry,
    /// First level, data.
    pub d1: Geometry,
    /// Last level.
    pub ll: Geometry,
}

/// What a model can have beside the caches that Cachegrind has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// A second level behind both first ones; the last level sees what that has not.
    pub l2: Option<Geometry>,
    /// Translations of data pages: the bytes that they cover, ways, bytes of a page.
    pub tlb: Option<Geometry>,
    /// Translations of pages of instructions.
    pub itlb: Option<Geometry>,
    /// A prefetcher of data.
    pub prefetch: Prefetch,
    /// What predicts conditional branches.
    pub predictor: Predictor,
}

const fn geometry(size: u64, ways: u32, line: u32) -> Geometry {
    Geometry {
        size,
        ways,
        line,
        replacement: Replacement::Lru,
    }
}

impl Machine {
    /// A machine that is the same everywhere: 32 KiB, 8 ways, of each first level, and 8 MiB, 16 ways, behind them.
    pub const FIXED: Self = Self {
        i1: geometry(32 << 10, 8, 64),
        d1: geometry(32 << 10, 8, 64),
        ll: geometry(8 << 20, 16, 64),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_geometry_is_read_and_checked() {
        let text = "32768,8,64";
        let geometry: Geometry = text.parse().unwrap();
        assert_eq!((geometry.sets(), geometry.to_string().as_str()), (64, text));
        for wrong in [
            "",
            "32768",
            "32768,8",
            "32768,8,64,1",
            "a,b,c",
            "0,8,64",
            "32768,0,64",
            "32768,8,0",
            "32768,8,63",
            "32768,7,64",
            "48,1,64",
            "99999999999999,8,64",
            "-1,8,64",
            "32768,99999999999,64",
        ] {
            assert!(wrong.parse::<Geometry>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn odd_sizes_become_powers_of_two_of_sets() {
        // 25 MiB, 20 ways: 20,480 sets; 48 KiB, 12 ways: 64 as they are.
        let odd = Geometry::nearest(25 << 20, 20, 64).unwrap();
        assert_eq!((odd.sets(), odd.ways, odd.size), (16_384, 25, 25 << 20));
        assert_eq!(Geometry::nearest(48 << 10, 12, 64).unwrap().ways, 12);
    }
}
