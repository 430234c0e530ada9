//! A tracer that steps through a program and asks iced-x86 what each instruction references, with the registers that
//! the kernel shows.

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Address of the instruction and of the operand, bytes, what for.
type Reference = (u64, u64, u32, char);

fn value(registers: &libc::user_regs_struct, register: Register) -> u64 {
    let r = registers;
    let full = match register.full_register() {
        Register::RAX => r.rax,
        Register::RCX => r.rcx,
        Register::RDX => r.rdx,
        Register::RBX => r.rbx,
        Register::RSP => r.rsp,
        Register::RBP => r.rbp,
        Register::RSI => r.rsi,
        Register::RDI => r.rdi,
        Register::R8 => r.r8,
        Register::R9 => r.r9,
        Register::R10 => r.r10,
        Register::R11 => r.r11,
        Register::R12 => r.r12,
        Register::R13 => r.r13,
        Register::R14 => r.r14,
        Register::R15 => r.r15,
        Register::FS => return r.fs_base,
        Register::GS => return r.gs_base,
        _ => return 0,
    };
    match register.size() {
        1 => full & 0xff,
        2 => full & 0xffff,
        4 => full & 0xffff_ffff,
        _ => full,
    }
}

/// The bit that `bt [m], r` tests lies in another word of the operand's size.
fn bit_offset(instruction: &Instruction, registers: &libc::user_regs_struct, size: u64) -> u64 {
    let name = format!("{:?}", instruction.mnemonic());
    if !matches!(name.as_str(), "Bt" | "Bts" | "Btr" | "Btc") || instruction.immediate8() != 0 {
        return 0;
    }
    let register = instruction.op1_register();
    if register == Register::None {
        return 0;
    }
    let raw = value(registers, register);
    let number = match size {
        2 => i64::from(raw as u16 as i16),
        4 => i64::from(raw as u32 as i32),
        _ => raw as i64,
    };
    (number.div_euclid(8 * size as i64) * size as i64) as u64
}

/// A mask register of AVX-512's, as the kernel shows it.
fn mask(pid: libc::pid_t, register: Register) -> u64 {
    const OPMASKS: u32 = 5;
    const NT_X86_XSTATE: usize = 0x202;
    let mut area = vec![0u8; 16384];
    let mut part = libc::iovec {
        iov_base: area.as_mut_ptr().cast(),
        iov_len: area.len(),
    };
    // SAFETY: the kernel fills what is ours, no more than it is long.
    let got = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, pid, NT_X86_XSTATE, &raw mut part) };
    assert_eq!(got, 0);
    let found = std::arch::x86_64::__cpuid_count(0xd, OPMASKS);
    let at = found.ebx as usize + 8 * (register as usize - Register::K0 as usize);
    u64::from_le_bytes(area[at..at + 8].try_into().unwrap())
}

/// Which elements of an operand a mask chooses, of the instructions that programs here have.
fn chosen(instruction: &Instruction, memory: &iced_x86::UsedMemory, pid: libc::pid_t) -> Vec<u64> {
    let name = format!("{:?}", instruction.mnemonic());
    let by_element = ["Vmovdqu", "Vpcmp", "Vptest", "Vpmin", "Vpsub"];
    assert!(
        by_element.iter().any(|known| name.starts_with(known)),
        "{name}"
    );
    let element = memory.memory_size().element_size() as u64;
    let elements = memory.memory_size().size() as u64 / element;
    let mask = mask(pid, instruction.op_mask());
    let set = (0..elements).filter(|at| mask >> at & 1 != 0);
    set.map(|at| at * element).collect()
}

/// What the instruction that comes next references.
fn references(
    pid: libc::pid_t,
    instruction: &Instruction,
    factory: &mut InstructionInfoFactory,
    registers: &libc::user_regs_struct,
    to: &mut Vec<Reference>,
) {
    let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if repeated && instruction.is_string_instruction() && registers.rcx == 0 {
        return;
    }
    let first = to.len();
    for memory in factory.info(instruction).used_memory() {
        let kind = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => 'r',
            OpAccess::Write | OpAccess::CondWrite => 'w',
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => 'm',
            _ => continue,
        };
        let size = match memory.memory_size().size() {
            0 => instruction.memory_size().size(),
            size => size,
        };
        let of = |register: Register| match register {
            Register::None => 0,
            register => value(registers, register),
        };
        let mut address = memory
            .displacement()
            .wrapping_add(match memory.base() {
                Register::RIP | Register::EIP => 0,
                base => of(base),
            })
            .wrapping_add(of(memory.index()).wrapping_mul(u64::from(memory.scale())));
        if memory.address_size() == iced_x86::CodeSize::Code32 {
            address &= 0xffff_ffff;
        }
        address = address.wrapping_add(bit_offset(instruction, registers, size as u64));
        if matches!(memory.segment(), Register::FS | Register::GS) {
            address = address.wrapping_add(of(memory.segment()));
        }
        if instruction.has_op_mask() {
            let element = memory.memory_size().element_size() as u32;
            for away in chosen(instruction, memory, pid) {
                to.push((instruction.ip(), address + away, element, kind));
            }
            continue;
        }
        to.push((instruction.ip(), address, size as u32, kind));
    }
    to[first..].sort_unstable();
}

/// Steps through a program with one thread: its references; `None` (and a printed reason) where that is not permitted.
pub fn trace(mut command: Command) -> Option<Vec<Reference>> {
    // SAFETY: a system call without memory arguments.
    unsafe {
        command.pre_exec(|| {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            truecount_testing::skip("step", "ptrace is not permitted");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let pid = child.id() as libc::pid_t;
    let mut all = Vec::new();
    let mut repeated: Option<(u64, usize)> = None;
    let mut factory = InstructionInfoFactory::new();
    loop {
        let mut status = 0;
        // SAFETY: our own child and our own word.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            return Some(all);
        }
        assert_eq!(libc::WSTOPSIG(status), libc::SIGTRAP);
        // SAFETY: a structure of integers; the kernel fills it.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0, &raw mut registers) };
        let mut code = [0u8; 24];
        for (at, word) in code.chunks_exact_mut(8).enumerate() {
            let address = registers.rip + 8 * at as u64;
            // SAFETY: asks the kernel for a word of the child's.
            let value = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, pid, address, 0) };
            word.copy_from_slice(&value.to_ne_bytes());
        }
        let instruction =
            Decoder::with_ip(64, &code[..15], registers.rip, DecoderOptions::NONE).decode();
        // A repeated instruction is one step an element: all of them are sorted together.
        let start = match repeated {
            Some((pc, start)) if pc == registers.rip => start,
            _ => all.len(),
        };
        references(pid, &instruction, &mut factory, &registers, &mut all);
        all[start..].sort_unstable();
        let again = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        repeated = again.then_some((registers.rip, start));
        // SAFETY: our own stopped child.
        unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, pid, 0, 0) };
    }
}
