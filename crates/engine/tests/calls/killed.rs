//! Threads that are killed on the way from one node to the next, and those that go on while their tree is read.

use super::{run, tree};
use crate::support::{built, launch};
use std::path::PathBuf;
use std::process::Command;
use truecount_engine::virt::{CallOptions, Event, Options, Outcome};

/// Children that do little else than call, return and jump, and are killed wherever they are; with an argument their parent
/// is killed, and they go on for a while.
const SOURCE: &str = r#"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile int cell;
__attribute__((noinline)) void last(void) { cell++; }
__attribute__((noinline)) void jumps(void) { cell--; last(); }
__attribute__((noinline)) void inner(void) { cell++; jumps(); cell--; }
__attribute__((noinline)) void outer(void) { inner(); cell++; inner(); cell--; }
int main(int argc, char **argv) {
    volatile int *begun = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int child = 0; argc > 1 && child < 3; child++)
        if (!fork()) {
            alarm(2);
            for (;; begun[child] = 1) outer();
        }
    if (argc > 1) {
        struct timespec some = { 0, 200000 };
        while (!begun[0] || !begun[1] || !begun[2]) nanosleep(&some, 0);
        kill(getpid(), SIGKILL);
    }
    for (int round = 0; round < 40; round++) {
        int child = fork();
        if (!child)
            for (;; *begun = round + 1) outer();
        struct timespec some = { 0, 200000 + round * 17000 };
        while (*begun != round + 1) nanosleep(&some, 0);
        nanosleep(&some, 0);
        kill(child, SIGKILL);
        waitpid(child, 0, 0);
    }
    return 0;
}
"#;

fn program(file: &str) -> Option<PathBuf> {
    let optimised = ["-O1", "-foptimize-sibling-calls"];
    built(file, SOURCE, &optimised)
}

/// None, some, and as many as take the other routines.
fn events() -> [Vec<Event>; 3] {
    use Event::{Branches, ConditionalBranches, IndirectBranches, Loads, Returns, Stores};
    let few = vec![Loads, Stores, ConditionalBranches, IndirectBranches];
    let many = [&few[..], &[Branches, Returns]].concat();
    [Vec::new(), few, many]
}

/// What was given to nobody, or twice, would be below 0 in one of two nodes.
fn nothing_is_below_0(outcome: &Outcome) {
    for node in &tree(outcome).nodes {
        let all = [&[node.own], &node.events[..]].concat();
        assert!(all.iter().all(|&cost| cost < 1 << 40), "{node:?}");
    }
}

#[test]
fn what_was_killed_between_two_nodes_is_complete() {
    let Some(program) = program("calls-killed.c") else {
        return;
    };
    for events in events() {
        // (It looks whether the nodes sum to what was counted.)
        let options = CallOptions::default().events(&events);
        let Some(outcome) = run(&program, &[], options) else {
            return;
        };
        let killed = outcome.totals.threads.iter().filter(|thread| !thread.ended);
        assert_eq!(killed.count(), 40, "{:?}", outcome.totals.threads);
        nothing_is_below_0(&outcome);
    }
}

#[test]
fn what_goes_on_while_it_is_read_has_a_tree_that_adds_up() {
    let Some(program) = program("calls-outlived.c") else {
        return;
    };
    for events in events().iter().cycle().take(9) {
        let calls = CallOptions::default().events(events);
        let mut command = Command::new(&program);
        command.arg("outlive");
        let Some(running) = launch(&mut command, &Options::default().calls(Some(calls))) else {
            return;
        };
        let outcome = running.wait().expect("an outcome");
        assert_eq!(tree(&outcome).discrepancies(), []);
        let open = outcome.totals.threads.iter().filter(|thread| !thread.ended);
        assert_eq!(open.count(), 4, "{:?}", outcome.totals.threads);
        nothing_is_below_0(&outcome);
    }
}
