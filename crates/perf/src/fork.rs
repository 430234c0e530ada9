//! What a forked child has of its parent's counters: nothing that it may use. The descriptors are of the parent's
//! events, the pages are not mapped (`VM_DONTCOPY` in `perf_mmap`, kernel/events/core.c), and an instruction that reads
//! a register faults, because a process may read while it has such a page mapped (`mm_context_t::perf_rdpmc_allowed`).
//!
//! So events that ask for it ([`ForkGuard`]) are opened anew for the child's thread before `fork` returns there
//! (pthread_atfork(3)): under the same descriptor, with the page at the same address.

use std::cell::RefCell;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use perf_event_open_sys::{self as sys, bindings as abi};

use crate::event::Event;
use crate::kernel::RawAttr;
use crate::page::ControlPage;

/// An event of this thread that forked children open anew, until the guard is dropped.
#[derive(Debug)]
pub struct ForkGuard {
    number: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    fd: RawFd,
    attr: RawAttr,
    leader: Option<RawFd>,
    page: Option<(NonNull<u8>, usize)>,
}

thread_local! {
    /// In the order of opening: leaders before members.
    static ENTRIES: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
    static NEXT: std::cell::Cell<u64> = const { std::cell::Cell::new(1) };
}

/// How many forks lie between this process and the one that first made a guard.
static GENERATION: AtomicU32 = AtomicU32::new(0);
static INSTALLED: Once = Once::new();

/// A number that differs between a process and its forked children, once a guard has been made.
#[must_use]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

impl ForkGuard {
    /// Of an event of the calling thread on the running kernel, mapped at `page`, in the group of `leader`. `None` for
    /// an event of something else, one that inherits (it counts the child already), or where the thread is ending.
    #[must_use]
    pub fn of(event: &Event, page: Option<&ControlPage>, leader: Option<RawFd>) -> Option<Self> {
        if event.target() != crate::Target::CallingThread || event.attr().get_inherit() {
            return None;
        }
        INSTALLED.call_once(|| {
            // SAFETY: the handler is a function without arguments that lives as long as the program.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        let number = NEXT.try_with(|next| next.replace(next.get() + 1)).ok()?;
        let entry = Entry {
            number,
            fd: event.fd(),
            attr: event.attr().raw(),
            leader,
            page: page.map(ControlPage::memory),
        };
        ENTRIES
            .try_with(|entries| entries.try_borrow_mut().map(|mut all| all.push(entry)))
            .ok()?
            .ok()?;
        Some(Self { number })
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        // A thread that is ending has no entries any more.
        let _ = ENTRIES.try_with(|entries| {
            if let Ok(mut entries) = entries.try_borrow_mut() {
                entries.retain(|entry| entry.number != self.number);
            }
        });
    }
}

/// Runs in the child, on its only thread, before `fork` returns: system calls only, no allocation, no lock.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let _ = ENTRIES.try_with(|entries| {
        let Ok(entries) = entries.try_borrow() else {
            return;
        };
        for entry in entries.iter() {
            entry.open_anew();
        }
        for leader in entries.iter().filter(|entry| entry.leader.is_none()) {
            // SAFETY: the descriptor is the event's; the argument is a flag.
            unsafe { sys::ioctls::ENABLE(leader.fd, abi::PERF_IOC_FLAG_GROUP) };
        }
    });
}

impl Entry {
    fn open_anew(&self) {
        let mut attr = self.attr;
        let flags = u64::from(abi::PERF_FLAG_FD_CLOEXEC);
        let group = self.leader.unwrap_or(-1);
        // SAFETY: the descriptor is the (parent's) event's, which nobody else uses here; closed first, so that the limit
        // of open files is never in the way.
        unsafe { libc::close(self.fd) };
        // SAFETY: the attributes are live and of the size that they say.
        let opened = unsafe { sys::perf_event_open(&raw mut attr.0, 0, -1, group, flags as _) };
        if opened >= 0 && opened != self.fd {
            // SAFETY: both are this process's; the event's number is free.
            unsafe {
                libc::dup3(opened, self.fd, libc::O_CLOEXEC);
                libc::close(opened);
            }
        }
        let Some((start, len)) = self.page else {
            return;
        };
        let start = start.as_ptr().cast();
        // What cannot be opened has a page all the same: zeros, which say that the event is on no counter.
        let (fd, kind) = if opened >= 0 {
            (self.fd, libc::MAP_SHARED)
        } else {
            (-1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
        };
        // SAFETY: the range was the page's in the parent and is unmapped here; should something have taken it already,
        // the kernel refuses.
        unsafe {
            libc::mmap(
                start,
                len,
                libc::PROT_READ,
                kind | libc::MAP_FIXED_NOREPLACE,
                fd,
                0,
            )
        };
    }
}
