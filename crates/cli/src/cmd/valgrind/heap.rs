//! How this process' own heap grows: of a run's few hundredths of a second a tenth was spent on asking the kernel for
//! memory page by page.
//!
//! Facts: mallopt(3), madvise(2), `MADV_HUGEPAGE`.

/// What the heap grows by: as much as a short program needs in all.
#[cfg(target_env = "gnu")]
const STEP: usize = 24 << 20;
/// Bytes of a huge page.
#[cfg(target_env = "gnu")]
const HUGE: usize = 2 << 20;

/// One heap for all threads, which grows by large steps and gives nothing back; the first one on huge pages where there
/// are some. To be called while there are no other threads.
#[cfg(target_env = "gnu")]
pub(super) fn grow_in_large_steps() {
    // SAFETY: sets the allocator's own parameters, and asks where its memory is.
    let before = unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_TOP_PAD, STEP as i32);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        // (The tags of a large cache stay untouched where they are not used.)
        libc::mallopt(libc::M_MMAP_THRESHOLD, 512 << 10);
        libc::sbrk(0)
    };
    // More than there is left.
    std::hint::black_box(Vec::<u8>::with_capacity(256 << 10));
    // SAFETY: as above.
    let after = unsafe { libc::sbrk(0) };
    let start = (before as usize).next_multiple_of(HUGE);
    let bytes = (after as usize).saturating_sub(start) / HUGE * HUGE;
    if bytes == 0 || bytes > 2 * STEP {
        return;
    }
    // SAFETY: the heap's own memory, whose contents stay; where it cannot be done, its pages stay small.
    unsafe {
        libc::madvise(start as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE);
    }
}

/// Other allocators grow as they do.
#[cfg(not(target_env = "gnu"))]
pub(super) fn grow_in_large_steps() {}
