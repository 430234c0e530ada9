//! Company for a measurement: a thread that fights for a cache line, and threads that make a machine restless (its CPU
//! is shared, its address space changes under it).

use crate::machine::Affinity;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Threads that work until this is dropped.
#[derive(Debug, Default)]
pub(super) struct Company {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Company {
    fn join(mut self, cpus: Affinity, work: impl Fn(&AtomicBool) + Send + 'static) -> Self {
        let stop = Arc::clone(&self.stop);
        let started = std::thread::Builder::new().spawn(move || {
            // Where it may not go, it stays with the measured thread, and is as restless there.
            let _ = cpus.apply();
            work(&stop);
        });
        // A machine that has no more threads is left in peace.
        self.threads.extend(started.ok());
        self
    }

    /// Someone who adds to `word` all the time, elsewhere than on `cpu`.
    pub(super) fn contender(word: &'static AtomicU64, cpus: Affinity) -> Self {
        Self::default().join(cpus, |stop| {
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..64 {
                    word.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    }

    /// One that wants the same CPU, and one elsewhere that maps, writes and unmaps (each unmapping interrupts the other
    /// CPUs that run this program, to empty their TLBs).
    pub(super) fn restless(here: Affinity, elsewhere: Affinity) -> Self {
        Self::default()
            .join(here, |stop| {
                while !stop.load(Ordering::Relaxed) {
                    for i in 0..100_000u64 {
                        std::hint::black_box(i);
                    }
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            })
            .join(elsewhere, |stop| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box(vec![1u8; 4 << 20]);
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
            })
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
