//! Selects the next questions: those that teach the classifier most and, on request, that differ from each other.
//!
//! Selection reads [`Visible`] texts and the classifier's posteriors. Both follow from released questions, public data
//! and answers. To add a measure: its variant of [`Acquisition`], its line in [`score`].
//!
//! **Diversity.** The best `8 · batch` questions by score are candidates. The selection repeatedly takes the candidate
//! with the greatest product of score and distance. The distance is the one to the nearest question that is selected or
//! labelled already, in the space of the classifier's hidden layer (1 less the cosine, from 0 to 2): the greedy
//! k-center of Sener and Savarese (2018), weighted by uncertainty as Ash et al. (2020) do by gradients. While no
//! question is selected or labelled, all distances are 1.

use rand_chacha::rand_core::Rng;
use rayon::prelude::*;
use undertone_api::job::active_learning::Acquisition;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::classifier::{Classifier, LabelPosterior, Visible};

/// Candidates for each question of a diverse batch.
const CANDIDATES: usize = 8;

/// How a round selects its questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPlan {
    /// The measure that ranks the questions.
    pub acquisition: Acquisition,
    /// Largest number of questions.
    pub batch: usize,
    /// Whether the questions must also differ from each other.
    pub diversity: bool,
    /// Seed of [`Acquisition::Random`].
    pub seed: u64,
}

/// A selected question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredQuestion {
    /// Its index in the pool.
    pub index: usize,
    /// Its score: 0 to 1, the greater the more it teaches.
    pub score: f64,
}

/// Returns how much a question teaches by a measure, from 0 to 1. The random measure gives each text a number that
/// depends on the seed and the text alone.
pub fn score(acquisition: Acquisition, text: Visible<'_>, posterior: &LabelPosterior, seed: u64) -> f64 {
    match acquisition {
        Acquisition::Random => (xxh3_64_with_seed(text.text().as_bytes(), seed) >> 11) as f64 / (1_u64 << 53) as f64,
        Acquisition::Entropy => f64::from(posterior.entropy),
        Acquisition::LeastConfidence => 1.0 - f64::from(posterior.confidence),
        Acquisition::Margin => f64::from(posterior.margin),
        Acquisition::Bald => f64::from(posterior.disagreement),
    }
}

/// Selects a round's questions from a pool, the most urgent first; the whole pool if it is not larger than a batch.
/// `labelled` are the questions that have a label already; a diverse batch keeps its distance from them. Of equal
/// scores, the text that comes first in byte order comes first, so that the order of the pool has no effect.
///
/// # Panics
/// If there is not one posterior for each text.
pub fn choose(
    classifier: &Classifier,
    pool: &[Visible<'_>],
    posteriors: &[LabelPosterior],
    labelled: &[Visible<'_>],
    choice: BatchPlan,
) -> Vec<ScoredQuestion> {
    assert_eq!(pool.len(), posteriors.len(), "a posterior for each text of the pool");
    let score = |index: usize| score(choice.acquisition, pool[index], &posteriors[index], choice.seed);
    let mut ranked: Vec<ScoredQuestion> =
        (0..pool.len()).map(|index| ScoredQuestion { index, score: score(index) }).collect();
    let keep = if choice.diversity { choice.batch.saturating_mul(CANDIDATES) } else { choice.batch };
    let order = |a: &ScoredQuestion, b: &ScoredQuestion| {
        b.score.total_cmp(&a.score).then_with(|| pool[a.index].cmp(&pool[b.index]))
    };
    if keep > 0 && keep < ranked.len() {
        ranked.select_nth_unstable_by(keep - 1, order);
    }
    ranked.truncate(keep);
    ranked.sort_unstable_by(order);
    if choice.diversity { select_spread(classifier, pool, &ranked, labelled, choice.batch) } else { ranked }
}

/// Selects `batch` of the sorted `candidates` by the weighted k-center.
fn select_spread(
    classifier: &Classifier,
    pool: &[Visible<'_>],
    candidates: &[ScoredQuestion],
    labelled: &[Visible<'_>],
    batch: usize,
) -> Vec<ScoredQuestion> {
    let width = classifier.width();
    let texts: Vec<Visible<'_>> = candidates.iter().map(|question| pool[question.index]).collect();
    let places = classifier.places(&texts);
    let known_places = classifier.places(labelled);
    let mut distances: Vec<f32> = places
        .par_chunks(width)
        .map(|place| {
            known_places.chunks_exact(width).map(|other| distance(place, other)).reduce(f32::min).unwrap_or(1.0)
        })
        .collect();
    let mut rest: Vec<usize> = (0..candidates.len()).collect();
    let mut selection = Vec::with_capacity(batch.min(candidates.len()));
    while selection.len() < batch && !rest.is_empty() {
        // Of equal gains the first, which is the most uncertain.
        let gain = |index: usize| candidates[index].score * f64::from(distances[index]);
        let best = (1..rest.len()).fold(0, |best, at| if gain(rest[at]) > gain(rest[best]) { at } else { best });
        let index = rest.remove(best);
        let place = &places[index * width..(index + 1) * width];
        for other in &rest {
            let far = distance(place, &places[other * width..(other + 1) * width]);
            // The first selected question replaces the distance of 1 if there were no labelled ones.
            let none = known_places.is_empty() && selection.is_empty();
            distances[*other] = if none { far } else { distances[*other].min(far) };
        }
        selection.push(candidates[index]);
    }
    selection
}

/// Returns 1 less the cosine of two vectors of length 1, at least 0.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    (1.0 - a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>()).max(0.0)
}

/// Returns the number of texts by uncertainty: entropy over ln(labels), in `bins` equal bins from 0 to 1.
pub fn histogram(posteriors: &[LabelPosterior], bins: usize) -> Vec<u64> {
    count_bins(posteriors.iter().map(|posterior| posterior.entropy), bins)
}

/// Returns the number of texts by confidence, the probability of the most probable label, in `bins` equal bins from 0
/// to 1.
pub fn confidence_histogram(posteriors: &[LabelPosterior], bins: usize) -> Vec<u64> {
    count_bins(posteriors.iter().map(|posterior| posterior.confidence), bins)
}

/// Counts values from 0 to 1 in equal bins; 1 is in the last.
fn count_bins(values: impl Iterator<Item = f32>, bins: usize) -> Vec<u64> {
    let mut counts = vec![0; bins];
    for value in values {
        if let Some(count) = counts.get_mut(((value * bins as f32) as usize).min(bins.saturating_sub(1))) {
            *count += 1;
        }
    }
    counts
}

/// Derives the seed of one part of a job from the job's seed.
pub(crate) fn derive_seed(seed: u64, part: u64) -> u64 {
    let mut rng = <rand_chacha::ChaCha20Rng as rand_chacha::rand_core::SeedableRng>::seed_from_u64(seed);
    rng.set_stream(part);
    rng.next_u64()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "the same computation, or numbers that binary fractions hold")]

    use undertone_api::job::active_learning::{Acquisition, Encoder};

    use super::super::classifier::tests::{classifier, texts};
    use super::super::classifier::{Classifier, LabelPosterior, Visible};
    use super::{BatchPlan, choose, confidence_histogram, derive_seed, distance, histogram, score};

    fn batch_plan(acquisition: Acquisition, batch: usize, diversity: bool) -> BatchPlan {
        BatchPlan { acquisition, batch, diversity, seed: 7 }
    }

    fn choose_texts(classifier: &Classifier, pool: &[Visible<'_>], choice: BatchPlan) -> Vec<&'static str> {
        let texts: Vec<String> = choose(classifier, pool, &classifier.posteriors(pool), &[], choice)
            .into_iter()
            .map(|question| pool[question.index].text().to_owned())
            .collect();
        texts.into_iter().map(|text| &*text.leak()).collect()
    }

    #[test]
    fn score_equals_the_posteriors_measure() {
        let posterior = LabelPosterior { label: 0, confidence: 0.75, entropy: 0.5, margin: 0.375, disagreement: 0.125 };
        let of = |acquisition| score(acquisition, Visible::in_test("a"), &posterior, 7);
        let measures = [Acquisition::Entropy, Acquisition::LeastConfidence, Acquisition::Margin, Acquisition::Bald];
        assert_eq!(measures.map(of), [0.5, 0.25, 0.375, 0.125]);
        let chance: Vec<f64> =
            texts().into_iter().map(|text| score(Acquisition::Random, text, &posterior, 7)).collect();
        assert!(chance.iter().all(|score| (0.0..1.0).contains(score)));
        assert!(
            chance[0] != chance[1]
                && of(Acquisition::Random) != score(Acquisition::Random, Visible::in_test("a"), &posterior, 8)
        );
    }

    #[test]
    fn choose_ranks_by_score_in_any_pool_order() {
        let classifier = classifier(Encoder::Bag, 3, 5);
        let mut pool = texts();
        for acquisition in Acquisition::ALL {
            let posteriors = classifier.posteriors(&pool);
            let selection = choose(&classifier, &pool, &posteriors, &[], batch_plan(acquisition, 3, false));
            assert_eq!(selection.len(), 3);
            assert!(selection.windows(2).all(|pair| pair[0].score >= pair[1].score));
            let least = selection[2].score;
            let rest = (0..pool.len()).filter(|index| selection.iter().all(|question| question.index != *index));
            let beyond = rest.filter(|index| score(acquisition, pool[*index], &posteriors[*index], 7) > least).count();
            assert_eq!(beyond, 0, "{acquisition:?}");
            let first = choose_texts(&classifier, &pool, batch_plan(acquisition, 3, false));
            pool.reverse();
            assert_eq!(first, choose_texts(&classifier, &pool, batch_plan(acquisition, 3, false)), "{acquisition:?}");
        }
        assert_eq!(choose_texts(&classifier, &pool, batch_plan(Acquisition::Entropy, 99, false)).len(), pool.len());
        assert!(choose_texts(&classifier, &pool, batch_plan(Acquisition::Entropy, 0, true)).is_empty());
    }

    #[test]
    fn diverse_batch_avoids_similar_questions() {
        let classifier = classifier(Encoder::Bag, 3, 5);
        // Ten texts with the same meaning and two others, all of them candidates.
        let mut pool: Vec<Visible<'_>> =
            ["zyx", "zyx ", " zyx", "ZYX", "Zyx", "zYx", "zyX", "zyx  ", "  zyx", "ZYx"].map(Visible::in_test).to_vec();
        pool.extend(["cancel where", "good order"].map(Visible::in_test));
        let plain = choose_texts(&classifier, &pool, batch_plan(Acquisition::Entropy, 3, false));
        let same = |texts: &[&str]| texts.iter().filter(|text| text.trim().eq_ignore_ascii_case("zyx")).count();
        assert_eq!(same(&plain), 3, "without diversity, the most uncertain: {plain:?}");
        let diverse = choose_texts(&classifier, &pool, batch_plan(Acquisition::Entropy, 3, true));
        assert_eq!(same(&diverse), 1, "{diverse:?}");
        assert_eq!(diverse[0].trim().to_lowercase(), "zyx", "the most uncertain is still the first");
        // A labelled text need not be asked again.
        let posteriors = classifier.posteriors(&pool);
        let selection = choose(&classifier, &pool, &posteriors, &pool[..1], batch_plan(Acquisition::Entropy, 2, true));
        assert!(selection.iter().all(|question| question.index >= 10), "{selection:?}");
    }

    #[test]
    fn histogram_puts_every_text_in_one_bin() {
        let posterior = |entropy| LabelPosterior { label: 0, confidence: 0.5, entropy, margin: 0.0, disagreement: 0.0 };
        let bins = histogram(&[0.0, 0.049, 0.05, 0.5, 0.999, 1.0].map(posterior), 20);
        assert_eq!((bins.len(), bins[0], bins[1], bins[10], bins[19]), (20, 2, 1, 1, 2));
        assert_eq!(bins.iter().sum::<u64>(), 6);
    }

    #[test]
    fn confidence_histogram_counts_the_first_label() {
        let posterior =
            |confidence| LabelPosterior { label: 0, confidence, entropy: 0.5, margin: 0.0, disagreement: 0.0 };
        let bins = confidence_histogram(&[0.34, 0.5, 0.51, 0.99, 1.0].map(posterior), 20);
        assert_eq!((bins[6], bins[10], bins[19], bins.iter().sum::<u64>()), (1, 2, 2, 5));
    }

    #[test]
    fn distance_ranges_from_zero_to_two() {
        assert!(distance(&[0.6, 0.8], &[0.6, 0.8]) < 1e-6);
        assert!((distance(&[1.0, 0.0], &[-1.0, 0.0]) - 2.0).abs() < 1e-6);
        assert_ne!(derive_seed(1, 0), derive_seed(1, 1));
        assert_eq!(derive_seed(1, 0), derive_seed(1, 0));
    }
}
