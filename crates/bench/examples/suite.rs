//! What stands in a file of benches/, as an example: `cargo run --release -p truecount-bench --example suite -- --bench`.

use std::collections::HashMap;
use std::hint::black_box;
use truecount_bench::{Alloc, bench};

#[global_allocator]
static ALLOCATOR: Alloc = Alloc::system();

#[bench]
fn empty() {}

/// Two instructions an iteration, and what calling it takes.
#[bench]
fn loop_of_known_length() -> Option<u64> {
    truecount::known_loop(black_box(100_000))
}

fn descending(n: u64) -> Vec<u64> {
    (0..n).rev().collect()
}

#[bench(group = "sort", args = [10, 1000], setup = descending)]
fn stable(mut data: Vec<u64>) -> Vec<u64> {
    data.sort();
    data
}

/// How much is prepared makes no difference.
#[bench(args = [10, 1000], setup = descending, teardown = |data: Vec<u64>| assert!(!data.is_empty()))]
fn setup_is_not_counted(data: Vec<u64>) -> Vec<u64> {
    data
}

/// The seed of hashes is the same in every run.
#[bench]
fn hashes() -> HashMap<u64, u64> {
    (0..100).map(|n| (n, n)).collect()
}

mod text {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use truecount_bench::bench;

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    fn times() -> usize {
        let more = std::env::var("MORE").unwrap_or_default();
        match more.as_str() {
            "panic" => panic!("as it was asked for"),
            "exit" => std::process::exit(0),
            "fork" => forks(),
            "wander" => {
                std::env::set_current_dir("/").unwrap_or_default();
                println!("printed");
            }
            "vary" => return 100 << CALLS.fetch_add(1, Ordering::Relaxed).min(12),
            _ => {}
        }
        100 + more.len()
    }

    /// Its child ends as programs do.
    fn forks() {
        // SAFETY: the child only ends.
        match unsafe { libc::fork() } {
            0 => std::process::exit(0),
            child => assert_eq!(wait(child), 0),
        }
    }

    fn wait(child: i32) -> i32 {
        let mut status = -1;
        // SAFETY: the status is a local.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        status
    }

    /// Two of one name, where they are asked for.
    fn copies() -> Vec<u32> {
        let twice = std::env::var("MORE").is_ok_and(|more| more == "twice");
        if twice { vec![1, 1] } else { Vec::new() }
    }

    #[bench(name = "copied", args = copies())]
    fn of_one_name(n: u32) -> u32 {
        n
    }

    /// `MORE` makes it longer, for tests of comparisons.
    #[bench(setup = times)]
    fn repeated(times: usize) -> String {
        std::iter::repeat_n("word ", times).collect()
    }
}

fn main() -> std::process::ExitCode {
    truecount_bench::main()
}
