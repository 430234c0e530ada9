//! Sums and names of what was sampled. Reading the symbols of a big program takes seconds, so on the live screen this
//! is done by a thread of its own, and the one that answers keys never waits for it: what it wants goes through
//! a channel, what is ready is put on a desk.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::detail::{self, CodeCache};
use super::naming::Namer;
use super::own::Own;
use super::running::Live;
use super::sampled::{Sampled, Summed};
use super::types::{By, DetailLine, DetailRequest, Interval, OwnCost};
use crate::procfs;
use truecount_run::Error;

/// Tells that something is ready.
pub type Bell = Box<dyn Fn() + Send>;

/// The sums, and what finds names.
pub struct Work {
    /// The sums.
    pub summed: Summed,
    /// What this itself cost in the last interval.
    pub cost: OwnCost,
    /// The process that was watched has ended.
    pub ended: bool,
    namer: Namer,
    code: CodeCache,
    own: Own,
    pid: Option<i32>,
}

impl Work {
    /// Nothing yet, for so many events; `pid` is the process that is watched, if it is one.
    #[must_use]
    pub fn new(namer: Namer, by: By, events: usize, pid: Option<i32>) -> Self {
        Self {
            summed: Summed::new(by, events),
            cost: OwnCost::default(),
            ended: false,
            namer,
            code: CodeCache::default(),
            own: Own::new(),
            pid,
        }
    }

    /// Adds what was sampled, under names that are known.
    pub fn add(&mut self, interval: &Interval) {
        self.summed.add(interval, &mut self.namer);
        self.cost = self.own.look();
    }

    /// Finds names until it is that late; `true`: some were found.
    pub fn find_names(&mut self, until: Option<Instant>) -> bool {
        self.summed.find_names(&mut self.namer, until)
    }

    /// Whether names are to be found.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.summed.is_waiting()
    }

    /// Notes whether the watched process has ended.
    pub fn look_at_process(&mut self) {
        if let Some(pid) = self.pid
            && !self.ended
        {
            self.ended = !procfs::is_alive(pid);
        }
    }

    /// The lines of a row.
    pub fn detail(&mut self, wanted: &DetailRequest) -> Vec<DetailLine> {
        detail::lines(&self.summed, &mut self.namer, &mut self.code, wanted)
    }
}

/// What the screen asks for.
#[derive(Debug)]
pub enum Ask {
    /// Sums begin anew. The number tells tables of before from those after.
    Restart(By, u64),
    /// The lines of this row, now and after each interval; `None`: of no row.
    Detail(Option<DetailRequest>),
    /// No new intervals, or again.
    Pause(bool),
}

/// What is ready.
#[derive(Debug, Default)]
pub struct Ready {
    /// A newer table.
    pub table: Option<Shown>,
    /// Lines of a row, and of which.
    pub detail: Option<(DetailRequest, Vec<DetailLine>)>,
    /// Why there will be no more.
    pub trouble: Option<Error>,
}

/// A table, and what belongs to it.
#[derive(Debug)]
pub struct Shown {
    /// The rows.
    pub sampled: Sampled,
    /// Of the last [`Ask::Restart`].
    pub number: u64,
    /// What sampling and naming themselves cost.
    pub cost: OwnCost,
    /// The process that was watched has ended.
    pub ended: bool,
}

/// Where results lie until the screen takes them. Only moves are done while it is locked.
#[derive(Debug, Default)]
pub struct Desk {
    ready: Mutex<Ready>,
}

impl Desk {
    fn put(&self, put: impl FnOnce(&mut Ready)) {
        put(&mut self.ready.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Puts a table there.
    pub fn place(&self, table: Shown) {
        self.put(|ready| ready.table = Some(table));
    }

    /// Puts the lines of a row there.
    pub fn place_detail(&self, of: DetailRequest, lines: Vec<DetailLine>) {
        self.put(|ready| ready.detail = Some((of, lines)));
    }

    /// What is ready; while the screen stands still the table stays here.
    pub fn take(&self, paused: bool) -> Ready {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let table = if paused { None } else { ready.table.take() };
        Ready {
            table,
            detail: ready.detail.take(),
            trouble: ready.trouble.take(),
        }
    }
}

/// The screen's end of the thread that works.
pub struct Worker {
    /// Where results are.
    pub desk: Arc<Desk>,
    asks: Sender<Ask>,
}

impl Worker {
    /// Starts the thread. It ends when this is dropped and it has done what it is at: nobody waits for that.
    pub fn start(
        live: Live,
        work: impl FnOnce() -> Work + Send + 'static,
        every: Duration,
        bell: Bell,
    ) -> std::io::Result<Self> {
        let (this, received) = Self::unattended();
        let desk = Arc::clone(&this.desk);
        let run = move || {
            let thread = Thread {
                live,
                work: work(),
                every,
                bell,
                desk,
                number: 0,
                paused: false,
                wanted: None,
            };
            thread.run(&received);
        };
        let thread = std::thread::Builder::new().name("names".to_owned());
        thread.spawn(run)?;
        Ok(this)
    }

    /// A worker whose asks nobody answers yet.
    pub fn unattended() -> (Self, Receiver<Ask>) {
        let (asks, received) = channel();
        let desk = Arc::default();
        (Self { desk, asks }, received)
    }

    /// Asks for something.
    pub fn ask(&self, ask: Ask) {
        // A thread that has ended has left on the desk why.
        let _ = self.asks.send(ask);
    }
}

struct Thread {
    live: Live,
    work: Work,
    every: Duration,
    bell: Bell,
    desk: Arc<Desk>,
    number: u64,
    paused: bool,
    wanted: Option<DetailRequest>,
}

/// So long names are looked for before anything else is: what is asked, what was sampled, what can be shown.
const SLICE: Duration = Duration::from_millis(100);

impl Thread {
    fn run(mut self, asks: &Receiver<Ask>) {
        let mut next = Instant::now() + self.every;
        let mut more = false;
        loop {
            let first = if more {
                asks.try_recv().map_err(|e| match e {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                })
            } else if self.paused {
                asks.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                asks.recv_timeout(next.saturating_duration_since(Instant::now()))
            };
            let mut look = match first {
                Ok(ask) => self.take_up(ask),
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            while let Ok(ask) = asks.try_recv() {
                look |= self.take_up(ask);
            }
            let mut show = false;
            if !self.paused && Instant::now() >= next {
                next = Instant::now() + self.every;
                match self.live.take() {
                    Ok(interval) => self.work.add(&interval),
                    Err(trouble) => {
                        self.desk.put(|ready| ready.trouble = Some(trouble));
                        (self.bell)();
                        return;
                    }
                }
                self.work.look_at_process();
                show = true;
            }
            more = self.work.find_names(Some(Instant::now() + SLICE));
            if show || more {
                self.show();
            }
            if look || show {
                self.detail();
            }
        }
    }

    /// `true`: the detail must be looked for.
    fn take_up(&mut self, ask: Ask) -> bool {
        match ask {
            Ask::Pause(paused) => self.paused = paused,
            Ask::Restart(by, number) => {
                self.work.summed.restart(by);
                self.number = number;
            }
            Ask::Detail(wanted) => {
                self.wanted = wanted;
                return true;
            }
        }
        false
    }

    fn show(&self) {
        self.desk.place(Shown {
            sampled: self.work.summed.table(),
            number: self.number,
            cost: self.work.cost,
            ended: self.work.ended,
        });
        (self.bell)();
    }

    fn detail(&mut self) {
        if let Some(wanted) = &self.wanted {
            let lines = self.work.detail(wanted);
            self.desk.place_detail(wanted.clone(), lines);
            (self.bell)();
        }
    }
}
