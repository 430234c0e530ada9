//! A signal handler that reads the counter of the thread that it interrupts.

use super::{only_hardware, pmu};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;
use truecount::{Counter, Fence, known_loop};

static COUNTER: AtomicPtr<Counter> = AtomicPtr::new(std::ptr::null_mut());
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: libc::c_int) {
    let counter = COUNTER.load(Ordering::Relaxed);
    if !counter.is_null() {
        // SAFETY: set by the test on this thread, which keeps it.
        let counter = unsafe { &*counter };
        let start = counter.read();
        std::hint::black_box(counter.since(start));
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_handler_that_reads_disturbs_no_reading() {
    const NONE: u64 = u64::MAX;
    if !pmu("signals") || only_hardware("interrupts") {
        return;
    }
    let Ok(counter) = Counter::<Fence>::open("instructions-minus-irqs:u") else {
        truecount_testing::skip!("no-subtraction", "signals: nothing to subtract here");
        return;
    };
    let least = counter.overhead(1000);
    let counter = Box::new(counter);
    COUNTER.store(std::ptr::from_ref(&*counter).cast_mut(), Ordering::Relaxed);
    // SAFETY: the handler only reads.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
    }
    // SAFETY: names the calling thread.
    let this = unsafe { libc::pthread_self() } as usize;
    let done = Arc::new(AtomicBool::new(false));
    let sender = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the thread lives until this one has been joined.
                unsafe { libc::pthread_kill(this as libc::pthread_t, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    });
    let worst = Cell::new(NONE);
    for _ in 0..400_000 {
        let start = counter.read();
        let counted = counter.since(start);
        // Less than what two reads in a row cost is wrong, and so is what wrapped below 0.
        if counted < least || counted > 1 << 40 {
            worst.set(counted);
            break;
        }
    }
    known_loop(1000);
    done.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    COUNTER.store(std::ptr::null_mut(), Ordering::Relaxed);
    println!("{} signals", HANDLED.load(Ordering::Relaxed));
    assert_eq!(worst.get(), NONE, "at least {least} were executed");
    counter.check().unwrap();
}
