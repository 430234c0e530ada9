//! Where functions begin and end, as the files say that are mapped for execution: by their symbols, and where there
//! are few, by the tables for unwinding. It decides which jumps are tail calls.
//!
//! Sources: elf(5); Linux Standard Base, `.eh_frame_hdr` and `.eh_frame`.

use crate::allocations;
use crate::elf_file::{File, Place, each_symbol, sections, segments};
use crate::lock::{Guard, Mutex};
use crate::table::Table;
use core::ops::Range;

/// A mapped part of a file, and its functions.
#[derive(Clone, Copy)]
struct Module {
    start: u64,
    end: u64,
    first: u32,
    count: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    start: u64,
    end: u64,
    /// An entry of a procedure linkage table.
    stub: bool,
}

pub struct Functions {
    /// By address.
    modules: Table<Module>,
    all: Table<Function>,
}

const MAX_MODULES: usize = 16_384;
const MAX_FUNCTIONS: usize = 8 << 20;

static FUNCTIONS: Mutex<Functions> = Mutex::new(Functions {
    modules: Table::new(),
    all: Table::new(),
});

pub fn init() {
    let mut functions = FUNCTIONS.lock();
    functions.modules.init(MAX_MODULES);
    functions.all.init(MAX_FUNCTIONS);
}

/// For a `fork`.
pub fn lock() -> Guard<'static, Functions> {
    FUNCTIONS.lock()
}

/// Frees the lock in a child made by `fork`.
///
/// # Safety
/// The forking thread held it, and nothing of its guard is used in the child.
pub unsafe fn free_in_child() {
    // SAFETY: the caller's.
    unsafe { FUNCTIONS.free_in_child() }
}

/// What is known of a place in code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The function's first address, or where the gap between two begins.
    pub start: u64,
    /// Its length; 0: nothing is known.
    pub len: u64,
    /// It is known to be in a function …
    pub known: bool,
    /// … and where that begins.
    pub begins: bool,
    /// It is an entry of a procedure linkage table.
    pub stub: bool,
    /// Where the part of the file is mapped that the code is in; 0: no file's.
    pub module: u64,
}

const UNKNOWN: Found = Found {
    start: 0,
    len: 0,
    known: false,
    begins: false,
    stub: false,
    module: 0,
};

impl Functions {
    fn find(&self, pc: u64) -> Found {
        let modules = self.modules.slice();
        let after = modules.partition_point(|module| module.start <= pc);
        let module = after.checked_sub(1).and_then(|at| modules.get(at));
        let Some(module) = module.filter(|module| pc < module.end) else {
            return UNKNOWN;
        };
        let first = module.first as usize;
        let functions = self.all.slice().get(first..first + module.count as usize);
        let functions = functions.unwrap_or(&[]);
        let after = functions.partition_point(|function| function.start <= pc);
        let next = functions.get(after).map_or(module.end, |next| next.start);
        let (mut start, mut end) = (module.start, next);
        let (mut known, mut begins, mut stub) = (false, false, false);
        if let Some(before) = after.checked_sub(1).and_then(|at| functions.get(at)) {
            begins = before.start == pc;
            known = begins || pc < before.end;
            stub = known && before.stub;
            (start, end) = match pc < before.end {
                true => (before.start, before.end.min(next)),
                false => (before.end, next),
            };
        }
        Found {
            start,
            len: end.saturating_sub(start),
            known,
            begins,
            stub,
            module: module.start,
        }
    }
}

/// What is known of a place in code.
pub fn find(pc: u64) -> Found {
    FUNCTIONS.lock().find(pc)
}

/// Whether a direct jump is a tail call: to the beginning of another function, or into another file.
pub fn is_tail_call(from: u64, to: u64) -> bool {
    let functions = FUNCTIONS.lock();
    let to_found = functions.find(to);
    let from_found = functions.find(from);
    to_found.module != from_found.module || to_found.begins && to_found.start != from_found.start
}

/// A mapping for execution, as /proc/self/maps tells it: what asks for functions by it.
pub fn mapped(range: Range<u64>, offset: u64, inode: u64, path: &[u8]) {
    if allocations::on() && inode != 0 {
        allocations::find(&range, offset, inode, path);
    }
    note(range, offset, inode, path);
}

/// Its functions, for [`find`].
fn note(range: Range<u64>, offset: u64, inode: u64, path: &[u8]) {
    let mut functions = FUNCTIONS.lock();
    if functions.modules.capacity() == 0 {
        return; // nobody asks
    }
    let modules = functions.modules.slice();
    let from = modules.partition_point(|module| module.end <= range.start);
    let to = modules.partition_point(|module| module.start < range.end);
    let mut new = None;
    if inode != 0 && functions.modules.room() > 0 {
        let first = functions.all.len();
        load(&mut functions.all, &range, offset, inode, path);
        let count = functions.all.len() - first;
        new = Some(Module {
            start: range.start,
            end: range.end,
            first: first as u32,
            count: count as u32,
        });
    }
    functions
        .modules
        .splice(from, to.max(from), new.into_iter());
}

/// Adds the functions of a mapping.
fn load(all: &mut Table<Function>, range: &Range<u64>, offset: u64, inode: u64, path: &[u8]) {
    let Some((file, place)) = File::of_mapping(range, offset, inode, path) else {
        return;
    };
    let first = all.len();
    let whole = symbols(all, &file, &place);
    if !whole {
        unwinding(all, &file, &place);
    }
    stubs(all, &file, &place);
    let new = all.slice_mut().get_mut(first..).unwrap_or(&mut []);
    new.sort_unstable();
    // Of several names for a place the longest extent counts.
    let mut kept = 0;
    for at in 0..new.len() {
        let Some(&this) = new.get(at) else { break };
        if kept > 0
            && let Some(last) = new.get_mut(kept - 1)
            && last.start == this.start
        {
            last.end = last.end.max(this.end);
            last.stub |= this.stub;
        } else if let Some(place) = new.get_mut(kept) {
            *place = this;
            kept += 1;
        }
    }
    all.claim(first + kept);
}

fn add(all: &mut Table<Function>, place: &Place, address: u64, size: u64, stub: bool) {
    if (place.from..place.to).contains(&address) && all.room() > 0 {
        let start = address.wrapping_add(place.bias);
        let size = size.min(place.to - address);
        all.push(Function {
            start,
            end: start + size,
            stub,
        });
    }
}

/// The entries of procedure linkage tables: what jumps there calls, or is a tail call.
fn stubs(all: &mut Table<Function>, file: &File, place: &Place) {
    let names = sections(file).nth(usize::from(file.half(62).unwrap_or(0)));
    let names = names.and_then(|names| file.long(names.checked_add(24)?));
    let name_of = |section: u64| {
        let at = names?.checked_add(u64::from(file.word(section)?))?;
        file.bytes::<8>(at)
    };
    for section in sections(file) {
        let is_table = name_of(section).is_some_and(|name| {
            name.starts_with(b".plt\0")
                || name.starts_with(b".plt.")
                || name.starts_with(b".iplt\0")
        });
        if !is_table {
            continue;
        }
        let field = |at: u64| section.checked_add(at).and_then(|at| file.long(at));
        let (address, bytes) = (field(16).unwrap_or(0), field(32).unwrap_or(0).min(file.len));
        let each = field(56).filter(|each| (8..=64).contains(each));
        let each = each.unwrap_or(16);
        for number in 0..bytes / each {
            add(all, place, address.wrapping_add(number * each), each, true);
        }
    }
}

/// Function symbols. True where the whole table of symbols is there, not only that for linking.
fn symbols(all: &mut Table<Function>, file: &File, place: &Place) -> bool {
    each_symbol(file, &mut |symbol| {
        // STT_FUNC, STT_GNU_IFUNC
        if matches!(symbol.kind, 2 | 10) {
            add(all, place, symbol.address, symbol.size, false);
        }
    })
}

/// Functions by the sorted table that unwinding uses.
fn unwinding(all: &mut Table<Function>, file: &File, place: &Place) {
    const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
    let header = segments(file).find(|&(kind, ..)| kind == PT_GNU_EH_FRAME);
    let Some((_, _, at, address, _)) = header else {
        return;
    };
    // Version 1; a count of four bytes; a table relative to the header, of four bytes.
    let Some([1, _, 0x03, 0x3b]) = file.bytes(at) else {
        return;
    };
    let count = file.word(at + 8).unwrap_or(0);
    for number in 0..u64::from(count) {
        let entry = at + 12 + number * 8;
        let (Some(start), Some(described)) = (file.word(entry), file.word(entry + 4)) else {
            break;
        };
        let start = address.wrapping_add_signed(i64::from(start as i32));
        // The description lies in the same part of the file. Its length comes behind its beginning.
        let described = at.wrapping_add_signed(i64::from(described as i32));
        let size = described.checked_add(12).and_then(|at| file.word(at));
        add(all, place, start, u64::from(size.unwrap_or(0)), false);
    }
}
