//! The decoder against iced-x86, on random and on structured bytes.
#![cfg(target_arch = "x86_64")]

use iced_x86::{Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess};
use iced_x86::{Instruction, RflagsBits};
use truecount_engine::xlate::decode::{Kind, decode, flag};

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn flags(rflags: u32) -> u8 {
    let pairs = [
        (RflagsBits::OF, flag::O),
        (RflagsBits::SF, flag::S),
        (RflagsBits::ZF, flag::Z),
        (RflagsBits::AF, flag::A),
        (RflagsBits::PF, flag::P),
        (RflagsBits::CF, flag::C),
    ];
    pairs
        .iter()
        .filter(|(bit, _)| rflags & bit != 0)
        .map(|(_, f)| f)
        .sum()
}

/// Compares one decoding; `Some(message)` where they differ.
fn differs(factory: &mut InstructionInfoFactory, bytes: &[u8]) -> Option<String> {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let theirs: Instruction = decoder.decode();
    if theirs.is_invalid() {
        return None;
    }
    let code = theirs.mnemonic();
    let ours = match decode(bytes) {
        Ok(ours) => ours,
        Err(error) => return Some(format!("{error:?} for {code:?}")),
    };
    if usize::from(ours.len) != theirs.len() {
        return Some(format!(
            "length {} for {}: {code:?}",
            ours.len,
            theirs.len()
        ));
    }
    if ours.is_rip_relative() != (theirs.is_ip_rel_memory_operand()) {
        return Some(format!("rip-relative: {code:?}"));
    }
    let flow_ok = match theirs.flow_control() {
        FlowControl::Next => matches!(
            ours.kind,
            Kind::Plain
                | Kind::Rdpmc
                | Kind::GsBase
                | Kind::Rdtsc
                | Kind::Asks
                | Kind::LoadsGs
                | Kind::Xsave
                | Kind::Unsupported
                | Kind::Trap
        ),
        FlowControl::ConditionalBranch => matches!(ours.kind, Kind::Jcc | Kind::Loop),
        FlowControl::UnconditionalBranch => matches!(ours.kind, Kind::Jmp | Kind::Unsupported),
        FlowControl::IndirectBranch => matches!(ours.kind, Kind::JmpInd | Kind::Unsupported),
        FlowControl::Call => matches!(
            ours.kind,
            Kind::Call | Kind::Syscall | Kind::Plain | Kind::Unsupported
        ),
        FlowControl::IndirectCall => matches!(ours.kind, Kind::CallInd | Kind::Unsupported),
        FlowControl::Return => matches!(
            ours.kind,
            Kind::Ret | Kind::FarReturn | Kind::Unsupported | Kind::Plain | Kind::Trap
        ),
        FlowControl::Interrupt | FlowControl::Exception => {
            matches!(ours.kind, Kind::Trap | Kind::Interrupt)
        }
        FlowControl::XbeginXabortXend => matches!(ours.kind, Kind::Xbegin | Kind::Plain),
    };
    if !flow_ok {
        return Some(format!(
            "{:?} for {:?}: {code:?}",
            ours.kind,
            theirs.flow_control()
        ));
    }
    if matches!(ours.kind, Kind::Jcc | Kind::Jmp | Kind::Call) && !ours_has_16_bit(bytes) {
        let target = (theirs.len() as u64).wrapping_add_signed(i64::from(ours.rel));
        if target != theirs.near_branch_target() {
            return Some(format!("target {target:#x}: {code:?}"));
        }
    }
    let missing = flags(theirs.rflags_read()) & !ours.flags_read();
    if missing != 0 {
        return Some(format!("flags read, not known: {missing:#x} {code:?}"));
    }
    let mut may = flags(theirs.rflags_written() | theirs.rflags_cleared() | theirs.rflags_set());
    if matches!(
        code,
        Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test
    ) {
        may |= flag::A;
    }
    let excess = ours.flags_written() & !may;
    if excess != 0 {
        return Some(format!("flags not written: {excess:#x} {code:?}"));
    }
    if (ours.space, ours.opcode) == (1, 1) && ours.modrm >= 0xc0 || code == Mnemonic::Enter {
        return None; // system instructions; `enter` loads only where it nests
    }
    let info = factory.info(&theirs);
    let load = info.used_memory().iter().any(|m| {
        matches!(
            m.access(),
            OpAccess::Read | OpAccess::ReadWrite | OpAccess::CondRead | OpAccess::ReadCondWrite
        )
    });
    let store = info.used_memory().iter().any(|m| {
        matches!(
            m.access(),
            OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
        )
    });
    if load != ours.is_load() || store != ours.is_store() {
        return Some(format!("memory {load} {store}: {code:?}"));
    }
    None
}

fn ours_has_16_bit(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .take_while(|b| !matches!(b, 0x0f | 0x70..=0x7f | 0xe0..=0xef))
        .any(|&b| b == 0x66)
}

#[test]
fn agrees_with_iced_on_random_bytes() {
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
    let mut factory = InstructionInfoFactory::new();
    let mut wrong: std::collections::BTreeMap<String, (usize, Vec<u8>)> = Default::default();
    let mut compared = 0;
    for round in 0..3_000_000u64 {
        let mut bytes = [0u8; 24];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&rng.next().to_le_bytes());
        }
        // Steer to the rarer spaces.
        match round % 12 {
            1 | 2 => bytes[0] = 0x0f,
            3 => bytes[..2].copy_from_slice(&[0x0f, 0x38]),
            4 => bytes[..2].copy_from_slice(&[0x0f, 0x3a]),
            5 => bytes[0] = 0xc5,
            6 => bytes[0] = 0xc4,
            7 | 8 => {
                bytes[0] = 0x62;
                bytes[1] = 0xf0 | bytes[1] & 7;
                bytes[2] |= 4;
            }
            9 => bytes[..2].copy_from_slice(&[0x66, 0x0f]),
            10 => bytes[..2].copy_from_slice(&[0xf3, 0x0f]),
            11 => bytes[..2].copy_from_slice(&[0x48, 0x0f]),
            _ => {}
        }
        compared += 1;
        if let Some(message) = differs(&mut factory, &bytes) {
            let entry = wrong.entry(message).or_insert((0, bytes.to_vec()));
            entry.0 += 1;
        }
    }
    for (message, (times, bytes)) in &wrong {
        eprintln!("{times:6} {message}  {bytes:02x?}");
    }
    assert!(compared > 1_000_000);
    assert!(wrong.is_empty(), "{} kinds of difference", wrong.len());
}
