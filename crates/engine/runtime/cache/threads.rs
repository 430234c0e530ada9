//! Who executes translated code of this memory, and since when they cannot be in an older part of it.
//!
//! A thread that continues in a block notes the epoch ([`Cache::epoch`]); it cannot be in what was retired before.
//! One that sleeps in a call is asked about in `/proc/PID/task/TID/syscall` (proc(5)); one that runs without coming
//! to the runtime gets a signal that the program does not see.

use super::Cache;
use crate::action::SIGILL;
use crate::block::NONE;
use crate::frames::Info;
use crate::layout::Context;
use crate::own_memory::in_code;
use crate::slots::{self, STACK};
use crate::sys;
use crate::syscall_table as nr;
use core::sync::atomic::Ordering::*;

/// `si_code` of the signal that calls a thread; the kernel's are none below -7.
pub const CALL: i32 = -0x7464;

/// Threads of one memory, by their slots; 0: none.
pub(super) struct Threads {
    slots: [u32; Threads::KNOWN],
    /// There were more: nothing can be said of them.
    more: bool,
}

/// What a thread is doing.
enum Doing {
    Running,
    /// In this call, with this stack pointer, to go on there.
    Sleeping {
        call: u64,
        sp: u64,
        pc: u64,
    },
    Gone,
    Unknown,
}

impl Threads {
    const KNOWN: usize = 4096;

    pub(super) const fn new() -> Self {
        Self {
            slots: [0; Self::KNOWN],
            more: false,
        }
    }

    fn list(&self) -> impl Iterator<Item = slots::Slot> + '_ {
        self.slots
            .iter()
            .filter(|slot| **slot != 0)
            .map(|slot| slots::slot(*slot))
    }

    /// Sends those that run, and have not been here since `epoch`, to the runtime.
    pub(super) fn call(&self, epoch: u64) {
        let own = sys::gettid();
        for slot in self.list() {
            if slot.epoch().load(Acquire) < epoch
                && slot.tid() != own
                && matches!(doing(slot), Doing::Running)
            {
                let info = Info::message(SIGILL, CALL, 0);
                let [process, thread] = [slot.pid(), slot.tid()].map(u64::from);
                let siginfo = core::ptr::from_ref(&info) as u64;
                let call = [process, thread, u64::from(SIGILL), siginfo, 0, 0];
                // SAFETY: rt_tgsigqueueinfo with a whole siginfo; the receiver's runtime takes it for itself.
                unsafe { sys::call(nr::RT_TGSIGQUEUEINFO, call) };
            }
        }
    }
}

impl Cache {
    /// The thread continues in a block that can be reached now.
    pub fn enters(&self, context: &Context) {
        context.epoch.store(self.epoch, Release);
    }

    /// A thread begins to execute code of this memory, or is about to be made. `alone`: in a memory of its own.
    pub fn begins(&mut self, context: &Context, alone: bool) {
        if alone {
            self.threads.slots = [0; Threads::KNOWN];
            self.threads.more = false;
        }
        let slot = slots::slot_of(context);
        // It is nowhere yet.
        self.enters(context);
        match self.threads.slots.iter_mut().find(|place| **place == 0) {
            Some(place) => *place = slot,
            None => self.threads.more = true,
        }
    }

    /// A thread, or a process that shares this memory, executes none of it any more.
    pub fn ends(&mut self, slot: u32) {
        for place in self
            .threads
            .slots
            .iter_mut()
            .filter(|place| **place == slot)
        {
            *place = 0;
        }
    }

    /// Whether no other thread or process executes code of this memory.
    pub fn is_alone(&mut self) -> bool {
        if self.threads.more {
            return false;
        }
        for at in 0..Threads::KNOWN {
            let number = self.threads.slots.get(at).copied().unwrap_or(0);
            if number == 0 || slots::slot(number).tid() == sys::gettid() {
                continue;
            }
            match doing(slots::slot(number)) {
                Doing::Gone => self.ends(number),
                _ => return false,
            }
        }
        true
    }

    /// Whether a thread may be in a section that was retired, or refer to it.
    pub(super) fn is_entered(&mut self, section: usize) -> bool {
        let retired = self.sections.get(section).retired;
        if self.threads.more {
            return true;
        }
        for at in 0..Threads::KNOWN {
            let number = self.threads.slots.get(at).copied().unwrap_or(0);
            let slot = slots::slot(number);
            if number == 0 || slot.epoch().load(Acquire) >= retired {
                continue;
            }
            if slot.tid() == sys::gettid() {
                return true;
            }
            match doing(slot) {
                Doing::Gone => self.ends(number),
                Doing::Sleeping { pc, .. } if in_code(pc) => {
                    if self.section_of(pc) == Some(section) {
                        return true;
                    }
                }
                // The runtime makes the program's call, and returns to what comes behind the block.
                Doing::Sleeping { call, sp, .. } => {
                    let stack = slot.stack();
                    let exit = slot.exit_id();
                    let owner = self
                        .exits
                        .slice()
                        .get(exit as usize)
                        .map_or(NONE, |exit| exit.block);
                    let body = self
                        .blocks
                        .slice()
                        .get(owner as usize)
                        .map_or(0, |block| block.body);
                    let calls = call == slot.regs()[0] && (stack - STACK..stack).contains(&sp);
                    if !calls || self.section_of(body) == Some(section) {
                        return true;
                    }
                }
                Doing::Running | Doing::Unknown => return true,
            }
        }
        false
    }
}

/// The system call that a thread is in, if the kernel tells.
pub fn call_of(slot: slots::Slot) -> Option<u64> {
    match doing(slot) {
        Doing::Sleeping { call, .. } => Some(call),
        _ => None,
    }
}

/// (Of one that is about to be made the kernel says that such a number makes no sense: that is unknown.)
fn doing(slot: slots::Slot) -> Doing {
    let mut path = [0u8; 64];
    let mut len = 0;
    let mut put = |bytes: &[u8]| {
        for &byte in bytes {
            if let Some(place) = path.get_mut(len) {
                *place = byte;
                len += 1;
            }
        }
    };
    put(b"/proc/");
    put(decimal(slot.pid(), &mut [0; 10]));
    put(b"/task/");
    put(decimal(slot.tid(), &mut [0; 10]));
    put(b"/syscall\0");
    let thread = [slot.pid(), slot.tid()].map(u64::from);
    let mut text = [0u8; 256];
    // SAFETY: open, read and close with our own buffers; signal 0 only asks whether the thread exists.
    let got = unsafe {
        let fd = sys::call(nr::OPEN, [path.as_ptr() as u64, 0o2_000_000, 0, 0, 0, 0]);
        if fd < 0 {
            let gone = sys::call(nr::TGKILL, [thread[0], thread[1], 0, 0, 0, 0]) == -3;
            return if gone { Doing::Gone } else { Doing::Unknown };
        }
        let got = sys::call(
            nr::READ,
            [fd as u64, text.as_mut_ptr() as u64, 256, 0, 0, 0],
        );
        sys::call(nr::CLOSE, [fd as u64, 0, 0, 0, 0, 0]);
        got
    };
    match got {
        -3 => Doing::Gone,
        ..=0 => Doing::Unknown,
        _ => parse(text.get(..got as usize).unwrap_or(&[])),
    }
}

/// `running`, or the call's number, its six arguments, the stack pointer and the program counter.
fn parse(text: &[u8]) -> Doing {
    let mut words = text.split(|&byte| byte == b' ' || byte == b'\n');
    let first = words.next().unwrap_or(&[]);
    if first == b"running" {
        return Doing::Running;
    }
    let call = first.iter().fold(0u64, |value, &digit| {
        value
            .wrapping_mul(10)
            .wrapping_add(u64::from(digit.wrapping_sub(b'0')))
    });
    let hexadecimal = |word: Option<&[u8]>| {
        let digits = word?.strip_prefix(b"0x")?;
        digits.iter().try_fold(0u64, |value, &digit| {
            let digit = char::from(digit).to_digit(16)?;
            Some(value << 4 | u64::from(digit))
        })
    };
    // A thread that is stopped, or in a page fault, is in no call: "-1", then stack pointer and program counter.
    let skipped = if first.first() == Some(&b'-') { 0 } else { 6 };
    let mut words = words.skip(skipped);
    match (hexadecimal(words.next()), hexadecimal(words.next())) {
        (Some(sp), Some(pc)) => Doing::Sleeping { call, sp, pc },
        _ => Doing::Unknown,
    }
}

fn decimal(mut value: u32, buffer: &mut [u8; 10]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        if let Some(place) = buffer.get_mut(at) {
            *place = b'0' + (value % 10) as u8;
        }
        value /= 10;
        if value == 0 || at == 0 {
            return buffer.get(at..).unwrap_or(&[]);
        }
    }
}
