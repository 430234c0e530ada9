//! Return addresses that calls push from memory lie together: alone in the cold code, each would take a line of the
//! data cache for itself.

use super::sections::Section;

/// Bytes of a line.
const LINE: u64 = 64;

impl Section {
    /// A place for a return address; there is room for it in the cold code.
    pub(super) fn literal(&mut self) -> u64 {
        if self.literal == 0 {
            self.literal = self.cold.next_multiple_of(LINE);
            self.cold = self.literal + LINE;
        }
        self.literal
    }

    /// The place is taken.
    pub(super) fn take_literal(&mut self) {
        self.literal += 8;
        if self.literal.is_multiple_of(LINE) {
            self.literal = 0;
        }
    }
}
