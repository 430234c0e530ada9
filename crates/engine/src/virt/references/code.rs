//! Blocks as the reader of rings knows them: which operands each instruction has, and which noted words their addresses
//! are made of.
//!
//! Which words were noted is [`Words`]', what the operands are is iced-x86's: an operand whose registers were not
//! noted, or whose size neither its encoding nor a noted word tells, is [`Unknown`], and named.

use super::access::{Access, Unknown};
use super::choice::{Choice, Noted};
use crate::xlate::decode::decode;
use crate::xlate::facts::{Event, Facts};
use crate::xlate::references::{FS, GS, INTERRUPTED, Words};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, InstructionInfoOptions, Mnemonic,
    OpAccess, OpKind, Register,
};

/// How a block goes on behind an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// At the next one.
    None,
    /// By a direct jump or call.
    Direct,
    /// There, or at the next one.
    Conditional {
        /// Where to, if it is taken.
        target: u64,
    },
    /// By a jump or call through a register or memory.
    Indirect,
    /// By a return.
    Return,
}

/// One memory operand.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// What for.
    pub access: Access,
    /// Bytes of one reference.
    pub size: u32,
    /// Its address is made of the stack pointer.
    pub stack: bool,
    base: Option<u8>,
    index: Option<(u8, u8)>,
    /// The index is its low byte only.
    byte_index: bool,
    segment: Option<u8>,
    displacement: u64,
    /// Addresses have 32 bits.
    narrow: bool,
    /// Word with the number of a bit, relative to the operand.
    bit: Option<u8>,
    /// Words of a repeated instruction: count before and after, an address before and after.
    repeat: Option<[u8; 4]>,
    /// What of it is referenced; `None`: all.
    pub(super) choice: Option<Choice>,
}

/// One instruction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Instruction {
    /// Address.
    pub pc: u64,
    /// Bytes.
    pub length: u32,
    /// Its operands, in [`Code`]'s.
    operands: std::ops::Range<usize>,
    /// How control goes on.
    pub branch: Branch,
    /// What is not known of its references.
    pub unknown: Option<Unknown>,
}

/// A block.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Code {
    /// Number, from 0 on; the same block has one in all threads that share it.
    pub number: u32,
    /// Address of its first instruction.
    pub pc: u64,
    /// Words that it notes, the head included.
    pub(super) words: usize,
    /// Its instructions.
    pub instructions: Vec<Instruction>,
    operands: Vec<Operand>,
    /// Each instruction's first word.
    pub(super) first_words: Vec<u8>,
    /// Its operands are not there, nor what is not known of references.
    pub(super) brief: bool,
}

/// What of the machine decides what is referenced.
pub(super) struct Machine {
    /// Programs can read their FS base.
    pub(super) reads_fs: bool,
    /// Components of the extended state that there are.
    pub(super) components: u64,
}

/// General registers by iced-x86's name.
fn number_of(register: Register) -> Option<u8> {
    let full = register.full_register();
    full.is_gpr64()
        .then(|| u8::try_from(full.number()).ok())
        .flatten()
}

impl Code {
    /// Of a block at `pc` with these bytes and so many words; without a factory, brief.
    pub(super) fn new(
        number: u32,
        pc: u64,
        bytes: &[u8],
        (instructions, words): (usize, usize),
        machine: &Machine,
        mut factory: Option<&mut InstructionInfoFactory>,
    ) -> Option<Self> {
        let mut code = Self {
            number,
            pc,
            words,
            instructions: Vec::with_capacity(instructions),
            operands: Vec::with_capacity(instructions),
            first_words: Vec::with_capacity(instructions),
            brief: factory.is_none(),
        };
        let near = 1u32 << (3 + Event::Branches as u8);
        let (mut at, mut word) = (0usize, 1usize);
        for _ in 0..instructions {
            let rest = bytes.get(at..)?;
            let Ok(insn) = decode(rest) else {
                // What no CPU executes: it faults, and references nothing.
                break;
            };
            let own = rest.get(..usize::from(insn.len))?;
            let noted = Words::of(&insn, own);
            let address = pc.wrapping_add(at as u64);
            let start = code.operands.len();
            let is_near = Facts::of(&insn).0 & near != 0;
            let mut decoded = iced_x86::Instruction::default();
            if is_near || factory.is_some() {
                let mut decoder = Decoder::with_ip(64, own, address, DecoderOptions::NONE);
                decoder.decode_out(&mut decoded);
            }
            let mut unknown = None;
            if let Some(factory) = factory.as_deref_mut() {
                if decoded.is_invalid() {
                    unknown = (!noted.is_empty()).then_some(Unknown::Other);
                } else {
                    let operands = Operands {
                        noted: Noted {
                            words: &noted,
                            first: word,
                            enabled: machine.components,
                        },
                        reads_fs: machine.reads_fs,
                    };
                    let wanted = InstructionInfoOptions::NO_REGISTER_USAGE;
                    for memory in factory.info_options(&decoded, wanted).used_memory() {
                        if let Err(why) = operands.of(&decoded, memory, &mut code.operands) {
                            unknown = Some(why);
                        }
                    }
                }
            }
            code.instructions.push(Instruction {
                pc: address,
                length: u32::from(insn.len),
                operands: start..code.operands.len(),
                // (What is called far, or by the kernel, is no near branch.)
                branch: match decoded.flow_control() {
                    _ if !is_near => Branch::None,
                    FlowControl::ConditionalBranch => Branch::Conditional {
                        target: decoded.near_branch_target(),
                    },
                    FlowControl::IndirectBranch | FlowControl::IndirectCall => Branch::Indirect,
                    FlowControl::Return => Branch::Return,
                    FlowControl::UnconditionalBranch | FlowControl::Call => Branch::Direct,
                    _ => Branch::None,
                },
                unknown,
            });
            code.first_words.push(u8::try_from(word).ok()?);
            word += noted.len();
            at += usize::from(insn.len);
        }
        (word <= words).then_some(code)
    }
}

/// How an operand's address is made of the block's words: `word[base]`, `word[index]` times a factor, `word[segment]`, and a
/// constant; what is not there has a factor of 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Which word, and 1 or 0.
    pub base: (u8, u8),
    /// Which word, and its factor.
    pub index: (u8, u8),
    /// Which word, and 1 or 0.
    pub segment: (u8, u8),
    /// What is added.
    pub displacement: u64,
}

impl Operand {
    /// It is repeated: what several operands of the instruction reference comes by turns.
    pub fn is_repeated(&self) -> bool {
        self.repeat.is_some()
    }

    /// The form of its address, where it has that: else see [`Executed::references`].
    pub fn form(&self) -> Option<Form> {
        let plain = self.bit.is_none() && self.repeat.is_none() && self.choice.is_none();
        if self.narrow || self.byte_index || !plain {
            return None;
        }
        let once = |word: Option<u8>| word.map_or((0, 0), |word| (word, 1));
        Some(Form {
            base: once(self.base),
            index: self.index.unwrap_or((0, 0)),
            segment: once(self.segment),
            displacement: self.displacement,
        })
    }
}

impl Code {
    /// Memory operands of an instruction, by its place in the block.
    pub fn operands(&self, at: usize) -> &[Operand] {
        let instruction = self.instructions.get(at);
        let operands = instruction.and_then(|one| self.operands.get(one.operands.clone()));
        operands.unwrap_or(&[])
    }
}

/// The operands of one instruction.
struct Operands<'a> {
    noted: Noted<'a>,
    reads_fs: bool,
}

impl Operands<'_> {
    fn of(
        &self,
        decoded: &iced_x86::Instruction,
        memory: &iced_x86::UsedMemory,
        into: &mut Vec<Operand>,
    ) -> Result<(), Unknown> {
        if let Some(parts) = self.noted.state(decoded) {
            let part = |(choice, size, reads, writes)| {
                let access = match (reads, writes) {
                    (true, true) => Access::Modify,
                    (false, true) => Access::Store,
                    _ => Access::Load,
                };
                self.operand(decoded, memory, access, size, Some(choice))
            };
            let parts: Vec<Operand> = parts.into_iter().map(part).collect::<Result<_, _>>()?;
            into.extend(parts);
            return Ok(());
        }
        let repeated = self.noted.words.after().next().is_some();
        let chosen = self.noted.choice(decoded, memory)?;
        let access = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => Access::Load,
            OpAccess::Write => Access::Store,
            OpAccess::CondWrite if repeated || chosen.is_some() => Access::Store,
            OpAccess::CondWrite => return Err(Unknown::Masked),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => Access::Modify,
            OpAccess::None | OpAccess::NoMemAccess => return Ok(()),
        };
        if let Some((choice, size)) = chosen {
            into.push(self.operand(decoded, memory, access, size, Some(choice))?);
            return Ok(());
        }
        let size = match memory.memory_size().size() {
            0 => decoded.memory_size().size(),
            size => size,
        };
        let Some(size) = u32::try_from(size).ok().filter(|&size| size != 0) else {
            return Err(match decoded.mnemonic() {
                Mnemonic::Enter => Unknown::Other,
                _ => Unknown::StateSize,
            });
        };
        into.push(self.operand(decoded, memory, access, size, None)?);
        Ok(())
    }

    fn operand(
        &self,
        decoded: &iced_x86::Instruction,
        memory: &iced_x86::UsedMemory,
        access: Access,
        size: u32,
        choice: Option<Choice>,
    ) -> Result<Operand, Unknown> {
        let word = |register| self.noted.word(register);
        let base = match memory.base() {
            Register::None | Register::RIP | Register::EIP => None,
            register => Some(number_of(register).and_then(word).ok_or(Unknown::Other)?),
        };
        let index = match memory.index() {
            Register::None => None,
            // Its elements are the choice's.
            register if register.is_vector_register() => None,
            register => {
                let factor = u8::try_from(memory.scale()).map_err(|_| Unknown::Other)?;
                let word = number_of(register).and_then(word);
                Some((word.ok_or(Unknown::Other)?, factor))
            }
        };
        let segment = match memory.segment() {
            Register::FS if !self.reads_fs => return Err(Unknown::ThreadLocal),
            Register::FS => Some(word(FS).ok_or(Unknown::Other)?),
            Register::GS => Some(word(GS).ok_or(Unknown::Other)?),
            _ => None,
        };
        let repeated = self.noted.words.after().next().is_some() && choice.is_none();
        Ok(Operand {
            access,
            size,
            stack: memory.base().full_register() == Register::RSP,
            base,
            index,
            byte_index: memory.index() == Register::AL,
            segment,
            displacement: memory.displacement(),
            narrow: matches!(memory.address_size(), iced_x86::CodeSize::Code32),
            bit: self.bit(decoded)?,
            repeat: if repeated {
                Some(self.repeat().ok_or(Unknown::Other)?)
            } else {
                None
            },
            choice,
        })
    }

    /// The word with a bit's number, of `bt` and its kin with a register.
    fn bit(&self, decoded: &iced_x86::Instruction) -> Result<Option<u8>, Unknown> {
        let tests = matches!(
            decoded.mnemonic(),
            Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
        );
        if !tests || decoded.op1_kind() != OpKind::Register {
            return Ok(None);
        }
        let number = number_of(decoded.op1_register());
        let register = number.and_then(|register| self.noted.word(register));
        register.map(Some).ok_or(Unknown::Other)
    }

    fn repeat(&self) -> Option<[u8; 4]> {
        let mut after = self.noted.words.after();
        let (count, moved) = (after.next()?, after.next()?);
        let behind = u8::try_from(self.noted.first + self.noted.words.in_front()).ok()?;
        let word = |register| self.noted.word(register);
        Some([word(count)?, behind, word(moved)?, behind + 1])
    }
}

/// A block that a thread executed, from its beginning on.
#[derive(Clone, Copy, Debug)]
pub struct Executed<'a> {
    /// The block.
    pub code: &'a Code,
    /// Instructions that were retired.
    pub done: usize,
    pub(super) interrupted: bool,
    pub(super) words: &'a [u64],
    /// Address of the block that came next in this thread, or would have come without a signal; `None`: not known.
    pub next: Option<u64>,
}

/// References behind each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Lowest address.
    pub address: u64,
    /// Bytes of one.
    pub size: u32,
    /// How many.
    pub times: u64,
}

impl Executed<'_> {
    /// Where an operand of [`Form`] is.
    #[inline]
    pub fn at(&self, form: &Form) -> u64 {
        let part = |(word, factor): (u8, u8)| self.word(word).wrapping_mul(u64::from(factor));
        let sum = form.displacement.wrapping_add(part(form.base));
        sum.wrapping_add(part(form.index))
            .wrapping_add(part(form.segment))
    }

    /// Instructions that were retired, and one more if that was interrupted in its middle.
    #[inline]
    pub fn reached(&self) -> usize {
        self.done + usize::from(self.interrupted)
    }

    #[inline]
    fn word(&self, at: u8) -> u64 {
        self.words.get(usize::from(at)).copied().unwrap_or(0)
    }

    /// Calls `f` for what instruction `at` references, in order: the operand's number, the operand, lowest address, bytes
    /// of a reference, how many lie behind each other from there on (not 1: repeated string instructions, masks, state).
    pub fn references(&self, at: usize, mut f: impl FnMut(usize, &Operand, Run)) {
        for (number, operand) in self.code.operands(at).iter().enumerate() {
            let mut run = |away, size, many: Option<u64>| {
                let (address, times) = self.address(operand, away);
                let times = many.unwrap_or(times);
                f(
                    number,
                    operand,
                    Run {
                        address,
                        size,
                        times,
                    },
                );
            };
            match &operand.choice {
                None => run(0, operand.size, None),
                Some(choice) => choice.each(self.words, operand.size, |away, size, times| {
                    run(away, size, Some(times));
                }),
            }
        }
    }

    /// Instructions that were retired; the last one, interrupted, perhaps only in part.
    pub fn instructions(&self) -> impl Iterator<Item = (usize, &Instruction)> {
        let with_part = self.code.instructions.iter().take(self.reached());
        with_part.enumerate()
    }

    /// Of an operand's part that is so far `away`.
    fn address(&self, operand: &Operand, away: u64) -> (u64, u64) {
        let mut address = operand.displacement.wrapping_add(away);
        if let Some(base) = operand.base {
            address = address.wrapping_add(self.word(base));
        }
        if let Some((index, factor)) = operand.index {
            let mut index = self.word(index);
            if operand.byte_index {
                index &= 0xff;
            }
            address = address.wrapping_add(index.wrapping_mul(u64::from(factor)));
        }
        if let Some(bit) = operand.bit {
            let number = self.word(bit).cast_signed();
            // The register is as wide as the operand.
            let (bits, shift) = (i64::from(operand.size) * 8, 64 - operand.size * 8);
            let number = number << shift >> shift;
            let away = number.div_euclid(bits) * i64::from(operand.size);
            address = address.wrapping_add(away.cast_unsigned());
        }
        if operand.narrow {
            address &= 0xffff_ffff;
        }
        if let Some(segment) = operand.segment {
            address = address.wrapping_add(self.word(segment));
        }
        let Some([count, left, from, to]) = operand.repeat else {
            return (address, 1);
        };
        let mask = if operand.narrow {
            0xffff_ffff
        } else {
            u64::MAX
        };
        let times = self.word(count).wrapping_sub(self.word(left)) & mask;
        let backwards = (self.word(to).wrapping_sub(self.word(from)) & mask) > mask / 2;
        if backwards && times != 0 {
            let length = (times - 1).wrapping_mul(u64::from(operand.size));
            address = address.wrapping_sub(length);
        }
        (address, times)
    }
}

/// How the head of a block in the ring says it was left: instructions executed, and whether the next one was
/// interrupted in its middle.
pub(super) fn left(head: u64, code: &Code) -> (usize, bool) {
    let high = (head >> 48) as u16;
    match high & !INTERRUPTED {
        0 => (code.instructions.len(), false),
        more => (
            usize::from(more - 1).min(code.instructions.len()),
            high & INTERRUPTED != 0,
        ),
    }
}
