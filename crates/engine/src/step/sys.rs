//! The few system calls of a tracer, typed.

use std::io;

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

/// A ptrace request whose address and data are plain numbers.
pub(super) fn ptrace(
    request: libc::c_uint,
    tid: i32,
    address: usize,
    data: usize,
) -> io::Result<i64> {
    // SAFETY: callers pass requests whose data is a number, never a pointer that the kernel writes through.
    result(unsafe { libc::ptrace(request, tid, address, data) })
}

/// Waits for any tracee of this thread.
pub(super) fn wait() -> io::Result<(i32, Wait)> {
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    let tid = i32::try_from(result(tid.into())?).unwrap_or(-1);
    let what = if libc::WIFEXITED(status) {
        Wait::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Wait::Killed(libc::WTERMSIG(status))
    } else {
        Wait::Stopped(libc::WSTOPSIG(status), status >> 16)
    };
    Ok((tid, what))
}

/// The program counter of a stopped thread.
#[cfg(target_arch = "x86_64")]
pub(super) fn program_counter(tid: i32) -> io::Result<u64> {
    // PEEKUSER's value may be -1, so errno decides.
    // SAFETY: errno is a thread-local integer.
    unsafe { *libc::__errno_location() = 0 };
    let offset = std::mem::offset_of!(libc::user_regs_struct, rip);
    // SAFETY: PEEKUSER only reads the tracee; its address is a number.
    let value = unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, tid, offset, 0) };
    if value == -1 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(0) {
            return Err(error);
        }
    }
    Ok(value.cast_unsigned())
}

/// `si_code` of the signal that a thread is stopped for; none for a group stop.
pub(super) fn signal_code(tid: i32) -> Option<i32> {
    // SAFETY: an all-zero siginfo is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one siginfo, to a live one.
    let ok = unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid, 0, &raw mut info) } == 0;
    ok.then_some(info.si_code)
}

/// The message of a ptrace event: a new thread's id, an exit status, a former thread id.
pub(super) fn event_message(tid: i32) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the kernel writes one long, to a live one.
    result(unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message) })?;
    Ok(message)
}

/// Copies from another process's memory; gives how much could be read.
pub(super) fn read_memory(tid: i32, address: u64, buffer: &mut [u8]) -> usize {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let Ok(base) = usize::try_from(address) else {
        return 0;
    };
    let remote = libc::iovec {
        iov_base: base as *mut libc::c_void,
        iov_len: buffer.len(),
    };
    // SAFETY: the local range is this buffer; the remote one is only an address in another process.
    let n = unsafe { libc::process_vm_readv(tid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(n).unwrap_or(0)
}

/// Sends a signal; a process that has gone is no error.
pub(super) fn kill(pid: i32, signal: i32) {
    // SAFETY: kill takes numbers only.
    unsafe { libc::kill(pid, signal) };
}
