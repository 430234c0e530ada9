//! Many mutants over all targets, in one process (`cargo xtask fuzz`): says of each target how many, the slowest and the
//! memory, and ends with 1 where one panicked, took longer than 5 s, or memory was not bounded. Each mutant is made from
//! its number alone: `mutants --first NUMBER --mutants 1 TARGET` does it again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use truecount_fuzz_targets::mutants::{SEED, corpus, mutant};
use truecount_fuzz_targets::{TARGETS, Target, named};

/// No input of some kilobytes takes longer.
const LONGEST: Duration = Duration::from_secs(5);
/// All of the process, after all inputs so far.
const MOST_KIB: u64 = 1 << 20;

struct Options {
    mutants: u64,
    first: u64,
    seed: u64,
    targets: Vec<Target>,
}

fn options() -> Result<Options, String> {
    let mut out = Options {
        mutants: 100_000,
        first: 0,
        seed: SEED,
        targets: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let place = match word.as_str() {
            "--mutants" => &mut out.mutants,
            "--first" => &mut out.first,
            "--seed" => &mut out.seed,
            name if TARGETS.iter().any(|target| target.name == name) => {
                out.targets.push(named(name));
                continue;
            }
            other => return Err(format!("{other}: neither an option nor a target")),
        };
        let value = words.next().ok_or_else(|| format!("{word}: no number"))?;
        *place = value
            .parse()
            .map_err(|_| format!("{word} {value}: not a number"))?;
    }
    if out.targets.is_empty() {
        out.targets = TARGETS.to_vec();
    }
    Ok(out)
}

/// What is being done, for the thread that watches the time.
struct Now {
    began: Instant,
    /// Milliseconds since then at which the current mutant was begun.
    at: AtomicU64,
    target: AtomicUsize,
    number: AtomicU64,
}

impl Now {
    fn milliseconds(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

/// CPU time of the thread that does the work, where the kernel tells it (its Documentation/scheduler/sched-stats.rst):
/// on a loaded machine that is not the time that passes.
fn worked() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    let nanoseconds = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

/// Ends the process where a mutant takes too long: nothing else can.
fn watch(now: &Now, targets: &[Target]) {
    let (mut seen, mut since) = (None, Duration::ZERO);
    loop {
        std::thread::sleep(LONGEST / 10);
        let passed = Duration::from_millis(
            now.milliseconds()
                .saturating_sub(now.at.load(Ordering::Relaxed)),
        );
        let place = (
            now.target.load(Ordering::Relaxed),
            now.number.load(Ordering::Relaxed),
        );
        let time = worked();
        if seen.replace(place) != Some(place) {
            since = time.unwrap_or_default();
        }
        let took = time.map_or(passed, |time| passed.min(time.saturating_sub(since)));
        if took > LONGEST {
            let target = targets.get(now.target.load(Ordering::Relaxed));
            let name = target.map_or("", |target| target.name);
            let number = now.number.load(Ordering::Relaxed);
            eprintln!("{name}: mutant {number} takes longer than {LONGEST:?}");
            std::process::exit(1);
        }
    }
}

/// The largest resident size so far, KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let words = line.and_then(|line| line.split_whitespace().next());
    words.and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let now = Now {
        began: Instant::now(),
        at: AtomicU64::new(u64::MAX),
        target: AtomicUsize::new(0),
        number: AtomicU64::new(0),
    };
    let now: &'static Now = Box::leak(Box::new(now));
    let watched = options.targets.clone();
    std::thread::spawn(move || watch(now, &watched));
    let each = options.mutants.div_ceil(options.targets.len() as u64);
    let (mut failures, mut all) = (0_u64, 0_u64);
    for (index, target) in options.targets.iter().enumerate() {
        let seeds = corpus(*target);
        let began = Instant::now();
        let mut slowest = (Duration::ZERO, 0);
        for number in options.first..options.first + each {
            let data = mutant(options.seed, number, &seeds);
            now.target.store(index, Ordering::Relaxed);
            now.number.store(number, Ordering::Relaxed);
            now.at.store(now.milliseconds(), Ordering::Relaxed);
            let start = Instant::now();
            if catch_unwind(AssertUnwindSafe(|| (target.run)(&data))).is_err() {
                failures += 1;
                eprintln!("{}: mutant {number} panics", target.name);
            }
            slowest = slowest.max((start.elapsed(), number));
        }
        now.at.store(u64::MAX, Ordering::Relaxed);
        all += each;
        println!(
            "{:18} {each:>9} mutants in {:>6.1} s, slowest {:>8.3} ms (number {}), peak {} MiB",
            target.name,
            began.elapsed().as_secs_f64(),
            slowest.0.as_secs_f64() * 1e3,
            slowest.1,
            peak() >> 10
        );
    }
    let bounded = peak() <= MOST_KIB;
    println!(
        "{all} mutants, {failures} panics, peak {} MiB (at most {})",
        peak() >> 10,
        MOST_KIB >> 10
    );
    if failures == 0 && bounded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
