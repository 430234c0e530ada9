//! The instruction that ends a block: direct exits, branches through the
//! tables, returns, system calls.
//!
//! Facts: Intel SDM volume 2 (encodings of the branches, `SYSCALL`); which calls
//! need no care is decided in [`crate::xlate::entry`].

use super::count::{Added, count_keeping};
use super::operand::uses_gs;
use super::{Builder, Config, End, Item, Source, record};
use crate::syscall_table::{self as nr, Answer};
use crate::xlate::decode::{Insn, Kind, flag, prefix};
use crate::xlate::emit::{R11, RAX, RCX, SCRATCH, reaches};
use crate::xlate::entry::{TABLE_BYTES, Via};

impl Config {
    /// Whether the runtime answers an instruction of a kind that it can answer.
    pub(super) fn answers(&self, insn: &Insn) -> bool {
        match insn.kind {
            Kind::Asks if insn.opcode != 0xc7 || insn.has(prefix::REP) => self.own_machine,
            Kind::Xsave => self.own_machine && self.components != 0,
            _ => true,
        }
    }
}

impl Builder<'_, '_> {
    /// The instruction that ends the block.
    pub(super) fn terminate(
        &mut self,
        source: &mut dyn Source,
        item: &Item,
        counted: bool,
        total: Added,
    ) {
        let offsets = self.config.offsets;
        self.block.via = Via::of(&item.insn);
        if let Some(Via::Register(reg)) = self.block.via {
            self.by_register(item, reg, counted, total);
            return;
        }
        if self.block.via.is_some() {
            let here = self.hot.here();
            self.hot.store_gs(offsets.spill, SCRATCH);
            let mut mark = record::SPILLS;
            if !counted {
                total.through(SCRATCH, self.hot, &offsets);
                if item.insn.kind != Kind::Ret {
                    self.hot.load_gs(offsets.spill, SCRATCH);
                }
                mark |= record::COUNTS;
            }
            self.record(here, mark);
        } else if item.insn.kind == Kind::Syscall {
            if !counted {
                let here = self.hot.here();
                total.through(RCX, self.hot, &offsets);
                self.record(here, record::COUNTS);
            }
        } else if !counted {
            self.count_spilling(total);
        }
        let here = self.hot.here();
        match item.insn.kind {
            Kind::Ret => {
                self.note_return();
                self.ret(item);
            }
            Kind::JmpInd | Kind::CallInd => self.by_memory(item),
            Kind::Call => {
                self.push(item.next());
                self.note_call(Some(item.target()));
                self.exit_jmp(item.target());
            }
            Kind::Jmp => {
                if self.leaves(source, item) {
                    self.note_jump(Some(item.target()));
                }
                self.exit_jmp(item.target());
            }
            Kind::Jcc => {
                self.jcc_at_end(source, item);
                self.exit_jmp(item.next());
            }
            Kind::Loop => self.looping(item),
            Kind::Xbegin => {
                self.hot.mov_imm(RAX, 0);
                self.exit_jmp(item.target());
            }
            Kind::Syscall => {
                self.block.end = End::Syscall;
                let own = |n| match nr::answer(n) {
                    _ if self.config.in_turn || nr::brings_in(n) => true,
                    Answer::Clock => self.config.own_clock,
                    Answer::Machine => self.config.own_machine,
                    _ => {
                        self.config.own_machine
                            && (n >= nr::NEWER || nr::path_argument(n).is_some())
                    }
                };
                let plain = self.known_syscall().filter(|&n| nr::is_plain(n) && !own(n));
                let skip = plain.map(|n| self.unless_concerned(nr::answer(n) == Answer::Event));
                let number = self.first_exit + self.block.exit_count as u32;
                self.hot.set_gs32(offsets.exit_id, number);
                self.hot.jump_gs(offsets.vector_syscall);
                if let Some(displacement) = skip {
                    self.hot.land(displacement);
                    self.hot.set_gs32(offsets.whole, 1);
                }
                self.record(here, item.insn.len);
                let here = self.hot.here();
                // RCX = 0 tells a call not yet made from one to be restarted.
                self.hot.put(&[0xb9, 0, 0, 0, 0]);
                self.block.syscall = self.hot.here();
                self.hot.put(&[0x0f, 0x05]);
                self.hot.set_gs32(offsets.whole, 0);
                self.hot.mov_imm(RCX, item.next());
                self.exit_jmp(item.next());
                self.record(here, 0);
                return;
            }
            Kind::Rdtsc
            | Kind::Asks
            | Kind::LoadsGs
            | Kind::FarReturn
            | Kind::Interrupt
            | Kind::Request => {
                self.block.end = End::Answered;
                let number = self.first_exit + self.block.exit_count as u32;
                self.hot.set_gs32(offsets.exit_id, number);
                self.hot.jump_gs(offsets.vector_special);
                self.exit(item.next(), 0, 0, None);
            }
            _ => {
                self.copy(item, here, 0);
                let here = self.hot.here();
                self.exit_jmp(item.next());
                self.record(here, 0);
                return;
            }
        }
        let far = if uses_gs(&item.insn) { record::FAR } else { 0 };
        self.record(here, far | item.insn.len);
    }

    /// Jumps, to where the caller says, while no page is watched (the kernel could
    /// not write there) and, for calls on descriptors, no program has an event of
    /// the engine's. RCX and R11 are free: the call overwrites them.
    fn unless_concerned(&mut self, descriptor: bool) -> u64 {
        if descriptor {
            self.hot.mov_imm(RCX, self.config.events_word);
            self.hot.put(&[0x8b, 0x09]); // mov ecx, [rcx]
            self.hot.put(&[0x44]);
            self.hot.load32(R11 & 7, self.config.watched);
            self.hot.put(&[0x4a, 0x8d, 0x0c, 0x19]); // lea rcx, [rcx+r11]
        } else {
            self.hot.load32(RCX, self.config.watched);
        }
        self.hot.jrcxz()
    }

    /// The number, where a `mov eax, imm32` close before sets it.
    fn known_syscall(&self) -> Option<u64> {
        for at in (0..self.count.saturating_sub(1)).rev().take(8) {
            let item = self.item(at)?;
            let insn = &item.insn;
            if insn.space != 0 || insn.kind != Kind::Plain {
                return None;
            }
            match insn.opcode {
                0xb8 if insn.rex & 9 == 0 && insn.prefixes == 0 => {
                    let number = item
                        .bytes
                        .get(usize::from(insn.imm_at))
                        .copied()
                        .unwrap_or(0);
                    let high = item.bytes.get(usize::from(insn.imm_at) + 1);
                    let wide = u16::from_le_bytes([number, high.copied().unwrap_or(0xff)]);
                    return Some(u64::from(wide));
                }
                // Writes of registers other than RAX: mov, lea, xor, test, cmp.
                0xb9..=0xbf | 0x89 | 0x85 | 0x39 => {
                    if insn.opcode == 0x89 && insn.modrm & 0xc7 == 0xc0 && insn.rex & 1 == 0 {
                        return None;
                    }
                }
                0x8b | 0x8d | 0x33 | 0x63 if insn.reg() != 0 => {}
                0x31 if insn.modrm & 0xc7 != 0xc0 || insn.rex & 1 != 0 => {}
                0xc7 if insn.modrm != 0xc0 || insn.rex & 1 != 0 => {}
                _ => return None,
            }
        }
        None
    }

    /// `loop` and its like, which have no long form.
    fn looping(&mut self, item: &Item) {
        // loop taken; jmp behind; taken: jmp target; behind: jmp next
        let code = item.code();
        let head = code.get(..code.len().saturating_sub(1)).unwrap_or(&[]);
        self.hot.put(head);
        self.hot.put(&[5, 0xe9]);
        let displacement = self.hot.here();
        self.hot.put(&[0; 4]);
        let at = self.count.saturating_sub(1);
        self.note_way(at, true);
        if let Some(taken) = self.taken_at_end() {
            count_keeping(self.hot, &self.config.offsets, taken, flag::ALL);
        }
        self.exit_jmp(item.target());
        let behind = self.hot.here().wrapping_sub(displacement + 4) as u32;
        self.hot.patch32(displacement, behind);
        self.note_way(at, false);
        self.exit_jmp(item.next());
    }

    /// A jump or call through memory, or a register without a table.
    fn by_memory(&mut self, item: &Item) {
        self.load_target(item);
        self.note_target(SCRATCH);
        if item.insn.kind == Kind::CallInd {
            self.push(item.next());
            self.note_call(None);
        } else {
            self.note_jump(None);
        }
        self.jump_by_table(SCRATCH);
    }

    /// `jmp reg`, `call reg`: the target stays in the register, or in the context where that is RCX, which indexes the
    /// table. Whoever arrives knows what RCX held: it is the address of the block.
    fn by_register(&mut self, item: &Item, reg: u8, counted: bool, total: Added) {
        let offsets = self.config.offsets;
        let here = self.hot.here();
        let mark = match self.note_target(reg) {
            true => record::BRANCH,
            false => 0,
        };
        self.record(here, mark);
        let here = self.hot.here();
        if item.insn.kind == Kind::CallInd {
            self.push(item.next());
        }
        if reg != SCRATCH {
            self.hot.store_gs(offsets.spill, SCRATCH);
        }
        if reg == SCRATCH || self.config.calls.is_some() {
            self.hot.store_gs(offsets.target, reg);
        }
        if !counted {
            total.through(SCRATCH, self.hot, &offsets);
        }
        match item.insn.kind {
            Kind::CallInd => self.note_call(None),
            _ => self.note_jump(None),
        }
        if reg != SCRATCH || counted {
            self.hot.low_word(SCRATCH, reg);
        } else {
            self.hot.load_gs16(offsets.target, SCRATCH);
        }
        self.table_jump(SCRATCH);
        self.record(here, item.insn.len);
    }

    fn ret(&mut self, item: &Item) {
        let imm = item.bytes.get(usize::from(item.insn.imm_at)).copied();
        if item.insn.opcode == 0xc3 {
            self.hot.put(&[0x59]); // pop rcx
            self.jump_by_table(SCRATCH);
        } else {
            let high = item.bytes.get(usize::from(item.insn.imm_at) + 1).copied();
            let extra = u16::from_le_bytes([imm.unwrap_or(0), high.unwrap_or(0)]);
            self.hot.put(&[0x48, 0x8b, 0x0c, 0x24]); // mov rcx, [rsp]
            self.hot.store_gs(self.config.offsets.target, SCRATCH);
            self.hot.put(&[0x48, 0x8d, 0xa4, 0x24]); // lea rsp, [rsp+8+n]
            self.hot.put(&(u32::from(extra) + 8).to_le_bytes());
            self.jump_by_table(SCRATCH);
        }
    }

    /// Loads the target into the scratch register and notes it.
    fn load_target(&mut self, item: &Item) {
        let insn = &item.insn;
        if uses_gs(insn) {
            self.load_target_gs(item);
            self.hot.store_gs(self.config.offsets.target, SCRATCH);
            return;
        }
        let fs = insn.prefixes & prefix::FS != 0;
        if fs && !insn.is_rip_relative() {
            self.hot.put(&[0x64]);
        }
        if insn.is_rip_relative() {
            let operand = item.operand();
            let end = self.hot.here().wrapping_add(7);
            let near = !insn.has(prefix::FS | prefix::ADDRSIZE) && reaches(end, operand);
            if near && !self.config.force_far {
                self.hot.put(&[0x48, 0x8b, 0x0d]);
                self.hot
                    .put(&(operand.wrapping_sub(end) as u32).to_le_bytes());
            } else {
                self.hot.mov_imm(SCRATCH, operand);
                if fs {
                    self.hot.put(&[0x64]);
                }
                self.hot.put(&[0x48, 0x8b, 0x09]); // mov rcx, [rcx]
            }
        } else {
            if insn.prefixes & prefix::ADDRSIZE != 0 {
                self.hot.put(&[0x67]);
            }
            self.hot
                .put(&[0x48 | insn.rex & 3, 0x8b, insn.modrm & 0xc7 | 0x08]);
            let rest = item
                .code()
                .get(usize::from(insn.modrm_at) + 1..)
                .unwrap_or(&[]);
            self.hot.put(rest);
        }
        self.hot.store_gs(self.config.offsets.target, SCRATCH);
    }

    fn jump_by_table(&mut self, reg: u8) {
        self.hot.low_word(reg, reg);
        self.table_jump(reg);
    }

    fn table_jump(&mut self, reg: u8) {
        let way = self.block.via.map_or(0, Via::number) as u32;
        self.hot
            .jump_table(reg, self.config.tables + way * TABLE_BYTES);
    }

    /// Pushes a program return address without touching a register.
    fn push(&mut self, value: u64) {
        if let Ok(small) = i32::try_from(value as i64) {
            self.hot.put(&[0x68]);
            self.hot.put(&small.to_le_bytes());
        } else {
            let end = self.hot.here() + 6;
            let mut literal = self.config.literal;
            if literal == 0 || !reaches(end, literal) {
                literal = self.cold.here();
                self.cold.put(&value.to_le_bytes());
            } else {
                self.block.literal = Some(value);
            }
            self.hot.put(&[0xff, 0x35]);
            self.hot
                .put(&(literal.wrapping_sub(end) as u32).to_le_bytes());
        }
    }
}
