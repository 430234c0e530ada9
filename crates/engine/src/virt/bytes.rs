//! Fields of structures that are read as bytes.

/// The bytes at a place; zeros beyond the end.
pub(super) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0u8; N];
    if let Some(found) = bytes.get(at..at + N) {
        value.copy_from_slice(found);
    }
    value
}
