//! How far the time stamp counter advances at a time.
//!
//! Some machines count time in larger steps than a cycle and scale it up: readings are then multiples of a step that need
//! not be whole, rounded to whole cycles. A histogram of such readings is a comb, whose teeth are no modes.

/// Longer intervals are left out: there, a small error of the step is as large as the step.
const LONGEST: u16 = 1024;
/// Steps that are looked for. Below, rounding hides a comb; and what spreads over so few cycles is not a false mode.
const SMALLEST: f64 = 4.0;
const MAX_STEP: f64 = 256.0;
/// A reading is the difference of two rounded ones: that far from a multiple of the step.
const OFF: f64 = 1.0;

/// Pairs of readings of this machine's counter, and how many lengths they have.
const PAIRS: u32 = 8192;
const LENGTHS: u32 = 509;

/// Readings of the counter itself, of all lengths: those of a short block are too few different ones to tell a step from
/// chance. Empty where there is no such counter.
pub(super) fn of_this_clock() -> Vec<(u16, u64)> {
    let mut bins = std::collections::BTreeMap::new();
    for pair in 0..PAIRS {
        let Some(begin) = now() else { break };
        for turn in 0..pair % LENGTHS {
            std::hint::black_box(turn);
        }
        let cycles = now().unwrap_or(begin).wrapping_sub(begin);
        if let Ok(cycles) = u16::try_from(cycles) {
            let n = bins.entry(cycles).or_insert(0_u64);
            *n = n.saturating_add(1);
        }
    }
    bins.into_iter().collect()
}

#[cfg(target_arch = "x86_64")]
fn now() -> Option<u64> {
    // SAFETY: RDTSC exists on every x86-64 CPU; the program just timed executed it, too.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn now() -> Option<u64> {
    None
}

/// The step that readings of the counter itself show, or else those of the blocks.
pub(super) fn step_of(clock: &[(u16, u64)], readings: &[(u16, u64)]) -> f64 {
    let own = step(clock);
    if own > 1.0 { own } else { step(readings) }
}

/// The step of the counter that gave these readings, (cycles, count) sorted by cycles; 1 where they show no larger one.
///
/// It is the largest step of which nearly all readings are multiples, as far as rounding allows. So many multiples must
/// occur that readings of a finer counter would not show it by chance.
fn step(readings: &[(u16, u64)]) -> f64 {
    let all: u64 = readings.iter().map(|bin| bin.1).sum();
    let rare = all / 10_000;
    let values: Vec<f64> = readings
        .iter()
        .filter(|&&(cycles, n)| cycles <= LONGEST && n > rare)
        .map(|&(cycles, _)| f64::from(cycles))
        .collect();
    let Some(&longest) = values.last() else {
        return 1.0;
    };
    let mut step = MAX_STEP;
    while step >= SMALLEST {
        if let Some(found) = fits(&values, step) {
            // The neighbours of a step that fits do so, too: the one with the least error.
            return refined(&values, found);
        }
        // The longest reading moves by a quarter of a cycle between two candidates.
        step -= (step * step / longest.max(step) * 0.25 / step).max(0.002);
    }
    1.0
}

/// The step itself, when the readings are its multiples and not by chance.
fn fits(values: &[f64], step: f64) -> Option<f64> {
    let strays = values.len() / 20;
    let mut off = 0usize;
    let mut multiples = 0usize;
    let mut last = 0.0;
    for &value in values {
        let multiple = (value / step).round();
        if (value - multiple * step).abs() > OFF + 0.01 {
            off += 1;
            if off > strays {
                return None;
            }
        } else if multiple > last {
            multiples += 1;
            last = multiple;
        }
    }
    // A cycle in step / 3 is near a multiple: so unlikely is it that all are.
    let unlikely = multiples as f64 * (step / (2.0 * OFF + 1.0)).ln();
    (multiples >= 4 && unlikely >= 8.0).then_some(step)
}

/// Least squares of readings against their multiples.
fn refined(values: &[f64], step: f64) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    for &value in values {
        let multiple = (value / step).round();
        if (value - multiple * step).abs() <= OFF + 0.01 {
            products += value * multiple;
            squares += multiple * multiple;
        }
    }
    if squares > 0.0 {
        (products / squares * 100.0).round() / 100.0
    } else {
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences of two readings of a counter that advances by `step`, `count` of them from `least` cycles on.
    fn comb(step: f64, least: f64, count: u32) -> Vec<(u16, u64)> {
        let mut bins = std::collections::BTreeMap::new();
        for at in 0..count * 40 {
            // Both readings are multiples of the step, cut to whole cycles.
            let begin = f64::from(at % 977) * step;
            let length = least / step + f64::from(at % count);
            let end = begin + length.round() * step;
            let cycles = end.floor() - begin.floor();
            *bins.entry(cycles as u16).or_insert(0u64) += 1 + u64::from(at % 5);
        }
        bins.into_iter().collect()
    }

    #[test]
    fn steps_need_not_be_whole() {
        for true_step in [24.5, 26.0, 7.25, 4.6, 100.0, 38.4] {
            for (least, count) in [(40.0, 12), (300.0, 20)] {
                let found = step(&comb(
                    true_step,
                    least,
                    count.max((250.0 / true_step) as u32),
                ));
                assert!(
                    (found - true_step).abs() < 0.2,
                    "{true_step} from {least}: {found}"
                );
            }
        }
        // As it was seen: multiples of 24.5, some rounded up.
        let seen = [
            (24, 70),
            (25, 20),
            (49, 900),
            (73, 5),
            (74, 400),
            (98, 60),
            (123, 9),
        ];
        assert!((step(&seen) - 24.5).abs() < 0.2, "{}", step(&seen));
    }

    /// A block of some ten cycles, read by a counter that advances by 26: three values.
    #[test]
    fn the_counter_itself_shows_what_a_short_block_does_not() {
        let block = [(52, 55_665), (78, 208_691), (104, 2_259)];
        assert_eq!(step_of(&[], &block), 1.0);
        let found = step_of(&comb(26.0, 26.0, 12), &block);
        assert!((found - 26.0).abs() < 0.2, "{found}");
        let all: Vec<_> = (20..400u16).map(|c| (c, 3)).collect();
        assert_eq!(step_of(&all, &block), 1.0);
        // The readings of this machine, whatever they are, have many lengths.
        let here = of_this_clock();
        if cfg!(target_arch = "x86_64") {
            assert!(here.len() >= 4, "{here:?}");
            println!("{}", step(&here));
        }
    }

    #[test]
    fn a_counter_of_single_cycles_has_no_larger_step() {
        let all: Vec<_> = (20..400u16).map(|c| (c, u64::from(c % 7) + 1)).collect();
        assert_eq!(step(&all), 1.0);
        let two_modes = [
            (40, 10),
            (41, 80),
            (44, 10),
            (60, 50),
            (61, 40),
            (300, 40),
            (302, 9),
        ];
        assert_eq!(step(&two_modes), 1.0);
        assert_eq!(step(&[(40, 1_000_000)]), 1.0, "one value shows nothing");
        assert_eq!(step(&[(26, 10), (52, 10)]), 1.0, "nor do two");
        assert_eq!(step(&[]), 1.0);
        // Even readings only: below what is looked for.
        let even: Vec<_> = (10..200u16).map(|c| (2 * c, 5)).collect();
        assert_eq!(step(&even), 1.0);
    }
}
