//! Bits of [`super::Record::guest`] above the length. (With [`HEAD`] it is no instruction's.)

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
/// Once this is through, the register with the number in the low bits is in a slot ([`slot`]), and is not the program's …
pub const LENT: u8 = HEAD | SPILLS;
/// … and once this is through it is the program's again.
pub const BACK: u8 = HEAD | COUNTS;

/// Once this is through, the flags are in RAX, and what the program has there is in its spill slot; with the lowest bit they are
/// where they belong again.
pub const FLAGS: u8 = HEAD | SPILLS | COUNTS;

/// Which slot, beside [`LENT`] and [`BACK`].
pub const fn slot(number: usize) -> u8 {
    if number == 0 { 0 } else { FAR }
}
