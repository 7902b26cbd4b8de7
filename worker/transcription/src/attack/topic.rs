//! The topic information that a recipient gains by counting words.

/// Returns the Jensen-Shannon distance between the spoken and the recognized words, counts by word, as distributions over words: 0
/// to 1. `None` where either is empty. Lin, "Divergence measures based on the Shannon entropy" (1991), in bits; its root is a metric
/// (Endres and Schindelin, 2003).
pub fn distance(spoken: &[u64], recognized: &[u64]) -> Option<f64> {
    let total = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
    let all_spoken = total(spoken);
    let all_recognized = total(recognized);
    if all_spoken == 0.0 || all_recognized == 0.0 {
        return None;
    }
    // Each half of the divergence.
    let part = |p: f64, q: f64| if p > 0.0 { p * (p / f64::midpoint(p, q)).log2() } else { 0.0 };
    let both = spoken.iter().zip(recognized).map(|(p, q)| (*p as f64 / all_spoken, *q as f64 / all_recognized));
    let divergence: f64 = both.map(|(p, q)| f64::midpoint(part(p, q), part(q, p))).sum();
    Some(divergence.clamp(0.0, 1.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn topic_distance_is_between_zero_and_one() {
        assert_eq!(distance(&[1, 3], &[2, 6]), Some(0.0));
        assert_eq!(distance(&[1, 0], &[0, 1]), Some(1.0));
        assert_eq!(distance(&[0, 0], &[0, 1]), None);
        let between = distance(&[4, 0], &[5, 1]);
        assert!(between.is_some_and(|distance| (0.1..0.5).contains(&distance)), "{between:?}");
    }
}
