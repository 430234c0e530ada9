//! Criterion's own names, with counts: what suites are ported by.

use crate::Counts;
use criterion::measurement::Measurement;
use std::any::Any;
use std::io::Write as _;
use std::process::{Command, ExitCode};
use truecount::{Counter, Fence};
use truecount_engine::virt::{Options, run_held_constant_with};

/// Criterion's, measuring counts.
pub type Criterion<M = Counts> = criterion::Criterion<M>;
/// Criterion's, measuring counts.
pub type Bencher<'a, M = Counts> = criterion::Bencher<'a, M>;
/// Criterion's, measuring counts.
pub type BenchmarkGroup<'a, M = Counts> = criterion::BenchmarkGroup<'a, M>;

/// Set in the run under the virtual PMU.
const INSIDE: &str = "TRUECOUNT_CRITERION_INSIDE";

/// A configuration with counts for its measurement: instructions, unless it has chosen an event.
#[doc(hidden)]
pub fn counted<M: Measurement + 'static>(configuration: Criterion<M>) -> Criterion<Counts> {
    let mut configuration = Some(configuration);
    let any: &mut dyn Any = &mut configuration;
    match any
        .downcast_mut::<Option<Criterion<Counts>>>()
        .and_then(Option::take)
    {
        Some(chosen) => chosen,
        None => match configuration {
            Some(other) => other.with_measurement(Counts::instructions()),
            None => Criterion::default().with_measurement(Counts::instructions()),
        },
    }
}

/// Runs the same program again under the virtual PMU where no PMU answers; gives its exit status, `None` where counters
/// answer here.
#[doc(hidden)]
#[must_use]
pub fn again() -> Option<ExitCode> {
    if std::env::var_os(INSIDE).is_some() || Counter::<Fence>::open("instructions:u").is_ok() {
        return None;
    }
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return Some(cannot(&error)),
    };
    let mut command = Command::new(own);
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1");
    // Time goes on by instructions: criterion repeats as often in every run. The seeds of hashes are the same.
    let options = Options::default().own_clock(true).own_getrandom(true);
    match run_held_constant_with(&mut command, options) {
        Ok(outcome) => match outcome.status.code() {
            Some(code) => Some(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)),
            None => Some(cannot(&outcome.status)),
        },
        Err(error) => Some(cannot(&error)),
    }
}

fn cannot(why: &dyn std::fmt::Display) -> ExitCode {
    let _ = writeln!(
        std::io::stderr(),
        "error: the virtual PMU cannot run the suite: {why}"
    );
    ExitCode::FAILURE
}

/// As criterion's, with counts of instructions for the measurement (or with the one that the configuration has).
#[macro_export]
macro_rules! criterion_group {
    (name = $name:ident; config = $config:expr; targets = $( $target:path ),+ $(,)*) => {
        /// Runs the benchmarks of the group.
        pub fn $name() {
            let mut criterion = $crate::counted($config).configure_from_args();
            $( $target(&mut criterion); )+
        }
    };
    ($name:ident, $( $target:path ),+ $(,)*) => {
        $crate::criterion_group! {
            name = $name;
            config = $crate::original::Criterion::default();
            targets = $( $target ),+
        }
    };
}

/// As criterion's; where there is no PMU the suite runs itself again under the virtual PMU.
#[macro_export]
macro_rules! criterion_main {
    ( $( $group:path ),+ $(,)* ) => {
        fn main() -> ::std::process::ExitCode {
            if let ::std::option::Option::Some(status) = $crate::again() {
                return status;
            }
            $( $group(); )+
            $crate::original::Criterion::default()
                .configure_from_args()
                .final_summary();
            ::std::process::ExitCode::SUCCESS
        }
    };
}
