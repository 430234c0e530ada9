//! Opening a profile: which file is meant, the mapping, and the parts of it.

use crate::error::{Loss, ProfileError};
use crate::event::{Events, Layout};
use crate::metadata::{Metadata, Unit};
use crate::pages::{Container, HEADER, begin, split};
use crate::strings::{Index, StringTable};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where the bytes are.
#[derive(Debug)]
enum Backing {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

/// A region profile, mapped and taken apart; nothing is copied.
#[derive(Debug)]
pub struct Profile {
    path: PathBuf,
    backing: Backing,
    container: Container,
    layout: Layout,
    index: Index,
    metadata: Metadata,
    losses: Vec<Loss>,
}

const EXTENSION: &str = ".mm_profdata";

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The file that `path` means: itself where it exists, else itself with `.mm_profdata` appended
/// (`foo-1.2` is `foo-1.2.mm_profdata`, never `foo-1.mm_profdata`).
///
/// # Errors
/// [`ProfileError::NotFound`], or [`ProfileError::ThreeFiles`] where files of the old format stand there.
pub fn resolve(path: &Path) -> Result<PathBuf, ProfileError> {
    if path.is_file() || (path.exists() && !path.is_dir()) {
        return Ok(path.to_owned());
    }
    let appended = with_suffix(path, EXTENSION);
    if appended.exists() {
        return Ok(appended);
    }
    if with_suffix(path, ".events").exists() || with_suffix(path, ".string_data").exists() {
        return Err(ProfileError::ThreeFiles {
            path: path.to_owned(),
        });
    }
    Err(ProfileError::NotFound {
        path: path.to_owned(),
    })
}

/// The profiles that `path` means: one file, or all `.mm_profdata` files of a directory and of its
/// directories, sorted by name (empty files, which rustc leaves when it stops early, are left out).
///
/// # Errors
/// As [`resolve`], [`ProfileError::EmptyDirectory`], or [`ProfileError::Io`].
pub fn find(path: &Path) -> Result<Vec<PathBuf>, ProfileError> {
    if !path.is_dir() {
        return Ok(vec![resolve(path)?]);
    }
    let mut found = Vec::new();
    let mut directories = vec![path.to_owned()];
    while let Some(directory) = directories.pop() {
        let io = |source| ProfileError::Io {
            path: directory.clone(),
            source,
        };
        for entry in std::fs::read_dir(&directory).map_err(io)? {
            let entry = entry.map_err(io)?;
            let kind = entry.file_type().map_err(io)?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if entry.file_name().to_string_lossy().ends_with(EXTENSION)
                && entry.metadata().is_ok_and(|metadata| metadata.len() > 0)
            {
                found.push(entry.path());
            }
        }
    }
    if found.is_empty() {
        return Err(ProfileError::EmptyDirectory {
            path: path.to_owned(),
        });
    }
    found.sort();
    Ok(found)
}

/// Reads a pipe or a device to its end, once it has begun as a profile does: not everything ends.
fn stream(from: &mut impl Read, path: &Path) -> Result<Vec<u8>, ProfileError> {
    let io = |source| ProfileError::Io {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    from.take(HEADER as u64)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    begin(&bytes, path)?;
    from.read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

impl Profile {
    /// Opens the profile that `path` means (see [`resolve`]); `-` is standard input.
    ///
    /// The file is mapped: it must not be truncated while it is open (a file that grows is fine).
    ///
    /// # Errors
    /// The file is not there, cannot be read, is not a region profile, or has another version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ProfileError> {
        let given = path.as_ref();
        if given == Path::new("-") {
            let path = PathBuf::from("<stdin>");
            let bytes = stream(&mut std::io::stdin().lock(), &path)?;
            return Self::build(path, Backing::Owned(bytes));
        }
        let path = resolve(given)?;
        let io = |source| ProfileError::Io {
            path: path.clone(),
            source,
        };
        let mut file = File::open(&path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        let backing = if metadata.is_file() && metadata.len() > 0 {
            // SAFETY: the mapping is private and read-only, and every read of it is bounds-checked;
            // that nobody truncates the file meanwhile is the documented condition of `open`.
            let map = unsafe { memmap2::MmapOptions::new().populate().map(&file) }.map_err(io)?;
            Backing::Mapped(map)
        } else {
            Backing::Owned(stream(&mut file, &path)?)
        };
        Self::build(path, backing)
    }

    /// A profile from bytes in memory; `name` stands in messages.
    ///
    /// # Errors
    /// As [`Profile::open`].
    ///
    /// ```
    /// use truecount_profile::{Profile, ProfileError};
    /// let error = Profile::from_bytes(b"MMPD\x07\0\0\0".to_vec(), "old").unwrap_err();
    /// assert!(matches!(error, ProfileError::TooOld { version: 7, .. }));
    /// ```
    pub fn from_bytes(bytes: Vec<u8>, name: impl Into<PathBuf>) -> Result<Self, ProfileError> {
        Self::build(name.into(), Backing::Owned(bytes))
    }

    fn build(path: PathBuf, backing: Backing) -> Result<Self, ProfileError> {
        let bytes: &[u8] = match &backing {
            Backing::Mapped(map) => map,
            Backing::Owned(bytes) => bytes,
        };
        let mut losses = Vec::new();
        let container = split(bytes, &path, &mut losses)?;
        let layout = Layout::new(container.version, bytes, &container.events);
        if layout.rest > 0 {
            losses.push(Loss::PartialRecord {
                stream: "events",
                bytes: layout.rest,
            });
        }
        let index = Index::new(&container, bytes, &mut losses);
        let strings = StringTable {
            bytes,
            container: &container,
            index: &index,
        };
        let metadata = Metadata::read(strings, &mut losses);
        Ok(Self {
            path,
            backing,
            layout,
            index,
            metadata,
            losses,
            container,
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.backing {
            Backing::Mapped(map) => map,
            Backing::Owned(bytes) => bytes,
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Format version, 8 or 9.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.container.version
    }

    /// Size of the file in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.bytes().len() as u64
    }

    /// What the file says about itself.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Unit of every number in the events, as the file names it.
    #[must_use]
    pub fn unit(&self) -> &Unit {
        &self.metadata.unit
    }

    /// The events.
    #[must_use]
    pub fn events(&self) -> Events<'_> {
        Events {
            bytes: self.bytes(),
            layout: &self.layout,
        }
    }

    /// The strings.
    #[must_use]
    pub fn strings(&self) -> StringTable<'_> {
        StringTable {
            bytes: self.bytes(),
            container: &self.container,
            index: &self.index,
        }
    }

    /// What could not be used of the file; empty for a whole one.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }
}
