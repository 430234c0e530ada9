//! The screen without a terminal: made-up samples, keys, and what is drawn.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use truecount_sample::spaces::MappedFile;

use truecount_record::kallsyms::Kallsyms;
use truecount_record::live::{
    Ask, By, DetailRequest, Hit, Interval, Namer, Place, Shown, Span, Tab, Weight, Work, Worker,
};

use super::app::Front;
use super::draw;
use super::model::{About, Action, EventInfo, Model};

fn event(name: &str) -> EventInfo {
    EventInfo {
        name: name.to_owned(),
        rate: "a sample every 1,000".to_owned(),
        is_time: name == "cpu-clock",
    }
}

fn about(events: &[&str]) -> About {
    About {
        scope: "all processes".to_owned(),
        events: events.iter().map(|e| event(e)).collect(),
        notes: vec!["sampling cpu-clock, a timer, instead of cycles: no PMU".to_owned()],
    }
}

/// Samples of threads of some processes, by event.
fn interval(hits: &[(u8, u32, u64)]) -> Interval {
    let mut out = Interval {
        time: Duration::from_secs(1),
        crowded: vec![Weight::default(); 2],
        ..Interval::default()
    };
    for (event, pid, samples) in hits {
        let hit = Hit {
            event: *event,
            pid: *pid,
            tid: *pid,
            cpu: Some(0),
            place: Place::Unknown(u64::from(*pid)),
            caller: None,
        };
        let weight = Weight {
            samples: *samples,
            events: samples * 1000,
        };
        out.hits.insert(hit, weight);
        out.names.insert(*pid, format!("proc{pid}").into());
    }
    out
}

struct Fixture {
    front: Front,
    asks: Receiver<Ask>,
    work: Work,
    number: u64,
    wanted: Option<DetailRequest>,
    /// Nobody finds names.
    stuck: bool,
    terminal: Terminal<TestBackend>,
}

impl Fixture {
    fn new(events: &[&str], by: By) -> Self {
        let (worker, asks) = Worker::unattended();
        let model = Model::new(about(events), by);
        Self {
            front: Front::new(model, worker),
            asks,
            work: Work::new(Namer::new(Ok(Kallsyms::default())), by, events.len(), None),
            number: 0,
            wanted: None,
            stuck: false,
            terminal: Terminal::new(TestBackend::new(110, 24)).unwrap(),
        }
    }

    fn sample(&mut self, hits: &[(u8, u32, u64)]) {
        self.add(&interval(hits));
    }

    fn add(&mut self, interval: &Interval) {
        self.work.add(interval);
        if !self.stuck {
            self.work.find_names(None);
        }
        let shown = Shown {
            sampled: self.work.summed.table(),
            number: self.number,
            cost: self.work.cost,
            ended: false,
        };
        self.front.worker.desk.place(shown);
        self.front.look().unwrap();
        self.answer();
    }

    /// Does what the other thread does.
    fn answer(&mut self) {
        if self.stuck {
            return;
        }
        while let Ok(ask) = self.asks.try_recv() {
            match ask {
                Ask::Pause(_) => {}
                Ask::Detail(wanted) => self.wanted = wanted,
                Ask::Restart(by, number) => {
                    self.work.summed.restart(by);
                    self.number = number;
                }
            }
        }
        if let Some(wanted) = &self.wanted {
            let lines = self.work.detail(wanted);
            self.front.worker.desk.place_detail(wanted.clone(), lines);
        }
        self.front.look().unwrap();
    }

    fn press(&mut self, code: KeyCode) -> Action {
        let action = self.front.key(KeyEvent::new(code, KeyModifiers::NONE));
        self.answer();
        action
    }

    /// Types characters.
    fn keys(&mut self, text: &str) {
        for c in text.chars() {
            self.press(KeyCode::Char(c));
        }
    }

    fn screen(&mut self) -> Vec<String> {
        let model = &mut self.front.model;
        self.terminal.draw(|f| draw::draw(f, model)).unwrap();
        let buffer = self.terminal.backend().buffer();
        let width = usize::from(buffer.area.width);
        let cells: Vec<&str> = buffer.content.iter().map(Cell::symbol).collect();
        cells.chunks(width).map(<[&str]>::concat).collect()
    }

    /// The line of the screen with this text.
    fn line(&mut self, text: &str) -> String {
        let screen = self.screen();
        let found = screen.iter().find(|l| l.contains(text)).cloned();
        found.unwrap_or_else(|| panic!("no {text:?} in\n{}", screen.join("\n")))
    }

    fn shows(&mut self, text: &str) -> bool {
        self.screen().iter().any(|l| l.contains(text))
    }
}

#[test]
fn the_last_interval_and_all_since_the_start() {
    let mut f = Fixture::new(&["cpu-clock"], By::Process);
    f.sample(&[(0, 11, 900), (0, 12, 100)]);
    f.sample(&[(0, 11, 50), (0, 12, 150)]);
    assert!(f.line("proc12").contains("75.00 %"));
    assert!(
        f.line("proc12").contains("150.0 µs"),
        "{}",
        f.line("proc12")
    );
    assert!(f.line("truecount top").contains("last 1.0 s"));
    assert!(f.shows("instead of cycles"));
    f.keys("a");
    assert!(f.line("proc12").contains("20.83 %"));
    assert!(f.line("truecount top").contains("since the start, 2 s"));
    // What has not run in the last interval is not in it.
    f.keys("a");
    f.sample(&[(0, 11, 1)]);
    assert!(!f.shows("proc12"));
}

#[test]
fn two_events_and_their_ratio() {
    let mut f = Fixture::new(&["stalls", "instructions"], By::Process);
    f.sample(&[
        (0, 1, 300),
        (1, 1, 100),
        (0, 2, 100),
        (1, 2, 800),
        (1, 3, 100),
    ]);
    let line = f.line("proc1 ");
    for part in ["75.00 %", "300 k", "10.00 %", "3.000"] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    assert!(
        f.line("proc3 ").contains("–"),
        "without samples there is no ratio"
    );
    let order = |f: &mut Fixture| -> Vec<String> {
        f.front
            .model
            .rows
            .iter()
            .map(|r| r.key.name.to_string())
            .collect()
    };
    assert_eq!(order(&mut f), ["proc1", "proc2", "proc3"]);
    f.keys("n");
    assert_eq!(order(&mut f), ["proc2", "proc1", "proc3"]);
    assert!(f.line("proc2 ").contains("8.000"));
}

#[test]
fn the_filter_hides_rows_and_keeps_shares() {
    let mut f = Fixture::new(&["cycles"], By::Process);
    f.sample(&[(0, 7, 10), (0, 8, 30)]);
    f.keys("/OC7q");
    assert!(f.shows("filter: OC7q"), "letters are text while typing");
    assert!(f.shows("no row matches the filter"));
    f.press(KeyCode::Backspace);
    assert!(f.line("proc7").contains("25.00 %") && !f.shows("proc8"));
    f.press(KeyCode::Enter);
    assert!(f.shows("Esc clears it"));
    f.press(KeyCode::Esc);
    assert!(f.shows("proc8"));
}

#[test]
fn the_cursor_follows_its_row() {
    let mut f = Fixture::new(&["cycles"], By::Process);
    f.sample(&[(0, 1, 30), (0, 2, 20), (0, 3, 10)]);
    f.press(KeyCode::Down);
    assert_eq!(f.front.model.cursor(), 1);
    f.sample(&[(0, 1, 3), (0, 2, 2), (0, 3, 1), (0, 4, 50), (0, 5, 40)]);
    assert_eq!(
        f.front.model.rows[f.front.model.cursor()].key.name.as_ref(),
        "proc2"
    );
    assert_eq!(f.front.model.cursor(), 3);
    f.press(KeyCode::End);
    assert_eq!(f.front.model.cursor(), 4);
    f.press(KeyCode::Home);
    assert_eq!(f.front.model.cursor(), 0);
    // A row that vanished leaves the cursor at the first.
    f.press(KeyCode::Down);
    f.sample(&[]);
    assert_eq!(f.front.model.cursor(), 0);
    assert!(f.shows("no sample in this time"));
    f.press(KeyCode::Enter);
    assert!(f.front.model.detail.is_none());
}

#[test]
fn looking_into_a_row_and_back() {
    let mut f = Fixture::new(&["cycles"], By::Process);
    f.sample(&[(0, 1, 30), (0, 2, 20)]);
    assert_eq!(f.press(KeyCode::Enter), Action::None);
    assert!(f.line("proc1").contains("functions"));
    assert!(f.line("(no mapping known)").contains("100.0 %"));
    assert_eq!(f.press(KeyCode::Char('q')), Action::None);
    assert!(f.front.model.detail.is_none());
    assert_eq!(f.press(KeyCode::Char('q')), Action::Quit);
    // Functions: code and callers.
    f.keys("bbbbb");
    assert_eq!(f.front.model.by, By::Process, "around the circle");
    f.keys("bbbb");
    f.sample(&[(0, 1, 30)]);
    f.press(KeyCode::Enter);
    assert_eq!(f.front.model.detail.as_ref().unwrap().tab, Tab::Code);
    assert!(f.shows("0x1"));
    f.press(KeyCode::Tab);
    assert!(f.shows("(no caller recorded)"));
}

#[test]
fn restart_pause_help_and_control_keys() {
    let mut f = Fixture::new(&["cycles"], By::Cpu);
    f.sample(&[(0, 1, 30)]);
    assert!(f.line("CPU 0").contains("100.00 %"));
    f.keys(" ");
    assert!(f.front.model.paused && f.shows("PAUSED"));
    f.keys("?");
    assert!(f.shows("begin anew"));
    f.keys("q");
    assert!(
        !f.front.model.help,
        "any key leaves the help, without doing anything else"
    );
    assert_eq!(f.press(KeyCode::Char('z')), Action::Restart);
    assert!(f.front.model.rows.is_empty());
    f.front.model.typing = true;
    for (key, action) in [('c', Action::Quit), ('z', Action::Suspend)] {
        let key = KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
        assert_eq!(f.front.model.key(key), action);
    }
}

#[test]
fn losses_and_throttling_are_shown() {
    let mut f = Fixture::new(&["cycles"], By::Process);
    let mut i = interval(&[(0, 1, 1)]);
    (i.lost, i.throttled, i.broken) = (1234, 5, 6);
    i.crowded[0] = Weight {
        samples: 9,
        events: 9000,
    };
    f.add(&i);
    let line = f.line("1,234 lost");
    assert!(line.contains("throttled 5 times") && line.contains("6 records not understood"));
    assert!(f.line("(others)").contains("90.00 %"));
}

#[test]
fn every_size_of_the_terminal_can_be_drawn() {
    let mut f = Fixture::new(&["cycles", "instructions"], By::Symbol);
    f.sample(&[(0, 1, 30), (1, 1, 20)]);
    for help in [false, true] {
        f.front.model.help = help;
        for width in [1, 2, 5, 20, 60, 300] {
            for height in [1, 2, 3, 5, 8, 60] {
                f.terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
                let _ = f.screen();
            }
        }
    }
    f.front.model.help = false;
    f.press(KeyCode::Enter);
    f.terminal = Terminal::new(TestBackend::new(3, 2)).unwrap();
    let _ = f.screen();
}

#[test]
fn keys_are_answered_while_names_are_being_found() {
    let mut f = Fixture::new(&["cycles", "instructions"], By::Symbol);
    f.sample(&[(0, 1, 30), (1, 1, 20), (0, 2, 10)]);
    f.stuck = true;
    f.keys("a");
    assert!(f.shows("since the start"));
    f.keys("n");
    assert!(f.shows("▼ instructions"));
    f.keys(" ");
    assert!(f.shows("PAUSED"));
    f.keys(" ");
    assert!(!f.shows("PAUSED"));
    f.press(KeyCode::Enter);
    assert!(f.shows("Looking for it"));
    f.press(KeyCode::Tab);
    assert!(f.shows("callers (Tab: code)") && f.shows("Looking for it"));
    f.press(KeyCode::Esc);
    assert!(f.shows("no mapping known"));
    f.keys("b");
    assert!(f.shows("by process") && f.front.model.rows.is_empty());
    assert_eq!(f.press(KeyCode::Char('q')), Action::Quit);
    // What it asked for meanwhile is done when the other thread has time again.
    f.press(KeyCode::Enter);
    f.stuck = false;
    f.answer();
    f.sample(&[(1, 7, 5)]);
    assert!(f.shows("proc7"));
}

#[test]
fn what_was_asked_for_before_is_not_shown() {
    let mut f = Fixture::new(&["cycles"], By::Process);
    f.sample(&[(0, 1, 30)]);
    f.stuck = true;
    f.keys("b");
    // A table that was under way: of processes, while threads are wanted.
    f.sample(&[(0, 1, 30)]);
    assert!(f.front.model.rows.is_empty() && f.front.model.by == By::Thread);
    f.stuck = false;
    f.answer();
    f.sample(&[(0, 1, 30)]);
    assert!(f.line("proc1").contains("1/1"));
    // A detail of a row that was left.
    f.press(KeyCode::Enter);
    let wanted = f.wanted.clone().unwrap();
    f.press(KeyCode::Esc);
    f.front.worker.desk.place_detail(wanted, Vec::new());
    f.front.look().unwrap();
    assert!(f.front.model.detail.is_none());
}

#[test]
fn a_paused_screen_stands_still() {
    let mut f = Fixture::new(&["cycles"], By::Process);
    f.sample(&[(0, 1, 30)]);
    f.keys(" ");
    f.sample(&[(0, 2, 30)]);
    assert!(f.shows("proc1") && !f.shows("proc2"));
    f.keys(" ");
    assert!(f.shows("proc2") && !f.shows("proc1"));
}

#[test]
fn what_waits_for_its_name_is_shown_by_file_and_comes_to_its_row_later() {
    let file = Arc::new(MappedFile {
        path: "/no/such/program".to_owned(),
        build_id: Vec::new(),
    });
    let at = |samples: u64| {
        let mut i = interval(&[]);
        for (offset, samples) in [(0x10, samples), (0x20, 1)] {
            let hit = Hit {
                event: 0,
                pid: 1,
                tid: 1,
                cpu: Some(0),
                place: Place::File(Arc::clone(&file), offset),
                caller: None,
            };
            let weight = Weight {
                samples,
                events: samples * 1000,
            };
            i.hits.insert(hit, weight);
        }
        i
    };
    let mut f = Fixture::new(&["cycles"], By::Symbol);
    f.stuck = true;
    f.add(&at(8));
    f.add(&at(3));
    assert!(f.shows("finding the names of 2 places"));
    let line = f.line("(finding its name)");
    assert!(
        line.contains("[program]") && line.contains("100.00 %"),
        "{line}"
    );
    assert!(line.contains(" 4 "), "of the last interval: {line}");
    f.keys("a");
    let line = f.line("(finding its name)");
    assert!(line.contains(" 13 "), "of both: {line}");
    // Once the names are found, nothing is lost and nothing counted twice.
    f.stuck = false;
    f.add(&interval(&[]));
    assert!(!f.shows("finding"));
    let line = f.line("(no symbol)");
    assert!(
        line.contains(" 13 ") && line.contains("[program]"),
        "{line}"
    );
    f.keys("a");
    assert!(
        f.shows("no sample in this time"),
        "not of the last interval"
    );
    // Of a process only what is inside waits.
    f.keys("b");
    f.stuck = true;
    f.add(&at(5));
    assert!(f.line("(ended)").contains("100.00 %"));
}

#[test]
fn names_are_found_in_slices_of_time() {
    let mut f = Fixture::new(&["cycles"], By::Symbol);
    let file = Arc::new(MappedFile {
        path: std::env::current_exe().unwrap().display().to_string(),
        build_id: Vec::new(),
    });
    let mut i = interval(&[]);
    for offset in 0..200u64 {
        let hit = Hit {
            event: 0,
            pid: 1,
            tid: 1,
            cpu: Some(0),
            place: Place::File(Arc::clone(&file), 0x10_0000 + 64 * offset),
            caller: None,
        };
        i.hits.insert(
            hit,
            Weight {
                samples: 1,
                events: 1,
            },
        );
    }
    f.work.add(&i);
    assert_eq!(f.work.summed.table().waiting, 200);
    let mut slices = 0;
    while f.work.find_names(Some(Instant::now())) {
        slices += 1;
    }
    let table = f.work.summed.table();
    assert_eq!(
        (table.waiting, table.rows.all(0, Span::Total).samples),
        (0, 200)
    );
    assert!(slices > 1, "a slice without time finds one");
}
