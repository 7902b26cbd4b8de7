//! Counts of classified frames by class, for accuracy and macro-F1.

/// The frames of a class.
#[derive(Debug, Clone, Copy, Default)]
struct ClassTally {
    /// Frames with this label.
    labelled: u64,
    /// Frames classified so.
    classified: u64,
    /// Frames of both kinds.
    correct: u64,
}

/// Counts of classified frames by class.
#[derive(Debug, Clone)]
pub struct FrameTally {
    classes: Vec<ClassTally>,
}

impl FrameTally {
    /// Returns a tally of `classes` classes without frames.
    pub fn new(classes: usize) -> Self {
        Self { classes: vec![ClassTally::default(); classes] }
    }

    /// Adds the frames of an utterance: its labels, `[frames]`, and its logits, `[frames, classes]` row-major. A frame is
    /// put into the class of its largest logit, of equal ones the first.
    ///
    /// # Panics
    /// If a label is not below the number of classes.
    pub fn add(&mut self, labels: &[u16], logits: &[f32]) {
        for (label, scores) in labels.iter().zip(logits.chunks_exact(self.classes.len())) {
            let label = usize::from(*label);
            let class =
                (1..scores.len()).fold(0, |best, class| if scores[class] > scores[best] { class } else { best });
            self.classes[label].labelled += 1;
            self.classes[class].classified += 1;
            self.classes[label].correct += u64::from(label == class);
        }
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u64 {
        self.classes.iter().map(|class| class.labelled).sum()
    }

    /// Returns the share of the frames that are classified correctly: 0 to 1; 0 without frames.
    pub fn accuracy(&self) -> f64 {
        let correct: u64 = self.classes.iter().map(|class| class.correct).sum();
        correct as f64 / self.frames().max(1) as f64
    }

    /// Returns macro-F1: the mean F1 of the classes with labelled frames, 0 to 1; 0 without frames. F1 is the harmonic
    /// mean of precision and recall, 2·correct / (labelled + classified).
    pub fn macro_f1(&self) -> f64 {
        let seen = self.classes.iter().filter(|class| class.labelled > 0);
        let f1 = |class: &ClassTally| 2.0 * class.correct as f64 / (class.labelled + class.classified) as f64;
        let (sum, count) = seen.fold((0.0, 0_u32), |(sum, count), class| (sum + f1(class), count + 1));
        sum / f64::from(count.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::FrameTally;

    #[test]
    fn macro_f1_weighs_classes_equally() {
        let mut tally = FrameTally::new(3);
        let logits: Vec<f32> = [0_u8, 0, 0, 1, 1, 2]
            .iter()
            .flat_map(|class| (0..3).map(move |other| if *class == other { 1.0 } else { 0.0 }))
            .collect();
        tally.add(&[0, 0, 0, 0, 1, 1], &logits);
        assert_eq!(tally.frames(), 6);
        assert!((tally.accuracy() - 4.0 / 6.0).abs() < 1e-12);
        // F1 of class 0 is 6/7, and of class 1 it is 1/2. Class 2 has no labelled frame.
        assert!((tally.macro_f1() - f64::midpoint(6.0 / 7.0, 0.5)).abs() < 1e-12);
    }

    #[test]
    fn equal_logits_choose_the_first_class() {
        let mut tally = FrameTally::new(2);
        tally.add(&[0, 1], &[0.5, 0.5, 0.5, 0.5]);
        assert!((tally.accuracy() - 0.5).abs() < 1e-12 && FrameTally::new(2).macro_f1().abs() < 1e-12);
    }
}
