//! Prints `src/xlate/table.rs`: what each opcode does to the arithmetic flags
//! and to data memory, asked of iced-x86 for every opcode, mandatory prefix,
//! `ModRM.reg` and `ModRM.mod`.
//!
//! ```text
//! cargo run -p truecount-engine --example gen_instruction_table > table.rs
//! ```

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, OpKind, RflagsBits,
};
use std::collections::HashMap;

/// The seven-bit flag set of the table: O S Z A P C.
fn flag_bits(rflags: u32) -> u32 {
    [
        RflagsBits::OF,
        RflagsBits::SF,
        RflagsBits::ZF,
        RflagsBits::AF,
        RflagsBits::PF,
        RflagsBits::CF,
    ]
    .iter()
    .enumerate()
    .map(|(i, &bit)| u32::from(rflags & bit != 0) << i)
    .sum()
}

/// One property word: flags read, flags surely written, load, store, vector.
fn properties(factory: &mut InstructionInfoFactory, bytes: &[u8]) -> u16 {
    let mut decoder = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE);
    let instruction: Instruction = decoder.decode();
    if instruction.is_invalid() {
        return 0x3f; // unknown: reads every flag, writes none
    }
    let read = flag_bits(instruction.rflags_read());
    let mut written = flag_bits(
        instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set(),
    );
    // AND, OR, XOR and TEST leave AF "undefined"; every implementation clears it.
    let name = format!("{:?}", instruction.mnemonic());
    if matches!(name.as_str(), "And" | "Or" | "Xor" | "Test") {
        written |= flag_bits(RflagsBits::AF);
    }
    let info = factory.info(&instruction);
    let (mut load, mut store) = (false, false);
    for memory in info.used_memory() {
        match memory.access() {
            OpAccess::Read | OpAccess::CondRead => load = true,
            OpAccess::Write | OpAccess::CondWrite => store = true,
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
                load = true;
                store = true;
            }
            _ => {}
        }
    }
    let vector = (0..instruction.op_count()).any(|i| {
        instruction.op_kind(i) == OpKind::Register
            && (instruction.op_register(i).is_vector_register()
                || instruction.op_register(i).is_mm())
    }) || name.starts_with("Vzero");
    (read | (written << 6)) as u16
        | u16::from(load) << 12
        | u16::from(store) << 13
        | u16::from(vector) << 14
}

/// One place of the table.
struct Encoding {
    space: u8,
    opcode: u8,
    prefix: u8,
    memory: bool,
    modrm: u8,
}

impl Encoding {
    /// Up to `ModRM`, with this W and vector length.
    fn bytes(&self, w: u8, l: u8) -> Vec<u8> {
        let &Self {
            space,
            opcode,
            prefix,
            memory,
            modrm,
        } = self;
        let mut bytes: Vec<u8> = Vec::new();
        let pp = [0u8, 0x66, 0xf3, 0xf2][usize::from(prefix)];
        match space {
            0..=3 => {
                if pp != 0 {
                    bytes.push(pp);
                }
                if w == 1 {
                    bytes.push(0x48);
                }
                match space {
                    1 => bytes.push(0x0f),
                    2 => bytes.extend([0x0f, 0x38]),
                    3 => bytes.extend([0x0f, 0x3a]),
                    _ => {}
                }
            }
            4..=6 => bytes.extend([
                0xc4,
                0xe0 | (space - 3),
                w << 7 | 0x78 | (l & 1) << 2 | prefix,
            ]),
            7..=11 => {
                let map = [1, 2, 3, 5, 6][usize::from(space - 7)];
                bytes.extend([
                    0x62,
                    0xf0 | map,
                    w << 7 | 0x7c | prefix,
                    l << 5 | 0x08 | (u8::from(memory) * 2),
                ]);
                if memory {
                    // k2 only where a mask is needed (gathers)
                    let last = bytes.len() - 1;
                    bytes[last] = l << 5 | 0x08;
                }
            }
            _ => bytes.extend([0x8f, 0xe8 + (space - 12), w << 7 | 0x78 | prefix]),
        }
        bytes.extend([opcode, modrm]);
        bytes
    }
}

fn main() {
    let mut factory = InstructionInfoFactory::new();
    // Spaces: 0-3 legacy maps (one byte, 0F, 0F38, 0F3A); 4-6 VEX maps 1-3;
    // 7-9 EVEX maps 1-3; 10-11 EVEX maps 5-6; 12-14 XOP maps 8-10.
    let mut rows: Vec<Vec<u16>> = Vec::new();
    let mut row_index: HashMap<Vec<u16>, usize> = HashMap::new();
    let mut words: Vec<u16> = Vec::new();
    let mut word_index: HashMap<u16, usize> = HashMap::new();
    let mut index: Vec<usize> = Vec::new();
    for space in 0..15u8 {
        for opcode in 0..=255u8 {
            let mut row = Vec::new();
            for prefix in 0..4u8 {
                for memory in [false, true] {
                    for reg in 0..8u8 {
                        let modrm = if memory { 0x80 } else { 0xc1 } | reg << 3;
                        let mut best = None;
                        // W and the vector length do not change the properties; some
                        // encodings exist for one value only.
                        for variant in 0..6u8 {
                            let (w, l) = (variant & 1, variant >> 1);
                            let encoding = Encoding {
                                space,
                                opcode,
                                prefix,
                                memory,
                                modrm,
                            };
                            let mut bytes = encoding.bytes(w, l);
                            let masked = bytes.clone();
                            bytes.extend([1, 0, 0, 0, 1, 0, 0, 0, 1, 0]);
                            let mut value = properties(&mut factory, &bytes);
                            if value == 0x3f && (7..=11).contains(&space) {
                                let mut again = masked;
                                again[3] |= 2;
                                again.extend([1, 0, 0, 0, 1, 0, 0, 0, 1, 0]);
                                value = properties(&mut factory, &again);
                            }
                            if value != 0x3f {
                                best = Some(match best {
                                    // Cautious where variants differ: flags read by any,
                                    // written by all, memory touched by any.
                                    Some(old) => {
                                        let old: u16 = old;
                                        ((old | value) & 0x703f) | (old & value & 0x0fc0)
                                    }
                                    None => value,
                                });
                            }
                        }
                        row.push(best.unwrap_or(0x3f));
                    }
                }
            }
            let row: Vec<u16> = row
                .iter()
                .map(|&w| {
                    *word_index.entry(w).or_insert_with(|| {
                        words.push(w);
                        words.len() - 1
                    }) as u16
                })
                .collect();
            let at = *row_index.entry(row.clone()).or_insert_with(|| {
                rows.push(row);
                rows.len() - 1
            });
            index.push(at);
        }
    }
    println!("//! What each opcode does to the arithmetic flags and to data memory.");
    println!("//!");
    println!("//! Generated from iced-x86's instruction information by");
    println!("//! `cargo run -p truecount-engine --example gen_instruction_table`;");
    println!("//! `decode` explains the layout. Do not edit.");
    println!();
    println!("/// Property words: bits 0-5 flags read (O S Z A P C), 6-11 flags surely");
    println!("/// written, 12 load, 13 store, 14 vector.");
    println!(
        "#[rustfmt::skip]\npub(super) static WORDS: [u16; {}] = {words:?};",
        words.len()
    );
    println!();
    println!("/// Distinct rows of (prefix, memory operand, `ModRM.reg`): an index into `WORDS`.");
    println!(
        "#[rustfmt::skip]\npub(super) static ROWS: [[u8; 64]; {}] = [",
        rows.len()
    );
    for row in &rows {
        println!("    {row:?},");
    }
    println!("];\n");
    println!("/// The row of each opcode, 256 a space.");
    println!(
        "#[rustfmt::skip]\npub(super) static INDEX: [u16; {}] = [",
        index.len()
    );
    for line in index.chunks(32) {
        println!(
            "    {},",
            line.iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(",")
        );
    }
    println!("];");
}
