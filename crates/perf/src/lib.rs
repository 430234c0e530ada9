//! The Linux `perf_event` boundary: the only crate of truecount that makes perf system calls.
//!
//! What is here, bottom to top:
//!
//! | module | what it is |
//! |---|---|
//! | [`kernel`] | the system calls as a trait: [`kernel::Linux`] is the real one, [`fake::FakeKernel`] a scripted one |
//! | [`attr`] | [`EventAttr`]: every field of `perf_event_attr`, as plain numbers |
//! | [`encoding`] | an event's encoding → attributes |
//! | [`event`] | [`Event`]: one open counter and its ioctls |
//! | [`situation`] | [`Target`]: what an event counts; what was being done when something failed |
//! | [`scope`] | [`Scope`]: a process or a machine as the threads and CPUs to open events on |
//! | [`fork`] | events that forked children open anew |
//! | [`group`] | [`Group`]: counters that are scheduled together and read in one system call |
//! | [`reading`] | what `read(2)` gave, with its times; scaling is explicit and labelled |
//! | [`page`] | the mmap control page: seqlock, index, width, offset, times, capability bits |
//! | [`ring`] | the sample ring, reader's side |
//! | [`probe`] | what this machine can do: `/proc`, `/sys`, CPUID, and trying |
//! | [`cause`] | one table: errno × situation → cause and hint |
//! | [`fake`] | a kernel for tests: counters, pages, rings, errnos, made-up `/proc` and `/sys` |
//!
//! Facts come from perf_event_open(2), `include/uapi/linux/perf_event.h` and `kernel/events/core.c` of
//! Linux 6.1 to 6.18; each module names its own.
//!
//! ```
//! use truecount_perf::{Event, EventAttr, Target, sys::bindings as abi};
//!
//! // Instructions of this thread in user mode. Where there is no PMU, the error says so.
//! let attr = EventAttr::new(abi::PERF_TYPE_HARDWARE, u64::from(abi::PERF_COUNT_HW_INSTRUCTIONS))
//!     .exclude_kernel(true)
//!     .exclude_hv(true)
//!     .read_times();
//! match Event::open(&attr, Target::CallingThread) {
//!     Ok(event) => {
//!         let reading = event.read()?;
//!         assert!(reading.times.is_some());
//!     }
//!     Err(error) => assert!(!error.hint().is_empty(), "{error}"),
//! }
//! # Ok::<(), truecount_perf::Error>(())
//! ```

pub mod attr;
pub mod cause;
pub mod encoding;
pub mod errno;
pub mod error;
pub mod event;
pub mod facts;
pub mod fake;
pub mod fork;
pub mod group;
pub mod kernel;
pub mod mapping;
pub mod page;
pub mod probe;
pub mod reading;
pub mod ring;
pub mod scope;
pub mod situation;

pub use attr::EventAttr;
pub use cause::Cause;
pub use errno::Errno;
pub use error::Error;
pub use event::{Event, OpenOptions};
pub use facts::Facts;
pub use group::Group;
pub use kernel::{Kernel, SharedKernel, linux};
pub use page::ControlPage;
pub use reading::{Count, GroupReading, Reading, Times};
pub use ring::Ring;
pub use scope::Scope;
pub use situation::{Operation, Situation, Target};

/// The kernel's own types and constants (`perf_event_open_sys`), so that callers need not depend on it.
pub use perf_event_open_sys as sys;
