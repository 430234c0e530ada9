//! What a model's first levels are known to have is left out of the ring, and nothing else: branches are all told, and
//! references to other lines.

use super::support::{built, fixed_layout, launch, same_references};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use truecount_engine::virt::references::{
    Batch, Branch, Code, Elements, Executed, Facts, Levels, Meaning, Next, References, Sink, Thread,
};
use truecount_engine::virt::{CallOptions, Calls, Options, Outcome};
use truecount_testing::programs::REFERENCES;

/// References, conditional and indirect branches, lines of instructions.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    references: u64,
    conditional: u64,
    taken: u64,
    /// Of executions, in the end.
    counted_taken: u64,
    indirect: u64,
    lines: u64,
    nodes: u64,
    known: u64,
    /// References of instructions that are told as a whole.
    whole: u64,
    numbers: u32,
    lost: u32,
    /// Wrong predictions.
    wrong: u64,
    /// Those of indirect branches.
    went_wrong: u64,
    /// Branches that were told one by one.
    noted: u64,
    /// Of all that was executed.
    predictor: Predictor,
}

/// Cachegrind's rules, as its manual says them: a counter by the last seven outcomes and seven bits of the address; where
/// the last one of 512 places went.
#[derive(Debug, Default, PartialEq, Eq)]
struct Predictor {
    outcomes: usize,
    counters: Vec<i8>,
    targets: Vec<u64>,
}

impl Predictor {
    /// Whether it is wrong.
    fn meets(&mut self, pc: u64, taken: bool) -> bool {
        self.counters.resize(128 * 128, 0);
        let counter = &mut self.counters[128 * self.outcomes + pc as usize % 128];
        let wrong = (*counter >= 2) != taken;
        *counter = (*counter + if taken { 1 } else { -1 }).clamp(0, 3);
        self.outcomes = (2 * self.outcomes + usize::from(taken)) % 128;
        wrong
    }

    /// The same of an indirect one.
    fn goes(&mut self, pc: u64, target: u64) -> bool {
        self.targets.resize(512, 0);
        let place = &mut self.targets[pc as usize % 512];
        std::mem::replace(place, target) != target
    }
}

impl Sink for Told {
    fn executed(&mut self, _thread: Thread, executed: &Executed<'_>) {
        for (at, instruction) in executed.instructions() {
            executed.references(at, |_, _, run| self.references += run.times);
            match instruction.branch {
                Branch::Conditional { target } => {
                    self.conditional += 1;
                    let last = at + 1 == executed.done;
                    let taken = last && executed.next == Some(target);
                    self.taken += u64::from(taken);
                    self.wrong += u64::from(self.predictor.meets(instruction.pc, taken));
                }
                Branch::Indirect => {
                    self.indirect += 1;
                    let wrong = executed
                        .next
                        .map(|to| self.predictor.goes(instruction.pc, to));
                    self.went_wrong += u64::from(wrong == Some(true));
                }
                _ => {}
            }
        }
    }

    fn number(&mut self, _code: &Code, _at: usize, _what: Meaning) -> Option<u32> {
        self.numbers += 1;
        Some(self.numbers)
    }

    fn batch(&mut self, _thread: Thread, batch: &mut Batch<'_>) {
        for next in batch {
            match next {
                Next::Reference(..) | Next::MissedReference(..) => self.references += 1,
                Next::Branch(_, taken) => {
                    self.conditional += 1;
                    self.taken += u64::from(taken);
                    self.noted += 1;
                }
                Next::Jump(..) => {
                    self.indirect += 1;
                    self.noted += 1;
                }
                Next::Fetch(_) | Next::MissedFetch(_) => self.lines += 1,
                Next::Known(..) => self.known += 1,
                Next::Node(_) => self.nodes += 1,
            }
        }
    }

    fn taken(&mut self, _of: (Thread, u32), _code: &Code, _at: usize, times: u64) {
        self.counted_taken += times;
    }

    fn mispredicted(&mut self, _of: (Thread, u32), code: &Code, at: usize, times: u64) {
        let count = match code.instructions[at].branch {
            Branch::Conditional { .. } => &mut self.conditional,
            _ => &mut self.indirect,
        };
        *count = count.wrapping_add(times);
    }

    fn noted(&mut self, _thread: Thread, executed: &Executed<'_>, at: usize) {
        executed.references(at, |_, _, run| self.whole += run.times);
    }

    fn masked(
        &mut self,
        _thread: Thread,
        _code: &Code,
        _at: (usize, usize),
        elements: Elements,
        _hint: &mut u32,
    ) {
        self.whole += u64::from(elements.mask.count_ones());
    }

    fn lost(&mut self, parts: u32) {
        self.lost += parts;
    }
}

/// Runs it and says what was told.
fn told(
    mut command: Command,
    levels: Option<Levels>,
    alone: bool,
    calls: Option<CallOptions>,
) -> Option<(Told, Outcome)> {
    same_references(&mut command);
    fixed_layout(&mut command);
    let all = Arc::new(Mutex::new(Told::default()));
    let sink: Arc<Mutex<dyn Sink>> = all.clone();
    let facts = if alone { Facts::default() } else { Facts::ALL };
    let references = References::new(sink).filtered(levels.map(|_| facts));
    let references = references.recent(levels);
    let options = Options::default().references(Some(references));
    let options = options.calls(calls);
    let outcome = launch(&mut command, &options)?
        .wait()
        .expect("it ends well");
    let told = std::mem::take(&mut *all.lock().unwrap());
    Some((told, outcome))
}

#[test]
fn branches_are_all_told_and_references_to_other_lines() {
    let Some(program) = built("recent.c", REFERENCES, &["-O1", "-static"]) else {
        return;
    };
    let run_as = |levels: Option<Levels>, calls: bool, alone: bool| -> Option<(Told, Calls)> {
        let mut command = Command::new(&program);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let calls = calls.then(CallOptions::default);
        let (told, outcome) = told(command, levels, alone, calls)?;
        Some((told, outcome.calls.unwrap_or_default()))
    };
    let run = |levels: Option<Levels>, calls: bool| run_as(levels, calls, true);
    let levels = Levels {
        data_sets: 64,
        code_sets: 64,
        data_ways: 8,
        code_ways: 8,
        code_line: 64,
        longest: 64,
        data: true,
        instructions: true,
        branches: true,
        predicted: false,
    };
    let (Some((all, _)), Some((some, _))) = (run(None, false), run(Some(levels), false)) else {
        return;
    };
    assert_eq!((all.lost, some.lost), (0, 0));
    let branches = |told: &Told| (told.conditional, told.taken, told.indirect);
    assert_eq!(branches(&some), branches(&all));
    assert!(some.references > 1000 && some.references < all.references / 4);
    assert!(some.lines > 100 && some.lines < all.conditional / 4);
    // (Where a set is not known as a whole, or string instructions come, so about as often here.)
    assert!(
        some.known > 64 && some.known < 2 * some.references,
        "{some:?}"
    );
    let without = Levels {
        branches: false,
        ..levels
    };
    let (none, _) = run(Some(without), false).unwrap();
    assert_eq!(branches(&none), (0, 0, 0));
    assert_eq!((none.references, none.lines), (some.references, some.lines));

    // With a tree of calls the same is told, with the nodes; they have what is not.
    let (told, calls) = run(Some(levels), true).unwrap();
    assert_eq!(branches(&told), branches(&all));
    assert_eq!((told.references, told.lines), (some.references, some.lines));
    assert!(told.nodes > 100 && calls.modelled && calls.events.is_empty());
    let sum = |event: usize| -> u64 { calls.nodes.iter().map(|node| node.events[event]).sum() };
    assert_eq!(sum(0) + sum(1) + told.whole, all.references);
    assert_eq!((sum(2), sum(3)), (all.conditional, all.indirect));
    assert_eq!(calls.discrepancies(), Vec::new());

    // Branches that the engine predicts are told where it is wrong.
    let predicted = Levels {
        predicted: true,
        ..levels
    };
    for (calls, alone) in [(false, true), (true, true), (false, false)] {
        let (told, _) = run_as(Some(predicted), calls, alone).unwrap();
        assert_eq!((told.conditional, told.lost), (all.wrong, 0));
        assert_eq!(told.indirect, all.went_wrong);
        // A tree of calls has to know where it was.
        let noted = if calls { all.wrong + all.went_wrong } else { 0 };
        assert_eq!(told.noted, noted);
        assert_eq!((told.references, told.lines), (some.references, some.lines));
        if !alone {
            assert_eq!(told.counted_taken, all.taken);
        }
    }
    assert!(all.went_wrong > 100 && all.went_wrong < all.indirect);
    assert!(all.wrong > 100 && all.wrong < all.conditional / 2);
}

/// Between `begin` and `end` alarms come, if a program's argument is odd: the next one a millisecond after the last one was
/// handled (so a machine that is busy does not starve it). The handler has no branches but its return. `end` is 1 if that was
/// called more than three times.
pub(super) const ALARMS: &str = r#"
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>

static volatile unsigned hits;
static const struct itimerval next = {{0, 0}, {0, 1000}}, never = {{0, 0}, {0, 0}};
static const struct itimerval first[2] = {{{0, 0}, {1000000, 0}}, {{0, 0}, {0, 1000}}};
static void handler(int signal) {
    long result = 38; /* setitimer */
    hits++;
    __asm__ volatile("syscall" : "+a"(result) : "D"(ITIMER_REAL), "S"(&next), "d"(0) : "rcx", "r11", "memory");
}
static void begin(char **argv) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &first[argv[1][0] & 1], 0);
}
static int end(void) {
    setitimer(ITIMER_REAL, &never, 0);
    return hits > 3;
}
"#;

/// Conditional branches of all sorts and indirect ones in a loop.
const BRANCHES: &str = r#"
static uint64_t one(uint64_t x) { return x + 3; }
static uint64_t two(uint64_t x) { return x ^ 5; }
static uint64_t (*volatile const functions[2])(uint64_t) = {one, two};

int main(int argc, char **argv) {
    begin(argv);
    uint64_t seed = 1, sum = 0;
    for (int i = 0; i < 300000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (seed >> 61 < 3)
            sum = functions[seed >> 60 & 1](sum);
        for (uint64_t k = 0; k < (seed >> 50 & 7); k++)
            sum += k * i;
        uint64_t count = 1 + (seed >> 45 & 3);
        __asm__ volatile("1: nop; loop 1b; jrcxz 2f; nop; 2:" : "+c"(count));
    }
    return end();
}
"#;

#[test]
fn what_a_signal_interrupts_is_told_once() {
    let Some(program) = built(
        "alarms.c",
        &[ALARMS, BRANCHES].concat(),
        &["-O1", "-static"],
    ) else {
        return;
    };
    let levels = |predicted| Levels {
        data_sets: 64,
        code_sets: 64,
        data_ways: 8,
        code_ways: 8,
        code_line: 64,
        longest: 64,
        data: true,
        instructions: true,
        branches: true,
        predicted,
    };
    for levels in [None, Some(levels(false)), Some(levels(true))] {
        let run = |argument: &str| {
            let mut command = Command::new(&program);
            command.arg(argument);
            let (told, outcome) = told(command, levels, true, None)?;
            Some((told, outcome.status.code()))
        };
        let (Some((quiet, zero)), Some((told, one))) = (run("0"), run("1")) else {
            return;
        };
        assert_eq!((zero, one), (Some(0), Some(1)), "how often it was called");
        assert_eq!(
            (told.conditional, told.indirect),
            (quiet.conditional, quiet.indirect)
        );
        assert_eq!((told.taken, told.lost), (quiet.taken, 0));
        assert_eq!(told.wrong, quiet.wrong);
        assert!(quiet.conditional > 100_000 && quiet.indirect > 50_000);
    }
}
