//! Pieces of code that look into the shadow: see [`crate::xlate::known`].

use crate::xlate::emit::Buffer;
use crate::xlate::known::Filter;

/// The place in the shadow of an address, in its register.
pub(super) fn point_at_shadow(code: &mut Buffer<'_>, address: u8, filter: &Filter) {
    let (high, low) = (address >> 3, address & 7);
    // shr address, 3; add address, gs:[shadow]
    code.put(&[0x48 | high, 0xc1, 0xe8 | low, 3]);
    code.put(&[0x65, 0x48 | high << 2, 0x03, 0x04 | low << 3, 0x25]);
    code.put(&filter.shadow.to_le_bytes());
}

/// `test register8, bits`.
pub(super) fn test_low(code: &mut Buffer<'_>, register: u8, bits: u8) {
    code.put(&[0x40 | register >> 3, 0xf6, 0xc0 | register & 7, bits]);
}

/// `test byte [address], bits`.
pub(super) fn test_byte(code: &mut Buffer<'_>, address: u8, bits: u8) {
    code.rex(0, address);
    code.put(&[0xf6, address & 7, bits]);
}

/// `test register32, bits`.
pub(super) fn test_bits(code: &mut Buffer<'_>, register: u8, bits: u32) {
    code.rex(0, register);
    code.put(&[0xf7, 0xc0 | register & 7]);
    code.put(&bits.to_le_bytes());
}

/// These bits of each of so many bytes, up to four.
pub(super) fn each(bits: u8, bytes: u32) -> u32 {
    (0..bytes.min(4)).fold(0, |all, at| all | u32::from(bits) << (8 * at))
}

/// `shr register, 32`.
pub(super) fn upper_half(code: &mut Buffer<'_>, register: u8) {
    code.put(&[0x48 | register >> 3, 0xc1, 0xe8 | register & 7, 32]);
}

/// What is not in so many bytes of the shadow, where `address` leads, in its place.
pub(super) fn load_shadow(code: &mut Buffer<'_>, address: u8, bytes: u32) {
    let form = (address & 7) * 9;
    let rex = |wide: u8| wide | ((address >> 3) * 5);
    match bytes {
        // movzx address32, byte [address]
        1 => {
            code.rex(address, address);
            code.put(&[0x0f, 0xb6, form]);
        }
        // movzx address32, word [address]
        2 => {
            code.rex(address, address);
            code.put(&[0x0f, 0xb7, form]);
        }
        // mov address32, [address]
        3 | 4 => code.put(&[rex(0x40), 0x8b, form]),
        // mov address, [address]
        _ => code.put(&[rex(0x48), 0x8b, form]),
    }
    // not address
    code.put(&[0x48 | address >> 3, 0xf7, 0xd0 | address & 7]);
}
