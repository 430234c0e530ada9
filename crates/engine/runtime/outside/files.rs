//! What is opened and asked of files: devices, files of the kernel's, times.

use super::places::{name_of, note};
use super::{CHARACTERS, DIRECTORY, FIFO, REGULAR, device, has_ended, inputs, stat_of, type_of};
use crate::inputs::{DETAIL, kind};
use crate::layout::Context;
use crate::syscall_table as nr;
use crate::{clock, machine, program_memory, report, sys, turns};
use core::fmt::Write;
use core::sync::atomic::Ordering::*;

/// An open whose result says whether something comes in: of a device, or a file of the kernel's. (Others may wait.)
pub fn follows(context: &Context, number: u64, a: [u64; 6]) -> bool {
    const AT_FDCWD: u64 = -100i64 as u64;
    /// Where nothing of the kind is, and most of what programs open.
    const PLAIN: [&[u8]; 4] = [b"/usr/", b"/lib", b"/etc/", b"/bin/"];
    let (directory, path) = match number {
        nr::OPEN => (AT_FDCWD, a[0]),
        nr::OPENAT => (a[0], a[1]),
        _ => return false,
    };
    if has_ended() {
        return false;
    }
    let start = program_memory::read::<[u8; 5]>(path);
    if start.is_some_and(|start| PLAIN.iter().any(|plain| start.starts_with(plain)))
        || machine::answers(number, &a)
    {
        return false;
    }
    let mut stat = [0u64; 18];
    let at = stat.as_mut_ptr() as u64;
    // SAFETY: newfstatat of the program's path, which the kernel checks, into struct stat's 144 bytes.
    if unsafe { sys::call(nr::NEWFSTATAT, [directory, path, at, 0, 0, 0]) } != 0 {
        return false;
    }
    match type_of(&stat) {
        CHARACTERS => true,
        FIFO => {
            if !turns::on() {
                note(context, kind::NAMED_PIPE, b"");
            }
            false
        }
        REGULAR | DIRECTORY => is_of_no_device(&stat),
        _ => false,
    }
}

/// What was opened.
pub(super) fn opened(context: &Context, fd: u64) {
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
        REGULAR | DIRECTORY if tells_of_the_kernel(fd, &stat) => named(kind::KERNEL_FILE),
        _ => {}
    }
}

/// The path of a descriptor; its length.
fn path_of(fd: u64, path: &mut [u8]) -> usize {
    let mut link = report::Text::new();
    let _ = write!(link, "/proc/self/fd/{fd}\0");
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

/// Whether a file is the kernel's own word on what goes on, and not a setting that stays.
fn tells_of_the_kernel(fd: u64, stat: &[u64; 18]) -> bool {
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
    if result != 0 || !TYPES.contains(&system[0]) {
        return false;
    }
    let mut path = [0u8; DETAIL];
    let length = path_of(fd, &mut path);
    let path = path.get(..length).unwrap_or(&[]);
    !stays(path)
}

/// Files of the kernel that say the same as long as nobody changes the machine, or that the runtime answers.
fn stays(path: &[u8]) -> bool {
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
    is_own
        && rest
            .strip_prefix(b"/")
            .is_some_and(|name| OF_A_PROCESS.contains(&name))
}

/// A file's times were asked for: whether it was changed since the run began, by the clock of the machine.
pub(super) fn written_meanwhile(
    context: &Context,
    number: u64,
    at: u64,
    mode_at: u64,
    time_at: u64,
) {
    let Some(mode) = program_memory::read::<u16>(at.wrapping_add(mode_at)) else {
        return;
    };
    let Some(seconds) = program_memory::read::<u64>(at.wrapping_add(time_at)) else {
        return;
    };
    let Some(rest) = program_memory::read::<u32>(at.wrapping_add(time_at + 8)) else {
        return;
    };
    let changed = seconds
        .wrapping_mul(clock::SECOND)
        .wrapping_add(u64::from(rest));
    if u32::from(mode) & 0o170_000 == REGULAR && changed >= inputs().started.load(Relaxed) {
        note(context, kind::FILE_TIMES, name_of(number));
    }
}
