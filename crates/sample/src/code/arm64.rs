//! AArch64: the text by yaxpeax-arm, the kinds of branches from their encodings (Arm Architecture Reference Manual
//! DDI 0487, C4.1, "Branches, Exception Generating and System instructions").

use std::fmt::Write as _;

use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::InstDecoder;

use super::{BlockCode, Instruction};

/// See [`super::Isa::decode`].
pub(super) fn decode(bytes: &[u8], start: u64, end: u64) -> Option<BlockCode> {
    let length = end.checked_sub(start)?;
    if !length.is_multiple_of(4) {
        return None;
    }
    let mut out = BlockCode {
        ends_with: "other",
        ..BlockCode::default()
    };
    for (word, instruction) in words(bytes, start) {
        let (reads, writes) = memory(&instruction.text);
        out.loads += u32::from(reads);
        out.stores += u32::from(writes);
        out.divisions += u32::from(is_division(&instruction.text));
        let at_end = instruction.address == end;
        out.instructions.push(instruction);
        match branch(word) {
            kind if at_end => {
                out.ends_with = kind.unwrap_or("other");
                return Some(out);
            }
            kind => out.inner_branches += u32::from(kind.is_some()),
        }
    }
    None
}

/// See [`super::Isa::listing`].
pub(super) fn listing(bytes: &[u8], start: u64) -> impl Iterator<Item = Instruction> + '_ {
    words(bytes, start).map(|(_, instruction)| instruction)
}

/// All are four bytes long, so what cannot be decoded (data, newer extensions) hides nothing behind it.
fn words(bytes: &[u8], start: u64) -> impl Iterator<Item = (u32, Instruction)> + '_ {
    let decoder = InstDecoder::default();
    bytes
        .chunks_exact(4)
        .zip(0u64..)
        .filter_map(move |(bytes, index)| {
            let word = u32::from_le_bytes(bytes.try_into().ok()?);
            let address = start.checked_add(index.checked_mul(4)?)?;
            let text = match decoder.decode(&mut U8Reader::new(bytes)) {
                Ok(instruction) => absolute(&instruction.to_string(), address),
                Err(_) => format!(".word {word:#010x}"),
            };
            Some((word, Instruction { address, text }))
        })
}

/// Writes `$+0x10`, relative to the instruction, as an address, like in a listing of x86-64.
fn absolute(text: &str, address: u64) -> String {
    let Some((before, offset)) = text.split_once('$') else {
        return text.to_owned();
    };
    let end = offset
        .find(|c: char| !matches!(c, '+' | '-') && !c.is_ascii_alphanumeric())
        .unwrap_or(offset.len());
    let (offset, after) = offset.split_at(end);
    let Some(value) = offset
        .get(1..)
        .and_then(|o| u64::from_str_radix(o.strip_prefix("0x")?, 16).ok())
    else {
        return text.to_owned();
    };
    // ADRP counts from the page.
    let from = if text.starts_with("adrp") {
        address & !0xfff
    } else {
        address
    };
    let target = if offset.starts_with('-') {
        from.wrapping_sub(value)
    } else {
        from.wrapping_add(value)
    };
    let mut out = before.to_owned();
    let _ = write!(out, "{target:#x}{after}");
    out
}

/// What kind of branch it is.
fn branch(word: u32) -> Option<&'static str> {
    // Mask, value, kind: of the fixed bits of each encoding.
    const KINDS: [(u32, u32, &str); 10] = [
        (0xfc00_0000, 0x1400_0000, "jump"),   // B
        (0xfc00_0000, 0x9400_0000, "call"),   // BL
        (0xff00_0000, 0x5400_0000, "jump"),   // B.cond, BC.cond
        (0x7e00_0000, 0x3400_0000, "jump"),   // CBZ, CBNZ
        (0x7e00_0000, 0x3600_0000, "jump"),   // TBZ, TBNZ
        (0xfeff_f000, 0xd61f_0000, "jump"),   // BR, BRAA and the like
        (0xfeff_f000, 0xd63f_0000, "call"),   // BLR, BLRAA and the like
        (0xffff_fc1f, 0xd65f_0000, "return"), // RET
        (0xffff_fbff, 0xd65f_0bff, "return"), // RETAA, RETAB
        (0xffff_f3ff, 0xd69f_03e0, "return"), // ERET, ERETAA, ERETAB
    ];
    KINDS
        .iter()
        .find(|(mask, value, _)| word & mask == *value)
        .map(|(_, _, kind)| *kind)
}

fn mnemonic(text: &str) -> &str {
    text.split([' ', '.']).next().unwrap_or_default()
}

/// Whether it reads and writes memory.
fn memory(text: &str) -> (bool, bool) {
    let name = mnemonic(text);
    let (load, store) = (name.starts_with("ld"), name.starts_with("st"));
    // LSE: `ldadd` and its alias without a result, `stadd`.
    const UPDATES: [&str; 8] = ["add", "clr", "eor", "set", "smax", "smin", "umax", "umin"];
    let updates = (load || store)
        && name
            .get(2..)
            .is_some_and(|rest| UPDATES.iter().any(|u| rest.starts_with(u)));
    let both = updates || name.starts_with("cas") || name.starts_with("swp");
    (load || both, store || both)
}

fn is_division(text: &str) -> bool {
    matches!(mnemonic(text), "sdiv" | "udiv" | "fdiv" | "fsqrt")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    #[test]
    fn instructions_as_other_disassemblers_write_them() {
        // Words and texts from `llvm-objdump -d` of a compiled program; addresses follow from the start.
        let rows = [
            (0xa9bf_7bfd, "stp x29, x30, [sp, #-0x10]!"),
            (0x9100_03fd, "mov x29, sp"),
            (0xf940_0000, "ldr x0, [x0]"),
            (0x9b00_7c20, "mul x0, x1, x0"),
            (0x9ac1_0800, "udiv x0, x0, x1"),
            (0xf100_0421, "subs x1, x1, #0x1"),
            (0x54ff_ffa1, "b.ne 0x100c"),
            (0xa8c1_7bfd, "ldp x29, x30, [sp], #0x10"),
            (0xd65f_03c0, "ret"),
            (0xd503_201f, "nop"),
        ];
        let code = bytes(&rows.map(|r| r.0));
        for (found, (word, text)) in listing(&code, 0x1000).zip(rows) {
            assert_eq!(found.text, text, "{word:#x} at {:#x}", found.address);
        }
        assert_eq!(listing(&code, 0x1000).count(), rows.len());
    }

    #[test]
    fn offsets_become_addresses() {
        let one = |word: u32, address: u64| {
            let code = bytes(&[word]);
            listing(&code, address).next().map(|i| i.text).unwrap()
        };
        assert_eq!(one(0x1400_0002, 0x1000), "b 0x1008");
        assert_eq!(one(0x97ff_ffff, 0x1000), "bl 0xffc");
        assert_eq!(one(0xb400_0040, 0x1000), "cbz x0, 0x1008");
        assert_eq!(one(0x3600_0040, 0x1000), "tbz w0, #0x0, 0x1008");
        assert_eq!(one(0x5800_0040, 0x1000), "ldr x0, 0x1008");
        assert_eq!(one(0xb000_0000, 0x1234), "adrp x0, 0x2000");
        assert_eq!(one(0x1000_0040, 0x1234), "adr x0, 0x123c");
        // Undefined: the word itself, and at the end of the addresses nothing breaks.
        assert_eq!(one(0, u64::MAX - 3), "udf #0x0");
        assert_eq!(one(0xffff_ffff, u64::MAX - 3), ".word 0xffffffff");
        assert_eq!(one(0x1400_0002, u64::MAX - 3), "b 0x4");
    }

    #[test]
    fn kinds_of_branches() {
        let rows = [
            (0x1400_0002, Some("jump")),   // b
            (0x9400_0002, Some("call")),   // bl
            (0x5400_0041, Some("jump")),   // b.ne
            (0x3400_0040, Some("jump")),   // cbz
            (0xb500_0040, Some("jump")),   // cbnz x
            (0x3600_0040, Some("jump")),   // tbz
            (0xb7f8_0040, Some("jump")),   // tbnz x0, #63
            (0xd61f_0200, Some("jump")),   // br x16
            (0xd63f_0100, Some("call")),   // blr x8
            (0xd73f_0901, Some("call")),   // blraa x8, x1
            (0xd61f_0a1f, Some("jump")),   // braaz x16
            (0xd65f_03c0, Some("return")), // ret
            (0xd65f_0bff, Some("return")), // retaa
            (0xd65f_0fff, Some("return")), // retab
            (0xd69f_03e0, Some("return")), // eret
            (0xd400_0001, None),           // svc: returns to the next instruction
            (0xd503_201f, None),           // nop
            (0xf940_0000, None),           // ldr
            (0x9100_03fd, None),           // mov x29, sp
        ];
        for (word, kind) in rows {
            assert_eq!(branch(word), kind, "{word:#x}");
        }
    }

    #[test]
    fn a_block() {
        // ldr x2, [x0], #8; cbz x2, +12; ldadd x2, x3, [x1]; udiv x3, x3, x2; str x3, [x1]; b.ne -20; ret
        let code = bytes(&[
            0xf840_8402,
            0xb400_0062,
            0xf822_0023,
            0x9ac2_0863,
            0xf900_0023,
            0x54ff_ff61,
            0xd65f_03c0,
        ]);
        let block = decode(&code, 0x400, 0x414).unwrap();
        assert_eq!(block.instructions.len(), 6);
        assert_eq!((block.loads, block.stores), (2, 2), "{block:?}");
        assert_eq!((block.divisions, block.inner_branches), (1, 1));
        assert_eq!(block.ends_with, "jump");
        assert_eq!(
            decode(code.get(24..).unwrap(), 0x418, 0x418).map(|b| b.ends_with),
            Some("return")
        );
        assert!(
            decode(&code, 0x400, 0x416).is_none(),
            "no instruction begins there"
        );
        assert!(
            decode(&code, 0x400, 0x500).is_none(),
            "the bytes end before"
        );
        assert!(decode(&code, 0x404, 0x400).is_none());
    }

    /// Every 4,001st word.
    #[test]
    fn no_word_panics() {
        for word in (0..u32::MAX).step_by(4001) {
            let code = word.to_le_bytes();
            let (_, found) = words(&code, 0x1000).next().unwrap();
            assert!(
                !found.text.is_empty() && !found.text.contains('$'),
                "{}",
                found.text
            );
        }
    }
}
