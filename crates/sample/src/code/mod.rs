//! What a block's instructions are: decoded once per distinct block, for the instruction sets that branch records
//! are taken of.

mod arm64;
mod x86;

/// One instruction of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Its address, as `start` counts.
    pub address: u64,
    /// Intel syntax.
    pub text: String,
}

/// What can be known about a block without running it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockCode {
    /// The instructions, the branch that ends the block included.
    pub instructions: Vec<Instruction>,
    /// Instructions that read memory (returns and pops too).
    pub loads: u32,
    /// Instructions that write memory.
    pub stores: u32,
    /// Integer or floating-point divisions and square roots.
    pub divisions: u32,
    /// Branches inside, which were not taken.
    pub inner_branches: u32,
    /// What the last instruction is: `jump`, `call`, `return`, `other`.
    pub ends_with: &'static str,
}

impl BlockCode {
    /// Loads of data: without returns and pops, which read what the stack was given just before.
    #[must_use]
    pub fn data_loads(&self) -> u32 {
        let of_the_stack = |i: &&Instruction| {
            let name = i.text.split_whitespace().next().unwrap_or_default();
            matches!(name, "ret" | "pop" | "popf" | "popfq" | "leave")
        };
        let stack = self.instructions.iter().filter(of_the_stack).count();
        self.loads
            .saturating_sub(u32::try_from(stack).unwrap_or(u32::MAX))
    }
}

/// An instruction set that can be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// x86-64, in Intel's syntax.
    X86_64,
    /// AArch64 (A64), in Arm's syntax.
    Aarch64,
}

impl Isa {
    /// The one of an ELF file ([`crate::elf::Elf::machine`]).
    ///
    /// # Errors
    /// One line: it is none that can be decoded.
    pub fn of_machine(machine: u16) -> Result<Self, String> {
        match machine {
            62 => Ok(Self::X86_64),
            183 => Ok(Self::Aarch64),
            other => Err(format!(
                "only x86-64 and aarch64 code is decoded, and this is of ELF machine {other}"
            )),
        }
    }

    /// Decodes the code from `start` to the branch at `end` (inclusive). `bytes` begin at `start`.
    ///
    /// `None`: no instruction begins at `end`, so the file is not the one that ran (or code was written meanwhile).
    ///
    /// ```
    /// use truecount_sample::code::Isa;
    ///
    /// // mov rax,[rdi]; add rdi,8; jne -9
    /// let code = [0x48, 0x8b, 0x07, 0x48, 0x83, 0xc7, 0x08, 0x75, 0xf7];
    /// let block = Isa::X86_64.decode(&code, 0x1000, 0x1007).unwrap();
    /// assert_eq!((block.instructions.len(), block.loads, block.ends_with), (3, 1, "jump"));
    /// assert!(Isa::X86_64.decode(&code, 0x1000, 0x1005).is_none());
    /// ```
    #[must_use]
    pub fn decode(self, bytes: &[u8], start: u64, end: u64) -> Option<BlockCode> {
        match self {
            Self::X86_64 => x86::decode(bytes, start, end),
            Self::Aarch64 => arm64::decode(bytes, start, end),
        }
    }

    /// All instructions from `start` on, to the end of `bytes` or to what is none.
    pub fn listing(self, bytes: &[u8], start: u64) -> Box<dyn Iterator<Item = Instruction> + '_> {
        match self {
            Self::X86_64 => Box::new(x86::listing(bytes, start)),
            Self::Aarch64 => Box::new(arm64::listing(bytes, start)),
        }
    }
}
