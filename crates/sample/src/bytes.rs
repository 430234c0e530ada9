//! A bounds-checked little-endian cursor over untrusted bytes: every read may fail, none may panic.

/// Reads little-endian values from a slice; `None` means the slice ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Bytes not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    /// Takes `count` elements of `size` bytes; fails on overflow as on a short slice.
    pub(crate) fn take_array(&mut self, count: u64, size: usize) -> Option<&'a [u8]> {
        let bytes = usize::try_from(count).ok()?.checked_mul(size)?;
        self.take(bytes)
    }

    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.rest.split_first_chunk::<N>()?;
        self.rest = tail;
        Some(*head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.chunk().map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    /// A NUL-terminated string that fills the rest (or ends with it).
    pub(crate) fn c_string(&self) -> &'a [u8] {
        until_nul(self.rest)
    }
}

/// The bytes before the first NUL.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or(bytes)
}

/// The `index`-th little-endian u64 of a slice.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let tail = bytes.get(offset..)?;
    tail.first_chunk::<8>().map(|c| u64::from_le_bytes(*c))
}

/// A slice of little-endian u64 values that stays in place (zero-copy).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct U64s<'a>(&'a [u8]);

impl<'a> U64s<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + 'a {
        let (chunks, _) = self.0.as_chunks::<8>();
        chunks.iter().map(|c| u64::from_le_bytes(*c))
    }
}
