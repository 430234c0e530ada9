//! Forked children have counters of their own.

use super::{pmu, source};
use truecount::{
    Counter, CounterSet, Fence, Mode, Options, PerThread, Recorder, RecorderError, Source,
    known_loop,
};

/// Runs `work` in a forked child: its exit code, or the signal that ended it as 128 and more.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `work`, which takes no lock of another thread, and ends by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(101);
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the child is ours; the status is live.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    }
}

/// 0 where the counter counts the loop.
fn counts(counter: &Counter) -> i32 {
    let start = counter.read();
    known_loop(100_000);
    let counted = counter.since(start);
    let right = (200_000..220_000).contains(&counted) && counter.check().is_ok();
    if !right {
        println!("{:?}: {counted}, {:?}", counter.method(), counter.check());
    }
    i32::from(!right)
}

#[test]
fn counters_count_in_forked_children() {
    if !pmu("forks") {
        return;
    }
    for mode in [Mode::Auto, Mode::Safe, Mode::Syscall] {
        let counter: Counter = match Options::new().mode(mode).open("instructions:u") {
            Ok(counter) => counter,
            Err(error) => {
                truecount_testing::skip!("rdpmc", "{mode:?}: {error}");
                continue;
            }
        };
        let before = counter.read();
        assert_eq!(in_child(|| counts(&counter)), 0, "{mode:?}");
        // A child of the child.
        assert_eq!(in_child(|| in_child(|| counts(&counter))), 0, "{mode:?}");
        if let Some(single) = counter.single() {
            let way = in_child(|| {
                let start = single.read();
                known_loop(100_000);
                let counted = counter.between(start, single.read());
                i32::from(!(200_000..220_000).contains(&counted))
            });
            assert_eq!(way, 0, "{mode:?}");
        }
        // The parent's goes on, without what the children did.
        assert_eq!(counts(&counter), 0);
        assert!(counter.since(before) < 2_000_000, "{mode:?}");
    }
}

#[test]
fn differences_sets_and_handles_count_in_forked_children() {
    if !pmu("forks") {
        return;
    }
    if let Ok(counter) = Counter::<Fence>::open("instructions-minus-irqs:u") {
        assert_eq!(in_child(|| counts(&counter)), 0);
    }
    let handle = PerThread::<Fence>::new("instructions:u").unwrap();
    assert_eq!(
        in_child(|| handle.counter().map_or(2, |counter| counts(&counter))),
        0
    );
    let set = CounterSet::<Fence>::open("{instructions,instructions}:u").unwrap();
    let counted = in_child(|| {
        let (mut start, mut end) = (set.points(), set.points());
        set.read(&mut start);
        known_loop(100_000);
        set.read(&mut end);
        let right = |i| {
            set.between(i, &start, &end)
                .is_some_and(|n| (200_000..220_000).contains(&n))
        };
        i32::from(!(right(0) && right(1)))
    });
    assert_eq!(counted, 0);
}

/// A recorder's file is the parent's: what a child records is not written, and said.
#[test]
fn recorders_say_that_children_record_nothing() {
    if !pmu("forks") && source() == Source::Hardware {
        return;
    }
    let path = std::env::temp_dir().join(format!("truecount-fork-{}", std::process::id()));
    let recorder = Recorder::with_counters(&path, &["instructions:u"]).unwrap();
    let open = recorder.region("across");
    let code = in_child(|| {
        drop(recorder.region("in the child"));
        match recorder.flush() {
            Err(RecorderError::Forked) => 0,
            other => {
                println!("{other:?}");
                1
            }
        }
    });
    assert_eq!(code, 0);
    drop(open);
    let file = recorder.files().remove(0);
    recorder.finish().unwrap();
    let bytes = std::fs::read(&file).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(has(b"across") && !has(b"in the child"));
    std::fs::remove_file(&file).unwrap();
}
