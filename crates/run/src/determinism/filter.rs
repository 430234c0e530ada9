//! The seccomp filter that hands chosen system calls to truecount (`seccomp(2)`, `seccomp_unotify(2)`, classic BPF:
//! kernel `Documentation/networking/filter.rst`). It is inherited by everything that the program starts.
//!
//! Everything else passes; a kernel from 5.11 on keeps a bitmap of what always passes, so that a system call costs a
//! few instructions of the kernel more and none of the program.

use std::io;
use std::os::fd::RawFd;

/// Which calls are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// `getrandom`.
    pub getrandom: bool,
    /// `execve` and `execveat`.
    pub exec: bool,
    /// `getdents64`, and what was before it.
    pub files: bool,
}

impl Calls {
    /// Whether any call is handed over.
    pub fn any(self) -> bool {
        self.getrandom || self.exec || self.files
    }

    fn numbers(self) -> [Option<u32>; 5] {
        let number = |wanted: bool, number: libc::c_long| {
            wanted.then(|| u32::try_from(number).ok()).flatten()
        };
        let [files, old] = super::files::CALLS;
        [
            number(self.getrandom, libc::SYS_getrandom),
            number(self.exec, libc::SYS_execve),
            number(self.exec, libc::SYS_execveat),
            files.and_then(|call| number(self.files, call)),
            old.and_then(|call| number(self.files, call)),
        ]
    }
}

const FILTER_SPEC_ALLOW: libc::c_ulong = 1 << 2;
const FILTER_NEW_LISTENER: libc::c_ulong = 1 << 3;
/// The caller waits for its answer also when a signal arrives, unless it kills: it would make the call again, which may
/// have had an effect. Linux 5.19 or later.
const FILTER_WAIT_KILLABLE: libc::c_ulong = 1 << 5;
const SET_MODE_FILTER: libc::c_ulong = 1;
const RETURN_USER_NOTIF: u32 = 0x7fc0_0000;
const RETURN_ALLOW: u32 = 0x7fff_0000;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// The most instructions of a filter.
const MAX_INSTRUCTIONS: usize = 10;

/// The program; the second value is its length.
fn program(calls: Calls) -> ([libc::sock_filter; MAX_INSTRUCTIONS], u16) {
    let op = |code: u16, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let allow = op(0x06, 0, 0, RETURN_ALLOW);
    let mut filter = [allow; MAX_INSTRUCTIONS];
    let wanted = calls.numbers().into_iter().flatten();
    let count = u8::try_from(wanted.clone().count()).unwrap_or(0);
    let head = [
        op(0x20, 0, 0, 4), // load the architecture
        op(0x15, 0, count.saturating_add(1), ARCH),
        op(0x20, 0, 0, 0), // load the number
    ];
    // Equal: to the last instruction, behind those that are left and the one that allows.
    let tests = (1..=count)
        .rev()
        .zip(wanted)
        .map(|(left, number)| op(0x15, left, 0, number));
    let tail = [allow, op(0x06, 0, 0, RETURN_USER_NOTIF)];
    let mut length = 0u16;
    for (to, from) in filter
        .iter_mut()
        .zip(head.into_iter().chain(tests).chain(tail))
    {
        *to = from;
        length = length.saturating_add(1);
    }
    (filter, length)
}

/// A filter that can be installed between `fork` and `execve`.
#[derive(Clone, Copy)]
pub struct Filter {
    instructions: [libc::sock_filter; MAX_INSTRUCTIONS],
    length: u16,
}

impl Filter {
    /// The filter that hands these calls over.
    pub fn new(calls: Calls) -> Self {
        let (instructions, length) = program(calls);
        Self {
            instructions,
            length,
        }
    }

    /// Installs it in the calling thread and gives the listener. Only system calls, by libc's `syscall`.
    pub fn install(&self) -> io::Result<RawFd> {
        let program = libc::sock_fprog {
            len: self.length,
            filter: self.instructions.as_ptr().cast_mut(),
        };
        let attempt = |more: libc::c_ulong| {
            // SAFETY: the kernel copies the filter, which lives as long as the call. SPEC_ALLOW: kernels before 5.16
            // would switch speculation off for a thread with a filter, and it would be slower.
            unsafe {
                libc::syscall(
                    libc::SYS_seccomp,
                    SET_MODE_FILTER,
                    FILTER_NEW_LISTENER | FILTER_SPEC_ALLOW | more,
                    &raw const program,
                )
            }
        };
        let refused = |errno: i32| io::Error::last_os_error().raw_os_error() == Some(errno);
        let mut more = FILTER_WAIT_KILLABLE;
        let mut fd = attempt(more);
        if fd < 0 && refused(libc::EINVAL) {
            more = 0;
            fd = attempt(more);
        }
        if fd < 0 && refused(libc::EACCES) {
            // Without CAP_SYS_ADMIN a filter needs the promise that no program gains privileges.
            // SAFETY: no memory is involved.
            unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            fd = attempt(more);
        }
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        RawFd::try_from(fd).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter says to a call: the machine of classic BPF, as far as it is used.
    fn judge(calls: Calls, arch: u32, number: u32) -> u32 {
        let (filter, length) = program(calls);
        let (mut at, mut loaded) = (0usize, 0);
        loop {
            assert!(at < usize::from(length), "it leaves the filter");
            let now = filter[at];
            at += 1;
            match now.code {
                0x20 => loaded = if now.k == 4 { arch } else { number },
                0x15 => at += usize::from(if loaded == now.k { now.jt } else { now.jf }),
                0x06 => return now.k,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn only_what_is_wanted_is_handed_over() {
        let number = |n: libc::c_long| u32::try_from(n).unwrap();
        let (random, exec, execat, files) = (
            number(libc::SYS_getrandom),
            number(libc::SYS_execve),
            number(libc::SYS_execveat),
            number(libc::SYS_getdents64),
        );
        for wanted in 0..8 {
            let calls = Calls {
                getrandom: wanted & 1 != 0,
                exec: wanted & 2 != 0,
                files: wanted & 4 != 0,
            };
            let told = |call| judge(calls, ARCH, call) == RETURN_USER_NOTIF;
            assert_eq!(told(random), calls.getrandom);
            assert_eq!((told(exec), told(execat)), (calls.exec, calls.exec));
            assert_eq!(told(files), calls.files);
            #[cfg(target_arch = "x86_64")]
            assert_eq!(told(number(libc::SYS_getdents)), calls.files);
            assert!(!told(0) && !told(u32::MAX));
            // 32-bit programs number their calls otherwise.
            for call in [random, exec, files] {
                assert_eq!(judge(calls, ARCH ^ 1, call), RETURN_ALLOW);
            }
        }
    }
}
