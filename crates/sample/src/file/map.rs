//! The bytes of a recording: a mapped file, or memory.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Bytes that stay put while a recording is read.
#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

/// How many first bytes tell what a stream is.
const BEGINNING: u64 = 8;

impl Bytes {
    /// Maps a regular file; reads a pipe or a device to its end, once `begins` has accepted its first 8 bytes.
    pub(crate) fn open(path: &Path, begins: impl Fn(&[u8]) -> Result<()>) -> Result<Self> {
        let io = |source| Error::Io {
            path: path.display().to_string(),
            source,
        };
        let mut file = std::fs::File::open(path).map_err(io)?;
        if let Some(bytes) = Self::map(&file).map_err(io)? {
            return Ok(bytes);
        }
        Self::stream(&mut file, &path.display().to_string(), begins)
    }

    /// Maps a regular file; `None` for what is none, which is not read (a device may not end, a pipe may block).
    pub(crate) fn of_regular(path: &Path) -> Result<Option<Self>> {
        let io = |source| Error::Io {
            path: path.display().to_string(),
            source,
        };
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Ok(None);
        }
        let file = std::fs::File::open(path).map_err(io)?;
        Self::map(&file).map_err(io)
    }

    fn map(file: &std::fs::File) -> std::io::Result<Option<Self>> {
        let meta = file.metadata()?;
        if !meta.is_file() || meta.len() == 0 {
            return Ok(None);
        }
        // SAFETY: the mapping is private and read-only. A file that another process truncates
        // meanwhile would raise SIGBUS; that is the price every tool with mapped input pays, and
        // recordings are not changed after they were written.
        let map = unsafe { memmap2::Mmap::map(file) }?;
        Ok(Some(Self::Mapped(map)))
    }

    /// Reads a stream to its end, once `begins` has accepted its first 8 bytes (or fewer, where it ends there).
    pub(crate) fn stream(
        from: &mut impl Read,
        name: &str,
        begins: impl Fn(&[u8]) -> Result<()>,
    ) -> Result<Self> {
        let io = |source| Error::Io {
            path: name.to_owned(),
            source,
        };
        let mut bytes = Vec::new();
        from.take(BEGINNING).read_to_end(&mut bytes).map_err(io)?;
        begins(&bytes)?;
        from.read_to_end(&mut bytes).map_err(io)?;
        Ok(Self::Owned(bytes))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// The files `PREFIXn` of a directory, in the order of their numbers.
pub(crate) fn numbered(directory: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let io = |source| Error::Io {
        path: directory.display().to_string(),
        source,
    };
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            found.push((number, entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}
