//! The limit of open files, in a process of its own because the limit is the process's.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use truecount_perf::sys::bindings as abi;
use truecount_perf::{Cause, Errno, Error, Event, EventAttr, OpenOptions, Operation, Target};
use truecount_perf::{Situation, linux};

#[test]
fn too_many_files_are_explained() {
    let clock = EventAttr::new(
        abi::PERF_TYPE_SOFTWARE,
        u64::from(abi::PERF_COUNT_SW_TASK_CLOCK),
    )
    .exclude_kernel(true);
    if let Err(error) = Event::open(&clock, Target::CallingThread) {
        truecount_testing::skip!("software", "no perf events here ({error})");
        return;
    }
    let mut old = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a valid pointer to a limit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut old) };
    let low = libc::rlimit {
        rlim_cur: 0,
        rlim_max: old.rlim_max,
    };
    // SAFETY: as above; only the soft limit is lowered, for a moment.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const low) };
    let refused = Event::try_open(
        &linux(),
        &clock,
        Target::CallingThread,
        OpenOptions::default(),
    );
    // SAFETY: as above.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const old) };
    let errno = refused.expect_err("no descriptor is left");
    assert_eq!(errno, Errno::EMFILE);
    let situation = Situation {
        operation: Operation::Open,
        attr: clock,
        target: Target::CallingThread,
        in_group: false,
        facts: linux().facts(),
    };
    let error = Error::explain(errno, situation);
    assert_eq!(error.cause(), Cause::TooManyFiles);
    let limit = old.rlim_cur.to_string();
    assert!(error.to_string().contains(&limit), "{error}");
}
