//! Calls that change mappings: done natively, then the translations that they
//! make stale are forgotten. The engine's own memory is out of bounds.

use crate::engine::{self, Engine};
use crate::layout::Context;
use crate::own_memory::overlaps_engine;
use crate::pages::{EXEC, WRITE};
use crate::sys;
use crate::syscall_table as nr;
use crate::{
    cache_file, give_way, keys, memory_locks, perf, placed, program_memory, write_execute,
};

const EFAULT: i64 = 14;
const EINVAL: i64 = 22;
const ENOMEM: i64 = 12;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

fn page_up(value: u64) -> u64 {
    value.saturating_add(0xfff) & !0xfff
}

/// mmap, mprotect, munmap, brk, mremap, madvise, shmat, shmdt, pkey_mprotect, remap_file_pages, process_madvise, mseal.
pub fn run(context: &mut Context, number: u64, a: [u64; 6]) -> i64 {
    let protects = matches!(number, nr::MMAP | nr::MPROTECT | nr::PKEY_MPROTECT);
    if let Some(refused) = protects
        .then(|| write_execute::refuses(number, a))
        .flatten()
    {
        return refused;
    }
    let (start, end) = (a[0], a[0].saturating_add(page_up(a[1])));
    let fixed = a[3] & 0x10 != 0;
    if let Some(refused) = out_of_bounds(number, a, start, end) {
        return refused;
    }
    let of_event = if number == nr::MMAP {
        perf::mapping(a)
    } else {
        None
    };
    let heap_end = match number {
        // SAFETY: asks where the heap ends.
        nr::BRK if a[0] != 0 => unsafe { sys::call(nr::BRK, [0; 6]) as u64 },
        _ => 0,
    };
    let mut engine = engine::lock();
    let Engine { cache, pages, .. } = &mut *engine;
    if matches!(number, nr::SHMAT | nr::SHMDT) {
        // What it covers is not known before: all is forgotten then, and has to have its own permissions.
        pages.open_everything(cache);
    }
    if number == nr::MSEAL {
        // What was withheld could not be given back.
        pages.leave(cache, start, end.saturating_sub(start));
    }
    let mut result = match number {
        nr::MPROTECT | nr::PKEY_MPROTECT => pages.protected(cache, number, a),
        // SAFETY: passed through as the program made it; checked against our memory.
        _ => of_event.unwrap_or_else(|| unsafe { placed::call(number, a) }),
    };
    if number == nr::MREMAP && result == -EFAULT {
        result = pages.moved_in_parts(a);
    }
    if number == nr::BRK && (result as u64) < a[0] {
        drop(engine);
        result = give_way::grow(a[0], result);
        engine = engine::lock();
    }
    let Engine { cache, pages, .. } = &mut *engine;
    let failed = (-4095..0).contains(&result);
    match number {
        nr::MMAP if !failed => {
            let start = result as u64;
            let end = start.saturating_add(page_up(a[1]));
            if fixed {
                pages.forget(cache, start, end);
            }
            pages.changed(cache, start, end, a[2] & u64::from(EXEC) != 0);
            pages.mapped(start, end, a);
            pages.mapped_submissions(cache, start, a);
            if a[2] & u64::from(WRITE) != 0 && a[3] & 1 != 0 {
                pages.shared_writable(cache);
            }
        }
        // The kernel may have made room before it failed.
        nr::MMAP if fixed => pages.doubted(cache, start, end),
        nr::MUNMAP if failed => pages.doubted(cache, start, end),
        nr::MUNMAP => {
            pages.forget(cache, start, end);
            pages.unmapped(start, end);
        }
        nr::MREMAP if !failed => {
            pages.forget(cache, start, end);
            let to = (result as u64, (result as u64).saturating_add(page_up(a[2])));
            pages.forget(cache, to.0, to.1);
            // MREMAP_DONTUNMAP
            pages.moved((start, end), to, a[3] & 4 != 0);
        }
        nr::MREMAP if a[3] & 2 != 0 => {
            pages.doubted(cache, start, end);
            pages.doubted(cache, a[4], a[4].saturating_add(page_up(a[2])));
        }
        nr::PROCESS_MADVISE if !failed => {
            for at in 0..a[2].min(1024) {
                let part = program_memory::read::<[u64; 2]>(a[1].wrapping_add(at * 16));
                let Some([start, bytes]) = part else { break };
                let end = start.saturating_add(page_up(bytes));
                pages.advised(cache, start, end, a[3]);
            }
        }
        nr::REMAP_FILE_PAGES => pages.doubted(cache, start, end),
        nr::MADVISE if !failed => pages.advised(cache, start, end, a[2]),
        nr::BRK if (result as u64) < heap_end => {
            let (start, end) = (page_up(result as u64), page_up(heap_end));
            pages.forget(cache, start, end);
            pages.unmapped(start, end);
        }
        // SHM_REMAP
        nr::SHMAT | nr::SHMDT if !failed || a[2] & 0x4000 != 0 => {
            pages.forget(cache, 0, 1 << 47);
            pages.changed_somewhere();
        }
        _ => {}
    }
    if !failed {
        match number {
            nr::MMAP => memory_locks::mapped(number, result as u64, page_up(a[1])),
            nr::MREMAP => memory_locks::mapped(number, result as u64, page_up(a[2])),
            nr::BRK => memory_locks::mapped(number, result as u64, 0),
            _ => {}
        }
    }
    let alone = protects && a[2] & 7 == u64::from(EXEC);
    if alone || number == nr::PKEY_MPROTECT && a[3] as u32 as i32 > 0 {
        keys::used();
    }
    if !failed || number == nr::MPROTECT {
        cache_file::after(&mut engine, context, number, a, result);
    }
    result
}

/// The answer to a call that is about memory of the engine's, if that does not give way.
fn out_of_bounds(number: u64, a: [u64; 6], start: u64, end: u64) -> Option<i64> {
    let fixed = a[3] & 0x10 != 0;
    let touches_fixed = match number {
        nr::MMAP => fixed,
        nr::MPROTECT | nr::MUNMAP | nr::MREMAP | nr::PKEY_MPROTECT | nr::MSEAL => true,
        _ => false,
    };
    if number == nr::MMAP && a[3] & MAP_FIXED_NOREPLACE != 0 {
        // It fails by itself where there is no room.
        give_way::from(start, end);
    }
    if touches_fixed && overlaps_engine(start, end) {
        match number {
            nr::MMAP | nr::MUNMAP if give_way::from(start, end) => {}
            nr::MUNMAP => return Some(-EINVAL),
            // As where nothing is mapped.
            nr::MREMAP => return Some(-EFAULT),
            _ => return Some(-ENOMEM),
        }
    }
    if number == nr::MREMAP && a[3] & 2 != 0 {
        let (to, end) = (a[4], a[4].saturating_add(page_up(a[2])));
        if !give_way::from(to, end) {
            return Some(-ENOMEM);
        }
    }
    None
}

/// The kernel writes to these pages: they are not watched from now on.
pub fn leave_writable(numbers: [u64; 2]) {
    let mut engine = engine::lock();
    let Engine { cache, pages, .. } = &mut *engine;
    for number in numbers {
        pages.leave_writable(cache, number);
    }
}
