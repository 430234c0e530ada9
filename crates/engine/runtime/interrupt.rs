//! System calls by `int 0x80`: the kernel's 32-bit calls, which 64-bit code can make as well. What means something to
//! the engine is done as the 64-bit call that does the same; the rest is made as the program made it.
//!
//! Facts: arch/x86/entry/syscalls/syscall_32.tbl; which registers hold the arguments, and where memory goes
//! (below 4 GiB): arch/x86/entry/syscall_32.c, arch/x86/kernel/sys_x86_64.c.

use crate::entry;
use crate::layout::Context;
use crate::report::Text;
use crate::schedule::{self, Step};
use crate::syscall_table::{self as nr, Answer};
use crate::{
    clock, code_writes, confine, ended, locate, machine, open_pages, outside, own_memory, pids,
    program_memory, report, sys, syscalls, unfollowed,
};
use core::fmt::Write;

/// Where the program goes on.
pub enum Next {
    /// Behind the call (or where the call leads).
    At(u64),
    /// At the instruction itself, natively: it faults.
    Faults,
}

/// What a number of the 32-bit table is to the engine.
enum Row {
    /// This call of the 64-bit table, with the same arguments.
    Same(u64),
    /// `mmap` with its arguments in memory, and with the offset in pages.
    OldMmap,
    Mmap2,
    Mremap,
    /// Its last two arguments are the other way round.
    Clone,
    Waitpid,
    Wait4,
    Futex,
    Time,
    Nanosleep,
    /// The arrays of pointers are the 32-bit ones; the first of them is this argument.
    Exec(u64, usize),
    /// Made as it is, and what it did is not known.
    Unfollowed(&'static str),
    /// Nothing good can come of it.
    Unsupported(&'static str),
    /// Of no concern.
    Plain,
}

fn row(number: u32) -> Row {
    match number {
        1 => Row::Same(nr::EXIT),
        2 => Row::Same(nr::FORK),
        3 => Row::Same(nr::READ),
        4 => Row::Same(nr::WRITE),
        6 => Row::Same(nr::CLOSE),
        7 => Row::Waitpid,
        11 => Row::Exec(nr::EXECVE, 1),
        13 => Row::Time,
        20 => Row::Same(nr::GETPID),
        24 => Row::Same(nr::GETUID),
        26 => Row::Unfollowed("ptrace"),
        29 => Row::Same(nr::PAUSE),
        37 => Row::Same(nr::KILL),
        42 => Row::Same(nr::PIPE),
        45 => Row::Same(nr::BRK),
        48 | 67 | 174 => Row::Unsupported("actions of signals"),
        64 => Row::Same(nr::GETPPID),
        68 | 69 | 126 => Row::Unsupported("masks of signals"),
        75 => Row::Unfollowed("setrlimit"),
        90 => Row::OldMmap,
        91 => Row::Same(nr::MUNMAP),
        114 => Row::Wait4,
        117 => Row::Unfollowed("ipc"),
        119 | 173 => Row::Unsupported("the end of a handler"),
        120 => Row::Clone,
        125 => Row::Same(nr::MPROTECT),
        152 => Row::Same(nr::MLOCKALL),
        153 => Row::Same(nr::MUNLOCKALL),
        158 => Row::Same(nr::SCHED_YIELD),
        162 => Row::Nanosleep,
        163 => Row::Mremap,
        168 => Row::Same(nr::POLL),
        172 => Row::Same(nr::PRCTL),
        175 => Row::Same(nr::RT_SIGPROCMASK),
        186 => Row::Unsupported("the alternate signal stack"),
        190 => Row::Same(nr::VFORK),
        192 => Row::Mmap2,
        219 => Row::Same(nr::MADVISE),
        224 => Row::Same(nr::GETTID),
        238 => Row::Same(nr::TKILL),
        240 => Row::Futex,
        252 => Row::Same(nr::EXIT_GROUP),
        256 => Row::Same(nr::EPOLL_WAIT),
        257 => Row::Same(nr::REMAP_FILE_PAGES),
        270 => Row::Same(nr::TGKILL),
        321 | 327 => Row::Unsupported("signalfd"),
        336 => Row::Same(nr::PERF_EVENT_OPEN),
        340 => Row::Same(nr::PRLIMIT64),
        348 => Row::Unfollowed("process_vm_writev"),
        354 => Row::Unsupported("seccomp"),
        355 => Row::Same(nr::GETRANDOM),
        358 => Row::Exec(nr::EXECVEAT, 2),
        374 => Row::Same(nr::USERFAULTFD),
        380 => Row::Same(nr::PKEY_MPROTECT),
        386 => Row::Same(nr::RSEQ),
        397 | 398 => Row::Unfollowed("shmat"),
        403 => Row::Same(nr::CLOCK_GETTIME),
        422 => Row::Same(nr::FUTEX),
        // From here on both tables have the same numbers.
        425 => Row::Same(nr::IO_URING_SETUP),
        427 => Row::Same(nr::IO_URING_REGISTER),
        435 => Row::Same(nr::CLONE3),
        440 => Row::Unfollowed("process_madvise"),
        462 => Row::Same(nr::MSEAL),
        _ => Row::Plain,
    }
}

/// The registers that hold the arguments: EBX, ECX, EDX, ESI, EDI, EBP.
fn arguments(context: &Context) -> [u64; 6] {
    let r = &context.regs;
    [r[3], r[1], r[2], r[6], r[7], r[5]].map(|value| value & 0xffff_ffff)
}

/// Makes the call of the instruction at `at`, counted already.
pub fn call(context: &mut Context, at: u64, next: u64) -> Next {
    context.pc = next;
    if confine::dispatches(context, next, confine::AUDIT_ARCH_I386) {
        return Next::At(next);
    }
    let number = context.regs[0] as u32;
    let a = arguments(context);
    let mut limit = [0u64; 2];
    let known = match row(number) {
        Row::Plain => None,
        Row::Unfollowed(what) => {
            let mut text = Text::new();
            let _ = write!(text, "int 0x80: {what}");
            unfollowed::note(text.bytes());
            None
        }
        Row::Unsupported(what) => report::fail(format_args!(
            "{what} by int 0x80 (32-bit system call {number} of 64-bit code at {at:#x}) is not supported by the virtual PMU"
        )),
        row => match as_64_bit(&row, a, &mut limit) {
            Ok(call) => call,
            Err(result) => {
                context.regs[0] = result as u64;
                return Next::At(next);
            }
        },
    };
    let Some((number, a)) = known else {
        outside::note_call(context, b"int 0x80");
        open_pages::before(u64::MAX, a);
        return plainly(context, at, next);
    };
    outside::before(context, number, a);
    open_pages::before(number, a);
    if schedule::on() {
        match schedule::call(context, number, a) {
            Step::Native => {}
            Step::Again => return again(context, at),
            Step::Done(result) => {
                outside::after(context, number, a, result);
                context.regs[0] = result as u64;
                return Next::At(next);
            }
        }
    }
    open_pages::before(number, a);
    let writes = nr::answer(number) == Answer::Write && code_writes::concerns(number, a);
    let own = clock::answers(number, &a)
        || ended::answers(number, &a)
        || machine::answers(number, &a)
        || pids::answers(context, number, &a);
    if nr::is_plain(number) && !writes && !own {
        return plainly(context, at, next);
    }
    let asked = context.regs[0];
    let result = made(context, number, a);
    // An `execve` that a signal came before is made again.
    context.regs[0] = if context.pc == next {
        result as u64
    } else {
        asked
    };
    Next::At(context.pc)
}

/// The call of the 64-bit table that does the same; `Ok(None)`: none, but none is needed; `Err`: the result.
/// `limit`: a place for a time.
fn as_64_bit(row: &Row, a: [u64; 6], limit: &mut [u64; 2]) -> Result<Option<(u64, [u64; 6])>, i64> {
    const CLONE_SETTLS: u64 = 0x8_0000;
    /// Operations of `futex(2)` with a limit: WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2.
    const LIMITED: [u64; 5] = [0, 6, 9, 11, 13];
    // Seconds and nanoseconds, four bytes each.
    let mut wide_time = |at: u64| {
        let [seconds, nanoseconds] = program_memory::read::<[u32; 2]>(at).ok_or(-sys::EFAULT)?;
        *limit = [seconds, nanoseconds].map(|part| i64::from(part.cast_signed()).cast_unsigned());
        Ok::<u64, i64>(limit.as_ptr() as u64)
    };
    // Where clocks are the kernel's, so are the calls that wait by them.
    let own_time = clock::on() || schedule::on();
    let call = match *row {
        Row::Same(number) => (number, a),
        Row::OldMmap => {
            let mut words = [0u64; 6];
            for (at, word) in words.iter_mut().enumerate() {
                let from = a[0] + 4 * at as u64;
                *word = program_memory::read::<u32>(from)
                    .ok_or(-sys::EFAULT)?
                    .into();
            }
            (nr::MMAP, words)
        }
        Row::Mmap2 => (nr::MMAP, [a[0], a[1], a[2], a[3], a[4], a[5] << 12]),
        Row::Mremap => (nr::MREMAP, a),
        Row::Clone if a[0] & CLONE_SETTLS != 0 => report::fail(format_args!(
            "a thread with a segment of its own by int 0x80 is not supported by the virtual PMU"
        )),
        Row::Clone => (nr::CLONE, [a[0], a[1], a[2], a[4], a[3], 0]),
        Row::Waitpid => (nr::WAIT4, [a[0], a[1], a[2], 0, 0, 0]),
        Row::Wait4 if a[3] == 0 => (nr::WAIT4, a),
        Row::Futex if a[3] == 0 || !LIMITED.contains(&(a[1] & 127)) => (nr::FUTEX, a),
        Row::Futex if own_time => (nr::FUTEX, [a[0], a[1], a[2], wide_time(a[3])?, a[4], a[5]]),
        Row::Time if a[0] == 0 => (nr::TIME, a),
        Row::Nanosleep if own_time => (nr::NANOSLEEP, [wide_time(a[0])?, 0, 0, 0, 0, 0]),
        Row::Exec(number, first) => {
            let mut a = a;
            for pointer in a.iter_mut().skip(first).take(2) {
                *pointer = wide(*pointer)?;
            }
            (number, a)
        }
        _ => return Ok(None),
    };
    Ok(Some(call))
}

/// A copy of an array of 32-bit pointers, as one of 64-bit pointers. (It is lost where the program is replaced, and kept
/// where not: nobody fails that way often.)
fn wide(array: u64) -> Result<u64, i64> {
    const MOST: u64 = 1 << 20;
    const E2BIG: i64 = 7;
    if array == 0 {
        return Ok(0);
    }
    let word = |n: u64| program_memory::read::<u32>(array + 4 * n).ok_or(-sys::EFAULT);
    let mut count = 0;
    while word(count)? != 0 {
        count += 1;
        if count == MOST {
            return Err(-E2BIG);
        }
    }
    let copy = own_memory::reserve(8 * (count + 1));
    for n in 0..count {
        // SAFETY: reserved above; zero behind the last.
        unsafe { *((copy + 8 * n) as *mut u64) = word(n)?.into() };
    }
    Ok(copy)
}

/// What the engine sees to.
fn made(context: &mut Context, number: u64, mut a: [u64; 6]) -> i64 {
    const FIXED: u64 = 0x10;
    const ELSEWHERE: u64 = FIXED | 0x10_0000;
    const MAYMOVE: u64 = 1;
    const DONTUNMAP: u64 = 4;
    match number {
        nr::MMAP if a[3] & ELSEWHERE == 0 => {
            let place = free(a[0], a[1]);
            if place < 0 {
                return place;
            }
            (a[0], a[3]) = (place as u64, a[3] | FIXED);
            given_back_if_failed(syscalls::make(context, number, a), a)
        }
        nr::MREMAP if a[3] & (MAYMOVE | 2) == MAYMOVE => {
            if a[3] & DONTUNMAP == 0 {
                let there = syscalls::make(context, number, [a[0], a[1], a[2], 0, 0, 0]);
                if there != -sys::ENOMEM {
                    return there;
                }
            }
            let place = free(0, a[2]);
            if place < 0 {
                return place;
            }
            (a[3], a[4]) = (a[3] | 2, place as u64);
            let result = syscalls::make(context, number, a);
            given_back_if_failed(result, [a[4], a[2], 0, 0, 0, 0])
        }
        _ => syscalls::make(context, number, a),
    }
}

/// Reserves memory where the kernel puts that of such a call: below 4 GiB.
fn free(hint: u64, length: u64) -> i64 {
    const MMAP2: u64 = 192;
    let mut registers = Registers::default();
    // PROT_NONE; MAP_PRIVATE|ANONYMOUS|NORESERVE
    let flags = 0x2 | 0x20 | 0x4000;
    registers.program[0] = MMAP2;
    registers.program[3] = hint;
    registers.program[1] = length;
    registers.program[6] = flags;
    registers.program[7] = 0xffff_ffff;
    // SAFETY: a fresh mapping, where the kernel says.
    let result = unsafe { entry::rt_interrupt((&raw mut registers).cast()) };
    if result != STOPPED && result != REFUSED {
        return result;
    }
    // A signal waits for its turn, and the call must be made all the same: MAP_32BIT is the lower half of it.
    // SAFETY: as above.
    unsafe { sys::call(nr::MMAP, [hint, length, 0, flags | 0x40, u64::MAX, 0]) }
}

fn given_back_if_failed(result: i64, a: [u64; 6]) -> i64 {
    if (-4095..0).contains(&result) {
        // SAFETY: reserved above, and nobody has it.
        unsafe { sys::call(nr::MUNMAP, [a[0], a[1], 0, 0, 0, 0]) };
    }
    result
}

/// What [`entry::rt_interrupt`] gives beside the kernel's results.
const STOPPED: i64 = -512;
const REFUSED: i64 = -513;

/// The program's registers, and room for those of ours.
#[repr(C)]
#[derive(Default)]
struct Registers {
    program: [u64; 16],
    own: [u64; 3],
}

/// The call as the program made it.
fn plainly(context: &mut Context, at: u64, next: u64) -> Next {
    let mut registers = Registers {
        program: context.regs,
        own: [0; 3],
    };
    // SAFETY: as the program made it; the routine keeps what is ours.
    let result = unsafe { entry::rt_interrupt((&raw mut registers).cast()) };
    match result {
        STOPPED => again(context, at),
        REFUSED => {
            locate::uncount_call(context);
            Next::Faults
        }
        _ => {
            // Old kernels clear these.
            for (to, from) in context
                .regs
                .iter_mut()
                .zip(registers.program)
                .take(12)
                .skip(8)
            {
                *to = from;
            }
            context.regs[0] = result as u64;
            Next::At(next)
        }
    }
}

/// The signal that came first goes to its handler, then the call is made again.
fn again(context: &mut Context, at: u64) -> Next {
    locate::uncount_call(context);
    Next::At(at)
}
