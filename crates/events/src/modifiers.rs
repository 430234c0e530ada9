//! Event modifiers: the letters after `:`. Facts: perf-list(1), "EVENT MODIFIERS"; the rule that naming one
//! privilege level excludes the others is `get_event_modifier` of Linux' `tools/perf/util/parse-events.c`.

use std::fmt;

/// The letters after `:`.
///
/// ```
/// use truecount_events::Modifiers;
/// let parsed = truecount_events::parse("instructions:kppu").unwrap();
/// let modifiers = parsed.groups[0].events[0].modifiers;
/// assert!(modifiers.user && modifiers.kernel && !modifiers.hypervisor);
/// assert_eq!(modifiers.to_string(), "ukpp");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Modifiers {
    /// `u`: count in user mode.
    pub user: bool,
    /// `k`: count in the kernel.
    pub kernel: bool,
    /// `h`: count in the hypervisor.
    pub hypervisor: bool,
    /// `G`: count in guests.
    pub guest: bool,
    /// `H`: count in the host.
    pub host: bool,
    /// Number of `p`: 0 arbitrary skid, 1 constant skid, 2 zero skid requested, 3 zero skid required.
    pub precise: u8,
    /// `P`: the highest precise level that the PMU has.
    pub max_precise: bool,
    /// `D`: pinned to the PMU; the event is always counted or goes into the error state.
    pub pinned: bool,
    /// `S`: samples carry the values of the whole group.
    pub sample_read: bool,
    /// `I`: do not count while the CPU idles.
    pub exclude_idle: bool,
    /// `W`: the group may be split where it cannot be scheduled at once.
    pub weak: bool,
    /// `e`: the group has the PMU to itself.
    pub exclusive: bool,
}

impl Modifiers {
    /// Every letter, in the canonical order.
    pub const LETTERS: &'static str = "u k h G H p P D S I W e";

    /// Adds one letter; `Err` when it is none of ours or a fourth `p`.
    pub(crate) fn add(&mut self, letter: char) -> Result<(), AddError> {
        match letter {
            'u' => self.user = true,
            'k' => self.kernel = true,
            'h' => self.hypervisor = true,
            'G' => self.guest = true,
            'H' => self.host = true,
            'p' if self.precise >= 3 => return Err(AddError::TooPrecise),
            'p' => self.precise = self.precise.saturating_add(1),
            'P' => self.max_precise = true,
            'D' => self.pinned = true,
            'S' => self.sample_read = true,
            'I' => self.exclude_idle = true,
            'W' => self.weak = true,
            'e' => self.exclusive = true,
            _ => return Err(AddError::Unknown),
        }
        Ok(())
    }

    /// Whether the letter is a modifier.
    pub(crate) fn is_letter(letter: char) -> bool {
        matches!(
            letter,
            'u' | 'k' | 'h' | 'G' | 'H' | 'p' | 'P' | 'D' | 'S' | 'I' | 'W' | 'e'
        )
    }

    /// The event's own modifiers together with those of its group, as perf does it: `{a:u,b}:k` counts `a` in
    /// user mode and kernel, `b` in the kernel.
    #[must_use]
    pub fn with_group(self, group: Self) -> Self {
        Self {
            user: self.user | group.user,
            kernel: self.kernel | group.kernel,
            hypervisor: self.hypervisor | group.hypervisor,
            guest: self.guest | group.guest,
            host: self.host | group.host,
            precise: self.precise.max(group.precise),
            max_precise: self.max_precise | group.max_precise,
            pinned: self.pinned | group.pinned,
            sample_read: self.sample_read | group.sample_read,
            exclude_idle: self.exclude_idle | group.exclude_idle,
            weak: self.weak | group.weak,
            exclusive: self.exclusive | group.exclusive,
        }
    }

    /// Whether one of `u`, `k`, `h` is given (then the others are excluded).
    #[must_use]
    pub fn names_privilege(&self) -> bool {
        self.user | self.kernel | self.hypervisor
    }

    /// The privilege filter alone, as it belongs to a name: `u`, `k`, `uk`, …, or nothing.
    #[must_use]
    pub fn filter(&self) -> String {
        let only = Self {
            user: self.user,
            kernel: self.kernel,
            hypervisor: self.hypervisor,
            guest: self.guest,
            host: self.host,
            ..Self::default()
        };
        only.to_string()
    }

    /// Whether no letter is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a letter cannot be added.
pub(crate) enum AddError {
    Unknown,
    TooPrecise,
}

impl fmt::Display for Modifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [
            (self.user, "u"),
            (self.kernel, "k"),
            (self.hypervisor, "h"),
            (self.guest, "G"),
            (self.host, "H"),
        ];
        for (_, letter) in flags.iter().filter(|(set, _)| *set) {
            f.write_str(letter)?;
        }
        for _ in 0..self.precise.min(3) {
            f.write_str("p")?;
        }
        let flags = [
            (self.max_precise, "P"),
            (self.pinned, "D"),
            (self.sample_read, "S"),
            (self.exclude_idle, "I"),
            (self.weak, "W"),
            (self.exclusive, "e"),
        ];
        for (_, letter) in flags.iter().filter(|(set, _)| *set) {
            f.write_str(letter)?;
        }
        Ok(())
    }
}
