//! Bits of [`super::Record::guest`] above the length.

/// The length.
pub const LEN: u8 = 15;
/// Once this is through, the block's count has been added.
pub const COUNTS: u8 = 16;
/// From here on the scratch register is in the spill slot.
pub const SPILLS: u8 = 32;
/// Uses a spilled register to reach far data: RSI, RDI or RBX.
pub const FAR: u8 = 64;
/// Once this is through, the block's head is in the ring (`xlate::references`).
pub const HEAD: u8 = 128;
/// Once this is through, the instruction's branch has been noted or predicted (`xlate::recent`, `xlate::predictor`).
pub const BRANCH: u8 = HEAD | FAR;
