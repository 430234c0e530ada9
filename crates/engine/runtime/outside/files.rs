//! What is opened and asked of files: devices, files of the kernel's, content, times.

use super::places::{name_of, note};
use super::{
    CHARACTERS, DIRECTORY, FIFO, REGULAR, device, has_ended, identity, inputs, stat_of, type_of,
};
use crate::inputs::{DETAIL, kind};
use crate::layout::Context;
use crate::syscall_table as nr;
use crate::{clock, machine, program_memory, report, sys, turns};
use core::fmt::Write;
use core::sync::atomic::Ordering::*;

/// An open whose result says which inputs there are, or that something comes in: of a device, of a file. (Others may
/// wait.)
pub fn follows(context: &Context, number: u64, a: [u64; 6]) -> bool {
    const AT_FDCWD: u64 = -100i64 as u64;
    const O_CREAT: u64 = 0o100;
    let (directory, path, flags) = match number {
        nr::OPEN => (AT_FDCWD, a[0], a[1]),
        nr::OPENAT => (a[0], a[1], a[2]),
        _ => return false,
    };
    if has_ended() || machine::answers(number, &a) {
        return false;
    }
    let mut stat = [0u64; 18];
    let at = stat.as_mut_ptr() as u64;
    // SAFETY: newfstatat of the program's path, which the kernel checks, into struct stat's 144 bytes.
    if unsafe { sys::call(nr::NEWFSTATAT, [directory, path, at, 0, 0, 0]) } != 0 {
        return flags & O_CREAT == 0;
    }
    match type_of(&stat) {
        CHARACTERS => true,
        FIFO => {
            if !turns::on() {
                note(context, kind::NAMED_PIPE, b"");
            }
            false
        }
        REGULAR | DIRECTORY => true,
        _ => false,
    }
}

/// What was opened.
pub(super) fn opened(context: &Context, fd: u64, flags: u64) {
    const WRITES_ONLY: u64 = 1;
    const O_PATH: u64 = 0o10_000_000;
    let Some(stat) = stat_of(fd) else { return };
    let named = |which| {
        let mut path = [0u8; DETAIL];
        let length = path_of(fd, &mut path);
        note(context, which, path.get(..length).unwrap_or(&[]));
    };
    match type_of(&stat) {
        CHARACTERS => {
            if let Some(which) = device(&stat) {
                named(which);
            }
        }
        REGULAR | DIRECTORY if is_of_the_kernel(fd, &stat) => {
            let changes = !stays(fd);
            if changes {
                named(kind::KERNEL_FILE);
            }
        }
        REGULAR if flags & O_PATH == 0 && flags & 3 != WRITES_ONLY => {
            identity::content(fd, &stat, false);
        }
        _ => {}
    }
}

/// The path of a descriptor; its length.
fn path_of(fd: u64, path: &mut [u8]) -> usize {
    let mut link = report::Text::new();
    let _ = write!(link, "/proc/thread-self/fd/{fd}\0");
    let to = [path.as_mut_ptr() as u64, path.len() as u64];
    // SAFETY: readlink of our path into the slice.
    let length = unsafe {
        sys::call(
            nr::READLINK,
            [link.bytes().as_ptr() as u64, to[0], to[1], 0, 0, 0],
        )
    };
    usize::try_from(length).unwrap_or(0)
}

/// File systems of no device have major number 0; files of the kernel's have no blocks.
fn is_of_no_device(stat: &[u64; 18]) -> bool {
    stat[0] >> 8 & 0xfff == 0 && stat[8] == 0
}

/// Whether a file is the kernel's own word.
fn is_of_the_kernel(fd: u64, stat: &[u64; 18]) -> bool {
    // proc, sysfs, cgroup2, cgroup, debugfs, tracefs.
    const TYPES: [u64; 6] = [
        0x9fa0,
        0x6265_6572,
        0x6367_7270,
        0x0027_e0eb,
        0x6462_6720,
        0x7472_6163,
    ];
    if !is_of_no_device(stat) {
        return false;
    }
    let mut system = [0u64; 15];
    // SAFETY: fstatfs into struct statfs's 120 bytes.
    let result = unsafe { sys::call(nr::FSTATFS, [fd, system.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    result == 0 && TYPES.contains(&system[0])
}

/// Files of the kernel that say the same as long as nobody changes the machine, or that the runtime answers.
fn stays(fd: u64) -> bool {
    const SETTINGS: [&[u8]; 12] = [
        b"/proc/sys/",
        b"/proc/filesystems",
        b"/proc/version",
        b"/proc/cmdline",
        b"/proc/mounts",
        b"/proc/devices",
        b"/sys/devices/system/cpu/online",
        b"/sys/devices/system/cpu/possible",
        b"/sys/devices/system/cpu/present",
        b"/sys/devices/system/cpu/kernel_max",
        b"/sys/devices/system/node/",
        b"/sys/kernel/mm/",
    ];
    const OF_A_PROCESS: [&[u8]; 12] = [
        b"maps",
        b"mounts",
        b"mountinfo",
        b"cmdline",
        b"environ",
        b"comm",
        b"fd",
        b"auxv",
        b"cgroup",
        b"limits",
        b"oom_score_adj",
        b"exe",
    ];
    let mut path = [0u8; DETAIL];
    let length = path_of(fd, &mut path);
    let path = path.get(..length).unwrap_or(&[]);
    if SETTINGS.iter().any(|setting| path.starts_with(setting)) {
        return true;
    }
    if path.starts_with(b"/sys/fs/cgroup") {
        return path.ends_with(b".max")
            || path.ends_with(b"_quota_us")
            || path.ends_with(b"_period_us");
    }
    if path.starts_with(b"/sys/devices/system/cpu/") {
        return [&b"/topology/"[..], b"/cache/"]
            .iter()
            .any(|part| path.windows(part.len()).any(|window| window == *part));
    }
    // Of the process itself.
    let Some(rest) = path.strip_prefix(b"/proc/") else {
        return false;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = rest.split_at(digits);
    let number = number.iter().fold(0u32, |value, digit| {
        value.wrapping_mul(10).wrapping_add(u32::from(digit - b'0'))
    });
    let is_own = digits > 0 && number == sys::getpid();
    // The directory itself says nothing; what is listed of it is noted as names.
    let is_kept = |rest: &[u8]| {
        rest.is_empty()
            || rest
                .strip_prefix(b"/")
                .is_some_and(|name| OF_A_PROCESS.contains(&name))
    };
    is_own && is_kept(rest)
}

/// Where in what `stat` and its kin write are type, size, and the times of the last writing and of the last change.
pub(super) struct Fields([u64; 4]);

/// `struct stat`.
pub(super) const STAT: Fields = Fields([24, 48, 88, 104]);

/// `struct statx`.
pub(super) const STATX: Fields = Fields([28, 40, 112, 96]);

/// A file was asked for by its `path`, and the answer is at `at`: which it is, and whether it was changed since the run
/// began, by the clock of the machine.
pub(super) fn asked_for(context: &Context, number: u64, path: u64, at: u64, fields: &Fields) {
    let [mode, size, written, changed] = fields.0.map(|field| at.wrapping_add(field));
    let time = |at: u64| {
        let rest = program_memory::read::<u32>(at.wrapping_add(8))?;
        Some([program_memory::read::<u64>(at)?, u64::from(rest)])
    };
    let Some(type_of) = program_memory::read::<u16>(mode).map(|mode| u32::from(mode) & 0o170_000)
    else {
        return;
    };
    if type_of != REGULAR {
        identity::told(path, type_of, None, None);
        return;
    }
    let (Some([seconds, rest]), size) = (time(changed), program_memory::read(size)) else {
        return;
    };
    let changed = seconds.wrapping_mul(clock::SECOND).wrapping_add(rest);
    let meanwhile = changed >= inputs().started.load(Relaxed);
    if meanwhile {
        note(context, kind::FILE_TIMES, name_of(number));
    }
    identity::told(path, type_of, size, time(written).filter(|_| !meanwhile));
}
