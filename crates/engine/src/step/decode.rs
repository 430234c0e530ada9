//! The one question to an instruction's bytes: does it step on the spot without retiring?
//!
//! A single step over a repeated string instruction traps after each iteration with the
//! instruction pointer unmoved (Intel SDM vol. 1, 7.3.9.3); only the last one retires. Any other
//! instruction that leaves the pointer where it was has retired: a jump to itself.

/// Whether `bytes` start with a string instruction (`movs`, `cmps`, `stos`, `lods`, `scas`, `ins`,
/// `outs`) that has a repeat prefix.
pub(super) fn is_repeated_string(bytes: &[u8]) -> bool {
    let mut repeated = false;
    for &byte in bytes.iter().take(15) {
        match byte {
            0xf2 | 0xf3 => repeated = true,
            // Other legacy prefixes, and REX.
            0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0x40..=0x4f => {}
            opcode => return repeated && matches!(opcode, 0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::is_repeated_string;

    #[test]
    fn string_instructions_with_a_repeat_prefix() {
        assert!(is_repeated_string(&[0xf3, 0xa4])); // rep movsb
        assert!(is_repeated_string(&[0xf3, 0x48, 0xab])); // rep stosq
        assert!(is_repeated_string(&[0x66, 0xf2, 0xaf])); // repne scasw
        assert!(is_repeated_string(&[0xf3, 0xa6])); // repe cmpsb
        assert!(is_repeated_string(&[0x67, 0xf3, 0x48, 0xad])); // rep lodsq, 32-bit addresses
    }

    #[test]
    fn others() {
        assert!(!is_repeated_string(&[0xa4])); // movsb, once
        assert!(!is_repeated_string(&[0xeb, 0xfe])); // jmp .
        assert!(!is_repeated_string(&[0xf3, 0xc3])); // rep ret
        assert!(!is_repeated_string(&[0xf3, 0x0f, 0x10, 0x00])); // movss
        assert!(!is_repeated_string(&[0xf2, 0xeb, 0xfe])); // bnd jmp .
        assert!(!is_repeated_string(&[0xf3, 0x90])); // pause
        assert!(!is_repeated_string(&[0xf3; 20]));
        assert!(!is_repeated_string(&[]));
    }
}
