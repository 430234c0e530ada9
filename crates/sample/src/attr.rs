//! `perf_event_attr` of any size: what is known is read, what is longer is kept aside.
//!
//! The structure grew from 64 bytes (2.6.31) to 144 (6.18); a missing field is zero, which is
//! what the kernel would have taken (`include/uapi/linux/perf_event.h`, `PERF_ATTR_SIZE_VER*`).

use crate::abi;
use crate::bytes::Cursor;

/// One `perf_event_attr`: how the samples of an event were taken and what they hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventAttr {
    /// `PERF_TYPE_*` or the number of a PMU.
    pub kind: u32,
    /// Size that the writer gave, in bytes.
    pub size: u32,
    /// The event within its type.
    pub config: u64,
    /// Period in events, or the frequency in hertz when [`is_freq`](Self::is_freq).
    pub period_or_freq: u64,
    /// `PERF_SAMPLE_*` bits.
    pub sample_type: u64,
    /// `PERF_FORMAT_*` bits.
    pub read_format: u64,
    /// The one-bit flags, `disabled` in bit 0.
    pub flags: u64,
    /// `config1` (or the breakpoint's address).
    pub config1: u64,
    /// `config2` (or the breakpoint's length).
    pub config2: u64,
    /// `PERF_SAMPLE_BRANCH_*` bits.
    pub branch_sample_type: u64,
    /// Mask of the user registers in a sample.
    pub sample_regs_user: u64,
    /// Bytes of user stack in a sample.
    pub sample_stack_user: u32,
    /// Clock of the times, when `use_clockid`.
    pub clockid: i32,
    /// Mask of the registers at the interrupt.
    pub sample_regs_intr: u64,
}

impl EventAttr {
    /// Reads an attribute at the start of `bytes`, which may be longer or shorter than what is known;
    /// `None` when it does not even hold the 64 bytes of the first version.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut head = Cursor::new(bytes);
        let kind = head.u32()?;
        let size = head.u32()?;
        // Version 0 wrote 0 or 64; a size beyond the slice says nothing about what follows it.
        let size_usize = if size == 0 { 64 } else { size as usize };
        let body = bytes.get(..size_usize.min(bytes.len()))?;
        if body.len() < 64 {
            return None;
        }
        let mut c = Cursor::new(body);
        c.take(8)?;
        let mut attr = Self {
            kind,
            size,
            config: c.u64()?,
            period_or_freq: c.u64()?,
            sample_type: c.u64()?,
            read_format: c.u64()?,
            flags: c.u64()?,
            ..Self::default()
        };
        c.take(8)?; // wakeup_events, bp_type
        attr.config1 = c.u64()?;
        attr.config2 = c.u64().unwrap_or(0);
        attr.branch_sample_type = c.u64().unwrap_or(0);
        attr.sample_regs_user = c.u64().unwrap_or(0);
        attr.sample_stack_user = c.u32().unwrap_or(0);
        attr.clockid = c.i32().unwrap_or(0);
        attr.sample_regs_intr = c.u64().unwrap_or(0);
        Some(attr)
    }

    /// The period is a frequency in hertz.
    #[must_use]
    pub fn is_freq(&self) -> bool {
        self.flags & (1 << 10) != 0
    }

    /// Every record but samples carries the sample's identity at its end.
    #[must_use]
    pub fn sample_id_all(&self) -> bool {
        self.flags & (1 << 18) != 0
    }

    /// User mode was excluded.
    #[must_use]
    pub fn exclude_user(&self) -> bool {
        self.flags & (1 << 4) != 0
    }

    /// Kernel mode was excluded.
    #[must_use]
    pub fn exclude_kernel(&self) -> bool {
        self.flags & (1 << 5) != 0
    }

    /// Samples hold branch stacks.
    #[must_use]
    pub fn has_branch_stack(&self) -> bool {
        self.sample_type & abi::sample::BRANCH_STACK != 0
    }

    /// A name in the words of `perf` for generic hardware and software events, `rNN` or `type:config` else.
    #[must_use]
    pub fn fallback_name(&self) -> String {
        const HARDWARE: [&str; 10] = [
            "cycles",
            "instructions",
            "cache-references",
            "cache-misses",
            "branches",
            "branch-misses",
            "bus-cycles",
            "stalled-cycles-frontend",
            "stalled-cycles-backend",
            "ref-cycles",
        ];
        const SOFTWARE: [&str; 12] = [
            "cpu-clock",
            "task-clock",
            "page-faults",
            "context-switches",
            "cpu-migrations",
            "minor-faults",
            "major-faults",
            "alignment-faults",
            "emulation-faults",
            "dummy",
            "bpf-output",
            "cgroup-switches",
        ];
        // On hybrid machines the upper half of a hardware event's config is the PMU's number.
        let low = usize::try_from(self.config & 0xffff_ffff).unwrap_or(usize::MAX);
        let base = match self.kind {
            0 => HARDWARE.get(low).map(|s| (*s).to_owned()),
            1 => SOFTWARE.get(low).map(|s| (*s).to_owned()),
            2 => Some(format!("tracepoint {}", self.config)),
            4 => Some(format!("r{:x}", self.config)),
            _ => None,
        };
        let mut name = base.unwrap_or_else(|| format!("{}:{:#x}", self.kind, self.config));
        match (self.exclude_user(), self.exclude_kernel()) {
            (false, true) => name.push_str(":u"),
            (true, false) => name.push_str(":k"),
            _ => {}
        }
        name
    }
}
