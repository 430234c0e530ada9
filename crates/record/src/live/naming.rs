//! From places to the keys of the table: functions, lines, processes, threads, CPUs.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use truecount_sample::symbols::{SearchPath, Symbols};

use super::own;
use super::types::{By, Hit, Interval, Key, Place};
use crate::kallsyms::Kallsyms;
use crate::names::{self, Named, base_name};

/// Names that are kept; when there are more, all are looked up anew.
const MAX_NAMES: usize = 1 << 15;

/// Symbols of files are kept until the process has this size: on a machine that builds and tests, programs come and
/// go, and each brings its own.
const MAX_MEMORY: u64 = 160 << 20;
/// Names between two looks at the size.
const LOOK: u32 = 256;

/// Looks names up.
pub struct Namer {
    symbols: Symbols,
    kernel: Result<Kallsyms, String>,
    functions: FxHashMap<Place, Key>,
    lines: FxHashMap<Place, Key>,
    /// All keys, so that equal ones share their texts.
    keys: FxHashSet<Key>,
    /// Size of the process at which the symbols of files are given up.
    enough: u64,
    looked_up: u32,
}

impl Namer {
    /// With the names of the kernel, or why there are none.
    pub fn new(kernel: Result<Kallsyms, String>) -> Self {
        Self {
            symbols: Symbols::new(SearchPath::default()),
            kernel,
            functions: FxHashMap::default(),
            lines: FxHashMap::default(),
            keys: FxHashSet::default(),
            enough: MAX_MEMORY,
            looked_up: 0,
        }
    }

    /// Gives up what was read of files when that has become much; names that were found stay.
    fn stay_small(&mut self) {
        self.looked_up = (self.looked_up + 1) % LOOK;
        if self.looked_up == 0 && own::resident() > self.enough {
            self.symbols = Symbols::new(SearchPath::default());
            // What is needed all the time must not be given up every time.
            self.enough = MAX_MEMORY.max(own::give_back().saturating_add(MAX_MEMORY / 4));
        }
    }

    /// The symbols of files.
    pub fn symbols(&mut self) -> &mut Symbols {
        &mut self.symbols
    }

    /// The innermost function at a place, or its line.
    pub fn code(&mut self, line: bool, place: &Place) -> Key {
        let known = if line { &self.lines } else { &self.functions };
        if let Some(known) = known.get(place) {
            return known.clone();
        }
        if self.functions.len() + self.lines.len() >= MAX_NAMES {
            self.functions.clear();
            self.lines.clear();
            self.keys.clear();
            self.symbols = Symbols::new(SearchPath::default());
        }
        self.stay_small();
        let named = self.find(place);
        let key = if line {
            Key::new(&named.source_line(), &named.dso)
        } else {
            Key::new(&named.title(), &named.dso)
        };
        let key = match self.keys.get(&key) {
            Some(known) => known.clone(),
            None => {
                self.keys.insert(key.clone());
                key
            }
        };
        let known = if line {
            &mut self.lines
        } else {
            &mut self.functions
        };
        known.insert(place.clone(), key.clone());
        key
    }

    fn find(&mut self, place: &Place) -> Named {
        match place {
            Place::File(file, offset) => {
                let found = names::in_file(&mut self.symbols, file, *offset);
                let dso = base_name(&file.path);
                let nothing = || Named::plain("(no symbol)".to_owned(), dso);
                found.into_iter().next().unwrap_or_else(nothing)
            }
            Place::Kernel(address) => {
                let found = self.kernel.as_ref().ok();
                found
                    .and_then(|k| names::in_kernel(k, *address))
                    .unwrap_or_else(|| Named::plain("(no symbol)".to_owned(), "[kernel]"))
            }
            Place::Unknown(_) => Named::plain("(no mapping known)".to_owned(), "[unknown]"),
        }
    }

    /// The function of a place as a key.
    pub fn function(&mut self, place: &Place) -> Key {
        self.code(false, place)
    }

    /// The row of a sample where it is not a piece of code.
    pub fn row(&self, by: By, hit: &Hit, interval: &Interval) -> Option<Key> {
        let name = |id: u32| match interval.names.get(&id) {
            Some(name) => Arc::clone(name),
            None => "(ended)".into(),
        };
        match by {
            By::Symbol | By::Line => None,
            By::Process => Some(Key {
                name: name(hit.pid),
                of: hit.pid.to_string().into(),
            }),
            By::Thread => Some(Key {
                name: name(hit.tid),
                of: format!("{}/{}", hit.pid, hit.tid).into(),
            }),
            By::Cpu => Some(match hit.cpu {
                Some(cpu) => Key::new(&format!("CPU {cpu}"), ""),
                None => Key::new("(CPU not recorded)", ""),
            }),
        }
    }

    /// Whether all names of a sample are there without reading files.
    pub fn knows(&self, by: By, hit: &Hit) -> bool {
        let knows = |known: &FxHashMap<Place, Key>, place: &Place| {
            !matches!(place, Place::File(..)) || known.contains_key(place)
        };
        match by {
            By::Symbol | By::Line => {
                let own = if by == By::Line {
                    &self.lines
                } else {
                    &self.functions
                };
                let caller = hit.caller.as_ref();
                knows(own, &hit.place) && caller.is_none_or(|c| knows(&self.functions, c))
            }
            By::Process | By::Thread | By::Cpu => knows(&self.functions, &hit.place),
        }
    }

    /// The start of a place's function in its file, and the function's name; `None` where it has no code to show.
    pub fn function_start(&mut self, place: &Place) -> Option<(u64, String)> {
        let Place::File(file, offset) = place else {
            return None;
        };
        let location = self.symbols.locate(file, *offset);
        let name = location.frames.last()?.function.clone();
        Some((offset.saturating_sub(location.offset), name))
    }

    /// A place as an address a person can look up.
    pub fn address(&self, place: &Place) -> String {
        match place {
            Place::File(file, offset) => format!("{}+{offset:#x}", base_name(&file.path)),
            Place::Unknown(address) => format!("{address:#x}"),
            Place::Kernel(address) => {
                let found = self.kernel.as_ref().ok().and_then(|k| k.find(*address));
                match found {
                    Some(f) => format!("{}+{:#x}", f.name, f.offset),
                    None => format!("{address:#x}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_without_names_say_so() {
        let mut n = Namer::new(Ok(Kallsyms::default()));
        let place = Place::Unknown(0x1234);
        assert_eq!(
            n.function(&place),
            Key::new("(no mapping known)", "[unknown]")
        );
        assert_eq!(n.address(&place), "0x1234");
        assert!(n.function_start(&place).is_none());
    }

    #[test]
    fn an_unknown_cpu_is_a_row_of_its_own() {
        let namer = Namer::new(Ok(Kallsyms::default()));
        let row = |cpu| {
            let hit = Hit {
                event: 0,
                pid: 1,
                tid: 1,
                cpu,
                place: Place::Unknown(1),
                caller: None,
            };
            namer.row(By::Cpu, &hit, &Interval::default()).unwrap()
        };
        assert_eq!(&*row(Some(0)).name, "CPU 0");
        assert_eq!(&*row(None).name, "(CPU not recorded)");
    }

    #[test]
    fn memory_of_names_is_bounded() {
        let mut n = Namer::new(Ok(Kallsyms::default()));
        for i in 0..MAX_NAMES as u64 * 3 {
            let _ = n.function(&Place::Unknown(i));
            assert!(n.functions.len() <= MAX_NAMES);
        }
        assert_eq!(n.keys.len(), 1);
    }
}
