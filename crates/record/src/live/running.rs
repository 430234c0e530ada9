//! The thread that empties the rings while names are looked up and the rest is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use truecount_sample::{EventAttr, SampleLayout};

use super::collect::Collector;
use super::types::Interval;
use crate::{Chosen, Opened, Scope};
use truecount_run::{Error, ErrorKind};

/// How often the rings are emptied. Two MiB hold more than a second of 4,000 samples a second with call chains.
const DRAIN: Duration = Duration::from_millis(50);

struct State {
    opened: Opened,
    collector: Collector,
    trouble: Option<String>,
}

/// Sampling that is under way.
pub struct Live {
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    told_lost: u64,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    /// Opens and enables the events, and begins to empty their rings.
    pub fn start(chosen: &Chosen, scope: &Scope, ring_mib: u32) -> Result<Self, Error> {
        let opened = Opened::open(chosen, scope, ring_mib)?;
        let attr = opened
            .counters
            .first()
            .and_then(|c| EventAttr::parse(c.attr().raw().as_bytes()))
            .ok_or_else(|| Error::new(ErrorKind::Setup, "nothing could be opened"))?;
        let periods = chosen.events.iter().map(|e| {
            if e.attr.get_freq() {
                1
            } else {
                e.attr.get_sample_period()
            }
        });
        let collector = Collector::new(SampleLayout::from(&attr), &opened.ids, periods.collect());
        opened.enable()?;
        let state = Arc::new(Mutex::new(State {
            opened,
            collector,
            trouble: None,
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("rings".to_owned()).spawn({
            let (state, stop) = (Arc::clone(&state), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::park_timeout(DRAIN);
                    lock(&state).drain();
                }
            }
        });
        let thread = thread
            .map_err(|e| Error::new(ErrorKind::Setup, format!("cannot start a thread: {e}")))?;
        Ok(Self {
            state,
            stop,
            thread: Some(thread),
            told_lost: 0,
        })
    }

    /// What was sampled since the last call.
    pub fn take(&mut self) -> Result<Interval, Error> {
        let mut state = lock(&self.state);
        state.drain();
        let interval = checked(state)?;
        self.told_lost = self.told_lost.saturating_add(interval.lost);
        Ok(interval)
    }

    /// Stops, and gives the rest.
    pub fn finish(mut self) -> Result<Interval, Error> {
        self.stop_thread();
        let mut state = lock(&self.state);
        state.opened.disable()?;
        state.drain();
        state.collector.finish();
        let lost = state.opened.lost();
        let mut interval = checked(state)?;
        // What was lost at the very end has no record.
        let told = self.told_lost.saturating_add(interval.lost);
        interval.lost = interval.lost.saturating_add(lost.saturating_sub(told));
        Ok(interval)
    }

    fn stop_thread(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there was printed; what was counted until then is shown.
            let _ = thread.join();
        }
    }
}

fn checked(mut state: MutexGuard<'_, State>) -> Result<Interval, Error> {
    match state.trouble.take() {
        Some(trouble) => Err(Error::new(ErrorKind::Setup, trouble)),
        None => Ok(state.collector.take()),
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stop_thread();
    }
}

impl State {
    fn drain(&mut self) {
        let Self {
            opened,
            collector,
            trouble,
        } = self;
        for ring in &mut opened.rings {
            if let Err(error) = ring.drain(|record| collector.push(record.bytes)) {
                *trouble = Some(error.to_string());
            }
        }
        collector.end_round();
    }
}
