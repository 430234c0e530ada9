//! What of an operand is referenced, where a mask, a vector of addresses or the machine's state says so.
//!
//! Facts: Intel SDM volume 2, 2.8 (exception classes: which masked elements are not accessed), `VPGATHERDD` and its kin,
//! `VMASKMOV`, `VPCOMPRESSD`, `TILELOADD`.

use super::access::Unknown;
use super::state;
use crate::xlate::references::{HEADER, Sort, Words};
use iced_x86::{Instruction, Mnemonic, OpKind, Register, UsedMemory};

/// Bits that choose elements, in noted words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits {
    /// The first word.
    word: u8,
    /// Bytes of an element whose highest bit it is; 0: the bits of a mask.
    element: u8,
    /// How many.
    count: u8,
}

/// What of an operand is referenced.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    /// The elements whose bits are set.
    Elements(Bits),
    /// The only element, if any bit is set.
    Any(Bits),
    /// As many elements, from the first on, as bits are set.
    Packed(Bits),
    /// Elements that lie elsewhere each.
    Scattered {
        bits: Bits,
        /// Word with the first index.
        index: u8,
        /// Bytes of an index.
        bytes: u8,
        factor: u8,
    },
    /// Rows of a tile.
    Rows {
        /// Word with the configuration.
        configuration: u8,
        tile: u8,
        /// Word with the distance of rows, and its factor.
        stride: Option<(u8, u8)>,
    },
    /// A part of the extended state.
    State {
        moves: state::Moves,
        part: state::Part,
        /// Words with the mask's halves.
        mask: [u8; 2],
        /// Word with the header.
        header: u8,
        enabled: u64,
    },
}

/// Bit `at` of words.
fn byte(words: &[u64], word: u8, at: usize) -> u8 {
    let word = words.get(usize::from(word) + at / 8).copied().unwrap_or(0);
    (word >> (8 * (at % 8))) as u8
}

impl Bits {
    /// The bits, in a word.
    fn of(&self, words: &[u64]) -> u64 {
        let count = usize::from(self.count);
        let element = usize::from(self.element);
        if element == 0 {
            let bits = words.get(usize::from(self.word)).copied().unwrap_or(0);
            return bits & u64::MAX.checked_shr(64 - count as u32).unwrap_or(0);
        }
        (0..count.min(64))
            .filter(|at| byte(words, self.word, (at + 1) * element - 1) & 0x80 != 0)
            .fold(0, |bits, at| bits | 1 << at)
    }
}

impl Choice {
    /// How many elements a mask of AVX-512 chooses from.
    #[cfg(test)]
    pub(super) fn masked_elements(&self) -> Option<u8> {
        match self {
            Self::Elements(bits) if bits.element == 0 => Some(bits.count),
            _ => None,
        }
    }

    /// Calls `f` with what is to be added to the operand's address in front of its segment, bytes of each reference, and
    /// how many lie behind each other there. `size` is that of an element.
    pub(super) fn each(&self, words: &[u64], size: u32, mut f: impl FnMut(u64, u32, u64)) {
        match self {
            Self::Elements(bits) => {
                let mut rest = bits.of(words);
                let mut at = 0;
                while rest != 0 {
                    at += rest.trailing_zeros();
                    rest >>= rest.trailing_zeros();
                    let run = rest.trailing_ones();
                    f(u64::from(at) * u64::from(size), size, u64::from(run));
                    at += run;
                    rest = rest.checked_shr(run).unwrap_or(0);
                }
            }
            Self::Any(bits) => {
                if bits.of(words) != 0 {
                    f(0, size, 1);
                }
            }
            Self::Packed(bits) => match bits.of(words).count_ones() {
                0 => {}
                count => f(0, size, u64::from(count)),
            },
            Self::Scattered {
                bits,
                index,
                bytes,
                factor,
            } => {
                let chosen = bits.of(words);
                for at in (0..64).filter(|at| chosen >> at & 1 != 0) {
                    let bytes = usize::from(*bytes);
                    let value = (0..bytes).rev().fold(0u64, |value, part| {
                        value << 8 | u64::from(byte(words, *index, at * bytes + part))
                    });
                    let value = match bytes {
                        4 => i64::from(value as u32 as i32).cast_unsigned(),
                        _ => value,
                    };
                    f(value.wrapping_mul(u64::from(*factor)), size, 1);
                }
            }
            Self::Rows {
                configuration,
                tile,
                stride,
            } => {
                let tile = usize::from(*tile);
                let at = |place| u64::from(byte(words, *configuration, place));
                let columns = at(16 + 2 * tile) | at(17 + 2 * tile) << 8;
                let stride = stride.map_or(0, |(word, factor)| {
                    let value = words.get(usize::from(word)).copied().unwrap_or(0);
                    value.wrapping_mul(u64::from(factor))
                });
                for row in at(1)..at(48 + tile) {
                    f(row.wrapping_mul(stride), columns as u32, 1);
                }
            }
            Self::State {
                moves,
                part,
                mask,
                header,
                enabled,
            } => {
                let word = |at: u8| words.get(usize::from(at)).copied().unwrap_or(0);
                let [low, high] = mask.map(|at| word(at) & 0xffff_ffff);
                let wanted = (low | high << 32) & enabled;
                let header = [word(*header), word(*header + 1)];
                state::each(*moves, *part, wanted, header, |at, bytes| {
                    f(u64::from(at), size, u64::from(bytes / size));
                    if bytes % size != 0 {
                        f(u64::from(at + bytes / size * size), bytes % size, 1);
                    }
                });
            }
        }
    }
}

/// What was noted for an instruction.
pub(super) struct Noted<'a> {
    pub(super) words: &'a Words,
    /// Its first word.
    pub(super) first: usize,
    /// Components of the extended state that there are.
    pub(super) enabled: u64,
}

impl Noted<'_> {
    fn wide(&self, at: usize) -> Result<(u8, Sort), Unknown> {
        let (place, wide) = self.words.wide().nth(at).ok_or(Unknown::Other)?;
        let word = u8::try_from(self.first + place).map_err(|_| Unknown::Other)?;
        Ok((word, wide.sort))
    }

    /// The word of a register in front of the instruction.
    pub(super) fn word(&self, register: u8) -> Option<u8> {
        let at = self.words.before().position(|other| other == register)?;
        u8::try_from(self.first + at).ok()
    }

    /// What chooses an operand's references, and the bytes of one; `None`: nothing does.
    pub(super) fn choice(
        &self,
        decoded: &Instruction,
        memory: &UsedMemory,
    ) -> Result<Option<(Choice, u32)>, Unknown> {
        let size = memory.memory_size().element_size();
        if memory.base().is_vector_register() {
            return Err(Unknown::VectorAddresses);
        }
        if memory.index().is_vector_register() {
            return self.scattered(decoded, memory, size).map(Some);
        }
        if matches!(
            decoded.mnemonic(),
            Mnemonic::Tileloadd | Mnemonic::Tileloaddt1 | Mnemonic::Tilestored
        ) {
            return self.rows(decoded).map(|choice| Some((choice, 64)));
        }
        let (at, element) = match decoded.mnemonic() {
            _ if decoded.has_op_mask() => (0, 0),
            Mnemonic::Vmaskmovps
            | Mnemonic::Vmaskmovpd
            | Mnemonic::Vpmaskmovd
            | Mnemonic::Vpmaskmovq
            | Mnemonic::Maskmovq
            | Mnemonic::Maskmovdqu
            | Mnemonic::Vmaskmovdqu => (0, size),
            _ => return Ok(None),
        };
        // (A masked element may be a byte, whose mask is no smaller.)
        let element = match decoded.mnemonic() {
            Mnemonic::Maskmovq | Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => 1,
            _ => element,
        };
        let (word, _) = self.wide(at)?;
        let bits = |count: usize| -> Result<Bits, Unknown> {
            Ok(Bits {
                word,
                element: element as u8,
                count: u8::try_from(count).map_err(|_| Unknown::Masked)?,
            })
        };
        if let Some(count) = memory.memory_size().size().checked_div(element) {
            let choice = Choice::Elements(bits(count)?);
            return Ok(Some((choice, element as u32)));
        }
        let (sort, count) = masking(decoded, memory).ok_or(Unknown::Masked)?;
        let size = match sort {
            Masking::Whole => return Ok(None),
            Masking::Grouped(size) => size,
            _ => size,
        };
        let bits = bits(count)?;
        let choice = match sort {
            Masking::Whole => return Ok(None),
            Masking::Elements | Masking::Grouped(_) => Choice::Elements(bits),
            Masking::Any => Choice::Any(bits),
            Masking::Packed => Choice::Packed(bits),
        };
        Ok(Some((choice, size as u32)))
    }

    fn scattered(
        &self,
        decoded: &Instruction,
        memory: &UsedMemory,
        size: usize,
    ) -> Result<(Choice, u32), Unknown> {
        let bytes = memory.vsib_size() as usize;
        let data = match decoded.op0_kind() {
            OpKind::Register => decoded.op0_register(),
            _ => decoded.op1_register(),
        };
        if !data.is_vector_register() || bytes == 0 || size == 0 {
            return Err(Unknown::VectorAddresses);
        }
        let count = (memory.index().size() / bytes).min(data.size() / size);
        let ((index, _), (word, sort)) = (self.wide(0)?, self.wide(1)?);
        let bits = Bits {
            word,
            element: if sort == Sort::Mask { 0 } else { size as u8 },
            count: count as u8,
        };
        let choice = Choice::Scattered {
            bits,
            index,
            bytes: bytes as u8,
            factor: u8::try_from(memory.scale()).map_err(|_| Unknown::Other)?,
        };
        Ok((choice, size as u32))
    }

    fn rows(&self, decoded: &Instruction) -> Result<Choice, Unknown> {
        let tile = match decoded.op0_kind() {
            OpKind::Register => decoded.op0_register(),
            _ => decoded.op1_register(),
        };
        let number = (tile as u32).wrapping_sub(Register::TMM0 as u32);
        let index = decoded.memory_index();
        let stride = match index {
            Register::None => None,
            register => {
                let number = u8::try_from(register.full_register().number());
                let word = number.ok().and_then(|number| self.word(number));
                let factor = u8::try_from(decoded.memory_index_scale());
                Some((
                    word.ok_or(Unknown::Other)?,
                    factor.map_err(|_| Unknown::Other)?,
                ))
            }
        };
        Ok(Choice::Rows {
            configuration: self.wide(0)?.0,
            tile: u8::try_from(number).map_err(|_| Unknown::Other)?,
            stride,
        })
    }

    /// Parts of the extended state that an instruction moves; `None`: it is none that does, or it cannot be told.
    pub(super) fn state(&self, decoded: &Instruction) -> Option<Vec<(Choice, u32, bool, bool)>> {
        use state::{Moves, Part, UNIT};
        let moves = match decoded.mnemonic() {
            Mnemonic::Xsave | Mnemonic::Xsave64 => Moves::Save,
            Mnemonic::Xsavec | Mnemonic::Xsavec64 => Moves::SaveCompacted,
            Mnemonic::Xrstor | Mnemonic::Xrstor64 => Moves::Restore,
            _ => return None,
        };
        let behind = self.words.after().position(|register| register == HEADER)?;
        let header = u8::try_from(self.first + self.words.in_front() + behind).ok()?;
        let mask = [self.word(0)?, self.word(2)?];
        let parts: &[(Part, u32, bool, bool)] = match moves {
            Moves::Save => &[
                (Part::Components, UNIT, false, true),
                (Part::Header, UNIT, true, true),
            ],
            Moves::SaveCompacted => &[
                (Part::Components, UNIT, false, true),
                (Part::Header, UNIT, false, true),
            ],
            Moves::Restore => &[
                (Part::Header, UNIT, true, false),
                (Part::Mxcsr, 4, true, false),
                (Part::Components, UNIT, true, false),
            ],
        };
        let choice = |&(part, size, reads, writes)| {
            let choice = Choice::State {
                moves,
                part,
                mask,
                header,
                enabled: self.enabled,
            };
            (choice, size, reads, writes)
        };
        Some(parts.iter().map(choice).collect())
    }
}

enum Masking {
    Elements,
    /// Elements of so many bytes, whatever they consist of.
    Grouped(usize),
    /// The mask concerns the result alone.
    Whole,
    Any,
    Packed,
}

/// How a mask of AVX-512 chooses what is referenced, and how many bits of it do; `None`: that is not known of this
/// instruction. (The mask of shuffles, for one, concerns the result, and the operand is read as a whole: exception class
/// E4NF, "no fault suppression".)
fn masking(decoded: &Instruction, memory: &UsedMemory) -> Option<(Masking, usize)> {
    /// Beginnings of names: each element of the operand has a bit.
    #[rustfmt::skip]
    const ELEMENTS: &[&str] = &[
        "Vmovdqu", "Vmovdqa", "Vmovup", "Vmovap", "Vmovs",
        "Vpcmp", "Vcmp", "Vptest", "Vfpclass", "Vpblendm", "Vblendm",
        "Vpand", "Vpor", "Vpxor", "Vandp", "Vandnp", "Vorp", "Vxorp", "Vpternlog",
        "Vpadd", "Vpsub", "Vpmull", "Vpmulh", "Vpmin", "Vpmax", "Vpabs", "Vpavg",
        "Vpsllv", "Vpsrlv", "Vpsrav", "Vprol", "Vpror", "Vpshld", "Vpshrd",
        "Vpopcnt", "Vplzcnt", "Vpmovsx", "Vpmovzx",
        "Vpmovdb", "Vpmovdw", "Vpmovqb", "Vpmovqd", "Vpmovqw", "Vpmovwb",
        "Vpmovsdb", "Vpmovsdw", "Vpmovsqb", "Vpmovsqd", "Vpmovsqw", "Vpmovswb",
        "Vpmovusdb", "Vpmovusdw", "Vpmovusqb", "Vpmovusqd", "Vpmovusqw", "Vpmovuswb",
        "Vadd", "Vsub", "Vmul", "Vdiv", "Vmin", "Vmax", "Vsqrt", "Vrcp14", "Vrsqrt14",
        "Vfmadd", "Vfmsub", "Vfnmadd", "Vfnmsub", "Vgetexp", "Vgetmant", "Vrndscale",
        "Vscalef", "Vrange", "Vreduce", "Vfixupimm", "Vcvt",
    ];
    /// Parts of names: an element of theirs is none of the mask's, or that was not looked at.
    const OTHERS: &[&str] = &["dup", "cph", "csh", "bf16", "ph2", "2ph"];
    const ONE: &[&str] = &["Vbroadcasts", "Vpbroadcast"];
    #[rustfmt::skip]
    const WHOLE: &[&str] = &[
        "Vpshufb", "Vpshufd", "Vpshufhw", "Vpshuflw", "Vpconflict", "Vpunpck", "Vunpck", "Vperm", "Vshuf",
        "Vpack", "Vpalignr", "Valign", "Vdbpsadbw", "Vpmaddwd", "Vpmaddubsw", "Vpmultishift",
    ];
    /// Sums of products of smaller numbers.
    const GROUPED: &[(&str, usize)] = &[("Vpdp", 4), ("Vpmadd52", 8)];
    const PACKED: &[&str] = &["Vexpand", "Vpexpand", "Vcompress", "Vpcompress"];
    let name = format!("{:?}", decoded.mnemonic());
    let is_one_of = |names: &[&str]| names.iter().any(|begins| name.starts_with(begins));
    let sizes = memory.memory_size();
    let element = sizes.element_size();
    if element == 0 || OTHERS.iter().any(|part| name.contains(part)) {
        return None;
    }
    let elements = sizes.size() / element;
    if is_one_of(ONE) && elements == 1 {
        return Some((Masking::Any, decoded.op0_register().size() / element));
    }
    if is_one_of(WHOLE) && !name.starts_with("Vpshufbit") {
        return Some((Masking::Whole, 0));
    }
    if let Some((_, size)) = GROUPED.iter().find(|(begins, _)| name.starts_with(begins)) {
        let elements = sizes.size() / size;
        return (!decoded.is_broadcast()).then_some((Masking::Grouped(*size), elements));
    }
    if is_one_of(PACKED) {
        return Some((Masking::Packed, elements));
    }
    if !is_one_of(ELEMENTS) {
        return None;
    }
    if !decoded.is_broadcast() {
        return Some((Masking::Elements, elements));
    }
    // One element for all.
    let vectors = (0..decoded.op_count())
        .filter(|&operand| decoded.op_kind(operand) == OpKind::Register)
        .map(|operand| decoded.op_register(operand))
        .filter(|register| register.is_vector_register());
    let longest = vectors.map(Register::size).max()?;
    let widens = name.starts_with("Vcvt");
    (!widens).then_some((Masking::Any, longest / element))
}
