//! `perf_event_open`: whose event it is, for which thread, in which group.
//! Order of checks and errors: `kernel/events/core.c`, perf_event_open(2).

use super::{descriptor, events};
use crate::layout::Context;
use crate::pmu::attr::{self, Cpu, KNOWN, MIN_SIZE, Machine, Verdict};
use crate::pmu::errno::*;
use crate::syscall_table as nr;
use crate::{counts, program_memory, slots, sys};
use core::sync::atomic::{AtomicU32, Ordering::*};

/// Flags of the call.
const NO_GROUP: u64 = 1;
const CGROUP: u64 = 4;
const CLOSE_ON_EXEC: u64 = 8;

/// The system call.
pub fn open(context: &Context, a: [u64; 6]) -> i64 {
    match try_open(context, a) {
        Ok(Some(fd)) => fd as i64,
        // SAFETY: not ours: as the program made it.
        Ok(None) => unsafe { sys::call(nr::PERF_EVENT_OPEN, a) },
        Err(errno) => -errno,
    }
}

/// `None`: the kernel's.
fn try_open(context: &Context, a: [u64; 6]) -> Result<Option<u64>, i64> {
    let [address, pid, cpu, group, flags, _] = a;
    let (pid, cpu, group) = (pid as i32, cpu as i32, group as i32);
    let [type_, size] = program_memory::read::<[u32; 2]>(address).ok_or(EFAULT)?;
    let group_fd = (group != -1 && flags & NO_GROUP == 0).then_some(group as u64);
    let group_event = group_fd
        .filter(|_| super::in_use())
        .and_then(descriptor::identify);
    if !attr::is_ours(type_) {
        // The kernel's events cannot join a group of ours.
        return if group_event.is_some() {
            Err(EINVAL)
        } else {
            Ok(None)
        };
    }
    if flags & !15 != 0 {
        return Err(EINVAL);
    }
    let bytes = copy_attr(address, size)?;
    let request = match attr::judge(&bytes, machine()) {
        Verdict::Kernel => return Ok(None),
        Verdict::Refuse(errno) => return Err(errno),
        Verdict::Count(request) => request,
    };
    if cpu < -1 || pid == -1 && cpu == -1 {
        return Err(EINVAL);
    }
    // Whole CPUs, a thread on one CPU only, control groups: not to be seen from here.
    if cpu != -1 || flags & CGROUP != 0 {
        return Err(ENOENT);
    }
    let slot = target(context, pid)?;
    let leader = match (group_fd, group_event) {
        (Some(_), Some(event)) => Some(event),
        // An event of the kernel's, or no event at all.
        (Some(fd), None) => return Err(if is_open(fd) { EINVAL } else { EBADF }),
        (None, _) => None,
    };
    let fd = descriptor::create(flags & CLOSE_ON_EXEC != 0)?;
    let opened = events::with(|table, world| {
        if table.is_full() {
            events::sweep(table, world);
        }
        let event = table.open(&request, slot, leader, world)?;
        descriptor::name(fd, event);
        Ok(())
    });
    if let Err(errno) = opened {
        descriptor::close(fd);
        return Err(errno);
    }
    slots::header().events_open.store(1, Release);
    slots::header().descriptors.store(1, Release);
    Ok(Some(fd))
}

/// The attribute, zero-filled; sizes as `perf_copy_attr` takes them.
fn copy_attr(address: u64, size: u32) -> Result<[u8; KNOWN], i64> {
    let too_big = || {
        // The kernel tells the size it knows.
        if program_memory::write(address + 4, &(KNOWN as u32)) {
            E2BIG
        } else {
            EFAULT
        }
    };
    if !attr::plausible_size(size) {
        return Err(too_big());
    }
    let size = u64::from(if size == 0 { MIN_SIZE } else { size });
    let mut bytes = [0u8; KNOWN];
    let given = bytes
        .get_mut(..size.min(KNOWN as u64) as usize)
        .unwrap_or(&mut []);
    if !program_memory::read_bytes(given, address) {
        return Err(EFAULT);
    }
    for at in KNOWN as u64..size {
        if program_memory::read::<u8>(address + at).ok_or(EFAULT)? != 0 {
            return Err(too_big());
        }
    }
    Ok(bytes)
}

/// The slot to count: of this thread, or another one of the run.
fn target(context: &Context, pid: i32) -> Result<u32, i64> {
    if pid == 0 {
        return Ok(slots::slot_of(context));
    }
    let id = u32::try_from(pid).map_err(|_| ESRCH)?;
    // SAFETY: signal 0 only asks whether the thread exists.
    if unsafe { sys::call(nr::TKILL, [u64::from(id), 0, 0, 0, 0, 0]) } == -ESRCH {
        return Err(ESRCH);
    }
    // It exists, and runs without the virtual PMU: nothing counts it.
    events::slot_of_thread(id).ok_or(ENOENT)
}

fn is_open(fd: u64) -> bool {
    // SAFETY: fcntl(F_GETFD) asks only.
    unsafe { sys::call(nr::FCNTL, [fd, 1, 0, 0, 0, 0]) >= 0 }
}

/// 0: not looked yet; else 1 + whether ordinary users may not count the kernel.
static PARANOID: AtomicU32 = AtomicU32::new(0);

fn machine() -> Machine {
    Machine {
        cpu: cpu(),
        paranoid: paranoid(),
        per_block: counts::per_block(),
    }
}

#[allow(
    unused_unsafe,
    reason = "cpuid is a safe function in newer Rust, and unsafe in 1.88"
)]
fn cpu() -> Cpu {
    // SAFETY: every x86-64 CPU has cpuid.
    let (names, version) = unsafe {
        (
            core::arch::x86_64::__cpuid(0),
            core::arch::x86_64::__cpuid(1),
        )
    };
    let mut vendor = [0u8; 12];
    for (chunk, word) in vendor
        .chunks_exact_mut(4)
        .zip([names.ebx, names.edx, names.ecx])
    {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    Cpu::identify(&vendor, version.eax)
}

/// Whether `kernel.perf_event_paranoid` is 2 or more (or cannot be read).
fn paranoid() -> bool {
    let known = PARANOID.load(Relaxed);
    if known != 0 {
        return known == 2;
    }
    let path = b"/proc/sys/kernel/perf_event_paranoid\0";
    let mut text = [0u8; 4];
    // SAFETY: open (read only, close on exec), read into our buffer, close.
    let got = unsafe {
        let fd = sys::call(nr::OPEN, [path.as_ptr() as u64, 0o2_000_000, 0, 0, 0, 0]);
        if fd < 0 {
            fd
        } else {
            let got = sys::call(nr::READ, [fd as u64, text.as_mut_ptr() as u64, 4, 0, 0, 0]);
            descriptor::close(fd as u64);
            got
        }
    };
    let open = got > 0 && matches!(text[0], b'-' | b'0' | b'1');
    PARANOID.store(if open { 1 } else { 2 }, Relaxed);
    !open
}
