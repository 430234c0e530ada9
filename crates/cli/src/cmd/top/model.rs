//! What the screen shows and how keys change it, without a terminal.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use truecount_record::live::{
    By, DetailLine, DetailRequest, Key, OwnCost, Sampled, Span, Sums, Tab, Weight,
};

/// What was sampled, for the head of the screen.
#[derive(Debug, Clone)]
pub(super) struct EventInfo {
    pub(super) name: String,
    /// `a sample every 1 ms`.
    pub(super) rate: String,
    /// Its events are nanoseconds.
    pub(super) is_time: bool,
}

/// What does not change while the screen is up.
#[derive(Debug, Clone)]
pub(super) struct About {
    /// `process 4711 (nginx)`, `all processes on 8 CPUs`.
    pub(super) scope: String,
    pub(super) events: Vec<EventInfo>,
    /// What the user should know: an event that was taken instead of another, kernel functions without names.
    pub(super) notes: Vec<String>,
}

/// A row that is looked into.
#[derive(Debug, Clone)]
pub(super) struct Detail {
    pub(super) key: Key,
    pub(super) tab: Tab,
    /// None: they are being looked for.
    pub(super) lines: Vec<DetailLine>,
    pub(super) scroll: usize,
    /// The line with most samples, to be scrolled to once.
    pub(super) seek: bool,
}

/// What the rest of the program has to do after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Quit,
    /// Ctrl-Z.
    Suspend,
    /// Sums begin anew, perhaps by another key.
    Restart,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) weights: Vec<Weight>,
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) about: About,
    pub(super) by: By,
    /// Index of the event that sorts.
    pub(super) sort: usize,
    pub(super) accumulated: bool,
    pub(super) paused: bool,
    /// Places that wait for their names.
    pub(super) waiting: usize,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) typing: bool,
    pub(super) help: bool,
    pub(super) detail: Option<Detail>,
    /// The chosen row; `None`: the first, whichever it is.
    pub(super) chosen: Option<Key>,
    pub(super) own: OwnCost,
    /// The process that was watched has ended.
    pub(super) ended: bool,
    /// Rows that fit, as drawn last.
    pub(super) page: usize,
    pub(super) rows: Vec<Row>,
    /// Sum per event of all rows, also of those that the filter hides.
    pub(super) all: Vec<Weight>,
    pub(super) others: Vec<Weight>,
    pub(super) folded: u64,
    pub(super) time: std::time::Duration,
    pub(super) losses: (u64, u64, u64),
}

impl Model {
    pub(super) fn new(about: About, by: By) -> Self {
        Self {
            about,
            by,
            sort: 0,
            accumulated: false,
            paused: false,
            waiting: 0,
            filter: String::new(),
            typing: false,
            help: false,
            detail: None,
            chosen: None,
            own: OwnCost::default(),
            ended: false,
            page: 1,
            rows: Vec::new(),
            all: Vec::new(),
            others: Vec::new(),
            folded: 0,
            time: std::time::Duration::ZERO,
            losses: (0, 0, 0),
        }
    }

    pub(super) fn span(&self) -> Span {
        if self.accumulated {
            Span::Total
        } else {
            Span::Last
        }
    }

    /// The event that is shown beside the sorting one.
    pub(super) fn second(&self) -> Option<usize> {
        let n = self.about.events.len();
        (n > 1).then(|| (self.sort + 1) % n)
    }

    /// Takes over the sums.
    pub(super) fn update(&mut self, sampled: &Sampled) {
        let span = self.span();
        let events = self.about.events.len();
        let weights =
            |sums: &Sums| -> Vec<Weight> { (0..events).map(|e| sums.get(e, span)).collect() };
        let wanted = self.filter.to_lowercase();
        let is_shown = |key: &Key| {
            wanted.is_empty()
                || key.name.to_lowercase().contains(&wanted)
                || key.of.to_lowercase().contains(&wanted)
        };
        self.rows = sampled
            .rows
            .rows()
            .filter(|(key, _)| is_shown(key))
            .map(|(key, sums)| Row {
                key: key.clone(),
                weights: weights(sums),
            })
            .filter(|row| row.weights.iter().any(|w| w.samples > 0))
            .collect();
        let (first, second) = (self.sort, self.second().unwrap_or(self.sort));
        let size = |r: &Row| {
            let of = |event: usize| r.weights.get(event).map_or(0, |w| w.events);
            (of(first), of(second))
        };
        self.rows
            .sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.key.cmp(&b.key)));
        self.all = (0..events).map(|e| sampled.rows.all(e, span)).collect();
        self.others = weights(sampled.rows.others());
        self.folded = sampled.rows.folded();
        self.time = match span {
            Span::Last => sampled.time.0,
            Span::Total => sampled.time.1,
        };
        self.losses = (sampled.lost, sampled.throttled, sampled.broken);
        self.by = sampled.by;
        self.waiting = sampled.waiting;
    }

    /// The index of the chosen row.
    pub(super) fn cursor(&self) -> usize {
        self.chosen
            .as_ref()
            .and_then(|key| self.rows.iter().position(|r| r.key == *key))
            .unwrap_or(0)
    }

    fn move_by(&mut self, by: isize) {
        if let Some(detail) = &mut self.detail {
            let last = detail.lines.len().saturating_sub(1);
            detail.scroll = detail.scroll.saturating_add_signed(by).min(last);
            return;
        }
        let at = self.cursor().saturating_add_signed(by);
        let at = at.min(self.rows.len().saturating_sub(1));
        // At the top the cursor stays with the first row, whichever it is.
        self.chosen = match at {
            0 => None,
            at => self.rows.get(at).map(|r| r.key.clone()),
        };
    }

    /// What a key does. Sums must be taken over again afterwards ([`Model::update`]).
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Action::Quit,
            KeyCode::Char('z') if control => return Action::Suspend,
            _ if self.typing => {
                self.type_filter(key.code);
                return Action::None;
            }
            _ => {}
        }
        if self.help {
            self.help = false;
            return Action::None;
        }
        let page = isize::try_from(self.page.max(2) - 1).unwrap_or(1);
        match key.code {
            KeyCode::Char('q') => match self.detail.take() {
                Some(_) => {}
                None => return Action::Quit,
            },
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left if self.detail.is_some() => {
                self.detail = None;
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.chosen = None;
            }
            KeyCode::Char('a') => self.accumulated = !self.accumulated,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('n') => {
                self.sort = (self.sort + 1) % self.about.events.len().max(1);
            }
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('/') if self.detail.is_none() => self.typing = true,
            KeyCode::Char('z') => return Action::Restart,
            KeyCode::Char('b') if self.detail.is_none() => {
                self.by = self.by.next();
                self.chosen = None;
                return Action::Restart;
            }
            KeyCode::Enter | KeyCode::Right if self.detail.is_none() => return self.open(),
            KeyCode::Tab | KeyCode::Enter => {
                if let Some(detail) = &mut self.detail {
                    detail.tab = match detail.tab {
                        Tab::Code => Tab::Callers,
                        Tab::Callers => Tab::Code,
                        Tab::Functions => Tab::Functions,
                    };
                    detail.lines = Vec::new();
                    detail.scroll = 0;
                    detail.seek = true;
                }
            }
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-page),
            KeyCode::PageDown => self.move_by(page),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            _ => {}
        }
        Action::None
    }

    /// What must be known for the open detail.
    pub(super) fn wanted(&self) -> Option<DetailRequest> {
        let detail = self.detail.as_ref()?;
        Some(DetailRequest {
            key: detail.key.clone(),
            tab: detail.tab,
            event: self.sort,
            span: self.span(),
        })
    }

    /// Takes over the lines of the open detail, if it is still the one they were found for.
    pub(super) fn show(&mut self, found: &DetailRequest, lines: Vec<DetailLine>) {
        if self.wanted().as_ref() == Some(found)
            && let Some(detail) = &mut self.detail
        {
            detail.lines = lines;
        }
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace if !self.filter.is_empty() => {
                let _ = self.filter.pop();
            }
            KeyCode::Backspace | KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.typing = false;
            }
            _ => {}
        }
        self.chosen = None;
    }

    fn open(&mut self) -> Action {
        let Some(row) = self.rows.get(self.cursor()) else {
            return Action::None;
        };
        self.detail = Some(Detail {
            key: row.key.clone(),
            tab: match self.by {
                By::Symbol | By::Line => Tab::Code,
                By::Process | By::Thread | By::Cpu => Tab::Functions,
            },
            lines: Vec::new(),
            scroll: 0,
            seek: true,
        });
        Action::None
    }
}
