//! `struct perf_event_attr` as the program gave it: whose event it is, and what
//! a CPU that counts user-mode instructions and nothing else says to it.
//!
//! Offsets and bits: `include/uapi/linux/perf_event.h`. The order of the checks
//! is that of `perf_copy_attr` and `perf_event_open` in `kernel/events/core.c`.
//! Raw encodings: Intel SDM volume 3, chapter 21 (`INST_RETIRED.ANY_P` C0H,
//! `HW_INTERRUPTS.RECEIVED` CBH/01H); AMD PPR of family 17h and later
//! (`ExRetInstr` C0h, `ExRetBrn` C2h, `LsIntTaken` 2Ch), BKDG of families 10h to
//! 16h (C0h, C2h, CFh).

use super::{OWN, Quantity, errno::*};

/// Bytes of the attribute that are looked at: up to Linux 6.18 (version 9).
pub const KNOWN: usize = 144;
/// Bytes of version 0, the least there is.
pub const MIN_SIZE: u32 = 64;
/// A page: the most the kernel takes.
pub const MAX_SIZE: u32 = 4096;

const TYPE_HARDWARE: u32 = 0;
const TYPE_HW_CACHE: u32 = 3;
const TYPE_RAW: u32 = 4;

/// Bits of the flag word.
mod bit {
    pub const DISABLED: u64 = 1;
    pub const INHERIT: u64 = 1 << 1;
    pub const PINNED: u64 = 1 << 2;
    pub const EXCLUSIVE: u64 = 1 << 3;
    pub const EXCLUDE_USER: u64 = 1 << 4;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    pub const PRECISE: u64 = 3 << 15;
    pub const EXCLUDE_HOST: u64 = 1 << 19;
    pub const AUX_OUTPUT: u64 = 1 << 31;
    pub const INHERIT_THREAD: u64 = 1 << 35;
    pub const REMOVE_ON_EXEC: u64 = 1 << 36;
    pub const SIGTRAP: u64 = 1 << 37;
    /// Bits that have a meaning (Linux 6.18: up to `defer_output`).
    pub const KNOWN: u64 = (1 << 40) - 1;
}

/// Bits of `read_format`.
pub mod format {
    /// Time enabled follows the value (or the number of members).
    pub const TIME_ENABLED: u64 = 1;
    /// Time running follows.
    pub const TIME_RUNNING: u64 = 2;
    /// Each value is followed by the event's id.
    pub const ID: u64 = 4;
    /// All members of the group.
    pub const GROUP: u64 = 8;
    /// Each value is followed by the samples lost.
    pub const LOST: u64 = 16;
    /// All of them.
    pub const KNOWN: u64 = 31;
}

/// Whose event tables the raw encodings are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// Intel.
    Intel,
    /// AMD before Zen (families 0FH to 16H).
    AmdOld,
    /// AMD since Zen, and Hygon.
    Zen,
    /// Anything else: no raw events.
    Other,
}

impl Cpu {
    /// From CPUID leaf 0 (EBX, EDX, ECX as text) and leaf 1 (EAX).
    pub fn identify(vendor: &[u8; 12], version: u32) -> Self {
        let family = match version >> 8 & 15 {
            15 => 15 + (version >> 20 & 0xff),
            family => family,
        };
        match vendor {
            b"GenuineIntel" => Self::Intel,
            b"AuthenticAMD" if family < 0x17 => Self::AmdOld,
            b"AuthenticAMD" | b"HygonGenuine" => Self::Zen,
            _ => Self::Other,
        }
    }
}

/// What the machine around the program is like.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Whose raw events.
    pub cpu: Cpu,
    /// `kernel.perf_event_paranoid` is 2 or more: ordinary users may not count
    /// the kernel, and programs expect EACCES.
    pub paranoid: bool,
    /// Blocks have counters of their own: more than instructions is known.
    pub per_block: bool,
}

/// An event to be counted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What.
    pub quantity: Quantity,
    /// Starts when it is enabled.
    pub disabled: bool,
    /// New threads and children count, too.
    pub inherit: bool,
    /// Of those only threads.
    pub inherit_thread: bool,
    /// Enabled by the next `execve`.
    pub enable_on_exec: bool,
    /// Gone with the next `execve`.
    pub remove_on_exec: bool,
    /// May not be a group's member.
    pub alone: bool,
    /// `read_format`.
    pub read_format: u64,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not ours: the kernel answers.
    Kernel,
    /// Refused with this errno.
    Refuse(i64),
    /// Counted here.
    Count(Request),
}

/// Whether `size` bytes can be an attribute.
pub fn plausible_size(size: u32) -> bool {
    size == 0 || (MIN_SIZE..=MAX_SIZE).contains(&size)
}

fn word(bytes: &[u8; KNOWN], at: usize) -> u64 {
    let mut value = [0u8; 8];
    for (to, from) in value.iter_mut().zip(bytes.iter().skip(at)) {
        *to = *from;
    }
    u64::from_le_bytes(value)
}

/// The type alone: decides whether the event is ours.
pub fn is_ours(type_: u32) -> bool {
    matches!(type_, TYPE_HARDWARE | TYPE_HW_CACHE | TYPE_RAW)
}

/// Judges an attribute (zero-filled beyond what the program gave).
pub fn judge(bytes: &[u8; KNOWN], machine: Machine) -> Verdict {
    let type_ = word(bytes, 0) as u32;
    if !is_ours(type_) {
        return Verdict::Kernel;
    }
    match request(bytes, type_, machine) {
        Ok(request) => Verdict::Count(request),
        Err(errno) => Verdict::Refuse(errno),
    }
}

fn request(bytes: &[u8; KNOWN], type_: u32, machine: Machine) -> Result<Request, i64> {
    let (config, period, sample_type) = (word(bytes, 8), word(bytes, 16), word(bytes, 24));
    let (read_format, flags) = (word(bytes, 32), word(bytes, 40));
    let has = |bits| flags & bits != 0;
    let reserved = word(bytes, 104) >> 48 != 0;
    let inherit_thread = has(bit::INHERIT_THREAD);
    if reserved
        || flags & !bit::KNOWN != 0
        || sample_type >> 25 != 0
        || read_format & !format::KNOWN != 0
        || (inherit_thread && !has(bit::INHERIT))
        || (has(bit::REMOVE_ON_EXEC) && has(bit::ENABLE_ON_EXEC))
        || (has(bit::SIGTRAP) && !has(bit::REMOVE_ON_EXEC))
    {
        return Err(EINVAL);
    }
    let quantity = quantity(type_, config, machine).ok_or(ENOENT)?;
    if !has(bit::EXCLUDE_KERNEL) {
        return Err(if machine.paranoid { EACCES } else { EOPNOTSUPP });
    }
    if period != 0 || has(bit::PRECISE) || has(bit::AUX_OUTPUT) || has(bit::SIGTRAP) {
        return Err(EOPNOTSUPP);
    }
    // Neither the kernel nor a guest is seen from here: nothing is left to count.
    let nothing = has(bit::EXCLUDE_USER) || has(bit::EXCLUDE_HOST);
    Ok(Request {
        quantity: if nothing { Quantity::Nothing } else { quantity },
        disabled: has(bit::DISABLED),
        inherit: has(bit::INHERIT),
        inherit_thread,
        enable_on_exec: has(bit::ENABLE_ON_EXEC),
        remove_on_exec: has(bit::REMOVE_ON_EXEC),
        alone: has(bit::PINNED) || has(bit::EXCLUSIVE),
        read_format,
    })
}

/// What the encoding means, if the engine knows its truth.
fn quantity(type_: u32, config: u64, machine: Machine) -> Option<Quantity> {
    let cpu = machine.cpu;
    let branches = machine.per_block.then_some(Quantity::Branches);
    if type_ == TYPE_HARDWARE {
        // The upper half names a PMU on hybrid CPUs; 4 is the first core PMU.
        return match config {
            1 | 0x4_0000_0001 => Some(Quantity::Instructions),
            4 | 0x4_0000_0004 => branches,
            _ => None,
        };
    }
    if type_ != TYPE_RAW {
        return None;
    }
    for own in [Quantity::Loads, Quantity::Stores] {
        if config == OWN | own as u64 {
            return machine.per_block.then_some(own);
        }
    }
    // What the kernel lets through of a raw configuration: event, unit mask,
    // edge, invert, threshold (and AMD's bits 32 to 35).
    let extended = if matches!(cpu, Cpu::AmdOld | Cpu::Zen) {
        0xf_0000_0000
    } else {
        0
    };
    match (cpu, config & (0xff84_ffff | extended)) {
        (Cpu::Intel | Cpu::AmdOld | Cpu::Zen, 0x00c0) => Some(Quantity::Instructions),
        (Cpu::Intel, 0x00c4) | (Cpu::AmdOld | Cpu::Zen, 0x00c2) => branches,
        (Cpu::Intel, 0x01cb)
        | (Cpu::AmdOld, 0x00cf)
        // r0420 counts interrupts and exceptions on Zen, as measureme found.
        | (Cpu::Zen, 0x002c | 0x0420) => Some(Quantity::Nothing),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Machine = Machine {
        cpu: Cpu::Zen,
        paranoid: true,
        per_block: false,
    };

    fn attr(type_: u32, config: u64, flags: u64) -> [u8; KNOWN] {
        let mut bytes = [0; KNOWN];
        bytes[0..4].copy_from_slice(&type_.to_le_bytes());
        bytes[8..16].copy_from_slice(&config.to_le_bytes());
        bytes[40..48].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    fn refused(bytes: &[u8; KNOWN], machine: Machine) -> i64 {
        match judge(bytes, machine) {
            Verdict::Refuse(errno) => errno,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn user_instructions_are_counted() {
        for (type_, config) in [(0, 1), (4, 0xc0), (4, 0x53_00c0)] {
            let verdict = judge(&attr(type_, config, 1 << 5 | 2), HERE);
            let Verdict::Count(request) = verdict else {
                panic!("{verdict:?}")
            };
            assert_eq!(request.quantity, Quantity::Instructions);
            assert!(request.inherit && !request.disabled);
        }
    }

    #[test]
    fn interrupts_are_none_where_their_event_is_known() {
        let of = |config, cpu| {
            judge(
                &attr(4, config, 1 << 5),
                Machine {
                    cpu,
                    paranoid: true,
                    per_block: false,
                },
            )
        };
        for (config, cpu) in [
            (0x2c, Cpu::Zen),
            (0x420, Cpu::Zen),
            (0x1cb, Cpu::Intel),
            (0xcf, Cpu::AmdOld),
        ] {
            assert!(
                matches!(of(config, cpu), Verdict::Count(r) if r.quantity == Quantity::Nothing)
            );
        }
        // The same numbers mean something else on other CPUs.
        assert_eq!(of(0x1cb, Cpu::Zen), Verdict::Refuse(ENOENT));
        assert_eq!(of(0x2c, Cpu::Intel), Verdict::Refuse(ENOENT));
        // With a threshold it is another event.
        assert_eq!(of(0x0100_002c, Cpu::Zen), Verdict::Refuse(ENOENT));
    }

    #[test]
    fn what_has_no_truth_here_is_not_there() {
        for (type_, config) in [(0, 0), (0, 2), (0, 3), (0, 5), (3, 0), (4, 0x76)] {
            assert_eq!(refused(&attr(type_, config, 1 << 5), HERE), ENOENT);
        }
    }

    #[test]
    fn branches_are_known_to_per_block_counters() {
        let machine = Machine {
            per_block: true,
            ..HERE
        };
        for (type_, config) in [(0, 4), (4, 0xc2)] {
            let bytes = attr(type_, config, 1 << 5);
            let verdict = judge(&bytes, machine);
            assert!(matches!(verdict, Verdict::Count(r) if r.quantity == Quantity::Branches));
            assert_eq!(refused(&bytes, HERE), ENOENT);
        }
    }

    #[test]
    fn loads_and_stores_have_numbers_of_their_own() {
        let machine = Machine {
            per_block: true,
            ..HERE
        };
        for (quantity, config) in [(Quantity::Loads, OWN | 3), (Quantity::Stores, OWN | 4)] {
            let bytes = attr(4, config, 1 << 5);
            let verdict = judge(&bytes, machine);
            assert!(matches!(verdict, Verdict::Count(r) if r.quantity == quantity));
            assert_eq!(refused(&bytes, HERE), ENOENT);
        }
        for config in [OWN, OWN | 1, OWN | 0xc0, OWN + (1 << 32) + 3] {
            assert_eq!(refused(&attr(4, config, 1 << 5), machine), ENOENT);
        }
    }

    #[test]
    fn other_types_are_the_kernels() {
        for type_ in [1, 2, 5, 9] {
            assert_eq!(judge(&attr(type_, 1, 0), HERE), Verdict::Kernel);
        }
    }

    #[test]
    fn the_kernel_is_not_counted() {
        assert_eq!(refused(&attr(0, 1, 0), HERE), EACCES);
        let open = Machine {
            paranoid: false,
            ..HERE
        };
        assert_eq!(refused(&attr(0, 1, 0), open), EOPNOTSUPP);
    }

    #[test]
    fn sampling_is_not_there() {
        let mut bytes = attr(0, 1, 1 << 5);
        bytes[16] = 1;
        assert_eq!(refused(&bytes, HERE), EOPNOTSUPP);
    }

    #[test]
    fn reserved_bits_are_invalid() {
        for (at, value) in [(47, 0x80), (32, 0x20), (110, 1), (28, 0x80)] {
            let mut bytes = attr(0, 1, 1 << 5);
            bytes[at] |= value;
            assert_eq!(refused(&bytes, HERE), EINVAL, "byte {at}");
        }
    }

    #[test]
    fn cpus_by_cpuid() {
        assert_eq!(Cpu::identify(b"AuthenticAMD", 0x00b0_0f21), Cpu::Zen);
        assert_eq!(Cpu::identify(b"AuthenticAMD", 0x0010_0f42), Cpu::AmdOld);
        assert_eq!(Cpu::identify(b"GenuineIntel", 0x0009_06e9), Cpu::Intel);
        assert_eq!(Cpu::identify(b"CentaurHauls", 0), Cpu::Other);
    }
}
