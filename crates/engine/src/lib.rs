//! Exact counts without a PMU.

pub mod layout;
pub mod step;
#[cfg(target_os = "linux")]
pub mod virt;
pub mod xlate;
