//! How often the same thing is called different, and how often the interval holds the truth:
//! simulations with fixed seeds, so they give the same counts on every machine.

#![allow(clippy::unwrap_used)] // helpers of tests; a failure is the test's

use truecount_stats::{
    Floors, Options, Rng, Schedule, Verdict, compare_paired, compare_unpaired, verdicts,
};

/// A machine whose speed drifts: a slow random walk under noise that only adds.
struct Machine {
    rng: Rng,
    drift: f64,
}

impl Machine {
    fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            drift: 0.0,
        }
    }

    fn measure(&mut self) -> f64 {
        self.drift += 0.01 * (self.rng.next_f64() - 0.5);
        let noise = -(1.0 - self.rng.next_f64()).ln() * 0.01;
        10.0 * (1.0 + self.drift + noise)
    }

    /// A counter: exact but for a rare interrupt, and two modes.
    fn count(&mut self) -> u64 {
        95_533 + 17 * self.rng.below(2) + u64::from(self.rng.below(10) == 0)
    }
}

const TRIALS: u64 = 600;

/// How many of the trials call two samples of one machine different, at p < 0.05 alone.
fn called_different<T: truecount_stats::Value>(
    rounds: usize,
    measure: impl Fn(&mut Machine) -> T,
) -> u64 {
    (0..TRIALS)
        .filter(|&trial| {
            let mut machine = Machine::new(trial);
            let mut schedule = Schedule::new(2, trial);
            let mut samples = [vec![], vec![]];
            for _ in 0..rounds {
                for run in schedule.next_round() {
                    samples[run.command].push(measure(&mut machine));
                }
            }
            compare_paired(&samples[0], &samples[1], &Options::default())
                .unwrap()
                .p
                < 0.05
        })
        .count() as u64
}

#[test]
fn the_same_thing_is_called_different_at_most_at_the_nominal_rate() {
    // Nominal 5 % of 600 is 30; three standard errors above are 46.
    for rounds in [6, 10, 20, 40] {
        let times = called_different(rounds, Machine::measure);
        let counts = called_different(rounds, Machine::count);
        assert!(
            times <= 46 && counts <= 46,
            "{rounds} rounds: {times} and {counts} of 600"
        );
        // And the test is not blind.
        assert!(times >= 8, "{rounds} rounds: {times} of 600");
    }
    assert_eq!(
        called_different(10, Machine::measure),
        called_different(10, Machine::measure)
    );
}

#[test]
fn block_order_under_drift_would_be_wrong() {
    // Why rounds are interleaved: the same machine, first all of one, then all of the other.
    let wrong = (0..400)
        .filter(|&trial| {
            let mut machine = Machine::new(trial);
            let a: Vec<f64> = (0..20).map(|_| machine.measure()).collect();
            let b: Vec<f64> = (0..20).map(|_| machine.measure()).collect();
            compare_unpaired(&a, &b, &Options::default()).unwrap().p < 0.05
        })
        .count();
    assert!(wrong > 100, "{wrong} of 400");
}

#[test]
fn a_whole_report_keeps_its_level() {
    // Eight metrics of the same thing: Holm bounds the chance of any false verdict.
    let wrong = (0..300u64)
        .filter(|&trial| {
            let mut rng = Rng::new(trial);
            let shown: Vec<_> = (0..8)
                .map(|i| {
                    let mut draw = || (0..12).map(|_| 1.0 + rng.next_f64()).collect::<Vec<f64>>();
                    let c = compare_paired(&draw(), &draw(), &Options::default()).unwrap();
                    (format!("instructions:{i}"), c)
                })
                .collect();
            verdicts(shown, &Floors::default())
                .iter()
                .any(|j| matches!(j.verdict, Verdict::Higher | Verdict::Lower))
        })
        .count();
    // 5 % of 300 is 15; three standard errors above are 26.
    assert!(wrong <= 26, "{wrong} of 300");
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    for n in [8usize, 16, 40] {
        let (mut paired, mut unpaired) = (0, 0);
        for trial in 0..300u64 {
            let mut rng = Rng::new(trial);
            let mut draw = |f: f64| {
                (0..n)
                    .map(|_| f * (0..6).map(|_| 1.0 + rng.next_f64()).sum::<f64>())
                    .collect::<Vec<_>>()
            };
            let (a, b) = (draw(1.0), draw(1.1));
            let holds = |i: Option<(f64, f64)>| {
                let (low, high) = i.unwrap();
                u64::from(low <= 1.1 && 1.1 <= high)
            };
            paired += holds(
                compare_paired(&a, &b, &Options::default())
                    .unwrap()
                    .interval,
            );
            unpaired += holds(
                compare_unpaired(&a, &b, &Options::default())
                    .unwrap()
                    .interval,
            );
        }
        // 95 % of 300 less three standard errors.
        assert!(
            paired >= 273 && unpaired >= 273,
            "n = {n}: {paired}, {unpaired} of 300"
        );
    }
}

#[test]
fn a_real_change_is_found() {
    let found = (0..300u64)
        .filter(|&trial| {
            let mut machine = Machine::new(trial);
            let a: Vec<f64> = (0..20).map(|_| machine.measure()).collect();
            let b: Vec<f64> = a
                .iter()
                .map(|v| v * 1.05 + 0.01 * machine.rng.next_f64())
                .collect();
            let c = compare_paired(&a, &b, &Options::default()).unwrap();
            verdicts([("wall", c)], &Floors::default())[0].verdict == Verdict::Higher
        })
        .count();
    assert!(found >= 295, "{found} of 300");
}

#[test]
fn swapping_the_sides_mirrors_everything() {
    let mut rng = Rng::new(6);
    for _ in 0..150 {
        let n = 6 + rng.below(30) as usize;
        // Zeros and ties included.
        let mut draw = || (0..n).map(|_| rng.below(7)).collect::<Vec<u64>>();
        let (a, b) = (draw(), draw());
        for compare in [compare_paired::<u64>, compare_unpaired::<u64>] {
            let c = compare(&a, &b, &Options::default()).unwrap();
            let r = compare(&b, &a, &Options::default()).unwrap().reversed();
            assert_eq!((c.p, c.exact_change), (r.p, r.exact_change));
            let near = |x: f64, y: f64| x == y || (x / y - 1.0).abs() < 1e-12;
            let ((cl, ch), (rl, rh)) = (c.interval.unwrap(), r.interval.unwrap());
            assert!(
                near(c.ratio, r.ratio) && near(cl, rl) && near(ch, rh),
                "{c:?}\n{r:?}"
            );
            assert!(cl <= c.ratio && c.ratio <= ch);
        }
    }
}
