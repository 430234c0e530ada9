//! What changes nothing in a model is left out of the ring, and nothing else: branches are all told, and references to
//! other lines.

use super::support::{built, fixed_layout, launch};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use truecount_engine::virt::references::{
    Batch, Branch, Code, Executed, Levels, Meaning, Next, References, Sink, Thread,
};
use truecount_engine::virt::{CallOptions, Calls, Options};
use truecount_testing::programs::REFERENCES;

/// References, conditional and indirect branches, lines of instructions.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    references: u64,
    conditional: u64,
    taken: u64,
    indirect: u64,
    lines: u64,
    nodes: u64,
    /// References of instructions that are told as a whole.
    whole: u64,
    numbers: u32,
    lost: u32,
}

impl Sink for Told {
    fn executed(&mut self, _thread: Thread, executed: &Executed<'_>) {
        for (at, instruction) in executed.instructions() {
            executed.references(at, |_, _, run| self.references += run.times);
            match instruction.branch {
                Branch::Conditional { target } => {
                    self.conditional += 1;
                    let last = at + 1 == executed.done;
                    self.taken += u64::from(last && executed.next == Some(target));
                }
                Branch::Indirect => self.indirect += 1,
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
                Next::Reference(..) => self.references += 1,
                Next::Branch(_, taken) => {
                    self.conditional += 1;
                    self.taken += u64::from(taken);
                }
                Next::Jump(..) => self.indirect += 1,
                Next::Fetch(_) => self.lines += 1,
                Next::Node(_) => self.nodes += 1,
            }
        }
    }

    fn noted(&mut self, _thread: Thread, executed: &Executed<'_>, at: usize) {
        executed.references(at, |_, _, run| self.whole += run.times);
    }

    fn lost(&mut self, parts: u32) {
        self.lost += parts;
    }
}

#[test]
fn branches_are_all_told_and_references_to_other_lines() {
    let Some(program) = built("recent.c", REFERENCES, &["-O1", "-static"]) else {
        return;
    };
    let run = |levels: Option<Levels>, calls: bool| -> Option<(Told, Calls)> {
        let mut command = Command::new(&program);
        command.env_clear();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        fixed_layout(&mut command);
        let all = Arc::new(Mutex::new(Told::default()));
        let sink: Arc<Mutex<dyn Sink>> = all.clone();
        let references = References::new(sink).filtered(levels.is_some());
        let references = references.recent(levels, true);
        let options = Options::default().references(Some(references));
        let options = options.calls(calls.then(CallOptions::default));
        let outcome = launch(&mut command, &options)?
            .wait()
            .expect("it ends well");
        let told = std::mem::take(&mut *all.lock().unwrap());
        Some((told, outcome.calls.unwrap_or_default()))
    };
    let levels = Levels {
        data_sets: 64,
        code_sets: 64,
        code_line: 64,
        branches: true,
    };
    let (Some((all, _)), Some((some, _))) = (run(None, false), run(Some(levels), false)) else {
        return;
    };
    assert_eq!((all.lost, some.lost), (0, 0));
    let branches = |told: &Told| (told.conditional, told.taken, told.indirect);
    assert_eq!(branches(&some), branches(&all));
    assert!(some.references > 1000 && some.references < all.references / 4);
    assert!(some.lines > 100 && some.lines < all.conditional / 4);
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
}
