//! Connectionist temporal classification (Graves, Fernández, Gomez & Schmidhuber 2006): the loss of a sequence of labels
//! whose times are unknown.
//!
//! A path has one class a frame. Its labels are what remains when repeated classes count once and blanks are removed.
//! The loss of a target is −ln of the sum of the probabilities of all paths with these labels. With the target between
//! blanks as ℓ' (length 2L + 1), the forward variable αₜ(s) is the probability of all paths over frames 0 to t that end
//! in ℓ'ₛ, and the backward variable βₜ(s) that of all continuations after frame t (equations 6 to 11, with β without
//! frame t). The derivative by the logit of class k at frame t is yₜₖ − Σ_{s: ℓ'ₛ = k} αₜ(s) βₜ(s) / p (equation 16).
//! All sums are of logarithms in double precision, so long recordings do not underflow.

/// The loss of one recording and its derivatives.
#[derive(Debug, Clone, PartialEq)]
pub struct CtcLoss {
    /// −ln p(target), in nats, not negative.
    pub loss: f64,
    /// The derivatives of the loss by the logits, `[frames, classes]`, each from −1 to 1.
    pub by_logits: Vec<f32>,
    /// The most probable class of each frame among the paths of the target.
    pub alignment: Vec<u16>,
}

/// Returns the labels of a path: repeated classes count once, and blanks are removed.
pub fn collapse(path: &[u16], blank: u16) -> Vec<u16> {
    let mut labels = Vec::new();
    let mut previous = None;
    for class in path {
        if previous != Some(class) && *class != blank {
            labels.push(*class);
        }
        previous = Some(class);
    }
    labels
}

/// Returns the fewest frames of a path with these labels: one for each label, and one blank between equal neighbours.
pub fn fewest_frames(labels: &[u16]) -> usize {
    labels.len() + labels.windows(2).filter(|pair| pair[0] == pair[1]).count()
}

/// Returns the loss of `target` for `logits`, `[frames, classes]`; `None` if no path has these labels, because the frames
/// are too few.
///
/// # Panics
/// If a label or the blank is not a class, or a label is the blank.
pub fn loss(logits: &[f32], classes: usize, target: &[u16], blank: u16) -> Option<CtcLoss> {
    let is_label = |label: &u16| usize::from(*label) < classes && *label != blank;
    assert!(usize::from(blank) < classes && target.iter().all(is_label), "labels below {classes}, without the blank");
    let frames = logits.len() / classes;
    if frames == 0 || fewest_frames(target) > frames {
        return None;
    }
    let log_probabilities = log_softmax(logits, classes);
    let labels: Vec<usize> =
        std::iter::once(blank).chain(target.iter().flat_map(|label| [*label, blank])).map(usize::from).collect();
    let own = |frame: usize, place: usize| log_probabilities[frame * classes + labels[place]];
    let forward = forward(frames, &labels, usize::from(blank), &own);
    let backward = backward(frames, &labels, usize::from(blank), &own);
    let states = labels.len();
    let last = &forward[(frames - 1) * states..];
    let total = last[states.saturating_sub(2)..].iter().copied().fold(f64::NEG_INFINITY, log_add);
    if !total.is_finite() {
        return None;
    }
    let mut by_logits = Vec::with_capacity(logits.len());
    let mut alignment = Vec::with_capacity(frames);
    let mut occupied = vec![0.0; classes];
    for frame in 0..frames {
        occupied.fill(0.0);
        for (place, label) in labels.iter().enumerate() {
            let at = frame * states + place;
            occupied[*label] += (forward[at] + backward[at] - total).exp();
        }
        let row = &log_probabilities[frame * classes..][..classes];
        by_logits.extend(row.iter().zip(&occupied).map(|(log, occupied)| (log.exp() - occupied) as f32));
        let best = |best: usize, class: usize| if occupied[class] > occupied[best] { class } else { best };
        alignment.push((0..classes).fold(0, best) as u16);
    }
    Some(CtcLoss { loss: (-total).max(0.0), by_logits, alignment })
}

/// Returns whether a path may go from place `from` to place `from + 2`: not past a blank between equal labels, and not
/// from blank to blank.
fn may_skip(labels: &[usize], blank: usize, from: usize) -> bool {
    labels.get(from + 2).is_some_and(|label| *label != blank && *label != labels[from])
}

/// Returns ln α, `[frames, labels]`.
fn forward(frames: usize, labels: &[usize], blank: usize, own: &impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let states = labels.len();
    let mut table = vec![f64::NEG_INFINITY; frames * states];
    table.iter_mut().take(states.min(2)).enumerate().for_each(|(place, value)| *value = own(0, place));
    for frame in 1..frames {
        let (before, after) = table.split_at_mut(frame * states);
        let before = &before[(frame - 1) * states..];
        for place in 0..states {
            let mut sum = before[place];
            if place >= 1 {
                sum = log_add(sum, before[place - 1]);
            }
            if place >= 2 && may_skip(labels, blank, place - 2) {
                sum = log_add(sum, before[place - 2]);
            }
            after[place] = sum + own(frame, place);
        }
    }
    table
}

/// Returns ln β, `[frames, labels]`, without the probability of the frame itself.
fn backward(frames: usize, labels: &[usize], blank: usize, own: &impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let states = labels.len();
    let mut table = vec![f64::NEG_INFINITY; frames * states];
    for place in states.saturating_sub(2)..states {
        table[(frames - 1) * states + place] = 0.0;
    }
    for frame in (0..frames - 1).rev() {
        let (before, after) = table.split_at_mut((frame + 1) * states);
        let before = &mut before[frame * states..];
        let next = |place: usize| after[place] + own(frame + 1, place);
        for (place, value) in before.iter_mut().enumerate() {
            *value = next(place);
            if place + 1 < states {
                *value = log_add(*value, next(place + 1));
            }
            if may_skip(labels, blank, place) {
                *value = log_add(*value, next(place + 2));
            }
        }
    }
    table
}

fn log_softmax(logits: &[f32], classes: usize) -> Vec<f64> {
    let mut result = Vec::with_capacity(logits.len());
    for frame in logits.chunks_exact(classes) {
        let top = frame.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = frame.iter().map(|logit| (f64::from(*logit) - f64::from(top)).exp()).sum();
        let normalizer = f64::from(top) + sum.ln();
        result.extend(frame.iter().map(|logit| f64::from(*logit) - normalizer));
    }
    result
}

/// Returns ln(eᵃ + eᵇ).
fn log_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::{collapse, fewest_frames, loss};

    fn random_logits(rng: &mut ChaCha20Rng, count: usize) -> Vec<f32> {
        (0..count).map(|_| rng.next_u32() as f32 / u32::MAX as f32 * 4.0 - 2.0).collect()
    }

    /// Returns all paths of a number of frames.
    fn paths(frames: usize, classes: u16) -> Vec<Vec<u16>> {
        let mut all = vec![vec![]];
        for _ in 0..frames {
            let longer =
                |path: &Vec<u16>| (0..classes).map(|class| [path.as_slice(), &[class]].concat()).collect::<Vec<_>>();
            all = all.iter().flat_map(longer).collect();
        }
        all
    }

    /// Returns the probability of the target as the sum over all paths.
    fn enumerated(logits: &[f32], classes: u16, target: &[u16], blank: u16) -> f64 {
        let width = usize::from(classes);
        let frame = |t: usize| &logits[t * width..][..width];
        let p = |t: usize, class: u16| {
            let sum: f64 = frame(t).iter().map(|logit| f64::from(*logit).exp()).sum();
            f64::from(frame(t)[usize::from(class)]).exp() / sum
        };
        let matching = paths(logits.len() / width, classes).into_iter().filter(|path| collapse(path, blank) == target);
        matching.map(|path| path.iter().enumerate().map(|(t, class)| p(t, *class)).product::<f64>()).sum()
    }

    #[test]
    fn loss_equals_the_sum_over_all_paths() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for target in [&[][..], &[1], &[0, 1], &[1, 1], &[1, 0, 1], &[0, 0, 1], &[1, 1, 1]] {
            for frames in 1..=6 {
                let logits = random_logits(&mut rng, frames * 3);
                let expected = enumerated(&logits, 3, target, 2);
                match loss(&logits, 3, target, 2) {
                    Some(result) => assert!((result.loss + expected.ln()).abs() < 1e-9, "{target:?} in {frames}"),
                    None => assert!(expected == 0.0 && fewest_frames(target) > frames, "{target:?} in {frames}"),
                }
            }
        }
    }

    #[test]
    fn losses_of_all_targets_are_those_of_one_distribution() {
        let logits = random_logits(&mut ChaCha20Rng::seed_from_u64(2), 4 * 3);
        let targets: std::collections::BTreeSet<Vec<u16>> = paths(4, 3).iter().map(|path| collapse(path, 0)).collect();
        let sum: f64 = targets.iter().map(|target| (-loss(&logits, 3, target, 0).unwrap().loss).exp()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn derivatives_equal_finite_differences() {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        for (target, frames, blank) in [(vec![0, 1, 1, 3], 9, 4), (vec![2], 5, 0), (vec![], 4, 1), (vec![3, 3], 3, 0)] {
            let logits = random_logits(&mut rng, frames * 5);
            let result = loss(&logits, 5, &target, blank).unwrap();
            for place in 0..logits.len() {
                // A power of two: the change of an `f32` is exact.
                let step = 1.0 / 512.0;
                let moved = |by: f32| {
                    let mut other = logits.clone();
                    other[place] += by;
                    let change = f64::from(other[place]) - f64::from(logits[place]);
                    (loss(&other, 5, &target, blank).unwrap().loss, change)
                };
                let ((up, above), (down, below)) = (moved(step), moved(-step));
                let slope = (up - down) / (above - below);
                assert!((slope - f64::from(result.by_logits[place])).abs() < 1e-5, "{target:?} at {place}: {slope}");
            }
            // A constant added to the logits of a frame changes nothing.
            for frame in result.by_logits.chunks_exact(5) {
                assert!(frame.iter().sum::<f32>().abs() < 1e-5);
            }
        }
    }

    #[test]
    fn long_recording_has_finite_numbers() {
        let frames = 6_000;
        let logits: Vec<f32> = (0..frames * 30).map(|n| if n % 7 == 0 { 40.0 } else { -40.0 }).collect();
        let target: Vec<u16> = (0..900).map(|n| n % 29).collect();
        let result = loss(&logits, 30, &target, 29).unwrap();
        assert!(result.loss.is_finite() && result.loss > 0.0);
        assert!(result.by_logits.iter().all(|value| (-1.0..=1.0).contains(value)));
        assert!(result.alignment.iter().all(|class| usize::from(*class) < 30));
    }

    #[test]
    fn path_collapses_to_its_labels() {
        assert_eq!(collapse(&[9, 1, 1, 9, 1, 2, 2, 9, 9], 9), [1, 1, 2]);
        assert_eq!((collapse(&[], 0), collapse(&[0, 0], 0)), (vec![], vec![]));
        assert_eq!(fewest_frames(&[1, 1, 2, 1, 1, 1]), 9);
    }
}
