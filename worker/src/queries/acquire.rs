//! Which questions are asked next: those that teach the classifier most, and, where it is wanted, that differ from each other.
//!
//! Chosen is from [`Visible`] texts by what a classifier says of them; both follow from what was released, from public data and
//! from answers. To add a measure: its row in [`Acquisition`], its line in [`score`].
//!
//! **Diversity.** The best `8 · batch` questions by score are candidates. One after another the candidate is taken whose score
//! times distance is greatest; its distance is that to the nearest question that was taken or is labelled already, in the space
//! of the classifier's hidden layer (1 less the cosine, from 0 to 2): the greedy k-center of Sener and Savarese (2018), weighted by
//! uncertainty as Ash et al. (2020) do by gradients. Without anything taken or labelled, distances are 1.

use rand_chacha::rand_core::Rng;
use rayon::prelude::*;
use undertone_api::job::active_learning::Acquisition;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::classifier::{Classifier, Posterior, Visible};

/// Candidates for each question of a diverse batch.
const CANDIDATES: usize = 8;

/// How a round's questions are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// By what.
    pub acquisition: Acquisition,
    /// Most questions.
    pub batch: usize,
    /// Whether they are also to differ.
    pub diversity: bool,
    /// Seed of what chance decides: [`Acquisition::Random`].
    pub seed: u64,
}

/// A question that was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chosen {
    /// Its index in the pool.
    pub index: usize,
    /// Its score: 0 to 1, the greater the more it teaches.
    pub score: f64,
}

/// How much a question teaches, from 0 to 1, by a measure. Chance gives each text a number of its own that depends on the seed
/// and the text alone.
pub fn score(acquisition: Acquisition, text: Visible<'_>, posterior: &Posterior, seed: u64) -> f64 {
    match acquisition {
        Acquisition::Random => (xxh3_64_with_seed(text.text().as_bytes(), seed) >> 11) as f64 / (1_u64 << 53) as f64,
        Acquisition::Entropy => f64::from(posterior.entropy),
        Acquisition::LeastConfidence => 1.0 - f64::from(posterior.confidence),
        Acquisition::Margin => f64::from(posterior.margin),
        Acquisition::Bald => f64::from(posterior.disagreement),
    }
}

/// Chooses a round's questions from a pool, the most urgent first; all of it where it is not larger than a batch. `labelled` are
/// the questions that have a label already, which a diverse batch keeps away from. Of equal scores the text that comes first
/// in the order of its bytes goes first: the order of the pool decides nothing.
///
/// # Panics
/// If there is not one posterior for each text.
pub fn choose(
    classifier: &Classifier,
    pool: &[Visible<'_>],
    posteriors: &[Posterior],
    labelled: &[Visible<'_>],
    choice: Choice,
) -> Vec<Chosen> {
    assert_eq!(pool.len(), posteriors.len(), "a posterior for each text of the pool");
    let score = |index: usize| score(choice.acquisition, pool[index], &posteriors[index], choice.seed);
    let mut ranked: Vec<Chosen> = (0..pool.len()).map(|index| Chosen { index, score: score(index) }).collect();
    let keep = if choice.diversity { choice.batch.saturating_mul(CANDIDATES) } else { choice.batch };
    let order = |a: &Chosen, b: &Chosen| b.score.total_cmp(&a.score).then_with(|| pool[a.index].cmp(&pool[b.index]));
    if keep > 0 && keep < ranked.len() {
        ranked.select_nth_unstable_by(keep - 1, order);
    }
    ranked.truncate(keep);
    ranked.sort_unstable_by(order);
    if choice.diversity { spread(classifier, pool, &ranked, labelled, choice.batch) } else { ranked }
}

/// The weighted k-center of candidates, which are sorted.
fn spread(
    classifier: &Classifier,
    pool: &[Visible<'_>],
    candidates: &[Chosen],
    labelled: &[Visible<'_>],
    batch: usize,
) -> Vec<Chosen> {
    let width = classifier.width();
    let texts: Vec<Visible<'_>> = candidates.iter().map(|chosen| pool[chosen.index]).collect();
    let (places, known) = (classifier.places(&texts), classifier.places(labelled));
    let mut distances: Vec<f32> = places
        .par_chunks(width)
        .map(|place| known.chunks_exact(width).map(|other| distance(place, other)).reduce(f32::min).unwrap_or(1.0))
        .collect();
    let mut left: Vec<usize> = (0..candidates.len()).collect();
    let mut taken = Vec::with_capacity(batch.min(candidates.len()));
    while taken.len() < batch && !left.is_empty() {
        // Of equals the first, which is the most uncertain.
        let gain = |index: usize| candidates[index].score * f64::from(distances[index]);
        let best = (1..left.len()).fold(0, |best, at| if gain(left[at]) > gain(left[best]) { at } else { best });
        let index = left.remove(best);
        let place = &places[index * width..(index + 1) * width];
        for other in &left {
            let far = distance(place, &places[other * width..(other + 1) * width]);
            // The first that is taken where nothing was known replaces the distance of 1.
            let none = known.is_empty() && taken.is_empty();
            distances[*other] = if none { far } else { distances[*other].min(far) };
        }
        taken.push(candidates[index]);
    }
    taken
}

/// 1 less the cosine of two places of length 1, at least 0.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    (1.0 - a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>()).max(0.0)
}

/// How many texts are how uncertain: by entropy over ln(labels), in so many equal bins from 0 to 1.
pub fn histogram(posteriors: &[Posterior], bins: usize) -> Vec<u64> {
    let mut counts = vec![0; bins];
    for posterior in posteriors {
        if let Some(count) = counts.get_mut(((posterior.entropy * bins as f32) as usize).min(bins.saturating_sub(1))) {
            *count += 1;
        }
    }
    counts
}

/// A seed for one part of a job, from the job's own.
pub(in crate::queries) fn derived(seed: u64, part: u64) -> u64 {
    let mut rng = <rand_chacha::ChaCha20Rng as rand_chacha::rand_core::SeedableRng>::seed_from_u64(seed);
    rng.set_stream(part);
    rng.next_u64()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "the same computation, or numbers that binary fractions hold")]

    use undertone_api::job::active_learning::{Acquisition, Encoder};

    use super::super::classifier::tests::{classifier, texts};
    use super::super::classifier::{Classifier, Posterior, Visible};
    use super::{Choice, choose, derived, distance, histogram, score};

    fn ask(acquisition: Acquisition, batch: usize, diversity: bool) -> Choice {
        Choice { acquisition, batch, diversity, seed: 7 }
    }

    fn pick(classifier: &Classifier, pool: &[Visible<'_>], choice: Choice) -> Vec<&'static str> {
        let texts: Vec<String> = choose(classifier, pool, &classifier.posteriors(pool), &[], choice)
            .into_iter()
            .map(|chosen| pool[chosen.index].text().to_owned())
            .collect();
        texts.into_iter().map(|text| &*text.leak()).collect()
    }

    #[test]
    fn each_measure_is_the_posteriors_own() {
        let posterior = Posterior { label: 0, confidence: 0.75, entropy: 0.5, margin: 0.375, disagreement: 0.125 };
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
    fn the_greatest_scores_are_asked_in_order_whatever_the_pools_order() {
        let classifier = classifier(Encoder::Bag, 3, 5);
        let mut pool = texts();
        for acquisition in Acquisition::ALL {
            let posteriors = classifier.posteriors(&pool);
            let chosen = choose(&classifier, &pool, &posteriors, &[], ask(acquisition, 3, false));
            assert_eq!(chosen.len(), 3);
            assert!(chosen.windows(2).all(|pair| pair[0].score >= pair[1].score));
            let least = chosen[2].score;
            let rest = (0..pool.len()).filter(|index| chosen.iter().all(|chosen| chosen.index != *index));
            let beyond = rest.filter(|index| score(acquisition, pool[*index], &posteriors[*index], 7) > least).count();
            assert_eq!(beyond, 0, "{acquisition:?}");
            let first = pick(&classifier, &pool, ask(acquisition, 3, false));
            pool.reverse();
            assert_eq!(first, pick(&classifier, &pool, ask(acquisition, 3, false)), "{acquisition:?}");
        }
        assert_eq!(pick(&classifier, &pool, ask(Acquisition::Entropy, 99, false)).len(), pool.len());
        assert!(pick(&classifier, &pool, ask(Acquisition::Entropy, 0, true)).is_empty());
    }

    #[test]
    fn a_diverse_batch_does_not_ask_the_same_twice() {
        let classifier = classifier(Encoder::Bag, 3, 5);
        // Ten that mean the same and two others, all of them candidates.
        let mut pool: Vec<Visible<'_>> =
            ["zyx", "zyx ", " zyx", "ZYX", "Zyx", "zYx", "zyX", "zyx  ", "  zyx", "ZYx"].map(Visible::in_test).to_vec();
        pool.extend(["cancel where", "good order"].map(Visible::in_test));
        let plain = pick(&classifier, &pool, ask(Acquisition::Entropy, 3, false));
        let same = |texts: &[&str]| texts.iter().filter(|text| text.trim().eq_ignore_ascii_case("zyx")).count();
        assert_eq!(same(&plain), 3, "without diversity, the most uncertain: {plain:?}");
        let diverse = pick(&classifier, &pool, ask(Acquisition::Entropy, 3, true));
        assert_eq!(same(&diverse), 1, "{diverse:?}");
        assert_eq!(diverse[0].trim().to_lowercase(), "zyx", "the most uncertain is still the first");
        // What is labelled need not be asked again.
        let posteriors = classifier.posteriors(&pool);
        let chosen = choose(&classifier, &pool, &posteriors, &pool[..1], ask(Acquisition::Entropy, 2, true));
        assert!(chosen.iter().all(|chosen| chosen.index >= 10), "{chosen:?}");
    }

    #[test]
    fn a_histogram_has_every_text_in_one_bin() {
        let posterior = |entropy| Posterior { label: 0, confidence: 0.5, entropy, margin: 0.0, disagreement: 0.0 };
        let bins = histogram(&[0.0, 0.049, 0.05, 0.5, 0.999, 1.0].map(posterior), 20);
        assert_eq!((bins.len(), bins[0], bins[1], bins[10], bins[19]), (20, 2, 1, 1, 2));
        assert_eq!(bins.iter().sum::<u64>(), 6);
    }

    #[test]
    fn places_that_are_the_same_have_no_distance_and_opposite_ones_two() {
        assert!(distance(&[0.6, 0.8], &[0.6, 0.8]) < 1e-6);
        assert!((distance(&[1.0, 0.0], &[-1.0, 0.0]) - 2.0).abs() < 1e-6);
        assert_ne!(derived(1, 0), derived(1, 1));
        assert_eq!(derived(1, 0), derived(1, 0));
    }
}
