//! Files that were found, and what of their names can be told without another look at them.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use truecount_elf::plt::Stub;

use super::{Location, frame};
use crate::elf::Elf;

/// A mapped file that is there.
#[derive(Debug)]
pub struct FoundFile {
    /// Where.
    pub path: PathBuf,
    /// Its contents.
    pub elf: Elf,
    /// The stubs of its procedure linkage tables, which no symbol names; looked for when they are asked for.
    stubs: OnceCell<Vec<Stub>>,
    /// What its symbols alone tell; none: it has debug information.
    stretches: OnceCell<Option<Stretches>>,
}

/// The addresses of a file, as symbols and stubs divide them: all of a stretch have the same names.
#[derive(Debug, Default)]
struct Stretches {
    /// Where they begin; each goes as far as the next.
    borders: Vec<u64>,
    /// The one that was asked for last: mostly it is the same.
    last: Cell<usize>,
    /// By number: the names at an address in it, and that address.
    known: RefCell<FxHashMap<u32, (u64, Location)>>,
}

impl Stretches {
    /// The number of the one that an address is in.
    fn number(&self, address: u64) -> Option<u32> {
        let at = self.last.get();
        let is = |at: usize| {
            let here = self.borders.get(at).is_some_and(|from| *from <= address);
            here && self.borders.get(at + 1).is_none_or(|end| address < *end)
        };
        if !is(at) {
            let behind = self.borders.partition_point(|from| *from <= address);
            self.last.set(behind.checked_sub(1)?);
        }
        u32::try_from(self.last.get()).ok()
    }
}

impl FoundFile {
    pub(super) fn new(path: PathBuf, elf: Elf) -> Self {
        Self {
            path,
            elf,
            stubs: OnceCell::new(),
            stretches: OnceCell::new(),
        }
    }

    fn stubs(&self) -> &[Stub] {
        let found = || truecount_elf::plt::stubs(self.elf.bytes());
        self.stubs.get_or_init(found)
    }

    /// The stub at an offset.
    fn stub(&self, offset: u64) -> Option<Location> {
        let address = self.elf.address_of(offset)?;
        let stubs = self.stubs();
        let after = stubs.partition_point(|stub| stub.range.start <= address);
        let stub = stubs.get(after.checked_sub(1)?)?;
        stub.range.contains(&address).then(|| Location {
            frames: vec![frame(stub.name.clone(), None)],
            offset: address - stub.range.start,
        })
    }

    /// Whether it tells which functions are inlined.
    #[must_use]
    pub fn has_debug_info(&self) -> bool {
        self.elf.section(".debug_info").is_some()
    }

    /// Where separate debug information of it is looked for: by its build id, and by the name that it has of it.
    #[must_use]
    pub fn separate_debug_info(&self) -> Vec<PathBuf> {
        let path = self.path.as_path();
        let roots = ["/usr/lib/debug", "/lib/debug"].map(Path::new);
        let mut package = path.as_os_str().to_owned();
        package.push(".dwp");
        let mut places = vec![PathBuf::from(package)];
        if let [first, rest @ ..] = self.elf.build_id()
            && !rest.is_empty()
        {
            let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
            let name = format!(".build-id/{first:02x}/{rest}.debug");
            places.extend(roots.map(|root| root.join(&name)));
        }
        let link = self.elf.section(".gnu_debuglink");
        let link = link.map_or(&[][..], |(_, bytes)| bytes);
        let name = link.split(|byte| *byte == 0).next().unwrap_or(&[]);
        if name.is_empty() {
            return places;
        }
        let name = OsStr::from_bytes(name);
        places.extend(roots.map(|root| root.join(name)));
        // (The file may be a link to another directory's, and so may the directory.)
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (file, directory) = (real(path), path.parent().unwrap_or(path));
        let directories = [Some(directory), Some(&real(directory)), file.parent()];
        for directory in directories.into_iter().flatten() {
            places.push(directory.join(name));
            places.push(directory.join(".debug").join(name));
            let below = directory.strip_prefix("/").unwrap_or(directory);
            for below in below.ancestors() {
                places.extend(roots.map(|root| root.join(below).join(name)));
            }
        }
        places
    }

    /// There is no debug information of it, in it or elsewhere: its names are those of its symbols.
    #[must_use]
    pub fn has_symbols_alone(&self) -> bool {
        self.stretches().is_some()
    }

    fn stretches(&self) -> Option<&Stretches> {
        let find = || {
            let others = [".gnu_debugdata", ".gnu_debugaltlink"];
            let debug = |name: &str| {
                name.starts_with(".debug_")
                    || name.starts_with(".zdebug_")
                    || others.contains(&name)
            };
            if self.elf.sections().next().is_none()
                || self.elf.sections().any(debug)
                || self.separate_debug_info().iter().any(|path| path.exists())
            {
                return None;
            }
            let mut borders = truecount_elf::borders(self.elf.bytes());
            let stubs = self.stubs().iter();
            borders.extend(stubs.flat_map(|stub| [stub.range.start, stub.range.end]));
            borders.sort_unstable();
            borders.dedup();
            Some(Stretches {
                borders,
                ..Stretches::default()
            })
        };
        self.stretches.get_or_init(find).as_ref()
    }

    /// A number for what is at an offset: places with the same have the same names, and nothing else is known of any of
    /// them. `None`: there is more to know, by place.
    #[must_use]
    pub fn stretch(&self, offset: u64) -> Option<u32> {
        self.stretches()?.number(self.elf.address_of(offset)?)
    }

    /// What is known of an offset without a look at symbols or debug information.
    pub(super) fn names(&self, offset: u64) -> Option<Location> {
        let known = || {
            let stretches = self.stretches()?;
            let address = self.elf.address_of(offset)?;
            let known = stretches.known.borrow();
            let (at, location) = known.get(&stretches.number(address)?)?;
            let far = location.offset.wrapping_add(address).wrapping_sub(*at);
            Some(Location {
                frames: location.frames.clone(),
                offset: if location.frames.is_empty() { 0 } else { far },
            })
        };
        self.stub(offset).or_else(known)
    }

    /// What was found there.
    pub(super) fn learn(&self, offset: u64, found: &Location) {
        if let (Some(stretches), Some(address)) = (self.stretches(), self.elf.address_of(offset))
            && let Some(number) = stretches.number(address)
        {
            let mut known = stretches.known.borrow_mut();
            known.insert(number, (address, found.clone()));
        }
    }
}
