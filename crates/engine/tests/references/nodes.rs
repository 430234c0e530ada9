//! Noted references together with the tree of calls: who reads them knows the path at every block.

use super::support::{built, launch};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use truecount_engine::virt::references::{Executed, Marked, References, Sink, Thread};
use truecount_engine::virt::{CallOptions, Options};

/// Instructions by the node that the thread said it was in.
#[derive(Default)]
struct ByNode {
    now: BTreeMap<Thread, u64>,
    own: BTreeMap<u64, u64>,
    lost: u32,
}

impl Sink for ByNode {
    fn marked(&mut self, thread: Thread, marked: Marked) {
        if let Marked::Node(node) = marked {
            self.now.insert(thread, node);
        }
    }

    fn executed(&mut self, thread: Thread, executed: &Executed<'_>) {
        let node = self.now.get(&thread).copied().unwrap_or(0);
        *self.own.entry(node).or_default() += executed.done as u64;
    }

    fn lost(&mut self, parts: u32) {
        self.lost += parts;
    }
}

/// Recursion, calls back, handlers, `longjmp`, tail calls, a thread, a fork; and more words than a ring has.
const PATHS: &str = r"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static jmp_buf back;
static volatile int seen;
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) static int sum(int n) { return n ? n + sum(n - 1) : seen; }
__attribute__((noinline)) static int tail(int n) { return sum(n % 7); }
__attribute__((noinline)) static void dive(int n) { if (n == 0) longjmp(back, 1); dive(n - 1); seen++; }
static void handler(int signal) { seen += signal + sum(3); }
static void *work(void *at) {
    static __thread int numbers[500];
    for (int i = 0; i < 500; i++) numbers[i] = (i * 7919) % 1009;
    qsort(numbers, 500, sizeof(int), compare);
    for (int i = 0; i < 20000; i++) seen += tail(i) & 1;
    return at;
}
int main(void) {
    pthread_t other;
    signal(SIGUSR1, handler);
    pthread_create(&other, 0, work, 0);
    work(0);
    pthread_join(other, 0);
    for (int i = 0; i < 20; i++) {
        if (!setjmp(back)) dive(i);
        raise(SIGUSR1);
    }
    int child = fork();
    if (!child) { work(0); _exit(0); }
    waitpid(child, 0, 0);
    return 0;
}
";

#[test]
fn every_block_is_on_the_path_that_the_tree_counts_it_on() {
    let Some(program) = built("paths.c", PATHS, &["-O1", "-static", "-pthread"]) else {
        return;
    };
    for sites in [false, true] {
        let mut command = Command::new(&program);
        command.env_clear().stdout(Stdio::null());
        let all = Arc::new(Mutex::new(ByNode::default()));
        let sink: Arc<Mutex<dyn Sink>> = all.clone();
        let options = Options::default()
            .calls(Some(CallOptions::default().sites(sites)))
            .references(Some(References::new(sink)));
        let Some(running) = launch(&mut command, &options) else {
            return;
        };
        let outcome = running.wait().expect("it ends well");
        assert!(outcome.status.success(), "{}", outcome.status);
        let all = all.lock().unwrap();
        assert_eq!(all.lost, 0);
        let calls = outcome.calls.expect("a tree");
        assert_eq!(calls.discrepancies(), []);
        assert!(calls.nodes.len() > 100, "{}", calls.nodes.len());
        let counted = calls.nodes.iter().filter(|node| node.own != 0);
        let counted: BTreeMap<u64, u64> = counted.map(|node| (node.address, node.own)).collect();
        let mut noted = all.own.clone();
        noted.retain(|_, own| *own != 0);
        assert_eq!(noted, counted);
    }
}
