//! Where translated code names low memory of the engine by its 32-bit address, so that it can be told when that moves.

/// A way of naming an address, by the bytes in front of it (a mask, and what is there then), and how far in front of a
/// mark it lies.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    mask: u32,
    value: u32,
    distance: u64,
}

/// `jmp [table+reg*8]`; the mark is the block's end.
pub const JUMP: Reference = Reference {
    mask: 0xc7ff_ff00,
    value: 0xc524_ff00,
    distance: 4,
};
/// The look at the number of watched pages in front of a system call, `mov ecx, [address]`; the mark is the call.
pub const LOAD: Reference = Reference {
    mask: 0xffff_ff00,
    value: 0x250c_8b00,
    distance: 43,
};
/// The same in front of a call on a descriptor, `mov r11d, [address]`.
pub const LOAD_FOR_EVENTS: Reference = Reference {
    mask: 0xffff_ffff,
    value: 0x251c_8b44,
    distance: 47,
};

impl Reference {
    /// Bytes from the first one to look at to the mark.
    #[must_use]
    pub const fn reach(&self) -> u64 {
        self.distance + 4
    }

    /// The address, if the bytes from [`Reference::reach`] in front of the mark on name one.
    #[must_use]
    pub const fn address(&self, bytes: [u8; 8]) -> Option<u32> {
        let [a, b, c, d, e, f, g, h] = bytes;
        match u32::from_le_bytes([a, b, c, d]) & self.mask == self.value {
            true => Some(u32::from_le_bytes([e, f, g, h])),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{JUMP, LOAD, LOAD_FOR_EVENTS, Reference};
    use crate::xlate::block::{Block, Config, Source, build};
    use crate::xlate::decode::MAX_LEN;
    use crate::xlate::emit::Buffer;
    use crate::xlate::entry::Offsets;

    const PC: u64 = 0x40_0000;
    const HOT: u64 = 0x10_0000;
    const LOW: u32 = 0x7e80_0000;

    struct Code(Vec<u8>);

    impl Source for Code {
        fn fetch(&mut self, pc: u64, out: &mut [u8; MAX_LEN]) -> usize {
            let from = (pc - PC) as usize;
            let rest = self.0.iter().skip(from).chain(std::iter::repeat(&0x90));
            for (to, byte) in out.iter_mut().zip(rest) {
                *to = *byte;
            }
            MAX_LEN
        }
        fn live_flags(&mut self, _pc: u64) -> u8 {
            0xff
        }
    }

    fn built(code: &[u8], counter: Option<u32>) -> (Block, Vec<u8>) {
        let config = Config {
            offsets: Offsets {
                count: 0,
                lanes: 0,
                spill: 0x40,
                target: 0x48,
                spill_2: 0x50,
                exit_id: 0x58,
                vector_exit: 0x60,
                vector_syscall: 0x68,
                vector_special: 0x70,
                vector_turn: 0x78,
                fuel: 0x80,
                whole: 0x88,
                events: 0xa0,
                vector_hook: 0x98,
            },
            tables: LOW + 0x1000,
            program_gs: 0x90,
            watched: LOW,
            events_word: 0x5520_0000_1000,
            force_far: false,
            limit: 64,
            counter,
            pending: 0,
            watches: [crate::layout::Watch::default(); 4],
            own_clock: false,
            in_turn: false,
            own_machine: false,
            own_random: false,
            literal: 0,
            requests: false,
            components: 0,
            calls: None,
            noting: None,
        };
        let (mut hot, mut cold) = ([0; 4096], [0; 4096]);
        let mut emitted = Buffer::new(&mut hot, HOT);
        let mut stubs = Buffer::new(&mut cold, HOT + 0x10_0000);
        let source = &mut Code(code.to_vec());
        let block = build(source, &config, PC, 0, &mut emitted, &mut stubs);
        let len = emitted.len();
        assert!(!emitted.overflowed());
        (block, hot[..len].to_vec())
    }

    fn found(reference: Reference, bytes: &[u8], mark: usize) -> Option<u32> {
        let from = mark.checked_sub(reference.reach() as usize)?;
        reference.address(bytes[from..from + 8].try_into().unwrap())
    }

    #[test]
    fn every_branch_through_a_table_is_found() {
        // ret; ret 8; jmp [rdx+8]; call rbx; jmp rax; call rdx
        let ways: [(&[u8], u32); 6] = [
            (&[0xc3], 0),
            (&[0xc2, 8, 0], 1),
            (&[0xff, 0x62, 8], 1),
            (&[0xff, 0xd3], 1),
            (&[0xff, 0xe0], 2),
            (&[0xff, 0xd2], 4),
        ];
        for (code, way) in ways {
            for counter in [None, Some(7)] {
                for front in [&[][..], &[0x48, 0x01, 0xd8], &[0x72, 0x10]] {
                    let (_, bytes) = built(&[front, code].concat(), counter);
                    let table = LOW + 0x1000 + way * 65_536 * 8;
                    assert_eq!(found(JUMP, &bytes, bytes.len()), Some(table), "{code:02x?}");
                }
            }
        }
        // jmp rel32; and one of the program's own, copied, that looks like it.
        for code in [&[0xe9, 0, 1, 0, 0][..], &[0x0f, 0x05]] {
            let (_, bytes) = built(code, None);
            assert_eq!(found(JUMP, &bytes, bytes.len()), None);
        }
    }

    #[test]
    fn every_look_at_watched_pages_is_found() {
        for counter in [None, Some(7)] {
            // mov eax, 95 (umask), and 0 (read); syscall
            for (number, reference, other) in
                [(95, LOAD, LOAD_FOR_EVENTS), (0, LOAD_FOR_EVENTS, LOAD)]
            {
                let (block, bytes) = built(&[0xb8, number, 0, 0, 0, 0x0f, 0x05], counter);
                let mark = (block.syscall - HOT) as usize;
                assert_eq!(found(reference, &bytes, mark), Some(LOW));
                assert_eq!(found(other, &bytes, mark), None);
            }
            // One that is not known looks nowhere.
            let (block, bytes) = built(&[0x0f, 0x05], counter);
            let mark = (block.syscall - HOT) as usize;
            assert_eq!(found(LOAD, &bytes, mark), None);
            assert_eq!(found(LOAD_FOR_EVENTS, &bytes, mark), None);
        }
    }
}
