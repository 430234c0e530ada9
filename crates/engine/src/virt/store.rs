//! Translations kept on disk, the launcher's side: which file belongs to a
//! program that starts, and what a program leaves at its end. The reasons for
//! each check are in `DESIGN.md`, "Translations on disk".

mod directory;
mod file;

use super::context::MappedContext;
use super::image::IMAGE;
use super::programs::Program;
use crate::proc_file;
use crate::snapshot::hash;
use crate::snapshot::save;
use directory::Directory;
use file::{Copied, Label, Process};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Why translations are not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Neither `XDG_CACHE_HOME` nor `HOME` names a directory, nor has the user a home.
    #[error("neither XDG_CACHE_HOME nor HOME names a directory")]
    NoHome,
    /// The directory is there but must not be trusted.
    #[error("{}: {why}", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system's reason.
    #[error("{}: {error}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// A directory of translations that can be used again; cheap to clone. Keep one for
/// several runs: each of its files is checked once.
///
/// ```no_run
/// use truecount_engine::virt::{Cache, Options};
/// let options = Options::default().cache(Cache::user().ok());
/// ```
#[derive(Clone, Debug)]
pub struct Cache(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: Directory,
    known: Mutex<HashMap<OsString, Known>>,
    temporary: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    /// Checked, or written by us.
    file: Option<Arc<File>>,
    /// How often we have written it.
    saves: u32,
    /// Blocks that can be used again in what we wrote: another process of the same program may have less.
    live: u64,
}

/// Whether a file of translations would be used by this engine for this program.
#[doc(hidden)]
#[must_use]
pub fn kept_file_is_valid(file: &File, engine: u64, key: u64) -> bool {
    file::is_valid(file, Label { engine, key })
}

/// Open files kept at most.
const MAX_KNOWN: usize = 256;

impl Cache {
    /// The user's own: `$XDG_CACHE_HOME/truecount`, or `~/.cache/truecount`.
    ///
    /// # Errors
    /// [`CacheError`]: there is no such place, or it is not the user's alone.
    pub fn user() -> Result<Self, CacheError> {
        Self::open(&Directory::of_user().ok_or(CacheError::NoHome)?)
    }

    /// A directory of one's choice; created with mode 0700 where it is missing.
    ///
    /// # Errors
    /// [`CacheError`]: it cannot be opened, or is not the user's alone.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        Ok(Self(Arc::new(Inner {
            directory: Directory::open(path)?,
            known: Mutex::default(),
            temporary: AtomicU64::new(0),
        })))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.directory.path()
    }

    /// What was kept under this name, beside the translations ([`Self::keep_names`]); nothing where it is longer than `most`
    /// bytes.
    pub fn kept_names(&self, name: u64, most: u64) -> Option<Vec<u8>> {
        let name = OsString::from(format!("names-{name:016x}"));
        let file = self.0.directory.read(&name)?;
        // In one piece: to grow, it would be copied, by huge pages that are cleared first.
        let length = file.metadata().map_or(0, |found| found.len()).min(most);
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1);
        let read = (&file).take(most + 1).read_to_end(&mut bytes).ok()?;
        Directory::touch(&file);
        (read as u64 <= most).then_some(bytes)
    }

    /// Keeps names of places in a file for later runs, in the place of what was kept under this name.
    ///
    /// # Errors
    /// The system's, from writing the file.
    pub fn keep_names(&self, name: u64, bytes: &[u8]) -> io::Result<()> {
        let directory = &self.0.directory;
        let number = self.0.temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = OsString::from(Directory::temporary(number));
        let name = OsString::from(format!("names-{name:016x}"));
        let mut file = directory.create(&temporary)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| directory.rename(&temporary, &name));
        match written {
            Ok(()) => directory.prune(&name),
            Err(error) => {
                let _ = directory.remove(&temporary);
                Err(error)
            }
        }
    }

    /// Removes every translation, and what is kept beside them; returns how many files there were.
    ///
    /// # Errors
    /// The system's, from reading the directory or removing a file.
    pub fn clear(&self) -> io::Result<usize> {
        self.0.known().clear();
        self.0.directory.clear()
    }
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, HashMap<OsString, Known>> {
        match self.known.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

/// One program's place in the cache.
#[derive(Clone, Debug)]
struct Key {
    name: OsString,
    label: Label,
}

/// What a new process image gets.
#[derive(Default)]
pub(super) struct Plan {
    key: Option<Key>,
    /// A file to take translations from.
    pub(super) file: Option<Arc<File>>,
    /// See [`crate::layout::StartArgs::cache_effort`].
    pub(super) effort: Option<u64>,
}

impl Plan {
    /// What the image's translations are kept under; 0: they are not.
    pub(super) fn key(&self) -> u64 {
        self.key.as_ref().map_or(0, |key| key.label.key)
    }
}

/// The cache in one run.
pub(super) struct Store {
    cache: Option<Cache>,
    /// What each process image (by its first slot) was found to be at its start.
    slots: Mutex<HashMap<u32, Key>>,
}

impl Store {
    pub(super) fn new(cache: Option<Cache>) -> Self {
        Self {
            cache,
            slots: Mutex::default(),
        }
    }

    /// What the image that has just been loaded into `tid` gets. `options` are the
    /// run's, which decide what code is emitted. `fixed`: its stack shows that addresses are not random.
    pub(super) fn plan(
        &self,
        tid: i32,
        options: u64,
        program: Option<&Program>,
        fixed: bool,
    ) -> Plan {
        let Some(cache) = &self.cache else {
            return Plan::default();
        };
        let Some(key) = program.and_then(|program| key(tid, options, program, fixed)) else {
            return Plan::default();
        };
        let inner = &cache.0;
        let mut known = inner.known();
        if known.len() >= MAX_KNOWN && !known.contains_key(&key.name) {
            known.clear();
        }
        let entry = known.entry(key.name.clone()).or_default();
        if entry.file.is_none()
            && let Some(file) = inner.directory.read(&key.name)
        {
            if file::is_valid(&file, key.label) {
                Directory::touch(&file);
                entry.file = Some(Arc::new(file));
            } else {
                // Of another engine, or damaged: of no use to anyone.
                let _ = inner.directory.remove(&key.name);
            }
        }
        Plan {
            file: entry.file.clone(),
            effort: Some(u64::from(entry.saves)),
            key: Some(key),
        }
    }

    /// Remembers what runs in a slot.
    pub(super) fn note(&self, slot: u32, plan: Plan) {
        if let Some(key) = plan.key {
            self.slots().insert(slot, key);
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<u32, Key>> {
        match self.slots.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Serves a process that offers its translations; it waits meanwhile.
    pub(super) fn save(&self, context: &MappedContext) {
        // Whatever fails: the next run translates again.
        let _ = self.try_save(context);
        context.save().store(save::DONE, Ordering::Release);
    }

    fn try_save(&self, context: &MappedContext) -> io::Result<()> {
        let (Some(cache), Ok(pid)) = (&self.cache, i32::try_from(context.pid())) else {
            return Ok(());
        };
        let (slot, known_as) = context.save_image();
        let Some(key) = self.slots().get(&slot).cloned() else {
            return Ok(());
        };
        // A forked child may live longer than its image's first slot belongs to that.
        if !is_ours(pid) || key.label.key != known_as {
            return Ok(());
        }
        let inner = &cache.0;
        let live = file::live(&Process(pid), context.save_request())?;
        if inner
            .known()
            .get(&key.name)
            .is_some_and(|known| known.live >= live)
        {
            return Ok(());
        }
        let number = inner.temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = OsString::from(Directory::temporary(number));
        let file = inner.directory.create(&temporary)?;
        let kept = self.write(context, pid, &key, &file, inner, &temporary);
        if !matches!(kept, Ok(true)) {
            let _ = inner.directory.remove(&temporary);
            return kept.map(|_| ());
        }
        let mut known = inner.known();
        let entry = known.entry(key.name.clone()).or_default();
        entry.saves += 1;
        entry.live = live;
        entry.file = Some(Arc::new(file));
        drop(known);
        inner.directory.prune(&key.name)
    }

    fn write(
        &self,
        context: &MappedContext,
        pid: i32,
        key: &Key,
        file: &File,
        inner: &Inner,
        temporary: &OsStr,
    ) -> io::Result<bool> {
        let address = context.save_request();
        match file::copy(&Process(pid), address, key.label, file)? {
            Copied::Worthless => {
                // The next run starts afresh.
                let _ = inner.directory.remove(&key.name);
                if let Some(entry) = inner.known().get_mut(&key.name) {
                    (entry.file, entry.saves, entry.live) = (None, entry.saves + 1, 0);
                }
                Ok(false)
            }
            Copied::Whole(checksum) => {
                // Had the process gone on, its memory was not still while we read.
                let waiting = context.save().compare_exchange(
                    save::WANTED,
                    save::COPIED,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
                if waiting.is_err() {
                    return Ok(false);
                }
                file::seal(file, checksum)?;
                inner.directory.rename(temporary, &key.name)?;
                Ok(true)
            }
        }
    }
}

/// The process has our user and no other rights.
fn is_ours(pid: i32) -> bool {
    // SAFETY: no arguments, cannot fail.
    let euid = unsafe { libc::geteuid() }.to_string();
    let Ok(status) = proc_file::read(pid, "status") else {
        return false;
    };
    String::from_utf8_lossy(&status)
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .is_some_and(|ids| ids.split_whitespace().all(|id| id == euid))
}

/// Addresses are the same in every run: what a snapshot needs.
fn is_fixed(pid: i32) -> bool {
    let personality = proc_file::read(pid, "personality")
        .ok()
        .and_then(|text| i64::from_str_radix(std::str::from_utf8(&text).ok()?.trim(), 16).ok());
    personality.is_some_and(|bits| bits & i64::from(libc::ADDR_NO_RANDOMIZE) != 0)
        || std::fs::read_to_string("/proc/sys/kernel/randomize_va_space")
            .is_ok_and(|value| value.trim() == "0")
}

/// The runtime's own hash: another build of the engine emits other code.
fn engine() -> u64 {
    static ENGINE: OnceLock<u64> = OnceLock::new();
    *ENGINE.get_or_init(|| hash(0, IMAGE))
}

/// The key of the program in `pid`: its file as it is now, and the engine. `None`
/// where translations are not to be kept.
fn key(pid: i32, options: u64, program: &Program, fixed: bool) -> Option<Key> {
    if !(fixed || is_fixed(pid)) || !is_ours(pid) {
        return None;
    }
    let build_id = &program.facts.build_id;
    let mut text: Vec<u8> = program
        .identity
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    text.extend(build_id);
    let engine = hash(options, &engine().to_le_bytes());
    let key = hash(engine, &text);
    let mut name = String::from("translation-");
    for byte in build_id.iter().take(20) {
        name.push_str(&format!("{byte:02x}"));
    }
    name.push_str(&format!("-{key:016x}"));
    Some(Key {
        name: name.into(),
        label: Label { engine, key },
    })
}
