//! What programs do with an event's descriptor: read it, control it, map it.
//! Results and errors: `perf_read`, `_perf_ioctl` and `perf_mmap` in
//! `kernel/events/core.c`; perf_event_open(2).

use super::events::Threads;
use super::{descriptor, events};
use crate::pmu::attr::format;
use crate::pmu::errno::*;
use crate::pmu::page::BYTES;
use crate::pmu::reading::{MAX_MEMBERS, MAX_WORDS, Member, lay_out, words};
use crate::pmu::table::Table;
use crate::syscall_table as nr;
use crate::{program_memory, sys};

/// The call `number` on the descriptor of an event (one that the table answers by `Event`).
pub fn call(event: u32, number: u64, a: [u64; 6]) -> i64 {
    let result = match number {
        nr::READ => read(a[0], event, a[1], a[2]),
        nr::READV => read_vector(a[0], event, a[1], a[2]),
        nr::PREADV2 if a[3] == u64::MAX => read_vector(a[0], event, a[1], a[2]),
        nr::IOCTL => ioctl(a[0], event, a[1], a[2]),
        // lseek, pread64, preadv: an event has no positions.
        _ => Err(ESPIPE),
    };
    result.map_or_else(|errno| -errno, |done| done as i64)
}

/// Takes closed events out of the event's group: nothing tells when a program
/// closes one, so whoever is about to use the group looks.
fn tidy(fd: u64, event: u32, table: &mut Table, world: &Threads) {
    let mut members = [0u32; MAX_MEMBERS];
    let count = table.companions(event, &mut members);
    for &member in members.iter().take(count) {
        if !descriptor::is_open_beside(fd, member) {
            table.close(member, world);
        }
    }
}

fn read(fd: u64, event: u32, buffer: u64, len: u64) -> Result<u64, i64> {
    let mut out = [0u64; MAX_WORDS];
    let count = events::with(|table, world| {
        let (read_format, _, removed) = table.about(event);
        if removed {
            return Ok(0);
        }
        let group = read_format & format::GROUP != 0;
        if group {
            tidy(fd, event, table, world);
        }
        let members = if group { table.group_size(event) } else { 1 };
        if len / 8 < words(read_format, members) as u64 {
            return Err(ENOSPC);
        }
        let mut seen = [Member::default(); MAX_MEMBERS];
        let (members, time) = table.read(event, group, &mut seen, world);
        let seen = seen.get(..members).unwrap_or(&[]);
        // Killed before anybody could ask how long it ran: but it did run.
        let time = time.max(u64::from(seen.iter().any(|m| m.value != 0)));
        Ok(lay_out(read_format, seen, time, &mut out))
    })?;
    let bytes = 8 * count as u64;
    if program_memory::copy(buffer, out.as_ptr() as u64, bytes) {
        Ok(bytes)
    } else {
        Err(EFAULT)
    }
}

/// One reading a buffer, as the kernel does for files that can only `read`.
fn read_vector(fd: u64, event: u32, vector: u64, count: u64) -> Result<u64, i64> {
    if count > 1024 {
        return Err(EINVAL);
    }
    let mut done = 0;
    for n in 0..count {
        let [base, len] = program_memory::read::<[u64; 2]>(vector + 16 * n).ok_or(EFAULT)?;
        match read(fd, event, base, len) {
            Ok(bytes) => {
                done += bytes;
                if bytes != len {
                    break;
                }
            }
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}

fn ioctl(fd: u64, event: u32, request: u64, argument: u64) -> Result<u64, i64> {
    let group = argument & 1 != 0;
    if matches!(request, 0x2400 | 0x2401 | 0x2403) {
        events::with(|table, world| tidy(fd, event, table, world));
    }
    match request as u32 {
        0x2400 => events::with(|table, world| table.enable(event, true, group, world)),
        0x2401 => events::with(|table, world| table.enable(event, false, group, world)),
        0x2403 => events::with(|table, world| table.reset(event, group, world)),
        // ID
        0x8008_2407 => {
            let (_, id, _) = events::with(|table, _| table.about(event));
            if !program_memory::write(argument, &id) {
                return Err(EFAULT);
            }
        }
        // SET_OUTPUT: there is no ring to send anything to or to take back.
        0x2405 if argument as i32 == -1 => {}
        // REFRESH, PERIOD, SET_OUTPUT, SET_FILTER, SET_BPF, PAUSE_OUTPUT,
        // QUERY_BPF: for events that sample.
        0x2402 | 0x4008_2404 | 0x2405 | 0x4008_2406 | 0x4004_2408 | 0x4004_2409 | 0xc008_240a => {
            return Err(EINVAL);
        }
        // MODIFY_ATTRIBUTES: breakpoints only.
        0x4008_240b => return Err(EOPNOTSUPP),
        _ => return Err(ENOTTY),
    }
    Ok(0)
}

/// A `mmap` that may be of an event: `None` if it is not, else its result.
pub fn mapping(a: [u64; 6]) -> Option<i64> {
    let [address, len, protection, flags, fd, offset] = a;
    let anonymous = flags & 0x20 != 0;
    if anonymous || !super::in_use() {
        return None;
    }
    let event = descriptor::identify(fd)?;
    let shared = matches!(flags & 0xf, 1 | 3);
    // One page: without sampling there is no ring behind it. What others
    // inherited is not on the page, so the kernel does not map it either.
    let inherits = events::with(|table, _| table.inherits(event));
    if !shared || len == 0 || len > BYTES || offset != 0 || inherits {
        return Some(-EINVAL);
    }
    let mut source = fd;
    if protection & 2 != 0 {
        match descriptor::reopen_writable(fd, event) {
            Ok(writable) => source = writable,
            Err(errno) => return Some(-errno),
        }
    }
    let place = crate::layout::EVENT_PAGES - crate::layout::TOTALS_BASE + u64::from(event) * BYTES;
    // SAFETY: as the program made it, but for the place in the file (the caller
    // has looked at the address); then, as the kernel's own: not for children.
    let result = unsafe {
        let result = sys::call(nr::MMAP, [address, BYTES, protection, flags, source, place]);
        if result > 0 {
            sys::call(nr::MADVISE, [result as u64, BYTES, 10, 0, 0, 0]); // MADV_DONTFORK
        }
        result
    };
    if source != fd {
        descriptor::close(source);
    }
    Some(result)
}
