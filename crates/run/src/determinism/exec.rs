//! What a native program finds on its new stack: the random bytes of `AT_RANDOM` are overwritten and the vDSO is hidden
//! (`AT_SYSINFO_EHDR`), at every `execve`, whoever executes it.
//!
//! The filter tells of the `execve` before it happens. The thread that answers then seizes the caller (`ptrace(2)`,
//! `PTRACE_SEIZE` with `PTRACE_O_TRACEEXEC`), lets the call go on, and interrupts: the caller stops either at its new
//! program's first instruction (`PTRACE_EVENT_EXEC`) or, where `execve` failed, before it goes back to its own. Then it
//! is varied. No instruction of the program is added, and between two `execve` nobody watches it: signals, `fork` and
//! breakpoints work as ever.

use std::io;
use std::mem::MaybeUninit;

use libc::c_void;

/// `PTRACE_EVENT_EXEC` as the status of `waitid(2)`: SIGTRAP, and the event above it.
const AT_EXEC: i32 = libc::SIGTRAP | libc::PTRACE_EVENT_EXEC << 8;
/// Auxiliary vector (`getauxval(3)`, linux/auxvec.h).
const AT_IGNORE: u64 = 1;
const AT_RANDOM: u64 = 25;
const AT_SYSINFO_EHDR: u64 = 33;

/// What is changed at every `execve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AtExec {
    pub random: Option<[u8; 16]>,
    pub hide_vdso: bool,
}

impl AtExec {
    pub fn any(self) -> bool {
        self.random.is_some() || self.hide_vdso
    }
}

/// An `execve` that is about to happen: `caller` is traced until [`Seized::finish`].
pub(super) struct Seized {
    caller: i32,
}

/// The C libraries disagree about the type of the request; the kernel takes a word.
fn ptrace(request: impl Into<i64>, pid: i32, data: i32) -> io::Result<()> {
    let (request, none): (i64, i64) = (request.into(), 0);
    // SAFETY: none of the requests used here reads or writes truecount's memory.
    let done = unsafe { libc::syscall(libc::SYS_ptrace, request, pid, none, i64::from(data)) };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

impl Seized {
    /// Starts to trace `caller`, which waits in its `execve`.
    ///
    /// # Errors
    /// EPERM when something else traces it, or truecount may not.
    pub(super) fn seize(caller: i32) -> io::Result<Self> {
        ptrace(libc::PTRACE_SEIZE, caller, libc::PTRACE_O_TRACEEXEC)?;
        Ok(Self { caller })
    }

    /// The call goes on; waits for what comes of it, changes the new program, if there is one, and lets it go. `child`
    /// is reaped by others.
    pub(super) fn finish(self, change: AtExec, child: i32) -> io::Result<()> {
        // It has gone, or is on its way: the wait tells.
        let _ = ptrace(libc::PTRACE_INTERRUPT, self.caller, 0);
        let Some((pid, status)) = stopped(child)? else {
            return Ok(());
        };
        let changed = if status == AT_EXEC {
            apply(pid, change)
        } else {
            Ok(())
        };
        // A signal that was about to be delivered is, an event is not one.
        let signal = if status >> 8 == 0 { status } else { 0 };
        let _ = ptrace(libc::PTRACE_DETACH, pid, signal);
        changed
    }
}

/// The one that this thread traces, stopped, with its status; `None` when it has ended.
fn stopped(child: i32) -> io::Result<Option<(i32, i32)>> {
    const MINE: i32 = libc::__WALL | libc::__WNOTHREAD;
    let wait = |options: i32| -> io::Result<Option<(i32, i32)>> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        loop {
            // SAFETY: a valid place for the result, zeroed before.
            unsafe {
                if libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options | MINE) == 0 {
                    let info = info.assume_init();
                    return Ok((info.si_pid() != 0).then(|| (info.si_pid(), info.si_status())));
                }
            }
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            }
        }
    };
    match wait(libc::WSTOPPED) {
        Ok(found) => Ok(found),
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
            // Killed meanwhile. Its parent sees its end only after the tracer has; truecount's own child is waited for
            // by the thread that started it.
            let ended = wait(libc::WEXITED | libc::WNOHANG | libc::WNOWAIT);
            if let Ok(Some((pid, _))) = ended
                && pid != child
            {
                let _ = wait(libc::WEXITED | libc::WNOHANG);
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Changes the stack of a program that has not yet executed an instruction.
fn apply(pid: i32, change: AtExec) -> io::Result<()> {
    let mut start = [0u8; 5];
    let exe = format!("/proc/{pid}/exe");
    io::Read::read_exact(&mut std::fs::File::open(exe)?, &mut start)?;
    if !truecount_elf::is_64_bit(&start) {
        return Err(io::Error::other("a program is not 64-bit"));
    }
    let [random, vdso] = find(pid, [AT_RANDOM, AT_SYSINFO_EHDR])?;
    if let Some(bytes) = change.random
        && let Some((_, at)) = random
    {
        write(pid, at, &bytes)?;
    }
    if change.hide_vdso
        && let Some((entry, _)) = vdso
    {
        write(pid, entry, &AT_IGNORE.to_ne_bytes())?;
    }
    Ok(())
}

/// Address and value of entries of the auxiliary vector. The stack begins at `startstack` of `proc_pid_stat(5)`.
fn find<const N: usize>(pid: i32, keys: [u64; N]) -> io::Result<[Option<(u64, u64)>; N]> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let stack = start_of_stack(&stat)
        .ok_or_else(|| io::Error::other("the kernel does not tell where the stack begins"))?;
    let mut words = Words {
        pid,
        page: None,
        bytes: [0; PAGE],
    };
    truecount_engine::auxv::entries(|at| words.at(at), stack, keys)
}

/// Field 28 of `/proc/pid/stat`, counted behind the name, which may hold anything.
#[must_use]
pub fn start_of_stack(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let start = fields.split(' ').nth(25)?.parse().ok()?;
    (start != 0).then_some(start)
}

fn remote(at: u64, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: at as *mut c_void,
        iov_len: length,
    }
}

/// Every page is a multiple of it.
const PAGE: usize = 4096;

/// Words of a process, read a page at a time.
struct Words {
    pid: i32,
    page: Option<u64>,
    bytes: [u8; PAGE],
}

impl Words {
    fn at(&mut self, at: u64) -> io::Result<u64> {
        let inside = at % PAGE as u64;
        let page = at.wrapping_sub(inside);
        if self.page != Some(page) {
            let local = libc::iovec {
                iov_base: self.bytes.as_mut_ptr().cast(),
                iov_len: PAGE,
            };
            let remote = remote(page, PAGE);
            // SAFETY: fills our bytes.
            let done = unsafe {
                libc::process_vm_readv(self.pid, &raw const local, 1, &raw const remote, 1, 0)
            };
            whole(done, PAGE)?;
            self.page = Some(page);
        }
        // The stack is aligned: no word lies in two pages.
        let word = usize::try_from(inside).ok().and_then(|from| {
            let bytes = self.bytes.get(from..)?.first_chunk::<8>()?;
            Some(u64::from_ne_bytes(*bytes))
        });
        word.ok_or_else(|| io::Error::from_raw_os_error(libc::EFAULT))
    }
}

/// Whether a transfer was of all bytes.
fn whole(done: isize, length: usize) -> io::Result<()> {
    match usize::try_from(done) {
        Ok(done) if done == length => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

pub(super) fn write(pid: i32, at: u64, bytes: &[u8]) -> io::Result<()> {
    let local = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let remote = remote(at, bytes.len());
    // SAFETY: reads our slice; the memory written is the other process's.
    let done =
        unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
    whole(done, bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_the_stack_is_found_whatever_the_name() {
        let fields: Vec<String> = (3..40).map(|n| n.to_string()).collect();
        let stat = format!("17 (a) b) {}", fields.join(" "));
        assert_eq!(start_of_stack(&stat), Some(28));
        for bad in ["", "17 (a)", "17 (a) R 1 2", "17 (a) x y z )"] {
            assert_eq!(start_of_stack(bad), None);
        }
        let me = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(start_of_stack(&me).is_some());
    }

    #[test]
    fn the_vector_of_a_process_is_found_on_its_stack() {
        let me = std::process::id().cast_signed();
        let keys = [AT_RANDOM, AT_SYSINFO_EHDR];
        let found = find(me, keys).unwrap();
        for (key, found) in keys.into_iter().zip(found) {
            // SAFETY: asks for a number.
            let told = unsafe { libc::getauxval(key as libc::c_ulong) };
            assert_eq!(found.map_or(0, |(_, value)| value), told as u64, "{key}");
        }
        assert!(found[0].is_some());
        let mut words = Words {
            pid: me,
            page: None,
            bytes: [0; PAGE],
        };
        let number = 0x1234_5678_9abc_def0u64;
        assert_eq!(
            words.at(std::ptr::from_ref(&number) as u64).unwrap(),
            number
        );
        assert!(words.at(8).is_err() && words.at(u64::MAX).is_err());
    }
}
