//! `rdpmc`. Facts: Intel SDM vol. 2 (RDPMC, LFENCE, SERIALIZE, CPUID), AMD APM vol. 3; `perf_event_mmap_page` in
//! Linux' `include/uapi/linux/perf_event.h`: the page's `index` minus one is what goes into `ecx`.

use crate::policy::{Policy, PolicyKind};
use std::arch::asm;

/// Counters can be read from user space where the kernel allows it.
pub(crate) const USER_READS: bool = true;

/// Whether the CPU has the instruction that the policy needs.
#[allow(
    unused_unsafe,
    reason = "cpuid is a safe function in newer Rust, and unsafe in 1.88"
)]
pub(crate) fn supports(policy: PolicyKind) -> bool {
    // SAFETY: every x86-64 CPU has cpuid.
    let (leaves, features) = unsafe {
        let leaves = std::arch::x86_64::__cpuid(0).eax;
        (leaves, std::arch::x86_64::__cpuid_count(7, 0))
    };
    // CPUID.(EAX=7,ECX=0):EDX[14] is SERIALIZE.
    policy != PolicyKind::Serialize || leaves >= 7 && features.edx >> 14 & 1 == 1
}

/// The ordering instructions, with the register that they need saved (`rbx` belongs to the compiler).
macro_rules! order {
    (None) => {
        ""
    };
    (Fence) => {
        "lfence"
    };
    // `serialize`, by its bytes: assemblers before LLVM 11 and binutils 2.35 do not know it.
    (Serialize) => {
        ".byte 0x0f, 0x01, 0xe8"
    };
    (Cpuid) => {
        "mov r11, rbx\nxor eax, eax\ncpuid\nmov rbx, r11"
    };
}

/// Instructions in `order!`.
const fn order_length(policy: PolicyKind) -> u32 {
    match policy {
        PolicyKind::None => 0,
        PolicyKind::Fence | PolicyKind::Serialize => 1,
        PolicyKind::Cpuid => 4,
    }
}

/// Reads the counter `index` (what `rdpmc` takes): its raw value, of the counter's width, not sign-extended.
///
/// # Safety
/// The kernel has allowed `rdpmc` in this process (a mapped event with `cap_user_rdpmc` is kept mapped), and the CPU
/// [`supports`] the policy; otherwise the instruction faults.
#[inline(always)]
pub(crate) unsafe fn read_one<P: Policy>(index: u32) -> u64 {
    let (low, high): (u64, u64);
    macro_rules! read {
        (Cpuid) => {
            // cpuid overwrites ecx, so the index comes through another register.
            asm!(order!(Cpuid), "mov ecx, {index:e}", "rdpmc", index = in(reg) index, out("rax") low, out("rdx") high,
                 out("rcx") _, out("r11") _, options(nostack))
        };
        ($policy:ident) => {
            asm!(order!($policy), "rdpmc", in("ecx") index, out("rax") low, out("rdx") high,
                 options(nostack, preserves_flags))
        };
    }
    // SAFETY: rdpmc reads into eax and edx (both zero-extended); no memory is touched. Memory accesses are not
    // moved across (no `nomem`), so that the code measured stays inside its region.
    unsafe {
        match P::KIND {
            PolicyKind::None => read!(None),
            PolicyKind::Fence => read!(Fence),
            PolicyKind::Serialize => read!(Serialize),
            PolicyKind::Cpuid => read!(Cpuid),
        }
    }
    high << 32 | low
}

/// What a difference of two counters needs to be read: the counters and what is known about the second one.
///
/// The assembly below addresses the fields by their offsets.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Difference {
    /// The counter, as `rdpmc` takes it.
    counter: u32,
    /// The counter to subtract (interrupts), as `rdpmc` takes it.
    subtracted: u32,
    /// Low half of the subtracted counter when it was last read.
    last: u32,
    unused: u32,
    /// The whole subtracted counter then, plus `repeated`.
    base: u64,
    /// Instructions that all repeated reads so far have executed beyond those of an undisturbed read.
    repeated: u64,
}

impl Difference {
    /// `now` is the subtracted counter's value, so that the first read goes the long way and learns it.
    pub(crate) fn new(counter: u32, subtracted: u32, now: u64) -> Self {
        let last = !(now as u32);
        Self {
            counter,
            subtracted,
            last,
            unused: 0,
            base: 0,
            repeated: 0,
        }
    }

    pub(crate) fn counter(&self) -> u32 {
        self.counter
    }

    pub(crate) fn subtracted(&self) -> u32 {
        self.subtracted
    }
}

/// Reads a counter minus another (instructions minus interrupts) at one point between two interrupts, modulo 2⁶⁴.
///
/// The counter is read, then the one to subtract. If that one stands where it stood at the last read, no interrupt
/// fell in since, so none fell between the two reads, and the difference is right: 11 instructions. Otherwise, out of
/// line: interrupts, counter, interrupts again, repeated until no interrupt fell between. What this executes beyond an
/// undisturbed read is itself counted by the counter; it is known to the instruction, and taken off this reading and
/// all later ones (`repeated`), so that differences of readings are the same whether a read was disturbed or not.
///
/// A signal handler may read the same counter in between. `last` is loaded before the counter is read, and no handler
/// runs without an interrupt: where the subtracted counter stands at `last` in the end, nobody has written to the state
/// since that load, and `base`, taken from memory between the two `rdpmc`, belongs to `last`. Otherwise the long way is
/// taken, whatever was subtracted. `last` is stored after what belongs to it, so a handler in between only makes the
/// next read go the long way.
///
/// Eleven is the least, ten without the fence. `rdpmc` takes its number in `ecx` only, and gives its result in `eax` and
/// `edx` only: two numbers, two `rdpmc`; a shift, and a sum that goes where the second `rdpmc` does not write; `base`, a
/// comparison, a jump; the fence: ten. The eleventh is the load of `last`, because `base` and what is compared must be of
/// one moment, and no handler may have run between that moment and A. Compared with memory at the end instead, a handler
/// between A and `sub` would have written both anew: a reading that lacks an interrupt, and looks whole. With `base` taken
/// before A (as `mov` of its negative, which costs the load that it saves) the same gap is between it and A: there is
/// always one, for `rdpmc` takes nothing from memory. One load for both (`last` as the low half of `base`) is used twice,
/// so it has to be a `mov`, and `base` has no place for `repeated` then. Loaded with the counter's number in one word,
/// `last` would have to be shifted out before the second number is loaded.
///
/// One fence is enough, directly before the read of the counter: an interrupt discards everything in flight, so a
/// `rdpmc` that executed early is executed again after it.
///
/// # Safety
/// As [`read_one`], for both counters; `state` is valid, and only this thread uses it.
#[inline(always)]
pub(crate) unsafe fn read_difference<P: Policy>(state: *mut Difference) -> u64 {
    let difference: u64;
    macro_rules! read {
        ($policy:ident) => {
            asm!(
                "mov {last:e}, [{state} + 8]",
                order!($policy),
                "mov ecx, [{state}]",
                "rdpmc", // A
                "shl rdx, 32",
                "lea {difference}, [rax + rdx]",
                "sub {difference}, [{state} + 16]",
                "mov ecx, [{state} + 4]",
                "rdpmc",
                "cmp eax, {last:e}",
                "jne 3f",
                "2:",
                ".pushsection .text.unlikely.truecount,\"ax\",@progbits",
                // What a repeated pass lacks beside the first one, which has subtracted.
                "4:",
                "nop",
                "3:",
                "add qword ptr [{state} + 24], {way}",
                "mov {last:e}, eax",
                order!($policy),
                "mov ecx, [{state}]",
                "rdpmc", // B
                "shl rdx, 32",
                "lea {difference}, [rax + rdx]",
                "mov ecx, [{state} + 4]",
                "rdpmc",
                "cmp eax, {last:e}",
                "jne 4b",
                "shl rdx, 32",
                "add rdx, rax",
                "add rdx, [{state} + 24]",
                "sub {difference}, rdx",
                "add rdx, {tail}",
                "mov [{state} + 16], rdx",
                "add qword ptr [{state} + 24], {tail}",
                "mov [{state} + 8], {last:e}",
                "jmp 2b",
                ".popsection",
                state = in(reg) state,
                last = out(reg) _,
                difference = out(reg) difference,
                // From A to B 8 instructions up to `jne`, `add`, `mov`, the order, `mov`; from B to B 7 and `nop`.
                way = const 11 + order_length(PolicyKind::$policy),
                // From B to the end 7 up to `jne`, 8, `jmp`: 16; from A to the end 8.
                tail = const 8,
                out("rax") _, out("rdx") _, out("rcx") _, out("r11") _,
                options(nostack)
            )
        };
    }
    // SAFETY: rdpmc as in read_one; memory only through `state`, at the offsets of its fields; the out-of-line part is
    // reached from here only and jumps back here.
    unsafe {
        match P::KIND {
            PolicyKind::None => read!(None),
            PolicyKind::Fence => read!(Fence),
            PolicyKind::Serialize => read!(Serialize),
            PolicyKind::Cpuid => read!(Cpuid),
        }
    }
    difference
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Difference, counter) == 0 && offset_of!(Difference, subtracted) == 4);
    assert!(offset_of!(Difference, last) == 8 && offset_of!(Difference, base) == 16);
    assert!(offset_of!(Difference, repeated) == 24);
};

/// Runs a loop of exactly `2 × iterations` instructions and says so (`iterations` is at least 1).
#[inline(never)]
pub fn known_loop(iterations: u64) -> Option<u64> {
    let iterations = iterations.max(1);
    // SAFETY: registers and flags only.
    unsafe {
        asm!("2:", "dec {n}", "jnz 2b", n = inout(reg) iterations => _, options(nomem, nostack));
    }
    iterations.checked_mul(2)
}

/// The word at `fs:0`: another one in every thread.
#[must_use]
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the ABI has the thread pointer's own value there in every thread.
    unsafe {
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// What reads the counter `index` where a header of another language has the read inline: what `rdpmc` takes.
#[must_use]
pub fn inline_register(index: u32) -> u64 {
    index.into()
}

/// The clock of the page's times: the time stamp counter.
#[inline(always)]
pub(crate) fn read_clock() -> u64 {
    // SAFETY: rdtsc reads two registers; where it is forbidden (PR_SET_TSC), the page's times cannot be used either.
    unsafe { std::arch::x86_64::_rdtsc() }
}
