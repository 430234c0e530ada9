//! What a memory's shadow says at its end (`xlate::known`): lines that were read, and written.

use super::reader::Rings;
use super::{Lies, Line, Thread};
use crate::layout::Context;
use crate::virt::bytes::field;
use crate::xlate::known::{
    self, AT, DIRECTORY, DIRECTORY_WORDS, EACH, Is, LIES_BYTES, OWN_PIECES, PIECE, PIECE_BITS,
    PIECES, POOL, POOL_DIRECTORY, POOL_PIECES, Record, did, which,
};
use std::mem::offset_of;
use std::sync::PoisonError;

impl Line {
    /// What the shadow of a line says; `None`: nothing.
    fn new(address: u64, shadow: u64) -> Option<Self> {
        let shadow = shadow & !(EACH * u64::from(did::BLOCK));
        if shadow == 0 {
            return None;
        }
        let bytes = |bit| which(shadow, bit);
        Some(Self {
            address,
            loaded: bytes(did::LOADED),
            stored: bytes(did::STORED),
            stack_loaded: bytes(did::STACK_LOADED),
            stack_stored: bytes(did::STACK_STORED),
            was_loaded: bytes(did::WAS_LOADED),
            was_stored: bytes(did::WAS_STORED),
            was_stack: bytes(did::WAS_STACK),
        })
    }
}

impl Rings<'_> {
    /// A slot is no thread's: if it has pieces of a shadow, whose.
    pub(super) fn pool(&mut self, slot: u32, context: &crate::virt::context::MappedBytes) {
        let word = |at| {
            let word = context.atomic(at);
            word.map_or(0, |word| word.load(std::sync::atomic::Ordering::Acquire))
        };
        if word(offset_of!(Context, noted.known.pool)) != 0 {
            let memory = word(offset_of!(Context, space));
            self.pools.entry(memory).or_default().push(slot);
        }
    }

    /// All that was done in a memory is told; nothing is done in it any more.
    pub(super) fn shadow(&mut self, memory: u32) {
        if !self.told.insert(memory) {
            return;
        }
        let pools = self.pools.remove(&memory).unwrap_or_default();
        let own = (memory, DIRECTORY, PIECES, OWN_PIECES);
        let more = pools.iter();
        let more = more.map(|&slot| (slot, POOL_DIRECTORY, POOL_PIECES, POOL));
        for (slot, directory, pieces, most) in std::iter::once(own).chain(more) {
            let mut head = [0u8; DIRECTORY_WORDS * 8];
            if self.shared.read_region(slot, directory, &mut head).is_err() {
                self.lost += 1;
                continue;
            }
            let word = |at: u64| u64::from_le_bytes(field(&head, at as usize * 8));
            for number in 0..word(0).min(most) {
                let Some(piece) = word(1 + number).checked_sub(1) else {
                    continue;
                };
                self.piece(memory, piece << PIECE_BITS, (slot, pieces + number * PIECE));
            }
            let (from, to) = match slot == memory {
                true => (AT + LIES_BYTES, known::END),
                false => (POOL_DIRECTORY, POOL_PIECES + POOL * PIECE),
            };
            self.shared.release(slot, from, (to - from) as usize);
        }
    }

    fn piece(&mut self, memory: u32, address: u64, (slot, at): (u32, u64)) {
        let mut bytes = vec![0u8; PIECE as usize];
        if self.shared.read_region(slot, at, &mut bytes).is_err() {
            self.lost += 1;
            return;
        }
        let thread = Thread {
            slot: memory,
            memory,
        };
        let sink = self.sink.clone();
        let mut sink = sink.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.turn(thread);
        for (line, eight) in (0u64..).zip(bytes.as_chunks::<8>().0) {
            if let Some(line) = Line::new(address + line * 64, u64::from_le_bytes(*eight)) {
                sink.line(thread, &line);
            }
        }
    }

    /// How a thread's references lie that are not aligned.
    pub(super) fn lies(&mut self, thread: Thread, sink: &mut dyn super::Sink) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(LIES_BYTES as usize, 0);
        let read = self.shared.read_region(thread.slot, AT, &mut bytes);
        if read.is_err() {
            self.lost += 1;
            bytes.clear();
        }
        // (Most of it is empty.)
        let pages = bytes.as_chunks::<4096>().0.iter();
        let pages = pages.filter(|page| **page != [0; 4096]);
        for one in pages.flat_map(|page| page.as_chunks::<32>().0) {
            let word = |at: usize| u64::from_le_bytes(field(one, at));
            let record = word(0);
            let counts = [word(8), word(16), word(24)];
            if record != 0 && self.lie(thread, Record(record), counts, sink).is_none() {
                self.lost += 1;
            }
        }
        self.bytes = bytes;
    }

    /// The same of an operand. `None`: it makes no sense.
    pub(super) fn lie(
        &mut self,
        thread: Thread,
        record: Record,
        [unaligned, line_splits, page_splits]: [u64; 3],
        sink: &mut dyn super::Sink,
    ) -> Option<()> {
        let Some(Is::Lies(does)) = record.is() else {
            return None;
        };
        let (code, operand) = self.operand(record, does)?;
        let code = self.codes.get(code)?;
        if record.is_chosen() {
            sink.elements(thread, code, (record.number(), operand as usize), unaligned);
            return Some(());
        }
        let lies = Lies {
            unaligned,
            line_splits,
            page_splits,
        };
        sink.lies(thread, code, (record.number(), operand as usize), lies);
        Some(())
    }
}
