//! The few ptrace(2) requests the launcher makes, as checked functions.

use std::io;
use std::mem::MaybeUninit;

pub(super) type Regs = libc::user_regs_struct;

/// As the C library has it.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

const GETSIGMASK: Request = 0x420a;
const SETSIGMASK: Request = 0x420b;

fn check(result: libc::c_long) -> io::Result<()> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Attaches without stopping; `execve` will stop.
pub(super) fn seize(tid: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe {
        libc::ptrace(
            libc::PTRACE_SEIZE,
            tid,
            0usize,
            libc::PTRACE_O_TRACEEXEC as usize,
        )
    })
}

pub(super) fn regs(tid: i32) -> io::Result<Regs> {
    let mut regs = MaybeUninit::<Regs>::uninit();
    // SAFETY: the kernel fills the structure where it succeeds.
    unsafe {
        check(libc::ptrace(
            libc::PTRACE_GETREGS,
            tid,
            0usize,
            regs.as_mut_ptr(),
        ))?;
        Ok(regs.assume_init())
    }
}

pub(super) fn set_regs(tid: i32, regs: &Regs) -> io::Result<()> {
    // SAFETY: the kernel reads the structure.
    check(unsafe { libc::ptrace(libc::PTRACE_SETREGS, tid, 0usize, std::ptr::from_ref(regs)) })
}

/// One word of the tracee's memory, whatever its protection.
pub(super) fn peek(tid: i32, address: u64) -> io::Result<i64> {
    // SAFETY: errno tells an error from a word of -1.
    unsafe {
        *libc::__errno_location() = 0;
        let word = libc::ptrace(libc::PTRACE_PEEKTEXT, tid, address, 0usize);
        if word == -1 && *libc::__errno_location() != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(word)
    }
}

pub(super) fn poke(tid: i32, address: u64, word: i64) -> io::Result<()> {
    // SAFETY: changes the tracee only.
    check(unsafe { libc::ptrace(libc::PTRACE_POKETEXT, tid, address, word) })
}

pub(super) fn resume(tid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::ptrace(libc::PTRACE_CONT, tid, 0usize, signal as usize) })
}

/// Leaves a stopped group stopped, but lets SIGCONT through.
pub(super) fn listen(tid: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::ptrace(libc::PTRACE_LISTEN, tid, 0usize, 0usize) })
}

pub(super) fn detach(tid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::ptrace(libc::PTRACE_DETACH, tid, 0usize, signal as usize) })
}

pub(super) fn mask(tid: i32) -> io::Result<u64> {
    let mut mask = 0u64;
    // SAFETY: the kernel fills eight bytes.
    check(unsafe { libc::ptrace(GETSIGMASK, tid, 8usize, std::ptr::from_mut(&mut mask)) })?;
    Ok(mask)
}

pub(super) fn set_mask(tid: i32, mask: u64) -> io::Result<()> {
    // SAFETY: the kernel reads eight bytes.
    check(unsafe { libc::ptrace(SETSIGMASK, tid, 8usize, std::ptr::from_ref(&mask)) })
}

/// What tells of the signal that it is stopped for, where somebody sent it: no trap of its own.
pub(super) fn sent(tid: i32) -> Option<libc::siginfo_t> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the kernel fills the structure; zeros are one as well.
    let (told, info) = unsafe {
        let told = libc::ptrace(libc::PTRACE_GETSIGINFO, tid, 0usize, info.as_mut_ptr());
        (check(told), info.assume_init())
    };
    (told.is_ok() && info.si_code <= 0).then_some(info)
}

/// Makes a signal that was taken from the queue pending again, in place of the one that it is stopped for: it is blocked
/// by `mask`, so the kernel puts it back when it is resumed with the number returned (kernel/signal.c, `ptrace_signal`).
pub(super) fn pend(tid: i32, info: &libc::siginfo_t, mask: u64) -> io::Result<i32> {
    set_mask(tid, mask)?;
    // SAFETY: the kernel reads the structure.
    check(unsafe {
        libc::ptrace(
            libc::PTRACE_SETSIGINFO,
            tid,
            0usize,
            std::ptr::from_ref(info),
        )
    })?;
    Ok(info.si_signo)
}

/// Writes to the tracee's memory.
pub(super) fn write(tid: i32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let local = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: bytes.len(),
    };
    // SAFETY: reads our slice, writes the tracee.
    let done =
        unsafe { libc::process_vm_writev(tid, &raw const local, 1, &raw const remote, 1, 0) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    if done.unsigned_abs() != bytes.len() {
        return Err(io::Error::other("written in part"));
    }
    Ok(())
}

/// Reads the tracee's memory.
pub(super) fn read(tid: i32, address: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; len];
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: len,
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: len,
    };
    // SAFETY: fills our vector, reads the tracee.
    let done = unsafe { libc::process_vm_readv(tid, &raw const local, 1, &raw const remote, 1, 0) };
    let done = usize::try_from(done).map_err(|_| io::Error::last_os_error())?;
    bytes.truncate(done);
    Ok(bytes)
}

/// Changes soft and hard limit of another process.
pub(super) fn change_limit(pid: i32, resource: u64, by: impl Fn(u64) -> u64) -> io::Result<()> {
    let mut limit = [0u64; 2];
    let call = |new: *const [u64; 2], old: *mut [u64; 2]| {
        // SAFETY: each is null or two words of ours (struct rlimit64).
        check(unsafe { libc::syscall(libc::SYS_prlimit64, pid, resource, new, old) })
    };
    call(std::ptr::null(), &raw mut limit)?;
    let new = limit.map(by);
    if new == limit {
        return Ok(());
    }
    call(&raw const new, std::ptr::null_mut())
}

/// What a wait saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The thread ended; it has not been reaped.
    Gone(i32),
    /// It stopped in `execve`.
    Exec(i32),
    /// A group stop.
    Group(i32),
    /// A signal is about to be delivered.
    Signal(i32, i32),
}

/// The next event of a thread that *this* thread traces; ends are left to be
/// reaped by [`reap`].
pub(super) fn wait() -> io::Result<Event> {
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let options = libc::WEXITED | libc::WSTOPPED | libc::__WALL | libc::__WNOTHREAD;
        // SAFETY: the kernel fills the structure.
        let (result, info) = unsafe {
            let result = libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options | libc::WNOWAIT);
            (result, info.assume_init())
        };
        if result != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EINTR) {
                continue;
            }
            return Err(error);
        }
        // SAFETY: the fields of a SIGCHLD siginfo.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if info.si_code != libc::CLD_TRAPPED && info.si_code != libc::CLD_STOPPED {
            return Ok(Event::Gone(pid));
        }
        reap(pid);
        let event = status >> 8;
        return Ok(if event == libc::PTRACE_EVENT_EXEC {
            Event::Exec(pid)
        } else if event == libc::PTRACE_EVENT_STOP {
            Event::Group(pid)
        } else {
            Event::Signal(pid, status & 0xff)
        });
    }
}

/// Consumes the state that [`wait`] saw.
pub(super) fn reap(pid: i32) {
    let mut status = 0;
    // SAFETY: a plain wait.
    unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
}
