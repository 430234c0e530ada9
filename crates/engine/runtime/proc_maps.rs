//! `/proc/self/maps` as it would be without the virtual PMU.
//!
//! The C library reads it to find the main thread's stack (`pthread_getattr_np`,
//! called at the start of every Rust program), garbage collectors to find roots;
//! what they execute depends on the number of lines. So the file that such an
//! `open` gives is a copy without the virtual PMU's mappings, behind the same descriptor
//! number, and says the same block size as the original (the C library's buffer).
//! The kernel writes the list when it is read, so the copy is made anew by a read from
//! its start: a program may map its buffer after the `open`. While a copy is open, every
//! call comes to the runtime, as with watched pages (`pages::watched`).
//!
//! Where a machine is shown, `/proc/self/statm` follows from that list, as it is at the `open`: what is resident, the
//! kernel's own numbers say, depends on other programs, and on the virtual PMU.

use crate::machine;
use crate::made_files;
use crate::own_memory::is_engines;
use crate::pages::watched;
use crate::program_memory;
use crate::report;
use crate::sys;
use crate::syscall_table as nr;
use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// The last copy given: descriptor (plus one), device, inode.
static GIVEN: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Where the program's heap begins.
static HEAP: AtomicU64 = AtomicU64::new(0);

/// A new image begins.
pub fn start() {
    if machine::on() {
        // SAFETY: brk(0) asks.
        let heap = unsafe { sys::call(nr::BRK, [0; 6]) };
        HEAP.store(heap as u64, Relaxed);
    }
}

fn given() -> [u64; 3] {
    let [descriptor, device, inode] = &GIVEN;
    [
        descriptor.load(Acquire),
        device.load(Relaxed),
        inode.load(Relaxed),
    ]
}

const O_ACCMODE: u64 = 3;
const O_CLOEXEC: u64 = 0o2_000_000;
/// Lists are shorter: as many lines as there may be mappings by default (`vm.max_map_count`), 512 bytes each.
const LONGEST: u64 = 32 << 20;

/// Whether a call that is plain otherwise is about the list of mappings: others
/// go to the kernel from translated code, where signals can interrupt them.
pub fn concerns(number: u64, a: [u64; 6]) -> bool {
    match number {
        nr::OPEN => a[1] & O_ACCMODE == 0 && list(a[0]).is_some(),
        nr::OPENAT => a[2] & O_ACCMODE == 0 && list(a[1]).is_some(),
        nr::FSTAT | nr::NEWFSTATAT => given()[0] == a[0].wrapping_add(1),
        _ => true,
    }
}

/// open and openat, after the kernel has opened `fd`.
pub fn opened(number: u64, a: [u64; 6], fd: i64) {
    let (path, flags) = if number == nr::OPEN {
        (a[0], a[1])
    } else {
        (a[1], a[2])
    };
    if fd < 0 || !concerns(number, a) {
        return;
    }
    let fd = fd as u64;
    if list(path) == Some(List::Sizes) {
        return sizes(fd, flags);
    }
    forget();
    if made_files::limit() < LONGEST {
        return; // the kernel's own, with the virtual PMU's mappings
    }
    // SAFETY: memfd_create(name, MFD_CLOEXEC).
    let copy = unsafe { sys::call(nr::MEMFD_CREATE, [c"maps".as_ptr() as u64, 1, 0, 0, 0, 0]) };
    if copy < 0 {
        return;
    }
    let copy = copy as u64;
    filter(fd, copy);
    // SAFETY: lseek to the start; dup3 in place of the program's descriptor; fstat of
    // what is there now into struct stat's 144 bytes; close of ours.
    unsafe {
        sys::call(nr::LSEEK, [copy, 0, 0, 0, 0, 0]);
        sys::call(nr::DUP3, [copy, fd, flags & O_CLOEXEC, 0, 0, 0]);
        let mut stat = [0u64; 18];
        if sys::call(nr::FSTAT, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) == 0 {
            GIVEN[1].store(stat[0], Relaxed);
            GIVEN[2].store(stat[1], Relaxed);
            if GIVEN[0].swap(fd + 1, AcqRel) == 0 {
                watched().fetch_add(1, Relaxed);
            }
        }
        sys::call(nr::CLOSE, [copy, 0, 0, 0, 0, 0]);
    }
}

/// In place of the kernel's `statm`: pages of all mappings, which are taken for resident, of those that are shared or of a
/// file, of code, none of libraries, of what can be written, none dirty (proc_pid_statm(5)).
fn sizes(fd: u64, flags: u64) {
    let path = c"/proc/thread-self/maps".as_ptr() as u64;
    // SAFETY: opens of our own; dup3 in place of the program's descriptor; closes of what was opened.
    unsafe {
        let list = sys::call(nr::OPEN, [path, O_CLOEXEC, 0, 0, 0, 0]);
        if list >= 0 {
            let [mut all, mut shared, mut code, mut data] = [0u64; 4];
            each_line(list as u64, |line| {
                let (start, end) = ends_of(line);
                // The page of vsyscalls is not the process's.
                if is_engine(line) || start >> 63 != 0 {
                    return;
                }
                let pages = (end - start) >> 12;
                let permissions = line.split(|&byte| byte == b' ').nth(1).unwrap_or(&[]);
                all += pages;
                shared += pages * u64::from(line.contains(&b'/'));
                code += pages * u64::from(permissions.contains(&b'x'));
                data += pages * u64::from(permissions.contains(&b'w'));
            });
            let mut text = report::Text::new();
            let _ = writeln!(text, "{all} {all} {shared} {code} 0 {data} 0");
            sys::call(nr::CLOSE, [list as u64, 0, 0, 0, 0, 0]);
            let copy = made_files::with(text.bytes(), true);
            if copy >= 0 {
                sys::call(nr::DUP3, [copy as u64, fd, flags & O_CLOEXEC, 0, 0, 0]);
                sys::call(nr::CLOSE, [copy as u64, 0, 0, 0, 0, 0]);
            }
        }
    }
}

/// No copy is open any more, as far as is known.
fn forget() {
    if GIVEN[0].swap(0, AcqRel) != 0 {
        watched().fetch_sub(1, Relaxed);
    }
}

/// A call that is about to be made natively: a read from the start of the copy finds what is
/// mapped by now, and closing it ends the care for it.
pub fn before(number: u64, a: [u64; 6]) {
    let [given, device, inode] = given();
    if given == 0 || given != a[0].wrapping_add(1) {
        return;
    }
    match number {
        nr::CLOSE => forget(),
        // SAFETY: lseek asks for the position only.
        nr::READ if unsafe { sys::call(nr::LSEEK, [a[0], 0, 1, 0, 0, 0]) } == 0 => {
            renew(a[0], device, inode);
        }
        nr::PREAD64 if a[3] == 0 => renew(a[0], device, inode),
        _ => {}
    }
}

/// Replaces the content of the copy, its position kept at the start.
fn renew(copy: u64, device: u64, inode: u64) {
    if made_files::limit() < LONGEST {
        return; // what was mapped at the `open`
    }
    let mut stat = [0u64; 18];
    // SAFETY: fstat into struct stat's 144 bytes; then the list, opened for reading.
    let list = unsafe {
        if sys::call(nr::FSTAT, [copy, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) != 0
            || stat[0] != device
            || stat[1] != inode
        {
            return;
        }
        sys::call(
            nr::OPEN,
            [
                c"/proc/thread-self/maps".as_ptr() as u64,
                O_CLOEXEC,
                0,
                0,
                0,
                0,
            ],
        )
    };
    if list < 0 {
        return; // no descriptor left: what was mapped at the `open`
    }
    // SAFETY: ftruncate and lseek of the copy, which is ours behind the program's number; close
    // of what was just opened.
    unsafe {
        let position = sys::call(nr::LSEEK, [copy, 0, 1, 0, 0, 0]);
        sys::call(nr::LSEEK, [copy, 0, 0, 0, 0, 0]);
        sys::call(nr::FTRUNCATE, [copy, 0, 0, 0, 0, 0]);
        filter(list as u64, copy);
        sys::call(nr::LSEEK, [copy, position.max(0) as u64, 0, 0, 0, 0]);
        sys::call(nr::CLOSE, [list as u64, 0, 0, 0, 0, 0]);
    }
}

/// fstat, and newfstatat with an empty path, after the kernel has answered.
pub fn asked(number: u64, a: [u64; 6], result: i64) {
    let at = if number == nr::FSTAT { a[1] } else { a[2] };
    let [given, device, inode] = given();
    if result != 0 || given != a[0].wrapping_add(1) {
        return;
    }
    if let Some(stat) = program_memory::read::<[u64; 8]>(at)
        && stat[0] == device
        && stat[1] == inode
    {
        // st_size, st_blksize: as files of /proc have them.
        program_memory::write(at + 48, &[0u64, 1024]);
    }
}

/// What is answered here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    /// `maps`.
    Mappings,
    /// `statm`.
    Sizes,
}

/// Which file of this process a path names.
fn list(path: u64) -> Option<List> {
    if program_memory::read::<[u8; 6]>(path)? != *b"/proc/" {
        return None;
    }
    let mut digits = [0u8; 10];
    let (mut pid, mut len) = (sys::getpid(), 0);
    while pid != 0 && len < digits.len() {
        digits[len] = b'0' + (pid % 10) as u8;
        pid /= 10;
        len += 1;
    }
    digits[..len].reverse();
    let rest = path + 6;
    let rest = [&b"self"[..], b"thread-self", &digits[..len]]
        .into_iter()
        .find_map(|name| is_at(rest, name).then_some(rest + name.len() as u64))?;
    if is_at(rest, b"/maps\0") {
        Some(List::Mappings)
    } else if machine::on() && is_at(rest, b"/statm\0") {
        Some(List::Sizes)
    } else {
        None
    }
}

fn is_at(address: u64, text: &[u8]) -> bool {
    text.iter()
        .zip(address..)
        .all(|(byte, at)| program_memory::read::<u8>(at) == Some(*byte))
}

/// Copies the lines that are not the engine's.
fn filter(from: u64, to: u64) {
    each_line(from, |text| {
        if machine::on() && !is_engine(text) {
            same_everywhere(to, text);
        } else if !is_engine(text) {
            sys::write(to, text);
        }
    });
}

/// Every line of a list.
fn each_line(from: u64, mut line_is: impl FnMut(&[u8])) {
    let mut input = [0u8; 4096];
    // A line is at most an address range and a path of 4,096 bytes, some of them escaped.
    let mut line = [0u8; 20 << 10];
    let mut len = 0;
    loop {
        // SAFETY: read into our own buffer.
        let got = unsafe { sys::call(nr::READ, [from, input.as_mut_ptr() as u64, 4096, 0, 0, 0]) };
        if got <= 0 {
            break;
        }
        for &byte in input.iter().take(got as usize) {
            if let Some(place) = line.get_mut(len) {
                *place = byte;
                len += 1;
            }
            if byte == b'\n' {
                line_is(line.get(..len).unwrap_or(&[]));
                len = 0;
            }
        }
    }
}

/// Writes a line without what differs between machines: device and inode, and the page of vsyscalls.
fn same_everywhere(to: u64, line: &[u8]) {
    if line.ends_with(b"[vsyscall]\n") {
        return;
    }
    // Addresses, permissions, offset; device; inode; the name, from column 73 on.
    let mut spaces = line.iter().enumerate().filter(|(_, byte)| **byte == b' ');
    let Some((end, _)) = spaces.nth(2) else {
        return;
    };
    let name = line
        .iter()
        .skip(end)
        .position(|&byte| byte == b'/' || byte == b'[');
    // Up to Linux 6.5 what ends where the heap begins has its name, too (`vma_is_initial_heap`).
    let (_, last) = ends_of(line);
    let name = name.filter(|_| !line.ends_with(b"[heap]\n") || last > HEAP.load(Relaxed));
    let mut short = [b' '; 80];
    let Some(head) = line.get(..end) else { return };
    for (place, byte) in short.iter_mut().zip(head.iter().chain(b" 00:00 0 ")) {
        *place = *byte;
    }
    match name.and_then(|at| line.get(end + at..)) {
        Some(name) => {
            sys::write(to, short.get(..73).unwrap_or(&[]));
            sys::write(to, name);
        }
        None => {
            sys::write(to, short.get(..end + 9).unwrap_or(&[]));
            sys::write(to, b"\n");
        }
    }
}

fn is_engine(line: &[u8]) -> bool {
    let (start, end) = ends_of(line);
    end != 0 && is_engines(start, end)
}

/// Where a line's mapping begins and ends; 0 where it does not say.
fn ends_of(line: &[u8]) -> (u64, u64) {
    let mut ends = line.splitn(3, |&b| b == b'-' || b == b' ').map(|digits| {
        digits.iter().fold(0u64, |value, &digit| {
            value << 4 | u64::from((digit as char).to_digit(16).unwrap_or(0))
        })
    });
    (ends.next().unwrap_or(0), ends.next().unwrap_or(0))
}
