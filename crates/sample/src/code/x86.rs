//! x86-64, by iced-x86.

use iced_x86::{
    Code, Decoder, DecoderOptions, Formatter as _, InstructionInfoFactory, IntelFormatter, OpAccess,
};

use super::{BlockCode, Instruction};

/// See [`super::Isa::decode`].
pub(super) fn decode(bytes: &[u8], start: u64, end: u64) -> Option<BlockCode> {
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut info = InstructionInfoFactory::new();
    let mut formatter = formatter();
    let mut out = BlockCode {
        ends_with: "other",
        ..BlockCode::default()
    };
    while decoder.can_decode() && decoder.ip() <= end {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        let address = instruction.ip();
        out.instructions.push(Instruction { address, text });
        let (mut reads, mut writes) = (false, false);
        for memory in info.info(&instruction).used_memory() {
            reads |= matches!(
                memory.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            writes |= matches!(
                memory.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            );
        }
        let is_nop = instruction.mnemonic() == iced_x86::Mnemonic::Nop;
        out.loads += u32::from(reads && !is_nop);
        out.stores += u32::from(writes && !is_nop);
        out.divisions += u32::from(is_division(instruction.code()));
        if address == end {
            out.ends_with = match instruction.flow_control() {
                iced_x86::FlowControl::Return => "return",
                iced_x86::FlowControl::Call | iced_x86::FlowControl::IndirectCall => "call",
                iced_x86::FlowControl::UnconditionalBranch
                | iced_x86::FlowControl::IndirectBranch
                | iced_x86::FlowControl::ConditionalBranch => "jump",
                _ => "other",
            };
            return Some(out);
        }
        out.inner_branches += u32::from(instruction.flow_control() != iced_x86::FlowControl::Next);
    }
    None
}

/// See [`super::Isa::listing`].
pub(super) fn listing(bytes: &[u8], start: u64) -> impl Iterator<Item = Instruction> + '_ {
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut formatter = formatter();
    std::iter::from_fn(move || {
        let instruction = decoder.can_decode().then(|| decoder.decode())?;
        if instruction.is_invalid() {
            return None;
        }
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        Some(Instruction {
            address: instruction.ip(),
            text,
        })
    })
}

fn formatter() -> IntelFormatter {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_branch_leading_zeros(false);
    options.set_uppercase_hex(false);
    formatter
}

fn is_division(code: Code) -> bool {
    use iced_x86::Mnemonic as M;
    matches!(
        code.mnemonic(),
        M::Div
            | M::Idiv
            | M::Divss
            | M::Divsd
            | M::Divps
            | M::Divpd
            | M::Vdivss
            | M::Vdivsd
            | M::Vdivps
            | M::Vdivpd
            | M::Sqrtss
            | M::Sqrtsd
            | M::Sqrtps
            | M::Sqrtpd
            | M::Vsqrtss
            | M::Vsqrtsd
            | M::Vsqrtps
            | M::Vsqrtpd
            | M::Fdiv
            | M::Fdivp
            | M::Fidiv
            | M::Fsqrt
    )
}
