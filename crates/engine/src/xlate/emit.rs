//! The emitter: a bounds-checked code buffer at a known address, and the few
//! instructions the translator writes itself. Encodings: Intel SDM volume 2.
//! None of them touches the arithmetic flags except [`Buffer::add_gs`].

/// Code being written; `address` is where `bytes[0]` will run.
pub struct Buffer<'a> {
    bytes: &'a mut [u8],
    address: u64,
    len: usize,
    overflow: bool,
}

/// RAX in encodings.
pub const RAX: u8 = 0;
/// RCX in encodings.
pub const RCX: u8 = 1;
/// RDX in encodings.
pub const RDX: u8 = 2;
/// R11 in encodings.
pub const R11: u8 = 11;
/// The register that translated code borrows where it needs one. It passes
/// through memory then, which nobody must wait for: return values and base
/// pointers are elsewhere, and programs set RCX afresh all the time, so the
/// trips do not form a chain (with R11 they do, with RAX results wait).
pub const SCRATCH: u8 = RCX;

impl<'a> Buffer<'a> {
    /// An empty buffer over `bytes` that will run at `address`.
    pub fn new(bytes: &'a mut [u8], address: u64) -> Self {
        Self {
            bytes,
            address,
            len: 0,
            overflow: false,
        }
    }
    /// Bytes written.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Nothing written yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Address of the next byte.
    pub fn here(&self) -> u64 {
        self.address + self.len as u64
    }
    /// Something did not fit: what was written is not to be used.
    pub fn overflowed(&self) -> bool {
        self.overflow
    }
    /// Appends bytes.
    pub fn put(&mut self, code: &[u8]) {
        match self.bytes.get_mut(self.len..self.len + code.len()) {
            Some(place) => {
                // A plain loop: short, and no call of memcpy.
                for (to, from) in place.iter_mut().zip(code) {
                    *to = *from;
                }
                self.len += code.len();
            }
            None => self.overflow = true,
        }
    }
    /// Overwrites four bytes at `address`, which must lie in what was written.
    pub fn patch32(&mut self, address: u64, value: u32) {
        let at = address.wrapping_sub(self.address) as usize;
        match self.bytes.get_mut(at..at.wrapping_add(4)) {
            Some(place) => place.copy_from_slice(&value.to_le_bytes()),
            None => self.overflow = true,
        }
    }
    /// Overwrites one byte at `address`.
    pub fn patch8(&mut self, address: u64, value: u8) {
        match self
            .bytes
            .get_mut(address.wrapping_sub(self.address) as usize)
        {
            Some(place) => *place = value,
            None => self.overflow = true,
        }
    }
    fn put32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }
    /// `add qword gs:[offset], value`: the count where flags are dead.
    pub fn add_gs(&mut self, offset: u32, value: i32) {
        if let Ok(small) = i8::try_from(value) {
            self.put(&[0x65, 0x48, 0x83, 0x04, 0x25]);
            self.put32(offset);
            self.put(&[small as u8]);
        } else {
            self.put(&[0x65, 0x48, 0x81, 0x04, 0x25]);
            self.put32(offset);
            self.put32(value as u32);
        }
    }
    /// `mov gs:[offset], reg` (64 bits).
    pub fn store_gs(&mut self, offset: u32, reg: u8) {
        self.put(&[
            0x65,
            0x48 | (reg >> 3) << 2,
            0x89,
            0x04 | (reg & 7) << 3,
            0x25,
        ]);
        self.put32(offset);
    }
    /// `mov reg, gs:[offset]` (64 bits).
    pub fn load_gs(&mut self, offset: u32, reg: u8) {
        self.put(&[
            0x65,
            0x48 | (reg >> 3) << 2,
            0x8b,
            0x04 | (reg & 7) << 3,
            0x25,
        ]);
        self.put32(offset);
    }
    /// `lea reg, [reg+value]`, not for RSP and R12.
    pub fn add_by_lea(&mut self, reg: u8, value: i32) {
        let (rex, both) = (0x48 | ((reg >> 3) * 5), (reg & 7) * 9);
        match i8::try_from(value) {
            Ok(small) => self.put(&[rex, 0x8d, 0x40 | both, small as u8]),
            Err(_) => {
                self.put(&[rex, 0x8d, 0x80 | both]);
                self.put32(value as u32);
            }
        }
    }
    /// The prefix of an instruction of 32 bits, or of the low byte of AL, CL, DL and BL, that names these registers in `reg`
    /// and `rm`, where it needs one.
    pub fn rex(&mut self, reg: u8, rm: u8) {
        if (reg | rm) & 8 != 0 {
            self.put(&[0x40 | (reg >> 3) << 2 | rm >> 3]);
        }
    }
    /// `mov reg32, gs:[offset]`, for the low eight registers.
    pub fn load_gs32(&mut self, offset: u32, reg: u8) {
        self.put(&[0x65, 0x8b, 0x04 | (reg & 7) << 3, 0x25]);
        self.put32(offset);
    }
    /// The arithmetic flags into AH and AL (`lahf`, `seto al`).
    pub fn flags_to_rax(&mut self) {
        self.put(&[0x9f, 0x0f, 0x90, 0xc0]);
    }
    /// Back (`add al, 127`, which overflows if there was an overflow, `sahf`).
    pub fn flags_from_rax(&mut self) {
        self.put(&[0x04, 0x7f, 0x9e]);
    }
    /// `mov to, from` (64 bits).
    pub fn move_register(&mut self, to: u8, from: u8) {
        let rex = 0x48 | (from >> 3) << 2 | to >> 3;
        self.put(&[rex, 0x89, 0xc0 | (from & 7) << 3 | to & 7]);
    }
    /// The count through a register that is free (not RSP), flags untouched.
    pub fn count_through(&mut self, reg: u8, offset: u32, value: i32) {
        self.load_gs(offset, reg);
        // lea reg, [reg+value]; R12 as a base needs a SIB byte.
        let small = i8::try_from(value);
        let form = if small.is_ok() { 0x40 } else { 0x80 };
        self.put(&[0x48 | ((reg >> 3) * 5), 0x8d, form | ((reg & 7) * 9)]);
        if reg & 7 == 4 {
            self.put(&[0x24]);
        }
        match small {
            Ok(small) => self.put(&[small as u8]),
            Err(_) => self.put32(value as u32),
        }
        self.store_gs(offset, reg);
    }
    /// `movzx reg32, word gs:[offset]`.
    pub fn load_gs16(&mut self, offset: u32, reg: u8) {
        self.put(&[0x65]);
        if reg >= 8 {
            self.put(&[0x44]);
        }
        self.put(&[0x0f, 0xb7, 0x04 | (reg & 7) << 3, 0x25]);
        self.put32(offset);
    }
    /// `movzx to32, from16`, for the low eight registers.
    pub fn low_word(&mut self, to: u8, from: u8) {
        self.put(&[0x0f, 0xb7, 0xc0 | (to & 7) << 3 | from & 7]);
    }
    /// `jmp qword [reg*8+table]`; `reg` is not RSP.
    pub fn jump_table(&mut self, reg: u8, table: u32) {
        if reg >= 8 {
            self.put(&[0x42]);
        }
        self.put(&[0xff, 0x24, 0xc5 | (reg & 7) << 3]);
        self.put32(table);
    }
    /// `mov reg32, [address]` for an address below 2 GiB.
    pub fn load32(&mut self, reg: u8, address: u32) {
        self.put(&[0x8b, 0x04 | (reg & 7) << 3, 0x25]);
        self.put32(address);
    }
    /// `jrcxz` to where [`Buffer::land`] says.
    pub fn jrcxz(&mut self) -> u64 {
        self.put(&[0xe3, 0]);
        self.here().wrapping_sub(1)
    }
    /// The jump with its displacement at `displacement` lands here.
    pub fn land(&mut self, displacement: u64) {
        let distance = self.here().wrapping_sub(displacement + 1);
        self.patch8(displacement, distance as u8);
    }
    /// `mov dword gs:[offset], value`.
    pub fn set_gs32(&mut self, offset: u32, value: u32) {
        self.put(&[0x65, 0xc7, 0x04, 0x25]);
        self.put32(offset);
        self.put32(value);
    }
    /// `mov byte gs:[offset], value`.
    pub fn set_gs8(&mut self, offset: u32, value: u8) {
        self.put(&[0x65, 0xc6, 0x04, 0x25]);
        self.put32(offset);
        self.put(&[value]);
    }
    /// `jmp qword gs:[offset]`.
    pub fn jump_gs(&mut self, offset: u32) {
        self.put(&[0x65, 0xff, 0x24, 0x25]);
        self.put32(offset);
    }
    /// `mov reg, value`, the shortest of three encodings.
    pub fn mov_imm(&mut self, reg: u8, value: u64) {
        if let Ok(small) = u32::try_from(value) {
            if reg >= 8 {
                self.put(&[0x41]);
            }
            self.put(&[0xb8 | reg & 7]);
            self.put32(small);
        } else if let Ok(signed) = i32::try_from(value as i64) {
            self.put(&[0x48 | reg >> 3, 0xc7, 0xc0 | reg & 7]);
            self.put32(signed as u32);
        } else {
            self.put(&[0x48 | reg >> 3, 0xb8 | reg & 7]);
            self.put(&value.to_le_bytes());
        }
    }
    /// Pads the branch that follows with prefixes that mean nothing to it (CS), so
    /// that the four bytes after `skip` more lie in one aligned quadword: they can
    /// be patched while others run them (AMD APM volume 2, 7.6.1, asynchronous
    /// cross-modification).
    pub fn align_patch(&mut self, skip: u64) {
        let at = (self.here() + skip) & 7;
        if at > 4 {
            let pad = [0x2e; 3];
            self.put(pad.get(..8 - at as usize).unwrap_or(&[]));
        }
        // A jump with the byte in front of them.
        if skip == 1 && self.here() & 7 == 7 {
            self.put(&[0x2e]);
        }
    }
    /// `jmp rel32`; returns the address of the displacement. All of its five bytes are in one quadword: so it can become a
    /// `nop` where it would jump to what follows.
    pub fn jmp(&mut self, target: u64) -> u64 {
        self.align_patch(1);
        self.put(&[0xe9]);
        self.rel32(target)
    }
    /// `jcc rel32` for the low four bits of `condition`.
    pub fn jcc(&mut self, condition: u8, target: u64) -> u64 {
        self.align_patch(2);
        self.put(&[0x0f, 0x80 | condition & 15]);
        self.rel32(target)
    }
    fn rel32(&mut self, target: u64) -> u64 {
        let at = self.here();
        self.put32(target.wrapping_sub(at + 4) as u32);
        at
    }
}

/// Whether `to` can be reached by a 32-bit displacement counted from `from`.
pub fn reaches(from: u64, to: u64) -> bool {
    i32::try_from(to.wrapping_sub(from) as i64).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_match_the_manual() {
        let mut bytes = [0u8; 128];
        let mut buffer = Buffer::new(&mut bytes, 0x1000);
        buffer.add_gs(8, 5);
        buffer.store_gs(0x10, 15);
        buffer.load_gs(0x10, 1);
        buffer.mov_imm(9, 0x1122_3344_5566);
        let len = buffer.len();
        assert_eq!(
            bytes[..len],
            [
                0x65, 0x48, 0x83, 0x04, 0x25, 8, 0, 0, 0, 5, // add qword gs:[8], 5
                0x65, 0x4c, 0x89, 0x3c, 0x25, 0x10, 0, 0, 0, // mov gs:[16], r15
                0x65, 0x48, 0x8b, 0x0c, 0x25, 0x10, 0, 0, 0, // mov rcx, gs:[16]
                0x49, 0xb9, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0,
            ]
        );
    }

    #[test]
    fn patchable_displacements_stay_in_a_quadword() {
        for start in 0..64 {
            let mut bytes = [0u8; 32];
            let mut buffer = Buffer::new(&mut bytes, 0x4000 + start);
            let at = buffer.jmp(0x4000);
            assert_eq!(at >> 3, (at + 3) >> 3, "start {start}");
            // All of it: it can become a `nop`.
            assert_eq!((at - 1) >> 3, (at + 3) >> 3, "start {start}");
        }
    }

    #[test]
    fn a_full_buffer_says_so() {
        let mut bytes = [0u8; 3];
        let mut buffer = Buffer::new(&mut bytes, 0);
        buffer.add_gs(0, 1);
        assert!(buffer.overflowed());
    }
}
