//! What orders a counter read against the code around it: a type parameter, so that a read stays a few instructions.
//!
//! x86: `rdpmc` is not ordered against earlier instructions (Intel SDM vol. 2, RDPMC); `lfence` waits until they have
//! completed, `serialize` and `cpuid` serialise fully. In a virtual machine `cpuid` leaves to the hypervisor and costs
//! microseconds. aarch64: `isb` (Arm ARM, "Synchronization of changes to the PMU").

/// One way to order a read. Implemented by the types of this module only.
pub trait Policy: sealed::Sealed + Copy + Default + 'static {
    /// Which one, as a constant that the compiler folds away.
    const KIND: PolicyKind;
}

/// The ways to order a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyKind {
    /// Nothing: the read may be early or late by what is in flight.
    None,
    /// `lfence`; `isb` on aarch64.
    Fence,
    /// `serialize` (x86 CPUs since Alder Lake and Sapphire Rapids); `isb` on aarch64.
    Serialize,
    /// `cpuid`; `isb` on aarch64.
    Cpuid,
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! policies {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
        pub struct $name;

        impl sealed::Sealed for $name {}

        impl Policy for $name {
            const KIND: PolicyKind = PolicyKind::$kind;
        }
    )*};
}

policies! {
    /// No ordering: cheapest, and off by what is in flight.
    Unordered => None;
    /// `lfence` (x86) or `isb` (aarch64): all earlier instructions have completed. The default.
    Fence => Fence;
    /// The instruction `serialize`; opening fails on CPUs without it.
    Serialize => Serialize;
    /// `cpuid`: serialises on every x86 CPU; microseconds in a virtual machine.
    Cpuid => Cpuid;
}
