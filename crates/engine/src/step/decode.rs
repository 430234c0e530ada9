//! The questions that a single-stepper has to an instruction's bytes.
//!
//! Intel SDM vol. 1, 7.3.9.3: a single step over a repeated string instruction traps after each
//! iteration with the instruction pointer unmoved; only the last one retires. A jump to itself that
//! leaves the pointer where it was has retired. No other instruction has: a trap may come between
//! two elements of a gather that met a page fault (vol. 2, `vpgatherdd`), and a hypervisor may report a
//! step that was none. Vol. 3, 6.8.3: a load of `ss` holds the trap back until the instruction after it.
//! `pushf` (vol. 2) stores the trap flag.

/// What is special about an instruction that is stepped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing.
    Plain,
    /// A string instruction with a repeat prefix: `movs`, `cmps`, `stos`, `lods`, `scas`, `ins`, `outs`.
    RepeatedString,
    /// `pushf`: it stores the trap flag.
    PushFlags,
    /// `mov ss, …` of this length: no trap follows it.
    LoadStack(u64),
    /// `int3` or `int 3` of this length: a trap, reported after it retired.
    Trap(u64),
    /// `syscall`.
    SystemCall,
}

/// A legacy prefix, or REX.
fn is_prefix(byte: u8) -> bool {
    matches!(byte, 0xf2 | 0xf3 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0x40..=0x4f)
}

/// Classifies the 64-bit instruction at the start of `bytes`.
pub(super) fn classify(bytes: &[u8]) -> Kind {
    let mut repeated = false;
    let mut prefixes = 0;
    let mut rest = bytes.iter().take(15).copied();
    let opcode = loop {
        match rest.next() {
            Some(byte) if is_prefix(byte) => repeated |= matches!(byte, 0xf2 | 0xf3),
            Some(opcode) => break opcode,
            None => return Kind::Plain,
        }
        prefixes += 1;
    };
    match opcode {
        0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf if repeated => Kind::RepeatedString,
        0x9c => Kind::PushFlags,
        0x8e => match rest.next() {
            Some(modrm) if modrm >> 3 & 7 == 2 => {
                Kind::LoadStack(prefixes + 2 + address_length(modrm, rest.next()))
            }
            _ => Kind::Plain,
        },
        0x0f if rest.next() == Some(5) => Kind::SystemCall,
        0xcc => Kind::Trap(prefixes + 1),
        0xcd if rest.next() == Some(3) => Kind::Trap(prefixes + 2),
        _ => Kind::Plain,
    }
}

/// Whether the 64-bit instruction at the start of `bytes` can go on at itself: a branch, call, return, system call. What
/// cannot be read is taken for one.
pub(super) fn may_stay(bytes: &[u8]) -> bool {
    let mut rest = bytes
        .iter()
        .take(15)
        .copied()
        .skip_while(|&byte| is_prefix(byte));
    match rest.next() {
        // Jcc, loop, jcxz, call, jmp, ret, far ret, int, iret.
        Some(0x70..=0x7f | 0xe0..=0xe3 | 0xe8..=0xeb | 0xc2 | 0xc3 | 0xca..=0xcf) | None => true,
        Some(0xff) => rest
            .next()
            .is_none_or(|modrm| (2..=5).contains(&(modrm >> 3 & 7))),
        // xbegin, whose abort may lead there.
        Some(0xc7) => rest.next().is_none_or(|modrm| modrm == 0xf8),
        // syscall, sysret, sysenter, sysexit, Jcc; uiret is in 0f 01. REX2 (jmpabs).
        Some(0x0f) => rest
            .next()
            .is_none_or(|b| matches!(b, 1 | 5 | 7 | 0x34 | 0x35 | 0x80..=0x8f)),
        Some(0xd5) => true,
        Some(_) => false,
    }
}

/// Bytes of SIB and displacement that follow a ModRM byte (SDM vol. 2, table 2-2 and 2-3).
fn address_length(modrm: u8, sib: Option<u8>) -> u64 {
    let (mode, rm) = (modrm >> 6, modrm & 7);
    let has_sib = mode != 3 && rm == 4;
    let displacement = match (mode, rm) {
        (0, 5) => 4,
        (0, 4) if sib.is_some_and(|s| s & 7 == 5) => 4,
        (1, _) => 1,
        (2, _) => 4,
        _ => 0,
    };
    u64::from(has_sib) + displacement
}

#[cfg(test)]
mod tests {
    use super::{Kind, classify, may_stay};

    #[test]
    fn only_what_branches_can_stay_where_it_is() {
        for code in [
            &[0xeb, 0xfe][..],                     // jmp .
            &[0xf2, 0xeb, 0xfd],                   // bnd jmp .
            &[0x74, 0xfe],                         // je .
            &[0x0f, 0x84, 0xfa, 0xff, 0xff, 0xff], // je .
            &[0xe2, 0xfe],                         // loop .
            &[0xe8, 0xfb, 0xff, 0xff, 0xff],       // call .
            &[0xff, 0xe0],                         // jmp rax
            &[0x41, 0xff, 0x12],                   // call [r10]
            &[0xc3],                               // ret
            &[0x0f, 0x05],                         // syscall
            &[0xcd, 0x80],                         // int 0x80
            &[0xc7, 0xf8, 0xfa, 0xff, 0xff, 0xff], // xbegin .
            &[],
        ] {
            assert!(may_stay(code), "{code:x?}");
        }
        for code in [
            &[0x48, 0x89, 0x07][..],                     // mov [rdi], rax
            &[0xff, 0x00],                               // inc dword [rax]
            &[0xff, 0x30],                               // push [rax]
            &[0xc7, 0x00, 0, 0, 0, 0],                   // mov dword [rax], 0
            &[0x0f, 0xb6, 0x07],                         // movzx eax, byte [rdi]
            &[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x8f],       // vpgatherdd
            &[0x62, 0xf2, 0x7d, 0x49, 0x90, 0x04, 0x8f], // vpgatherdd zmm
            &[0xf3, 0xa4],                               // rep movsb, which is looked at before
        ] {
            assert!(!may_stay(code), "{code:x?}");
        }
    }

    #[test]
    fn string_instructions_with_a_repeat_prefix() {
        for code in [
            &[0xf3, 0xa4][..],         // rep movsb
            &[0xf3, 0x48, 0xab],       // rep stosq
            &[0x66, 0xf2, 0xaf],       // repne scasw
            &[0xf3, 0xa6],             // repe cmpsb
            &[0x67, 0xf3, 0x48, 0xad], // rep lodsq, 32-bit addresses
        ] {
            assert_eq!(classify(code), Kind::RepeatedString, "{code:x?}");
        }
    }

    #[test]
    fn system_calls() {
        assert_eq!(classify(&[0x0f, 0x05]), Kind::SystemCall);
        assert_eq!(classify(&[0x0f, 0x0b]), Kind::Plain);
        assert_eq!(classify(&[0x0f]), Kind::Plain);
    }

    #[test]
    fn plain_ones() {
        for code in [
            &[0xa4][..],               // movsb, once
            &[0xeb, 0xfe],             // jmp .
            &[0xf3, 0xc3],             // rep ret
            &[0xf3, 0x0f, 0x10, 0x00], // movss
            &[0xf2, 0xeb, 0xfe],       // bnd jmp .
            &[0xf3, 0x90],             // pause
            &[0x8e, 0xd8],             // mov ds, eax
            &[0xcd, 0x80],             // int 0x80
            &[0xf3; 20],
            &[],
        ] {
            assert_eq!(classify(code), Kind::Plain, "{code:x?}");
        }
    }

    #[test]
    fn flags_stack_loads_and_traps() {
        assert_eq!(classify(&[0x9c]), Kind::PushFlags);
        assert_eq!(classify(&[0x66, 0x9c]), Kind::PushFlags);
        assert_eq!(classify(&[0x8e, 0xd0]), Kind::LoadStack(2)); // mov ss, eax
        assert_eq!(classify(&[0x41, 0x8e, 0xd7]), Kind::LoadStack(3)); // mov ss, r15d
        assert_eq!(classify(&[0x8e, 0x14, 0x24]), Kind::LoadStack(3)); // mov ss, [rsp]
        assert_eq!(classify(&[0x8e, 0x54, 0x24, 8]), Kind::LoadStack(4)); // mov ss, [rsp+8]
        assert_eq!(classify(&[0x8e, 0x15, 0, 0, 0, 0]), Kind::LoadStack(6)); // mov ss, [rip]
        assert_eq!(
            classify(&[0x8e, 0x14, 0x25, 0, 0, 0, 0]),
            Kind::LoadStack(7)
        );
        assert_eq!(classify(&[0xcc]), Kind::Trap(1));
        assert_eq!(classify(&[0xcd, 3]), Kind::Trap(2));
    }
}
