//! One event of a table and its spellings: perf terms, `rNNNN`. Bit layouts: `arch/x86/events/intel/core.c` and
//! `amd/core.c` (`PMU_FORMAT_ATTR`), `drivers/perf/arm_pmuv3.c`.

use std::fmt::Write as _;

/// How the `config` word of a core event is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Arch {
    /// event 0–7, umask 8–15 and 40–47, edge 18, any 21, inv 23, cmask 24–31, eq 36.
    #[default]
    Intel,
    /// event 0–7 and 32–35, umask 8–15, edge 18, inv 23, cmask 24–31.
    Amd,
    /// event 0–15.
    Arm,
}

/// Whether an event can, or must, be counted with PEBS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Precise {
    /// No.
    #[default]
    No,
    /// It can.
    Can,
    /// It must: counted otherwise it means nothing.
    Must,
}

/// The term that takes the event's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum CodeKey {
    /// `event=`.
    #[default]
    Event,
    /// `config=`.
    Config,
    /// `eventid=`.
    EventId,
}

impl CodeKey {
    fn term(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Config => "config",
            Self::EventId => "eventid",
        }
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TableEvent {
    /// The vendor's name in the vendor's spelling.
    pub name: String,
    /// The PMU in sysfs: `cpu` for the core PMU, `cpu_core`, `cpu_atom`, `uncore_imc` (without number), `amd_l3`.
    pub pmu: String,
    /// Event code.
    pub code: u64,
    /// The term that takes it.
    pub key: CodeKey,
    /// Unit mask; on newer Intel CPUs up to 16 bits (`umask2`).
    pub umask: u64,
    /// Further terms: `cmask=4,inv=1`, `offcore_rsp=0x10003`, `ldlat=0x80`.
    pub extra: String,
    /// PEBS.
    pub precise: Precise,
    /// The vendor calls it out of date.
    pub deprecated: bool,
    /// The counters that can count it, as the vendor writes it: `0,1,2,3`, `Fixed counter 0`. Empty: not said.
    pub counters: String,
    /// Factor and unit, as `64Bytes`. Empty: a plain count.
    pub scale: String,
    /// The layout.
    pub arch: Arch,
    /// For an event that no public table has: where it is from, and how sure it is. Empty: the table.
    pub provenance: String,
}

impl TableEvent {
    /// Whether it is of a core PMU, and not of one outside the cores (memory controller, mesh, L3).
    #[must_use]
    pub fn is_core(&self) -> bool {
        matches!(self.pmu.as_str(), "cpu" | "cpu_core" | "cpu_atom")
    }

    /// In terms of the PMU's formats: `event=0xd1,umask=0x1`.
    #[must_use]
    pub fn terms(&self) -> String {
        let mut text = format!("{}={:#x}", self.key.term(), self.code);
        if self.umask != 0 {
            let _ = write!(text, ",umask={:#x}", self.umask);
        }
        if !self.extra.is_empty() {
            text.push(',');
            text.push_str(&self.extra);
        }
        text
    }

    /// As `-e` takes it: `cpu/event=0xd1,umask=0x1/`, with `pp` behind it if it must be precise.
    #[must_use]
    pub fn perf(&self) -> String {
        let precise = if self.precise == Precise::Must {
            "pp"
        } else {
            ""
        };
        format!("{}/{}/{precise}", self.pmu, self.terms())
    }

    /// The `config` word, for `rNNNN`. `None` for an event outside the cores, whose layout only its machine tells.
    #[must_use]
    pub fn raw(&self) -> Option<u64> {
        if !self.is_core() || self.key != CodeKey::Event {
            return None;
        }
        let mut config = match self.arch {
            Arch::Arm => return (self.code <= 0xffff).then_some(self.code),
            Arch::Intel => {
                if self.code > 0xff || self.umask > 0xffff {
                    return None;
                }
                self.code | (self.umask & 0xff) << 8 | (self.umask >> 8) << 40
            }
            Arch::Amd => {
                if self.code > 0xfff || self.umask > 0xff {
                    return None;
                }
                self.code & 0xff | (self.code >> 8) << 32 | self.umask << 8
            }
        };
        for (term, value) in self.extra_terms() {
            config |= match term {
                "edge" => (value & 1) << 18,
                "any" => (value & 1) << 21,
                "inv" => (value & 1) << 23,
                "cmask" => (value & 0xff) << 24,
                "eq" => (value & 1) << 36,
                "offcore_rsp" | "ldlat" | "frontend" => continue,
                _ => return None,
            };
        }
        Some(config)
    }

    /// The `config1` word: offcore response, load latency threshold, front-end selector. 0: none is needed.
    #[must_use]
    pub fn config1(&self) -> u64 {
        self.extra_terms()
            .find(|(term, _)| matches!(*term, "offcore_rsp" | "ldlat" | "frontend"))
            .map_or(0, |(_, value)| value)
    }

    /// `rNNNN`, where one word says everything (no `config1`).
    #[must_use]
    pub fn raw_name(&self) -> Option<String> {
        (self.config1() == 0)
            .then(|| self.raw())
            .flatten()
            .map(|config| format!("r{config:04x}"))
    }

    /// Factor to the unit, and the unit: `64Bytes` is (64, "Bytes").
    #[must_use]
    pub fn scale_and_unit(&self) -> Option<(f64, &str)> {
        let end = self
            .scale
            .char_indices()
            .find(|&(i, c)| {
                // `2.56e1J`: an e belongs to the number only if a digit or sign follows.
                let number = c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
                let exponent = matches!(c, 'e' | 'E')
                    && self.scale.get(i.saturating_add(1)..).is_some_and(|r| {
                        r.starts_with(|d: char| d.is_ascii_digit() || d == '-' || d == '+')
                    });
                !(number || exponent)
            })
            .map_or(self.scale.len(), |(i, _)| i);
        let (number, unit) = self.scale.split_at_checked(end)?;
        let factor: f64 = number.parse().ok()?;
        factor.is_finite().then_some((factor, unit))
    }

    fn extra_terms(&self) -> impl Iterator<Item = (&str, u64)> {
        self.extra
            .split(',')
            .filter(|t| !t.is_empty())
            .filter_map(|term| {
                let (name, value) = term.split_once('=').unwrap_or((term, "1"));
                let value = match value
                    .strip_prefix("0x")
                    .or_else(|| value.strip_prefix("0X"))
                {
                    Some(hex) => u64::from_str_radix(hex, 16).ok()?,
                    None => value.parse().ok()?,
                };
                Some((name, value))
            })
    }
}
