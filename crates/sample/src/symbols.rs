//! Names for addresses: symbols, source lines and inlined functions of the files that were mapped, by blazesym.
//!
//! A file is looked for as it was recorded, below another root (`--symfs`), or where the caller says
//! (`--binary`); one with another build id than the recording's is not used.

mod found;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use blazesym::symbolize::source::{self, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use rustc_hash::{FxHashMap, FxHashSet};

pub use found::FoundFile;

use crate::elf::Elf;
use crate::error::Error;
use crate::guard::guarded;
use crate::spaces::{MappedFile, hex};

/// A name for an address; inlined functions come as callers and callees.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// Function, demangled.
    pub function: String,
    /// Source file.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
}

/// All names of an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// Innermost (inlined) function first; the last is the function of the symbol table. Empty: no symbol.
    pub frames: Vec<Frame>,
    /// Bytes from the symbol's start.
    pub offset: u64,
}

/// Where to look for files.
#[derive(Debug, Clone, Default)]
pub struct SearchPath {
    /// Another root for all paths of the recording.
    pub symfs: Option<PathBuf>,
    /// The program itself, for the mapped file of the same build id or name, else for the recording's program: see
    /// [`Symbols::place_binary`].
    pub binary: Option<PathBuf>,
}

/// Finds names; keeps what it has read.
pub struct Symbols {
    search: SearchPath,
    /// The mapped file that [`SearchPath::binary`] is.
    placed: Option<MappedFile>,
    symbolizer: Symbolizer,
    /// See [`Symbols::settled`].
    settled: bool,
    /// Files whose debug information cannot be read.
    damaged: FxHashSet<PathBuf>,
    files: FxHashMap<MappedFile, Result<Rc<FoundFile>, String>>,
    cache: FxHashMap<(PathBuf, u64), Location>,
    /// Names as their language has them, by those of the file: many places are in one function.
    demangled: RefCell<FxHashMap<String, String>>,
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbols")
            .field("search", &self.search)
            .finish_non_exhaustive()
    }
}

impl Symbols {
    /// Looks for files where `search` says.
    #[must_use]
    pub fn new(search: SearchPath) -> Self {
        Self {
            search,
            placed: None,
            symbolizer: symbolizer(false),
            settled: false,
            damaged: FxHashSet::default(),
            files: FxHashMap::default(),
            cache: FxHashMap::default(),
            demangled: RefCell::default(),
        }
    }

    /// For files that nobody replaces while names are looked for: each is looked at once, not for every address anew (a
    /// short program has ten thousand).
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.settled = true;
        self.symbolizer = symbolizer(true);
        self
    }

    /// Decides which of the mapped files [`SearchPath::binary`] is: the one of its build id, else of its name, else (a
    /// renamed or copied program, where build ids say nothing) the first that is not a library. Without a binary nothing
    /// happens.
    ///
    /// # Errors
    /// [`Error::Binary`]: it cannot be read, is not a program, or is none of the files.
    pub fn place_binary(&mut self, files: &[MappedFile]) -> Result<(), Error> {
        let Some(binary) = &self.search.binary else {
            return Ok(());
        };
        let refuse = |what: String| Error::Binary {
            path: binary.display().to_string(),
            what,
        };
        let elf = self::binary(binary)?;
        let id = elf.build_id();
        let known = |file: &&MappedFile| !id.is_empty() && !file.build_id.is_empty();
        let real = || files.iter().filter(|file| file.is_file());
        let of_id = real().find(|file| known(file) && same_id(&file.build_id, id));
        let of_name = real().find(|file| Path::new(&file.path).file_name() == binary.file_name());
        let program = real().find(|file| !known(file) && !file.path.contains(".so"));
        let found = match (of_id, of_name) {
            (Some(file), _) => Some(file),
            (None, Some(file)) if known(&file) => {
                return Err(refuse(format!(
                    "its build id is {}, that of {} in the recording {}",
                    hex(id),
                    file.path,
                    hex(&file.build_id)
                )));
            }
            (None, Some(file)) => Some(file),
            (None, None) => program,
        };
        let Some(found) = found else {
            let names: Vec<&str> = real().map(|file| file.path.as_str()).take(5).collect();
            return Err(refuse(format!(
                "neither its name nor its build id is that of a file of the recording ({})",
                names.join(", ")
            )));
        };
        self.placed = Some(found.clone());
        self.files.clear();
        Ok(())
    }

    /// The file on this machine that was mapped, or why it cannot be used.
    ///
    /// # Errors
    /// One line with the reason: not there, not ELF, another build id.
    pub fn find(&mut self, mapped: &MappedFile) -> Result<&Rc<FoundFile>, &str> {
        if !self.files.contains_key(mapped) {
            let found = self
                .search
                .find(mapped, self.placed.as_ref() == Some(mapped));
            self.files.insert(mapped.clone(), found.map(Rc::new));
        }
        match self.files.get(mapped) {
            Some(Ok(found)) => Ok(found),
            Some(Err(why)) => Err(why),
            None => Err("not looked for"),
        }
    }

    /// The names of an offset in a mapped file; empty when nothing is known.
    pub fn locate(&mut self, mapped: &MappedFile, offset: u64) -> Location {
        let Ok(found) = self.find(mapped).map(Rc::clone) else {
            return Location::default();
        };
        if let Some(known) = found.names(offset) {
            return known;
        }
        let key = (found.path.clone(), offset);
        if let Some(known) = self.cache.get(&key) {
            return known.clone();
        }
        let location = self.look_up(&found, offset);
        self.cache.insert(key, location.clone());
        location
    }

    /// As [`Symbols::locate`], for callers that keep the answer themselves: it is not kept here.
    pub fn locate_once(&mut self, mapped: &MappedFile, offset: u64) -> Location {
        let Ok(found) = self.find(mapped).map(Rc::clone) else {
            return Location::default();
        };
        let known = found.names(offset);
        known.unwrap_or_else(|| self.look_up(&found, offset))
    }

    /// Where a file's debug information is damaged so that reading it panics, what its symbol table says.
    fn look_up(&mut self, file: &FoundFile, offset: u64) -> Location {
        let path = file.path.as_path();
        for debug in [true, false] {
            if debug && (file.has_symbols_alone() || self.damaged.contains(path)) {
                continue;
            }
            if let Some(found) =
                guarded(|| look_up(&self.symbolizer, path, offset, debug, &self.demangled))
            {
                file.learn(offset, &found);
                return found;
            }
            self.damaged.insert(path.to_owned());
            self.symbolizer = symbolizer(self.settled);
        }
        Location::default()
    }
}

fn symbolizer(settled: bool) -> Symbolizer {
    Symbolizer::builder().enable_auto_reload(!settled).build()
}

/// The program that [`SearchPath::binary`] names.
///
/// # Errors
/// [`Error::Binary`]: it cannot be read, or is not a program.
pub fn binary(path: &Path) -> Result<Elf, Error> {
    let refuse = |what: String| Error::Binary {
        path: path.display().to_string(),
        what,
    };
    match Elf::open(path) {
        Ok(Some(elf)) => Ok(elf),
        Ok(None) => Err(refuse("it is not a 64-bit ELF program".to_owned())),
        Err(Error::Io { source, .. }) => Err(refuse(source.to_string())),
        Err(error) => Err(error),
    }
}

/// Addresses of the symbols of this name in the program or library `path`, as the file has them, with
/// their sizes; several where it is not unique, none where it is not there.
///
/// # Errors
/// One line: the file cannot be read, or is no ELF file.
pub fn addresses_of(path: &Path, name: &str) -> Result<Vec<(u64, Option<usize>)>, String> {
    use blazesym::inspect::{Inspector, source as inspected};
    let source = inspected::Source::Elf(inspected::Elf::new(path));
    let inspector = Inspector::new();
    let found = guarded(|| inspector.lookup(&source, &[name]))
        .ok_or("its debug information is damaged")?
        .map_err(|error| error.to_string())?;
    let mut places: Vec<(u64, Option<usize>)> =
        found.iter().flatten().map(|s| (s.addr, s.size)).collect();
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

/// Functions of the symbol table of `path` whose names, as the file has them (mangled), are `wanted`: address as the file
/// has it, offset in the file, name.
///
/// # Errors
/// One line: the file cannot be read, or is no ELF file.
pub fn functions_of(
    path: &Path,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<(u64, u64, String)>, String> {
    use blazesym::inspect::{Inspector, source as inspected};
    let mut elf = inspected::Elf::new(path);
    elf.debug_syms = false;
    let source = inspected::Source::Elf(elf);
    let mut found = Vec::new();
    let done = guarded(|| {
        let mut found = Vec::new();
        Inspector::new()
            .for_each(&source, |symbol| {
                if wanted(&symbol.name) {
                    let offset = symbol.file_offset.unwrap_or(symbol.addr);
                    found.push((symbol.addr, offset, symbol.name.to_string()));
                }
                std::ops::ControlFlow::Continue(())
            })
            .map(|()| found)
    });
    found.extend(
        done.ok_or("its symbol table is damaged")?
            .map_err(|error| error.to_string())?,
    );
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn look_up(
    symbolizer: &Symbolizer,
    path: &Path,
    offset: u64,
    debug: bool,
    known: &RefCell<FxHashMap<String, String>>,
) -> Location {
    let demangled = |name: &str| {
        if let Some(name) = known.borrow().get(name) {
            return name.clone();
        }
        let found = demangled(name);
        let mut known = known.borrow_mut();
        known.insert(name.to_owned(), found.clone());
        found
    };
    let mut elf = source::Elf::new(path);
    elf.debug_syms = debug;
    let source = Source::Elf(elf);
    match symbolizer.symbolize_single(&source, Input::FileOffset(offset)) {
        Ok(Symbolized::Sym(sym)) => {
            let mut frames: Vec<Frame> = sym
                .inlined
                .iter()
                .rev()
                .map(|f| frame(demangled(&f.name), f.code_info.as_ref()))
                .collect();
            frames.push(frame(demangled(&sym.name), sym.code_info.as_deref()));
            Location {
                frames,
                offset: sym.offset as u64,
            }
        }
        _ => Location::default(),
    }
}

/// A name as its language has it. Only what looks mangled is taken for it: a function of C may be called `a`, which as
/// a mangled type is `signed char`.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let mangled = name.starts_with("_Z") || name.starts_with("__Z");
    let parsed = mangled.then(|| cpp_demangle::Symbol::new(name).ok()?.demangle().ok());
    parsed.flatten().unwrap_or_else(|| name.to_owned())
}

fn frame(function: String, code: Option<&blazesym::symbolize::CodeInfo<'_>>) -> Frame {
    Frame {
        function,
        file: code.map(|c| c.to_path().display().to_string()),
        line: code.and_then(|c| c.line),
    }
}

impl SearchPath {
    fn find(&self, mapped: &MappedFile, is_binary: bool) -> Result<FoundFile, String> {
        if !mapped.is_file() {
            return Err(format!("{} is not a file", mapped.path));
        }
        let recorded = Path::new(&mapped.path);
        let mut candidates = Vec::new();
        if let Some(binary) = &self.binary {
            let same_name = binary.file_name() == recorded.file_name();
            if is_binary
                || same_name
                || (!mapped.build_id.is_empty() && build_id_of(binary) == mapped.build_id)
            {
                candidates.push(binary.clone());
            }
        }
        if let Some(root) = &self.symfs {
            candidates.push(root.join(recorded.strip_prefix("/").unwrap_or(recorded)));
            if let Some(name) = recorded.file_name() {
                candidates.push(root.join(name));
            }
        } else {
            candidates.push(recorded.to_owned());
        }
        let mut why = format!("{} is not here", mapped.path);
        for path in candidates {
            let Ok(Some(elf)) = Elf::open(&path) else {
                continue;
            };
            if mapped.build_id.is_empty()
                || elf.build_id().is_empty()
                || same_id(elf.build_id(), &mapped.build_id)
            {
                return Ok(FoundFile::new(path, elf));
            }
            why = format!("{} has another build id than the recording", path.display());
        }
        Err(why)
    }
}

fn build_id_of(path: &Path) -> Vec<u8> {
    match Elf::open(path) {
        Ok(Some(elf)) => elf.build_id().to_vec(),
        _ => Vec::new(),
    }
}

/// Old recordings fill the id up to 20 bytes with zeros.
fn same_id(a: &[u8], b: &[u8]) -> bool {
    let trim = |id: &[u8]| id.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
    a.get(..trim(a)) == b.get(..trim(b))
}

/// A number of an address: decimal, or hexadecimal after 0x.
#[must_use]
pub fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
