//! What to try next, from what has counted so far.
//!
//! A unit mask of 0xff takes in everything where its bits are kinds that add up (AMD PPR: "unit mask"), so it comes
//! first. On Intel's PMUs, and for events without kinds, the mask is a number: 0xff selects nothing there, so codes that
//! were silent are tried with 0x00, 0x01 and with what the tables of this CPU name. Single bits come last, for those
//! codes that have counted (or for all).

use super::select::{Layout, Selector};
use serde::{Deserialize, Serialize};

/// Which single bits of the unit mask are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Umasks {
    /// None.
    #[default]
    No,
    /// Those of codes that have counted.
    Counting,
    /// Those of all codes.
    All,
}

/// An event that this CPU's tables name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Code and unit mask.
    pub selector: Selector,
    /// The name.
    pub name: String,
    /// Where it is from, for events that no public table of the vendor has.
    pub provenance: Option<String>,
}

/// The stages, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Every code with unit mask 0xff (or without one).
    All,
    /// Silent codes with single masks.
    Plain,
    /// Single bits.
    Bits,
}

impl Stage {
    /// In their order.
    pub const ORDER: [Self; 3] = [Self::All, Self::Plain, Self::Bits];

    /// What to try in this stage. `counted` says of a code whether anything of it has counted in the stages before.
    #[must_use]
    pub fn selectors(
        self,
        codes: &[u16],
        layout: Layout,
        umasks: Umasks,
        known: &[Known],
        counted: &dyn Fn(u16) -> bool,
    ) -> Vec<Selector> {
        if !layout.has_umasks() {
            let all = codes.iter().map(|&code| Selector { code, umask: None });
            return if self == Self::All {
                all.collect()
            } else {
                Vec::new()
            };
        }
        let mut found = Vec::new();
        for &code in codes {
            let masks: Vec<u8> = match self {
                Self::All => vec![0xff],
                Self::Plain if counted(code) => Vec::new(),
                Self::Plain => {
                    let named = known.iter().filter(|k| k.selector.code == code);
                    let named = named.filter_map(|k| k.selector.umask);
                    [0x00, 0x01].into_iter().chain(named).collect()
                }
                Self::Bits => {
                    let wanted = match umasks {
                        Umasks::No => false,
                        Umasks::Counting => counted(code),
                        Umasks::All => true,
                    };
                    let bits = (0..8).map(|bit| 1u8 << bit);
                    if wanted { bits.collect() } else { Vec::new() }
                }
            };
            let selectors = masks.into_iter().map(|umask| Selector {
                code,
                umask: Some(umask),
            });
            let begin = found.len();
            found.extend(selectors);
            if let Some(own) = found.get_mut(begin..) {
                own.sort_unstable();
            }
        }
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(stage: Stage, layout: Layout, umasks: Umasks, counted: &[u16]) -> Vec<(u16, u8)> {
        let known = [Known {
            selector: Selector {
                code: 2,
                umask: Some(0x20),
            },
            name: "X".to_owned(),
            provenance: None,
        }];
        stage
            .selectors(&[1, 2], layout, umasks, &known, &|code| {
                counted.contains(&code)
            })
            .into_iter()
            .map(|s| (s.code, s.umask.unwrap_or(0xee)))
            .collect()
    }

    #[test]
    fn all_then_silent_ones_then_bits() {
        let x86 = |stage, umasks, counted: &[u16]| masks(stage, Layout::Amd, umasks, counted);
        assert_eq!(x86(Stage::All, Umasks::No, &[]), [(1, 0xff), (2, 0xff)]);
        // A code that has counted needs no other mask; a named one is tried.
        assert_eq!(
            x86(Stage::Plain, Umasks::No, &[1]),
            [(2, 0), (2, 1), (2, 0x20)]
        );
        assert_eq!(x86(Stage::Bits, Umasks::No, &[1]), []);
        let bits = x86(Stage::Bits, Umasks::Counting, &[1]);
        assert_eq!(bits.len(), 8);
        assert!(bits.contains(&(1, 0x80)) && bits.iter().all(|&(code, _)| code == 1));
        assert_eq!(x86(Stage::Bits, Umasks::All, &[]).len(), 16);
    }

    #[test]
    fn arm_has_codes_only() {
        assert_eq!(
            masks(Stage::All, Layout::Arm, Umasks::All, &[]),
            [(1, 0xee), (2, 0xee)]
        );
        assert_eq!(masks(Stage::Plain, Layout::Arm, Umasks::All, &[]), []);
        assert_eq!(masks(Stage::Bits, Layout::Arm, Umasks::All, &[]), []);
    }
}
