//! What the builder asks about the program.

use super::super::decode::MAX_LEN;

/// What the builder asks about the program.
pub trait Source {
    /// Copies code bytes at `pc`; returns how many could be read (0 to 15).
    fn fetch(&mut self, pc: u64, out: &mut [u8; MAX_LEN]) -> usize;
    /// Flags that may be read before they are written from `pc` on.
    fn live_flags(&mut self, pc: u64) -> u8;
    /// Whether a restartable sequence is described there: who loads its address is about to begin it.
    fn is_sequence(&mut self, _address: u64) -> bool {
        false
    }
    /// Whether the runtime is asked in front of the block at `pc`.
    fn is_hook(&mut self, _pc: u64) -> bool {
        false
    }

    /// Whether a jump leaves its function for another one's beginning: a tail call.
    fn is_tail_call(&mut self, _from: u64, _to: u64) -> bool {
        false
    }
}
