//! What a program says to Valgrind, and places where the runtime is asked in front of a block.
//!
//! A client request is a sequence of instructions that does nothing natively, and that no compiler writes: four
//! rotations of RDI by 128 bits in all, then an exchange of a register with itself (`valgrind.h`, amd64), which says what
//! is wanted. Its 19 bytes are one instruction here, as in Valgrind: one that the runtime answers, or, for
//! `VALGRIND_CALL_NOREDIR_RAX`, a call of the address in RAX (no function is redirected here).

use super::{Builder, Item, Source};
use crate::xlate::decode::{Kind, MAX_LEN, decode};

/// Bytes of the sequence.
const REQUEST_LEN: u8 = 19;
/// What stands in front of the instruction that tells requests from other such sequences.
const ROTATIONS: [u8; 16] = [
    0x48, 0xc1, 0xc7, 0x03, 0x48, 0xc1, 0xc7, 0x0d, 0x48, 0xc1, 0xc7, 0x3d, 0x48, 0xc1, 0xc7, 0x33,
];

/// What a sequence asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Of the tool or of Valgrind: RAX points at what.
    Client,
    /// The function that was redirected to this one, in RAX (`VALGRIND_GET_NR_CONTEXT`).
    Original,
    /// A call of the address in RAX, without redirection.
    Call,
}

/// What the instruction that ends a sequence means: an exchange of a register with itself, or a move, as newer headers
/// have it.
pub fn meaning(bytes: &[u8]) -> Option<Request> {
    match bytes {
        [0x48, 0x87 | 0x89 | 0x8b, 0xdb, ..] => Some(Request::Client),
        [0x48, 0x87 | 0x89 | 0x8b, 0xc9, ..] => Some(Request::Original),
        [0x48, 0x87 | 0x89 | 0x8b, 0xd2, ..] => Some(Request::Call),
        _ => None,
    }
}

/// What the sequence at `pc` asks for, where these bytes were read; `None`: it is none.
fn request(source: &mut dyn Source, pc: u64, bytes: &[u8; MAX_LEN]) -> Option<Request> {
    if bytes.get(..4) != ROTATIONS.get(..4) || bytes[..] != ROTATIONS[..MAX_LEN] {
        return None;
    }
    let mut rest = [0u8; MAX_LEN];
    let readable = source.fetch(pc.wrapping_add(MAX_LEN as u64), &mut rest);
    match rest.get(..readable) {
        Some([last, mark @ ..]) if Some(last) == ROTATIONS.last() => meaning(mark),
        _ => None,
    }
}

/// Makes the first instruction of a sequence the whole of it.
pub(super) fn put(source: &mut dyn Source, item: &mut Item) {
    match request(source, item.pc, &item.bytes) {
        None => return,
        Some(Request::Call) => {
            const CALL_RAX: [u8; 2] = [0xff, 0xd0];
            let Ok(insn) = decode(&CALL_RAX) else { return };
            item.insn = insn;
            item.bytes[..2].copy_from_slice(&CALL_RAX);
        }
        Some(_) => item.insn.kind = Kind::Request,
    }
    item.len = REQUEST_LEN;
}

impl Builder<'_, '_> {
    /// The runtime is asked before the block at `start` begins; it goes on behind this.
    pub(super) fn hook(&mut self, start: u64) {
        let here = self.hot.here();
        let offsets = self.config.offsets;
        let number = self.first_exit + self.block.exit_count as u32;
        self.hot.set_gs32(offsets.exit_id, number);
        self.hot.jump_gs(offsets.vector_hook);
        self.exit(start, 0, 0, None);
        self.block.hook = self.hot.here();
        self.record(here, 0);
    }
}
