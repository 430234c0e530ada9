//! Threads that are killed on the way from one node to the next.

use super::{run, tree};
use crate::support::built;
use truecount_engine::virt::{CallOptions, Event};

/// Children that do little else than call, return and jump, and are killed wherever they are.
const SOURCE: &str = r#"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile int cell;
__attribute__((noinline)) void last(void) { cell++; }
__attribute__((noinline)) void jumps(void) { cell--; last(); }
__attribute__((noinline)) void inner(void) { cell++; jumps(); cell--; }
__attribute__((noinline)) void outer(void) { inner(); cell++; inner(); cell--; }
int main(void) {
    for (int round = 0; round < 40; round++) {
        int child = fork();
        if (!child)
            for (;;) outer();
        struct timespec some = { 0, 3000000 + round * 17000 };
        nanosleep(&some, 0);
        kill(child, SIGKILL);
        waitpid(child, 0, 0);
    }
    return 0;
}
"#;

#[test]
fn what_was_killed_between_two_nodes_is_complete() {
    use Event::{Branches, ConditionalBranches, IndirectBranches, Loads, Returns, Stores};
    let optimised = ["-O1", "-foptimize-sibling-calls"];
    let Some(program) = built("calls-killed.c", SOURCE, &optimised) else {
        return;
    };
    let few = [Loads, Stores, ConditionalBranches, IndirectBranches];
    let many = [&few[..], &[Branches, Returns]].concat();
    for events in [&[][..], &few, &many] {
        // (It looks whether the nodes sum to what was counted.)
        let options = CallOptions::default().events(events);
        let Some(outcome) = run(&program, &[], options) else {
            return;
        };
        let killed = outcome.totals.threads.iter().filter(|thread| !thread.ended);
        assert!(killed.count() >= 30, "{:?}", outcome.totals.threads);
        for node in &tree(&outcome).nodes {
            // What was given to nobody, or twice, is below 0 in one of the two.
            let all = [&[node.own], &node.events[..]].concat();
            assert!(all.iter().all(|&cost| cost < 1 << 40), "{node:?}");
        }
    }
}
