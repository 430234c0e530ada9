//! Which model a CPU is, and the models' short names. Patterns are those of `mapfile.csv` in Linux' `pmu-events` and
//! in Intel's perfmon: `GenuineIntel-6-55-[56789ABCDEF]` (vendor, family, model and stepping in hexadecimal) or an
//! Arm MIDR (implementer in bits 24–31, part in bits 4–15).

use super::Arch;
use crate::{Cpu, Vendor};

/// Model, its other names. Short names: Intel's perfmon directories and common use.
const ALIASES: &[(&str, &[&str])] = &[
    ("alderlake", &["adl", "rpl", "raptorlake"]),
    ("alderlaken", &["adln", "adl-n"]),
    ("amdzen1", &["zen1", "zen", "naples"]),
    ("amdzen2", &["zen2", "rome"]),
    ("amdzen3", &["zen3", "milan"]),
    ("amdzen4", &["zen4", "genoa"]),
    ("amdzen5", &["zen5", "turin"]),
    ("apple-avalanche", &["apple-m2"]),
    ("apple-firestorm", &["apple-m1"]),
    ("arrowlake", &["arl"]),
    ("bonnell", &["bnl", "atom"]),
    ("broadwell", &["bdw"]),
    ("broadwellde", &["bdwde", "bdw-de"]),
    ("broadwellx", &["bdx", "bdw-ep"]),
    ("cascadelakex", &["clx", "cascadelake"]),
    ("clearwaterforest", &["cwf"]),
    ("cortex-a57-a72", &["cortex-a57", "cortex-a72"]),
    ("cortex-a65-e1", &["cortex-a65", "neoverse-e1"]),
    ("elkhartlake", &["ehl"]),
    ("emeraldrapids", &["emr"]),
    ("goldmont", &["glm"]),
    ("goldmontplus", &["glp", "gmp"]),
    ("grandridge", &["grr"]),
    ("graniterapids", &["gnr"]),
    ("haswell", &["hsw"]),
    ("haswellx", &["hsx", "hsw-ep"]),
    ("icelake", &["icl"]),
    ("icelakex", &["icx", "icl-sp"]),
    ("ivybridge", &["ivb"]),
    ("ivytown", &["ivt", "ivb-ep"]),
    ("jaketown", &["jkt", "snb-ep", "snbep"]),
    ("knightslanding", &["knl"]),
    ("lunarlake", &["lnl"]),
    ("meteorlake", &["mtl"]),
    ("nehalemep", &["nhm-ep", "nhm", "nehalem"]),
    ("nehalemex", &["nhm-ex"]),
    ("neoverse-n2-v2", &["neoverse-n2", "neoverse-v2"]),
    ("novalake", &["nvl"]),
    ("pantherlake", &["ptl"]),
    ("rocketlake", &["rkl"]),
    ("sandybridge", &["snb"]),
    ("sapphirerapids", &["spr"]),
    ("sierraforest", &["srf"]),
    ("silvermont", &["slm"]),
    ("skylake", &["skl", "kbl", "cfl", "cml"]),
    ("skylakex", &["skx"]),
    ("snowridgex", &["snr"]),
    ("tigerlake", &["tgl"]),
    ("westmereep-dp", &["wsm-dp", "wsm-ep"]),
    ("westmereep-sp", &["wsm-sp", "wsm"]),
    ("westmereex", &["wsm-ex"]),
];

/// The other names of a model.
pub(super) fn aliases(model: &str) -> &'static [&'static str] {
    ALIASES
        .iter()
        .find(|(name, _)| *name == model)
        .map_or(&[], |(_, aliases)| aliases)
}

/// The model's own name for a short one (lower case); anything else is given back in lower case.
pub(super) fn canonical(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    ALIASES
        .iter()
        .find(|(_, aliases)| aliases.contains(&name.as_str()))
        .map_or(name, |(model, _)| (*model).to_owned())
}

/// The layout that goes with a pattern.
pub(super) fn arch(pattern: &str) -> Arch {
    if pattern.starts_with("0x") {
        Arch::Arm
    } else if pattern.starts_with("AuthenticAMD") || pattern.starts_with("HygonGenuine") {
        Arch::Amd
    } else {
        Arch::Intel
    }
}

/// Whether a pattern of a mapfile means this CPU.
pub(super) fn matches(pattern: &str, cpu: Cpu) -> bool {
    if let Some(midr) = pattern.strip_prefix("0x") {
        let Ok(midr) = u64::from_str_radix(midr, 16) else {
            return false;
        };
        return matches!(cpu.vendor, Vendor::Arm(implementer)
            if u64::from(implementer) == midr >> 24 & 0xff && u64::from(cpu.model) == midr >> 4 & 0xfff);
    }
    let vendor = match cpu.vendor {
        Vendor::Intel => "GenuineIntel",
        Vendor::Amd => "AuthenticAMD",
        Vendor::Hygon => "HygonGenuine",
        Vendor::Arm(_) => return false,
    };
    let short = format!("{vendor}-{}-{:X}", cpu.family, cpu.model);
    let full = format!("{short}-{:X}", cpu.stepping);
    // A pattern without a stepping means all steppings (tools/perf/arch/x86/util/header.c, strcmp_cpuid_str).
    is_match(pattern, &short) || is_match(pattern, &full)
}

/// Matches the whole text. The regular expressions of mapfiles use letters, `(a|b)` without nesting, `[abc-f]`,
/// `[[:xdigit:]]`, `+` behind a class, and `.`.
fn is_match(pattern: &str, text: &str) -> bool {
    pattern.len() <= 256 && here(pattern.as_bytes(), text.as_bytes(), 0)
}

fn here(pattern: &[u8], text: &[u8], depth: usize) -> bool {
    if depth > 64 {
        return false;
    }
    let deeper = depth.saturating_add(1);
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'(', rest)) => {
            let Some(close) = rest.iter().position(|&b| b == b')') else {
                return false;
            };
            let (inside, after) = rest.split_at(close);
            let after = after.get(1..).unwrap_or(&[]);
            inside.split(|&b| b == b'|').any(|option| {
                let joined: Vec<u8> = option.iter().chain(after).copied().collect();
                here(&joined, text, deeper)
            })
        }
        Some((b'[', rest)) => {
            let Some((set, after)) = class(rest) else {
                return false;
            };
            let (many, after) = match after.split_first() {
                Some((b'+', after)) => (true, after),
                _ => (false, after),
            };
            let mut text = text;
            while let Some((first, rest)) = text.split_first() {
                if !in_class(set, *first) {
                    return false;
                }
                text = rest;
                if here(after, text, deeper) {
                    return true;
                }
                if !many {
                    return false;
                }
            }
            false
        }
        Some((p, rest)) => match text.split_first() {
            Some((t, text)) if *p == b'.' || p == t => here(rest, text, depth),
            _ => false,
        },
    }
}

/// Splits behind the closing bracket of a class.
fn class(pattern: &[u8]) -> Option<(&[u8], &[u8])> {
    let close = if pattern.starts_with(b"[:xdigit:]]") {
        10
    } else {
        pattern.iter().position(|&b| b == b']')?
    };
    let (set, rest) = pattern.split_at_checked(close)?;
    Some((set, rest.get(1..)?))
}

fn in_class(set: &[u8], byte: u8) -> bool {
    if set == b"[:xdigit:]" {
        return byte.is_ascii_hexdigit();
    }
    set.contains(&byte) && byte != b'-'
        || set
            .windows(3)
            .any(|w| matches!(w, &[a, b'-', z] if (a..=z).contains(&byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("GenuineIntel-6-(4E|5E)", "GenuineIntel-6-5E", true),
            ("GenuineIntel-6-(4E|5E)", "GenuineIntel-6-5F", false),
            ("GenuineIntel-6-55-[01234]", "GenuineIntel-6-55-4", true),
            ("GenuineIntel-6-55-[01234]", "GenuineIntel-6-55-7", false),
            ("GenuineIntel-6-9[6C]", "GenuineIntel-6-9C", true),
            (
                "AuthenticAMD-23-([12][0-9A-F]|[0-9A-F])",
                "AuthenticAMD-23-1A",
                true,
            ),
            (
                "AuthenticAMD-23-([12][0-9A-F]|[0-9A-F])",
                "AuthenticAMD-23-8",
                true,
            ),
            (
                "AuthenticAMD-23-([12][0-9A-F]|[0-9A-F])",
                "AuthenticAMD-23-31",
                false,
            ),
            ("AuthenticAMD-23-[[:xdigit:]]+", "AuthenticAMD-23-31", true),
            (
                "AuthenticAMD-25-([245][[:xdigit:]]|[[:xdigit:]])",
                "AuthenticAMD-25-21",
                true,
            ),
            ("(", "(", false),
            ("[", "[", false),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn midr() {
        let n1 = Cpu {
            vendor: Vendor::Arm(0x41),
            family: 8,
            model: 0xd0c,
            stepping: 1,
        };
        assert!(matches("0x00000000410fd0c0", n1));
        assert!(!matches("0x00000000410fd0d0", n1));
        assert!(!matches("0xzz", n1));
    }
}
