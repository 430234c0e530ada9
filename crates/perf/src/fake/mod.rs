//! A scripted kernel: counters, control pages, rings, errnos, and made-up `/proc` and `/sys`.
//!
//! Everything above this crate can be tested without a PMU: give a [`FakeKernel`] to whatever takes a
//! [`SharedKernel`]. By default it is a machine with one PMU of four counters that every thread may use:
//!
//! ```
//! use truecount_perf::{Count, Errno, Event, EventAttr, OpenOptions, Target, fake::FakeKernel};
//!
//! let fake = FakeKernel::new();
//! let attr = EventAttr::new(0, 1).read_times();
//! let event = Event::open_with(&fake.shared(), &attr, Target::CallingThread, OpenOptions::default())?;
//! fake.advance(1_000); // a microsecond passes: events count, times move
//! fake.add(event.fd(), 42);
//! assert_eq!(event.read()?.count(), Some(Count::Counted(1_042)));
//!
//! // A machine without a PMU: the errno is the kernel's, the facts are made up.
//! let bare = FakeKernel::without_pmu();
//! let error = Event::open_with(&bare.shared(), &attr, Target::CallingThread, OpenOptions::default())
//!     .expect_err("no PMU");
//! assert_eq!(error.errno(), Some(Errno::ENOENT));
//! assert!(error.reason().contains("no PMU"), "{error}");
//! # Ok::<(), truecount_perf::Error>(())
//! ```
//!
//! What it models: events that count one a nanosecond (or another rate), groups that are scheduled whole
//! or not at all, multiplexing where there are more than the PMU has counters, `enable`,
//! `disable`, `reset`, pinned events that lose their counter, ids, lost samples, control pages with a
//! seqlock, rings with `PERF_RECORD_LOST`. What it does not: sampling by itself (push records), inherit.

mod memory;
mod state;
mod tree;

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perf_event_open_sys::bindings as abi;

use crate::errno::Errno;
use crate::facts::{Facts, PmuFact};
use crate::kernel::{Ioctl, Kernel, RawAttr, Ready, SharedKernel};
pub use memory::PAGE_SIZE;
pub use state::Opening;
use state::State;
pub use tree::Tree;

/// A call that the fake saw, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// `perf_event_open`, with what came of it.
    Open {
        /// What was asked.
        opening: Opening,
        /// The descriptor, or the errno.
        result: Result<i32, Errno>,
    },
    /// `read` of a descriptor.
    Read(i32),
    /// `ioctl` on a descriptor, by name, e.g. `Enable { group: true }`.
    Ioctl(i32, String),
    /// `mmap` of this many bytes.
    Map(i32, usize),
    /// `munmap` of this many bytes.
    Unmap(usize),
    /// `close` of a descriptor.
    Close(i32),
}

/// The scripted kernel. Clones are the same kernel.
#[derive(Debug, Clone, Default)]
pub struct FakeKernel {
    state: Arc<Mutex<State>>,
}

impl FakeKernel {
    /// A machine with a PMU of four counters of 48 bits, user reads allowed, and full privilege.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A virtual machine without a PMU: hardware events are `ENOENT`, software events work.
    #[must_use]
    pub fn without_pmu() -> Self {
        let fake = Self::new();
        fake.lock().counters = 0;
        fake.set_facts(|facts| {
            facts.hypervisor = Some("KVMKVMKVM".to_owned());
            if let Some(pmus) = &mut facts.pmus {
                pmus.retain(|pmu| !pmu.core);
            }
        });
        fake
    }

    /// The kernel as events take it.
    #[must_use]
    pub fn shared(&self) -> SharedKernel {
        Arc::new(self.clone())
    }

    /// As [`FakeKernel::shared`], but from now on a microsecond passes before every `read` and `ioctl`.
    #[must_use]
    pub fn ticking(&self) -> SharedKernel {
        self.lock().tick = 1_000;
        self.shared()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere does not make the state wrong.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many counters the PMU has; 0: no PMU (`ENOENT`).
    pub fn set_counters(&self, counters: usize) {
        self.lock().counters = counters;
    }

    /// Counters that someone else holds: groups open, but do not run (the NMI watchdog).
    pub fn set_stolen(&self, stolen: usize) {
        self.lock().stolen = stolen;
    }

    /// Bits of a counter (48), and whether pages allow user reads (yes).
    pub fn set_user_read(&self, allowed: bool, width: u16) {
        let mut state = self.lock();
        state.user_read = allowed;
        state.width = width;
    }

    /// Changes the facts that explain errors.
    pub fn set_facts(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.lock().facts);
    }

    /// Decides about opening: `Some(errno)` refuses, `None` leaves it to the model.
    pub fn on_open(&self, rule: impl Fn(&Opening) -> Option<Errno> + Send + 'static) {
        self.lock().open_rule = Some(state::OpenRule(Box::new(rule)));
    }

    /// The next `open`, `read`, `mmap` or `ioctl` (by that name) fails with this errno; calls queue up.
    pub fn fail_next(&self, call: &'static str, errno: Errno) {
        self.lock().failures.push_back((call, errno));
    }

    /// The next reads of `fd` give these words instead of the model's.
    pub fn script_read(&self, fd: i32, words: &[u64]) {
        self.lock().scripted_reads.push_back((fd, words.to_vec()));
    }

    /// Events of this type and configuration count `rate` a nanosecond of running (1 by default).
    pub fn set_rate(&self, type_: u32, config: u64, rate: u64) {
        self.lock().rates.insert((type_, config), rate);
    }

    /// Lets time pass in slices of at most 1,000 ns: enabled events run and count, or wait their turn.
    pub fn advance(&self, nanoseconds: u64) {
        self.lock().advance(nanoseconds);
    }

    /// Adds to an event's count, whether it is running or not.
    pub fn add(&self, fd: i32, count: u64) {
        self.lock().add(fd, count);
    }

    /// What reading the hardware counter `number` (the page's index less 1) gives: its low bits, as
    /// `rdpmc` would. 0 where no event is on that counter.
    #[must_use]
    pub fn read_counter(&self, number: u32) -> u64 {
        self.lock().read_counter(number)
    }

    /// Runs `change` on the control page of `fd`, under its seqlock, to write what the model would not.
    pub fn edit_page(&self, fd: i32, change: impl FnOnce(&mut abi::perf_event_mmap_page)) {
        self.lock().edit_page(fd, change);
    }

    /// Writes a record into the ring of `fd` as the kernel would: `header.size` is set, a full ring
    /// drops it and later says so in a `PERF_RECORD_LOST`. Returns whether it was written.
    pub fn push_record(&self, fd: i32, kind: u32, misc: u16, body: &[u8]) -> bool {
        self.lock().push_record(fd, kind, misc, body)
    }

    /// Writes raw bytes into the ring of `fd`, whatever they are, and moves its head. For broken rings.
    pub fn push_bytes(&self, fd: i32, bytes: &[u8]) {
        self.lock().push_bytes(fd, bytes);
    }

    /// Moves head and tail of the ring of `fd`, e.g. to just before they wrap at 2^64.
    pub fn set_ring_position(&self, fd: i32, position: u64) {
        self.lock().set_ring_position(fd, position);
    }

    /// All calls so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Descriptors that are open now.
    #[must_use]
    pub fn open_descriptors(&self) -> Vec<i32> {
        self.lock().descriptors()
    }
}

impl Kernel for FakeKernel {
    fn perf_event_open(
        &self,
        attr: &mut RawAttr,
        pid: i32,
        cpu: i32,
        group_fd: i32,
        flags: u64,
    ) -> Result<i32, Errno> {
        let opening = Opening {
            attr: *attr,
            pid,
            cpu,
            group_fd,
            flags,
        };
        let mut state = self.lock();
        let result = state.open(&opening);
        state.calls.push(Call::Open { opening, result });
        result
    }

    fn read(&self, fd: i32, buffer: &mut [u64]) -> Result<usize, Errno> {
        let mut state = self.lock();
        state.calls.push(Call::Read(fd));
        let tick = state.tick;
        state.advance(tick);
        state.read(fd, buffer)
    }

    fn ioctl(&self, fd: i32, request: Ioctl<'_>) -> Result<u64, Errno> {
        let mut state = self.lock();
        state.calls.push(Call::Ioctl(fd, format!("{request:?}")));
        let tick = state.tick;
        state.advance(tick);
        state.ioctl(fd, request)
    }

    fn mmap(&self, fd: i32, len: usize, _writable: bool) -> Result<NonNull<u8>, Errno> {
        let mut state = self.lock();
        state.calls.push(Call::Map(fd, len));
        state.map(fd, len)
    }

    unsafe fn munmap(&self, start: NonNull<u8>, len: usize) {
        let mut state = self.lock();
        state.calls.push(Call::Unmap(len));
        state.unmap(start);
    }

    fn poll(&self, fd: i32, _timeout_ms: i32) -> Result<Ready, Errno> {
        self.lock().poll(fd)
    }

    fn close(&self, fd: i32) {
        let mut state = self.lock();
        state.calls.push(Call::Close(fd));
        state.close(fd);
    }

    fn facts(&self) -> Facts {
        self.lock().facts.clone()
    }

    fn page_size(&self) -> usize {
        PAGE_SIZE
    }
}

/// The facts of a machine with a PMU and full privilege.
fn good_facts() -> Facts {
    let pmu = |name: &str, type_, core| PmuFact {
        name: name.to_owned(),
        type_: Some(type_),
        core,
        branches: core.then_some(32),
        max_precise: core.then_some(3),
        brs: false,
    };
    Facts {
        paranoid: Some(2),
        proc_readable: true,
        mlock_kb: Some(516),
        max_sample_rate: Some(100_000),
        max_stack: Some(127),
        nmi_watchdog: Some(true),
        watchdog_counts: Some(true),
        randomize_va_space: Some(2),
        release: Some("6.12.0".to_owned()),
        cap_perfmon: true,
        cap_sys_admin: true,
        cap_sys_ptrace: true,
        cap_ipc_lock: true,
        pmus: Some(vec![
            pmu("cpu", 4, true),
            pmu("software", 1, false),
            pmu("breakpoint", 5, false),
        ]),
        online_cpus: Some(vec![0, 1]),
        open_files: Some(1024),
        ..Facts::default()
    }
}

#[cfg(test)]
mod tests;
