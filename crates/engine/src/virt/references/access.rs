//! What a memory operand is used for, and why its references are not known where they are not.

/// What an operand's memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read.
    Load,
    /// Written.
    Store,
    /// Read, and written.
    Modify,
}

/// Why an operand's references are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Unknown {
    /// The addresses are in a vector: gathers, scatters.
    VectorAddresses,
    /// A mask chooses what is referenced, or not: it is not known of this instruction.
    Masked,
    /// The size depends on what nobody can tell: `xsaveopt`.
    StateSize,
    /// A thread's own data, where the kernel does not let programs read their FS base.
    ThreadLocal,
    /// Something else: instructions that are not known.
    Other,
}

impl Unknown {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::VectorAddresses => "gathers and scatters",
            Self::Masked => "some operands of instructions with a mask",
            Self::StateSize => "saving the extended state by xsaveopt",
            Self::ThreadLocal => "operands in FS (this kernel does not let programs read the base)",
            Self::Other => "other instructions",
        }
    }
}
