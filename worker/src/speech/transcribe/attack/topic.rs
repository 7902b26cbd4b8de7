//! What somebody learns of the topics who counts the words that he hears.

/// The distance of Jensen and Shannon between what was said and what was heard, counts by word, as distributions over words: 0
/// to 1. `None` where nothing was said or nothing heard. Lin, "Divergence measures based on the Shannon entropy" (1991), in
/// bits; its root is a metric (Endres and Schindelin, 2003).
pub fn distance(said: &[u64], heard: &[u64]) -> Option<f64> {
    let total = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
    let (all_said, all_heard) = (total(said), total(heard));
    if all_said == 0.0 || all_heard == 0.0 {
        return None;
    }
    // Each half of the divergence.
    let part = |p: f64, q: f64| if p > 0.0 { p * (p / f64::midpoint(p, q)).log2() } else { 0.0 };
    let both = said.iter().zip(heard).map(|(p, q)| (*p as f64 / all_said, *q as f64 / all_heard));
    let divergence: f64 = both.map(|(p, q)| f64::midpoint(part(p, q), part(q, p))).sum();
    Some(divergence.clamp(0.0, 1.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn the_topic_distance_is_between_none_and_all() {
        assert_eq!(distance(&[1, 3], &[2, 6]), Some(0.0));
        assert_eq!(distance(&[1, 0], &[0, 1]), Some(1.0));
        assert_eq!(distance(&[0, 0], &[0, 1]), None);
        let between = distance(&[4, 0], &[5, 1]);
        assert!(between.is_some_and(|distance| (0.1..0.5).contains(&distance)), "{between:?}");
    }
}
