//! Reading a counter never allocates: a counting allocator watches.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use truecount::perf::kernel::{Ioctl, Kernel, RawAttr, Ready};
use truecount::perf::{Errno, Facts, linux};
use truecount::{Counter, CounterSet, Fence, Mode, Options, PerThread};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn the_allocator_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1]))), 1);
}

#[test]
fn no_read_allocates() {
    let events = [
        "instructions-minus-irqs:u",
        "instructions:u",
        "wall-time",
        "user-time",
        "zero",
        "page-faults",
    ];
    for (event, mode) in events
        .into_iter()
        .flat_map(|e| [Mode::Auto, Mode::Safe, Mode::Syscall].map(|m| (e, m)))
    {
        let counter: Counter = match Options::new().mode(mode).open(event) {
            Ok(counter) => counter,
            Err(error) => {
                truecount_testing::skip!("counters", "{event} ({mode:?}): {error}");
                continue;
            }
        };
        let spent = allocations(|| {
            for _ in 0..100 {
                let start = counter.read();
                std::hint::black_box(counter.since(start));
            }
        });
        assert_eq!(spent, 0, "{event}, {:?}", counter.method());
    }
    let handle = PerThread::<Fence>::new("wall-time").unwrap();
    assert_eq!(allocations(|| drop(handle.read())), 0);
    match CounterSet::<Fence>::open("task-clock,page-faults") {
        Ok(set) => {
            let mut points = set.points();
            assert_eq!(allocations(|| set.read(&mut points)), 0);
        }
        Err(error) => truecount_testing::skip!("software", "{error}"),
    }
}

/// A kernel that opens everything and reads nothing, without allocating.
#[derive(Debug)]
struct Broken;

impl Kernel for Broken {
    fn perf_event_open(
        &self,
        _: &mut RawAttr,
        _: i32,
        _: i32,
        _: i32,
        _: u64,
    ) -> Result<i32, Errno> {
        Ok(1000)
    }

    fn read(&self, _: i32, _: &mut [u64]) -> Result<usize, Errno> {
        Err(Errno::EIO)
    }

    fn ioctl(&self, _: i32, _: Ioctl<'_>) -> Result<u64, Errno> {
        Ok(0)
    }

    fn mmap(&self, _: i32, _: usize, _: bool) -> Result<NonNull<u8>, Errno> {
        Err(Errno::ENOMEM)
    }

    unsafe fn munmap(&self, _: NonNull<u8>, _: usize) {}

    fn poll(&self, _: i32, _: i32) -> Result<Ready, Errno> {
        Err(Errno::EINVAL)
    }

    fn close(&self, _: i32) {}

    fn facts(&self) -> Facts {
        linux().facts()
    }

    fn page_size(&self) -> usize {
        4096
    }
}

/// A read that fails does not allocate either: explaining is for `check`.
#[test]
fn no_failing_read_allocates() {
    let counter: Counter = Options::new()
        .kernel(Arc::new(Broken))
        .verify(false)
        .open("instructions:u")
        .unwrap();
    assert_eq!(allocations(|| assert_eq!(counter.read().raw(), 0)), 0);
    assert!(counter.check().is_err());
}
