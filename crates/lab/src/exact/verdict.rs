//! What the deviations mean, in a word and in words.

use super::OnLoop;
use super::tally::{MIN_INTERRUPTS, Summed};
use truecount_run::exactness::{Kind, Verdict};

/// Share of samples that a rule must explain. An interrupt that falls between the read of its own counter and the read
/// of the counter measured is booked on the wrong side: rare, and no reason to doubt the rule.
const NEARLY_ALL: f64 = 0.99;

/// Of a counter on one loop; `turn` is the name of what a turn holds one of.
#[must_use]
pub fn of_loop(s: &Summed, turn: &str, times: u64) -> Verdict {
    if s.samples == 0 {
        return Verdict::new(Kind::Unmeasured, "not measured");
    }
    if s.exact == s.samples {
        let also = match s.interrupts {
            Some(taken) if taken >= MIN_INTERRUPTS => format!(", through {taken} interrupts"),
            _ => String::new(),
        };
        return Verdict::new(
            Kind::Exact,
            format!("exact in all {} measurements{also}", s.samples),
        );
    }
    let ruled = s.explained >= NEARLY_ALL;
    let per_turn = s.base as f64 / times.max(1) as f64;
    let each_turn = if s.base == 0 {
        String::new()
    } else if s.base.unsigned_abs().is_multiple_of(times.max(1)) {
        format!("{per_turn:+.0} per {turn}")
    } else {
        format!("{:+} per measurement of {times} turns", s.base)
    };
    match s.per_interrupt {
        Some(0) | None if ruled && s.base == 0 => Verdict::new(
            Kind::Exact,
            format!(
                "exact in {} of {} measurements; the others from {:+} to {:+}",
                s.exact, s.samples, s.min, s.max
            ),
        ),
        Some(0) | None if ruled => Verdict::new(Kind::PerTurn, each_turn),
        Some(k) if ruled && s.base == 0 => Verdict::new(
            Kind::PerInterrupt,
            format!(
                "{k:+} per interrupt ({} seen), else exact",
                s.interrupts.unwrap_or(0)
            ),
        ),
        Some(k) if ruled => Verdict::new(
            Kind::PerTurn,
            format!("{each_turn} and {k:+} per interrupt"),
        ),
        _ if s.under == 0 => Verdict::new(
            Kind::Overcount,
            format!(
                "too many in {} of {} measurements, by up to {}",
                s.over, s.samples, s.max
            ),
        ),
        _ if s.over == 0 => Verdict::new(
            Kind::Undercount,
            format!(
                "too few in {} of {} measurements, by up to {}",
                s.under,
                s.samples,
                s.min.unsigned_abs()
            ),
        ),
        _ => Verdict::new(
            Kind::Unsteady,
            format!(
                "from {:+} to {:+} of the truth; {} of {} measurements exact",
                s.min, s.max, s.exact, s.samples
            ),
        ),
    }
}

/// Of a counter on all loops: the worst that is true of any, and how the excess compares with the timer's rate.
#[must_use]
pub fn of_counter(loops: &[OnLoop], timer_hertz: Option<u32>) -> Verdict {
    let measured: Vec<&OnLoop> = loops.iter().filter(|l| l.summed.samples > 0).collect();
    let samples: u64 = measured.iter().map(|l| l.summed.samples).sum();
    if samples == 0 {
        return Verdict::new(Kind::Unmeasured, "not measured");
    }
    let all_zero = measured.iter().all(|l| l.summed.exact == l.summed.samples);
    let mut rules: Vec<(Kind, String)> = Vec::new();
    for (kind, words) in [
        (Kind::Unsteady, "unsteady"),
        (Kind::Undercount, "too few"),
        (Kind::Overcount, "too many"),
        (Kind::PerTurn, "more than it ought to count"),
    ] {
        // Loops of which the same is true are named together.
        let mut texts: Vec<(&str, Vec<&str>)> = Vec::new();
        for l in measured.iter().filter(|l| l.verdict.kind == kind) {
            match texts.iter_mut().find(|(text, _)| *text == l.verdict.text) {
                Some((_, names)) => names.push(&l.name),
                None => texts.push((&l.verdict.text, vec![&l.name])),
            }
        }
        let said = texts
            .into_iter()
            .map(|(text, names)| (kind, format!("{words} on {}: {text}", names.join(", "))));
        rules.extend(said);
    }
    rules.extend(
        interrupts_rule(&measured, timer_hertz, rules.is_empty())
            .map(|rule| (Kind::PerInterrupt, rule)),
    );
    if let Some(&(worst, _)) = rules.first() {
        let all: Vec<String> = rules.into_iter().map(|(_, text)| text).collect();
        return Verdict::new(worst, all.join("; "));
    }
    let taken: u64 = measured.iter().filter_map(|l| l.summed.interrupts).sum();
    let all: u64 = measured.iter().filter_map(|l| l.cpu_interrupts).sum();
    let through = if taken >= MIN_INTERRUPTS {
        format!(", through {taken} interrupts")
    } else if all >= MIN_INTERRUPTS && measured.iter().all(|l| l.summed.interrupts.is_none()) {
        format!(", while the CPU took {all} interrupts")
    } else {
        String::new()
    };
    if all_zero {
        Verdict::new(
            Kind::Exact,
            format!(
                "deviation 0 in all {samples} measurements on {} loops{through}",
                measured.len()
            ),
        )
    } else {
        let off: u64 = measured
            .iter()
            .map(|l| l.summed.samples - l.summed.exact)
            .sum();
        Verdict::new(
            Kind::Exact,
            format!("exact but for {off} of {samples} measurements{through}"),
        )
    }
}

/// What each interrupt adds, by the loops that nothing else adds to; `alone`: no other rule was found.
fn interrupts_rule(measured: &[&OnLoop], timer_hertz: Option<u32>, alone: bool) -> Option<String> {
    let met: Vec<&OnLoop> = measured
        .iter()
        .copied()
        .filter(|l| l.verdict.kind == Kind::PerInterrupt)
        .collect();
    let each = met.first()?.summed.per_interrupt.unwrap_or(0);
    if met.iter().any(|l| l.summed.per_interrupt != Some(each)) {
        return Some("a different number per interrupt from loop to loop".to_owned());
    }
    let taken: u64 = measured.iter().filter_map(|l| l.summed.interrupts).sum();
    Some(if alone {
        let rate = rate(measured, timer_hertz);
        format!(
            "{each:+} per interrupt on every loop that met interrupts ({taken} seen), else exact{rate}"
        )
    } else {
        format!("{each:+} per interrupt ({taken} seen)")
    })
}

/// The excess a second on the longest-measured loop, against the timer.
fn rate(measured: &[&OnLoop], timer_hertz: Option<u32>) -> String {
    let total: i64 = measured.iter().map(|l| l.summed.total).sum();
    let seconds: f64 = measured.iter().map(|l| l.summed.seconds).sum();
    if total < 20 || seconds <= 0.0 {
        return String::new();
    }
    let rate = total as f64 / seconds;
    match timer_hertz {
        Some(hertz) if (rate / f64::from(hertz) - 1.0).abs() <= 0.15 => {
            format!("; {rate:.0} a second, as the timer (CONFIG_HZ={hertz})")
        }
        Some(hertz) => {
            format!(
                "; {rate:.0} a second, where the timer alone (CONFIG_HZ={hertz}) would give {hertz}"
            )
        }
        None => format!("; {rate:.0} a second"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::on_loop;
    use super::super::tally::{Sample, Tally};
    use super::*;

    fn summed(samples: &[(i64, Option<u64>)]) -> Summed {
        let mut tally = Tally::default();
        for &(deviation, interrupts) in samples {
            tally.add(Sample {
                deviation,
                interrupts,
                ns: 4_000_000,
            });
        }
        tally.summed(12, None).unwrap()
    }

    fn verdict(samples: &[(i64, Option<u64>)]) -> Verdict {
        of_loop(&summed(samples), "page fault", 128)
    }

    #[test]
    fn each_kind_of_deviation_has_its_word() {
        type Case = (&'static [(i64, Option<u64>)], Kind, &'static str);
        let cases: [Case; 7] = [
            (
                &[(0, Some(3)), (0, Some(2))],
                Kind::Exact,
                "through 5 interrupts",
            ),
            (
                &[(1, Some(1)), (4, Some(4)), (0, Some(0))],
                Kind::PerInterrupt,
                "+1 per interrupt (5 seen)",
            ),
            (
                &[(128, Some(0)), (128, Some(0))],
                Kind::PerTurn,
                "+1 per page fault",
            ),
            (
                &[(3, None), (9, None), (0, None)],
                Kind::Overcount,
                "too many in 2 of 3",
            ),
            (
                &[(-3, None), (0, None), (-9, None)],
                Kind::Undercount,
                "by up to 9",
            ),
            (
                &[(-3, None), (0, None), (9, None)],
                Kind::Unsteady,
                "from -3 to +9",
            ),
            (
                &[(129, Some(1)), (132, Some(4)), (128, Some(0))],
                Kind::PerTurn,
                "and +1 per interrupt",
            ),
        ];
        for (samples, kind, words) in cases {
            let v = verdict(samples);
            assert_eq!(v.kind, kind, "{v:?}");
            assert!(v.text.contains(words), "{v:?}");
        }
    }

    #[test]
    fn a_counter_is_as_good_as_its_worst_loop() {
        let Some(plain) = crate::loops::named("plain") else {
            truecount_testing::skip!("x86-64", "no loops here");
            return;
        };
        let on = |samples: &[(i64, Option<u64>)]| on_loop(plain, 10, 21, summed(samples), None);
        let exact = || on(&[(0, Some(0)); 9]);
        assert_eq!(
            of_counter(&[exact()], Some(250)).text,
            "deviation 0 in all 9 measurements on 1 loops"
        );
        // 250 samples of 4 ms with one interrupt each: one second.
        let ticks = vec![(1, Some(1)); 250];
        let v = of_counter(&[exact(), on(&ticks)], Some(250));
        assert_eq!(v.kind, Kind::PerInterrupt);
        assert!(
            v.text.contains("+1 per interrupt") && v.text.contains("CONFIG_HZ=250"),
            "{v:?}"
        );
        assert!(v.text.contains("as the timer"), "{v:?}");
        let v = of_counter(&[on(&ticks), on(&[(-1, None), (5, None)])], Some(250));
        assert_eq!(v.kind, Kind::Unsteady);
        // A second rule is not hidden by the first: page faults add, and interrupts do.
        let faults = on(&[(10, Some(0)); 9]);
        let v = of_counter(&[exact(), on(&ticks), faults], Some(250));
        assert_eq!(v.kind, Kind::PerTurn);
        assert!(
            v.text
                .contains("more than it ought to count on plain: +1 per turn")
                && v.text.contains("; +1 per interrupt (250 seen)"),
            "{v:?}"
        );
        assert_eq!(of_counter(&[], None).kind, Kind::Unmeasured);
    }
}
