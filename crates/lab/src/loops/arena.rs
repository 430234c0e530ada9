//! The memory that loops work on: pages that can be given back, so that they fault again.

use super::{Loop, Needs};
use std::io;
use std::ptr::NonNull;

/// Anonymous memory of whole small pages.
#[derive(Debug)]
pub struct Arena {
    start: NonNull<u8>,
    pages: usize,
    page: usize,
}

impl Arena {
    /// Maps `pages` pages (at least 16: the loops that do not fault use up to 64 KiB).
    ///
    /// # Errors
    /// The kernel's: no memory.
    pub fn new(pages: usize) -> io::Result<Self> {
        // SAFETY: a plain question.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).unwrap_or(4096).max(4096);
        let pages = pages.max(16);
        let bytes = pages
            .checked_mul(page)
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: a new private mapping anywhere; nothing else is touched.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            return Err(io::Error::from(io::ErrorKind::OutOfMemory));
        };
        // One fault a page: a huge page would serve many at once. Kernels without huge pages refuse, rightly.
        // SAFETY: our own mapping.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE) };
        Ok(Self { start, pages, page })
    }

    /// Pages; a loop that faults may take as many turns.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages as u64
    }

    /// Where loops begin.
    #[must_use]
    pub fn memory(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes of a page.
    #[must_use]
    pub fn stride(&self) -> u64 {
        self.page as u64
    }

    /// Makes the memory what the loop needs: all pages gone, or those that it writes to present.
    ///
    /// # Errors
    /// The kernel refuses to take pages back.
    pub fn prepare(&mut self, each: &Loop) -> io::Result<()> {
        if each.needs == Needs::FreshPages {
            // SAFETY: our own mapping, to which no reference exists.
            let failed = unsafe {
                libc::madvise(
                    self.start.as_ptr().cast(),
                    self.pages.saturating_mul(self.page),
                    libc::MADV_DONTNEED,
                )
            };
            return if failed == 0 {
                Ok(())
            } else {
                Err(io::Error::last_os_error())
            };
        }
        for page in 0..self.pages.min(16) {
            // SAFETY: inside our mapping, which has at least 16 pages. Written atomically: a contender may, too.
            unsafe {
                let word = self.start.as_ptr().add(page * self.page).cast::<u64>();
                std::sync::atomic::AtomicU64::from_ptr(word)
                    .fetch_add(0, std::sync::atomic::Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody can use it any more.
        unsafe {
            libc::munmap(
                self.start.as_ptr().cast(),
                self.pages.saturating_mul(self.page),
            )
        };
    }
}
