//! The machine that a program is shown ([`crate::shown`]), as system calls and files tell it, the random devices, and the
//! virtual PMU's files where the kernel has none.
//!
//! Facts: `uname(2)`, `sysinfo(2)`, `sched_getaffinity(2)` (the raw call returns bytes), `getcpu(2)`; a file that tells of
//! the machine is a file in memory with the table's text. Paths are looked at as they are written: absolute, without
//! `..`; what a relative path or a link leads to is the kernel's.

use crate::layout::option;
use crate::made_files;
use crate::own_memory;
use crate::program_memory;
use crate::shown::{self, Shown, kind};
use crate::syscall_table as nr;
use crate::xlate::features::Feature;
use crate::{slots, sys};
use core::sync::atomic::Ordering::*;

const EINVAL: i64 = 22;
const ENOENT: i64 = 2;
const O_ACCMODE: u64 = 3;
const O_CLOEXEC: u64 = 0o2_000_000;

/// Another machine is shown.
pub fn on() -> bool {
    slots::header().options & option::MACHINE != 0
}

/// The random devices and instructions are the engine's.
pub fn own_random() -> bool {
    slots::header().options & option::RANDOM != 0
}

/// What `getrandom` gives is the engine's.
pub fn own_getrandom() -> bool {
    slots::header().options & option::GETRANDOM != 0
}

/// What is shown.
pub fn shown() -> &'static Shown {
    &slots::header().shown
}

/// Whether the machine that is shown has a feature.
pub fn shows(feature: &Feature) -> bool {
    let registers = shown().cpuid(feature.leaf, feature.subleaf);
    registers.get(feature.register).copied().unwrap_or(0) >> feature.bit & 1 != 0
}

/// Whether a call is answered here.
pub fn answers(number: u64, a: &[u64; 6]) -> bool {
    if number == nr::GETRANDOM {
        return own_getrandom();
    }
    if shown().text_bytes == 0 {
        return false;
    }
    if on() && (number >= nr::NEWER || nr::answer(number) == nr::Answer::Machine) {
        return true;
    }
    path_of(number, a).is_some()
}

/// The answer to a call that [`answers`].
pub fn call(number: u64, a: [u64; 6]) -> i64 {
    let shown = self::shown();
    let cpus = (1u64 << shown.cpus.clamp(1, 63)) - 1;
    match number {
        nr::GETRANDOM => getrandom(a),
        nr::UNAME => written(a[0], &shown.names, 0),
        nr::SYSINFO => {
            let mut info = [0u64; 14];
            (info[0], info[4], info[5]) = (1000, shown.memory, shown.memory / 2);
            (info[10], info[13]) = (1, 1);
            written(a[0], &info, 0)
        }
        nr::SCHED_GETAFFINITY if a[1] < 8 || a[1] & 7 != 0 => -EINVAL,
        nr::SCHED_GETAFFINITY => written(a[2], &cpus, 8),
        nr::SCHED_SETAFFINITY => {
            let mut wanted = [0u8; 8];
            let length = a[1].min(8) as usize;
            let place = wanted.get_mut(..length).unwrap_or_default();
            if !program_memory::read_bytes(place, a[2]) {
                return -sys::EFAULT;
            }
            if u64::from_le_bytes(wanted) & cpus == 0 {
                -EINVAL
            } else {
                0
            }
        }
        nr::GETCPU => {
            let place = |at: u64| at == 0 || program_memory::write(at, &0u32);
            if place(a[0]) && place(a[1]) {
                0
            } else {
                -sys::EFAULT
            }
        }
        _ => match path_of(number, &a) {
            Some((kind::FILE, content)) => {
                made_files::with(content, flags(number, &a) & O_CLOEXEC != 0)
            }
            Some((kind::RANDOM, _)) => random_device(number, a),
            Some(_) => -ENOENT,
            None => -sys::ENOSYS,
        },
    }
}

/// Space on a file system, as `statfs` has just written it: half of 64 GiB are free, and the file system has no number.
/// Those of the kernel's have none. False: the machine's own.
pub fn shows_space(at: u64) -> bool {
    const BYTES: u64 = 64 << 30;
    const FILES: u64 = 4 << 20;
    if !on() {
        return false;
    }
    // f_type, f_bsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree, f_fsid.
    let Some([_, size, blocks, ..]) = program_memory::read::<[u64; 8]>(at) else {
        return false;
    };
    let all = BYTES / size.max(1);
    blocks == 0
        || program_memory::write(
            at.wrapping_add(16),
            &[all, all / 2, all / 2, FILES, FILES / 2, 0],
        )
}

fn written<T: program_memory::Plain>(at: u64, value: &T, result: i64) -> i64 {
    if program_memory::write(at, value) {
        result
    } else {
        -sys::EFAULT
    }
}

fn flags(number: u64, a: &[u64; 6]) -> u64 {
    if number == nr::OPEN { a[1] } else { a[2] }
}

/// What the path of a call is, where the answer is not the kernel's.
fn path_of(number: u64, a: &[u64; 6]) -> Option<(u8, &'static [u8])> {
    let at = *a.get(nr::path_argument(number)?)?;
    let mut path = [0u8; 128];
    let length = path_at(at, &mut path)?;
    let (kind, content) = shown().find(path.get(..length)?)?;
    let opens = matches!(number, nr::OPEN | nr::OPENAT);
    let reads = opens && flags(number, a) & O_ACCMODE == 0;
    let answered = match kind {
        kind::ABSENT => true,
        kind::FILE => reads,
        kind::CLOSED => opens,
        _ => reads && own_random(),
    };
    answered.then_some((kind, content))
}

/// Reads a path that may be one of ours: its length. Others are left where they differ.
fn path_at(at: u64, path: &mut [u8; 128]) -> Option<usize> {
    let mut length = 0;
    for piece in path.chunks_exact_mut(8) {
        let word = match program_memory::read::<[u8; 8]>(at.wrapping_add(length as u64)) {
            Some(word) => word,
            // The end of a mapping may be near.
            None => {
                let mut word = [0u8; 8];
                for (n, byte) in word.iter_mut().enumerate() {
                    *byte = program_memory::read(at.wrapping_add((length + n) as u64))?;
                    if *byte == 0 {
                        break;
                    }
                }
                word
            }
        };
        if length == 0 && !matches!(&word[..2], b"/p" | b"/s" | b"/d") {
            return None;
        }
        piece.copy_from_slice(&word);
        if let Some(end) = word.iter().position(|&byte| byte == 0) {
            return Some(length + end);
        }
        length += 8;
    }
    None
}

/// getrandom(2): every call of the run has bytes of its own, the same in every run.
fn getrandom([at, length, flags, ..]: [u64; 6]) -> i64 {
    const KNOWN: u64 = 7;
    const BOTH_SOURCES: u64 = 6;
    const MOST: u64 = 0x1ff_ffff;
    if flags & !KNOWN != 0 || flags & BOTH_SOURCES == BOTH_SOURCES {
        return -EINVAL;
    }
    let length = length.min(MOST);
    let uses = slots::header().random_uses.fetch_add(1, Relaxed);
    let seed = shown::mixed(!uses);
    for piece in 0..length.div_ceil(8) {
        let bytes = shown::mixed(seed.wrapping_add(piece)).to_le_bytes();
        let to = at.wrapping_add(8 * piece);
        let written = match (length - 8 * piece) as usize {
            rest @ ..8 => {
                let mut each = (to..).zip(bytes.get(..rest).unwrap_or_default());
                each.all(|(to, byte)| program_memory::write(to, byte))
            }
            _ => program_memory::write(to, &bytes),
        };
        if !written {
            return if piece == 0 {
                -sys::EFAULT
            } else {
                (8 * piece) as i64
            };
        }
    }
    length as i64
}

/// Opens the launcher's file.
fn open_random(flags: u64) -> i64 {
    let path = slots::header().random_path.as_ptr() as u64;
    // SAFETY: opens a file.
    unsafe { sys::call(nr::OPEN, [path, flags, 0, 0, 0, 0]) }
}

/// Makes the random bytes, which takes longer than the start of a short program; false where that is not possible. Who
/// comes meanwhile makes the same ones.
#[cold]
fn make_random() -> bool {
    const PIECE: u64 = 256 << 10;
    const O_RDWR: u64 = 2;
    let fd = open_random(O_RDWR | O_CLOEXEC);
    if fd < 0 {
        return false;
    }
    // Written by a mapping: the program's limit of the size of files holds for `write`.
    let mut place = own_memory::addresses(PIECE);
    let mut from = 0;
    while from < shown::RANDOM_BYTES {
        // PROT_READ|WRITE; MAP_SHARED|FIXED_NOREPLACE|POPULATE
        let wanted = [place, PIECE, 3, 0x1 | 0x10_0000 | 0x8000, fd as u64, from];
        // SAFETY: a fresh mapping at an address nobody has, or an error.
        let got = unsafe { sys::call(nr::MMAP, wanted) };
        if got == -sys::EEXIST {
            place = own_memory::addresses(PIECE);
            continue;
        }
        if got != place as i64 {
            break;
        }
        for n in 0..PIECE / 8 {
            let number = shown::mixed(from / 8 + n);
            // SAFETY: in the mapping just made.
            unsafe { (place as *mut u64).add(n as usize).write(number) };
        }
        own_memory::give_back(place, PIECE);
        from += PIECE;
    }
    // SAFETY: ours.
    unsafe { sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]) };
    let made = from >= shown::RANDOM_BYTES;
    if made {
        slots::header().random_made.store(1, Release);
    }
    made
}

/// The launcher's file of random bytes, every time from another place on.
fn random_device(number: u64, a: [u64; 6]) -> i64 {
    let header = slots::header();
    let flags = flags(number, &a) & O_CLOEXEC;
    let made = header.random_made.load(Acquire) != 0 || make_random();
    // SAFETY: open of our path; lseek of what it gives; else what the program asked for.
    unsafe {
        let fd = match made {
            true => open_random(flags),
            false => -sys::ENOMEM,
        };
        if fd < 0 {
            header.random_missed.fetch_add(1, Relaxed);
            return sys::call(number, a);
        }
        let uses = header.random_uses.fetch_add(1, Relaxed);
        let place = shown::mixed(uses) % (shown::RANDOM_BYTES / 2);
        sys::call(nr::LSEEK, [fd as u64, place, 0, 0, 0, 0]);
        fd
    }
}
