//! Random pieces of code that end: any encodable instruction, memory operands that mostly reach the scratch area,
//! forward branches of every kind, calls, returns, and short loops.

use super::case::{AREA, CODE, Case, MIDDLE, SCRATCH, WAY_OUT};
use super::choose::{common, forbidden};
use iced_x86::{
    Decoder, DecoderOptions, EncodingKind, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register,
};

/// A small generator of random numbers (SplitMix64), so that a seed says everything.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// True once in `n` times.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// Builds cases.
pub struct Generator {
    pub random: Random,
    info: InstructionInfoFactory,
}

/// Registers that point into the scratch area: RBX, RBP, RSI, RDI.
const POINTERS: [Register; 4] = [Register::RBX, Register::RBP, Register::RSI, Register::RDI];
/// Which of them a case keeps as pointers. What it keeps is moved by string instructions only, and what it does
/// not keep addresses nothing: else a chance value would reach the engine's memory, which is not there natively.
const KEPT: [&[Register]; 4] = [
    &POINTERS,
    &[Register::RBP, Register::RSI, Register::RDI],
    &[Register::RBX, Register::RSI, Register::RDI],
    &[Register::RBX, Register::RBP],
];
/// Room that the end of a case needs.
const END: usize = 40;

/// A piece of code while it grows.
struct Piece {
    at: u64,
    code: Vec<u8>,
    /// RCX counts a loop.
    looping: bool,
    pointers: &'static [Register],
}

impl Piece {
    fn here(&self) -> u64 {
        self.at + self.code.len() as u64
    }

    /// `op` with a 32-bit displacement to `target`.
    fn near(&mut self, op: &[u8], target: u64) {
        self.code.extend(op);
        let next = self.here() + 4;
        let displacement = target.wrapping_sub(next) as u32;
        self.code.extend(displacement.to_le_bytes());
    }

    /// `op` with a displacement that [`Piece::land`] fills in.
    fn forward(&mut self, op: &[u8], wide: bool) -> usize {
        self.code.extend(op);
        self.code
            .extend(if wide { &[0; 4][..] } else { &[0; 1][..] });
        self.code.len()
    }

    /// The branch that ends at `from` goes here.
    fn land(&mut self, from: usize, wide: bool) {
        let distance = self.code.len() - from;
        if wide {
            self.code[from - 4..from].copy_from_slice(&(distance as u32).to_le_bytes());
        } else {
            self.code[from - 1] = u8::try_from(distance).expect("short branches are short");
        }
    }
}

impl Generator {
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            info: InstructionInfoFactory::new(),
        }
    }

    /// The case with this number (its code lies at a place of its own).
    pub fn case(&mut self, number: usize) -> Case {
        let mut registers: [u64; 16] = std::array::from_fn(|_| self.value());
        for register in POINTERS {
            registers[register.number()] = SCRATCH + MIDDLE + self.random.below(64) * 8;
        }
        // CF, PF, AF, ZF, SF, OF; sometimes DF.
        let mut flags = 2 | self.random.next() & 0x8d5;
        if self.random.one_in(16) {
            flags |= 0x400;
        }
        let mut piece = Piece {
            at: Case::address(number),
            code: Vec::new(),
            looping: false,
            pointers: self.random.pick(&KEPT),
        };
        let parts = 1 + self.random.below(12);
        for _ in 0..parts {
            self.part(&mut piece, 0);
        }
        // jmp [way out]
        piece.near(&[0xff, 0x25], WAY_OUT);
        Case {
            registers,
            flags,
            code: piece.code,
        }
    }

    fn value(&mut self) -> u64 {
        let value = self.any_value();
        // A pointer that becomes such a value must not reach the engine's memory.
        let engine = [
            0x5c00_0000..0x8000_0000,
            1 << 32..0x1_4000_0000,
            0x3000_0000_0000..0x5600_0000_0000_u64,
        ];
        if engine.iter().any(|area| area.contains(&value)) {
            return 1;
        }
        value
    }

    fn any_value(&mut self) -> u64 {
        match self.random.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => self.random.below(256),
            3 => 1 << self.random.below(64),
            4 => self.random.next() as u32 as u64,
            _ => self.random.next(),
        }
    }

    fn part(&mut self, piece: &mut Piece, depth: u32) {
        if piece.code.len() + END + 120 > CODE {
            return;
        }
        match self.random.below(if depth > 2 { 10 } else { 20 }) {
            10 | 11 | 12 | 18 => self.branch(piece, depth),
            13 => self.call(piece),
            14 => self.indirect(piece, depth),
            15 if !piece.looping => self.repeat(piece),
            16 => {
                // pushfq; …; popfq
                piece.code.push(0x9c);
                self.balanced(piece, 2);
                piece.code.push(0x9d);
            }
            _ => self.straight(piece, 4),
        }
    }

    fn inner(&mut self, piece: &mut Piece, depth: u32) {
        for _ in 0..self.random.below(3) {
            self.part(piece, depth + 1);
        }
    }

    /// Over something, on a condition or always.
    fn branch(&mut self, piece: &mut Piece, depth: u32) {
        let wide = depth == 0 || self.random.one_in(2);
        let condition = self.random.below(16) as u8;
        let from = match (self.random.below(8), wide) {
            // jrcxz, and `loop` family where RCX is free: they only know short displacements.
            (0, false) => piece.forward(&[0xe3], false),
            (1, false) if !piece.looping => {
                let op = 0xe0 + self.random.below(3) as u8;
                piece.forward(&[op], false)
            }
            (2, true) => piece.forward(&[0xe9], true),
            (2, false) => piece.forward(&[0xeb], false),
            (_, true) => piece.forward(&[0x0f, 0x80 + condition], true),
            (_, false) => piece.forward(&[0x70 + condition], false),
        };
        if wide {
            self.inner(piece, depth);
        } else {
            self.straight(piece, 3);
        }
        piece.land(from, wide);
    }

    /// call f; jmp over; f: …; ret; over:
    fn call(&mut self, piece: &mut Piece) {
        let call = piece.forward(&[0xe8], true);
        self.straight(piece, 2);
        let over = piece.forward(&[0xe9], true);
        piece.land(call, true);
        self.balanced(piece, 3);
        if self.random.one_in(3) {
            self.branch_balanced(piece);
        }
        if self.random.one_in(4) {
            // ret 0: with an operand, yet nothing to pop.
            piece.code.extend([0xc2, 0, 0]);
        } else {
            piece.code.push(0xc3);
        }
        piece.land(over, true);
    }

    /// What leaves the stack and its pointer alone.
    fn balanced(&mut self, piece: &mut Piece, most: u64) {
        for _ in 0..self.random.below(most + 1) {
            if let Some(bytes) = self.instruction(piece, true) {
                piece.code.extend(bytes);
            }
        }
    }

    fn branch_balanced(&mut self, piece: &mut Piece) {
        let condition = self.random.below(16) as u8;
        let from = piece.forward(&[0x70 + condition], false);
        self.balanced(piece, 1);
        piece.land(from, false);
    }

    /// lea r11, [target]; jmp r11, or through memory, or by a return, or as a call.
    fn indirect(&mut self, piece: &mut Piece, depth: u32) {
        let lea = piece.forward(&[0x4c, 0x8d, 0x1d], true);
        match self.random.below(4) {
            0 => piece.code.extend([0x41, 0xff, 0xe3]),
            // push r11; ret
            1 => piece.code.extend([0x41, 0x53, 0xc3]),
            // push r11; jmp [rsp]
            2 => piece.code.extend([0x41, 0x53, 0xff, 0x24, 0x24]),
            _ => piece.code.extend([0x41, 0xff, 0xd3]),
        }
        self.inner(piece, depth);
        piece.land(lea, true);
    }

    /// A loop of a few rounds: mov ecx, n; l: …; dec ecx; jnz l, or `loop`.
    fn repeat(&mut self, piece: &mut Piece) {
        let rounds = 1 + self.random.below(20) as u32;
        piece.code.push(0xb9);
        piece.code.extend(rounds.to_le_bytes());
        let start = piece.code.len();
        piece.looping = true;
        piece.code.push(0x90);
        self.balanced(piece, 4);
        if self.random.one_in(3) {
            self.branch_balanced(piece);
        }
        piece.looping = false;
        let with_loop = self.random.one_in(2);
        if !with_loop {
            piece.code.extend([0xff, 0xc9]);
        }
        let length = piece.code.len() + 2 - start;
        let back = (length as u8).wrapping_neg();
        piece
            .code
            .extend([if with_loop { 0xe2 } else { 0x75 }, back]);
    }

    fn straight(&mut self, piece: &mut Piece, most: u64) {
        for _ in 0..1 + self.random.below(most) {
            if let Some(bytes) = self.instruction(piece, false) {
                piece.code.extend(bytes);
            }
        }
    }

    /// One instruction, valid and harmless; `None` where luck does not help.
    fn instruction(&mut self, piece: &Piece, balanced: bool) -> Option<Vec<u8>> {
        (0..200).find_map(|_| {
            let bytes = self.encoding(piece);
            let mut decoder = Decoder::with_ip(64, &bytes, piece.here(), DecoderOptions::NONE);
            let instruction = decoder.decode();
            let fits = !instruction.is_invalid() && self.harmless(&instruction, piece, balanced);
            fits.then(|| bytes[..instruction.len()].to_vec())
        })
    }

    fn harmless(&mut self, i: &Instruction, piece: &Piece, balanced: bool) -> bool {
        if i.flow_control() != FlowControl::Next || forbidden(i.mnemonic()) {
            return false;
        }
        // Some that fault are enough.
        let faults =
            i.is_privileged() || i.cpuid_features().iter().any(|&feature| !common(feature));
        if faults && !self.random.one_in(30) {
            return false;
        }
        // Relative to EIP: no compiler makes it, and the engine says that it does not know it.
        if i.memory_base() == Register::EIP {
            return false;
        }
        // Other addresses may be the engine's memory, which the program does not have natively.
        let area = SCRATCH..SCRATCH + AREA as u64 - 64;
        if i.is_ip_rel_memory_operand() && !area.contains(&i.ip_rel_memory_address()) {
            return false;
        }
        // Random bases would reach it, too, those that the instruction does not spell out among them.
        let based = self.info.info(i).used_memory().iter().all(|used| {
            matches!(used.base(), Register::None | Register::RIP | Register::RSP)
                || piece.pointers.contains(&used.base())
        });
        if !based {
            return false;
        }
        let memory = (0..i.op_count()).any(|n| i.op_kind(n) == OpKind::Memory);
        let near = i.memory_base() == Register::RIP
            || (i.memory_displacement64() as i64).unsigned_abs() < AREA as u64;
        let plain = i.memory_index() == Register::None && i.memory_base() != Register::None;
        // A bit's number in a register reaches anywhere.
        let bits = matches!(
            i.mnemonic(),
            Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
        );
        if memory && !(near && plain && !bits) {
            return false;
        }
        if matches!(i.segment_prefix(), Register::FS | Register::GS) {
            return false;
        }
        // With a bit set that has no meaning for them, AMD's Zen 5 reads something undefined.
        let general = (0..i.op_count())
            .any(|n| i.op_kind(n) == OpKind::Register && i.op_register(n).is_gpr());
        if general && i.encoding() == EncodingKind::EVEX {
            return false;
        }
        let stack = i.is_stack_instruction();
        if stack
            && (balanced
                || !matches!(
                    i.mnemonic(),
                    Mnemonic::Push | Mnemonic::Pop | Mnemonic::Pushfq
                ))
        {
            return false;
        }
        if i.mnemonic() == Mnemonic::Pop && i.op0_register().full_register() == Register::RSP {
            return false;
        }
        let string = i.is_string_instruction();
        for used in self.info.info(i).used_registers() {
            let writes = !matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
            );
            if !writes {
                continue;
            }
            let register = used.register();
            if register.is_segment_register() {
                return false;
            }
            match register.full_register() {
                Register::RSP if !stack => return false,
                Register::RCX if piece.looping => return false,
                pointer if piece.pointers.contains(&pointer) && !string => return false,
                _ => {}
            }
        }
        true
    }

    /// Bytes that begin with something like an instruction.
    fn encoding(&mut self, piece: &Piece) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        if self.random.one_in(5) {
            bytes.push(0x66);
        }
        if self.random.one_in(12) {
            let prefix = self.random.pick(&[0xf2, 0xf3, 0xf0, 0x2e, 0x3e]);
            bytes.push(prefix);
        }
        let class = self.random.below(16);
        if class < 12 && self.random.one_in(2) {
            bytes.push(0x40 | self.random.byte() & 0xf);
        }
        match class {
            0..=5 => bytes.push(self.random.byte()),
            6..=8 => bytes.extend([0x0f, self.random.byte()]),
            9 => {
                let map = self.random.pick(&[0x38, 0x3a]);
                bytes.extend([0x0f, map, self.random.byte()]);
            }
            10 => bytes.push(0xd8 + self.random.below(8) as u8),
            11 => {
                let op = self
                    .random
                    .pick(&[0xa4, 0xa5, 0xaa, 0xab, 0xa6, 0xa7, 0xae, 0xac]);
                bytes.push(op);
            }
            12 => {
                bytes.clear();
                bytes.extend([0xc5, self.random.byte(), self.random.byte()]);
            }
            13 => {
                bytes.clear();
                let map = 0xe0 & self.random.byte() | 1 + self.random.below(3) as u8;
                bytes.extend([0xc4, map, self.random.byte(), self.random.byte()]);
            }
            14 => {
                bytes.clear();
                let first = 0xf0 & self.random.byte() | 1 + self.random.below(3) as u8;
                let (second, third) = (self.random.byte() | 4, self.random.byte());
                bytes.extend([0x62, first, second, third, self.random.byte()]);
            }
            // RMW with a lock prefix.
            _ => {
                bytes.clear();
                bytes.push(0xf0);
                let op = self.random.pick(&[
                    0x01, 0x09, 0x11, 0x19, 0x21, 0x29, 0x31, 0x87, 0xff, 0x83, 0xf7,
                ]);
                bytes.extend([0x48, op]);
            }
        }
        self.operand(&mut bytes, piece);
        while bytes.len() < 18 {
            bytes.push(self.random.byte());
        }
        bytes
    }

    /// A ModRM byte: a register, or memory in the scratch area by a pointer or relative to RIP.
    fn operand(&mut self, bytes: &mut Vec<u8>, piece: &Piece) {
        let reg = self.random.byte() & 0x38;
        match self.random.below(8) {
            0..=3 => bytes.push(0xc0 | reg | self.random.byte() & 7),
            4 | 5 => {
                let base = self.random.pick(piece.pointers).number() as u8;
                bytes.extend([0x40 | reg, 0]);
                let modrm = bytes.len() - 2;
                bytes[modrm] |= base;
                // Mostly aligned to 32, so that aligned vector operands do not fault.
                bytes[modrm + 1] = self.random.byte() & self.random.pick(&[0xff, 0xe0, 0xe0]);
            }
            6 => {
                // A SIB byte without index, 32 bits of displacement.
                let base = self.random.pick(piece.pointers).number() as u8;
                let displacement = self.random.below(8192) as i32 - 4096;
                bytes.extend([0x84 | reg, 0x20 | base]);
                bytes.extend(displacement.to_le_bytes());
            }
            _ => {
                // Right where no immediate follows, near enough where one does.
                let target = SCRATCH + self.random.below(AREA as u64 - 256);
                let next = piece.here() + bytes.len() as u64 + 5;
                bytes.push(0x05 | reg);
                bytes.extend((target.wrapping_sub(next) as u32).to_le_bytes());
            }
        }
    }
}

/// A case that goes straight out.
pub fn nothing(number: usize) -> Vec<u8> {
    let mut piece = Piece {
        at: Case::address(number),
        code: Vec::new(),
        looping: false,
        pointers: &POINTERS,
    };
    piece.near(&[0xff, 0x25], WAY_OUT);
    piece.code
}
