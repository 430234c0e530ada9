//! Limits of memory as the program set them: see `src/limits.rs`.

use crate::limits as both;
use crate::program_memory;
use crate::slots;
use crate::sys;
use crate::syscall_table as nr;

/// getrlimit, setrlimit, prlimit64.
pub fn call(number: u64, a: [u64; 6]) -> i64 {
    let [process, resource, new, old] = match number {
        nr::GETRLIMIT => [0, a[0], 0, a[1]],
        nr::SETRLIMIT => [0, a[0], a[1], 0],
        _ => [a[0], a[1], a[2], a[3]],
    };
    // The kernel takes an unsigned int.
    let resource = resource & 0xffff_ffff;
    if !both::concerns(resource) {
        // SAFETY: passed through as the program made it.
        return unsafe { sys::call(number, a) };
    }
    let apart = both::apart(slots::header());
    let own = process & 0xffff_ffff == 0 || process as u32 == sys::getpid();
    let mut limit = [0u64; 2];
    if new != 0 {
        let Some(wanted) = program_memory::read::<[u64; 2]>(new) else {
            return -sys::EFAULT;
        };
        // Another process may not be one of the engine's.
        limit = match own {
            true => wanted.map(|limit| both::enlarged(resource, limit, apart)),
            false => wanted,
        };
    }
    let mut before = [0u64; 2];
    let given = if new == 0 { 0 } else { &raw const limit as u64 };
    let told = if old == 0 { 0 } else { &raw mut before as u64 };
    // SAFETY: both point to locals, or are null.
    let result = unsafe { sys::call(nr::PRLIMIT64, [process, resource, given, told, 0, 0]) };
    if result == 0 && old != 0 {
        let before = before.map(|limit| both::own_limit(resource, limit, apart));
        if !program_memory::write(old, &before) {
            return -sys::EFAULT;
        }
    }
    result
}
