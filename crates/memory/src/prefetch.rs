//! A prefetcher of data: which line it brings into the first level after a reference.
//!
//! What it wants is there at once, before the next reference (a real one's comes some time later), and lies in the page
//! of 4 KiB that the reference is in, as real ones', which do not know where the next page is.

use crate::By;
use std::fmt;
use std::str::FromStr;

/// Which prefetcher a model has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefetch {
    /// None, as Cachegrind.
    #[default]
    None,
    /// After each reference the line behind it.
    NextLine,
    /// After a reference that lies as far from the operand's last one as that did from the one before: what lies once
    /// more so far away, or the next line in that direction where that is nearer than a line.
    Stride,
}

impl fmt::Display for Prefetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::NextLine => "next-line",
            Self::Stride => "stride",
        })
    }
}

impl FromStr for Prefetch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::None, Self::NextLine, Self::Stride];
        let found = all.into_iter().find(|one| one.to_string() == text);
        found.ok_or_else(|| format!("there is no prefetcher '{text}': none, next-line, stride are"))
    }
}

/// Operands that the stride prefetcher remembers.
const OPERANDS: usize = 256;

/// Bits of an address in a page.
const PAGE_BITS: u32 = 12;

#[derive(Clone, Copy, Debug, Default)]
struct Operand {
    by: By,
    last: u64,
    stride: u64,
}

/// A prefetcher and what it remembers.
#[derive(Clone, Debug)]
pub(crate) struct Prefetcher {
    line_bits: u32,
    /// Of the stride prefetcher.
    operands: Option<Box<[Operand]>>,
}

impl Prefetcher {
    /// In front of a cache with such lines.
    pub(crate) fn new(prefetch: Prefetch, line_bits: u32) -> Option<Self> {
        let operands = match prefetch {
            Prefetch::None => return None,
            Prefetch::NextLine => None,
            Prefetch::Stride => Some(vec![Operand::default(); OPERANDS].into_boxed_slice()),
        };
        Some(Self {
            line_bits,
            operands,
        })
    }

    /// The line that it wants after a reference.
    pub(crate) fn after(&mut self, by: By, address: u64, size: u32) -> Option<u64> {
        let line = 1u64 << self.line_bits;
        let (from, wanted) = match &mut self.operands {
            None => {
                let last = address.wrapping_add(u64::from(size.max(1) - 1));
                (last, last.wrapping_add(line))
            }
            Some(operands) => {
                let place = by.pc.wrapping_add(u64::from(by.operand)) as usize % OPERANDS;
                let operand = operands.get_mut(place)?;
                if operand.by != by {
                    *operand = Operand {
                        by,
                        last: address,
                        stride: 0,
                    };
                    return None;
                }
                let stride = address.wrapping_sub(operand.last);
                let again = stride == operand.stride && stride != 0;
                (operand.last, operand.stride) = (address, stride);
                let step = match stride.cast_signed() {
                    _ if !again => return None,
                    far if far.unsigned_abs() >= line => stride,
                    1.. => line,
                    _ => line.wrapping_neg(),
                };
                (address, address.wrapping_add(step))
            }
        };
        (from >> PAGE_BITS == wanted >> PAGE_BITS).then_some(wanted >> self.line_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: By = By {
        pc: 0x1000,
        operand: 0,
    };

    #[test]
    fn the_next_line_of_the_page_is_wanted() {
        let mut prefetcher = Prefetcher::new(Prefetch::NextLine, 6).unwrap();
        assert_eq!(prefetcher.after(BY, 0x2000, 8), Some(0x81));
        assert_eq!(prefetcher.after(BY, 0x203c, 8), Some(0x82), "its last byte");
        assert_eq!(prefetcher.after(BY, 0x2fc0, 8), None, "another page");
        assert!(Prefetcher::new(Prefetch::None, 6).is_none());
    }

    #[test]
    fn the_same_distance_twice_is_a_stride() {
        let mut prefetcher = Prefetcher::new(Prefetch::Stride, 6).unwrap();
        let mut wanted = |operand, address| prefetcher.after(By { operand, ..BY }, address, 4);
        assert_eq!([0x2000, 0x2100].map(|at| wanted(0, at)), [None, None]);
        assert_eq!(wanted(0, 0x2200), Some(0x2300 >> 6));
        assert_eq!(wanted(0, 0x2208), None, "another distance");
        assert_eq!(wanted(0, 0x2210), Some(0x2250 >> 6), "less than a line");
        assert_eq!(wanted(0, 0x2208), None);
        assert_eq!(wanted(0, 0x2200), Some(0x21c0 >> 6), "and back");
        assert_eq!([0x2200, 0x2200].map(|at| wanted(0, at)), [None, None]);
        // Another operand is another one, and one in its place takes it.
        assert_eq!(wanted(1, 0x3000), None);
        let other = By {
            pc: BY.pc + 256,
            operand: 0,
        };
        assert_eq!(prefetcher.after(other, 0x2200, 4), None);
        assert_eq!(prefetcher.after(BY, 0x2200, 4), None);
    }

    #[test]
    fn names() {
        for one in [Prefetch::None, Prefetch::NextLine, Prefetch::Stride] {
            assert_eq!(one.to_string().parse(), Ok(one));
        }
        assert!("all".parse::<Prefetch>().unwrap_err().contains("next-line"));
    }
}
