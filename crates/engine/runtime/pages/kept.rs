//! The list of mappings follows the calls that change it.

use super::maps::Vma;
use super::{EXEC, Pages};

impl Pages {
    /// mmap with these arguments made this.
    pub fn mapped(&mut self, start: u64, end: u64, a: [u64; 6]) {
        let new = Vma::new(start, end, a);
        // What /proc calls the file, only /proc says.
        self.dirty |= new.matters() && new.file != 0;
        self.splits.remove(start, end);
        self.maps.insert(new);
    }

    /// munmap.
    pub fn unmapped(&mut self, start: u64, end: u64) {
        self.splits.remove(start, end);
        self.maps.remove(start, end);
    }

    /// mremap; `kept`: the old range stays mapped.
    pub fn moved(&mut self, old: (u64, u64), new: (u64, u64), kept: bool) {
        if kept {
            self.splits.remove(new.0, new.1);
        } else {
            self.splits.moved(old, new);
        }
        self.dirty |= !self.maps.moved(old, new, kept);
    }

    /// mprotect and the like: to these permissions, and bits that only the kernel understands.
    pub(super) fn permitted(&mut self, start: u64, end: u64, prot: u64) {
        let of_file = self.maps.within(start, end).any(|v| v.file != 0);
        self.dirty |= prot & !7 != 0 || prot & u64::from(EXEC) != 0 && of_file;
        self.maps.protect(start, end, (prot & 7) as u8);
    }

    /// Whether something in a range is mapped that cannot be executed.
    pub fn lacks_execution(&mut self, start: u64, end: u64) -> bool {
        self.look_now();
        self.maps.lacks_execution(start, end)
    }

    /// Mappings changed in a way that only the kernel knows.
    pub fn changed_somewhere(&mut self) {
        self.dirty = true;
    }

    /// Reads the list of mappings, with the permissions that the program gave watched pages; false where it cannot be
    /// read.
    pub(super) fn read_maps(&mut self) -> bool {
        let read = self.maps.read();
        if read {
            self.each(0, 1 << 47, |pages, number| {
                let watched = pages.existing(number).filter(|page| page.watched);
                let start = number << 12;
                if let Some(prot) = watched.map(|page| page.prot)
                    && pages.maps.find(start).is_some_and(|v| v.prot != prot)
                {
                    pages.maps.protect(start, start + 0x1000, prot);
                }
            });
        }
        read
    }

    /// Reads the list of mappings, if it may have changed, while that is possible.
    pub fn look_now(&mut self) {
        if self.dirty {
            self.dirty = false;
            self.read_maps();
        }
    }

    /// The mapping that an address is in.
    pub(super) fn mapping(&mut self, address: u64) -> Option<Vma> {
        if self.maps.may_have_grown(address) {
            self.read_maps();
        }
        self.maps.find(address)
    }

    /// From now on /proc is not asked: a filter may end who opens it.
    pub fn look_no_more(&mut self) {
        self.maps.close();
    }
}
