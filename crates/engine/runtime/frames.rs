//! Signal frames: the kernel's, and the ones built for the program. Layout:
//! arch/x86/include/uapi/asm/sigcontext.h and arch/x86/kernel/signal_64.c.

use crate::action::{self, Action, OPEN, SA_NODEFER, SA_ONSTACK, SIGSEGV};
use crate::entry::{self, address};
use crate::layout::Context;
use crate::own_memory::NOWHERE;
use crate::program_memory::{self, Plain};
use crate::shown::STATE_ROOM;
use crate::syscall_table as nr;
use crate::{altstack, call_tree, keys, machine, report, sys};

/// `siginfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Info {
    pub signal: i32,
    pub errno: i32,
    pub code: i32,
    pad: i32,
    pub address: u64,
    rest: [u64; 13],
}

impl Info {
    pub const NONE: Self = Self {
        signal: 0,
        errno: 0,
        code: 0,
        pad: 0,
        address: 0,
        rest: [0; 13],
    };
    /// A signal of the runtime's to another process of the run.
    pub fn message(signal: u32, code: i32, value: u64) -> Self {
        let mut rest = [0; 13];
        rest[0] = value;
        Self {
            signal: signal as i32,
            errno: 0,
            code,
            pad: 0,
            address: 0,
            rest,
        }
    }

    /// The value sent with it; for SIGSYS of a filter number and kind of the call.
    pub fn value(&self) -> u64 {
        self.rest[0]
    }

    pub fn set_value(&mut self, value: u64) {
        self.rest[0] = value;
    }
}

/// `struct ucontext` with its `sigcontext` flattened in.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ucontext {
    pub flags: u64,
    pub link: u64,
    pub stack: [u64; 3],
    /// R8 to R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX, RSP.
    pub regs: [u64; 16],
    pub rip: u64,
    pub eflags: u64,
    pub segments: u64,
    pub error: u64,
    pub trap: u64,
    pub oldmask: u64,
    pub cr2: u64,
    pub fpstate: u64,
    reserved: [u64; 8],
    pub mask: u64,
}

/// Where the frame keeps register n (encoding order).
const PLACE: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];

// SAFETY: words.
unsafe impl Plain for Ucontext {}

impl Ucontext {
    pub fn registers(&self) -> [u64; 16] {
        PLACE.map(|at| self.regs[at])
    }
    pub fn set_registers(&mut self, regs: &[u64; 16]) {
        for (at, &value) in PLACE.iter().zip(regs) {
            self.regs[*at] = value;
        }
    }
    pub fn rcx(&self) -> u64 {
        self.regs[14]
    }
    pub fn regs_rcx(&mut self, value: u64) {
        self.regs[14] = value;
    }
    pub fn set_register(&mut self, register: u8, value: u64) {
        self.regs[PLACE[usize::from(register & 15)]] = value;
    }
    pub fn sp(&self) -> u64 {
        self.regs[15]
    }
}

/// What lies on the program's stack at its handler's first instruction.
#[repr(C)]
#[derive(Clone, Copy)]
struct Frame {
    restorer: u64,
    context: Ucontext,
    info: Info,
}

// SAFETY: words and half words without a gap: see the sizes below.
unsafe impl Plain for Frame {}

/// Bytes of the extended state that the kernel saved (struct _fpx_sw_bytes at
/// offset 464 of the legacy area).
fn state_size(fpstate: u64) -> u64 {
    // SAFETY: the kernel's frame, on our stack.
    let (magic, size) = unsafe {
        (
            *((fpstate + 464) as *const u32),
            *((fpstate + 468) as *const u32),
        )
    };
    if magic == 0x4650_5853 && (512..32 << 10).contains(&size) {
        u64::from(size)
    } else {
        512
    }
}

/// The state that a handler begins with, as the kernel gives it: rounding, masks and registers are those of a new
/// program, rights by protection key those of ours.
fn begin_afresh(fpstate: u64) {
    /// Offsets in the XSAVE area: the control words, where the state says what it holds, the features of the frame.
    const CONTROL: u64 = 0;
    const MXCSR: u64 = 24;
    const FEATURES: u64 = 464 + 8;
    const HELD: u64 = 512;
    const KEYS: u64 = 1 << 9;
    if fpstate == 0 {
        return;
    }
    let extended = state_size(fpstate) > 512;
    // SAFETY: the kernel's frame, on our stack, of that size.
    unsafe {
        *((fpstate + MXCSR) as *mut u32) = 0x1f80;
        if !extended {
            core::ptr::write_bytes(fpstate as *mut u8, 0, MXCSR as usize);
            core::ptr::write_bytes((fpstate + 32) as *mut u8, 0, 416 - 32);
            *((fpstate + CONTROL) as *mut u16) = 0x37f;
            return;
        }
        let held = (fpstate + HELD) as *mut u64;
        *held &= KEYS;
        if let Some(rights) = keys::rights()
            && *((fpstate + FEATURES) as *const u64) & KEYS != 0
        {
            *held = KEYS;
            *((fpstate + keys::saved_at()) as *mut u32) = rights;
        }
    }
}

/// Builds the program's frame on its stack and turns the kernel's into one that
/// goes to its handler.
pub fn deliver(
    context: &mut Context,
    signal: u32,
    action: &Action,
    info: &Info,
    frame: &mut Ucontext,
) {
    let sp = frame.sp();
    let mut top = sp.wrapping_sub(128);
    let view = altstack::view(context, sp);
    if action.flags & SA_ONSTACK != 0 && view[1] & 3 == 0 {
        top = view[0].wrapping_add(view[2]);
    }
    let program_mask = frame.mask & !OPEN | context.virtual_mask;
    let mut copy = Frame {
        restorer: action.restorer,
        context: *frame,
        info: *info,
    };
    copy.context.stack = view;
    copy.context.mask = program_mask;
    let mut ok = true;
    if frame.fpstate != 0 {
        let size = state_size(frame.fpstate);
        // A machine that is shown has frames of one size, wherever it is shown.
        let room = if machine::on() { STATE_ROOM } else { 0 };
        top = top.wrapping_sub(size.max(room)) & !63;
        ok &= program_memory::copy(top, frame.fpstate, size);
        copy.context.fpstate = top;
    }
    begin_afresh(frame.fpstate);
    let at = (top.wrapping_sub(core::mem::size_of::<Frame>() as u64) & !15).wrapping_sub(8);
    ok &= program_memory::write(at, &copy);
    if !ok {
        // As the kernel: a handler that cannot be called means SIGSEGV.
        let default = Action::default();
        action::set(context, SIGSEGV, default);
        context.native_pc = NOWHERE;
        force_segv();
    }
    call_tree::signal(context, action.handler, sp, frame.rip);
    if view[1] & 0x8000_0000 != 0 {
        context.altstack = [0, 2, 0];
    }
    let mut mask = program_mask | action.mask;
    if action.flags & SA_NODEFER == 0 {
        mask |= 1 << (signal - 1);
    }
    mask &= !(1 << 8 | 1 << 18);
    context.virtual_mask = mask & OPEN;
    frame.mask = action::native_mask(mask);
    let mut regs = frame.registers();
    regs[0] = 0;
    regs[4] = at;
    regs[7] = u64::from(signal);
    regs[6] = at + core::mem::offset_of!(Frame, info) as u64;
    regs[2] = at + core::mem::offset_of!(Frame, context) as u64;
    frame.set_registers(&regs);
    // TF, DF, RF
    frame.eflags &= !(0x100 | 0x400 | 0x1_0000);
    context.target = action.handler;
    frame.rip = address(entry::rt_goto);
}

fn force_segv() -> ! {
    let default = Action::default();
    // SAFETY: restores the default action and sends the signal.
    unsafe {
        sys::call(
            nr::RT_SIGACTION,
            [11, core::ptr::from_ref(&default) as u64, 0, 8, 0, 0],
        );
        sys::set_mask(!(1 << 10));
        sys::call(
            nr::TGKILL,
            [
                u64::from(sys::getpid()),
                u64::from(sys::gettid()),
                11,
                0,
                0,
                0,
            ],
        );
    }
    report::fail(format_args!("SIGSEGV did not end the program"))
}

const _: () = assert!(core::mem::size_of::<Ucontext>() == 304);
const _: () = assert!(core::mem::size_of::<Frame>() == 440);
