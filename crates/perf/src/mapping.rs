//! Memory shared with the kernel: a control page and, behind it, a ring of samples.
//!
//! Source: perf_event_open(2), "MMAP layout": one page of control data, then 2^n pages of ring.

use std::fmt;
use std::ptr::NonNull;

use crate::errno::Errno;
use crate::kernel::SharedKernel;

/// A shared mapping of an event; unmapped on drop.
pub struct Mapping {
    kernel: SharedKernel,
    start: NonNull<u8>,
    len: usize,
    page_size: usize,
    writable: bool,
}

// SAFETY: the mapping is plain memory that is only accessed by atomics (control page) or by the one
// reader that owns it (`Ring` takes `&mut self`), and munmap works from any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared access only goes through atomic loads.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the control page and `ring_pages` pages of ring (0 or a power of two).
    ///
    /// The mapping is writable only with a ring: the reader moves the ring's tail.
    pub(crate) fn new(kernel: &SharedKernel, fd: i32, ring_pages: usize) -> Result<Self, Errno> {
        let page_size = kernel.page_size();
        if ring_pages != 0 && !ring_pages.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        let len = ring_pages
            .checked_add(1)
            .and_then(|pages| pages.checked_mul(page_size))
            .ok_or(Errno::EINVAL)?;
        let writable = ring_pages != 0;
        let start = kernel.mmap(fd, len, writable)?;
        Ok(Self {
            kernel: SharedKernel::clone(kernel),
            start,
            len,
            page_size,
            writable,
        })
    }

    /// First byte: the control page. Valid for [`Self::len`] bytes as long as `self` lives.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes of the whole mapping.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // a mapping always has its control page
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// Whether the mapping has a ring whose tail can be moved.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: start and len come from mmap of the same kernel; views borrow `self`, so none is left.
        unsafe { self.kernel.munmap(self.start, self.len) };
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
