//! What changes nothing in a model is left out of the ring, and nothing else: branches are all told, and references to
//! other lines.

use super::support::{built, fixed_layout, launch};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use truecount_engine::virt::Options;
use truecount_engine::virt::references::{
    Batch, Branch, Code, Executed, Levels, Meaning, Next, References, Sink, Thread,
};
use truecount_testing::programs::REFERENCES;

/// References, conditional and indirect branches, lines of instructions.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    references: u64,
    conditional: u64,
    taken: u64,
    indirect: u64,
    lines: u64,
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
            }
        }
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
    let run = |levels: Option<Levels>| -> Option<Told> {
        let mut command = Command::new(&program);
        command.env_clear();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        fixed_layout(&mut command);
        let all = Arc::new(Mutex::new(Told::default()));
        let sink: Arc<Mutex<dyn Sink>> = all.clone();
        let references = References::new(sink).filtered(levels.is_some());
        let references = references.recent(levels, true);
        let options = Options::default().references(Some(references));
        launch(&mut command, &options)?
            .wait()
            .expect("it ends well");
        let told = std::mem::take(&mut *all.lock().unwrap());
        Some(told)
    };
    let levels = Levels {
        data_sets: 64,
        code_sets: 64,
        code_line: 64,
        branches: true,
    };
    let (Some(all), Some(some)) = (run(None), run(Some(levels))) else {
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
    let none = run(Some(without)).unwrap();
    assert_eq!(branches(&none), (0, 0, 0));
    assert_eq!((none.references, none.lines), (some.references, some.lines));
}
