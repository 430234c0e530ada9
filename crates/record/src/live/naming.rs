//! From places to the keys of the table: functions, lines, processes, threads, CPUs.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

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
    /// Another thread that reads files, which may take seconds for one.
    reader: Option<Reader>,
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
            reader: None,
            kernel,
            functions: FxHashMap::default(),
            lines: FxHashMap::default(),
            keys: FxHashSet::default(),
            enough: MAX_MEMORY,
            looked_up: 0,
        }
    }

    /// As [`Namer::new`], with a thread of its own that reads files: see [`Namer::prepare`].
    ///
    /// # Errors
    /// There can be no thread.
    pub fn apart(kernel: Result<Kallsyms, String>) -> std::io::Result<Self> {
        let mut this = Self::new(kernel);
        this.reader = Some(Reader::start()?);
        Ok(this)
    }

    /// Has the names of a sample ready, or is late: `false`. Without a thread of its own they are read when asked for.
    pub fn prepare(&mut self, by: By, hit: &Hit, until: Option<Instant>) -> bool {
        if self.reader.is_none() || self.knows(by, hit) {
            return true;
        }
        let lines = by == By::Line;
        let caller = hit.caller.iter().map(|place| (false, place));
        let all: Vec<(bool, &Place)> = std::iter::once((lines, &hit.place)).chain(caller).collect();
        all.into_iter()
            .all(|(line, place)| self.fetch(line, place, until))
    }

    fn fetch(&mut self, line: bool, place: &Place, until: Option<Instant>) -> bool {
        let known = if line { &self.lines } else { &self.functions };
        let Some(reader) = &mut self.reader else {
            return true;
        };
        if !matches!(place, Place::File(..)) || known.contains_key(place) {
            return true;
        }
        let key = match reader.read(line, place, until) {
            Ok(Some(key)) => key,
            Ok(None) => return false,
            Err(Gone) => {
                self.reader = None;
                return true;
            }
        };
        self.keep(line, place, key);
        true
    }

    /// Keeps a place's name, equal ones once.
    fn keep(&mut self, line: bool, place: &Place, key: Key) -> Key {
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
        self.keep(line, place, key)
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

/// A thread that reads the names of files. What it is asked for is answered in order; an answer that nobody waited for
/// is dropped, and what it says is known to the thread from then on.
struct Reader {
    asks: Sender<(bool, Place)>,
    answers: Receiver<(bool, Place, Key)>,
    /// Asked for, and not answered yet.
    open: Option<(bool, Place)>,
}

/// The thread has ended: what it panicked with was printed.
struct Gone;

impl Reader {
    fn start() -> std::io::Result<Self> {
        let (asks, asked) = channel::<(bool, Place)>();
        let (answer, answers) = channel();
        let read = move || {
            let mut namer = Namer::new(Ok(Kallsyms::default()));
            for (line, place) in asked {
                let key = namer.code(line, &place);
                if answer.send((line, place, key)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("names".to_owned());
        thread.spawn(read)?;
        Ok(Self {
            asks,
            answers,
            open: None,
        })
    }

    /// The name; `None`: not until then.
    fn read(
        &mut self,
        line: bool,
        place: &Place,
        until: Option<Instant>,
    ) -> Result<Option<Key>, Gone> {
        loop {
            let asked = self.open.take();
            let this = asked.is_none() || asked == Some((line, place.clone()));
            if asked.is_none() {
                let ask = (line, place.clone());
                self.asks.send(ask).map_err(|_| Gone)?;
            }
            self.open = asked.or_else(|| Some((line, place.clone())));
            let answer = match until {
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    match self.answers.recv_timeout(left) {
                        Ok(answer) => answer,
                        Err(RecvTimeoutError::Timeout) => return Ok(None),
                        Err(RecvTimeoutError::Disconnected) => return Err(Gone),
                    }
                }
                None => self.answers.recv().map_err(|_| Gone)?,
            };
            self.open = None;
            if this {
                return Ok(Some(answer.2));
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
    fn names_are_read_by_another_thread_which_may_be_late() {
        let mut namer = Namer::apart(Ok(Kallsyms::default())).unwrap();
        let own = std::env::current_exe().unwrap();
        let file = truecount_sample::spaces::MappedFile {
            path: own.to_str().unwrap().to_owned(),
            build_id: Vec::new(),
        };
        let hit = Hit {
            event: 0,
            pid: 1,
            tid: 1,
            cpu: None,
            place: Place::File(Arc::new(file), 0x1234),
            caller: Some(Place::Unknown(7)),
        };
        // Its time has passed: it is asked for, and not waited for.
        let begun = Instant::now();
        assert!(!namer.prepare(By::Symbol, &hit, Some(begun)));
        assert!(namer.prepare(By::Symbol, &hit, None) && namer.knows(By::Symbol, &hit));
        let key = namer.function(&hit.place);
        assert_eq!(
            key,
            Namer::new(Ok(Kallsyms::default())).function(&hit.place)
        );
        assert!(namer.prepare(By::Line, &hit, None) && namer.lines.len() == 1);
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
