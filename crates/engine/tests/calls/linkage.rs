//! Tail calls through linkage tables.

use super::support::built;
use super::{run, symbols, tree};
use truecount_engine::virt::{CallNode, CallOptions};

/// What a linkage table's entry executes belongs to who jumped to it, also where that one's caller calls the same entry.
#[test]
fn tail_calls_through_a_linkage_table() {
    let source = "long labs(long);
        __attribute__((noinline)) long tail(long x) { return labs(x); }
        int main(void) {
            long sum = 0;
            for (long i = 0; i < 50; i++) sum += labs(i) + tail(i);
            return sum != 2450;
        }";
    let flags = ["-O2", "-no-pie", "-fno-builtin"];
    let Some(program) = built("calls_linkage.c", source, &flags) else {
        return;
    };
    let Some(outcome) = run(&program, &[], CallOptions::default()) else {
        return;
    };
    assert!(outcome.status.success(), "{:?}", outcome.status);
    let symbols = symbols(&program);
    let nodes = &tree(&outcome).nodes;
    let name = |at: u32| symbols.get(&nodes[at as usize].function);
    let entries = |caller: &str| -> u64 {
        let of = |node: &&CallNode| {
            let parent = node.parent.and_then(name);
            parent.is_some_and(|parent| parent == caller)
                && (0x40_0000..0x50_0000).contains(&node.function)
                && !symbols.contains_key(&node.function)
        };
        nodes.iter().filter(of).map(|node| node.calls).sum()
    };
    assert_eq!((entries("main"), entries("tail")), (50, 50));
}
