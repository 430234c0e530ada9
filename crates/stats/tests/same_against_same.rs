//! A thing compared with itself, as `bench` compares it: eight kinds of programs, 500 comparisons each, with the rules
//! that decide how often runs are repeated ([`Repeats`], [`Looks`]) and what is said ([`verdicts`]). Seeds are fixed, so
//! the figures are the same on every machine.
//!
//! `cargo test -p truecount-stats --test same_against_same -- --nocapture` prints them.

#![allow(clippy::unwrap_used)] // helpers of tests; a failure is the test's

use truecount_stats::{
    Comparison, Design, Differ, Floors, Looks, Options, Repeats, Rng, SIGNIFICANCE, Schedule,
    Verdict, compare_paired, compare_unpaired, smallest_n, verdicts,
};

/// Comparisons of each kind.
const TRIALS: u64 = 500;

/// A kind of program: its instructions and its wall time in a run, with the machine's slow drift.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// 5 % more work by one random bit.
    Coin,
    /// Work that is divided between threads: waiting loops make counts differ a little, times more.
    Threads,
    /// Times with rare large outliers, counts that are exact.
    Noisy,
    /// Another load comes and goes: long stretches in which everything takes half as long again.
    Loaded,
    /// A millisecond: starting dominates, and the clock's steps show.
    Short,
    /// A second.
    Long,
    /// Caches and pages decide: three modes of time.
    Memory,
    /// Hash seeds: counts differ by about half a per cent, with modes.
    Python,
}

const KINDS: [Kind; 8] = [
    Kind::Coin,
    Kind::Threads,
    Kind::Noisy,
    Kind::Loaded,
    Kind::Short,
    Kind::Long,
    Kind::Memory,
    Kind::Python,
];

/// A machine with a program on it.
struct Machine {
    rng: Rng,
    drift: f64,
    /// Runs for which the other load stays as it is, and whether it is there.
    load: (u64, bool),
}

impl Machine {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let first = 1 + rng.below(20);
        Self {
            rng,
            drift: 0.0,
            load: (first, false),
        }
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.rng.next_f64()).sum::<f64>() - 6.0
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.rng.next_f64()).ln()
    }

    fn instructions(&mut self, kind: Kind) -> u64 {
        let base = 10_000_000;
        match kind {
            Kind::Coin => base + self.rng.below(2) * base / 20,
            Kind::Threads => base + (self.exponential() * 20_000.0) as u64,
            Kind::Python => {
                base + self.rng.below(3) * 20_000 + (self.normal().abs() * 15_000.0) as u64
            }
            Kind::Noisy | Kind::Loaded | Kind::Short | Kind::Long | Kind::Memory => base,
        }
    }

    /// In nanoseconds.
    fn time(&mut self, kind: Kind) -> u64 {
        self.drift += 0.002 * (self.rng.next_f64() - 0.5);
        let base = match kind {
            Kind::Short => 1e6,
            Kind::Long => 1e9,
            _ => 5e7,
        };
        let noise = match kind {
            Kind::Coin => 0.05 * self.rng.below(2) as f64 + 0.004 * self.exponential(),
            Kind::Threads => 0.03 * self.exponential(),
            Kind::Noisy if self.rng.below(8) == 0 => 0.5 * self.exponential(),
            Kind::Noisy => 0.01 * self.exponential(),
            Kind::Loaded => {
                if self.load.0 == 0 {
                    self.load = (1 + self.rng.below(30), !self.load.1);
                }
                self.load.0 -= 1;
                f64::from(u8::from(self.load.1)) * 0.5 + 0.02 * self.exponential()
            }
            Kind::Short => 0.05 * self.exponential(),
            Kind::Long => 0.002 * self.normal().abs(),
            Kind::Memory => 0.04 * self.rng.below(3) as f64 + 0.005 * self.exponential(),
            Kind::Python => 0.01 * self.exponential() + 0.01 * self.rng.below(2) as f64,
        };
        (base * (1.0 + self.drift + noise)) as u64
    }
}

/// What one comparison came to.
struct Result {
    instructions: Comparison,
    time: Comparison,
    runs: usize,
    rounds: usize,
}

/// As `bench` does without options: ten rounds or more in shuffled order for the times, then runs of the engine for the
/// counts. `factor` is what the second command's work is of the first's.
fn bench(kind: Kind, seed: u64, factor: f64, rounds: usize, until_decided: bool) -> Result {
    let mut machine = Machine::new(seed);
    let scale = |value: u64, command: usize| {
        if command == 1 {
            (value as f64 * factor) as u64
        } else {
            value
        }
    };
    let mut schedule = Schedule::new(2, seed);
    let mut times = [vec![], vec![]];
    let looks = Looks::new(smallest_n(Design::Paired, SIGNIFICANCE, 1).max(10), rounds);
    let options = Options::default();
    for round in 1..=rounds {
        for run in schedule.next_round() {
            times[run.command].push(scale(machine.time(kind), run.command));
        }
        if until_decided && looks.is_at(round) {
            let mut time = compare_paired(&times[0], &times[1], &options).unwrap();
            time.looks = looks.count();
            let judged = verdicts([("wall-time", time)], &Floors::default());
            if !matches!(
                judged[0].verdict,
                Verdict::Undecided { .. } | Verdict::TooSmall { .. }
            ) {
                break;
            }
        }
    }
    let repeats = Repeats::for_family(2);
    let mut counts = [vec![], vec![]];
    let mut runs = 0;
    loop {
        for (command, counts) in counts.iter_mut().enumerate() {
            counts.push(scale(machine.instructions(kind), command));
        }
        runs += 1;
        let differ = Differ::of(&[&counts[0], &counts[1]]);
        // Half of the budgets end before the bound.
        if repeats.enough(runs, differ, seed.is_multiple_of(2) || runs < 12) {
            break;
        }
    }
    let mut time = compare_paired(&times[0], &times[1], &options).unwrap();
    if until_decided {
        time.looks = looks.count();
    }
    Result {
        instructions: compare_unpaired(&counts[0], &counts[1], &options).unwrap(),
        time,
        runs,
        rounds: times[0].len(),
    }
}

/// Verdicts of the two, judged together.
fn judged(result: &Result) -> Vec<truecount_stats::Judged> {
    verdicts(
        [
            ("instructions:u", result.instructions),
            ("wall-time", result.time),
        ],
        &Floors::default(),
    )
}

fn differs(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Lower | Verdict::Higher)
}

/// False verdicts and falsely exact ones of comparisons of a program with itself.
fn same_with_same(kind: Kind, rounds: usize, until_decided: bool) -> (u64, u64) {
    let (mut wrong, mut exact) = (0, 0);
    for seed in 0..TRIALS {
        let result = bench(kind, seed, 1.0, rounds, until_decided);
        let all = judged(&result);
        wrong += u64::from(all.iter().any(|judged| differs(judged.verdict)));
        exact += u64::from(
            all.iter()
                .any(|judged| judged.exact() && differs(judged.verdict)),
        );
    }
    (wrong, exact)
}

#[test]
fn a_program_against_itself_is_called_different_at_most_once_in_a_hundred() {
    let mut all = 0;
    for kind in KINDS {
        let (wrong, exact) = same_with_same(kind, 12, false);
        println!("{kind:?}: {wrong} false verdicts of {TRIALS}, {exact} of them exact");
        assert_eq!(exact, 0, "{kind:?}");
        // One in a hundred is 5 of 500; three standard errors more are 11.
        assert!(wrong <= 11, "{kind:?}: {wrong}");
        all += wrong;
    }
    println!("all: {all} of {}", TRIALS * 8);
    assert!(all <= TRIALS * 8 / 100, "{all}");
}

/// A measurement that ends when it is decided errs no more often.
#[test]
fn ending_when_decided_makes_no_more_false_verdicts() {
    let mut all = 0;
    for kind in KINDS {
        let (wrong, exact) = same_with_same(kind, 100, true);
        println!("{kind:?}, until decided: {wrong} of {TRIALS}, {exact} exact");
        assert_eq!(exact, 0, "{kind:?}");
        assert!(wrong <= 11, "{kind:?}: {wrong}");
        all += wrong;
    }
    assert!(all <= TRIALS * 8 / 100, "{all}");
}

/// Two runs each, as they were taken before, would err often: why runs are repeated.
#[test]
fn two_equal_runs_would_mislead() {
    let wrong = (0..TRIALS)
        .filter(|&seed| {
            let mut machine = Machine::new(seed);
            let mut two = || [(); 2].map(|()| machine.instructions(Kind::Coin));
            let (a, b) = (two(), two());
            a[0] == a[1] && b[0] == b[1] && a[0] != b[0]
        })
        .count();
    assert!(wrong > 40, "{wrong} of {TRIALS}");
}

/// 0.1 % more instructions (and the floor's worth more) are always found where counts are exact; 2 % more time within
/// 60 rounds of a quiet program.
#[test]
fn what_is_there_is_found() {
    for seed in 0..100 {
        let result = bench(Kind::Long, seed, 1.0011, 12, false);
        assert_eq!(judged(&result)[0].verdict, Verdict::Higher, "seed {seed}");
        assert_eq!(result.runs, 10, "a change is confirmed");
        assert_eq!(bench(Kind::Long, seed, 1.0, 12, false).runs, 6);
    }
    let found = (0..100)
        .filter(|&seed| {
            let result = bench(Kind::Long, seed, 1.02, 60, false);
            let floors = Floors::default().with("wall-time", 0.01);
            let time = verdicts([("wall-time", result.time)], &floors);
            time[0].verdict == Verdict::Higher
        })
        .count();
    assert!(found >= 99, "{found} of 100");
    // A change of 3.3 % in counts that vary by half a per cent, by default.
    let found = (0..100)
        .filter(|&seed| {
            let result = bench(Kind::Python, seed, 1.033, 12, false);
            judged(&result)[0].verdict == Verdict::Higher
        })
        .count();
    assert_eq!(found, 100);
    // A clear difference ends a measurement early.
    let early = bench(Kind::Noisy, 1, 2.0, 1000, true);
    assert!(early.rounds <= 26, "{}", early.rounds);
}

/// Intervals hold the truth in 94 to 97 of 100 cases where the noise of the rounds is even; no less where it is not.
#[test]
fn intervals_hold_the_truth() {
    let mut all = 0;
    for kind in KINDS {
        let mut held = 0;
        for seed in 0..TRIALS {
            let (low, high) = bench(kind, seed, 1.0, 30, false).time.interval.unwrap();
            held += u64::from((low..=high).contains(&1.0));
        }
        let share = held as f64 / TRIALS as f64;
        println!(
            "{kind:?}: the interval of the time holds the truth in {:.1} %",
            share * 100.0
        );
        // Two standard errors of 500 are 2 %.
        assert!((0.92..0.99).contains(&share), "{kind:?}: {share}");
        all += held;
    }
    let share = all as f64 / (TRIALS * 8) as f64;
    println!("all: {:.2} %", share * 100.0);
    assert!((0.94..=0.97).contains(&share), "{share}");
}
