//! Code that notes references whose elements a mask chooses: see [`crate::xlate::masked`]. Flags and registers stay.

use super::filter::{Value, load_address};
use super::lend::Flags;
use super::{Builder, Item, record};
use crate::xlate::decode::prefix;
use crate::xlate::emit::Buffer;
use crate::xlate::known::{Filter, Literal, Record};
use crate::xlate::masked::Masked;
use crate::xlate::recent;
use crate::xlate::references::{Noting, Words};

impl Builder<'_, '_> {
    /// In front of instruction `at`: through the runtime's routine, in any case.
    pub(super) fn note_masked(
        &mut self,
        item: &Item,
        at: usize,
        one: &Masked,
        words: &Words,
        (noting, filter): (&Noting, &Filter),
    ) {
        let flags = self.save_flags(at, words, filter);
        let live = flags != Flags::Dead;
        let (address, other) = self.lend(at, words, (live, item.insn.has(prefix::FS)));
        let here = self.hot.here();
        if flags == Flags::Apart {
            self.flags_to_rax(filter);
        }
        let cold = self.cold.here();
        self.hot.put(&[0xe9]);
        self.jumps_to(cold);
        let back = self.hot.here();
        if flags == Flags::Apart {
            self.flags_from_rax(filter);
        }
        self.record(here, record::HEAD);
        self.cold_address(item, &one.all, (address, other), (flags, filter));
        load_mask(self.cold, address, one.mask, noting.wide_masks);
        self.cold.store_gs(filter.mask, address);
        let literal = Literal {
            record: Record::masked(noting.described, at, one.all.does).0,
            counter: self.counter_at(),
            size: one.all.size,
            bits: one.shift,
            time: (recent::AT * at) as u16,
            ..Literal::default()
        };
        self.asks(
            (address, Value::Lent),
            (literal, filter.vector_masked),
            filter,
            back,
        );
    }

    /// In cold code: an address comes to where the runtime looks for it.
    pub(super) fn cold_address(
        &mut self,
        item: &Item,
        one: &crate::xlate::known::Simple,
        (address, other): (u8, u8),
        (flags, filter): (Flags, &Filter),
    ) {
        // The register with the flags may be one of the address'.
        let swap = flags == Flags::Apart;
        let exchange = |code: &mut Buffer<'_>| {
            if swap {
                // xchg gs:[spill], rax
                code.put(&[0x65, 0x48, 0x87, 0x04, 0x25]);
                code.put(&filter.spill.to_le_bytes());
            }
        };
        exchange(self.cold);
        load_address(self.cold, item, one, (address, other));
        exchange(self.cold);
        self.cold.store_gs(filter.address, address);
    }
}

/// `kmovq to, mask`, or `kmovw`.
fn load_mask(code: &mut Buffer<'_>, to: u8, mask: u8, wide: bool) {
    let (low, high) = (to & 7, to >> 3);
    let modrm = 0xc0 | low << 3 | mask;
    // (VEX.R is inverted. The destination is in ModRM.reg.)
    match wide {
        true => code.put(&[0xc4, (high ^ 1) << 7 | 0x61, 0xfb, 0x93, modrm]),
        false => code.put(&[0xc5, (high ^ 1) << 7 | 0x78, 0x93, modrm]),
    }
}
