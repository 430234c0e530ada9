//! The bytes of a recording: a mapped file, or memory.

use std::path::Path;

use crate::error::{Error, Result};

/// Bytes that stay put while a recording is read.
#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a regular file; reads a pipe or a device to its end.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let io = |source| Error::Io {
            path: path.display().to_string(),
            source,
        };
        let mut file = std::fs::File::open(path).map_err(io)?;
        let meta = file.metadata().map_err(io)?;
        if meta.is_file() && meta.len() > 0 {
            // SAFETY: the mapping is private and read-only. A file that another process truncates
            // meanwhile would raise SIGBUS; that is the price every tool with mapped input pays, and
            // recordings are not changed after they were written.
            let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
            return Ok(Self::Mapped(map));
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).map_err(io)?;
        Ok(Self::Owned(bytes))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}
