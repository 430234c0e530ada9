//! Code areas: 64 MiB of code within reach of the program code it translates,
//! hot code from the bottom, cold stubs and literals from the middle.

use super::Cache;
use crate::block::NONE;
use crate::check;
use crate::entry::{self, address};
use crate::own_memory::{self, AREA, MAX_AREAS};
use crate::sys;
use crate::syscall_table as nr;
use crate::xlate::emit::Buffer;
use crate::xlate::entry::Via;

pub(super) const HOT: u64 = 40 << 20;

/// One code area.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) base: u64,
    /// The section that is being filled; [`NONE`]: there is none.
    pub(super) current: u32,
    /// Its sections, by place.
    pub(super) sections: [u32; Area::SECTIONS],
    /// Which of its parts are on huge pages.
    pub(super) huge: u32,
}

/// Where a table leads that has nothing: the runtime.
pub(super) fn default_entry(way: usize) -> u64 {
    match way {
        0 => address(entry::rt_miss_ret),
        1 => address(entry::rt_miss_memory),
        2 => address(entry::rt_miss_rax),
        3 => address(entry::rt_miss_rcx),
        _ => address(entry::rt_miss_rdx),
    }
}

impl Cache {
    /// Maps an area within reach of code at `pc`, if there is a place.
    pub(super) fn new_area(&mut self, pc: u64) -> Option<usize> {
        let around = pc & !0xfff_ffff;
        // Not where a low program's heap grows to, nor where programs like to map at fixed addresses.
        let low = if pc < 0x5c00_0000 { 0x5c00_0000 } else { 0 };
        let near = [-16i64, -20, -12, -24, -8, 16, 20, 12, 24, 8]
            .into_iter()
            .flat_map(|steps| steps..steps + 4)
            .map(|steps| around.wrapping_add_signed(steps * AREA as i64));
        for at in core::iter::once(low).chain(near) {
            if at == 0 || at >> 47 != 0 || at < 0x1000_0000 {
                continue;
            }
            if let Some(number) = self.area_at(at) {
                return Some(number);
            }
        }
        None
    }

    /// An area at an address, if that is free.
    pub(super) fn area_at(&mut self, at: u64) -> Option<usize> {
        let number = self.area_count;
        if number == MAX_AREAS || !self.map_area(at) {
            return None;
        }
        // One far jump a way, for entries that nobody meant.
        let mut misses = code(at + HOT, MISSES as usize);
        for way in 0..Via::COUNT {
            far(&mut misses, default_entry(way));
        }
        Some(number)
    }

    /// The end of a run whose code does not fit.
    pub(super) fn full(&self, pc: u64) -> ! {
        crate::report::fail(format_args!(
            "the code cache is full: no place for the code at {pc:#x} in its {} areas",
            self.area_count
        ))
    }

    /// Maps and registers an empty area; false where its place is taken.
    pub(super) fn map_area(&mut self, at: u64) -> bool {
        // PROT_READ|WRITE|EXEC; PRIVATE|ANONYMOUS|NORESERVE|FIXED_NOREPLACE
        let flags = 0x2 | 0x20 | 0x4000 | 0x10_0000;
        // SAFETY: a fresh mapping or an error.
        let got = unsafe { sys::call(nr::MMAP, [at, AREA, 7, flags, u64::MAX, 0]) };
        check!(
            got != -12,
            "no memory for the virtual PMU's code ({AREA} bytes: errno 12)"
        );
        if got < 0 {
            return false;
        }
        if got as u64 != at {
            // SAFETY: a kernel without MAP_FIXED_NOREPLACE put it elsewhere: give it back.
            unsafe { sys::call(nr::MUNMAP, [got as u64, AREA, 0, 0, 0, 0]) };
            return false;
        }
        let number = self.area_count;
        let area = Area {
            base: at,
            current: NONE,
            sections: [NONE; Area::SECTIONS],
            huge: 0,
        };
        self.areas.claim(number);
        self.areas.push(area);
        self.area_count += 1;
        own_memory::note_area(number, at);
        true
    }

    /// Gives all areas back: nothing runs in them yet.
    pub(super) fn drop_areas(&mut self) {
        for area in self.areas.slice() {
            // SAFETY: ours, and unused.
            unsafe { sys::call(nr::MUNMAP, [area.base, AREA, 0, 0, 0, 0]) };
        }
        self.areas.claim(0);
        self.sections.claim(0);
        self.area_count = 0;
        own_memory::forget_areas();
    }

    /// `jmp [rip+0]` with the address behind it, in the section of `from`.
    pub(super) fn far_jump(&mut self, from: u64, to: u64) -> u64 {
        let Some(section) = self.section_of(from) else {
            return to;
        };
        let section = self.sections.get(section);
        check!(
            section.cold + 32 <= section.cold_end(),
            "the code cache is full: no room to lead {from:#x} on"
        );
        let mut cold = code(section.cold, 32);
        let here = cold.here();
        far(&mut cold, to);
        section.cold = cold.here();
        here
    }

    pub(super) fn area_of(&self, host: u64) -> Option<usize> {
        let areas = self.areas.slice().iter();
        areas
            .take(self.area_count)
            .position(|area| host.wrapping_sub(area.base) < AREA)
    }
}

impl Area {
    /// Where an area is whose addresses the program has taken: nothing lies there.
    pub(super) const NOWHERE: u64 = 1 << 63;
    /// Sections that an area can have.
    pub(super) const SECTIONS: usize = 32;

    /// Where an entry of a way goes whose target differs, for the first of its bucket.
    pub(super) fn miss(&self, way: usize) -> u64 {
        self.base + HOT + way as u64 * FAR
    }
}

/// `jmp [rip+0]`, the address behind it.
fn far(code: &mut Buffer<'_>, to: u64) {
    code.put(&[0xff, 0x25, 0, 0, 0, 0]);
    code.put(&to.to_le_bytes());
}

/// Bytes of a far jump.
const FAR: u64 = 14;
/// Bytes of the far jumps at the start of the cold part.
pub(super) const MISSES: u64 = 256;
const _: () = assert!(FAR * Via::COUNT as u64 <= MISSES);

/// A buffer over code memory.
pub(super) fn code(at: u64, len: usize) -> Buffer<'static> {
    // SAFETY: callers pass free space of an area, which is mapped for good.
    Buffer::new(
        unsafe { core::slice::from_raw_parts_mut(at as *mut u8, len) },
        at,
    )
}
