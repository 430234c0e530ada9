//! Whole scans on a scripted kernel with a workload that counts what the test says.

use super::*;
use std::cell::Cell;
use truecount_model::SourceKind;
use truecount_perf::fake::FakeKernel;
use truecount_perf::{Errno, Event};

/// Counts of the scripted workload, by `config`, phase and run.
type Rule = fn(config: u64, phase: usize, run: u64) -> Option<u64>;

/// Opens the events on the fake as a command would, and counts by rule.
struct Scripted<'f> {
    kernel: &'f SharedKernel,
    phases: Vec<Phase>,
    rule: Rule,
    runs: u64,
    /// The run that fails.
    breaks: Option<u64>,
    batches: Vec<Vec<u64>>,
}

impl<'f> Scripted<'f> {
    fn new(kernel: &'f SharedKernel, rule: Rule) -> Self {
        let phase = |name: &str| Phase {
            name: name.to_owned(),
            turn: "turn".to_owned(),
            turns: Some(10),
        };
        Self {
            kernel,
            phases: vec![phase("one"), phase("two")],
            rule,
            runs: 0,
            breaks: None,
            batches: Vec::new(),
        }
    }
}

impl Workload for Scripted<'_> {
    fn phases(&self) -> &[Phase] {
        &self.phases
    }

    fn run(&mut self, events: &[EventAttr], interrupts: bool) -> Result<Vec<Counts>, Problem> {
        let opened: Vec<Event> =
            open::on_exec(self.kernel, events, 7).map_err(Problem::Counters)?;
        self.batches
            .push(opened.iter().map(|e| e.attr().get_config()).collect());
        self.runs += 1;
        if self.breaks == Some(self.runs) {
            return Err(Problem::Broken(truecount_run::Error::new(
                truecount_run::ErrorKind::Setup,
                "gone",
            )));
        }
        let of_phase = |phase| Counts {
            events: events
                .iter()
                .map(|attr| (self.rule)(attr.get_config(), phase, self.runs))
                .collect(),
            interrupts: interrupts.then_some(self.runs),
        };
        Ok((0..self.phases.len()).map(of_phase).collect())
    }
}

/// Stops after so many questions; keeps the last state.
struct Watcher {
    left: Cell<usize>,
    saved: Option<State>,
    steps: Vec<(usize, usize)>,
}

impl Watcher {
    fn patient() -> Self {
        Self::until(usize::MAX)
    }

    fn until(left: usize) -> Self {
        Self {
            left: Cell::new(left),
            saved: None,
            steps: Vec::new(),
        }
    }
}

impl Watch for Watcher {
    fn stop(&mut self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left == 0
    }

    fn step(&mut self, done: usize, of: usize) {
        self.steps.push((done, of));
    }

    fn save(&mut self, state: &State) {
        self.saved = Some(state.clone());
    }
}

/// A scan that nobody stops.
fn scan(kernel: &SharedKernel, plan: &Plan, work: &mut Scripted<'_>, state: &mut State) {
    run(kernel, plan, work, state, &mut Watcher::patient()).unwrap();
}

fn plan(codes: &[u16], umasks: Umasks) -> Plan {
    Plan {
        codes: codes.to_vec(),
        layout: Layout::Intel,
        umasks,
        runs: 3,
        raw: EventAttr::new(4, 0).exclude_kernel(true).exclude_hv(true),
        filter: "u".to_owned(),
        references: Vec::new(),
        known: vec![Known {
            selector: Selector {
                code: 0xcb,
                umask: Some(1),
            },
            name: "HW_INTERRUPTS.RECEIVED".to_owned(),
            provenance: Some("by hand".to_owned()),
        }],
    }
}

fn event(name: &str, config: u64) -> Reference {
    Reference {
        name: name.to_owned(),
        source: SourceKind::Hardware,
        by: By::Events {
            plus: EventAttr::new(4, config),
            minus: None,
        },
    }
}

fn names(found: &Outcome) -> Vec<&str> {
    found.events.iter().map(|e| e.event.as_str()).collect()
}

/// 0xc0 counts with masks 0 and 1, 0xc4 with 0xff, 0xcb with 1 only; 0x01 takes a mask of 2 and 4.
fn rig(config: u64, phase: usize, run: u64) -> Option<u64> {
    Some(match config {
        0x00c0 | 0x01c0 => 1000 + run,
        0xffc4 | 0x04c4 => [30, 70][phase],
        0x01cb => run % 2,
        // Only together are they page faults.
        0xff01 => 5 + phase as u64,
        0x0201 => 5,
        0x0401 => phase as u64,
        _ => 0,
    })
}

#[test]
fn what_ticks_is_found_stage_by_stage() {
    let fake = FakeKernel::new();
    let kernel = fake.ticking();
    let mut work = Scripted::new(&kernel, rig);
    let (mut state, mut watch) = (State::default(), Watcher::patient());
    let plan = plan(&[0x01, 0xc0, 0xc1, 0xc4, 0xcb], Umasks::Counting);
    run(&kernel, &plan, &mut work, &mut state, &mut watch).unwrap();
    assert!(state.complete);
    let found = outcome(&plan, &state);
    assert_eq!(
        names(&found),
        [
            "r0201:u", "r0401:u", "rff01:u", "r00c0:u", "r01c0:u", "r04c4:u", "rffc4:u", "r01cb:u"
        ]
    );
    assert_eq!(found.at_once, 4);
    let branches = &found.events[6];
    assert_eq!(
        (branches.range.min, branches.range.max, branches.range.exact),
        // Fewer than five equal runs are not called exact.
        (100, 100, false)
    );
    assert_eq!(branches.phases[0].phase, "two");
    assert_eq!(branches.phases[0].per_turn, Some(7.0));
    let interrupts = &found.events[7];
    assert_eq!(interrupts.names, ["HW_INTERRUPTS.RECEIVED"]);
    assert!(!interrupts.range.exact && interrupts.provenance.is_some());
    assert_eq!(
        (found.events[3].names.len(), found.events[3].names_of_code),
        (0, 0)
    );
    // 0xc1 opened, with three masks; bits of codes that never counted are not tried.
    let silent: Vec<&str> = found.silent.iter().map(|s| s.event.as_str()).collect();
    for name in [
        "r00c1:u", "r01c1:u", "rffc1:u", "rffc0:u", "rffcb:u", "r00cb:u", "r80c4:u",
    ] {
        assert!(silent.contains(&name), "{name}: {silent:?}");
    }
    assert!(!silent.contains(&"r80c1:u"));
    // Three runs of each batch, never more than four counters, nothing twice.
    assert!(work.batches.iter().all(|batch| batch.len() <= 4));
    assert_eq!(work.batches.len(), state.batches.len() * 3);
    assert_eq!(state.tried().len(), found.events.len() + found.silent.len());
    let last = watch.steps.last().unwrap();
    assert_eq!(last.0, last.1);
    assert!(fake.open_descriptors().is_empty());
}

#[test]
fn an_interrupted_scan_goes_on_where_it_was() {
    let fake = FakeKernel::new();
    let kernel = fake.ticking();
    let mut plan = plan(&[0x01, 0xc0, 0xc1, 0xc4, 0xcb], Umasks::Counting);
    plan.references = vec![event("branches", 0x04c4)];
    let mut whole = State::default();
    let mut work = Scripted::new(&kernel, rig);
    scan(&kernel, &plan, &mut work, &mut whole);
    let runs = work.runs;
    for stop in [0, 1, 4, 7, 12] {
        let (mut state, mut watch) = (State::default(), Watcher::until(stop));
        let mut work = Scripted::new(&kernel, rig);
        run(&kernel, &plan, &mut work, &mut state, &mut watch).unwrap();
        assert!(!state.complete && work.runs < runs);
        let text = serde_json::to_string(&watch.saved.unwrap_or_default()).unwrap();
        let mut state: State = serde_json::from_str(&text).unwrap();
        let before = state.batches.len();
        let mut rest = Scripted::new(&kernel, rig);
        scan(&kernel, &plan, &mut rest, &mut state);
        assert!(state.complete);
        // What was found is not tried again.
        assert_eq!(rest.runs + 3 * before as u64, runs);
        let (a, b) = (outcome(&plan, &state), outcome(&plan, &whole));
        assert_eq!((names(&a), &a.silent), (names(&b), &b.silent));
    }
}

#[test]
fn references_are_counted_in_the_same_runs() {
    let fake = FakeKernel::new();
    let kernel = fake.ticking();
    let mut plan = plan(&[0xc4, 0xcb], Umasks::No);
    plan.references = vec![
        event("irqs", 0x01cb),
        event("all", 0x04c4),
        Reference {
            name: "minus".to_owned(),
            source: SourceKind::Hardware,
            by: By::Events {
                plus: EventAttr::new(4, 0x04c4),
                minus: Some(EventAttr::new(4, 0x01cb)),
            },
        },
        Reference {
            name: "interrupts".to_owned(),
            source: SourceKind::Software,
            by: By::Interrupts,
        },
    ];
    // Four counters for the references; one more is needed.
    assert!(plan.check(&kernel).is_err());
    fake.set_counters(6);
    plan.check(&kernel).unwrap();
    let mut work = Scripted::new(&kernel, rig);
    let mut state = State::default();
    scan(&kernel, &plan, &mut work, &mut state);
    assert!(
        work.batches
            .iter()
            .all(|batch| batch.ends_with(&[0x01cb, 0x04c4, 0x04c4, 0x01cb]))
    );
    let found = outcome(&plan, &state);
    assert_eq!(
        (names(&found), found.at_once),
        (vec!["rffc4:u", "r01cb:u"], 2)
    );
    let like = |index: usize| -> Vec<(&str, Kind)> {
        let relations = found.events[index].relations.iter();
        relations
            .map(|r| (r.reference.as_str(), r.relation))
            .collect()
    };
    assert_eq!(like(0)[0], ("all", Kind::Equal));
    assert_eq!(like(1), [("irqs", Kind::Equal)]);
    // all = minus + r01cb, at each of two phases of three runs.
    let sum = found
        .sums
        .iter()
        .find(|s| s.event == "all" && s.of[1] == "r01cb:u");
    let sum = sum.unwrap_or_else(|| panic!("{:?}", found.sums));
    assert_eq!(
        (sum.of[0].as_str(), sum.equal_points, sum.points),
        ("minus", 6, 6)
    );
    assert_eq!(state.reference(3).points().len(), state.batches.len() * 6);
}

#[test]
fn a_reference_that_is_the_sum_of_two_selectors_is_confirmed_together() {
    let fake = FakeKernel::new();
    let kernel = fake.ticking();
    let mut plan = plan(&[0x01], Umasks::Counting);
    plan.references = vec![event("faults", 0xff01)];
    // One counter beside the reference: the two are never together in the scan, nor can they be.
    fake.set_counters(2);
    let mut state = State::default();
    let mut work = Scripted::new(&kernel, rig);
    scan(&kernel, &plan, &mut work, &mut state);
    assert!(state.complete && state.sums.is_empty() && !state.asked.is_empty());
    fake.set_counters(3);
    state.asked.clear();
    scan(&kernel, &plan, &mut work, &mut state);
    assert_eq!(
        state.sums,
        [Sum {
            event: "faults".to_owned(),
            of: ["r0201:u".to_owned(), "r0401:u".to_owned()],
            equal_points: 6,
            points: 6,
            max_off: 0,
        }]
    );
    assert_eq!(outcome(&plan, &state).sums, state.sums);
}

#[test]
fn what_cannot_be_counted_is_no_silence() {
    let fake = FakeKernel::new();
    let kernel = fake.ticking();
    fake.on_open(|opening| (opening.attr.0.config == 0xff02).then_some(Errno::EINVAL));
    let rule: Rule = |config, _, _| (config != 0xff03).then_some(0);
    let mut work = Scripted::new(&kernel, rule);
    let mut state = State::default();
    let mut plan = plan(&[2], Umasks::No);
    scan(&kernel, &plan, &mut work, &mut state);
    let found = outcome(&plan, &state);
    assert_eq!(found.not_opened[0].event, "rff02:u");
    assert!(found.silent.iter().all(|silent| silent.event != "rff02:u"));
    plan.codes = vec![3];
    let mut state = State::default();
    scan(&kernel, &plan, &mut work, &mut state);
    let found = outcome(&plan, &state);
    assert_eq!(found.not_counted[0].event, "rff03:u");
    assert!(found.not_counted[0].why.why.reason.contains("others"));
    let silent: Vec<&str> = found.silent.iter().map(|s| s.event.as_str()).collect();
    assert_eq!(silent, ["r0003:u", "r0103:u"]);
    // What cannot be counted does not keep the others of its batch off.
    plan.codes = vec![2, 3, 4, 5];
    fake.on_open(|_| None);
    let mut state = State::default();
    scan(&kernel, &plan, &mut work, &mut state);
    let found = outcome(&plan, &state);
    assert_eq!((found.not_counted.len(), found.silent.len()), (1, 11));
}

#[test]
fn a_run_that_fails_costs_only_its_batch() {
    let fake = FakeKernel::new();
    let kernel = fake.ticking();
    fake.on_open(|opening| (opening.attr.0.config == 0xffc1).then_some(Errno::EINVAL));
    let mut plan = plan(&[0x01, 0xc0, 0xc1, 0xc4, 0xcb], Umasks::Counting);
    plan.references = vec![event("branches", 0x04c4), event("faults", 0xff01)];
    let mut whole = State::default();
    let mut work = Scripted::new(&kernel, rig);
    scan(&kernel, &plan, &mut work, &mut whole);
    let runs = work.runs;
    assert!(!whole.asked.is_empty());
    for broken in 1..=runs {
        let (mut state, mut watch) = (State::default(), Watcher::patient());
        let mut work = Scripted::new(&kernel, rig);
        work.breaks = Some(broken);
        let broke = run(&kernel, &plan, &mut work, &mut state, &mut watch).unwrap_err();
        assert_eq!(broke.why.cause, "gone");
        assert_eq!(broke.run as u64, (broken - 1) % 3 + 1);
        let configs = work.batches.last().unwrap();
        assert!(broke.selectors.len() + 2 == configs.len() && !state.complete);
        // Every batch before it is there, and nothing of its own.
        let done = state.batches.len() + state.asked.len();
        assert_eq!(done as u64, (broken - 1) / 3);
        let (tried, again) = (state.tried(), done >= whole.batches.len());
        assert!(again || broke.selectors.iter().all(|each| !tried.contains(each)));
        // What is kept is whole: the scan goes on from there, and finds what one in a single go finds.
        let text = serde_json::to_string(&state).unwrap();
        let mut state: State = serde_json::from_str(&text).unwrap();
        let mut rest = Scripted::new(&kernel, rig);
        scan(&kernel, &plan, &mut rest, &mut state);
        assert!(state.complete);
        assert_eq!(rest.runs + 3 * done as u64, runs);
        let (a, b) = (outcome(&plan, &state), outcome(&plan, &whole));
        assert_eq!((names(&a), &a.silent), (names(&b), &b.silent));
        assert_eq!(a.not_opened, b.not_opened);
    }
    assert!(fake.open_descriptors().is_empty());
}

#[test]
fn a_workload_that_breaks_at_once_leaves_nothing() {
    let kernel = FakeKernel::new().ticking();
    let (mut state, mut work) = (State::default(), Scripted::new(&kernel, rig));
    work.breaks = Some(1);
    let (plan, mut watch) = (plan(&[1], Umasks::No), Watcher::patient());
    assert!(run(&kernel, &plan, &mut work, &mut state, &mut watch).is_err());
    assert!(!state.complete && state.batches.is_empty());
}
