//! Vectors of many megabytes, in huge pages where the system gives them on request.
//!
//! Touching a page for the first time costs about a microsecond in a virtual machine, and the vectors
//! of a comparison are tens of megabytes: a quarter of its CPU time was such faults.
//! Facts: madvise(2), `MADV_HUGEPAGE`.

/// Below this size the allocator's own memory serves.
const WORTHWHILE: usize = 4 << 20;

/// An empty vector with room for `capacity` elements.
pub(crate) fn with_capacity<T>(capacity: usize) -> Vec<T> {
    let vector = Vec::with_capacity(capacity);
    let bytes = vector.capacity().saturating_mul(size_of::<T>());
    #[cfg(target_os = "linux")]
    if bytes >= WORTHWHILE {
        const PAGE: usize = 4096;
        let start = (vector.as_ptr() as usize).next_multiple_of(PAGE);
        let end = (vector.as_ptr() as usize + bytes) & !(PAGE - 1);
        // SAFETY: the whole pages of one live allocation; the advice changes no content, and a
        // refusal (no support, another page size) only means small pages.
        unsafe {
            libc::madvise(
                start as *mut _,
                end.saturating_sub(start),
                libc::MADV_HUGEPAGE,
            );
        }
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_an_ordinary_vector() {
        let mut vector: Vec<u64> = with_capacity(WORTHWHILE / 4);
        assert!(vector.is_empty() && vector.capacity() >= WORTHWHILE / 4);
        vector.extend(0..(WORTHWHILE as u64 / 4));
        assert!(vector.iter().copied().eq(0..(WORTHWHILE as u64 / 4)));
    }
}
