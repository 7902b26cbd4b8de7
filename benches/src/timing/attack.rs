//! The attacker: one threshold, and the side of it that means that the speaker was drawn.

/// Guesses for every round whether the speaker was drawn, by the threshold that is best for the rounds of the other
/// parity.
pub(super) fn guesses(times: &[f64], drawn: &[bool]) -> Vec<bool> {
    let rules: Vec<ThresholdRule> =
        [0, 1].map(|parity| ThresholdRule::learn(&select_parity(times, parity), &select_parity(drawn, parity))).into();
    times.iter().enumerate().map(|(round, time)| rules[(round + 1) % 2].guess(*time)).collect()
}

fn select_parity<T: Copy>(all: &[T], parity: usize) -> Vec<T> {
    all.iter().copied().skip(parity).step_by(2).collect()
}

/// A rule: times of at least `threshold` mean `above`, others the opposite.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ThresholdRule {
    threshold: f64,
    above: bool,
}

impl ThresholdRule {
    /// Returns the rule with the most correct guesses.
    fn learn(times: &[f64], drawn: &[bool]) -> Self {
        let mut best = (0, Self { threshold: f64::NEG_INFINITY, above: true });
        for threshold in times.iter().copied().chain([f64::NEG_INFINITY]) {
            for above in [true, false] {
                let rule = Self { threshold, above };
                let right = times.iter().zip(drawn).filter(|(time, drawn)| rule.guess(**time) == **drawn).count();
                if right > best.0 {
                    best = (right, rule);
                }
            }
        }
        best.1
    }

    fn guess(self, time: f64) -> bool {
        (time >= self.threshold) == self.above
    }
}
