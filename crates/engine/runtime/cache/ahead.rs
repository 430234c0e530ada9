//! What the block builder asks about the program: its bytes, and which flags
//! are alive further on.

use crate::pages;
use crate::xlate::block::Source;
use crate::xlate::decode::{Kind, MAX_LEN, decode, flag};

pub(super) struct Reader<'a> {
    pub(super) live: &'a mut [(u64, u8); 512],
    pub(super) pages: &'a mut pages::Pages,
}

impl Source for Reader<'_> {
    fn fetch(&mut self, pc: u64, out: &mut [u8; MAX_LEN]) -> usize {
        self.pages.fetch(pc, out)
    }

    /// Looks a few instructions ahead, never into code that may change.
    fn live_flags(&mut self, pc: u64) -> u8 {
        let slot = (pc ^ pc >> 9) as usize & 511;
        if let Some(&(at, live)) = self.live.get(slot)
            && at == pc
        {
            return live;
        }
        let (mut live, mut dead) = (0u8, 0u8);
        let mut at = pc;
        for step in 0..12 {
            let mut bytes = [0u8; MAX_LEN];
            if !self.pages.is_constant(at) {
                live |= flag::ALL & !dead;
                break;
            }
            let readable = self.pages.fetch(at, &mut bytes);
            let Ok(insn) = decode(bytes.get(..readable).unwrap_or(&[])) else {
                live |= flag::ALL & !dead;
                break;
            };
            live |= insn.flags_read() & !dead;
            dead |= insn.flags_written();
            if dead == flag::ALL || live | dead == flag::ALL {
                break;
            }
            at = at.wrapping_add(u64::from(insn.len));
            match insn.kind {
                Kind::Plain if step < 11 => {}
                Kind::Jmp | Kind::Call if step < 11 => {
                    at = at.wrapping_add_signed(i64::from(insn.rel));
                }
                _ => {
                    live |= flag::ALL & !dead;
                    break;
                }
            }
        }
        if let Some(place) = self.live.get_mut(slot) {
            *place = (pc, live);
        }
        live
    }
}
