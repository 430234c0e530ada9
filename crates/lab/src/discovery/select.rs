//! Which selectors: event codes and unit masks, how a PMU's `config` word holds them, and lists of them as people
//! write them.
//!
//! Layouts: `arch/x86/events/intel/core.c` and `amd/core.c` (`PMU_FORMAT_ATTR`), `drivers/perf/arm_pmuv3.c`. Which codes
//! may exist: Intel SDM vol. 3B (8 bits), AMD PPR (12 bits; up to 0x1ff is used), Arm ARM (16 bits; 0x000 to 0x3ff are
//! the common and the implementation's own events).

use serde::{Deserialize, Serialize};
use truecount_events::{Cpu, Vendor};

/// How `config` holds code and unit mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Code 0–7, unit mask 8–15.
    Intel,
    /// Code 0–7 and 32–35, unit mask 8–15.
    Amd,
    /// Code 0–15, no unit masks.
    Arm,
}

impl Layout {
    /// Of this CPU; where it is not known, by the architecture that truecount was built for.
    #[must_use]
    pub fn of(cpu: Option<Cpu>) -> Self {
        match cpu.map(|cpu| cpu.vendor) {
            Some(Vendor::Amd | Vendor::Hygon) => Self::Amd,
            Some(Vendor::Arm(_)) => Self::Arm,
            Some(_) => Self::Intel,
            None if cfg!(target_arch = "aarch64") => Self::Arm,
            None => Self::Intel,
        }
    }

    /// The largest code that `config` can hold.
    #[must_use]
    pub const fn most(self) -> u16 {
        match self {
            Self::Intel => 0xff,
            Self::Amd => 0xfff,
            Self::Arm => 0xffff,
        }
    }

    /// All codes that are tried when none is named.
    #[must_use]
    pub const fn usual(self) -> std::ops::RangeInclusive<u16> {
        match self {
            Self::Intel => 0..=0xff,
            Self::Amd => 0..=0x1ff,
            Self::Arm => 0..=0x3ff,
        }
    }

    /// Whether there are unit masks.
    #[must_use]
    pub const fn has_umasks(self) -> bool {
        !matches!(self, Self::Arm)
    }

    /// Code and unit mask of a `config` word that holds nothing else.
    #[must_use]
    pub fn selector(self, config: u64) -> Option<Selector> {
        let low = config as u8;
        let selector = match self {
            Self::Arm => Selector {
                code: u16::try_from(config).ok()?,
                umask: None,
            },
            Self::Intel | Self::Amd => Selector {
                code: u16::from(low) | ((config >> 32) as u16 & 0xf) << 8,
                umask: Some((config >> 8) as u8),
            },
        };
        (selector.config(self) == config && selector.code <= self.most()).then_some(selector)
    }
}

/// One thing that a counter can be told to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Selector {
    /// Event code.
    pub code: u16,
    /// Unit mask, where there are any.
    pub umask: Option<u8>,
}

impl Selector {
    /// The `config` word.
    #[must_use]
    pub fn config(self, layout: Layout) -> u64 {
        let code = u64::from(self.code);
        let umask = u64::from(self.umask.unwrap_or(0)) << 8;
        match layout {
            Layout::Arm => code,
            Layout::Intel | Layout::Amd => code & 0xff | (code >> 8) << 32 | umask,
        }
    }

    /// As `-e` takes it, without a filter: `r01cb`.
    #[must_use]
    pub fn name(self, layout: Layout) -> String {
        format!("r{:04x}", self.config(layout))
    }
}

/// Parses `0xc0..0xcc,0xd0`: single codes and ranges with both ends in them, hexadecimal with 0x or decimal. Sorted,
/// each once.
///
/// ```
/// use truecount_lab::discovery::{Layout, parse_codes};
/// assert_eq!(parse_codes("0xc4,0xc0..0xc2", Layout::Intel).unwrap(), [0xc0, 0xc1, 0xc2, 0xc4]);
/// ```
///
/// # Errors
/// The reason in a line, with what would be right.
pub fn parse_codes(text: &str, layout: Layout) -> Result<Vec<u16>, String> {
    let most = layout.most();
    let number = |word: &str| -> Result<u16, String> {
        let word = word.trim();
        let (digits, radix) = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None => (word, 10),
        };
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let value = plain.then(|| u64::from_str_radix(digits, radix));
        match value {
            Some(Ok(value)) => u16::try_from(value)
                .ok()
                .filter(|&value| value <= most)
                .ok_or_else(|| {
                    format!("event codes of this CPU end at {most:#x}, {word} is above")
                }),
            _ => Err(format!(
                "`{word}` is not an event code; write 0xc4, 0xc0..0xcf (both ends are tried) or a list such as 0xc0,0xc4"
            )),
        }
    };
    let mut codes = Vec::new();
    for part in text.split(',') {
        let ends = part
            .split_once("..=")
            .or_else(|| part.split_once(".."))
            .or_else(|| part.split_once('-'));
        match ends {
            None => codes.push(number(part)?),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last {
                    return Err(format!(
                        "`{}` is a range that ends before it begins",
                        part.trim()
                    ));
                }
                codes.extend(first..=last);
            }
        }
    }
    codes.sort_unstable();
    codes.dedup();
    Ok(codes)
}

/// Codes as a short list of ranges that [`parse_codes`] understands: `0xc1..0xc3, 0xc5`.
#[must_use]
pub fn condense(codes: &[u16]) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for &code in codes {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(code) => *last = code,
            _ => runs.push((code, code)),
        }
    }
    let words: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                format!("{first:#04x}")
            } else {
                format!("{first:#04x}..{last:#04x}")
            }
        })
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_both_ends_in_them() {
        let codes = |text: &str| parse_codes(text, Layout::Intel);
        assert_eq!(codes("0xc0..0xcc").unwrap().len(), 13);
        assert_eq!(codes("0xca..=0xcc").unwrap(), [0xca, 0xcb, 0xcc]);
        assert_eq!(codes("1-3, 2, 0x2").unwrap(), [1, 2, 3]);
        assert_eq!(codes("0xc4,0xc0").unwrap(), [0xc0, 0xc4]);
        for bad in [
            "",
            "c0",
            "0xc0..",
            "..",
            "0x",
            "0x100",
            "5..1",
            "-1",
            "0xc0,,",
            "99999999999999999999",
            "+1",
        ] {
            assert!(codes(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_codes("0x1cf", Layout::Amd).unwrap(), [0x1cf]);
        assert!(parse_codes("0x1000", Layout::Amd).is_err());
        assert_eq!(parse_codes("0xffff", Layout::Arm).unwrap(), [0xffff]);
    }

    #[test]
    fn words_and_selectors() {
        let at = |code, umask| Selector { code, umask };
        assert_eq!(at(0xcb, Some(1)).name(Layout::Intel), "r01cb");
        assert_eq!(at(0x1cf, Some(0xff)).config(Layout::Amd), 0x1_0000_ffcf);
        assert_eq!(at(0x11, None).name(Layout::Arm), "r0011");
        for layout in [Layout::Intel, Layout::Amd, Layout::Arm] {
            for code in [0, 1, 0xcb, layout.most()] {
                let umask = layout.has_umasks().then_some(0x81);
                let selector = at(code, umask);
                assert_eq!(layout.selector(selector.config(layout)), Some(selector));
            }
        }
        // A threshold, an inverted event, a second unit mask: not a plain selector.
        for config in [0x0100_01c2, 1 << 23, 1 << 40, 1 << 33] {
            assert_eq!(Layout::Intel.selector(config), None, "{config:#x}");
        }
    }

    #[test]
    fn lists_are_short() {
        assert_eq!(condense(&[]), "");
        assert_eq!(condense(&[5]), "0x05");
        let codes = [1, 2, 3, 9, 0x1ff];
        let again = parse_codes(&condense(&codes), Layout::Amd);
        assert_eq!(again.as_deref(), Ok(&codes[..]));
        assert_eq!(condense(&codes), "0x01..0x03, 0x09, 0x1ff");
    }
}
