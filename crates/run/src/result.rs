//! What a run of a command gave, whoever counted.

use serde::Serialize;
use truecount_engine::xlate::facts::{Counts, Event as StaticEvent};
use truecount_model::{Precision, Reading};

use crate::factor::Missing;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Exit {
    /// Exit status, when it ended by itself.
    pub code: Option<i32>,
    /// Number of the signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// From the status of `wait4`.
    pub fn from_wait(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self {
                code: None,
                signal: Some(libc::WTERMSIG(status)),
            }
        } else {
            Self {
                code: Some(libc::WEXITSTATUS(status)),
                signal: None,
            }
        }
    }

    /// True when the program ended by itself with status 0.
    pub fn success(self) -> bool {
        self.code == Some(0)
    }

    /// The status a shell would report: the code, or 128 + the signal.
    pub fn shell_code(self) -> u8 {
        let code = match (self.code, self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => 125,
        };
        u8::try_from(code & 0xff).unwrap_or(125)
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, Some(signal)) => write!(
                f,
                "signal {signal} ({})",
                crate::runner::signal_name(signal)
            ),
            (None, None) => f.write_str("an unknown end"),
        }
    }
}

/// Resources of the command and of the children that it waited for, as `wait4` reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode, nanoseconds (the kernel's granularity: see `docs`).
    pub user_ns: u64,
    /// CPU time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Peak resident memory of the largest process, bytes.
    pub max_rss: u64,
    /// Page faults served without input or output.
    pub minor_faults: u64,
    /// Page faults that read from a device.
    pub major_faults: u64,
    /// Times it gave up the CPU by itself.
    pub voluntary_switches: u64,
    /// Times the CPU was taken away.
    pub involuntary_switches: u64,
}

impl Usage {
    pub(crate) fn from_rusage(usage: &libc::rusage) -> Self {
        let time = |t: libc::timeval| {
            let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
            let micros = u64::try_from(t.tv_usec).unwrap_or(0);
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(micros.saturating_mul(1000))
        };
        let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
        Self {
            user_ns: time(usage.ru_utime),
            system_ns: time(usage.ru_stime),
            max_rss: count(usage.ru_maxrss).saturating_mul(1024),
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            voluntary_switches: count(usage.ru_nvcsw),
            involuntary_switches: count(usage.ru_nivcsw),
        }
    }
}

/// How the command ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ended {
    /// The number of its process, where the source tells.
    pub pid: Option<i32>,
    /// Its status.
    pub exit: Exit,
    /// truecount ended it because of the time limit.
    pub timed_out: bool,
    /// Randomisation of addresses could not be switched off.
    pub aslr_refused: bool,
}

/// What one run gave.
#[derive(Default)]
pub struct RunResult {
    /// The command, if there was one.
    pub ended: Option<Ended>,
    /// From just before `execve` (or from the start of counting) to the end, nanoseconds of `CLOCK_MONOTONIC`; the
    /// virtual PMU's own work is in it.
    pub wall_ns: u64,
    /// The same with the time in which counting was switched off, by which intervals are timed; of native runs only, which
    /// alone have intervals.
    pub lasted_ns: u64,
    /// What it used, where it ran natively to its end.
    pub usage: Option<Usage>,
    /// One reading for each metric, in the order asked.
    pub readings: Vec<Reading>,
    /// The same for each part of the run that was asked for.
    pub parts: Vec<Vec<Reading>>,
    /// Times and memory that come with every run, unless they were asked for as metrics.
    pub resources: Vec<Reading>,
    /// The signal by which the user stopped it.
    pub interrupted: Option<i32>,
    /// What was to be held constant and was not.
    pub missing: Vec<Missing>,
    /// What the reader should know.
    pub notes: Vec<String>,
    /// What the virtual PMU tells beside the readings; empty under every other source.
    pub executed: Executed,
}

/// One thread of one process image (a program that a process executed).
#[derive(Debug, Clone, serde::Serialize)]
pub struct Thread {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Process that started this one.
    pub parent: u32,
    /// File name of the program.
    pub program: String,
    /// User-mode instructions retired.
    pub instructions: u64,
    /// Every event, where the run counted more than instructions.
    #[serde(skip)]
    pub counts: Option<Counts>,
    /// Those that were asked for, by name.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub events: serde_json::Map<String, serde_json::Value>,
    /// Identifies the process image within the run: the number of its first thread.
    #[serde(skip)]
    pub image: u32,
    /// The thread's number in the run.
    #[serde(skip)]
    pub slot: u32,
    /// It came to its own end (`exit`, `execve`): it was not killed, and does not go on.
    #[serde(skip)]
    pub ended: bool,
}

/// What ran under the virtual PMU.
#[derive(Default)]
pub struct Executed {
    /// Every thread, in order of appearance.
    pub threads: Vec<Thread>,
    /// Programs that ran without being counted.
    pub uncounted: u32,
    /// The first of them, and why.
    pub left_out: Option<String>,
    /// Threads that were killed in the middle of a block.
    pub cut: usize,
    /// Writes of code that a process of the run may not have learned of.
    pub unseen_writes: u32,
    /// What programs did out of the virtual PMU's sight, how often …
    pub unfollowed: u32,
    /// … and what it was the first time.
    pub unfollowed_first: Option<String>,
    /// Processes that may have ended by a fault that the virtual PMU did not see.
    pub unseen_faults: u32,
    /// Processes that were still running when the program ended.
    pub outlived: usize,
    /// Whether the count will repeat.
    pub closed: Option<crate::closed::Closed>,
    /// What was referenced of memory, where the run noted that.
    pub memory: Option<crate::references::Memory>,
    /// The same, instruction by instruction.
    pub noted: Option<crate::references::Noted>,
    /// The blocks executed, where the run counted them.
    pub blocks: Option<truecount_engine::virt::Blocks>,
    /// The tree of calls, where the run kept one.
    pub calls: Option<truecount_engine::virt::Calls>,
    /// What every process image was executed as that began by `execve`, by its number ([`Thread::image`]).
    pub commands: std::collections::BTreeMap<u32, truecount_engine::virt::CommandLine>,
    /// What programs printed by client requests …
    pub printed: Vec<truecount_engine::virt::Printed>,
    /// … and how many bytes of it were too much.
    pub unprinted: u64,
    /// The time of chosen blocks, where the run took it.
    pub times: Option<truecount_engine::virt::Times>,
    /// Blocks of code that had to be translated.
    pub translated_blocks: u64,
    /// Blocks of code that came from earlier runs.
    pub cached_blocks: u64,
    /// Why translations are not kept although they should be.
    pub cache_problem: Option<String>,
}

impl Thread {
    /// One event of this thread, if the run counted it.
    pub fn event(&self, event: StaticEvent) -> Option<u64> {
        match (event, &self.counts) {
            (StaticEvent::Instructions, _) => Some(self.instructions),
            (event, Some(counts)) => counts.get(event as usize).copied(),
            (_, None) => None,
        }
    }
}

impl RunResult {
    /// User-mode instructions of all threads under the virtual PMU, which every such run counts.
    pub fn instructions(&self) -> u64 {
        let threads = self.executed.threads.iter();
        threads.fold(0u64, |sum, thread| sum.wrapping_add(thread.instructions))
    }

    /// The sum over all threads under the virtual PMU, if the run counted the event.
    pub fn event(&self, event: StaticEvent) -> Option<u64> {
        self.executed.threads.iter().try_fold(0u64, |sum, thread| {
            Some(sum.wrapping_add(thread.event(event)?))
        })
    }

    /// How the command ended; unknown where there was none.
    pub fn exit(&self) -> Exit {
        self.ended.map(|ended| ended.exit).unwrap_or_default()
    }

    /// Whether truecount ended the command because of the time limit.
    pub fn timed_out(&self) -> bool {
        self.ended.is_some_and(|ended| ended.timed_out)
    }

    /// How sure the virtual PMU's counts are: exact when the program and its children ran to their own end and all were counted.
    pub fn precision(&self) -> Precision {
        let cut = self.interrupted.is_some()
            || self.timed_out()
            || self.exit().signal == Some(libc::SIGKILL);
        let Executed {
            uncounted,
            unseen_writes,
            unseen_faults,
            unfollowed,
            outlived,
            cut: threads_cut,
            ..
        } = self.executed;
        // Every program executes something: it was ended before its first block told of itself.
        let nothing = self.instructions() == 0;
        if cut
            || nothing
            || threads_cut > 0
            || uncounted > 0
            || unseen_writes > 0
            || unseen_faults > 0
            || unfollowed > 0
            || outlived > 0
        {
            Precision::Counted
        } else {
            Precision::Exact
        }
    }

    /// What the reader should know about a run under the virtual PMU.
    pub fn virtual_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.executed.uncounted > 0 {
            let first = match &self.executed.left_out {
                Some(first) => format!("first {first}"),
                None => "set-user-ID, 32-bit, or not traceable".to_owned(),
            };
            notes.push(format!(
                "{} program(s) ran without being counted ({first}): the count is not the whole.",
                self.executed.uncounted
            ));
        }
        if self.executed.cut > 0 {
            notes.push(format!(
                "{} thread(s) were killed while they executed: each count may be up to {} instructions off.",
                self.executed.cut,
                truecount_engine::virt::MOST_IN_A_BLOCK
            ));
        }
        if self.executed.unseen_writes > 0 {
            notes.push(format!(
                "{} write(s) of code by another process (ptrace, /proc/PID/mem, a shared file): it may have \
                 gone on executing the old code, so this count is not called exact.",
                self.executed.unseen_writes
            ));
        }
        if self.executed.unfollowed > 0 {
            let first = self.executed.unfollowed_first.as_deref();
            notes.push(format!(
                "{} call(s) that the virtual PMU does not follow (first {}): what came of them may not be counted, \
                 so this count is not called exact.",
                self.executed.unfollowed,
                first.unwrap_or("unknown")
            ));
        }
        if self.executed.unseen_faults > 0 {
            notes.push(format!(
                "{} process(es) may have ended by a fault whose signal they had blocked: each count may be a few \
                 instructions too high, so this one is not called exact.",
                self.executed.unseen_faults
            ));
        }
        if self.executed.outlived > 0 {
            notes.push(format!(
                "{} process(es) outlived the program; they were counted until its end.",
                self.executed.outlived
            ));
        }
        notes.extend(self.executed.cache_problem.clone());
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran() -> RunResult {
        let thread = Thread {
            pid: 1,
            tid: 1,
            parent: 0,
            program: "a".into(),
            instructions: 5,
            counts: None,
            events: serde_json::Map::new(),
            image: 1,
            slot: 0,
            ended: true,
        };
        RunResult {
            ended: Some(Ended {
                exit: Exit::from_wait(0),
                ..Ended::default()
            }),
            executed: Executed {
                threads: vec![thread; 2],
                ..Executed::default()
            },
            ..RunResult::default()
        }
    }

    #[test]
    fn only_a_whole_run_is_exact() {
        let whole = ran();
        assert_eq!(whole.event(StaticEvent::Loads), None);
        assert_eq!(
            (whole.event(StaticEvent::Instructions), whole.precision()),
            (Some(10), Precision::Exact)
        );
        let spoilers: [fn(&mut RunResult); 10] = [
            |ran| ran.executed.threads.clear(),
            |ran| ran.interrupted = Some(2),
            |ran| ran.ended.as_mut().unwrap().timed_out = true,
            |ran| ran.ended.as_mut().unwrap().exit = Exit::from_wait(9),
            |ran| ran.executed.uncounted = 1,
            |ran| ran.executed.unseen_writes = 1,
            |ran| ran.executed.unseen_faults = 1,
            |ran| ran.executed.unfollowed = 1,
            |ran| ran.executed.outlived = 1,
            |ran| ran.executed.cut = 1,
        ];
        for spoil in spoilers {
            let mut part = ran();
            spoil(&mut part);
            assert_eq!(part.precision(), Precision::Counted);
        }
    }
}
