//! The launcher process: receives a request, starts the program, goes back to wait.
//!
//! It was forked while truecount was small and only ever grows by the arguments of one command, so
//! the peak memory that `execve` hands on stays below that of any dynamically linked program. The
//! program is started by `clone(CLONE_VM | CLONE_VFORK | CLONE_PARENT)`: no page table is copied,
//! and the new process is a child of truecount. Between `clone` and `execve` it shares this
//! process's memory and only makes system calls.
//!
//! System calls go through libc's one `syscall` function: every other wrapper lies on other pages,
//! which would count as this process's memory, and so as the program's (see [`super::shrink`]).

use std::ffi::{c_char, c_int, c_long, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Wait for a byte before `execve`.
pub(super) const FLAG_HOLD: u32 = 1;
/// Leave address space randomisation on.
pub(super) const FLAG_KEEP_ASLR: u32 = 2;
/// Make the program the leader of a new process group.
pub(super) const FLAG_GROUP: u32 = 4;
/// Strings of the environment follow the arguments: the program gets them instead of the launcher's.
pub(super) const FLAG_ENVIRONMENT: u32 = 8;
/// Two more strings: where the tree of files is bound, and the working directory there.
pub(super) const FLAG_DIRECTORY: u32 = 16;
/// Hand `getrandom` over to truecount.
pub(super) const FLAG_GETRANDOM: u32 = 32;
/// Hand `execve` over.
pub(super) const FLAG_EXEC: u32 = 64;
/// Hand `getdents64` over.
pub(super) const FLAG_FILES: u32 = 128;
/// Threads run in turn.
pub(super) const FLAG_IN_TURN: u32 = 256;
/// As many CPUs as glibc's `cpu_set_t`.
pub(super) const MAX_CPUS: usize = 1024;

/// The fixed part of a request.
#[repr(C)]
pub(super) struct Header {
    pub(super) flags: u32,
    pub(super) argc: u32,
    pub(super) envc: u32,
    pub(super) length: u32,
    pub(super) cpus: [u64; MAX_CPUS / 64],
}

/// What the new process tells truecount, in a page that both map.
#[repr(C)]
pub(super) struct Page {
    /// errno of a failed `execve`.
    pub(super) exec_errno: AtomicI32,
    /// errno of a failed `sched_setaffinity`.
    pub(super) affinity_errno: AtomicI32,
    /// errno of a failed `personality`.
    pub(super) aslr_errno: AtomicI32,
    /// errno of a failed `sched_setscheduler`.
    pub(super) in_turn_errno: AtomicI32,
    /// errno of a working directory that could not be had under another name.
    pub(super) directory_errno: AtomicI32,
    /// `CLOCK_MONOTONIC` just before `execve`.
    pub(super) started_ns: AtomicU64,
}

/// The mapping of [`Page`].
pub(super) struct Shared(*mut Page);

impl Shared {
    pub(super) fn map() -> io::Result<Self> {
        // SAFETY: a fresh anonymous mapping, zero-filled: a valid `Page`.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Page>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(page.cast()))
    }

    pub(super) fn page(&self) -> &Page {
        // SAFETY: mapped for the life of `self`; all fields are atomics.
        unsafe { &*self.0 }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size; no reference outlives `self`.
        unsafe { libc::munmap(self.0.cast(), size_of::<Page>()) };
    }
}

/// Sends `header` with three descriptors attached.
pub(super) fn send_header(socket: RawFd, header: &Header, fds: [RawFd; 3]) -> io::Result<()> {
    let mut control = [0u64; 8];
    let mut part = libc::iovec {
        iov_base: std::ptr::from_ref(header).cast_mut().cast(),
        iov_len: size_of::<Header>(),
    };
    // SAFETY: msghdr is plain data; all pointers are to locals that outlive the call, and
    // `control` (64 bytes, aligned for cmsghdr) holds CMSG_SPACE(12) = 32 bytes.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(12) as _;
        let cmsg = libc::CMSG_FIRSTHDR(&raw const message);
        (*cmsg).cmsg_level = libc::SOL_SOCKET;
        (*cmsg).cmsg_type = libc::SCM_RIGHTS;
        (*cmsg).cmsg_len = libc::CMSG_LEN(12) as _;
        std::ptr::copy_nonoverlapping(fds.as_ptr().cast(), libc::CMSG_DATA(cmsg), 12);
        libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL)
    };
    if usize::try_from(sent) == Ok(size_of::<Header>()) {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Receives a header and its descriptors; `None` when truecount has gone away.
fn receive_header(socket: RawFd) -> Option<(Header, [RawFd; 3])> {
    let mut header = MaybeUninit::<Header>::zeroed();
    let mut control = [0u64; 8];
    let mut part = libc::iovec {
        iov_base: header.as_mut_ptr().cast(),
        iov_len: size_of::<Header>(),
    };
    let mut fds = [-1; 3];
    // SAFETY: as in `send_header`; the header is plain integers, valid for any bytes.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = 64;
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_WAITALL;
        let got = libc::syscall(libc::SYS_recvmsg, socket, &raw mut message, flags);
        if usize::try_from(got) != Ok(size_of::<Header>()) {
            return None;
        }
        let cmsg = libc::CMSG_FIRSTHDR(&raw const message);
        if cmsg.is_null() || (*cmsg).cmsg_type != libc::SCM_RIGHTS {
            return None;
        }
        std::ptr::copy_nonoverlapping(libc::CMSG_DATA(cmsg), fds.as_mut_ptr().cast(), 12);
        Some((header.assume_init(), fds))
    }
}

/// What the new process needs, readable without allocation.
struct Child<'a> {
    program: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
    directory: [*const c_char; 2],
    header: &'a Header,
    fds: [RawFd; 3],
    socket: RawFd,
    page: &'a Page,
    mask: &'a libc::sigset_t,
}

/// The life of the launcher: one request after the other until truecount goes away.
pub(super) fn serve(
    socket: RawFd,
    shared: &Shared,
    mask: &libc::sigset_t,
    parent: libc::pid_t,
) -> ! {
    // SAFETY: plain calls; the second check closes the race with a parent that died before prctl.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            libc::_exit(0);
        }
    }
    super::shrink::shrink();
    let mut stack = vec![0u128; 2048];
    let mut payload: Vec<u8> = Vec::new();
    let mut argv: Vec<*const c_char> = Vec::new();
    while let Some((header, fds)) = receive_header(socket) {
        payload.resize(header.length as usize, 0);
        if !receive_exact(socket, &mut payload) {
            break;
        }
        // The program; its arguments and a null; its environment and a null; the directory.
        let null = std::ptr::null();
        let (arguments, variables) = (header.argc as usize, header.envc as usize);
        let mut words = payload
            .split_inclusive(|&byte| byte == 0)
            .map(|word| word.as_ptr().cast::<c_char>());
        argv.clear();
        argv.extend(words.by_ref().take(arguments.saturating_add(1)));
        argv.push(null);
        argv.extend(words.by_ref().take(variables));
        argv.push(null);
        let directory = [words.next().unwrap_or(null), words.next().unwrap_or(null)];
        let variables = argv.get(arguments.saturating_add(2)..);
        let child = Child {
            program: argv.first().copied().unwrap_or(null),
            argv: argv.get(1..).unwrap_or_default().as_ptr(),
            envp: if header.flags & FLAG_ENVIRONMENT == 0 {
                // SAFETY: nobody changes the environment in this process.
                unsafe { environ }
            } else {
                variables.unwrap_or(&[null]).as_ptr()
            },
            directory,
            header: &header,
            fds,
            socket,
            page: shared.page(),
            mask,
        };
        let top = stack.as_mut_ptr_range().end;
        // SAFETY: `start` runs on its own stack of 32 KiB while this thread is suspended
        // (CLONE_VFORK), so `child` outlives its use; it ends in execve or _exit.
        let pid = unsafe {
            libc::clone(
                start,
                top.cast(),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT | libc::SIGCHLD,
                std::ptr::from_ref(&child).cast_mut().cast::<c_void>(),
            )
        };
        if pid < 0 {
            let errno = -io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EAGAIN);
            send_i32(socket, errno);
        }
        for fd in fds {
            // SAFETY: received for this request only.
            unsafe { libc::syscall(libc::SYS_close, fd) };
        }
    }
    // SAFETY: leaves without running truecount's exit handlers in this copy.
    unsafe { libc::_exit(0) }
}

fn receive_exact(socket: RawFd, bytes: &mut [u8]) -> bool {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        // SAFETY: `rest` is valid for writing.
        let got = unsafe {
            let none = std::ptr::null_mut::<c_void>();
            libc::syscall(
                libc::SYS_recvfrom,
                socket,
                rest.as_mut_ptr(),
                rest.len(),
                0,
                none,
                none,
            )
        };
        match usize::try_from(got) {
            Ok(0) => return false,
            Ok(got) => filled += got,
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

fn send_i32(socket: RawFd, value: i32) {
    let bytes = value.to_ne_bytes();
    // SAFETY: four readable bytes.
    unsafe {
        let none = std::ptr::null_mut::<c_void>();
        libc::syscall(
            libc::SYS_sendto,
            socket,
            bytes.as_ptr(),
            4,
            libc::MSG_NOSIGNAL,
            none,
            0,
        );
    }
}

/// What the program's filter hands over.
fn calls(flags: u32) -> crate::determinism::Calls {
    crate::determinism::Calls {
        getrandom: flags & FLAG_GETRANDOM != 0,
        exec: flags & FLAG_EXEC != 0,
        files: flags & FLAG_FILES != 0,
    }
}

fn errno() -> i32 {
    // SAFETY: the address of this thread's errno is always valid.
    unsafe { *libc::__errno_location() }
}

/// The new process, between `clone` and `execve`.
extern "C" fn start(child: *mut c_void) -> c_int {
    // SAFETY: `serve` passes a live `Child`; everything below is async-signal-safe.
    unsafe {
        let child = &*child.cast::<Child<'_>>();
        // Rust ignores SIGPIPE at start-up; programs expect the default. A zeroed kernel sigaction
        // (handler, flags, restorer, mask of 8 bytes) is SIG_DFL.
        let default = [0u64; 4];
        let none = std::ptr::null_mut::<c_void>();
        libc::syscall(
            libc::SYS_rt_sigaction,
            libc::SIGPIPE,
            default.as_ptr(),
            none,
            8,
        );
        if child.header.flags & FLAG_GROUP != 0 {
            libc::syscall(libc::SYS_setpgid, 0, 0);
        }
        let pid = libc::syscall(libc::SYS_getpid);
        send_i32(child.socket, i32::try_from(pid).unwrap_or(0));
        let mut ready = true;
        for (fd, target) in child.fds.iter().zip(0..) {
            if libc::syscall(libc::SYS_dup3, *fd, target, 0) < 0 {
                child.page.exec_errno.store(errno(), Ordering::Release);
                ready = false;
            }
        }
        if child.header.flags & FLAG_KEEP_ASLR == 0 {
            let now = libc::syscall(libc::SYS_personality, 0xffff_ffff as c_long);
            let wanted = now | c_long::from(libc::ADDR_NO_RANDOMIZE);
            if now < 0 || libc::syscall(libc::SYS_personality, wanted) < 0 {
                child.page.aslr_errno.store(errno(), Ordering::Release);
            }
        }
        if child.header.cpus.iter().any(|&word| word != 0) {
            let size = size_of_val(&child.header.cpus);
            let set = child.header.cpus.as_ptr();
            if libc::syscall(libc::SYS_sched_setaffinity, 0, size, set) < 0 {
                child.page.affinity_errno.store(errno(), Ordering::Release);
                ready = false;
            }
        }
        if child.header.flags & FLAG_IN_TURN != 0 {
            let errno = crate::determinism::threads::set();
            child.page.in_turn_errno.store(errno, Ordering::Release);
        }
        if child.header.flags & FLAG_DIRECTORY != 0 {
            let [root, inside] = child.directory;
            let errno = crate::determinism::mount_ns::enter(root, inside);
            child.page.directory_errno.store(errno, Ordering::Release);
            ready &= errno == 0;
        }
        let calls = calls(child.header.flags);
        if calls.any() {
            // From here on, everything but `execve` passes.
            let listener = match crate::determinism::Filter::new(calls).install() {
                Ok(fd) => fd,
                Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
            };
            send_i32(child.socket, listener);
        }
        if child.header.flags & FLAG_HOLD != 0 {
            let mut answer = [0u8; 1];
            ready &= receive_exact(child.socket, &mut answer) && answer == [b'g'];
        }
        if !ready {
            libc::syscall(libc::SYS_exit, 125);
        }
        let mask = std::ptr::from_ref(child.mask);
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, mask, none, 8);
        let mut time = MaybeUninit::<libc::timespec>::zeroed();
        libc::syscall(
            libc::SYS_clock_gettime,
            libc::CLOCK_MONOTONIC,
            time.as_mut_ptr(),
        );
        let started = super::wait::nanoseconds(&time.assume_init());
        child.page.started_ns.store(started, Ordering::Release);
        libc::syscall(libc::SYS_execve, child.program, child.argv, child.envp);
        child.page.exec_errno.store(errno(), Ordering::Release);
        libc::syscall(libc::SYS_exit, 127);
    }
    127
}

unsafe extern "C" {
    static environ: *const *const c_char;
}
