//! What a program says to Valgrind, and places where the runtime is asked in front of a block.
//!
//! A client request is a sequence of instructions that does nothing natively, and that no compiler writes: four
//! rotations of RDI by 128 bits in all, then an exchange of RBX with itself (`valgrind.h`, amd64). Its 19 bytes are one
//! instruction here, as in Valgrind, which the runtime answers.

use super::{Builder, Source};
use crate::xlate::decode::MAX_LEN;

/// Bytes of the sequence.
pub const REQUEST_LEN: u64 = 19;
/// What stands in front of the instruction that tells requests from other such sequences.
const ROTATIONS: [u8; 16] = [
    0x48, 0xc1, 0xc7, 0x03, 0x48, 0xc1, 0xc7, 0x0d, 0x48, 0xc1, 0xc7, 0x3d, 0x48, 0xc1, 0xc7, 0x33,
];

/// Whether these bytes end a request: `xchg rbx, rbx`, or `mov rbx, rbx` in newer headers.
pub fn is_mark(bytes: &[u8]) -> bool {
    matches!(bytes, [0x48, 0x87 | 0x89 | 0x8b, 0xdb, ..])
}

/// Whether a request stands at `pc`, where these bytes were read.
pub(super) fn is_request(source: &mut dyn Source, pc: u64, bytes: &[u8; MAX_LEN]) -> bool {
    if bytes.get(..4) != ROTATIONS.get(..4) || bytes[..] != ROTATIONS[..MAX_LEN] {
        return false;
    }
    let mut rest = [0u8; MAX_LEN];
    let readable = source.fetch(pc.wrapping_add(MAX_LEN as u64), &mut rest);
    match rest.get(..readable) {
        Some([last, mark @ ..]) => Some(last) == ROTATIONS.last() && is_mark(mark),
        _ => false,
    }
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
