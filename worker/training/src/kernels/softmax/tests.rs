use super::{FRAMES, ForwardKernel, FrameScore, FrameTiles, OutputWeights, derivatives, score};
use crate::kernels::lanes::{all, on};
use crate::kernels::pack::WIDE;

const HIDDEN: usize = 7;
const CLASSES: usize = 2 * WIDE + 5;

fn values(count: usize, by: usize, reach: f32) -> Vec<f32> {
    (0..count).map(|n| ((n * by % 1009) as f32 / 504.0 - 1.0) * reach).collect()
}

struct TestFrames {
    parameters: Vec<f32>,
    activations: Vec<f32>,
    labels: Vec<u16>,
    weight: Vec<f32>,
}

fn case(frames: usize) -> TestFrames {
    TestFrames {
        parameters: values((HIDDEN + 1) * CLASSES, 379, 2.0),
        activations: values(frames * HIDDEN, 211, 1.0),
        labels: (0..frames).map(|t| (t * 31 % CLASSES) as u16).collect(),
        weight: (0..frames).map(|t| 0.5 + t as f32 / 100.0).collect(),
    }
}

impl TestFrames {
    fn logits(&self, frame: usize) -> Vec<f64> {
        let input = |k: usize| if k == HIDDEN { 1.0 } else { f64::from(self.activations[frame * HIDDEN + k]) };
        let logit = |c: usize| (0..=HIDDEN).map(|k| input(k) * f64::from(self.parameters[k * CLASSES + c])).sum();
        (0..CLASSES).map(logit).collect()
    }

    /// Returns the derivatives by the logits, in double precision.
    fn errors(&self, frame: usize) -> Vec<f64> {
        let logits = self.logits(frame);
        let sum: f64 = logits.iter().map(|z| z.exp()).sum();
        let one_hot = |c: usize| f64::from(u8::from(c == usize::from(self.labels[frame])));
        (0..CLASSES).map(|c| f64::from(self.weight[frame]) * (logits[c].exp() / sum - one_hot(c))).collect()
    }
}

#[test]
fn derivatives_are_those_of_the_cross_entropy() {
    let frames = 2 * FRAMES + 9;
    let case = case(frames);
    let weights = OutputWeights::new(&case.parameters, HIDDEN, CLASSES, true);
    let mut by_input = vec![9.0; frames * HIDDEN];
    let (outer, total) =
        derivatives(&weights, &case.activations, &case.labels, &case.weight, &mut by_input, None, vec![5.0; 3]);
    let mut gradient = vec![0.0; (HIDDEN + 1) * CLASSES];
    outer.add_to(&mut gradient);
    let (mut expected, mut loss, mut right) = (vec![0.0; gradient.len()], 0.0, 0);
    for frame in 0..frames {
        let (logits, errors) = (case.logits(frame), case.errors(frame));
        for (k, value) in by_input[frame * HIDDEN..(frame + 1) * HIDDEN].iter().enumerate() {
            let exact: f64 = (0..CLASSES).map(|c| errors[c] * f64::from(case.parameters[k * CLASSES + c])).sum();
            assert!((f64::from(*value) - exact).abs() < 1e-5, "{frame} {k}: {value} {exact}");
        }
        for (place, sum) in expected.iter_mut().enumerate() {
            let (k, c) = (place / CLASSES, place % CLASSES);
            *sum += errors[c] * if k == HIDDEN { 1.0 } else { f64::from(case.activations[frame * HIDDEN + k]) };
        }
        let own = logits[usize::from(case.labels[frame])];
        loss += logits.iter().map(|z| z.exp()).sum::<f64>().ln() - own;
        right += u64::from(logits.iter().all(|z| *z <= own));
    }
    assert!(gradient.iter().zip(&expected).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-4));
    assert!(total.frames == frames as u64 && total.right == right && (total.loss / loss - 1.0).abs() < 1e-6);
    assert_eq!(score(&weights, &case.activations, &case.labels), total);
}

#[test]
fn frame_has_the_same_bits_with_any_other_frames() {
    let frames = FRAMES + 20;
    let case = case(frames);
    let weights = OutputWeights::new(&case.parameters, HIDDEN, CLASSES, true);
    let run = |rows: std::ops::Range<usize>| {
        let mut by_input = vec![0.0; rows.len() * HIDDEN];
        let activations = &case.activations[rows.start * HIDDEN..rows.end * HIDDEN];
        let (labels, weight) = (&case.labels[rows.clone()], &case.weight[rows.clone()]);
        let (outer, _) = derivatives(&weights, activations, labels, weight, &mut by_input, None, Vec::new());
        (outer, by_input)
    };
    let (all, by_input) = run(0..frames);
    for rows in [0..1, 17..30, 60..83] {
        let (alone, own) = run(rows.clone());
        assert_eq!(own, by_input[rows.start * HIDDEN..rows.end * HIDDEN]);
        let [mut together, mut single] = [vec![0; 8 * WIDE], vec![0; 8 * WIDE]];
        let squares = all.quantize(&rows, 1, 1e6, false, &mut together);
        assert_eq!(alone.quantize(&(0..rows.len()), 1, 1e6, false, &mut single), squares);
        assert_eq!(single, together);
    }
}

#[test]
fn every_kind_of_vectors_sees_the_same_scores() {
    let case = case(21);
    let weights = OutputWeights::new(&case.parameters, HIDDEN, CLASSES, false);
    let tiles = FrameTiles::pack(&case.activations, HIDDEN, 21);
    let scores: Vec<FrameScore> = all()
        .into_iter()
        .map(|arch| {
            let (mut errors, mut scale) = (vec![[0.0; WIDE]; 21 * 3], vec![0.0; 21]);
            on(
                arch,
                ForwardKernel {
                    weights: &weights,
                    tiles: &tiles,
                    labels: &case.labels,
                    errors: &mut errors,
                    scale: &mut scale,
                },
            )
        })
        .collect();
    for score in &scores {
        assert_eq!(score.right, scores[0].right);
        assert!((score.loss / scores[0].loss - 1.0).abs() < 1e-6, "{scores:?}");
    }
}

#[test]
fn logits_too_large_for_an_exponential_are_no_trouble() {
    let weights = OutputWeights::new(&[1e4, -1e4, 0.0, 0.0], 1, 2, true);
    let mut by_input = [0.0; 2];
    let (_, score) = derivatives(&weights, &[1.0, 1.0], &[0, 1], &[1.0, 1.0], &mut by_input, None, Vec::new());
    assert!((score.loss / 2e4 - 1.0).abs() < 1e-6 && score.right == 1, "{score:?}");
    assert!(by_input[0].abs() < 1e-6 && (by_input[1] / 2e4 - 1.0).abs() < 1e-6, "{by_input:?}");
}

#[test]
#[should_panic(expected = "label 2 of 2 classes")]
fn a_label_that_is_no_class_is_refused() {
    let weights = OutputWeights::new(&[0.0; 4], 1, 2, false);
    score(&weights, &[1.0], &[2]);
}
