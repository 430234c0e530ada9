//! `rdpmc`: the virtual counters inline, any other counter by the instruction
//! itself (it faults, or reads the CPU's own, as it does natively).
//!
//! Facts: Intel SDM volume 2, `RDPMC`: ECX chooses, EDX:EAX is the counter, no
//! flag changes. Nothing here changes a flag either.

use super::{Builder, Item};
use crate::pmu::COUNTER;
use crate::xlate::emit::{RAX, RCX, RDX};

/// Words of the count.
const LANES: u32 = 8;

impl Builder<'_, '_> {
    /// Reads a counter; `pending` is what the sum of the lanes lacks here.
    pub(super) fn rdpmc(&mut self, item: &Item, pending: i32) {
        if self.config.counter.is_some() {
            // Counts a block: no page of ours says that the counter may be read.
            self.copy(item, self.hot.here(), 0);
            return;
        }
        let here = self.hot.here();
        let offsets = self.config.offsets;
        let first = (COUNTER as u8).wrapping_neg();
        self.hot.store_gs(offsets.spill_2, RCX);
        self.hot.put(&[0x89, 0xc9]); // mov ecx, ecx
        self.hot.put(&[0x48, 0x8d, 0x49, first]); // lea rcx, [rcx-COUNTER]
        let instructions = self.jrcxz();
        self.hot.put(&[0x48, 0x8d, 0x49, 0xff]); // lea rcx, [rcx-1]
        let nothing = self.jrcxz();
        self.hot.load_gs(offsets.spill_2, RCX);
        self.hot.put(item.code());
        let native = self.jmp();

        self.land(nothing);
        self.hot.mov_imm(RAX, 0);
        self.hot.mov_imm(RDX, 0);
        self.hot.load_gs(offsets.spill_2, RCX);
        let zero = self.jmp();

        self.land(instructions);
        self.hot.load_gs(offsets.lanes, RAX);
        for lane in 1..LANES {
            self.hot.load_gs(offsets.lanes + 8 * lane, RDX);
            self.hot.put(&[0x48, 0x8d, 0x04, 0x10]); // lea rax, [rax+rdx]
        }
        if pending != 0 {
            self.hot.put(&[0x48, 0x8d, 0x80]); // lea rax, [rax+pending]
            self.hot.put(&pending.to_le_bytes());
        }
        self.hot.store_gs(offsets.spill, RAX);
        self.hot.put(&[0x65, 0x0f, 0xb7, 0x14, 0x25]); // movzx edx, word gs:[spill+4]
        self.hot.put(&(offsets.spill + 4).to_le_bytes());
        self.hot.put(&[0x89, 0xc0]); // mov eax, eax
        self.hot.load_gs(offsets.spill_2, RCX);
        for displacement in [native, zero] {
            let distance = self.hot.here().wrapping_sub(displacement + 4) as u32;
            self.hot.patch32(displacement, distance);
        }
        self.record(here, item.insn.len);
    }

    /// `jrcxz` to where [`Self::land`] says.
    fn jrcxz(&mut self) -> u64 {
        self.hot.put(&[0xe3, 0]);
        self.hot.here() - 1
    }

    /// A `jmp` over what follows, more than a short one reaches.
    fn jmp(&mut self) -> u64 {
        self.hot.put(&[0xe9, 0, 0, 0, 0]);
        self.hot.here() - 4
    }

    /// The `jrcxz` with this displacement comes here.
    fn land(&mut self, displacement: u64) {
        let distance = self.hot.here().wrapping_sub(displacement + 1) as u8;
        self.hot.patch8(displacement, distance);
    }
}
