//! Which feature of the CPU an instruction needs beyond the first x86-64 CPUs, as `cpuid` tells of it. `core` only.
//!
//! Facts: Intel SDM volume 2 (opcodes, "CPUID feature flag"), AMD64 APM volume 3 (`LZCNT`, `RDTSCP`, XOP).

use super::decode::{Insn, Kind, prefix};

/// A feature: its name, leaf and subleaf of `cpuid`, register (EAX to EDX) and bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// As manuals call it.
    pub name: &'static str,
    /// Leaf of `cpuid`.
    pub leaf: u32,
    /// Its subleaf.
    pub subleaf: u32,
    /// Register: 0 to 3.
    pub register: usize,
    /// Bit in it.
    pub bit: u32,
}

const fn feature(name: &'static str, leaf: u32, register: usize, bit: u32) -> Feature {
    Feature {
        name,
        leaf,
        subleaf: 0,
        register,
        bit,
    }
}

const EXTENDED: u32 = 0x8000_0001;
const SSSE3: Feature = feature("SSSE3", 1, 2, 9);
const SSE4_1: Feature = feature("SSE4.1", 1, 2, 19);
const SSE4_2: Feature = feature("SSE4.2", 1, 2, 20);
const MOVBE: Feature = feature("MOVBE", 1, 2, 22);
const POPCNT: Feature = feature("POPCNT", 1, 2, 23);
const AES: Feature = feature("AES", 1, 2, 25);
const PCLMULQDQ: Feature = feature("PCLMULQDQ", 1, 2, 1);
const FMA: Feature = feature("FMA", 1, 2, 12);
const AVX: Feature = feature("AVX", 1, 2, 28);
const F16C: Feature = feature("F16C", 1, 2, 29);
const RDRAND: Feature = feature("RDRAND", 1, 2, 30);
const FSGSBASE: Feature = feature("FSGSBASE", 7, 1, 0);
const BMI1: Feature = feature("BMI1", 7, 1, 3);
const BMI2: Feature = feature("BMI2", 7, 1, 8);
const RTM: Feature = feature("RTM", 7, 1, 11);
const AVX512: Feature = feature("AVX-512", 7, 1, 16);
const RDSEED: Feature = feature("RDSEED", 7, 1, 18);
const ADX: Feature = feature("ADX", 7, 1, 19);
const SHA: Feature = feature("SHA", 7, 1, 29);
const GFNI: Feature = feature("GFNI", 7, 2, 8);
const RDPID: Feature = feature("RDPID", 7, 2, 22);
const MOVDIR: Feature = feature("MOVDIRI", 7, 2, 27);
const LZCNT: Feature = feature("LZCNT", EXTENDED, 2, 5);
const XOP: Feature = feature("XOP", EXTENDED, 2, 11);
const RDTSCP: Feature = feature("RDTSCP", EXTENDED, 3, 27);

/// The feature that an instruction needs; `None`: every x86-64 CPU has it, or it does nothing elsewhere.
pub fn needed(insn: &Insn) -> Option<Feature> {
    if insn.kind == Kind::Xbegin {
        return Some(RTM);
    }
    let registers = insn.modrm >= 0xc0;
    Some(match (insn.space, insn.opcode) {
        (1, 0x01) if insn.modrm == 0xf9 => RDTSCP,
        (1, 0xae) if registers && insn.has(prefix::REP) && insn.modrm < 0xe0 => FSGSBASE,
        (1, 0xb8) if insn.has(prefix::REP) => POPCNT,
        (1, 0xbd) if insn.has(prefix::REP) => LZCNT,
        (1, 0xc7) if registers && insn.modrm >> 3 & 7 == 6 => RDRAND,
        (1, 0xc7) if registers && insn.modrm >> 3 & 7 == 7 => match insn.has(prefix::REP) {
            true => RDPID,
            false => RDSEED,
        },
        (2, 0x00..=0x0b | 0x1c..=0x1e) | (3, 0x0f) => SSSE3,
        (2, 0x37) | (3, 0x60..=0x63) => SSE4_2,
        (2, 0xf0 | 0xf1) if insn.has(prefix::REPNE) => SSE4_2,
        (2, 0xf0 | 0xf1) => MOVBE,
        (2, 0x10..=0x41) | (3, 0x08..=0x42) => SSE4_1,
        (2, 0xc8..=0xcd) | (3, 0xcc) => SHA,
        (2 | 5, 0xcf) | (3 | 6, 0xce | 0xcf) => GFNI,
        (2 | 5, 0xdb..=0xdf) | (3 | 6, 0xdf) => AES,
        (3 | 6, 0x44) => PCLMULQDQ,
        (2, 0xf6) if insn.has(prefix::REP | prefix::OPSIZE) => ADX,
        (2, 0xf8 | 0xf9) => MOVDIR,
        (5, 0x13) | (6, 0x1d) => F16C,
        (5, 0x96..=0x9f | 0xa6..=0xaf | 0xb6..=0xbf) => FMA,
        (5, 0xf2 | 0xf3) => BMI1,
        (5, 0xf5..=0xf7) | (6, 0xf0) => BMI2,
        (4..=6, _) => AVX,
        (7..=11, _) => AVX512,
        (12..=14, _) => XOP,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xlate::decode::decode;

    #[test]
    fn instructions_name_what_they_need() {
        let of = |bytes: &[u8]| needed(&decode(bytes).unwrap()).map(|feature| feature.name);
        let cases: [(&[u8], Option<&str>); 12] = [
            (&[0x48, 0x89, 0xc8], None),                              // mov rax, rcx
            (&[0x66, 0x0f, 0xef, 0xc0], None),                        // pxor xmm0, xmm0
            (&[0x66, 0x0f, 0x38, 0x00, 0xc1], Some("SSSE3")),         // pshufb
            (&[0x66, 0x0f, 0x38, 0x17, 0xc1], Some("SSE4.1")),        // ptest
            (&[0xf3, 0x48, 0x0f, 0xb8, 0xc1], Some("POPCNT")),        // popcnt
            (&[0xf3, 0x0f, 0xbc, 0xc1], None),                        // tzcnt: bsf elsewhere
            (&[0x66, 0x0f, 0x38, 0xdc, 0xc1], Some("AES")),           // aesenc
            (&[0xc5, 0xf8, 0x77], Some("AVX")),                       // vzeroupper
            (&[0xc4, 0xe2, 0xf9, 0xf7, 0xc1], Some("BMI2")),          // shlx
            (&[0xc4, 0xe2, 0x79, 0xb8, 0xc1], Some("FMA")),           // vfmadd231ps
            (&[0x62, 0xf1, 0x7c, 0x48, 0x28, 0xc1], Some("AVX-512")), // vmovaps zmm0, zmm1
            (&[0x0f, 0xc7, 0xf0], Some("RDRAND")),
        ];
        for (bytes, name) in cases {
            assert_eq!(of(bytes), name, "{bytes:02x?}");
        }
    }
}
