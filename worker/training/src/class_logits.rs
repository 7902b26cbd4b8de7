//! Scores of single examples: the logit of a class against all others, the model's first choice and its confidence.

/// The outputs of a model for one frame or text, one for each class.
#[derive(Debug, Clone, Copy)]
pub struct ClassLogits<'a> {
    logits: &'a [f32],
    best: usize,
    /// Σ e^(z − z_best) over all classes.
    sum: f64,
}

impl<'a> ClassLogits<'a> {
    /// Returns the scores of an example.
    pub fn new(logits: &'a [f32]) -> Self {
        let mut best = 0;
        for (class, logit) in logits.iter().enumerate() {
            if *logit > logits[best] {
                best = class;
            }
        }
        let top = logits.get(best).copied().unwrap_or(0.0);
        let sum = logits.iter().map(|logit| f64::from(*logit - top).exp()).sum();
        Self { logits, best, sum }
    }

    /// Returns the class with the greatest score; of several, the first.
    pub const fn best(&self) -> usize {
        self.best
    }

    /// Returns the probability of the best class.
    pub fn confidence(&self) -> f64 {
        1.0 / self.sum
    }

    /// Returns ln(p/(1 − p)) of a class, without cancellation for p near 1; NaN for an unknown class.
    pub fn logit(&self, class: usize) -> f64 {
        let Some(own) = self.logits.get(class) else { return f64::NAN };
        let share = f64::from(*own - self.logits[self.best]).exp();
        let rest = if share < 0.5 * self.sum {
            self.sum - share
        } else {
            let top = self.logits[self.best];
            let others = self.logits.iter().enumerate().filter(|(other, _)| *other != class);
            others.fold(0.0, |sum, (_, logit)| sum + f64::from(*logit - top).exp())
        };
        (share / rest).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::ClassLogits;

    #[test]
    fn logit_is_that_of_the_probability() {
        let example = ClassLogits::new(&[1.0, 3.0, 2.0]);
        let sum = 1_f64.exp() + 3_f64.exp() + 2_f64.exp();
        for (class, logit) in [1_f64, 3.0, 2.0].into_iter().enumerate() {
            let p = logit.exp() / sum;
            assert!((example.logit(class) - (p / (1.0 - p)).ln()).abs() < 1e-6, "{class}");
        }
        assert!(example.best() == 1 && (example.confidence() - 3_f64.exp() / sum).abs() < 1e-6);
        assert!(example.logit(3).is_nan());
    }

    #[test]
    fn confident_score_keeps_its_digits() {
        let example = ClassLogits::new(&[40.0, 0.0]);
        assert!((example.logit(0) - 40.0).abs() < 1e-9 && (example.logit(1) + 40.0).abs() < 1e-9);
        let single = ClassLogits::new(&[7.0]);
        assert!(single.logit(0) > 1e300, "nothing else is possible");
    }

    #[test]
    fn example_of_invalid_numbers_has_no_score() {
        assert!(ClassLogits::new(&[f32::NAN, 1.0]).logit(0).is_nan());
    }
}
