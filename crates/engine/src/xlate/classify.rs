//! Control flow of a decoded instruction, and the flag and memory effects that
//! hang on its operands, which the table cannot know.
//!
//! Facts: Intel SDM volume 2, appendix A (opcode maps) and the instructions'
//! "flags affected"; AMD APM volume 3. Checked against iced-x86 in
//! `tests/decode.rs`. Uses `core` only.

use super::insn::{Insn, Kind, flag, prefix};

/// Control flow, and the flag effects that hang on operands.
pub(super) fn classify(insn: &mut Insn, bytes: &[u8]) {
    let reg = insn.modrm >> 3 & 7;
    let written = |p: u16, flags: u8| (p & !0x0fc0) | u16::from(flags) << 6;
    if insn.space == 0 {
        match insn.opcode {
            0x70..=0x7f => insn.kind = Kind::Jcc,
            0xe0..=0xe3 => insn.kind = Kind::Loop,
            0xe8 => insn.kind = Kind::Call,
            0xe9 | 0xeb => insn.kind = Kind::Jmp,
            0xc2 | 0xc3 => insn.kind = Kind::Ret,
            0xff if reg == 2 => insn.kind = Kind::CallInd,
            0xff if reg == 4 => insn.kind = Kind::JmpInd,
            0xff if reg == 3 || reg == 5 => insn.kind = Kind::Unsupported,
            0xca | 0xcb | 0xcf => insn.kind = Kind::FarReturn,
            0xcd if bytes[usize::from(insn.imm_at)] == 0x80 => insn.kind = Kind::Interrupt,
            0xcc | 0xcd | 0xf1 | 0xf4 => insn.kind = Kind::Trap,
            0x8e if reg == 5 => insn.kind = Kind::LoadsGs,
            0xc7 if insn.modrm == 0xf8 => insn.kind = Kind::Xbegin,
            // Shifts by an immediate: nothing is written when the masked count is 0.
            0xc0 | 0xc1 => {
                let mask = if insn.rex & 8 != 0 { 63 } else { 31 };
                let count = bytes[usize::from(insn.imm_at)] & mask;
                let all = flag::S | flag::Z | flag::P | flag::C;
                let flags = match reg {
                    _ if count == 0 => 0,
                    0 | 1 => flag::C,
                    2 | 3 => 0,
                    _ => all,
                };
                insn.properties = written(insn.properties, flags);
            }
            0xd2 | 0xd3 => insn.properties = written(insn.properties, 0),
            // Repeated compares write nothing when the count is 0.
            0xa6 | 0xa7 | 0xae | 0xaf if insn.has(prefix::REP | prefix::REPNE) => {
                insn.properties = written(insn.properties, 0);
            }
            // x87: conditional moves read, (u)comi(p) writes.
            0xda | 0xdb if insn.modrm >= 0xc0 && reg < 4 => {
                insn.properties =
                    written(insn.properties, 0) | u16::from(flag::Z | flag::P | flag::C);
            }
            0xd8..=0xdf if insn.modrm >= 0xc0 => {
                insn.properties = written(insn.properties, 0) & !0x3f;
            }
            _ => {}
        }
    } else if insn.space == 1 {
        match insn.opcode {
            0x05 => insn.kind = Kind::Syscall,
            0x0b | 0xb9 | 0xff => insn.kind = Kind::Trap,
            // sysret and sysexit are the kernel's; sysenter is a system call on some CPUs.
            0x07 | 0x35 => insn.kind = Kind::Trap,
            0x34 => insn.kind = Kind::Unsupported,
            0x31 => insn.kind = Kind::Rdtsc,
            0x33 => insn.kind = Kind::Rdpmc,
            0xa2 => insn.kind = Kind::Asks, // cpuid
            // rdrand, rdseed, rdpid
            0xc7 if insn.modrm >= 0xc0 && reg >= 6 => insn.kind = Kind::Asks,
            // xsavec; xsave, xrstor, xsaveopt
            0xc7 if reg == 4 && insn.modrm < 0xc0 => insn.kind = Kind::Xsave,
            0xae if (4..=6).contains(&reg)
                && insn.modrm < 0xc0
                && !insn.has(prefix::OPSIZE | prefix::REP | prefix::REPNE) =>
            {
                insn.kind = Kind::Xsave;
            }
            0x80..=0x8f => insn.kind = Kind::Jcc,
            // mul-like and double shifts: only what is defined, decided by the table;
            // shld/shrd by a count of 0 write nothing.
            0xa4 | 0xa5 | 0xac | 0xad => insn.properties = written(insn.properties, 0),
            0xa9 => insn.kind = Kind::LoadsGs,
            // lgs; how long an offset it reads with REX.W depends on the vendor
            0xb5 if insn.modrm < 0xc0 && insn.rex & 8 == 0 => insn.kind = Kind::LoadsGs,
            0xb5 => insn.kind = Kind::Unsupported,
            // rdgsbase, wrgsbase
            0xae if insn.modrm >= 0xc0 && insn.has(prefix::REP) && (reg == 1 || reg == 3) => {
                insn.kind = Kind::GsBase;
            }
            0x01 if insn.modrm == 0xf8 => insn.kind = Kind::Trap, // swapgs: the kernel's
            // The table knows ModRM.reg only; here ModRM.rm chooses too.
            0x01 if insn.modrm >= 0xc0 => {
                if insn.modrm == 0xf9 {
                    insn.kind = Kind::Rdtsc;
                } else if insn.modrm == 0xd0 {
                    insn.kind = Kind::Asks; // xgetbv
                }
                insn.properties = written(insn.properties, 0) | u16::from(flag::ALL);
            }
            0x0f if insn.modrm < 0xc0 => insn.properties = 0x5000, // 3DNow! with a load
            _ => {}
        }
    } else if insn.modrm < 0xc0 {
        // Encodings that the table's generator cannot form: vector indexes
        // (gather, scatter), rows of tiles, complex FP16 (registers must differ).
        match (insn.space, insn.opcode) {
            (5, 0x4b) => {
                // tilestored has F3
                let stores = bytes[usize::from(insn.opcode_at) - 1] & 3 == 2;
                insn.properties = if stores { 0x2000 } else { 0x1000 };
            }
            (5 | 8, 0x90..=0x93) | (11, 0x56 | 0x57 | 0xd6 | 0xd7) => insn.properties = 0x5000,
            (8, 0xa0..=0xa3) => insn.properties = 0x6000,
            _ => {}
        }
    }
}
