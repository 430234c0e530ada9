//! Holm's step-down adjustment of several p values (Holm 1979), which bounds the chance of any
//! false finding without assuming independence.

/// Adjusted p values in the order given; `None` stays `None` and does not count.
///
/// ```
/// let p = truecount_stats::holm(&[Some(0.01), Some(0.04), None, Some(0.03)]);
/// assert_eq!(p, [Some(0.03), Some(0.06), None, Some(0.06)]);
/// ```
#[must_use]
pub fn holm(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> = p
        .iter()
        .enumerate()
        .filter_map(|(i, p)| p.map(|p| (i, p)))
        .collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut adjusted = vec![None; p.len()];
    let mut so_far = 0.0f64;
    for (rank, &(i, p)) in order.iter().enumerate() {
        so_far = so_far.max((p * (order.len() - rank) as f64).min(1.0));
        adjusted[i] = Some(so_far);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_below_p_nor_above_one_and_order_is_kept() {
        let mut rng = crate::Rng::new(2);
        for _ in 0..300 {
            let p: Vec<Option<f64>> = (0..rng.below(8)).map(|_| Some(rng.next_f64())).collect();
            let a = holm(&p);
            for (i, (x, y)) in p.iter().zip(&a).enumerate() {
                let (x, y) = (x.unwrap(), y.unwrap());
                assert!(x <= y && y <= 1.0 && y <= (x * p.len() as f64).max(y));
                for j in 0..i {
                    assert_eq!(p[j].unwrap() < x, p[j].unwrap() < x && a[j].unwrap() <= y);
                }
            }
        }
    }

    #[test]
    fn one_metric_is_not_adjusted() {
        assert_eq!(holm(&[Some(0.2)]), [Some(0.2)]);
        assert_eq!(holm(&[]), []);
    }
}
