//! Exact counts without a PMU.

pub mod auxv;
pub mod calls;
pub mod heap;
pub mod inputs;
pub mod layout;
pub mod limits;
pub mod log;
pub mod machine;
pub mod option;
pub mod pmu;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod proc_file;
pub mod regions;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod restartable;
pub mod schedule;
pub mod shown;
pub mod snapshot;
pub mod step;
pub mod syscall_table;
pub mod virt;
pub mod xlate;

// `build.rs` compiles the runtime as a program of its own. Never compiled here: this is where rustfmt finds it.
#[cfg(any())]
#[path = "../runtime/main.rs"]
mod runtime;
