//! A decoded instruction: its fields, its flag and memory effects, and how it
//! passes control on.
//!
//! Facts: Intel SDM volume 2, chapter 2 (formats). [`super::decode`] fills it in,
//! the property word comes from the generated [`super::table`]. Uses `core` only.

/// The arithmetic flags as bits of a set.
pub mod flag {
    /// Overflow.
    pub const O: u8 = 1;
    /// Sign.
    pub const S: u8 = 2;
    /// Zero.
    pub const Z: u8 = 4;
    /// Auxiliary carry.
    pub const A: u8 = 8;
    /// Parity.
    pub const P: u8 = 16;
    /// Carry.
    pub const C: u8 = 32;
    /// All six.
    pub const ALL: u8 = 63;
}

/// The longest instruction the architecture allows, in bytes.
pub const MAX_LEN: usize = 15;

/// How an instruction passes control on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// To the next instruction; can be copied.
    Plain,
    /// `jcc`.
    Jcc,
    /// `loop`, `loope`, `loopne`, `jrcxz`, `jecxz`: a byte displacement only.
    Loop,
    /// Direct `jmp`.
    Jmp,
    /// Direct `call`.
    Call,
    /// Near `ret`.
    Ret,
    /// `jmp` through a register or memory.
    JmpInd,
    /// `call` through a register or memory.
    CallInd,
    /// `syscall`.
    Syscall,
    /// `int 0x80`: a system call as 32-bit programs make them.
    Interrupt,
    /// Always traps or never returns here (`ud2`, `hlt`, `int3`, `int n`):
    /// copied, and ends a block.
    Trap,
    /// `rdpmc`.
    Rdpmc,
    /// `rdgsbase`, `wrgsbase`.
    GsBase,
    /// `mov` and `pop` to GS.
    LoadsGs,
    /// A far `ret`, or `iret`.
    FarReturn,
    /// `rdtsc`, `rdtscp`.
    Rdtsc,
    /// Asks the machine: `cpuid`, `xgetbv`, `rdpid`, `rdrand`, `rdseed`.
    Asks,
    /// A client request: four rotations, of which this is the first, and what tells the request.
    Request,
    /// Saves or restores the extended state: `xsave`, `xsavec`, `xsaveopt`, `xrstor`.
    Xsave,
    /// `xbegin`: treated as a transaction that aborts at once.
    Xbegin,
    /// Cannot be run by copying (far transfers, …).
    Unsupported,
}

/// One decoded instruction; positions are byte offsets from its start.
#[derive(Clone, Copy, Debug)]
pub struct Insn {
    /// Length in bytes, 1 to 15.
    pub len: u8,
    /// Where the opcode byte is.
    pub opcode_at: u8,
    /// Where `ModRM` is; 0 where there is none.
    pub modrm_at: u8,
    /// Where the immediate starts; equals `len` where there is none.
    pub imm_at: u8,
    /// The opcode byte.
    pub opcode: u8,
    /// Index of the opcode space: see `gen_instruction_table`.
    pub space: u8,
    /// The `ModRM` byte (0 where there is none).
    pub modrm: u8,
    /// REX bits, also where VEX or EVEX carry them: W R X B as in REX.
    pub rex: u8,
    /// Prefixes met: see [`prefix`].
    pub prefixes: u8,
    /// Register named by VEX.vvvv, or 0xff.
    pub vvvv: u8,
    /// How control goes on.
    pub kind: Kind,
    /// Displacement of a direct branch relative to the next instruction.
    pub rel: i32,
    /// The property word of the table (see [`Insn::flags_read`] and others).
    pub properties: u16,
}

/// Bits of [`Insn::prefixes`].
pub mod prefix {
    /// 66: operand size.
    pub const OPSIZE: u8 = 1;
    /// 67: address size.
    pub const ADDRSIZE: u8 = 2;
    /// F0.
    pub const LOCK: u8 = 4;
    /// F3.
    pub const REP: u8 = 8;
    /// F2.
    pub const REPNE: u8 = 16;
    /// 64.
    pub const FS: u8 = 32;
    /// 65.
    pub const GS: u8 = 64;
}

impl Insn {
    /// Flags this instruction reads.
    pub fn flags_read(&self) -> u8 {
        (self.properties & 0x3f) as u8
    }
    /// Flags this instruction surely overwrites.
    pub fn flags_written(&self) -> u8 {
        (self.properties >> 6 & 0x3f) as u8
    }
    /// Reads data memory, the stack included.
    pub fn is_load(&self) -> bool {
        self.properties & 1 << 12 != 0
    }
    /// Writes data memory, the stack included.
    pub fn is_store(&self) -> bool {
        self.properties & 1 << 13 != 0
    }
    /// Names an MMX, SSE, AVX or AVX-512 register.
    pub fn is_vector(&self) -> bool {
        self.properties & 1 << 14 != 0
    }
    /// Has a memory operand relative to the next instruction.
    pub fn is_rip_relative(&self) -> bool {
        self.modrm_at != 0 && self.modrm & 0xc7 == 0x05
    }
    /// `lea` of an address relative to the next instruction.
    pub fn loads_address(&self) -> bool {
        self.space == 0 && self.opcode == 0x8d && self.is_rip_relative()
    }
    /// The `ModRM` form names memory.
    pub fn has_memory_operand(&self) -> bool {
        self.modrm_at != 0 && self.modrm < 0xc0
    }
    /// Number of the register in `ModRM.reg`, REX.R included.
    pub fn reg(&self) -> u8 {
        (self.modrm >> 3 & 7) | (self.rex & 4) << 1
    }
    /// The general register (never RSP) that this instruction overwrites as a
    /// whole without reading it, where it cannot fault either: moves between
    /// registers and of constants, `lea`.
    pub fn sets_register(&self) -> Option<u8> {
        let plain = self.space == 0 && self.kind == Kind::Plain && self.prefixes == 0;
        let from_register = self.modrm >= 0xc0;
        let rm = (self.modrm & 7) | (self.rex & 1) << 3;
        let (to, from) = match self.opcode {
            0xb8..=0xbf if plain => ((self.opcode & 7) | (self.rex & 1) << 3, None),
            0x89 if plain && from_register => (rm, Some(self.reg())),
            0x8b | 0x63 if plain && from_register => (self.reg(), Some(rm)),
            // Without a base or index register: relative to the next instruction.
            0x8d if plain && self.is_rip_relative() => (self.reg(), None),
            // `[base+displacement]`.
            0x8d if plain && !from_register && self.modrm & 7 != 4 => (self.reg(), Some(rm)),
            _ => return None,
        };
        (to != 4 && from != Some(to)).then_some(to)
    }
    /// Any prefix that hardware would reject or that changes the meaning here.
    /// Any of these prefixes is there.
    pub fn has(&self, bits: u8) -> bool {
        self.prefixes & bits != 0
    }
}

/// Why bytes are no instruction that this decoder knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end inside the instruction.
    Short,
    /// No such encoding (the CPU would raise `#UD`), or a newer one than known.
    Unknown,
    /// More than [`MAX_LEN`] bytes: `#GP`, whatever it is.
    Long,
}
