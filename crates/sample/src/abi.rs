//! Numbers of the `perf_event` ABI as of Linux 6.18.
//!
//! Facts: `include/uapi/linux/perf_event.h` (record types 1–21, sample and branch bits) and
//! `tools/lib/perf/include/perf/event.h` (record types from 64, written by the `perf` tool).

/// Record types (`perf_event_header.type`).
#[allow(missing_docs)]
pub mod record {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const UNTHROTTLE: u32 = 6;
    pub const FORK: u32 = 7;
    pub const READ: u32 = 8;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const AUX: u32 = 11;
    pub const ITRACE_START: u32 = 12;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const NAMESPACES: u32 = 16;
    pub const KSYMBOL: u32 = 17;
    pub const BPF_EVENT: u32 = 18;
    pub const CGROUP: u32 = 19;
    pub const TEXT_POKE: u32 = 20;
    pub const AUX_OUTPUT_HW_ID: u32 = 21;
    /// First type that the `perf` tool writes itself; such records carry no sample id.
    pub const USER_TYPE_START: u32 = 64;
    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_TRACING_DATA: u32 = 66;
    pub const HEADER_BUILD_ID: u32 = 67;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE: u32 = 71;
    pub const EVENT_UPDATE: u32 = 78;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// Bits of `sample_type`.
#[allow(missing_docs)]
pub mod sample {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const TRANSACTION: u64 = 1 << 17;
    pub const REGS_INTR: u64 = 1 << 18;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const AUX: u64 = 1 << 20;
    pub const CGROUP: u64 = 1 << 21;
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
    /// Every bit known to Linux 6.18; a set bit above these makes samples unreadable.
    pub const KNOWN: u64 = (1 << 25) - 1;
}

/// Bits of `read_format`.
#[allow(missing_docs)]
pub mod read_format {
    pub const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    pub const LOST: u64 = 1 << 4;
}

/// Bits of `branch_sample_type`.
#[allow(missing_docs)]
pub mod branch {
    pub const USER: u64 = 1 << 0;
    pub const KERNEL: u64 = 1 << 1;
    pub const HV: u64 = 1 << 2;
    pub const ANY: u64 = 1 << 3;
    pub const ANY_CALL: u64 = 1 << 4;
    pub const ANY_RETURN: u64 = 1 << 5;
    pub const IND_CALL: u64 = 1 << 6;
    pub const ABORT_TX: u64 = 1 << 7;
    pub const IN_TX: u64 = 1 << 8;
    pub const NO_TX: u64 = 1 << 9;
    pub const COND: u64 = 1 << 10;
    pub const CALL_STACK: u64 = 1 << 11;
    pub const IND_JUMP: u64 = 1 << 12;
    pub const CALL: u64 = 1 << 13;
    pub const NO_FLAGS: u64 = 1 << 14;
    pub const NO_CYCLES: u64 = 1 << 15;
    pub const HW_INDEX: u64 = 1 << 17;
    pub const COUNTERS: u64 = 1 << 19;
}

/// `misc` bits of a record header.
#[allow(missing_docs)]
pub mod misc {
    pub const CPUMODE_MASK: u16 = 7;
    pub const KERNEL: u16 = 1;
    pub const USER: u16 = 2;
    pub const HYPERVISOR: u16 = 3;
    pub const GUEST_KERNEL: u16 = 4;
    pub const GUEST_USER: u16 = 5;
    /// On COMM: the name changed by `execve`.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// On SWITCH: the task was switched out.
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// On MMAP2: inode fields hold a build id.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// Call-chain context markers (`PERF_CONTEXT_*`): values at or above [`MAX`](context::MAX) are no addresses.
#[allow(missing_docs)]
pub mod context {
    pub const HV: u64 = -32i64 as u64;
    pub const KERNEL: u64 = -128i64 as u64;
    pub const USER: u64 = -512i64 as u64;
    pub const USER_DEFERRED: u64 = -640i64 as u64;
    pub const GUEST_KERNEL: u64 = -2176i64 as u64;
    pub const GUEST_USER: u64 = -2560i64 as u64;
    pub const MAX: u64 = -4095i64 as u64;
}

/// Feature bits of a `perf.data` header (`tools/perf/util/header.h`).
#[allow(missing_docs)]
pub mod feature {
    pub const TRACING_DATA: u32 = 1;
    pub const BUILD_ID: u32 = 2;
    pub const HOSTNAME: u32 = 3;
    pub const OSRELEASE: u32 = 4;
    pub const VERSION: u32 = 5;
    pub const ARCH: u32 = 6;
    pub const NRCPUS: u32 = 7;
    pub const CPUDESC: u32 = 8;
    pub const CPUID: u32 = 9;
    pub const TOTAL_MEM: u32 = 10;
    pub const CMDLINE: u32 = 11;
    pub const EVENT_DESC: u32 = 12;
    pub const BRANCH_STACK: u32 = 15;
    pub const SAMPLE_TIME: u32 = 21;
    pub const COMPRESSED: u32 = 27;
}

/// General registers of this machine's user mode, `PERF_REG_*` of `arch/*/include/uapi/asm/perf_regs.h`.
#[must_use]
pub fn user_registers() -> u64 {
    if cfg!(target_arch = "aarch64") {
        (1 << 33) - 1
    } else {
        // All but ds, es, fs, gs (12 to 15), which 64-bit kernels refuse.
        0x00ff_0fff
    }
}
