//! What the program does to its mappings, as far as code pages care.

use super::{EXEC, Page, Pages, WRITE, protect, watched, without_write};
use crate::block::NONE;
use crate::cache::Cache;
use crate::sys;
use crate::syscall_table as nr;
use core::sync::atomic::Ordering::*;

impl Pages {
    /// The page is no longer watched, for whatever reason.
    fn unwatch(&mut self, number: u64) {
        if let Some(page) = self.existing(number)
            && page.watched
        {
            page.watched = false;
            watched().fetch_sub(1, Relaxed);
        }
    }

    /// Takes over a page of code that may run, with the blocks on it.
    pub fn adopt(&mut self, number: u64, prot: u8, head: u32) {
        let page = self.entry(number);
        page.head = head;
        page.prot = prot;
        page.known = true;
        page.watched = false;
        // Snapshots hold code of files that nothing can write.
        page.constant = prot & (EXEC | WRITE) == EXEC;
        self.last = (0, 0);
    }

    /// Mappings in the range went away or were replaced.
    pub fn forget(&mut self, cache: &mut Cache, start: u64, end: u64) {
        self.changed(cache, start, end, false);
        self.last = (0, 0);
        self.each(start, end, |pages, number| {
            pages.drop_blocks(cache, number);
            pages.unwatch(number);
            if let Some(page) = pages.existing(number) {
                page.known = false;
                page.compared = false;
                page.alias_of = 0;
            }
        });
    }

    /// A call about the range failed, perhaps having done a part of it: what is mapped there is looked up again. What
    /// is still there has its own permissions.
    pub fn doubted(&mut self, cache: &mut Cache, start: u64, end: u64) {
        let mut any_alias = false;
        self.each(start, end, |pages, number| {
            pages.drop_blocks(cache, number);
            if let Some(page) = pages.existing(number).filter(|page| page.watched) {
                any_alias |= page.alias_of != 0;
                let prot = u64::from(page.prot);
                // SAFETY: the program's own permission; it fails where nothing is mapped any more.
                unsafe { sys::call(nr::MPROTECT, [number << 12, 0x1000, prot, 0, 0, 0]) };
            }
        });
        self.forget(cache, start, end);
        self.dirty = true;
        if any_alias {
            self.drop_shared(cache);
        }
    }

    /// What the program advised the kernel about a range (madvise), and the kernel did.
    pub fn advised(&mut self, cache: &mut Cache, start: u64, end: u64, advice: u64) {
        match advice & 0xffff_ffff {
            // MADV_DONTNEED, FREE, REMOVE, DONTNEED_LOCKED, GUARD_INSTALL: the bytes are others now.
            4 | 8 | 9 | 24 | 102 => {
                let mut any_code = false;
                self.each(start, end, |pages, number| {
                    any_code |= pages.existing(number).is_some_and(|p| p.head != NONE);
                });
                if any_code {
                    self.written(cache, start, end);
                }
            }
            // MADV_DONTFORK, MADV_WIPEONFORK
            10 | 18 => {
                let (first, last) = self.not_in_children;
                let first = if last == 0 { start } else { first.min(start) };
                self.not_in_children = (first, last.max(end));
            }
            _ => {}
        }
    }

    /// In a child that `fork` made.
    pub fn forked(&mut self, cache: &mut Cache) {
        let (start, end) = self.not_in_children;
        if start < end {
            self.doubted(cache, start, end);
        }
    }

    /// A range is mapped otherwise than before; `matters`: surely in a way that the
    /// list of mappings shows.
    pub fn changed(&mut self, cache: &mut Cache, start: u64, end: u64, matters: bool) {
        let listed = || self.maps.within(start, end).any(super::maps::Vma::matters);
        if !self.dirty && !matters && !listed() {
            return;
        }
        self.dirty |= self.maps.must_be_read();
        self.last = (0, 0);
        cache.forget_liveness();
    }

    /// Shared memory was mapped writable: it may be code that is executed elsewhere.
    pub fn shared_writable(&mut self, cache: &mut Cache) {
        self.dirty = true;
        if self.any_shared {
            self.drop_shared(cache);
        }
    }

    /// mprotect and pkey_mprotect (`number`): code pages that become writable are
    /// watched from the start, so that no other thread's write slips through.
    pub fn protected(&mut self, cache: &mut Cache, number: u64, a: [u64; 6]) -> i64 {
        let (start, end) = (
            a[0],
            a[0].saturating_add(a[1].saturating_add(0xfff) & !0xfff),
        );
        let (first, last) = (start >> 12, end >> 12);
        let prot = (a[2] & 7) as u8;
        let call = |from: u64, to: u64, prot: u64| {
            // SAFETY: a part of what the program asked for.
            unsafe {
                sys::call(
                    number,
                    [from << 12, (to - from) << 12, prot, a[3], a[4], a[5]],
                )
            }
        };
        // Code that can still be executed, and what is written for code elsewhere.
        let watches = !self.never_watch;
        let stays = |p: &Page| {
            watches && (p.alias_of != 0 || p.head != NONE && prot & EXEC != 0 && !p.compared)
        };
        let mut result = 0;
        let small = last.saturating_sub(first) < 1 << self.bits;
        if prot & WRITE == 0 || !small || start & 0xfff != 0 || last <= first {
            // SAFETY: as the program made it.
            result = unsafe { sys::call(number, a) };
        } else {
            let mut from = first;
            while from < last && result == 0 {
                let code = self.existing(from).is_some_and(|p| stays(p));
                let mut to = from + 1;
                while to < last && self.existing(to).is_some_and(|p| stays(p)) == code {
                    to += 1;
                }
                let kept = a[2] & !7 | u64::from(without_write(prot));
                result = call(from, to, if code { kept } else { a[2] });
                from = to;
            }
        }
        if result != 0 {
            // It fails, perhaps having done a part: let it, with nothing watched.
            self.doubted(cache, start, end);
            // SAFETY: as the program made it.
            return unsafe { sys::call(number, a) };
        }
        let matters = prot & EXEC != 0 || prot & WRITE != 0 && self.any_shared;
        self.changed(cache, start, end, matters);
        self.permitted(start, end, a[2]);
        let mut was_constant = false;
        self.each(start, end, |pages, number| {
            if prot & EXEC == 0 {
                // Not callable any more, until it is executable again and found unchanged.
                pages.drop_blocks(cache, number);
            }
            pages.unwatch(number);
            let Some(page) = pages.existing(number).filter(|p| p.known) else {
                return;
            };
            was_constant |= page.constant && prot & WRITE != 0;
            page.constant &= prot & WRITE == 0;
            page.prot = prot;
            if prot & WRITE != 0 && !watches {
                page.compared = true;
                pages.drop_blocks(cache, number);
            } else if prot & WRITE != 0
                && (page.alias_of != 0 || page.head != NONE && !page.compared)
            {
                page.watched = true;
                watched().fetch_add(1, Relaxed);
                if !small {
                    protect(number << 12, 0x1000, without_write(prot));
                }
            }
        });
        if was_constant {
            // Others were translated in the belief that this code stays as it is.
            self.drop_all(cache);
        }
        if prot & WRITE != 0 && self.any_shared {
            self.drop_shared(cache);
        }
        0
    }

    /// Bytes of the range may be others now, without a fault of a write.
    pub fn written(&mut self, cache: &mut Cache, start: u64, end: u64) {
        let mut was_constant = false;
        self.each(start & !0xfff, end, |pages, number| {
            pages.drop_blocks(cache, number);
            if let Some(page) = pages.existing(number) {
                was_constant |= page.constant;
                page.constant = false;
            }
        });
        if was_constant {
            self.drop_all(cache);
        }
        cache.forget_liveness();
    }

    /// What is not executable as far as is known is looked at again: nobody may go there who would find code.
    pub fn is_executable_after_all(&mut self, cache: &mut Cache, address: u64) -> bool {
        let number = address >> 12;
        self.open(cache, address, 1);
        if let Some(page) = self.existing(number) {
            page.known = false;
        }
        self.last = (0, 0);
        self.dirty = !self.read_maps();
        self.readable(address)
    }

    /// Gives every page its permissions back.
    pub fn open_all(&mut self, cache: &mut Cache) {
        self.each(0, 1 << 47, |pages, number| {
            if pages.existing(number).is_some_and(|page| page.watched) {
                pages.write_fault(cache, number << 12);
            }
        });
    }

    /// Whether pages of a file are executable here.
    pub fn executes_file(&mut self, inode: u64) -> bool {
        self.of_file(inode).next().is_some()
    }

    /// Executable mappings of a file.
    fn of_file(&mut self, inode: u64) -> impl Iterator<Item = super::maps::Vma> {
        self.look_now();
        let list = self.maps.list().iter().copied();
        list.filter(move |v| v.file != 0 && v.prot & EXEC != 0 && v.inode() == inode)
    }

    /// A system call wrote to a file; `wrote` learns of each mapping that is executed.
    pub fn file_written(&mut self, cache: &mut Cache, inode: u64, wrote: impl Fn(u64, u64)) {
        let mut ranges = [(0, 0); 64];
        let mut count = 0;
        for (place, vma) in ranges.iter_mut().zip(self.of_file(inode)) {
            *place = (vma.start, vma.end);
            count += 1;
        }
        if count == ranges.len() {
            ranges[0] = (0, 1 << 47);
        }
        for &(start, end) in ranges.iter().take(count) {
            self.written(cache, start, end);
            wrote(start, end);
        }
    }

    fn drop_all(&mut self, cache: &mut Cache) {
        for at in 0..1usize << self.bits {
            // SAFETY: inside the table.
            let number = unsafe { (*self.table.add(at)).number };
            if number != 0 {
                self.drop_blocks(cache, number);
            }
        }
    }
}
