//! [`EventAttr`]: a builder for every field of the kernel's `perf_event_attr`, in plain numbers.
//!
//! Names to numbers is the work of the events crate; here every field takes the number that the kernel
//! takes. Constants: [`crate::sys::bindings`]. Source: `include/uapi/linux/perf_event.h` (Linux 7.2) and
//! perf_event_open(2). A kernel that is older than a field refuses it with `E2BIG` or `EINVAL` only where
//! it is not zero, so the structure always has its newest size.

use perf_event_open_sys::bindings as abi;

use crate::errno::Errno;
use crate::kernel::RawAttr;

/// What to count or sample: the kernel's `perf_event_attr`.
///
/// Everything starts as zero: enabled at once, counting in user mode, kernel and hypervisor.
///
/// ```
/// use truecount_perf::{EventAttr, sys::bindings as abi};
/// let cycles = EventAttr::new(abi::PERF_TYPE_HARDWARE, 0)
///     .exclude_kernel(true)
///     .disabled(true)
///     .inherit(true)
///     .read_times();
/// assert!(cycles.get_exclude_kernel() && !cycles.get_exclude_user());
/// assert_eq!(cycles.get_read_format(), 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventAttr {
    raw: RawAttr,
}

macro_rules! flags {
    ($($(#[$doc:meta])* $set:ident $get:ident $raw_set:ident;)*) => {
        impl EventAttr {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $set(mut self, on: bool) -> Self {
                    self.raw.0.$raw_set(u64::from(on));
                    self
                }
                #[doc = concat!("The flag that [`Self::", stringify!($set), "`] sets.")]
                #[must_use]
                pub fn $get(&self) -> bool {
                    self.raw.0.$set() != 0
                }
            )*
        }

        #[cfg(test)]
        #[allow(clippy::type_complexity)]
        const FLAGS: &[(&str, fn(EventAttr, bool) -> EventAttr, fn(&EventAttr) -> bool)] =
            &[$((stringify!($set), EventAttr::$set, EventAttr::$get)),*];
    };
}

flags! {
    /// Starts switched off; an ioctl or `enable_on_exec` switches it on.
    disabled get_disabled set_disabled;
    /// Threads and children made after opening are counted too, and summed up in a read.
    inherit get_inherit set_inherit;
    /// Always on the PMU; when that is not possible the event goes into an error state and reads as end of file.
    pinned get_pinned set_pinned;
    /// Nothing else may be on the PMU at the same time.
    exclusive get_exclusive set_exclusive;
    /// Does not count in user mode.
    exclude_user get_exclude_user set_exclude_user;
    /// Does not count in the kernel.
    exclude_kernel get_exclude_kernel set_exclude_kernel;
    /// Does not count in the hypervisor.
    exclude_hv get_exclude_hv set_exclude_hv;
    /// Does not count in the idle task.
    exclude_idle get_exclude_idle set_exclude_idle;
    /// Records executable mappings (`PERF_RECORD_MMAP`).
    mmap get_mmap set_mmap;
    /// Records names of programs (`PERF_RECORD_COMM`).
    comm get_comm set_comm;
    /// Sample by frequency: `sample_period` is samples per second.
    freq get_freq set_freq;
    /// Counts per task on exit (`PERF_RECORD_READ`).
    inherit_stat get_inherit_stat set_inherit_stat;
    /// `execve` switches the event on.
    enable_on_exec get_enable_on_exec set_enable_on_exec;
    /// Records forks and exits.
    task get_task set_task;
    /// `wakeup` is a number of bytes, not of samples.
    watermark get_watermark set_watermark;
    /// Records data mappings.
    mmap_data get_mmap_data set_mmap_data;
    /// Every record carries the fields that `sample_type` asks for, as far as they identify it.
    sample_id_all get_sample_id_all set_sample_id_all;
    /// Does not count in the host (on a host of virtual machines).
    exclude_host get_exclude_host set_exclude_host;
    /// Does not count in guests.
    exclude_guest get_exclude_guest set_exclude_guest;
    /// Call chains without the kernel's part.
    exclude_callchain_kernel get_exclude_callchain_kernel set_exclude_callchain_kernel;
    /// Call chains without the user's part.
    exclude_callchain_user get_exclude_callchain_user set_exclude_callchain_user;
    /// Mappings with device and inode, or build id (`PERF_RECORD_MMAP2`).
    mmap2 get_mmap2 set_mmap2;
    /// Marks the name records that come from `execve`.
    comm_exec get_comm_exec set_comm_exec;
    /// Times of records come from [`EventAttr::clockid`].
    use_clockid get_use_clockid set_use_clockid;
    /// Records context switches.
    context_switch get_context_switch set_context_switch;
    /// Writes the ring from its end to its beginning, overwriting.
    write_backward get_write_backward set_write_backward;
    /// Records namespaces.
    namespaces get_namespaces set_namespaces;
    /// Records kernel symbols that come and go.
    ksymbol get_ksymbol set_ksymbol;
    /// Records BPF programs that come and go.
    bpf_event get_bpf_event set_bpf_event;
    /// The event writes to the AUX area instead of the ring.
    aux_output get_aux_output set_aux_output;
    /// Records cgroups.
    cgroup get_cgroup set_cgroup;
    /// Records changes of kernel code.
    text_poke get_text_poke set_text_poke;
    /// Build ids in `PERF_RECORD_MMAP2`.
    build_id get_build_id set_build_id;
    /// Threads inherit, children do not (Linux 5.13).
    inherit_thread get_inherit_thread set_inherit_thread;
    /// `execve` removes the event (Linux 5.13).
    remove_on_exec get_remove_on_exec set_remove_on_exec;
    /// Overflows send `SIGTRAP` with [`EventAttr::sig_data`], synchronously (Linux 5.13).
    sigtrap get_sigtrap set_sigtrap;
    /// User call chains may come later, in a record of their own (Linux 6.19).
    defer_callchain get_defer_callchain set_defer_callchain;
    /// This ring takes deferred call chains (Linux 6.19).
    defer_output get_defer_output set_defer_output;
}

macro_rules! fields {
    ($($(#[$doc:meta])* $set:ident $get:ident $($field:ident).+: $type:ty;)*) => {
        impl EventAttr {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $set(mut self, value: $type) -> Self {
                    self.raw.0.$($field).+ = value;
                    self
                }
                #[doc = concat!("The value that [`Self::", stringify!($set), "`] sets.")]
                #[must_use]
                pub fn $get(&self) -> $type {
                    self.raw.0.$($field).+
                }
            )*
        }
    };
}

fields! {
    /// Which sort of event (`PERF_TYPE_*`, or the number in a PMU's `type` file).
    type_ get_type type_: u32;
    /// Which event of that sort.
    config get_config config: u64;
    /// What a sample holds (`PERF_SAMPLE_*`).
    sample_type get_sample_type sample_type: u64;
    /// What a read gives (`PERF_FORMAT_*`).
    read_format get_read_format read_format: u64;
    /// Kind of breakpoint (`HW_BREAKPOINT_*`).
    bp_type get_bp_type bp_type: u32;
    /// Which branches a branch stack holds (`PERF_SAMPLE_BRANCH_*`).
    branch_sample_type get_branch_sample_type branch_sample_type: u64;
    /// User registers in a sample, a bit mask by architecture.
    sample_regs_user get_sample_regs_user sample_regs_user: u64;
    /// Bytes of user stack in a sample (a multiple of 8, below 65,528).
    sample_stack_user get_sample_stack_user sample_stack_user: u32;
    /// Clock of record times (`CLOCK_*`), with [`EventAttr::use_clockid`].
    clockid get_clockid clockid: i32;
    /// Registers at the interrupt (or the precise instruction) in a sample.
    sample_regs_intr get_sample_regs_intr sample_regs_intr: u64;
    /// Bytes in the AUX area before a wakeup.
    aux_watermark get_aux_watermark aux_watermark: u32;
    /// Most frames of a call chain, at most `kernel.perf_event_max_stack`.
    sample_max_stack get_sample_max_stack sample_max_stack: u16;
    /// Bytes of AUX data in a sample.
    aux_sample_size get_aux_sample_size aux_sample_size: u32;
    /// Handed to the `SIGTRAP` handler in `si_perf_data`.
    sig_data get_sig_data sig_data: u64;
    /// PMU-specific; the fourth word of configuration (Linux 6.3).
    config3 get_config3 config3: u64;
    /// PMU-specific; the fifth word of configuration (Linux 6.19).
    config4 get_config4 config4: u64;
}

macro_rules! union_fields {
    ($($(#[$doc:meta])* $set:ident $get:ident $anon:ident.$field:ident: $type:ty;)*) => {
        impl EventAttr {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $set(mut self, value: $type) -> Self {
                    self.raw.0.$anon.$field = value;
                    self
                }
                #[doc = concat!("The value that [`Self::", stringify!($set), "`] sets.")]
                #[must_use]
                pub fn $get(&self) -> $type {
                    // SAFETY: all members of the union are integers of the same size, and the whole
                    // structure was created zeroed, so the bytes are initialised.
                    unsafe { self.raw.0.$anon.$field }
                }
            )*
        }
    };
}

union_fields! {
    /// Events between two samples (with [`EventAttr::freq`]: samples per second); 0 counts only.
    sample_period get_sample_period __bindgen_anon_1.sample_period: u64;
    /// Samples (or with [`EventAttr::watermark`] bytes) between two wakeups.
    wakeup get_wakeup __bindgen_anon_2.wakeup_events: u32;
    /// The second word of configuration; breakpoint address, kprobe or uprobe name pointer.
    config1 get_config1 __bindgen_anon_3.config1: u64;
    /// The third word of configuration; breakpoint length, kprobe address or probe offset.
    config2 get_config2 __bindgen_anon_4.config2: u64;
    /// AUX start paused (1), pause (2), resume (4) (Linux 6.13).
    aux_action get_aux_action __bindgen_anon_5.aux_action: u32;
}

impl EventAttr {
    /// An event of this type and configuration; all else zero.
    #[must_use]
    pub fn new(type_: u32, config: u64) -> Self {
        let raw = abi::perf_event_attr {
            size: std::mem::size_of::<abi::perf_event_attr>() as u32,
            type_,
            config,
            ..Default::default()
        };
        Self { raw: RawAttr(raw) }
    }

    /// A breakpoint: `bp_type` is `HW_BREAKPOINT_*`, `length` in bytes.
    #[must_use]
    pub fn breakpoint(bp_type: u32, address: u64, length: u64) -> Self {
        Self::new(abi::PERF_TYPE_BREAKPOINT, 0)
            .bp_type(bp_type)
            .config1(address)
            .config2(length)
    }

    /// How precise the instruction pointer of a sample must be: 0 any skid, 1 constant, 2 requested none, 3 none.
    #[must_use]
    pub fn precise_ip(mut self, level: u8) -> Self {
        self.raw.0.set_precise_ip(u64::from(level.min(3)));
        self
    }

    /// The level that [`Self::precise_ip`] sets.
    #[must_use]
    pub fn get_precise_ip(&self) -> u8 {
        self.raw.0.precise_ip() as u8
    }

    /// A sample every `period` events.
    #[must_use]
    pub fn sample_every(self, period: u64) -> Self {
        self.freq(false).sample_period(period)
    }

    /// About `per_second` samples per second; the kernel adapts the period.
    #[must_use]
    pub fn sample_frequency(self, per_second: u64) -> Self {
        self.freq(true).sample_period(per_second)
    }

    /// Reads give the times enabled and running, without which multiplexing cannot be seen.
    #[must_use]
    pub fn read_times(self) -> Self {
        self.read_also(abi::PERF_FORMAT_TOTAL_TIME_ENABLED | abi::PERF_FORMAT_TOTAL_TIME_RUNNING)
    }

    /// Reads of the group's leader give all members, with ids and times.
    #[must_use]
    pub fn read_group(self) -> Self {
        self.read_times()
            .read_also(abi::PERF_FORMAT_GROUP | abi::PERF_FORMAT_ID)
    }

    /// Reads give the number of lost samples too (Linux 6.0).
    #[must_use]
    pub fn read_lost(self) -> Self {
        self.read_also(abi::PERF_FORMAT_LOST)
    }

    /// The attributes to try next where a PMU refused these with `errno`; `None` where nothing is left to give up. What is
    /// given up says nothing about what is wanted:
    ///
    /// * PMUs that cannot leave guests apart from the host refuse whoever does not exclude one of them: Apple's
    ///   (`m1_pmu_set_event_filter` in drivers/perf/apple_m1_cpu_pmu.c), and all PMUs while a guest has them to itself
    ///   (mediated vPMU). `perf` then excludes guests, too (`evsel__fallback` in tools/perf/util/evsel.c).
    /// * Arm's refuse `exclude_idle` with `EPERM` or `EOPNOTSUPP` (`armv8pmu_set_event_filter`): idle time is counted.
    #[must_use]
    pub fn relaxed(&self, errno: Errno) -> Option<Self> {
        let refused = [Errno::EPERM, Errno::EOPNOTSUPP, Errno::EINVAL].contains(&errno);
        if refused && self.get_exclude_idle() {
            return Some(self.exclude_idle(false));
        }
        let of_pmu = !matches!(
            self.get_type(),
            abi::PERF_TYPE_SOFTWARE | abi::PERF_TYPE_TRACEPOINT | abi::PERF_TYPE_BREAKPOINT
        );
        let guests = !self.get_exclude_guest() && !self.get_exclude_host();
        (errno == Errno::EOPNOTSUPP && of_pmu && guests).then(|| self.exclude_guest(true))
    }

    /// Whether the event samples (has a period or a frequency).
    #[must_use]
    pub fn is_sampling(&self) -> bool {
        self.get_sample_period() != 0
    }

    /// Whether the event is of a core PMU by its type number: hardware, cache or raw.
    ///
    /// PMUs with a number of their own (6 and up) are looked up in `/sys`, see [`crate::probe::Pmu`].
    #[must_use]
    pub fn is_generic_hardware(&self) -> bool {
        matches!(
            self.get_type(),
            abi::PERF_TYPE_HARDWARE | abi::PERF_TYPE_HW_CACHE | abi::PERF_TYPE_RAW
        )
    }

    /// The kernel's structure.
    #[must_use]
    pub fn raw(&self) -> RawAttr {
        self.raw
    }

    /// A builder around a structure of the kernel (as found in a `perf.data` file, say).
    #[must_use]
    pub fn from_raw(raw: RawAttr) -> Self {
        Self { raw }
    }

    fn read_also(self, bits: u32) -> Self {
        let format = self.get_read_format() | u64::from(bits);
        self.read_format(format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::mem::offset_of;

    #[test]
    fn every_flag_has_a_bit_of_its_own_and_can_be_read_back() {
        let base = EventAttr::new(0, 0);
        let mut seen = HashSet::new();
        for (name, set, get) in FLAGS {
            let on = set(base, true);
            assert!(get(&on), "{name}");
            assert!(!get(&set(on, false)), "{name}");
            assert_eq!(set(on, false), base, "{name}");
            assert!(
                seen.insert(on.raw().as_bytes().to_vec()),
                "{name} shares a bit"
            );
        }
        assert_eq!(seen.len(), 38);
    }

    #[test]
    fn the_layout_is_the_kernels() {
        // Offsets from pahole of Linux 6.18's struct perf_event_attr.
        assert_eq!(offset_of!(abi::perf_event_attr, sample_type), 24);
        assert_eq!(offset_of!(abi::perf_event_attr, branch_sample_type), 72);
        assert_eq!(offset_of!(abi::perf_event_attr, sig_data), 120);
        assert_eq!(offset_of!(abi::perf_event_attr, config3), 128);
        let attr = EventAttr::new(4, 0x01cb)
            .config1(2)
            .config2(3)
            .config3(4)
            .config4(5);
        let bytes = attr.raw();
        let bytes = bytes.as_bytes();
        assert_eq!(
            &bytes[..16],
            &[
                4,
                0,
                0,
                0,
                bytes.len() as u8,
                0,
                0,
                0,
                0xcb,
                1,
                0,
                0,
                0,
                0,
                0,
                0
            ]
        );
        assert_eq!((bytes[56], bytes[64], bytes[128], bytes[136]), (2, 3, 4, 5));
    }

    #[test]
    fn numbers_come_back() {
        let attr = EventAttr::new(1, 2)
            .sample_frequency(999)
            .precise_ip(7)
            .wakeup(3)
            .clockid(-1)
            .sample_max_stack(9)
            .aux_action(4)
            .read_group()
            .read_lost();
        assert_eq!(attr.get_precise_ip(), 3);
        assert_eq!(attr.get_sample_period(), 999);
        assert!(attr.get_freq() && attr.is_sampling());
        assert!(!attr.sample_every(5).get_freq());
        assert_eq!((attr.get_wakeup(), attr.get_clockid()), (3, -1));
        assert_eq!((attr.get_sample_max_stack(), attr.get_aux_action()), (9, 4));
        assert_eq!(attr.get_read_format(), 0b11111);
        assert_eq!(EventAttr::from_raw(attr.raw()), attr);
        let b = EventAttr::breakpoint(3, 0x1000, 8);
        assert_eq!(
            (b.get_bp_type(), b.get_config1(), b.get_config2()),
            (3, 0x1000, 8)
        );
    }
}
