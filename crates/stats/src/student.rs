//! Student's t-test of two samples, for means.
//!
//! The tail of the t distribution is a regularised incomplete beta function (DLMF 8.17; continued fraction 8.17.22,
//! evaluated by Lentz's method), the logarithm of the gamma function Lanczos' series (g = 7, nine terms).

/// ln Γ(x) for x > 0.
fn ln_gamma(x: f64) -> f64 {
    const SERIES: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let sum = SERIES
        .iter()
        .zip(1u8..)
        .fold(0.999_999_999_999_809_9, |sum, (term, i)| {
            sum + term / (x + f64::from(i))
        });
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// The continued fraction of the incomplete beta function, good for x < (a + 1) / (a + b + 2).
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..300u16 {
        let m = f64::from(m);
        for term in [
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        ] {
            d = 1.0 / guard(1.0 + term * d);
            c = guard(1.0 + term / c);
            value *= d * c;
        }
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// The regularised incomplete beta function.
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// Two-sided p of a t value.
fn two_sided(t: f64, freedom: f64) -> f64 {
    beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

fn mean_and_square(values: &[f64]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum())
}

/// Two-sided p that two samples of one normal distribution differ so much in their means (pooled variance); 1 where there
/// are too few values to say.
pub(crate) fn t_test(one: &[f64], other: &[f64]) -> f64 {
    let (n, m) = (one.len() as f64, other.len() as f64);
    let freedom = n + m - 2.0;
    if one.is_empty() || other.is_empty() || freedom < 1.0 {
        return 1.0;
    }
    let ((mean, square), (other_mean, other_square)) =
        (mean_and_square(one), mean_and_square(other));
    let difference = other_mean - mean;
    let error = ((square + other_square) / freedom * (1.0 / n + 1.0 / m)).sqrt();
    if difference == 0.0 {
        1.0
    } else if error == 0.0 {
        0.0
    } else {
        two_sided(difference / error, freedom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `scipy.stats.t.sf(t, freedom) * 2`.
    #[test]
    fn agrees_with_scipy() {
        for (t, freedom, p) in [
            (1.0, 1.0, 0.5),
            (2.0, 5.0, 0.101_939_479),
            (3.5, 10.0, 0.005_726_505),
            (2.228_138_85, 10.0, 0.050_000_000_2),
            (10.0, 48.0, 2.532_907_6e-13),
        ] {
            let found = two_sided(t, freedom);
            assert!((found / p - 1.0).abs() < 1e-6, "{t} {freedom}: {found}");
        }
        // scipy.stats.ttest_ind([1, 2, 3, 4], [3, 4, 5, 6, 7]).pvalue
        let p = t_test(&[1.0, 2.0, 3.0, 4.0], &[3.0, 4.0, 5.0, 6.0, 7.0]);
        assert!((p - 0.038_333_7).abs() < 1e-6, "{p}");
    }

    #[test]
    fn few_or_equal_values_say_nothing() {
        assert!((t_test(&[1.0], &[2.0]) - 1.0).abs() < 1e-12);
        assert!((t_test(&[], &[2.0, 3.0]) - 1.0).abs() < 1e-12);
        assert!((t_test(&[2.0, 2.0], &[2.0, 2.0]) - 1.0).abs() < 1e-12);
        assert!(t_test(&[2.0, 2.0], &[3.0, 3.0]) < 1e-12);
    }
}
