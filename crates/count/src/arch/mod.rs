//! Counter-reading instructions, one module an architecture. All functions are unsafe: where the kernel has not
//! allowed the instruction, it faults.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::{inline_register, known_loop, thread_pointer};

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "aarch64")]
pub use aarch64::{inline_register, known_loop, thread_pointer};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod other;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use other::*;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use other::{inline_register, known_loop, thread_pointer};
