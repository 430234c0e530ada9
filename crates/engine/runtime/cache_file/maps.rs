//! Which files are mapped where: the mappings a process starts with from
//! `/proc/thread-self/maps` (proc(5)), and a file's identity from `stat` (its layout:
//! arch/x86/include/uapi/asm/stat.h).

use crate::pages::{EXEC, READ, WRITE};
use crate::snapshot::Identity;
use crate::sys;
use crate::syscall_table as nr;

fn identity(stat: &[u64; 18]) -> Identity {
    let time = |at: usize| {
        let (seconds, nanoseconds) = (stat[at], stat[at + 1]);
        seconds
            .wrapping_mul(1_000_000_000)
            .wrapping_add(nanoseconds)
    };
    [stat[0], stat[1], stat[6], time(11), time(13)]
}

/// Which file a descriptor of the program's is.
pub(super) fn identity_of(fd: u64) -> Option<Identity> {
    let mut stat = [0u64; 18];
    // SAFETY: fstat into struct stat's 144 bytes.
    let result = unsafe { sys::call(nr::FSTAT, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]) };
    (result == 0).then(|| identity(&stat))
}

fn identity_at(path: &[u8]) -> Option<Identity> {
    let mut stat = [0u64; 18];
    // SAFETY: stat of a zero-terminated path into struct stat's 144 bytes.
    let result = unsafe {
        sys::call(
            nr::STAT,
            [path.as_ptr() as u64, stat.as_mut_ptr() as u64, 0, 0, 0, 0],
        )
    };
    (result == 0).then(|| identity(&stat))
}

/// Calls `found(start, end, offset, identity)` for each executable, not
/// writable mapping of a file. (Not for the vDSO: that its code is translated says that it is executed, see `outside`.)
pub(super) fn initial(mut found: impl FnMut(u64, u64, u64, Identity)) {
    let path = b"/proc/thread-self/maps\0";
    // SAFETY: open, read and close with our own buffers.
    let fd = unsafe { sys::call(nr::OPEN, [path.as_ptr() as u64, 0o2_000_000, 0, 0, 0, 0]) };
    if fd < 0 {
        return;
    }
    let mut buffer = [0u8; 4096];
    let mut len = 0;
    // The rest of a line that does not fit is still to come: its mapping is not kept.
    let mut skipping = false;
    while let Some(rest) = buffer.get_mut(len..) {
        let (at, room) = (rest.as_mut_ptr() as u64, rest.len() as u64);
        // SAFETY: as above.
        let got = unsafe { sys::call(nr::READ, [fd as u64, at, room, 0, 0, 0]) };
        if got <= 0 {
            break;
        }
        len += got as usize;
        let mut done = 0;
        while let Some(line) = buffer.get(done..len)
            && let Some(end) = line.iter().position(|&b| b == b'\n')
        {
            done += end + 1;
            if !core::mem::take(&mut skipping) {
                describe(line.get(..end).unwrap_or(&[]), &mut found);
            }
        }
        if done == 0 && len == buffer.len() {
            (skipping, done) = (true, len);
        }
        buffer.copy_within(done..len, 0);
        len -= done;
    }
    // SAFETY: our descriptor.
    unsafe { sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]) };
}

/// One line.
fn describe(line: &[u8], found: &mut impl FnMut(u64, u64, u64, Identity)) {
    let mut fields = line.split(|&b| b == b' ').filter(|f| !f.is_empty());
    let (Some(range), Some(prot), Some(offset)) = (fields.next(), fields.next(), fields.next())
    else {
        return;
    };
    let prot = prot.iter().fold(0, |all, bit| {
        all | match bit {
            b'r' => READ,
            b'w' => WRITE,
            b'x' => EXEC,
            _ => 0,
        }
    });
    if prot & (EXEC | WRITE) != EXEC {
        return;
    }
    let mut ends = range.split(|&b| b == b'-').map(hex);
    let (Some(start), Some(end)) = (ends.next(), ends.next()) else {
        return;
    };
    let offset = hex(offset);
    // The path is the rest of the line.
    let Some(from) = line.iter().position(|&b| b == b'/') else {
        return;
    };
    let mut name = [0u8; 1024];
    let Some(path) = line.get(from..) else {
        return;
    };
    if path.len() >= name.len() {
        return;
    }
    for (to, byte) in name.iter_mut().zip(path) {
        *to = *byte;
    }
    if let Some(identity) = identity_at(&name) {
        found(start, end, offset, identity);
    }
}

fn hex(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => 0,
        };
        value << 4 | u64::from(digit)
    })
}
