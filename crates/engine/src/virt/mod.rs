//! The virtual PMU: runs an unmodified program and counts exactly the user-mode
//! instructions it retires, without a PMU and near native speed.
//!
//! [`launch`] starts a program with the runtime inside; [`Running::wait`] gives
//! its exit status and the [`Totals`]. How it works: `DESIGN.md` in this crate.

// Elsewhere nothing is started, so much of this has no caller there.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod again;
mod asked;
#[cfg(target_arch = "x86_64")]
mod beginning;
mod blocks;
mod bytes;
mod calls;
mod command_line;
mod context;
mod error;
mod file_size;
#[cfg_attr(not(target_arch = "x86_64"), path = "elsewhere.rs")]
mod follow;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod followers;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod futex;
mod image;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod initial_stack;
#[cfg(target_arch = "x86_64")]
mod inject;
mod inputs;
mod others;
mod programs;
#[cfg(target_arch = "x86_64")]
mod ptrace;
mod random;
pub mod references;
mod regions;
#[cfg(target_arch = "x86_64")]
mod remote;
mod shared;
mod store;
mod texts;
mod times;
mod totals;
mod watched;

use crate::machine::Machine;
pub use crate::xlate::facts::{Counts, EVENTS, Event, Facts};
pub use again::{run_held_constant, run_held_constant_with};
pub use blocks::{Blocks, Executed, Mapping, Mark};
pub use calls::{CallKind, CallNode, Calls, NodeFacts};
pub use command_line::CommandLine;
pub use error::LaunchError;
pub use inputs::{Identity, Input, Place};
pub use regions::{Action, ChosenPlace, FindFunctions, MAX_FUNCTIONS, Regions, RequestsTo};
#[doc(hidden)] // for the fuzz targets
pub use store::kept_file_is_valid;
pub use store::{Cache, CacheError};
pub use texts::{Printed, PrintedWhat};
pub use times::{Timed, Times};
pub use totals::{Outside, ThreadTotals, Totals};
pub use watched::{Interval, Watched};

/// By so many instructions at most the count of a thread is off that was killed in translated code: those of a block,
/// and those of the one before whose early exit it took over.
pub const MOST_IN_A_BLOCK: usize = 2 * crate::xlate::block::MAX_INSNS;

use std::collections::BTreeMap;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;

/// How to run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Where translations are kept for later runs. `None`: every run translates
    /// afresh. Counts are the same either way. It is used for programs without
    /// address randomisation only (see `personality(2)`).
    pub cache: Option<Cache>,
    /// Count the executions of every block instead of one running total: every
    /// [`Event`] and profiles follow from them. Takes more memory (some 30 bytes
    /// a block and process) and no more time, but reading a counter inside the
    /// program takes longer.
    pub per_block: bool,
    /// Times chosen blocks of one program. Neither `cache` nor `per_block` are used then.
    pub times: Option<Watched>,
    /// What every program of the run finds as its 16 random bytes
    /// (`AT_RANDOM`, see `getauxval(3)`) instead of the kernel's. With `in_turn` this holds for the first process;
    /// in others each program has bytes of its own, made of these, the same in every run.
    pub at_random: Option<[u8; 16]>,
    /// Programs do not find the vDSO (`vdso(7)`) and read clocks by system calls,
    /// which take the same number of user-mode instructions at any time: the
    /// vDSO's loops depend on the time and on the kernel's updates of it.
    pub hide_vdso: bool,
    /// Clocks, the time stamp counter and limits of waits are the engine's own: every
    /// process begins at the same time of day, which goes on by one nanosecond an instruction
    /// and by what the program waits. Implies `hide_vdso`. [`Totals::clock_followed`] says when it could not be
    /// kept up.
    pub own_clock: bool,
    /// One thread of the whole run executes at a time, and goes on by rules that depend on nothing but the program
    /// (`schedule`). Implies `own_clock`, which is one for the run then.
    /// [`Totals::outside`] says what decided otherwise.
    pub in_turn: bool,
    /// For tests: how far that clock may be behind the real one, nanoseconds (0: 30 s).
    #[doc(hidden)]
    pub clock_behind: u64,
    /// Programs are shown this machine. Implies `hide_vdso`.
    pub machine: Option<Machine>,
    /// Threads and processes get numbers from the first of these on, below the second, where the kernel lets the program choose.
    pub pids: Option<[u32; 2]>,
    /// What is done just before the program's process is made.
    pub before_start: Option<BeforeStart>,
    /// `/dev/urandom`, `/dev/random`, `rdrand` and `rdseed` give the same bytes in every run.
    pub own_random: bool,
    /// `getrandom` gives the same bytes in every run: not for programs that make keys.
    pub own_getrandom: bool,
    /// What programs say to Valgrind by client requests is answered, and which part of the run is counted.
    pub regions: Option<Regions>,
    /// Bytes that translated code may take in each process (0: 512 MiB, which is plenty for all but compilers that
    /// never stop); at that bound the oldest is taken out, and translated again where it is needed.
    pub code_cache: u64,
    /// Keep the tree of calls: what each path of functions executed. Implies `per_block`.
    pub calls: Option<CallOptions>,
    /// Memory references are noted, and given to this. Implies `per_block`. Not together with `times`.
    pub references: Option<references::References>,
    /// For tests of many threads and processes: how many there can be at the same time (0: all).
    #[doc(hidden)]
    pub slot_limit: u32,
}

/// What is done just before the program's process is made. Where a `pre_exec` of the command ends that by ESTALE, it is done
/// again, and a process made again.
#[derive(Clone)]
pub struct BeforeStart(Arc<dyn Fn(u32) + Send + Sync>);

impl BeforeStart {
    /// How often that can be.
    pub const TRIES: u32 = 30;

    /// `action` is told how often it has been done already, at most [`Self::TRIES`].
    pub fn new(action: impl Fn(u32) + Send + Sync + 'static) -> Self {
        Self(Arc::new(action))
    }

    fn act(&self, tries: u32) {
        (self.0)(tries);
    }
}

impl std::fmt::Debug for BeforeStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BeforeStart")
    }
}

/// How the tree of calls is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallOptions {
    /// Call sites in a function are told apart.
    pub sites: bool,
    /// Nodes there can be in a run (0: 4 Mi); paths beyond go to [`CallKind::Other`].
    pub nodes: u32,
    /// What is counted beside instructions: numbers of events; 0: nothing.
    events: [u8; crate::calls::EVENTS],
}

impl CallOptions {
    /// With `sites` set.
    #[must_use]
    pub fn sites(mut self, on: bool) -> Self {
        self.sites = on;
        self
    }
    /// With `nodes` set.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = nodes;
        self
    }
    /// Most events beside instructions …
    pub const MOST_EVENTS: usize = crate::calls::EVENTS;
    /// … and where facts of memory references are noted, too.
    pub const MOST_EVENTS_BESIDE_FACTS: usize = crate::calls::EVENTS - crate::calls::FACTS.len();

    /// Counts events beside instructions, as many as there may be: [`CallNode::events`] in this order.
    #[must_use]
    pub fn events(mut self, events: &[Event]) -> Self {
        for (to, &event) in self.events.iter_mut().zip(events) {
            *to = event as u8;
        }
        self
    }
}

impl Options {
    /// With `calls` set.
    #[must_use]
    pub fn calls(mut self, calls: Option<CallOptions>) -> Self {
        self.calls = calls;
        self
    }
    /// With `cache` set.
    #[must_use]
    pub fn cache(mut self, cache: Option<Cache>) -> Self {
        self.cache = cache;
        self
    }
    /// With `per_block` set.
    #[must_use]
    pub fn per_block(mut self, on: bool) -> Self {
        self.per_block = on;
        self
    }
    /// With `times` set.
    #[must_use]
    pub fn times(mut self, times: Option<Watched>) -> Self {
        self.times = times;
        self
    }
    /// With `at_random` set.
    #[must_use]
    pub fn at_random(mut self, bytes: Option<[u8; 16]>) -> Self {
        self.at_random = bytes;
        self
    }
    /// With `clock_behind` set.
    #[doc(hidden)]
    #[must_use]
    pub fn clock_behind(mut self, nanoseconds: u64) -> Self {
        self.clock_behind = nanoseconds;
        self
    }
    /// With `code_cache` set.
    #[must_use]
    pub fn code_cache(mut self, bytes: u64) -> Self {
        self.code_cache = bytes;
        self
    }
    /// With `slot_limit` set.
    #[doc(hidden)]
    #[must_use]
    pub fn slot_limit(mut self, slots: u32) -> Self {
        self.slot_limit = slots;
        self
    }
    /// With `regions` set.
    #[must_use]
    pub fn regions(mut self, regions: Option<Regions>) -> Self {
        self.regions = regions;
        self
    }
    /// With `own_clock` set.
    #[must_use]
    pub fn own_clock(mut self, on: bool) -> Self {
        self.own_clock = on;
        self
    }
    /// With `in_turn` set.
    #[must_use]
    pub fn in_turn(mut self, on: bool) -> Self {
        self.in_turn = on;
        self
    }
    /// With `machine` set.
    #[must_use]
    pub fn machine(mut self, machine: Option<Machine>) -> Self {
        self.machine = machine;
        self
    }
    /// With `pids` set.
    #[must_use]
    pub fn pids(mut self, pids: Option<[u32; 2]>) -> Self {
        self.pids = pids;
        self
    }
    /// With `before_start` set.
    #[must_use]
    pub fn before_start(mut self, before: Option<BeforeStart>) -> Self {
        self.before_start = before;
        self
    }
    /// With `own_random` set.
    #[must_use]
    pub fn own_random(mut self, on: bool) -> Self {
        self.own_random = on;
        self
    }
    /// With `own_getrandom` set.
    #[must_use]
    pub fn own_getrandom(mut self, on: bool) -> Self {
        self.own_getrandom = on;
        self
    }
    /// With `references` set.
    #[must_use]
    pub fn references(mut self, references: Option<references::References>) -> Self {
        self.references = references;
        self
    }
    /// With `hide_vdso` set.
    #[must_use]
    pub fn hide_vdso(mut self, on: bool) -> Self {
        self.hide_vdso = on;
        self
    }
}

/// Why the engine cannot work here at all, or `Ok`.
///
/// # Errors
/// [`LaunchError::Unavailable`] on an architecture other than x86-64 Linux.
pub fn available() -> Result<(), LaunchError> {
    if image::IMAGE.is_empty() {
        Err(LaunchError::Unavailable)
    } else {
        Ok(())
    }
}

/// A program running under the virtual PMU.
pub struct Running {
    child: Child,
    shared: Arc<shared::Shared>,
    service: follow::Service,
    readers: Option<references::Reader>,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The program's own exit status (or signal).
    pub status: ExitStatus,
    /// The counts.
    pub totals: Totals,
    /// With [`Options::per_block`]: every block that was executed, and how often.
    pub blocks: Option<Blocks>,
    /// With [`Options::calls`]: the tree of calls.
    pub calls: Option<Calls>,
    /// With [`Options::times`]: the time of the chosen blocks.
    pub times: Option<Times>,
    /// What every process image was executed as that began by `execve`, by the slot of its first thread
    /// ([`ThreadTotals::leader`]).
    pub commands: BTreeMap<u32, CommandLine>,
}

/// Starts `command` under the virtual PMU. Standard streams, environment and working
/// directory are the command's.
///
/// # Errors
/// [`LaunchError`]: the program cannot be started, is not a 64-bit x86 program,
/// or may not be traced (the message says what to change).
pub fn launch(command: &mut Command, options: &Options) -> Result<Running, LaunchError> {
    available()?;
    if is_privileged(command.get_program()) {
        return Err(LaunchError::Privileged {
            program: command.get_program().to_string_lossy().into_owned(),
        });
    }
    if let Some(feature) = options.machine.and_then(|machine| machine.lacking()) {
        return Err(LaunchError::Machine {
            machine: options
                .machine
                .map(|machine| machine.name())
                .unwrap_or_default(),
            feature,
        });
    }
    let raised = file_size::raise()?;
    raised.lower_in(command);
    if options.machine.is_some() {
        fixed_limits(command);
    }
    let shared = Arc::new(shared::Shared::new(options)?);
    let mut child = follow::first(command, &shared, options.before_start.as_ref())?;
    let service = match follow::Service::start(&shared, child.id()) {
        Ok(service) => service,
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    };
    let readers = match &options.references {
        Some(sink) if options.times.is_none() => match references::Reader::start(&shared, sink) {
            Ok(reader) => Some(reader),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(LaunchError::Io {
                    what: "starting a thread of the launcher",
                    error,
                });
            }
        },
        _ => None,
    };
    Ok(Running {
        child,
        shared,
        service,
        readers,
    })
}

/// The limit of the stack decides where the kernel's search for free addresses begins (`mmap_base` in
/// arch/x86/mm/mmap.c); that of open files is asked by programs that close all they do not know. Both as the kernel gives
/// them to its first process (`INIT_RLIMITS`); programs that need more raise them.
fn fixed_limits(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    // SAFETY: system calls on a local, async-signal-safe. A hard limit below stays, as does then the soft one.
    unsafe {
        command.pre_exec(|| {
            for (which, soft) in [(libc::RLIMIT_STACK, 8 << 20), (libc::RLIMIT_NOFILE, 1024)] {
                let mut limit = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                };
                if libc::getrlimit(which, &raw mut limit) == 0 && limit.rlim_max >= soft {
                    limit.rlim_cur = soft;
                    libc::setrlimit(which, &raw const limit);
                }
            }
            Ok(())
        });
    }
}

/// Whether the kernel would give this file's program another user or group, and
/// withhold it from a traced process. Root loses nothing.
fn is_privileged(program: &std::ffi::OsStr) -> bool {
    use std::os::unix::fs::PermissionsExt;
    // SAFETY: no arguments, cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    !root
        && std::fs::metadata(program)
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o6000 != 0)
}

impl Running {
    /// Process id of the program.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The program's pipes, where the command asked for them.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The counts so far.
    pub fn totals(&self) -> Totals {
        totals::read(&self.shared).0
    }

    /// Waits for the program's end.
    ///
    /// # Errors
    /// [`LaunchError::Io`] if waiting fails; [`LaunchError::Internal`] if a check
    /// inside the engine failed (the run was ended; its effects are void).
    pub fn wait(mut self) -> Result<Outcome, LaunchError> {
        follow::wait_for_end(self.child.id());
        let status = self.child.wait().map_err(|error| LaunchError::Io {
            what: "waiting for the program",
            error,
        })?;
        if status.code().is_some() {
            others::wait_for(&self.shared);
        }
        self.service.stop();
        if let Some(readers) = self.readers.take() {
            readers.finish();
        }
        let (totals, blocks, calls) = totals::read(&self.shared);
        if let Some(report) = &totals.failure {
            return Err(LaunchError::Internal {
                report: report.clone(),
            });
        }
        Ok(Outcome {
            status,
            totals,
            blocks,
            calls,
            times: times::read(&self.shared),
            commands: self
                .shared
                .commands
                .lock()
                .map(|mut commands| std::mem::take(&mut *commands))
                .unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{LaunchError, Options, available, launch};

    /// On other architectures the same functions are there, and say so.
    #[test]
    fn what_is_not_there_answers_so() {
        if cfg!(target_arch = "x86_64") {
            assert!(available().is_ok());
            return;
        }
        assert!(matches!(available(), Err(LaunchError::Unavailable)));
        let started = launch(&mut std::process::Command::new("true"), &Options::default());
        assert!(matches!(started, Err(LaunchError::Unavailable)));
    }
}
