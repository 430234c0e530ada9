//! The standard normal distribution: tail probability and quantile.
//!
//! `erfc` by its two classical expansions (Abramowitz and Stegun 7.1.6, the power series, for
//! small arguments; 7.1.14, the continued fraction, for large ones), each taken to the full
//! precision of `f64`.

/// P(Z > z) of a standard normal variable.
pub(crate) fn upper_tail(z: f64) -> f64 {
    0.5 * erfc(z / std::f64::consts::SQRT_2)
}

/// The z with P(Z > z) = `p`, for 0 < p < 1.
pub(crate) fn upper_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-40.0f64, 40.0f64);
    // 80 / 2^100 is far below one rounding step: bisection ends where f64 does.
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if upper_tail(middle) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

fn erfc(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    if x < 2.0 {
        // erf x = 2/√π · e^(−x²) · Σ 2^n x^(2n+1) / (1·3·…·(2n+1))
        let (mut term, mut sum, mut n) = (x, x, 0.0);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= 2.0 * x * x / (2.0 * n + 1.0);
            sum += term;
        }
        return 1.0 - 2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum;
    }
    // √π e^(x²) erfc x = 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + …)))), from the far end inwards.
    let mut fraction = x;
    for n in (1..=200).rev() {
        fraction = x + f64::from(n) / 2.0 / fraction;
    }
    (-x * x).exp() / (std::f64::consts::PI.sqrt() * fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_match_scipy() {
        // scipy.stats.norm.sf, SciPy 1.17.1.
        for (z, p) in [
            (0.0, 0.5),
            (0.5, 0.308_537_538_725_986_9),
            (1.0, 0.158_655_253_931_457_05),
            (1.959_963_984_540_054, 0.025),
            (2.8, 0.002_555_130_330_427_932_4),
            (2.9, 0.001_865_813_300_384_037),
            (5.0, 2.866_515_718_791_939e-7),
            (10.0, 7.619_853_024_160_526e-24),
            (-1.0, 0.841_344_746_068_543),
        ] {
            let got = upper_tail(z);
            assert!((got / p - 1.0).abs() < 2e-13, "{z}: {got} {p}");
        }
        assert_eq!(upper_tail(f64::INFINITY), 0.0);
    }

    #[test]
    fn quantile_inverts_the_tail() {
        assert!((upper_quantile(0.025) - 1.959_963_984_540_054).abs() < 1e-12);
        assert!((upper_quantile(0.5)).abs() < 1e-12);
        assert!((upper_quantile(1e-9) - 5.997_807_015_007_713).abs() < 1e-9);
    }
}
