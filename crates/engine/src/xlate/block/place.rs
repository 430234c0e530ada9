//! Where in a block its count is added.

use super::{Builder, Place, Source};
use crate::xlate::decode::{Kind, flag};

impl Builder<'_, '_> {
    /// Where the count can go: the last point with dead flags, if any, else in
    /// front of the last instruction that overwrites a register.
    pub(super) fn place_count(&mut self, source: &mut dyn Source, next: u64) -> Option<Place> {
        let mut live = match self.item(self.count.wrapping_sub(1)) {
            Some(last) => match last.insn.kind {
                Kind::Jmp | Kind::Call | Kind::Xbegin => source.live_flags(last.target()),
                Kind::Jcc | Kind::Loop => {
                    source.live_flags(last.target()) | source.live_flags(last.next())
                }
                Kind::Plain | Kind::Rdpmc | Kind::GsBase | Kind::Xsave => source.live_flags(next),
                _ => flag::ALL,
            },
            None => flag::ALL,
        };
        let mut point = None;
        for at in (0..self.count).rev() {
            let Some(item) = self.item(at) else { continue };
            if item.insn.kind == Kind::Jcc && at + 1 < self.count {
                live |= source.live_flags(item.target());
            }
            live = (live & !item.insn.flags_written()) | item.insn.flags_read();
            if let Some(place) = self.live.get_mut(at) {
                *place = live;
            }
            if live == 0 && point.is_none() {
                point = Some(Place { at, through: None });
            }
        }
        self.block.live_in = live;
        point.or_else(|| {
            (0..self.count).rev().find_map(|at| {
                let through = self.item(at)?.insn.sets_register()?;
                let through = Some(through);
                Some(Place { at, through })
            })
        })
    }
}
