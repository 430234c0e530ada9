//! Puts the parts together: the live screen, whose thread never waits for names (see [`Worker`]), and `--once`.

use std::io::Write as _;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};

use super::draw;
use super::model::{About, Action, Model};
use super::once;
use super::screen::{Input, Keyboard, Screen};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use truecount_record::kallsyms::Kallsyms;
use truecount_record::live::{
    Ask, By, DetailRequest, Live, Namer, Ready, Sampled, Work, Worker, cpu_time,
};
use truecount_record::{Chosen, Scope};
use truecount_run::runner::Signals;

/// What both forms need to know.
pub(super) struct Settings {
    pub(super) about: About,
    pub(super) by: By,
    pub(super) ring: u32,
    pub(super) pid: Option<i32>,
}

/// How `--once` ends.
#[derive(Debug, Clone)]
pub(super) struct Once {
    pub(super) time: Duration,
    pub(super) top: usize,
    pub(super) json: Option<std::path::PathBuf>,
}

/// How often signals and the end of the process are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// The state of the screen, and what names and sums need: they are made on the thread that will use them, because what
/// is kept of files cannot go to another.
fn begin(
    chosen: &Chosen,
    settings: Settings,
) -> (Model, By, Result<Kallsyms, String>, Option<i32>) {
    let Settings {
        mut about, by, pid, ..
    } = settings;
    // More than a hundred thousand names: read only when they can be needed.
    let kernel = if chosen.events.iter().any(|e| !e.attr.get_exclude_kernel()) {
        Kallsyms::of_this_machine()
    } else {
        Ok(Kallsyms::default())
    };
    if let Err(why) = &kernel {
        about
            .notes
            .push(format!("functions of the kernel have no names: {why}"));
    }
    (Model::new(about, by), by, kernel, pid)
}

/// The thread of the screen: what it does after a key never takes long.
pub(super) struct Front {
    pub(super) model: Model,
    pub(super) worker: Worker,
    /// The last that came.
    table: Sampled,
    /// What was asked for.
    number: u64,
    paused: bool,
    wanted: Option<DetailRequest>,
}

impl Front {
    pub(super) fn new(model: Model, worker: Worker) -> Self {
        Self {
            table: Sampled::new(model.by, model.about.events.len()),
            model,
            worker,
            number: 0,
            paused: false,
            wanted: None,
        }
    }

    /// Does what a key asks for, as far as that is this thread's.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        let action = self.model.key(key);
        if action == Action::Restart {
            self.number += 1;
            let by = self.model.by;
            self.table = self.table.anew(by);
            self.worker.ask(Ask::Restart(by, self.number));
        }
        if self.model.paused != self.paused {
            self.paused = self.model.paused;
            self.worker.ask(Ask::Pause(self.paused));
        }
        self.model.update(&self.table);
        let wanted = self.model.wanted();
        if wanted != self.wanted {
            self.wanted.clone_from(&wanted);
            self.worker.ask(Ask::Detail(wanted));
        }
        action
    }

    /// Takes over what is ready; `true`: there is something to be drawn.
    pub(super) fn look(&mut self) -> Result<bool, Failure> {
        let Ready {
            table,
            detail,
            trouble,
        } = self.worker.desk.take(self.paused);
        if let Some(trouble) = trouble {
            return Err(trouble.into());
        }
        let mut changed = detail.is_some();
        if let Some((found, lines)) = detail {
            self.model.show(&found, lines);
        }
        if let Some(shown) = table {
            self.model.own = shown.cost;
            self.model.ended = shown.ended;
            if shown.number == self.number {
                self.table = shown.sampled;
                self.model.update(&self.table);
            }
            changed = true;
        }
        Ok(changed)
    }

    /// Reads all keys that there are; `true`: quit.
    fn keys(&mut self, screen: &mut Screen) -> std::io::Result<bool> {
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                match self.key(key) {
                    Action::Quit => return Ok(true),
                    Action::Suspend => screen.suspend()?,
                    Action::Restart | Action::None => {}
                }
            }
        }
        Ok(false)
    }
}

fn no_signals(error: &std::io::Error) -> Failure {
    Failure::new(125, format!("cannot block signals: {error}"))
}

/// The live screen, until the user quits.
pub(super) fn live(
    chosen: &Chosen,
    scope: &Scope,
    settings: Settings,
    every: Duration,
) -> CmdResult {
    // Before any thread is made, so that all have them blocked.
    let signals = Signals::block().map_err(|e| no_signals(&e))?;
    let ring = settings.ring;
    let (model, by, kernel, pid) = begin(chosen, settings);
    let events = model.about.events.len();
    let work = move || Work::new(Namer::new(kernel), by, events, pid);
    let live = Live::start(chosen, scope, ring)?;
    let mut screen = Screen::open().map_err(|e| no_terminal(&e))?;
    let (mut keyboard, bell) = Keyboard::open().map_err(|e| no_terminal(&e))?;
    let worker = Worker::start(live, work, every, Box::new(move || bell.ring()))
        .map_err(|e| Failure::new(125, format!("cannot start a thread: {e}")))?;
    let mut front = Front::new(model, worker);
    let mut changed = true;
    loop {
        if changed {
            screen
                .draw(|frame| draw::draw(frame, &mut front.model))
                .map_err(|e| no_terminal(&e))?;
        }
        let input = keyboard.wait(LOOK).map_err(|e| no_terminal(&e))?;
        changed = matches!(input, Input::Key | Input::Signal);
        if input == Input::Gone {
            return Ok(Outcome(128 + libc::SIGHUP as u8));
        }
        if input == Input::Key && front.keys(&mut screen).map_err(|e| no_terminal(&e))? {
            return Ok(Outcome::OK);
        }
        if let Some(signal) = signals.stop_requested() {
            return Ok(Outcome(128u8.saturating_add(signal.unsigned_abs() as u8)));
        }
        changed |= front.look()?;
        if input == Input::NoBell {
            // What it panicked with was printed.
            return Err(Failure::new(1, "the thread that finds names has ended"));
        }
    }
}

/// The terminal went away, or is none.
fn no_terminal(error: &std::io::Error) -> Failure {
    Failure::new(1, format!("the terminal cannot be used: {error}"))
        .hint("--once prints without one")
}

/// `--once`.
pub(super) fn once(chosen: &Chosen, scope: &Scope, settings: Settings, form: &Once) -> CmdResult {
    /// Sums are taken over regularly, so that the time does not matter for the memory.
    const TAKE: Duration = Duration::from_secs(1);
    /// After Ctrl-C: how long names are looked for.
    const LAST_NAMES: Duration = Duration::from_millis(500);
    let signals = Signals::block().map_err(|e| no_signals(&e))?;
    let cpu = cpu_time();
    let ring = settings.ring;
    let (mut model, by, kernel, pid) = begin(chosen, settings);
    let no_thread = |e| Failure::new(125, format!("cannot start a thread: {e}"));
    let namer = Namer::apart(kernel).map_err(no_thread)?;
    let mut work = Work::new(namer, by, model.about.events.len(), pid);
    let mut live = Live::start(chosen, scope, ring)?;
    let start = Instant::now();
    let mut next = TAKE;
    let mut stopped = None;
    loop {
        let elapsed = start.elapsed();
        let left = form.time.saturating_sub(elapsed);
        if left.is_zero() || work.ended || stopped.is_some() {
            break;
        }
        if elapsed >= next {
            work.add(&live.take()?);
            work.find_names(Some(Instant::now() + TAKE / 4));
            next = elapsed + TAKE;
        }
        work.look_at_process();
        let signal = signals
            .wait(Some(left.min(LOOK)))
            .map_err(|e| no_signals(&e))?;
        stopped = signal.filter(|s| *s != libc::SIGCHLD);
    }
    work.add(&live.finish()?);
    // Who stops it does not want to wait until every file's names are read: one alone may take seconds.
    let mut late = stopped.map(|_| Instant::now() + LAST_NAMES);
    while work.is_waiting() && late.is_none_or(|late| Instant::now() < late) {
        work.find_names(Some(Instant::now() + LOOK));
        if stopped.is_none() {
            stopped = signals.stop_requested();
            late = stopped.map(|_| Instant::now() + LAST_NAMES);
        }
    }
    (model.accumulated, model.ended, model.own) = (true, work.ended, work.cost);
    model.update(&work.summed.table());
    let own_seconds = cpu_time().saturating_sub(cpu).as_secs_f64();
    // Of all the time, not of the last second.
    model.own.cpu = own_seconds / start.elapsed().as_secs_f64().max(1e-9);
    let end = once::Outcome {
        own_seconds,
        top: form.top,
    };
    let mut out = Output::shown(form.json.as_deref())?;
    if form.json.is_some() {
        once::json(&mut out, &model, end)?;
    } else {
        once::text(&mut out, &model, end)?;
    }
    out.flush()?;
    Ok(match stopped {
        Some(_) => Outcome(130),
        None => Outcome::OK,
    })
}
