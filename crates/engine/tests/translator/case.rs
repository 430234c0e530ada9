//! A case: initial registers and a piece of code; and how cases and results travel between the processes.

/// Room for a case's code. What is behind the code is `int3`.
pub const CODE: usize = 512;
/// Bytes of a case in a file.
const SIZE: usize = 17 * 8 + CODE;

/// Addresses that both runs have in common.
pub const CONTROL: u64 = 0x1_4000_0000;
pub const CODE_BASE: u64 = 0x1_5000_0000;
pub const SCRATCH: u64 = 0x1_6000_0000;
pub const STACK: u64 = 0x1_6100_0000;
/// Bytes of scratch memory and of the stack.
pub const AREA: usize = 1 << 16;
/// Where pointer registers and the stack pointer begin in their areas.
pub const MIDDLE: u64 = AREA as u64 / 2;
/// The pointer to the way out; every case ends by jumping through it.
pub const WAY_OUT: u64 = CODE_BASE - 4096;

/// Initial state and code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// In the order of their encoding; the stack pointer is not used.
    pub registers: [u64; 16],
    pub flags: u64,
    pub code: Vec<u8>,
}

impl Case {
    /// Where the case with this number lies.
    pub fn address(number: usize) -> u64 {
        CODE_BASE + (number * CODE) as u64
    }

    fn write(&self, out: &mut Vec<u8>) {
        for value in self.registers.iter().chain([&self.flags]) {
            out.extend(value.to_le_bytes());
        }
        assert!(self.code.len() <= CODE);
        let end = out.len() + CODE;
        out.extend(&self.code);
        out.resize(end, 0xcc);
    }

    fn read(bytes: &[u8]) -> Self {
        let word =
            |n: usize| u64::from_le_bytes(bytes[n * 8..n * 8 + 8].try_into().expect("eight bytes"));
        Self {
            registers: std::array::from_fn(word),
            flags: word(16),
            code: bytes[17 * 8..].to_vec(),
        }
    }
}

/// Cases as a file.
pub fn to_bytes(cases: &[Case]) -> Vec<u8> {
    let mut out = Vec::with_capacity(cases.len() * SIZE);
    cases.iter().for_each(|case| case.write(&mut out));
    out
}

/// The cases in a file.
pub fn from_bytes(bytes: &[u8]) -> Vec<Case> {
    bytes.chunks_exact(SIZE).map(Case::read).collect()
}

/// What a case left: 24 words of registers and outcome, then the vector and x87 state and a hash of memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Outcome(pub Vec<u64>);

/// Words of an outcome.
pub const WORDS: usize = 24;
const NAMES: [&str; WORDS] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "flags", "signal", "si_code", "rip", "vectors", "x87", "scratch", "stack",
];
/// The place of the signal in an outcome, 0 for none.
pub const SIGNAL: usize = 17;

impl Outcome {
    /// The outcomes in a file, each with the instructions that stepping counted.
    pub fn all(bytes: &[u8]) -> Vec<(Self, u64)> {
        let words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
        words
            .collect::<Vec<_>>()
            .chunks_exact(WORDS + 1)
            .map(|words| (Self(words[..WORDS].to_vec()), words[WORDS]))
            .collect()
    }

    /// What differs, by name.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let pairs = self.0.iter().zip(&other.0).zip(NAMES);
        pairs
            .filter(|((a, b), _)| a != b)
            .map(|((a, b), name)| format!("{name}: {a:#x} natively, {b:#x} translated"))
            .collect()
    }
}
