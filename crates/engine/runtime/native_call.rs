//! Functions that the program has Valgrind call outside of its count (`VALGRIND_NON_SIMD_CALL`): translated as all code
//! is, and counted nowhere. The macro does not tell the compiler that a function is called, so all registers are kept.

use crate::call_tree;
use crate::collect;
use crate::layout::{Context, Vectors};
use crate::own_memory::{self, RUNTIME_END};
use crate::program_memory;

/// Where the function returns to: nothing of the program's can be there.
const BACK: u64 = RUNTIME_END - 16;
/// Components of the state that are kept: x87, SSE, AVX and AVX-512 (what a function changes of them).
const COMPONENTS: u64 = 0xe7;
/// Bytes of them by `xsave`: the standard form, up to its last component.
const STATE: usize = 2688;

/// What the program has in front of the call.
#[repr(C, align(64))]
struct Kept {
    state: [u8; STATE],
    registers: [u64; 16],
    flags: u64,
    /// Where it goes on.
    next: u64,
    low: Vectors,
}

/// The function's frame is on the thread's stack, below the caller's red zone. False: there is no room for it.
pub fn begin(context: &mut Context, function: u64, arguments: [u64; 3]) -> bool {
    const RED_ZONE: u64 = 128;
    let sp = (context.regs[4].wrapping_sub(RED_ZONE) & !15).wrapping_sub(8);
    if !program_memory::write(sp, &BACK) {
        return false;
    }
    let at = own_memory::reserve(size_of::<Kept>() as u64);
    // SAFETY: zeroed memory of ours, aligned to a page. What translated code has in the upper halves of vectors is in the
    // registers now (this code changes none), the lower halves are in the context.
    let kept = unsafe {
        let (low, high) = (COMPONENTS as u32, 0u32);
        core::arch::asm!("xsave64 [{}]", in(reg) at, in("eax") low, in("edx") high, options(nostack));
        &mut *(at as *mut Kept)
    };
    kept.registers = context.regs;
    kept.flags = context.rflags;
    kept.next = context.pc;
    kept.low = context.xmm;
    context.region.native = at;
    // Not counted from its first instruction on.
    collect::follow(context);
    call_tree::follow(context);
    let [first, second, third] = arguments;
    context.regs[7] = u64::from(thread(context));
    (context.regs[6], context.regs[2], context.regs[1]) = (first, second, third);
    context.regs[0] = 0;
    context.regs[4] = sp;
    context.pc = function;
    call_tree::calls(context, sp, function);
    true
}

/// Valgrind's number of the thread: 1 is the first one.
fn thread(context: &Context) -> u32 {
    let slot = crate::slots::slot_of(context);
    slot.saturating_sub(context.leader) + 1
}

/// The program goes on at `pc`: whether that is the end of such a function; then `Context::pc` is where its caller goes on.
pub fn is_over(context: &mut Context, pc: u64) -> bool {
    if pc != BACK || context.region.native == 0 {
        return false;
    }
    let at = context.region.native;
    // SAFETY: made by `begin`, and given back below only.
    let kept = unsafe { &*(at as *const Kept) };
    let result = context.regs[0];
    context.regs = kept.registers;
    context.regs[2] = result;
    context.rflags = kept.flags;
    context.xmm = kept.low;
    context.pc = kept.next;
    // SAFETY: `xsave64` wrote it, and nobody else has. What it loads into the lower halves of vectors is overwritten from
    // the context on the way out; this code has nothing in them across it.
    unsafe {
        let (low, high) = (COMPONENTS as u32, 0u32);
        core::arch::asm!("xrstor64 [{}]", in(reg) at, in("eax") low, in("edx") high,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _,
            out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _,
            out("xmm14") _, out("xmm15") _, options(nostack));
    }
    forget(context);
    true
}

/// Inside such a function requests are not seen, as in Valgrind. One that was left by `longjmp` is over.
pub fn is_inside(context: &mut Context) -> bool {
    let at = context.region.native;
    if at == 0 {
        return false;
    }
    // SAFETY: as above.
    let sp = unsafe { (*(at as *const Kept)).registers[4] };
    if context.regs[4] < sp {
        return true;
    }
    forget(context);
    false
}

fn forget(context: &mut Context) {
    own_memory::give_back(context.region.native, size_of::<Kept>() as u64);
    context.region.native = 0;
}
