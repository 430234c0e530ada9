//! Puts the parts together: the live screen, and `--once`.

use std::io::Write as _;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::By;
use super::collect::Interval;
use super::detail::{self, CodeCache};
use super::draw;
use super::live::Live;
use super::model::{About, Action, Model};
use super::naming::Namer;
use super::once;
use super::own::{Own, cpu_time};
use super::sampled::Sampled;
use super::screen::{Input, Keyboard, Screen};
use crate::CmdResult;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::runner::Signals;
use crate::sampling::{Chosen, Scope, procfs};

/// What both forms need to know.
pub(super) struct Settings {
    pub(super) about: About,
    pub(super) by: By,
    pub(super) ring: u32,
    pub(super) pid: Option<i32>,
}

/// How `--once` ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Once {
    pub(super) time: Duration,
    pub(super) top: usize,
    pub(super) json: bool,
}

/// How often signals and the end of the process are looked for.
const LOOK: Duration = Duration::from_millis(100);

struct App {
    model: Model,
    sampled: Sampled,
    namer: Namer,
    code: CodeCache,
    own: Own,
    pid: Option<i32>,
}

impl App {
    fn new(chosen: &Chosen, settings: Settings) -> Self {
        let Settings {
            mut about, by, pid, ..
        } = settings;
        let namer = Namer::new(chosen.events.iter().any(|e| !e.attr.get_exclude_kernel()));
        if let Some(why) = namer.no_kernel_names() {
            about
                .notes
                .push(format!("functions of the kernel have no names: {why}"));
        }
        Self {
            sampled: Sampled::new(by, about.events.len()),
            model: Model::new(about, by),
            namer,
            code: CodeCache::default(),
            own: Own::new(),
            pid,
        }
    }

    fn take(&mut self, live: &mut Live) -> Result<(), Failure> {
        let interval = live.take()?;
        self.add(&interval);
        self.look_at_process();
        self.refresh();
        Ok(())
    }

    fn add(&mut self, interval: &Interval) {
        self.sampled.add(interval, &mut self.namer);
        self.model.own = self.own.look();
    }

    fn look_at_process(&mut self) {
        if let Some(pid) = self.pid
            && !self.model.ended
        {
            self.model.ended = !procfs::is_alive(pid);
        }
    }

    /// Brings the screen's rows and the open detail up to date with the sums.
    fn refresh(&mut self) {
        self.model.update(&self.sampled);
        let shown = (self.model.sort, self.model.span());
        if let Some(detail) = &mut self.model.detail {
            detail.lines = detail::lines(
                &self.sampled,
                &mut self.namer,
                &mut self.code,
                &detail.key,
                detail.tab,
                shown,
            );
        }
    }

    /// Reads all keys that there are; `true`: quit.
    fn keys(&mut self, screen: &mut Screen) -> std::io::Result<bool> {
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                let action = self.model.key(key);
                if self.act(action, screen)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// What a key asks for; `true`: quit.
    fn act(&mut self, action: Action, screen: &mut Screen) -> std::io::Result<bool> {
        match action {
            Action::Quit => return Ok(true),
            Action::Suspend => screen.suspend()?,
            Action::Restart => {
                let events = self.model.about.events.len();
                self.sampled.restart(self.model.by, events);
            }
            Action::None | Action::Detail => {}
        }
        self.refresh();
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
    let mut app = App::new(chosen, settings);
    let mut live = Live::start(chosen, scope, ring)?;
    let mut screen = Screen::open().map_err(|e| no_terminal(&e))?;
    let keyboard = Keyboard::open().map_err(|e| no_terminal(&e))?;
    let mut next = Instant::now() + every;
    let mut changed = true;
    loop {
        if changed {
            screen
                .draw(|frame| draw::draw(frame, &mut app.model))
                .map_err(|e| no_terminal(&e))?;
            changed = false;
        }
        let wait = next.saturating_duration_since(Instant::now()).min(LOOK);
        match keyboard.wait(wait).map_err(|e| no_terminal(&e))? {
            Input::Nothing => {}
            Input::Signal => changed = true,
            Input::Gone => return Ok(Outcome(128 + libc::SIGHUP as u8)),
            Input::Ready => {
                changed = true;
                if app.keys(&mut screen).map_err(|e| no_terminal(&e))? {
                    return Ok(Outcome::OK);
                }
            }
        }
        if let Some(signal) = signals.stop_requested() {
            return Ok(Outcome(128u8.saturating_add(signal.unsigned_abs() as u8)));
        }
        if Instant::now() >= next {
            next = Instant::now() + every;
            if !app.model.paused {
                app.take(&mut live)?;
                changed = true;
            }
        }
    }
}

/// The terminal went away, or is none.
fn no_terminal(error: &std::io::Error) -> Failure {
    Failure::new(1, format!("the terminal cannot be used: {error}"))
        .mend("--once prints without one")
}

/// `--once`.
pub(super) fn once(chosen: &Chosen, scope: &Scope, settings: Settings, form: Once) -> CmdResult {
    /// Sums are taken over regularly, so that the time does not matter for the memory.
    const TAKE: Duration = Duration::from_secs(1);
    let signals = Signals::block().map_err(|e| no_signals(&e))?;
    let cpu = cpu_time();
    let ring = settings.ring;
    let mut app = App::new(chosen, settings);
    let mut live = Live::start(chosen, scope, ring)?;
    let start = Instant::now();
    let mut next = TAKE;
    let mut stopped = None;
    loop {
        let elapsed = start.elapsed();
        let left = form.time.saturating_sub(elapsed);
        if left.is_zero() || app.model.ended || stopped.is_some() {
            break;
        }
        if elapsed >= next {
            app.add(&live.take()?);
            next = elapsed + TAKE;
        }
        app.look_at_process();
        let signal = signals
            .wait(Some(left.min(LOOK)))
            .map_err(|e| no_signals(&e))?;
        stopped = signal.filter(|s| *s != libc::SIGCHLD);
    }
    app.add(&live.finish()?);
    app.model.accumulated = true;
    app.refresh();
    let own_seconds = cpu_time().saturating_sub(cpu).as_secs_f64();
    // Of all the time, not of the last second.
    app.model.own.cpu = own_seconds / start.elapsed().as_secs_f64().max(1e-9);
    let end = once::Outcome {
        own_seconds,
        top: form.top,
    };
    let mut out = Output::stdout();
    if form.json {
        once::json(&mut out, &app.model, end)?;
    } else {
        once::text(&mut out, &app.model, end)?;
    }
    out.flush()?;
    Ok(match stopped {
        Some(_) => Outcome(130),
        None => Outcome::OK,
    })
}
