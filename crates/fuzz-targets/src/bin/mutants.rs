//! Many mutants over all targets, in one process (`cargo xtask fuzz`): says of each target how many, the slowest and the
//! memory, and ends with 1 where one panicked, took longer than 5 s, or memory was not bounded. Each mutant is made from
//! its number alone: `mutants --first NUMBER --mutants 1 TARGET` does it again. `--keep FILE` holds the sums, and the next
//! call with it goes on from there.
//!
//! What a mutant costs differs a thousandfold between targets. They are taken in turns of at most a second each, in
//! inverse proportion to the square root of the cost, so that the slow ones get more time and the fast ones more mutants.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use truecount_fuzz_targets::mutants::{SEED, corpus, mutant};
use truecount_fuzz_targets::{TARGETS, Target, named};

/// No input of some kilobytes takes longer.
const LONGEST: Duration = Duration::from_secs(5);
/// All of the process, after all inputs so far.
const MOST_KIB: u64 = 1 << 20;
/// A turn ends after so many mutants at most (fewer where few are asked for: each target has its turn), or …
const TURN: u64 = 4000;
/// … so long, so that little is lost where the process is ended.
const TURN_TIME: Duration = Duration::from_secs(1);
/// As the main thread's: parsers may go deep.
const STACK: usize = 8 << 20;

struct Options {
    mutants: u64,
    first: u64,
    seed: u64,
    threads: usize,
    keep: Option<PathBuf>,
    targets: Vec<Target>,
}

fn options() -> Result<Options, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut out = Options {
        mutants: 100_000,
        first: 0,
        seed: SEED,
        threads,
        keep: None,
        targets: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if TARGETS.iter().any(|target| target.name == word) {
            out.targets.push(named(&word));
            continue;
        }
        let value = words.next().ok_or_else(|| {
            format!("{word}: neither a target nor an option with a value behind it")
        })?;
        let number = || {
            let number: Result<u64, _> = value.parse();
            number.map_err(|_| format!("{word} {value}: not a number"))
        };
        match word.as_str() {
            "--mutants" => out.mutants = number()?,
            "--first" => out.first = number()?,
            "--seed" => out.seed = number()?,
            "--threads" => out.threads = number()?.clamp(1, 1024) as usize,
            "--keep" => out.keep = Some(value.into()),
            other => return Err(format!("{other}: neither an option nor a target")),
        }
    }
    if out.targets.is_empty() {
        out.targets = TARGETS.to_vec();
    }
    Ok(out)
}

/// What was done with a target so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    mutants: u64,
    /// CPU time where the kernel tells it.
    seconds: f64,
    slowest: f64,
    slowest_number: u64,
    panics: u64,
}

impl Sum {
    /// Turns go to the smallest.
    fn share(&self) -> f64 {
        let cost = self.seconds * 1e6 / self.mutants.max(1) as f64;
        self.mutants as f64 * cost.sqrt().clamp(1.0, 30.0)
    }
}

/// A line a target: name, mutants, seconds, slowest in seconds, its number, panics.
fn written(targets: &[Target], sums: &[Sum]) -> String {
    let mut out = String::new();
    for (target, sum) in targets.iter().zip(sums) {
        let Sum {
            mutants,
            seconds,
            slowest,
            slowest_number,
            panics,
        } = sum;
        let _ = writeln!(
            out,
            "{}\t{mutants}\t{seconds}\t{slowest}\t{slowest_number}\t{panics}",
            target.name
        );
    }
    out
}

fn read(text: &str, targets: &[Target]) -> Result<Vec<Sum>, String> {
    let sum = |line: &str| -> Option<Sum> {
        let mut words = line.split('\t').skip(1);
        Some(Sum {
            mutants: words.next()?.parse().ok()?,
            seconds: words.next()?.parse().ok()?,
            slowest: words.next()?.parse().ok()?,
            slowest_number: words.next()?.parse().ok()?,
            panics: words.next()?.parse().ok()?,
        })
    };
    let of = |target: &Target| {
        let line = text
            .lines()
            .find(|line| line.split('\t').next() == Some(target.name));
        line.map_or(Ok(Sum::default()), |line| {
            sum(line).ok_or_else(|| format!("{line}: no sums of a target"))
        })
    };
    targets.iter().map(of).collect()
}

/// What a thread is doing, for the one that watches the time.
#[derive(Default)]
struct Now {
    /// Milliseconds since the start at which the current mutant was begun; 0 beside one.
    at: AtomicU64,
    target: AtomicUsize,
    number: AtomicU64,
    /// Its directory in `/proc`.
    place: Mutex<Option<PathBuf>>,
}

/// CPU time of a thread, where the kernel tells it (its Documentation/scheduler/sched-stats.rst): on a loaded machine
/// that is not the time that passes.
fn worked(place: Option<&PathBuf>) -> Option<Duration> {
    let text = std::fs::read_to_string(place?.join("schedstat")).ok()?;
    let nanoseconds = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn place() -> Option<PathBuf> {
    let link = std::fs::read_link("/proc/thread-self").ok()?;
    Some(PathBuf::from("/proc").join(link))
}

/// Ends the process where a mutant takes too long: nothing else can.
fn watch(all: &[Now], began: Instant, targets: &[Target]) {
    let mut seen = vec![((0, 0, 0), Duration::ZERO); all.len()];
    loop {
        std::thread::sleep(LONGEST / 10);
        for (now, (before, since)) in all.iter().zip(&mut seen) {
            let at = now.at.load(Ordering::Relaxed);
            let target = now.target.load(Ordering::Relaxed);
            let number = now.number.load(Ordering::Relaxed);
            let time = worked(lock(&now.place).as_ref());
            if std::mem::replace(before, (at, target, number)) != (at, target, number) {
                *since = time.unwrap_or_default();
            }
            if at == 0 {
                continue;
            }
            let passed = began.elapsed().saturating_sub(Duration::from_millis(at));
            let took = time.map_or(passed, |time| passed.min(time.saturating_sub(*since)));
            if took > LONGEST {
                let name = targets.get(target).map_or("", |target| target.name);
                eprintln!("{name}: mutant {number} takes longer than {LONGEST:?}");
                std::process::exit(1);
            }
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

/// A panic of a thread ends the process by the join: what the others wrote is whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all threads know.
struct Work {
    options: Options,
    began: Instant,
    /// The sums, and whose turn it is somewhere.
    targets: Mutex<Vec<(Sum, bool)>>,
    seeds: Vec<Vec<Vec<u8>>>,
}

impl Work {
    /// The next target, its first number and how many; `None`: there is nothing left for one more thread.
    fn turn(&self) -> Option<(usize, u64, u64)> {
        let mut all = lock(&self.targets);
        let done: u64 = all.iter().map(|(sum, _)| sum.mutants).sum();
        // Turns of other threads count as whole: who ends a shorter one goes on itself.
        let busy = all.iter().filter(|(_, busy)| *busy).count() as u64;
        let each = (self.options.mutants / (4 * all.len().max(1)) as u64).clamp(1, TURN);
        let left = self.options.mutants.saturating_sub(done + busy * each);
        if left == 0 {
            return None;
        }
        let free = all.iter_mut().enumerate().filter(|(_, (_, busy))| !busy);
        let (index, (sum, busy)) =
            free.min_by(|(_, (a, _)), (_, (b, _))| a.share().total_cmp(&b.share()))?;
        *busy = true;
        Some((index, self.options.first + sum.mutants, left.min(each)))
    }

    fn done(&self, index: usize, more: Sum) -> std::io::Result<()> {
        let mut all = lock(&self.targets);
        if let Some((sum, busy)) = all.get_mut(index) {
            *busy = false;
            sum.mutants += more.mutants;
            sum.seconds += more.seconds;
            sum.panics += more.panics;
            if more.slowest > sum.slowest {
                (sum.slowest, sum.slowest_number) = (more.slowest, more.slowest_number);
            }
        }
        let Some(path) = &self.options.keep else {
            return Ok(());
        };
        let sums: Vec<Sum> = all.iter().map(|(sum, _)| *sum).collect();
        let new = path.with_extension("new");
        std::fs::write(&new, written(&self.options.targets, &sums))?;
        std::fs::rename(new, path)
    }

    /// Some mutants of a target.
    fn some(&self, index: usize, first: u64, most: u64, now: &Now) -> Sum {
        let mut sum = Sum::default();
        let (Some(target), Some(seeds)) = (self.options.targets.get(index), self.seeds.get(index))
        else {
            return sum;
        };
        let run = |data: &[u8]| {
            let start = Instant::now();
            let well = catch_unwind(AssertUnwindSafe(|| (target.run)(data))).is_ok();
            (well, start.elapsed())
        };
        let turn = Instant::now();
        let place = lock(&now.place).clone();
        let before = worked(place.as_ref());
        while sum.mutants < most && turn.elapsed() < TURN_TIME {
            let number = first + sum.mutants;
            let data = mutant(self.options.seed, number, seeds);
            now.target.store(index, Ordering::Relaxed);
            now.number.store(number, Ordering::Relaxed);
            let at = self.began.elapsed().as_millis() as u64;
            now.at.store(at.max(1), Ordering::Relaxed);
            let (well, mut took) = run(&data);
            if !well {
                sum.panics += 1;
                eprintln!("{}: mutant {number} panics", target.name);
            } else if took.as_secs_f64() > sum.slowest.max(1e-3) {
                // The time of the machine's other work is not the mutant's.
                took = took.min(run(&data).1);
            }
            now.at.store(0, Ordering::Relaxed);
            if took.as_secs_f64() > sum.slowest {
                (sum.slowest, sum.slowest_number) = (took.as_secs_f64(), number);
            }
            sum.mutants += 1;
        }
        let passed = turn.elapsed();
        let time = worked(place.as_ref()).zip(before);
        sum.seconds = time
            .map_or(passed, |(after, before)| after.saturating_sub(before))
            .as_secs_f64();
        sum
    }

    fn run(&self, now: &Now) -> std::io::Result<()> {
        *lock(&now.place) = place();
        while let Some((index, first, most)) = self.turn() {
            self.done(index, self.some(index, first, most, now))?;
        }
        Ok(())
    }

    /// All threads to their end, and the table.
    fn all(&'static self) -> Result<ExitCode, String> {
        let states: Vec<Now> = (0..self.options.threads).map(|_| Now::default()).collect();
        let states: &'static [Now] = Vec::leak(states);
        std::thread::spawn(move || watch(states, self.began, &self.options.targets));
        let start = |now: &'static Now| {
            let builder = std::thread::Builder::new().stack_size(STACK);
            builder.spawn(move || self.run(now))
        };
        let threads: Result<Vec<_>, _> = states.iter().map(start).collect();
        for thread in threads.map_err(|error| format!("no thread: {error}"))? {
            let ended = thread.join().map_err(|_| "a thread panicked".to_owned())?;
            ended.map_err(|error| format!("the sums cannot be kept: {error}"))?;
        }
        let all = lock(&self.targets);
        let (mut mutants, mut panics, mut seconds) = (0, 0, 0.0);
        for (target, (sum, _)) in self.options.targets.iter().zip(all.iter()) {
            println!(
                "{:20} {:>9} mutants in {:>6.1} s, slowest {:>8.3} ms (number {}), {} panics",
                target.name,
                sum.mutants,
                sum.seconds,
                sum.slowest * 1e3,
                sum.slowest_number,
                sum.panics
            );
            mutants += sum.mutants;
            panics += sum.panics;
            seconds += sum.seconds;
        }
        println!(
            "{mutants} mutants in {seconds:.0} s of CPU time, {panics} panics, peak {} MiB (at most {})",
            peak() >> 10,
            MOST_KIB >> 10
        );
        Ok(ExitCode::from(u8::from(panics > 0 || peak() > MOST_KIB)))
    }
}

fn work() -> Result<Work, String> {
    let options = options()?;
    let text = match options.keep.as_ref().map(std::fs::read_to_string) {
        Some(Ok(text)) => text,
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("the sums cannot be read: {error}"));
        }
        _ => String::new(),
    };
    let sums = read(&text, &options.targets)?;
    let seeds = options.targets.iter().map(|target| corpus(*target));
    Ok(Work {
        began: Instant::now(),
        targets: Mutex::new(sums.into_iter().map(|sum| (sum, false)).collect()),
        seeds: seeds.collect(),
        options,
    })
}

fn main() -> ExitCode {
    let work: Result<&'static Work, String> = work().map(|work| &*Box::leak(Box::new(work)));
    work.and_then(Work::all).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_as_they_were_written() {
        let targets = &TARGETS[..2];
        let sum = Sum {
            mutants: 7,
            seconds: 0.25,
            slowest: 1e-3,
            slowest_number: 3,
            panics: 1,
        };
        let sums = [sum, Sum::default()];
        assert_eq!(read(&written(targets, &sums), targets).unwrap(), sums);
        assert_eq!(read("", targets).unwrap(), [Sum::default(); 2]);
        assert!(read("event_expr\t7\n", targets).is_err());
    }
}
