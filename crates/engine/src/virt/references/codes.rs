//! The blocks that heads of the rings name, each looked at once.

use super::code::{Code, Machine};
use super::state;
use crate::layout::option;
use crate::virt::bytes::field;
use crate::virt::context::MappedBytes;
use crate::virt::shared::Shared;
use crate::xlate::references::MAX_WORDS;
use iced_x86::InstructionInfoFactory;
use rustc_hash::FxHashMap;

/// Blocks found lately, chosen by the low bits of where they are described.
const RECENT: usize = 1 << 14;

/// Bytes of a description that are read at once: those of most blocks.
const AT_ONCE: usize = 256;

/// Bytes of the totals file that are mapped together: descriptions lie side by side, and a read for each would be a system
/// call for each.
const WINDOW: u64 = 1 << 20;
/// Parts of the file that are mapped at the same time: those of as many processes.
const WINDOWS: usize = 8;

/// A block that a head names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Where it is described.
    described: u64,
    /// Address of its first instruction.
    pub(super) pc: u64,
    /// Its number.
    pub(super) number: u32,
    /// Words that it notes, the head included.
    pub(super) words: u32,
}

/// None.
const NOTHING: Known = Known {
    described: u64::MAX,
    pc: 0,
    number: 0,
    words: 0,
};

/// Every block so far.
pub(super) struct Codes<'a> {
    shared: &'a Shared,
    known: FxHashMap<u64, u32>,
    recent: Box<[Known]>,
    /// By number; none: its description makes no sense.
    codes: Vec<Option<Code>>,
    factory: InstructionInfoFactory,
    /// Parts of the totals file, with their numbers; the one that was used last is the first.
    windows: Vec<(u64, MappedBytes)>,
}

impl<'a> Codes<'a> {
    pub(super) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            known: FxHashMap::default(),
            windows: Vec::new(),
            recent: vec![NOTHING; RECENT].into_boxed_slice(),
            codes: Vec::new(),
            factory: InstructionInfoFactory::new(),
        }
    }

    /// The number of the block that is described there: offset in the totals file, in words.
    #[inline]
    pub(super) fn find(&mut self, described: u64) -> Option<u32> {
        self.block(described).map(|known| known.number)
    }

    /// The number of the block that is described there; it may be brief ([`Code::brief`]).
    pub(super) fn find_brief(&mut self, described: u64) -> Option<u32> {
        match self.recent.get(described as usize % RECENT) {
            Some(known) if known.described == described => Some(known.number),
            _ => self.look_up(described, true),
        }
    }

    /// The block that is described there.
    #[inline]
    pub(super) fn block(&mut self, described: u64) -> Option<Known> {
        match self.recent.get(described as usize % RECENT) {
            Some(known) if known.described == described => Some(*known),
            _ => self.block_anew(described),
        }
    }

    #[inline(never)]
    fn block_anew(&mut self, described: u64) -> Option<Known> {
        let number = self.look_up(described, false)?;
        let code = self.get(number)?;
        let known = Known {
            described,
            pc: code.pc,
            number,
            words: code.words as u32,
        };
        if let Some(recent) = self.recent.get_mut(described as usize % RECENT) {
            *recent = known;
        }
        Some(known)
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Code> {
        self.codes.get(number as usize)?.as_ref()
    }

    fn look_up(&mut self, described: u64, brief: bool) -> Option<u32> {
        if let Some(&known) = self.known.get(&described) {
            if !brief && self.get(known).is_some_and(|code| code.brief) {
                let code = self.describe(known, described, false);
                *self.codes.get_mut(known as usize)? = code;
            }
            return Some(known);
        }
        let number = u32::try_from(self.codes.len()).ok()?;
        let code = self.describe(number, described, brief);
        self.codes.push(code);
        self.known.insert(described, number);
        Some(number)
    }

    /// The bytes at an offset of the totals file; zeros behind its end.
    fn start(&mut self, offset: u64) -> Option<[u8; AT_ONCE]> {
        let mut start = [0u8; AT_ONCE];
        if !self.copy(offset, &mut start) {
            self.shared.read_some_at(offset, &mut start).ok()?;
        }
        Some(start)
    }

    /// Copies them from a mapped part. `false`: they are not in one, or there is no memory to map it.
    fn copy(&mut self, offset: u64, to: &mut [u8; AT_ONCE]) -> bool {
        let (window, at) = (offset / WINDOW, offset % WINDOW);
        if at > WINDOW - AT_ONCE as u64 {
            return false;
        }
        match self.windows.iter().position(|&(known, _)| known == window) {
            Some(known) => self.windows.swap(0, known),
            None => {
                let Ok(mapped) = self.shared.map_part(window * WINDOW, WINDOW as usize) else {
                    return false;
                };
                self.windows.truncate(WINDOWS - 1);
                self.windows.insert(0, (window, mapped));
            }
        }
        let mut words = [0u64; AT_ONCE / 8];
        if let Some((_, mapped)) = self.windows.first() {
            mapped.copy(at as usize / 8, &mut words);
        }
        for (to, word) in to.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        true
    }

    fn describe(&mut self, number: u32, described: u64, brief: bool) -> Option<Code> {
        let offset = described.checked_mul(8)?;
        let start = self.start(offset)?;
        let (head, bytes) = start.split_at_checked(16)?;
        let word = |at: usize| u64::from_le_bytes(field(head, at));
        let (pc, counts) = (word(0), word(8));
        let (instructions, words) = (counts as u32 as usize, (counts >> 48) as usize);
        let length = usize::from((counts >> 32) as u16);
        if instructions > crate::xlate::block::MAX_INSNS || words == 0 || words > MAX_WORDS {
            return None;
        }
        let mut longer = Vec::new();
        let bytes = match bytes.get(..length) {
            Some(bytes) => bytes,
            None => {
                longer.resize(length, 0);
                self.shared.read_at(offset + 16, &mut longer).ok()?;
                &longer
            }
        };
        let header = self.shared.header();
        let shown = match header.options & option::MACHINE {
            0 => u64::MAX,
            _ => u64::from(header.shown.components),
        };
        let machine = Machine {
            reads_fs: header.options & option::READS_FS != 0,
            components: state::enabled() & shown,
        };
        let factory = (!brief).then_some(&mut self.factory);
        Code::new(number, pc, bytes, (instructions, words), &machine, factory)
    }
}
