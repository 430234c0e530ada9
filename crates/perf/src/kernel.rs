//! The perf system calls as a trait, so that everything above can run on a scripted kernel.
//!
//! [`Linux`] is the real one. [`crate::fake::FakeKernel`] is the other implementation.
//! Source: perf_event_open(2), `include/uapi/linux/perf_event.h` (the `PERF_EVENT_IOC_*` requests).

use std::ffi::{CStr, c_int, c_long, c_ulong};
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use perf_event_open_sys as sys;
use sys::bindings as abi;

use crate::errno::Errno;
use crate::facts::Facts;

/// A request to `ioctl(2)` on a perf event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ioctl<'a> {
    /// `PERF_EVENT_IOC_ENABLE`; with `group`, all members of its group.
    Enable {
        /// Apply to the whole group (`PERF_IOC_FLAG_GROUP`).
        group: bool,
    },
    /// `PERF_EVENT_IOC_DISABLE`; with `group`, all members of its group.
    Disable {
        /// Apply to the whole group (`PERF_IOC_FLAG_GROUP`).
        group: bool,
    },
    /// `PERF_EVENT_IOC_RESET`: the count becomes 0 (the times do not).
    Reset {
        /// Apply to the whole group (`PERF_IOC_FLAG_GROUP`).
        group: bool,
    },
    /// `PERF_EVENT_IOC_REFRESH`: enable for this many overflows.
    Refresh(i32),
    /// `PERF_EVENT_IOC_PERIOD`: a new sample period (or frequency, for frequency events).
    Period(u64),
    /// `PERF_EVENT_IOC_SET_OUTPUT`: write samples into the ring of this descriptor; -1 detaches.
    SetOutput(i32),
    /// `PERF_EVENT_IOC_SET_FILTER`: a tracepoint or address filter.
    SetFilter(&'a CStr),
    /// `PERF_EVENT_IOC_ID`: the event's unique number.
    Id,
    /// `PERF_EVENT_IOC_SET_BPF`: attach the program of this descriptor.
    SetBpf(u32),
    /// `PERF_EVENT_IOC_PAUSE_OUTPUT`: stop (true) or resume writing to the ring.
    PauseOutput(bool),
    /// `PERF_EVENT_IOC_MODIFY_ATTRIBUTES`: breakpoints can change their address in place.
    ModifyAttributes(&'a RawAttr),
}

/// The kernel's `perf_event_attr`, comparable and printable by its bytes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct RawAttr(pub abi::perf_event_attr);

impl RawAttr {
    /// The attribute as the bytes that the kernel sees.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: perf_event_attr is a C struct of integers without padding (its size is checked by
        // bindgen); it was created zeroed, so all its bytes are initialised.
        unsafe {
            std::slice::from_raw_parts(
                std::ptr::from_ref(&self.0).cast::<u8>(),
                std::mem::size_of::<abi::perf_event_attr>(),
            )
        }
    }
}

impl PartialEq for RawAttr {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for RawAttr {}

impl fmt::Debug for RawAttr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawAttr")
            .field("type", &self.0.type_)
            .field("config", &format_args!("{:#x}", self.0.config))
            .finish_non_exhaustive()
    }
}

/// What a poll of a ring said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready {
    /// There is something to read (`POLLIN`).
    pub readable: bool,
    /// The monitored task has ended (`POLLHUP`), or the descriptor is in error (`POLLERR`).
    pub hung_up: bool,
}

/// The system calls that perf events need. All methods return the errno of a failure untouched.
pub trait Kernel: Send + Sync + fmt::Debug {
    /// `perf_event_open(2)`: a new descriptor. After `E2BIG` the kernel has put the size it knows into `attr.size`.
    ///
    /// # Errors
    /// The errno of the system call.
    fn perf_event_open(
        &self,
        attr: &mut RawAttr,
        pid: i32,
        cpu: i32,
        group_fd: i32,
        flags: u64,
    ) -> Result<i32, Errno>;

    /// `read(2)`: how many bytes were written to `buffer`.
    ///
    /// # Errors
    /// The errno of the system call.
    fn read(&self, fd: i32, buffer: &mut [u64]) -> Result<usize, Errno>;

    /// `ioctl(2)`; the value is the number that [`Ioctl::Id`] asks for and 0 otherwise.
    ///
    /// # Errors
    /// The errno of the system call.
    fn ioctl(&self, fd: i32, request: Ioctl<'_>) -> Result<u64, Errno>;

    /// `mmap(2)` of `len` bytes, shared, at offset 0. The memory stays valid until [`Kernel::munmap`].
    ///
    /// # Errors
    /// The errno of the system call.
    fn mmap(&self, fd: i32, len: usize, writable: bool) -> Result<NonNull<u8>, Errno>;

    /// `munmap(2)`.
    ///
    /// # Safety
    /// `start` and `len` must come from one call of [`Kernel::mmap`] of this kernel, nothing may use
    /// the memory any more, and it must not have been unmapped before.
    unsafe fn munmap(&self, start: NonNull<u8>, len: usize);

    /// `poll(2)` for one descriptor; `timeout_ms` < 0 waits for ever. A signal is reported as `EINTR`.
    ///
    /// # Errors
    /// The errno of the system call.
    fn poll(&self, fd: i32, timeout_ms: i32) -> Result<Ready, Errno>;

    /// `close(2)`.
    fn close(&self, fd: i32);

    /// The facts about this machine that explain an error; asked for only after one.
    fn facts(&self) -> Facts;

    /// Bytes of a page of memory.
    fn page_size(&self) -> usize;
}

/// A kernel that events can share and hold on to.
pub type SharedKernel = Arc<dyn Kernel>;

/// The running kernel.
#[must_use]
pub fn linux() -> SharedKernel {
    static LINUX: OnceLock<SharedKernel> = OnceLock::new();
    Arc::clone(LINUX.get_or_init(|| Arc::new(Linux)))
}

/// The running kernel, by system calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Linux;

impl Kernel for Linux {
    fn perf_event_open(
        &self,
        attr: &mut RawAttr,
        pid: i32,
        cpu: i32,
        group_fd: i32,
        flags: u64,
    ) -> Result<i32, Errno> {
        // On 32-bit targets the flags still fit: the kernel defines four of them.
        let flags = flags as c_ulong;
        // SAFETY: `attr` is an initialised perf_event_attr whose size field is at most its size (set by
        // EventAttr::raw); events only observe, except for sigtrap and breakpoints, which are asked
        // for explicitly and deliver signals, not memory effects.
        let fd = unsafe { sys::perf_event_open(&raw mut attr.0, pid, cpu, group_fd, flags) };
        if fd < 0 { Err(Errno::last()) } else { Ok(fd) }
    }

    fn read(&self, fd: i32, buffer: &mut [u64]) -> Result<usize, Errno> {
        loop {
            // SAFETY: the pointer and length describe `buffer`, which is writable for the whole call.
            let n = unsafe {
                libc::read(
                    fd,
                    buffer.as_mut_ptr().cast(),
                    std::mem::size_of_val(buffer),
                )
            };
            match usize::try_from(n) {
                Ok(n) => return Ok(n),
                Err(_) => match Errno::last() {
                    Errno::EINTR => {}
                    errno => return Err(errno),
                },
            }
        }
    }

    fn ioctl(&self, fd: i32, request: Ioctl<'_>) -> Result<u64, Errno> {
        let group = |group: bool| if group { abi::PERF_IOC_FLAG_GROUP } else { 0 };
        let mut id = 0u64;
        // Unsigned long with glibc, int with musl.
        #[allow(clippy::cast_lossless)]
        let set_output = abi::SET_OUTPUT as libc::Ioctl;
        // SAFETY: each request is called with the argument type the kernel expects; pointers are to
        // live values for the duration of the call, and the kernel only writes to `id` (for ID).
        // SET_FILTER and MODIFY_ATTRIBUTES take mutable pointers by binding, but the kernel only reads.
        let status: c_int = unsafe {
            use sys::ioctls;
            match request {
                Ioctl::Enable { group: g } => ioctls::ENABLE(fd, group(g)),
                Ioctl::Disable { group: g } => ioctls::DISABLE(fd, group(g)),
                Ioctl::Reset { group: g } => ioctls::RESET(fd, group(g)),
                Ioctl::Refresh(n) => ioctls::REFRESH(fd, n),
                // The request takes a pointer to the period; the binding's type for it is u64.
                Ioctl::Period(period) => ioctls::PERIOD(fd, (&raw const period) as usize as u64),
                // The kernel compares an unsigned long with -1; the binding passes an int, whose upper
                // half would be 0 and detaching EBADF.
                Ioctl::SetOutput(other) => libc::ioctl(fd, set_output, c_long::from(other)),
                Ioctl::SetFilter(text) => ioctls::SET_FILTER(fd, text.as_ptr().cast_mut()),
                Ioctl::Id => ioctls::ID(fd, &raw mut id),
                Ioctl::SetBpf(program) => ioctls::SET_BPF(fd, program),
                Ioctl::PauseOutput(pause) => ioctls::PAUSE_OUTPUT(fd, u32::from(pause)),
                Ioctl::ModifyAttributes(attr) => {
                    ioctls::MODIFY_ATTRIBUTES(fd, (&raw const attr.0).cast_mut())
                }
            }
        };
        if status < 0 {
            Err(Errno::last())
        } else {
            Ok(id)
        }
    }

    fn mmap(&self, fd: i32, len: usize, writable: bool) -> Result<NonNull<u8>, Errno> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a fresh shared mapping at an address the kernel picks touches no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        NonNull::new(start.cast()).ok_or(Errno::ENOMEM)
    }

    unsafe fn munmap(&self, start: NonNull<u8>, len: usize) {
        // SAFETY: by the contract of the trait the range is one mapping that nothing uses any more.
        let _ = unsafe { libc::munmap(start.as_ptr().cast(), len) };
    }

    fn poll(&self, fd: i32, timeout_ms: i32) -> Result<Ready, Errno> {
        let mut entry = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd, and the count says one.
        let n = unsafe { libc::poll(&raw mut entry, 1, timeout_ms) };
        if n < 0 {
            return Err(Errno::last());
        }
        Ok(Ready {
            readable: entry.revents & libc::POLLIN != 0,
            hung_up: entry.revents & (libc::POLLHUP | libc::POLLERR) != 0,
        })
    }

    fn close(&self, fd: i32) {
        // SAFETY: the descriptor belongs to the event that is being dropped. Errors leave nothing to do.
        let _ = unsafe { libc::close(fd) };
    }

    fn facts(&self) -> Facts {
        Facts::gather(&crate::probe::Root::system())
    }

    fn page_size(&self) -> usize {
        static SIZE: OnceLock<usize> = OnceLock::new();
        *SIZE.get_or_init(|| {
            // SAFETY: sysconf has no preconditions.
            let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            usize::try_from(size).unwrap_or(4096)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_attribute_keeps_its_errno() {
        let mut attr = RawAttr(abi::perf_event_attr::default());
        attr.0.size = 8; // smaller than PERF_ATTR_SIZE_VER0
        match Linux.perf_event_open(&mut attr, 0, -1, -1, 0) {
            // E2BIG by the kernel; a sandbox may answer first with one of the others.
            Err(Errno::E2BIG | Errno::EPERM | Errno::ENOSYS | Errno::EACCES) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn closed_descriptors_are_ebadf() {
        assert_eq!(Linux.read(-1, &mut [0; 4]), Err(Errno::EBADF));
        assert_eq!(Linux.ioctl(-1, Ioctl::Id), Err(Errno::EBADF));
        assert_eq!(Linux.mmap(-1, 4096, false), Err(Errno::EBADF));
    }
}
