//! The process that executes cases: natively or under the virtual PMU, it cannot tell.
//!
//! Each case is entered with all registers set and left through [`leave`], which stores all of them, or by a
//! synchronous signal, whose handler takes the registers from the signal frame.

use super::case::{AREA, CODE_BASE, CONTROL, Case, MIDDLE, SCRATCH, STACK, WAY_OUT, WORDS};
use std::arch::global_asm;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

/// Registers while a case runs, at [`CONTROL`]. The assembly below knows the offsets.
#[repr(C, align(64))]
struct Control {
    registers: [u64; 16],
    flags: u64,      // 128
    target: u64,     // 136
    host_stack: u64, // 144
    /// 0: SSE, 1: AVX, 2: AVX-512.
    level: u64, // 152
    signal: u64,     // 160
    code: u64,       // 168
    rip: u64,        // 176
    steps: u64,      // 184
    x87: [u8; 512],  // 192
    vectors: [u8; 2048], // 704
    masks: [u64; 8], // 2752
    small_stack: [u64; 64], // 2816, its end at 3328
}

const _: () = {
    assert!(std::mem::offset_of!(Control, x87) == 192);
    assert!(std::mem::offset_of!(Control, vectors) == 704);
    assert!(std::mem::offset_of!(Control, masks) == 2752);
    assert!(std::mem::offset_of!(Control, small_stack) == 2816);
};

global_asm!(
    r"
    .globl truecount_case_enter
    truecount_case_enter:
        push rbx
        push rbp
        push r12
        push r13
        push r14
        push r15
        mov rax, {control}
        mov [rax + 144], rsp
        fxrstor [rax + 192]
        cmp qword ptr [rax + 152], 1
        jb 3f
        je 2f
        .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        vmovups zmm\n, [rax + 704 + \n * 64]
        .endr
        .irp n,0,1,2,3,4,5,6,7
        kmovq k\n, [rax + 2752 + \n * 8]
        .endr
        jmp 3f
    2:
        .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovups ymm\n, [rax + 704 + \n * 64]
        .endr
    3:
        mov rcx, [rax + 8]
        mov rdx, [rax + 16]
        mov rbx, [rax + 24]
        mov rbp, [rax + 40]
        mov rsi, [rax + 48]
        mov rdi, [rax + 56]
        mov r8, [rax + 64]
        mov r9, [rax + 72]
        mov r10, [rax + 80]
        mov r11, [rax + 88]
        mov r12, [rax + 96]
        mov r13, [rax + 104]
        mov r14, [rax + 112]
        mov r15, [rax + 120]
        mov rsp, [rax + 32]
        push qword ptr [rax + 136]
        push qword ptr [rax + 128]
        mov rax, [rax]
        popfq
        ret

    .globl truecount_case_leave
    truecount_case_leave:
        movabs [{control}], rax
        mov rax, {control}
        mov [rax + 8], rcx
        mov [rax + 16], rdx
        mov [rax + 24], rbx
        mov [rax + 32], rsp
        mov [rax + 40], rbp
        mov [rax + 48], rsi
        mov [rax + 56], rdi
        mov [rax + 64], r8
        mov [rax + 72], r9
        mov [rax + 80], r10
        mov [rax + 88], r11
        mov [rax + 96], r12
        mov [rax + 104], r13
        mov [rax + 112], r14
        mov [rax + 120], r15
        lea rsp, [rax + 3328]
        pushfq
        and qword ptr [rsp], ~0x100
        pop qword ptr [rax + 128]
        push qword ptr [rax + 128]
        popfq
    .globl truecount_case_abandon
    truecount_case_abandon:
        mov rax, {control}
        cld
        fxsave [rax + 192]
        cmp qword ptr [rax + 152], 1
        jb 3f
        je 2f
        .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        vmovups [rax + 704 + \n * 64], zmm\n
        .endr
        .irp n,0,1,2,3,4,5,6,7
        kmovq [rax + 2752 + \n * 8], k\n
        .endr
        jmp 3f
    2:
        .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovups [rax + 704 + \n * 64], ymm\n
        .endr
    3:
        fninit
        mov dword ptr [rax + 3320], 0x1f80
        ldmxcsr [rax + 3320]
        mov rsp, [rax + 144]
        pop r15
        pop r14
        pop r13
        pop r12
        pop rbp
        pop rbx
        ret
    ",
    control = const CONTROL,
);

unsafe extern "C" {
    fn truecount_case_enter();
    fn truecount_case_leave();
    fn truecount_case_abandon();
}

static TICKS: AtomicU64 = AtomicU64::new(0);

/// Counts; nothing else may differ between a run with timer signals and one without.
extern "C" fn tick(_: libc::c_int) {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

fn control() -> *mut Control {
    std::ptr::with_exposed_provenance_mut(CONTROL as usize)
}

/// Greg numbers of a `ucontext_t` in the order of the registers' encoding.
const GREGS: [libc::c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Ends the case: keeps the registers of the frame and continues behind the case. A single step only counts.
extern "C" fn fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    const TRAP: u64 = 0x100;
    // SAFETY: the kernel's arguments; the case's process has one thread that runs cases.
    unsafe {
        let gregs = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let control = &mut *control();
        let rip = gregs[libc::REG_RIP as usize] as u64;
        if signal == libc::SIGTRAP && (*info).si_code == libc::TRAP_TRACE {
            // A repeated string instruction stops once a repetition and counts once.
            if (CODE_BASE..SCRATCH).contains(&control.rip) && control.rip != rip {
                control.steps += 1;
            }
            control.rip = rip;
            if !(CODE_BASE..SCRATCH).contains(&rip) && control.steps > 0 {
                gregs[libc::REG_EFL as usize] &= !(TRAP as i64);
            }
            return;
        }
        for (register, number) in control.registers.iter_mut().zip(GREGS) {
            *register = gregs[number as usize] as u64;
        }
        // Arithmetic flags that the faulting instruction would have replaced need not be right in the frame.
        control.flags = gregs[libc::REG_EFL as usize] as u64 & !(TRAP | 0x8d5);
        control.signal = signal as u64;
        control.code = (*info).si_code as u32 as u64;
        control.rip = rip;
        gregs[libc::REG_RIP as usize] = truecount_case_abandon as *const () as i64;
        gregs[libc::REG_EFL as usize] &= !(TRAP as i64);
    }
}

fn map(address: u64, length: usize, protection: libc::c_int) {
    // SAFETY: a new mapping at an address that must be free.
    let got = unsafe {
        libc::mmap(
            std::ptr::with_exposed_provenance_mut(address as usize),
            length,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    assert_eq!(got.addr() as u64, address, "the address is taken");
}

fn install(signal: libc::c_int, handler: usize, flags: libc::c_int) {
    // SAFETY: a zeroed sigaction is valid; the handler has the form that the flags ask for.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

/// Memory areas, handlers, and a stack for them.
fn prepare(code: usize) {
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    map(CONTROL, 8192, read_write);
    map(
        WAY_OUT,
        code.next_multiple_of(4096) + 4096,
        read_write | libc::PROT_EXEC,
    );
    map(SCRATCH, AREA, read_write);
    map(STACK, AREA, read_write);
    const SIGNAL_STACK: usize = 1 << 18;
    let memory = Box::leak(vec![0_u8; SIGNAL_STACK].into_boxed_slice());
    let stack = libc::stack_t {
        ss_sp: memory.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: SIGNAL_STACK,
    };
    // SAFETY: the stack lives as long as the process; the pointer to the way out is in the new mapping.
    unsafe {
        assert_eq!(libc::sigaltstack(&stack, std::ptr::null_mut()), 0);
        std::ptr::with_exposed_provenance_mut::<u64>(WAY_OUT as usize)
            .write(truecount_case_leave as *const () as u64);
    }
    for signal in [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGTRAP,
    ] {
        install(
            signal,
            fault as *const () as usize,
            libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER,
        );
    }
}

/// SIGALRM every millisecond.
fn timer() {
    install(
        libc::SIGALRM,
        tick as *const () as usize,
        libc::SA_ONSTACK | libc::SA_RESTART,
    );
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: 1000,
    };
    let setting = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    assert_eq!(
        // SAFETY: a plain system call with a live pointer.
        unsafe { libc::setitimer(libc::ITIMER_REAL, &setting, std::ptr::null_mut()) },
        0
    );
}

/// FNV-1a by words; the same work whatever the bytes.
fn hash(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        (hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29)
    })
}

fn area<'a>(address: u64) -> &'a mut [u64; AREA / 8] {
    // SAFETY: one of the two areas that `prepare` mapped; only this thread uses them, between cases.
    unsafe { &mut *std::ptr::with_exposed_provenance_mut(address as usize) }
}

/// How to run the cases.
#[derive(Clone, Copy, Default)]
pub struct How {
    /// With a timer signal every millisecond.
    pub ticking: bool,
    /// With the trap flag, counting instructions.
    pub stepping: bool,
    /// With the engine's counter read before and behind each case.
    pub counting: bool,
    /// Every case at the place of the first one: code that changes.
    pub in_place: bool,
}

/// Executes cases and gives an outcome and a number of steps for each.
pub fn run(cases: &[Case], how: How) -> Vec<u64> {
    prepare(cases.len() * super::case::CODE);
    let level = if is_x86_feature_detected!("avx512bw") {
        2
    } else {
        u64::from(is_x86_feature_detected!("avx"))
    };
    let place = |number| {
        std::ptr::with_exposed_provenance_mut::<u8>(Case::address(if how.in_place {
            0
        } else {
            number
        }) as usize)
    };
    let put = |number: usize, case: &Case| {
        // SAFETY: inside the code area.
        unsafe { place(number).copy_from_nonoverlapping(case.code.as_ptr(), case.code.len()) };
    };
    if !how.in_place {
        cases
            .iter()
            .enumerate()
            .for_each(|(number, case)| put(number, case));
    }
    if how.ticking {
        timer();
    }
    let counter = how
        .counting
        .then(|| truecount::Counter::<truecount::Fence>::open("instructions:u").unwrap());
    let mut words = Vec::with_capacity(cases.len() * (WORDS + 1));
    for (number, case) in cases.iter().enumerate() {
        if how.in_place {
            put(number, case);
        }
        for address in [SCRATCH, STACK] {
            let mut value = case.registers[8] | 1;
            area(address).fill_with(|| {
                value = value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                value
            });
        }
        // SAFETY: `prepare` mapped it; assembly and handler use it while nobody holds this reference.
        let control = unsafe { &mut *control() };
        control.registers = case.registers;
        control.registers[4] = STACK + MIDDLE;
        control.flags = case.flags | if how.stepping { 0x100 } else { 0 };
        control.target = place(number).expose_provenance() as u64;
        (
            control.level,
            control.signal,
            control.code,
            control.rip,
            control.steps,
        ) = (level, 0, 0, 0, 0);
        control.x87 = [0; 512];
        control.x87[..2].copy_from_slice(&0x37f_u16.to_le_bytes());
        control.x87[24..28].copy_from_slice(&0x1f80_u32.to_le_bytes());
        let mut value = case.registers[9];
        control.vectors.fill_with(|| {
            value = value.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
            (value >> 56) as u8
        });
        control.masks = [value; 8];
        let before = counter.as_ref().map(truecount::Counter::read);
        // SAFETY: the case's code leaves by `leave` or by a signal; both restore what the ABI preserves.
        unsafe { truecount_case_enter() };
        if let (Some(counter), Some(before)) = (&counter, before) {
            control.steps = counter.since(before);
        }
        words.extend(control.registers);
        // A fault's frame has the resume flag in it.
        words.extend([control.flags & !0x1_0000, control.signal, control.code]);
        let start = place(number).addr() as u64;
        words.push(if control.signal == 0 {
            0
        } else {
            control.rip.wrapping_sub(start)
        });
        let bytes = |bytes: &[u8]| {
            hash(
                bytes
                    .chunks_exact(8)
                    .map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes"))),
            )
        };
        let vectors = bytes(&control.vectors) ^ hash(control.masks.iter().copied());
        let legacy = bytes(&control.x87[160..416]);
        words.push(if level == 0 { legacy } else { vectors });
        // Without the addresses of the last instruction and operand: where they are stored at all, they are
        // those of the code that really ran.
        control.x87[6..8].fill(0);
        control.x87[8..24].fill(0);
        words.push(bytes(&control.x87[..160]));
        words.push(hash(area(SCRATCH).iter().copied()));
        words.push(hash(area(STACK).iter().copied()));
        words.push(control.steps);
    }
    words
}
