//! `getrandom` with answers that are the same in every run: a seccomp filter in the child hands
//! each call to a thread of truecount, which writes the bytes (`seccomp(2)`, `seccomp_unotify(2)`;
//! Linux 5.6 or later for `pidfd_getfd(2)`). It holds for the program's children, too, and is the
//! same with and without the virtual PMU, as no instruction of the program changes.
//!
//! Not covered: `/dev/urandom`, `rdrand`, and the vDSO's getrandom (Linux 6.11 with glibc 2.41)
//! unless the vDSO is hidden, too.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use truecount_stats::Rng;

use crate::failure::Failure;

/// `struct seccomp_notif` of linux/seccomp.h.
#[repr(C)]
#[derive(Default)]
struct Notice {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    arch: u32,
    pc: u64,
    args: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `_IOWR('!', 0, struct seccomp_notif)` and its fellows.
const RECEIVE: u64 = 0xc050_2100;
const SEND: u64 = 0xc018_2101;
const STILL_VALID: u64 = 0x4008_2102;
const FILTER_NEW_LISTENER: libc::c_ulong = 1 << 3;
const SET_MODE_FILTER: libc::c_ulong = 1;
const RETURN_USER_NOTIF: u32 = 0x7fc0_0000;
const RETURN_ALLOW: u32 = 0x7fff_0000;
const CONTINUE: u32 = 1;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// Classic BPF: `getrandom` of this architecture is told, everything else passes.
fn program() -> [libc::sock_filter; 6] {
    let op = |code: u16, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    [
        op(0x20, 0, 0, 4), // load the architecture
        op(0x15, 0, 3, ARCH),
        op(0x20, 0, 0, 0), // load the number
        op(0x15, 0, 1, libc::SYS_getrandom as u32),
        op(0x06, 0, 0, RETURN_USER_NOTIF),
        op(0x06, 0, 0, RETURN_ALLOW),
    ]
}

/// Installs the filter in the calling thread and gives the listener. Only system calls.
fn install(filter: &[libc::sock_filter; 6]) -> io::Result<RawFd> {
    let program = libc::sock_fprog {
        len: 6,
        filter: filter.as_ptr().cast_mut(),
    };
    let attempt = || {
        // SAFETY: the kernel copies the filter, which lives as long as the call.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                SET_MODE_FILTER,
                FILTER_NEW_LISTENER,
                &raw const program,
            )
        }
    };
    let mut fd = attempt();
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EACCES) {
        // Without CAP_SYS_ADMIN a filter needs the promise that no program gains privileges.
        // SAFETY: no memory is involved.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        fd = attempt();
    }
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    RawFd::try_from(fd).map_err(io::Error::other)
}

/// The thread that answers, for the life of one run.
pub(crate) struct Answers {
    stop: Arc<AtomicBool>,
    /// errno of what failed before the program started.
    errno: Arc<AtomicI32>,
    /// The child's ends, as long as truecount holds them, too.
    ends: Mutex<Option<(OwnedFd, OwnedFd)>>,
    thread: Option<JoinHandle<()>>,
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds: [RawFd; 2] = [-1; 2];
    // SAFETY: two descriptors into our array; each is owned once.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        let [read, write] = fds;
        Ok((OwnedFd::from_raw_fd(read), OwnedFd::from_raw_fd(write)))
    }
}

impl Answers {
    /// Makes `command` start with the filter, and starts the thread.
    ///
    /// # Errors
    /// 125 when there are no pipes.
    pub(crate) fn prepare(command: &mut Command, seed: u64) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::new(125, format!("--deterministic: {error}"));
        let (from_child, tell) = pipe().map_err(failed)?;
        let (wait, to_child) = pipe().map_err(failed)?;
        let (tell_fd, wait_fd) = (tell.as_raw_fd(), wait.as_raw_fd());
        let filter = program();
        // SAFETY: only system calls on values that the closure owns; all are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                let listener = match install(&filter) {
                    Ok(fd) => fd,
                    Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
                };
                let message = [libc::getpid(), listener];
                libc::write(tell_fd, message.as_ptr().cast(), 8);
                let mut byte = 0u8;
                let got = libc::read(wait_fd, (&raw mut byte).cast(), 1);
                if listener < 0 || got != 1 {
                    return Err(io::Error::from_raw_os_error(libc::ECANCELED));
                }
                Ok(())
            });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let errno = Arc::new(AtomicI32::new(0));
        let (stopped, problem) = (Arc::clone(&stop), Arc::clone(&errno));
        let thread = std::thread::spawn(move || match take(from_child, to_child) {
            Ok(Some(listener)) => answer(&listener, &stopped, seed),
            Ok(None) => {}
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                problem.store(errno, Ordering::Release);
            }
        });
        Ok(Self {
            stop,
            errno,
            ends: Mutex::new(Some((tell, wait))),
            thread: Some(thread),
        })
    }

    /// The program runs: only it holds its ends now.
    pub(crate) fn started(&self) {
        if let Ok(mut ends) = self.ends.lock() {
            ends.take();
        }
    }

    /// Why the program was not started, when that was the reason.
    pub(crate) fn problem(&self) -> Option<Failure> {
        let errno = self.errno.load(Ordering::Acquire);
        (errno != 0).then(|| {
            Failure::new(
                125,
                format!(
                    "getrandom cannot be answered here (seccomp user notification): {}",
                    io::Error::from_raw_os_error(errno)
                ),
            )
            .mend("leave it out: --deterministic=aslr,at-random,clock,env,malloc,cpu")
        })
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.started();
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes the listener out of the child and lets it go on; `None` when no child came.
fn take(from_child: OwnedFd, to_child: OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut message = [0u8; 8];
    if std::fs::File::from(from_child)
        .read_exact(&mut message)
        .is_err()
    {
        return Ok(None);
    }
    let [a, b, c, d, e, f, g, h] = message;
    let (pid, fd) = (
        i32::from_ne_bytes([a, b, c, d]),
        i32::from_ne_bytes([e, f, g, h]),
    );
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: no memory is involved; fresh descriptors are owned once.
    let listener = unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if process < 0 {
            return Err(io::Error::last_os_error());
        }
        let process = OwnedFd::from_raw_fd(RawFd::try_from(process).map_err(io::Error::other)?);
        let listener = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0);
        if listener < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(RawFd::try_from(listener).map_err(io::Error::other)?)
    };
    std::fs::File::from(to_child).write_all(&[1])?;
    Ok(Some(listener))
}

/// Each thread has its own stream, numbered in the order of their first calls: it does not
/// depend on process numbers.
#[derive(Default)]
struct Streams(HashMap<u32, Rng>);

impl Streams {
    fn fill(&mut self, thread: u32, seed: u64, bytes: &mut [u8]) {
        let number = self.0.len() as u64;
        let stream = self
            .0
            .entry(thread)
            .or_insert_with(|| Rng::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        for part in bytes.chunks_mut(8) {
            let word = stream.next_u64().to_ne_bytes();
            part.iter_mut().zip(word).for_each(|(to, from)| *to = from);
        }
    }
}

/// Answers until nobody is left who could ask, or truecount stops.
fn answer(listener: &OwnedFd, stop: &AtomicBool, seed: u64) {
    let mut streams = Streams::default();
    while !stop.load(Ordering::Acquire) {
        let mut poll = libc::pollfd {
            fd: listener.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd of ours.
        let ready = unsafe { libc::poll(&raw mut poll, 1, 50) };
        if ready <= 0 {
            continue;
        }
        if poll.revents & libc::POLLIN == 0 {
            return; // hung up: the last process with the filter has ended
        }
        let mut notice = Notice::default();
        // SAFETY: the kernel fills the structure, whose size is in the request's number.
        if unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut notice) } < 0 {
            continue; // the caller was interrupted meanwhile
        }
        let response = serve(listener, &notice, &mut streams, seed);
        // SAFETY: as above; a caller that has gone is no error.
        unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const response) };
    }
}

/// One call of `getrandom(buffer, length, flags)`.
fn serve(listener: &OwnedFd, notice: &Notice, streams: &mut Streams, seed: u64) -> Response {
    /// The kernel gives no more at once (`MAX_RW_COUNT`, drivers/char/random.c).
    const MOST: u64 = 0x7fff_f000;
    const PIECE: usize = 64 << 10;
    let mut response = Response {
        id: notice.id,
        value: 0,
        error: 0,
        flags: 0,
    };
    let [buffer, length, flags, ..] = notice.args;
    let (random, insecure) = (2, 4);
    if flags & !7 != 0 || flags & (random | insecure) == random | insecure {
        response.flags = CONTINUE; // the kernel says what is wrong
        return response;
    }
    let length = length.min(MOST);
    let mut done: u64 = 0;
    let mut piece = vec![0u8; PIECE.min(usize::try_from(length).unwrap_or(PIECE))];
    while done < length {
        let now = usize::try_from(length - done).map_or(PIECE, |left| left.min(PIECE));
        let Some(bytes) = piece.get_mut(..now) else {
            break;
        };
        streams.fill(notice.pid, seed, bytes);
        // SAFETY: reads our slice and the id, writes the caller's memory; the check keeps it from
        // being another process that has got the number.
        let written = unsafe {
            let valid = libc::ioctl(listener.as_raw_fd(), STILL_VALID as _, &raw const notice.id);
            let local = libc::iovec {
                iov_base: bytes.as_mut_ptr().cast(),
                iov_len: now,
            };
            let remote = libc::iovec {
                iov_base: buffer.wrapping_add(done) as *mut libc::c_void,
                iov_len: now,
            };
            if valid < 0 {
                -1
            } else {
                let pid = notice.pid.cast_signed();
                libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0)
            }
        };
        match u64::try_from(written) {
            Ok(written) if written > 0 => done += written,
            _ => break,
        }
    }
    if done == 0 && length > 0 {
        response.error = -libc::EFAULT;
    } else {
        response.value = done.cast_signed();
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_the_order_of_threads_and_not_on_their_numbers() {
        let draw = |threads: [u32; 3]| {
            let mut streams = Streams::default();
            threads.map(|thread| {
                let mut bytes = [0u8; 12];
                streams.fill(thread, 5, &mut bytes);
                bytes
            })
        };
        let [a, b, c] = draw([10, 20, 10]);
        assert_eq!([a, b, c], draw([7, 3, 7]));
        assert!(a != b && a != c && b != c);
    }
}
