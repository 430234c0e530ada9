//! The few system calls of a tracer, typed. ptrace(2), waitpid(2), process_vm_readv(2),
//! pidfd_open(2).
//!
//! `ptrace` is called raw: the raw call returns a word that it peeks through a pointer, so no value
//! is mistaken for an error, and C libraries differ in the types of their wrappers.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// What `waitpid` saw of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Exit status of the thread (of the process, for a leader).
    Exited(i32),
    /// Ended by this signal.
    Killed(i32),
    /// Stopped by this signal, with this ptrace event (0 for none).
    Stopped(i32, i32),
}

fn result(value: i64) -> io::Result<i64> {
    if value < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}

/// A request's number, whatever type the C library's headers give it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request(i64);

impl Request {
    pub(super) const SEIZE: Self = Self(0x4206);
    pub(super) const LISTEN: Self = Self(0x4208);
    pub(super) const CONT: Self = Self(7);
    pub(super) const SINGLESTEP: Self = Self(9);
    const PEEKDATA: Self = Self(2);
    const PEEKUSER: Self = Self(3);
    const POKEDATA: Self = Self(5);
    const POKEUSER: Self = Self(6);
    const GETEVENTMSG: Self = Self(0x4201);
    const GETSIGINFO: Self = Self(0x4202);
    const GETSIGMASK: Self = Self(0x420a);
    const SETSIGMASK: Self = Self(0x420b);
}

/// A request whose address and data are plain numbers.
pub(super) fn ptrace(request: Request, tid: i32, address: u64, data: u64) -> io::Result<()> {
    // SAFETY: callers pass requests whose data is a number, never a pointer the kernel writes to.
    result(unsafe { libc::syscall(libc::SYS_ptrace, request.0, i64::from(tid), address, data) })?;
    Ok(())
}

/// A request that fills in one `T`.
fn ptrace_get<T>(request: Request, tid: i32, address: u64, into: &mut T) -> io::Result<()> {
    let data = std::ptr::from_mut(into);
    // SAFETY: the kernel writes one T (a word, or a siginfo) for the requests used here, to a live one.
    result(unsafe { libc::syscall(libc::SYS_ptrace, request.0, i64::from(tid), address, data) })?;
    Ok(())
}

/// Waits for any tracee of this thread.
pub(super) fn wait() -> io::Result<(i32, Wait)> {
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    result(tid.into())?;
    let what = if libc::WIFEXITED(status) {
        Wait::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Wait::Killed(libc::WTERMSIG(status))
    } else {
        Wait::Stopped(libc::WSTOPSIG(status), status >> 16)
    };
    Ok((tid, what))
}

/// A register of a stopped thread that single-stepping asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Register {
    /// The next instruction's address.
    ProgramCounter,
    /// The stack pointer.
    StackPointer,
    /// What a system call returned, or the number of the one about to be made.
    Result,
    /// The first argument of a system call.
    Argument,
    /// The number of the system call that the thread is in; −1 for none.
    SystemCall,
    /// The code segment, which tells 64-bit code from 32-bit code.
    CodeSegment,
}

/// Reads one register.
pub(super) fn register(tid: i32, which: Register) -> io::Result<u64> {
    use libc::user_regs_struct as R;
    // `struct user` starts with the registers.
    let offset = match which {
        Register::ProgramCounter => std::mem::offset_of!(R, rip),
        Register::StackPointer => std::mem::offset_of!(R, rsp),
        Register::Result => std::mem::offset_of!(R, rax),
        Register::Argument => std::mem::offset_of!(R, rdi),
        Register::SystemCall => std::mem::offset_of!(R, orig_rax),
        Register::CodeSegment => std::mem::offset_of!(R, cs),
    };
    let mut value = 0u64;
    ptrace_get(Request::PEEKUSER, tid, offset as u64, &mut value)?;
    Ok(value)
}

/// A thread that is about to execute `syscall` asks for a call that no kernel has: `ENOSYS`.
pub(super) fn make_unknown_call(tid: i32) -> io::Result<()> {
    let offset = std::mem::offset_of!(libc::user_regs_struct, rax) as u64;
    ptrace(Request::POKEUSER, tid, offset, u64::MAX)
}

/// `si_code` of the signal that a thread is stopped for; none for a group stop.
pub(super) fn signal_code(tid: i32) -> Option<i32> {
    // SAFETY: an all-zero siginfo is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    ptrace_get(Request::GETSIGINFO, tid, 0, &mut info).ok()?;
    Some(info.si_code)
}

/// Takes SIGTRAP out of a stopped thread's signal mask.
pub(super) fn unblock_trap(tid: i32) -> io::Result<()> {
    const SIZE: u64 = 8; // of the kernel's sigset_t
    let mut mask = 0u64;
    ptrace_get(Request::GETSIGMASK, tid, SIZE, &mut mask)?;
    let mut without = mask & !(1 << (libc::SIGTRAP - 1));
    if without == mask {
        return Ok(());
    }
    // This request reads its eight bytes, as the other one writes them.
    ptrace_get(Request::SETSIGMASK, tid, SIZE, &mut without)
}

/// The message of a ptrace event: a new thread's id, an exit status, a former thread id.
pub(super) fn event_message(tid: i32) -> io::Result<u64> {
    let mut message = 0u64;
    ptrace_get(Request::GETEVENTMSG, tid, 0, &mut message)?;
    Ok(message)
}

/// A word of a stopped thread's memory, whatever the page's protection.
pub(super) fn peek(tid: i32, address: u64) -> io::Result<u64> {
    let mut word = 0u64;
    ptrace_get(Request::PEEKDATA, tid, address, &mut word)?;
    Ok(word)
}

/// Writes a word to a stopped thread's memory.
pub(super) fn poke(tid: i32, address: u64, word: u64) -> io::Result<()> {
    ptrace(Request::POKEDATA, tid, address, word)
}

/// The bytes of the instruction at `address` (at most 15), and how many could be read.
pub(super) fn code(tid: i32, address: u64) -> ([u8; 16], usize) {
    const PAGE: u64 = 4096;
    let mut bytes = [0u8; 16];
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: 15,
    };
    // Two ranges, so that a missing page after this one does not spoil the first.
    let first = (PAGE - address % PAGE).min(15);
    let range = |from: u64, length: u64| libc::iovec {
        iov_base: from as *mut libc::c_void,
        iov_len: length as usize,
    };
    let remote = [
        range(address, first),
        range(address.wrapping_add(first), 15 - first),
    ];
    // SAFETY: the local range is `bytes`; the remote ones are addresses in another process.
    let n = unsafe { libc::process_vm_readv(tid, &raw const local, 1, remote.as_ptr(), 2, 0) };
    let mut n = usize::try_from(n).unwrap_or(0);
    if n == 0 {
        // A page that may be executed but not read: only ptrace may look.
        for (i, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            match peek(tid, address.wrapping_add(8 * i as u64)) {
                Ok(word) => chunk.copy_from_slice(&word.to_le_bytes()),
                Err(_) => break,
            }
            n = 8 * i + 8;
        }
    }
    (bytes, n.min(15))
}

/// Sends a signal to a process that has not been waited for yet.
pub(super) fn kill(pid: i32, signal: i32) {
    // SAFETY: kill takes numbers only.
    unsafe { libc::kill(pid, signal) };
}

/// A handle of a process that does not come to mean another one.
pub(super) fn pidfd(pid: i32) -> Option<OwnedFd> {
    // SAFETY: pidfd_open takes numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, i64::from(pid), 0i64) };
    let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Kills the process behind a handle; one that has ended is not an error.
pub(super) fn kill_pidfd(fd: &OwnedFd) {
    let (fd, signal) = (i64::from(fd.as_raw_fd()), i64::from(libc::SIGKILL));
    // SAFETY: no siginfo is passed, the rest are numbers.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, 0i64, 0i64) };
}
