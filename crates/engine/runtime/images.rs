//! `execve`: the launcher is asked to follow, then the call is made natively.

use crate::layout::{Context, exec, state as slot_state};
use crate::program_memory::read;
use crate::syscall_table as nr;
use crate::{
    cache_file, check, code_writes, entry, locate, schedule, signal_calls, slots, sys,
    write_execute,
};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// execve and execveat.
pub fn execve(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    let (directory, path, flags) = match number {
        nr::EXECVE => (-100i64 as u64, a[0], 0),
        _ => (a[0], a[1], a[4]),
    };
    // A call that is going to fail (a search along PATH) need not bother anyone.
    // SAFETY: faccessat2(directory, path, X_OK, flags): reads the path only.
    let access = unsafe { sys::call(nr::FACCESSAT2, [directory, path, 1, flags & 0x1100, 0, 0]) };
    let followed = access >= 0 && !is_privileged(directory, path, flags) && ask(context, path);
    if followed {
        cache_file::save(context);
    }
    let mask = signal_calls::real_mask(context);
    let mut old = sys::set_mask(u64::MAX);
    if context.pending != 0 && code_writes::take_pending(mask) {
        (context.pending, old) = (0, mask);
    }
    sys::set_mask(mask);
    signal_calls::before_exec(context);
    if followed {
        context.state.store(slot_state::REPLACED, Release);
    }
    schedule::becomes(context, access >= 0, followed);
    if access >= 0 {
        write_execute::before_exec();
    }
    if AGAIN.load(Relaxed) >= MOST {
        signal_calls::as_in_a_new_image(context);
        sys::set_mask(mask);
        // SAFETY: as the program made it.
        let result = unsafe { sys::call(number, a) };
        check!(false, "a program could not be replaced (errno {})", -result);
    }
    // SAFETY: as the program made it, if no signal has come that it handles.
    let result = unsafe { entry::rt_wait(number, a.as_ptr()) };
    context.state.store(slot_state::LIVE, Release);
    signal_calls::after_failed_exec(context);
    sys::set_mask(old);
    if followed {
        withdraw(context);
    }
    schedule::stays(context);
    if result == -EINTR && context.pending != 0 {
        // It goes to its handler first, as if it had come before the call: behind it nobody would take it, and the
        // runtime's mask would be that of the new image.
        AGAIN.fetch_add(1, Relaxed);
        locate::uncount_call(context);
        context.pc = context.pc.wrapping_sub(2);
        return number as i64;
    }
    AGAIN.store(0, Relaxed);
    result
}

const EINTR: i64 = 4;
/// How often signals came first, without an `execve` in between.
static AGAIN: AtomicU32 = AtomicU32::new(0);
/// Signals that come faster than a launcher answers meet the new image, which does not handle them.
const MOST: u32 = 100;

/// A setuid or setgid program loses its privilege when it is traced: it runs
/// natively and uncounted instead.
fn is_privileged(directory: u64, path: u64, flags: u64) -> bool {
    let mut stat = [0u64; 18];
    // SAFETY: newfstatat into a buffer of struct stat's 144 bytes.
    let result = unsafe {
        sys::call(
            nr::NEWFSTATAT,
            [
                directory,
                path,
                stat.as_mut_ptr() as u64,
                flags & 0x1100,
                0,
                0,
            ],
        )
    };
    let mode = stat[3] as u32;
    if result < 0 || mode & 0o6000 == 0 {
        return false;
    }
    // SAFETY: geteuid; root loses nothing.
    let root = unsafe { sys::call(nr::GETEUID, [0; 6]) } == 0;
    let same = mode & 0o4000 == 0 || root;
    let privileged = !same || (mode & 0o2000 != 0 && !root);
    if privileged {
        leave_out(
            path,
            "set-user-ID or set-group-ID, which tracing would take away",
        );
    }
    privileged
}

/// Notes that a program runs without being counted; of the first one its path and why.
fn leave_out(path: u64, why: &str) {
    let header = slots::header();
    header.uncounted.fetch_add(1, Relaxed);
    let mut name = [0u8; 160];
    let bytes = name.iter_mut().enumerate();
    let len = bytes
        .map_while(|(at, byte)| {
            *byte = read::<u8>(path + at as u64).filter(|&byte| byte != 0)?;
            Some(())
        })
        .count();
    header.name_left_out(name.get(..len).unwrap_or(&[]), why);
}

/// Whether the launcher is there to follow anybody.
fn launcher_listens() -> bool {
    let header = slots::header();
    // SAFETY: signal 0 only asks whether the process exists.
    header.closed.load(Acquire) == 0
        && unsafe { sys::call(nr::KILL, [u64::from(header.launcher), 0, 0, 0, 0, 0]) } != -3
}

/// Whether a launcher that does not answer was killed: as long as its own parent has not waited for it,
/// it keeps its number, and signals find it.
fn launcher_was_killed() -> bool {
    let launcher = u64::from(slots::header().launcher);
    // SAFETY: pidfd_open, poll of the one descriptor that it gives, without waiting, and its close.
    unsafe {
        let fd = sys::call(nr::PIDFD_OPEN, [launcher, 0, 0, 0, 0, 0]);
        if fd < 0 {
            return fd == -3; // else: no pidfd before Linux 5.3, or no descriptor left
        }
        // struct pollfd: descriptor, events (POLLIN), events that came.
        let poll = fd as u64 & 0xffff_ffff | 1 << 32;
        let ended = sys::call(nr::POLL, [&raw const poll as u64, 1, 0, 0, 0, 0]) == 1;
        sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]);
        ended
    }
}

/// How long one waits for a launcher that is there and does not answer, in tenths of a second. Then
/// the run ends with a report: it would be stuck for ever.
const PATIENCE: u32 = 3000;

/// Asks the launcher to watch this thread; true once it does.
fn ask(context: &mut Context, path: u64) -> bool {
    if launcher_listens() {
        slots::provide();
        context.exec.store(exec::WANTED, Release);
        announce(context);
        for turn in 1.. {
            let now = context.exec.load(Acquire);
            match now {
                exec::WANTED | exec::SEEN => sys::futex_wait(&context.exec, now, 100),
                exec::WATCHED => return true,
                _ => break,
            }
            // One that is about to end brings those home that it has seen.
            let alone = match context.exec.load(Acquire) {
                exec::WANTED => !launcher_listens() || launcher_was_killed(),
                exec::SEEN => launcher_was_killed(),
                _ => false,
            };
            if alone && abandon(context) {
                break;
            }
            if turn % 10 == 0 {
                announce(context);
            }
            check!(
                turn < PATIENCE,
                "the launcher has not answered for {} seconds",
                PATIENCE / 10
            );
        }
        context.exec.store(exec::NONE, Release);
    }
    leave_out(path, "cannot be traced");
    false
}

/// Takes the request back, unless the launcher has just answered it.
fn abandon(context: &Context) -> bool {
    let now = context.exec.load(Acquire);
    matches!(now, exec::WANTED | exec::SEEN)
        && context
            .exec
            .compare_exchange(now, exec::NONE, AcqRel, Acquire)
            .is_ok()
}

/// Tells the launcher to look at this thread's slot.
pub fn announce(context: &mut Context) {
    let header = slots::header();
    // Where the kernel asks for it (Yama): this process lets the launcher trace it.
    // SAFETY: PR_SET_PTRACER; an error does no harm.
    unsafe {
        sys::call(
            nr::PRCTL,
            [0x5961_6d61, u64::from(header.launcher), 0, 0, 0, 0],
        )
    };
    context.tid = sys::gettid();
    header.request(slots::slot_of(context));
    sys::futex_wake(&header.doorbell);
}

/// The call failed: stops for the launcher, which lets go.
fn withdraw(context: &mut Context) {
    context.exec.store(exec::FAILED, Release);
    let (pid, tid) = (u64::from(sys::getpid()), u64::from(sys::gettid()));
    let old = sys::set_mask(!(1 << 4));
    while context.exec.load(Acquire) == exec::FAILED && !launcher_was_killed() {
        // SAFETY: SIGTRAP to ourselves; the launcher swallows it.
        unsafe { sys::call(nr::TGKILL, [pid, tid, 5, 0, 0, 0]) };
        sys::futex_wait(&context.exec, exec::FAILED, 10);
    }
    sys::set_mask(old);
}
