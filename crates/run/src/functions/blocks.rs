//! Events of every function, from the executions of every block: exact, without samples and
//! without stacks. Names come from symbol tables (blazesym), of code that a program wrote itself
//! from `/tmp/perf-PID.map` where the program leaves one, else it is `[jit]`.

mod adding;
mod costs;
mod data;
mod edges;
mod heap;
mod lines;
mod memory;
mod merged;
mod places;
mod trace;

pub use costs::{Detail, Edge, FunctionCosts, LineCost, Piece};
pub(crate) use edges::is_stub;
pub use lines::line_costs;
pub use memory::memory_of;
pub use merged::merged;
pub use trace::{TraceFrame, traces_of};

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use truecount_engine::virt::{Blocks, Counts, Event, Facts, Mapping};
use truecount_sample::spaces::MappedFile;
use truecount_sample::symbols::{FoundFile, SearchPath, Symbols};

use super::kept::KeptNames;
use super::{AskedEvent, Function, base_name};
use crate::result::{RunResult, Thread};
use crate::source::virtual_pmu::cache;

/// The functions that ran, where the run counted blocks, with the asked events; the largest first.
pub fn functions_of(
    ran: &RunResult,
    wishes: &[AskedEvent],
    names: &mut Names,
) -> Option<Vec<Function>> {
    let blocks = ran.executed.blocks.as_ref()?;
    Some(functions(blocks, &ran.executed.threads, wishes, names))
}

/// Functions by (program, module, function), each the number of its text in [`Names::texts`].
type Sums = HashMap<(u32, u32, u32), Counts>;

/// What is known about a mapped file.
struct Module {
    path: String,
    file: Option<MappedFile>,
    /// The file's number in [`Names::kept`].
    kept: usize,
    /// It tells which functions are inlined: names may change from one instruction to the next.
    inlines: bool,
    /// The file as it is there, if it is.
    found: Option<Rc<FoundFile>>,
}

/// A name's number in [`Names::texts`], and where the symbol begins in its file: two addresses with the same are in one
/// function.
type Symbol = (u32, u64);

/// Texts that many places share, each once: a run executes hundreds of thousands of places.
#[derive(Default)]
struct Texts {
    numbers: HashMap<Rc<str>, u32>,
    texts: Vec<Rc<str>>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(&known) = self.numbers.get(text) {
            return known;
        }
        let (text, number): (Rc<str>, _) = (text.into(), self.texts.len() as u32);
        self.texts.push(Rc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    fn of(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", |text| text)
    }
}

/// Names of functions. What is found out for one run serves for others of the same program: its symbol tables are
/// read once.
pub struct Names {
    symbols: Symbols,
    kept: KeptNames,
    modules: HashMap<Mapping, usize>,
    /// The mapping that was looked up last: most blocks come from where the one before came from.
    last: Option<(Mapping, usize)>,
    known: Vec<Module>,
    jit: HashMap<u32, Vec<(u64, u64, String)>>,
    /// The symbol of each offset of a module that was asked for, by its number in `symbols_found`.
    found: HashMap<usize, HashMap<u32, u32>>,
    symbols_found: Vec<Symbol>,
    numbers: HashMap<Symbol, u32>,
    texts: Texts,
    /// See [`Names::below`].
    below: Option<PathBuf>,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            symbols: Symbols::new(SearchPath::default()).settled(),
            kept: KeptNames::new(cache::directory()),
            modules: HashMap::new(),
            last: None,
            known: Vec::new(),
            jit: HashMap::new(),
            found: HashMap::new(),
            symbols_found: Vec::new(),
            numbers: HashMap::new(),
            texts: Texts::default(),
            below: None,
        }
    }
}

/// As `==` has it, without a look at the parts of the paths.
fn is_same(one: &Mapping, other: &Mapping) -> bool {
    let numbers = |of: &Mapping| (of.start, of.end, of.offset, of.device, of.inode);
    numbers(one) == numbers(other) && one.path.as_os_str() == other.path.as_os_str()
}

/// A path as it is outside, where directories in `below` stand for the root.
fn outside(path: &Path, below: &Path) -> Option<PathBuf> {
    let mut parts = path.strip_prefix(below).ok()?.components();
    parts.next()?;
    Some(Path::new("/").join(parts.as_path()))
}

impl Names {
    /// For programs that saw the whole tree in directories of this one, by which nobody else can open a file.
    pub fn below(directory: &Path) -> Self {
        Self {
            below: Some(directory.to_owned()),
            ..Self::default()
        }
    }

    fn module(&mut self, mapping: &Mapping) -> usize {
        if let Some((last, known)) = &self.last
            && is_same(last, mapping)
        {
            return *known;
        }
        let number = self.module_of(mapping);
        self.last = Some((mapping.clone(), number));
        number
    }

    fn module_of(&mut self, mapping: &Mapping) -> usize {
        if let Some(&known) = self.modules.get(mapping) {
            return known;
        }
        let below = self.below.as_deref();
        let real = below.and_then(|below| outside(&mapping.path, below));
        let real = real.as_ref().unwrap_or(&mapping.path);
        let path = real.to_string_lossy().into_owned();
        let pseudo = path.starts_with('[');
        let module = if mapping.inode == 0 || path.is_empty() || path.starts_with("/memfd:") {
            let vdso = pseudo && path != "[heap]" && !path.starts_with("[anon");
            Module {
                path: if vdso { path } else { "[jit]".to_owned() },
                file: None,
                kept: 0,
                inlines: false,
                found: None,
            }
        } else {
            // Another file may be there by now: its symbols would be wrong ones.
            let same = std::fs::metadata(real).is_ok_and(|d| d.ino() == mapping.inode);
            let file = same.then(|| MappedFile {
                path: path.clone(),
                build_id: Vec::new(),
            });
            let number = |file| self.kept.number(&mut self.symbols, file);
            let kept = file.as_ref().map_or(0, number);
            let found = file.as_ref().and_then(|file| self.symbols.find(file).ok());
            Module {
                kept,
                inlines: found.is_some_and(|found| found.has_debug_info()),
                found: found.map(Rc::clone),
                file,
                path,
            }
        };
        self.known.push(module);
        let number = self.known.len() - 1;
        self.modules.insert(mapping.clone(), number);
        number
    }

    /// The file that is mapped, where it is there still.
    fn file_of(&mut self, mapping: &Mapping) -> Option<String> {
        let module = self.module(mapping);
        let file = self.known.get(module)?.file.as_ref()?;
        Some(file.path.clone())
    }

    /// Module and function of a place in code: the function of the symbol, whatever is inlined there.
    pub fn symbol(&mut self, mapping: &Mapping, pc: u64, pid: u32) -> (String, String) {
        let module = self.module(mapping);
        let offset = pc.wrapping_sub(mapping.start).wrapping_add(mapping.offset);
        let Some(known) = self.known.get(module) else {
            return (String::new(), String::new());
        };
        let path = known.path.clone();
        let Some(file) = &known.file else {
            let name = self.at(module, mapping, pc, pid).0;
            return (path, self.texts.of(name).to_owned());
        };
        let location = self.kept.locate(&mut self.symbols, file, offset);
        let name = match location.frames.last() {
            Some(frame) => frame.function.clone(),
            None => format!("[no symbol in {}]", base_name(&path)),
        };
        (path, name)
    }

    /// Source file and line of a place in code, where debug information has them; of what is inlined there, the innermost.
    pub(crate) fn line(&mut self, mapping: &Mapping, pc: u64) -> Option<(String, u32)> {
        let module = self.module(mapping);
        let offset = pc.wrapping_sub(mapping.start).wrapping_add(mapping.offset);
        let file = self.known.get(module)?.file.as_ref()?;
        let location = self.kept.locate(&mut self.symbols, file, offset);
        let frame = location.frames.into_iter().next()?;
        Some((frame.file?, frame.line?))
    }

    /// Names of another run's processes are other ones, whatever their numbers.
    pub fn forget_processes(&mut self) {
        self.jit.clear();
    }

    /// The function at an address of a module.
    fn at(&mut self, module: usize, mapping: &Mapping, pc: u64, pid: u32) -> Symbol {
        let offset = pc.wrapping_sub(mapping.start).wrapping_add(mapping.offset);
        let Some(known) = self.known.get(module) else {
            return (self.texts.number(""), 0);
        };
        let Some(file) = &known.file else {
            if known.path != "[jit]" {
                return (self.texts.number(&known.path), 0);
            }
            let map = self.jit.entry(pid).or_insert_with(|| jit_map(pid));
            let (name, start) = jit_name(map, pc);
            return (self.texts.number(name), start);
        };
        // (What lies beyond 4 GiB is looked up each time.)
        let place = u32::try_from(offset).ok();
        let number = || self.found.get(&module)?.get(&place?);
        if let Some(&found) = number().and_then(|&number| self.symbols_found.get(number as usize)) {
            return found;
        }
        // Kept here, in few bytes a place, and not there.
        let location = self.kept.locate(&mut self.symbols, file, offset);
        let start = offset.wrapping_sub(location.offset);
        // As `report` and `top` name it: the innermost function.
        let symbol = match location.frames.as_slice() {
            [function] => (self.texts.number(&function.function), start),
            [inlined, ..] => {
                let name = format!("{} (inlined)", inlined.function);
                (self.texts.number(&name), start)
            }
            [] => {
                let name = format!("[no symbol in {}]", base_name(&known.path));
                (self.texts.number(&name), 0)
            }
        };
        if let Some(place) = place {
            let number = *self.numbers.entry(symbol).or_insert_with(|| {
                self.symbols_found.push(symbol);
                self.symbols_found.len() as u32 - 1
            });
            self.found.entry(module).or_default().insert(place, number);
        }
        symbol
    }
}

/// `/tmp/perf-PID.map`: lines of start, size (hexadecimal) and name, by start.
fn jit_map(pid: u32) -> Vec<(u64, u64, String)> {
    /// A map of more than this is not read.
    const MAX_BYTES: u64 = 256 << 20;
    let path = format!("/tmp/perf-{pid}.map");
    if std::fs::metadata(&path).map_or(true, |d| !d.is_file() || d.len() > MAX_BYTES) {
        return Vec::new();
    }
    let text = std::fs::read(&path).unwrap_or_default();
    let mut map: Vec<_> = String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| {
            let mut words = line.splitn(3, ' ');
            let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
            let (start, size) = (hex(words.next()?)?, hex(words.next()?)?);
            Some((start, start.saturating_add(size), words.next()?.to_owned()))
        })
        .collect();
    map.sort_by_key(|&(start, ..)| start);
    map
}

fn jit_name(map: &[(u64, u64, String)], pc: u64) -> (&str, u64) {
    let at = map.partition_point(|&(start, ..)| start <= pc);
    match at.checked_sub(1).and_then(|at| map.get(at)) {
        Some((start, end, name)) if pc < *end => (name, *start),
        _ => ("[jit]", 0),
    }
}

fn add(sums: &mut Counts, facts: &[Facts], times: u64) {
    for facts in facts {
        facts.add(times, sums);
    }
}

/// All functions, largest first count first.
fn functions(
    blocks: &Blocks,
    threads: &[Thread],
    wishes: &[AskedEvent],
    names: &mut Names,
) -> Vec<Function> {
    names.forget_processes();
    let images: HashMap<u32, (&str, u32)> = threads
        .iter()
        .rev()
        .map(|thread| (thread.image, (thread.program.as_str(), thread.pid)))
        .collect();
    let mut sums = Sums::new();
    blocks.each(&mut |executed| {
        let (program, pid) = images.get(&executed.image).copied().unwrap_or(("?", 0));
        let program = names.texts.number(program);
        let mut into = |module: u32, function: u32, facts: &[Facts]| {
            let key = (program, module, function);
            add(sums.entry(key).or_default(), facts, executed.times);
        };
        let Some(mapping) = executed.mapping else {
            let unknown = names.texts.number("[unknown]");
            into(unknown, unknown, executed.facts);
            return;
        };
        let module = names.module(mapping);
        let known = names.known.get(module);
        let inlines = known.is_some_and(|known| known.inlines);
        let path = known.map_or("", |known| &known.path);
        let path = names.texts.number(path);
        // A block may run on from one function into the next.
        let mut rest = executed.facts;
        let mut pc = executed.pc;
        while !rest.is_empty() {
            let symbol = names.at(module, mapping, pc, pid);
            let whole: u64 = rest.iter().map(|facts| facts.len()).sum();
            let last = rest.last().map_or(0, |facts| facts.len());
            let end = pc.wrapping_add(whole).wrapping_sub(last);
            let mut taken = rest.len();
            let mut bytes = whole;
            if inlines || names.at(module, mapping, end, pid) != symbol {
                (taken, bytes) = (1, rest.first().map_or(0, |facts| facts.len()));
                while let Some(next) = rest.get(taken)
                    && names.at(module, mapping, pc.wrapping_add(bytes), pid) == symbol
                {
                    taken += 1;
                    bytes = bytes.wrapping_add(next.len());
                }
            }
            let (facts, others) = rest.split_at(taken.min(rest.len()));
            into(path, symbol.0, facts);
            rest = others;
            pc = pc.wrapping_add(bytes);
        }
    });
    let ids: HashMap<String, Option<String>> = names
        .known
        .iter()
        .filter_map(|module| Some((module.path.clone(), module.file.clone()?)))
        .collect::<HashMap<_, _>>()
        .into_iter()
        .map(|(path, file)| {
            let id = names
                .symbols
                .find(&file)
                .ok()
                .map(|f| f.elf.build_id().to_vec());
            let build_id = id.unwrap_or_default();
            let hex = MappedFile {
                path: path.clone(),
                build_id,
            }
            .build_id_hex();
            (path, hex)
        })
        .collect();
    let mut functions: Vec<Function> = sums
        .into_iter()
        .filter(|(_, counts)| counts.iter().any(|&count| count != 0))
        .map(|((program, module, function), counts)| Function {
            build_id: ids.get(names.texts.of(module)).cloned().flatten(),
            program: names.texts.of(program).to_owned(),
            module: names.texts.of(module).to_owned(),
            function: names.texts.of(function).to_owned(),
            first: wishes.first().map_or(0, |wish| of(&counts, wish.event)),
            events: wishes
                .iter()
                .map(|wish| (wish.wanted.name.clone(), of(&counts, wish.event).into()))
                .collect(),
        })
        .collect();
    functions.sort_by(|a, b| {
        b.first.cmp(&a.first).then_with(|| {
            (&a.program, &a.module, &a.function).cmp(&(&b.program, &b.module, &b.function))
        })
    });
    functions
}

fn of(counts: &Counts, event: Event) -> u64 {
    counts.get(event as usize).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_name_of_the_tree_leads_back() {
        let of = |path: &str| outside(Path::new(path), Path::new("/tmp/below"));
        assert_eq!(of("/tmp/below/dd/home/p").unwrap(), Path::new("/home/p"));
        assert_eq!(of("/tmp/below"), None);
        assert_eq!(of("/tmp/belowdd/home/p"), None);
    }

    #[test]
    fn addresses_of_jit_code_find_their_names() {
        let map = [
            (0x100, 0x110, "a".to_owned()),
            (0x200, 0x280, "b".to_owned()),
        ];
        assert_eq!(jit_name(&map, 0x10f), ("a", 0x100));
        assert_eq!(jit_name(&map, 0x110).0, "[jit]");
        assert_eq!(jit_name(&map, 0x27f).0, "b");
        assert_eq!(jit_name(&map, 0).0, "[jit]");
        assert_eq!(jit_name(&[], 5).0, "[jit]");
    }
}
