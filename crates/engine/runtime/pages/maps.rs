//! The list of mappings: `/proc/thread-self/maps` (proc(5)) at the start, and kept from the calls that change
//! mappings since, so that a program with thousands of them, or one that has no /proc any more, costs nothing
//! more. What only the kernel knows (which file is mapped, as /proc tells it) is read again where it is asked for.

use super::{EXEC, READ, WRITE};
use crate::sys;
use crate::syscall_table as nr;
use crate::table::Table;

/// One mapping.
#[derive(Clone, Copy)]
pub(super) struct Vma {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) prot: u8,
    /// Others may see what is written here, and write it.
    pub(super) shared: bool,
    /// Which file (a mixture of device and inode); 0: none.
    pub(super) file: u64,
    /// Where in the file it starts.
    pub(super) offset: u64,
    /// The file has no name that others know: a program's own, made to be written.
    pub(super) nameless: bool,
    /// A stack, which grows downwards.
    pub(super) grows: bool,
}

/// A file of which nothing else is known.
const SOME_FILE: u64 = 1 << 63;

impl Vma {
    /// The file's inode, as far as it is kept.
    pub(super) fn inode(&self) -> u64 {
        self.file & ((1 << 40) - 1)
    }

    /// Private memory of a file that nothing can write: code as it was linked.
    pub(super) fn is_constant(&self) -> bool {
        self.file != 0 && !self.shared && self.prot & (EXEC | WRITE) == EXEC
    }

    /// Code, or what may be written to code elsewhere.
    pub(super) fn matters(&self) -> bool {
        self.prot & EXEC != 0 || self.shared && self.prot & WRITE != 0
    }

    fn anonymous(start: u64, end: u64, prot: u8) -> Self {
        Self {
            start,
            end,
            prot,
            shared: false,
            file: 0,
            offset: 0,
            nameless: false,
            grows: false,
        }
    }

    /// What mmap made. Its descriptor is asked where it matters what is mapped.
    pub(super) fn new(start: u64, end: u64, a: [u64; 6]) -> Self {
        let mut new = Self::anonymous(start, end, (a[2] & 7) as u8);
        // MAP_SHARED, MAP_SHARED_VALIDATE; MAP_GROWSDOWN; MAP_ANONYMOUS
        new.shared = a[3] & 1 != 0;
        new.grows = a[3] & 0x100 != 0;
        let anonymous = a[3] & 0x20 != 0;
        if anonymous && !new.shared {
            return new;
        }
        (new.file, new.offset) = (SOME_FILE, a[5]);
        let mut stat = [0u64; 18];
        let known = !anonymous && new.matters() && {
            // SAFETY: fstat into struct stat's 144 bytes.
            let result =
                unsafe { sys::call(nr::FSTAT, [a[4], stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
            result == 0
        };
        if known {
            let [device, inode, links, ..] = stat;
            let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
            new.file = SOME_FILE | inode | (major << 20 | minor) << 40;
            new.nameless = links == 0;
        }
        new
    }

    /// The part of it in a range.
    fn cut(mut self, start: u64, end: u64) -> Self {
        let from = self.start.max(start);
        self.offset = self.offset.wrapping_add(from - self.start);
        (self.start, self.end) = (from, self.end.min(end));
        self
    }

    /// One mapping as far as we care.
    fn continues(&self, before: &Self) -> bool {
        let plain = |v: &Self| v.file == 0 && !v.shared && !v.grows;
        plain(self) && plain(before) && before.end == self.start && before.prot == self.prot
    }
}

/// Mappings beyond which the list is not read for the names of those without a file.
const MANY: usize = 2000;
/// More mappings than the kernel allows, unless its bound (`vm.max_map_count`) was raised very far.
const MAX_VMAS: usize = 1 << 20;

/// Mappings that grow of which it is known after the list was read.
const GROWING: usize = 8;

pub(super) struct Maps {
    /// By address.
    list: Table<Vma>,
    /// Shared mappings that can be written.
    shared_writable: usize,
    /// /proc must not be asked any more.
    closed: bool,
    /// What can be read can be executed (READ_IMPLIES_EXEC of personality(2)): the calls do not tell.
    implied: bool,
    /// Where those are that grow, as far as is known.
    growing: [(u64, u64); GROWING],
}

impl Maps {
    pub(super) const fn new() -> Self {
        Self {
            list: Table::new(),
            shared_writable: 0,
            closed: false,
            implied: false,
            growing: [(0, 0); GROWING],
        }
    }

    pub(super) fn list(&self) -> &[Vma] {
        self.list.slice()
    }

    /// The first mapping that ends behind an address.
    fn first(&self, address: u64) -> usize {
        self.list().partition_point(|v| v.end <= address)
    }

    pub(super) fn find(&self, address: u64) -> Option<Vma> {
        let next = self.list().get(self.first(address)).copied();
        next.filter(|v| v.start <= address)
    }

    /// Whether an address in no mapping may be in one now: a stack grows without a call.
    pub(super) fn may_have_grown(&self, address: u64) -> bool {
        let next = self.list().get(self.first(address));
        next.is_some_and(|v| v.grows && v.start > address && v.start - address < 64 << 20)
    }

    /// Whether something in a range is mapped that cannot be executed.
    pub(super) fn lacks_execution(&self, start: u64, end: u64) -> bool {
        self.within(start, end).any(|v| v.prot & EXEC == 0)
    }

    /// Whether a range is mapped, and in one way: for a program it is one mapping.
    pub(super) fn is_of_one_kind(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        let mut first: Option<Vma> = None;
        for v in self.within(start, end) {
            let first = *first.get_or_insert(*v);
            let follows = v.offset.wrapping_sub(first.offset) == v.start - first.start;
            let alike = v.prot == first.prot && v.shared == first.shared && v.file == first.file;
            if v.start > at || !alike || v.file != 0 && !follows {
                return false;
            }
            at = v.end;
        }
        at >= end
    }

    /// Mappings that lie in a range, or reach into it.
    pub(super) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = &Vma> {
        let from = self.list().get(self.first(start)..).unwrap_or(&[]);
        from.iter().take_while(move |v| v.start < end)
    }

    /// Whether code of this mapping can be written elsewhere than there: shared memory, files that the program made
    /// itself, and those that it has mapped for writing as well.
    pub(super) fn is_written_elsewhere(&self, own: &Vma) -> bool {
        let writes = |v: &Vma| v.file == own.file && v.shared && v.prot & WRITE != 0;
        let mapped = || self.shared_writable != 0 && self.list().iter().any(writes);
        own.shared || own.file != 0 && (own.nameless || mapped())
    }

    /// A range is mapped so from now on.
    pub(super) fn insert(&mut self, new: Vma) {
        self.replace(new.start, new.end, &mut [new]);
    }

    /// Nothing is mapped in a range any more.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        self.replace(start, end, &mut []);
    }

    /// mprotect. What is not in the list (the heap grows without our seeing it) is private memory.
    pub(super) fn protect(&mut self, start: u64, end: u64, prot: u8) {
        let mut at = start;
        while at < end {
            let next = self.list().get(self.first(at)).copied();
            let part = match next {
                Some(v) if v.start <= at => v.cut(at, end),
                Some(v) => Vma::anonymous(at, end.min(v.start), prot),
                None => Vma::anonymous(at, end, prot),
            };
            self.insert(Vma { prot, ..part });
            at = part.end;
        }
    }

    /// mremap: from `old` to `new`; `kept`: the old range stays mapped. Of one size it may be several mappings with
    /// gaps between them (since Linux 6.17); false: what is there was not all known.
    pub(super) fn moved(&mut self, old: (u64, u64), new: (u64, u64), kept: bool) -> bool {
        let mut known = true;
        if old.0 == new.0 && new.1 <= old.1 {
            // In place, and perhaps shorter: several mappings stay as they are.
            self.remove(new.1, old.1);
            return true;
        }
        if old.1 - old.0 == new.1 - new.0 && old.0 != new.0 {
            self.remove(new.0, new.1);
            let mut at = old.0;
            while at < old.1 {
                let next = self.list().get(self.first(at)).copied();
                known &= next.is_some_and(|v| v.start <= at);
                let Some(v) = next.filter(|v| v.start < old.1) else {
                    break;
                };
                let mut part = v.cut(at, old.1);
                at = part.end;
                part.start = part.start - old.0 + new.0;
                part.end = part.end - old.0 + new.0;
                self.insert(part);
            }
            if !kept {
                self.remove(old.0, old.1);
            }
            return known;
        }
        let from = self.list().get(self.first(old.0)).copied();
        let mut to = match from {
            Some(v) if v.start <= old.0 => v.cut(old.0, u64::MAX),
            _ => Vma::anonymous(0, 0, READ | WRITE),
        };
        if !kept {
            self.remove(old.0, old.1);
        }
        (to.start, to.end) = new;
        self.insert(to);
        known
    }

    fn replace(&mut self, start: u64, end: u64, new: &mut [Vma]) {
        if start >= end {
            return;
        }
        let from = self.first(start);
        let to = from + self.within(start, end).count();
        let old = self.list().get(from..to).unwrap_or(&[]);
        let left = old
            .first()
            .filter(|v| v.start < start)
            .map(|v| v.cut(0, start));
        let right = old
            .last()
            .filter(|v| v.end > end)
            .map(|v| v.cut(end, u64::MAX));
        let writable = |v: &&Vma| v.shared && v.prot & WRITE != 0;
        self.shared_writable -= old.iter().filter(writable).count();
        let (mut from, mut to) = (from, to);
        let (mut left, mut right) = (left, right);
        // Neighbours that are one with it.
        if let [new] = new {
            let before = left.or_else(|| self.list().get(from.wrapping_sub(1)).copied());
            if let Some(v) = before.filter(|v| new.continues(v)) {
                new.start = v.start;
                from -= usize::from(left.is_none());
                left = None;
            }
            let after = right.or_else(|| self.list().get(to).copied());
            if let Some(v) = after.filter(|v| v.continues(new)) {
                new.end = v.end;
                to += usize::from(right.is_none());
                right = None;
            }
        }
        let parts = left.iter().chain(new.iter()).chain(right.iter());
        self.shared_writable += parts.clone().filter(writable).count();
        self.list.splice(from, to, parts.copied());
    }

    /// Whether the list has to be read after a change: profiles name what is mapped. (Of very many mappings nearly all
    /// are a JIT's, without names.)
    pub(super) fn must_be_read(&self) -> bool {
        self.implied || crate::counts::per_block() && self.list.len() < MANY
    }

    /// From now on /proc is not asked.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Reads the list again; false where that is not possible. It is the kernel's: watched pages cannot be written there.
    pub(super) fn read(&mut self) -> bool {
        if self.list.capacity() == 0 {
            self.list.init(MAX_VMAS);
            // SAFETY: only asks.
            let personality = unsafe { sys::call(nr::PERSONALITY, [0xffff_ffff, 0, 0, 0, 0, 0]) };
            self.implied = personality & 0x40_0000 != 0;
        }
        let path = b"/proc/thread-self/maps\0";
        let fd = match self.closed {
            true => -1,
            // SAFETY: open, with our own path.
            false => unsafe {
                sys::call(nr::OPEN, [path.as_ptr() as u64, 0o2_000_000, 0, 0, 0, 0])
            },
        };
        // Not at the start: later what is known from the calls has to do.
        crate::check!(
            fd >= 0 || self.list.len() != 0,
            "/proc/thread-self/maps cannot be opened (errno {})",
            -fd
        );
        if fd < 0 {
            return false;
        }
        self.keep_growing();
        self.list.claim(0);
        self.shared_writable = 0;
        let mut buffer = [0u8; 4096];
        // start-end permissions offset major:minor inode path
        let (mut field, mut values) = (0usize, [0u64; 7]);
        let (mut prot, mut shared) = (0u8, false);
        // The path: its first byte but one, and its last.
        let mut path = [0u8; 3];
        loop {
            // SAFETY: as above.
            let got = unsafe {
                sys::call(
                    nr::READ,
                    [fd as u64, buffer.as_mut_ptr() as u64, 4096, 0, 0, 0],
                )
            };
            if got <= 0 {
                break;
            }
            for &byte in buffer.iter().take(got as usize) {
                match (field, byte) {
                    (_, b'\n') => {
                        let [start, end, _, offset, major, minor, inode] = values;
                        {
                            let file = if inode == 0 {
                                0
                            } else {
                                inode | (major << 20 | minor) << 40 | 1 << 63
                            };
                            // "/memfd:…" and "… (deleted)".
                            let nameless = path[2] == b')' || path[0] == b'/' && path[1] == b'm';
                            self.add(Vma {
                                start,
                                end,
                                prot,
                                shared,
                                file,
                                offset,
                                nameless: file != 0 && nameless,
                                grows: path[0] == b'[' && path[1] == b's',
                            });
                        }
                        (field, values, prot, shared) = (0, [0; 7], 0, false);
                        path = [0; 3];
                    }
                    (0, b'-') | (1 | 2 | 3 | 5, b' ') | (4, b':') => field += 1,
                    (2, b'r') => prot |= READ,
                    (2, b'w') => prot |= WRITE,
                    (2, b'x') => prot |= EXEC,
                    (2, b's') => shared = true,
                    (6, digit @ b'0'..=b'9') => {
                        values[6] = values[6]
                            .wrapping_mul(10)
                            .wrapping_add(u64::from(digit - b'0'));
                    }
                    (6, _) => field = 7,
                    (7, b' ') if path[0] == 0 => {}
                    (7, byte) => {
                        match path {
                            [0, ..] => path[0] = byte,
                            [_, 0, _] => path[1] = byte,
                            _ => {}
                        }
                        path[2] = byte;
                    }
                    (0 | 1 | 3 | 4 | 5, digit) => values[field] = values[field] << 4 | hex(digit),
                    _ => {}
                }
            }
        }
        // SAFETY: our descriptor.
        unsafe { sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]) };
        crate::counts::note_mappings();
        true
    }

    /// Of the program's own mappings that grow, the file does not tell it.
    fn keep_growing(&mut self) {
        let mut growing = [(0, 0); GROWING];
        let grow = self.list().iter().filter(|v| v.grows);
        for (to, v) in growing.iter_mut().zip(grow) {
            *to = (v.start, v.end);
        }
        self.growing = growing;
    }

    fn add(&mut self, mut vma: Vma) {
        let grew = |&(start, end): &(u64, u64)| vma.start < end && start < vma.end;
        vma.grows |= self.growing.iter().any(grew);
        self.shared_writable += usize::from(vma.shared && vma.prot & WRITE != 0);
        self.list.push(vma);
    }
}

fn hex(digit: u8) -> u64 {
    match digit {
        b'0'..=b'9' => u64::from(digit - b'0'),
        b'a'..=b'f' => u64::from(digit - b'a' + 10),
        _ => 0,
    }
}
