//! Tests that the received sounds follow the mechanism: compares the histogram of each provider over many plans, true
//! pieces and dummies together, with the binomial of its share and the truncated Laplace distribution of its dummies.
//!
//! Words are independent at one provider, so its chi-squares add up; providers share the pieces, so each has a p-value
//! of its own. A control shows the power of the test: the same plans against a mechanism with a shift greater by one.

use std::collections::BTreeMap;

use serde_json::json;
use support::stage::TestResult;
use undertone_privacy::histogram::TruncatedLaplace;
use undertone_privacy::special::{binomial_pmf, normal_tail};
use undertone_worker::speech::transcribe::noise::DummyMechanism;
use undertone_worker::speech::transcribe::plan::{BatchItem, Candidate, CrowdedPieces, Plan, PlanRandomness};
use undertone_worker::speech::transcribe::vocabulary::{PieceWords, WordDisclosure};

use super::sizes::TranscriptionSizes;
use super::{rounded, say};
use crate::report::Report;

/// The least expected count of a bin.
const FEWEST: f64 = 10.0;
/// A p-value that is impossible for a correct mechanism.
const NEVER: f64 = 1e-6;
/// The number of pieces of the synthetic recording: most contain the first words, as in real speech.
const PIECES: u32 = 240;

/// # Errors
/// When the received sounds do not follow the mechanism, or the test does not reject another one.
pub(super) fn measure(report: &mut Report, sizes: &TranscriptionSizes) -> TestResult<()> {
    let (mechanism, words) = (sizes.mechanism()?, u32::try_from(sizes.vocabulary)?);
    let candidates = example_candidates(words);
    let plans = (0..sizes.draws).map(|_| draw(mechanism, words, &candidates)).collect::<TestResult<Vec<_>>>()?;
    let all = received(&plans, &candidates, words);
    let noise = mechanism.noise();
    let other = TruncatedLaplace::new(undertone_privacy::Epsilon::new(noise.rate())?, noise.shift() + 1)?;
    let counts = counts(&candidates, words);
    let providers = mechanism.partition().providers().get();
    let (mut least, mut blind) = (1.0_f64, 0);
    for (provider, seen) in all.iter().enumerate() {
        let (sum, freedom) = chi_square(seen, &counts, providers, noise);
        let (wrong, wrong_freedom) = chi_square(seen, &counts, providers, other);
        let (p, power) = (p_value(sum, freedom), p_value(wrong, wrong_freedom));
        least = least.min(p * f64::from(providers));
        blind += u32::from(power > NEVER);
        say(
            report,
            json!({
                "histogram": "received", "provider": provider, "plans": sizes.draws, "words": words + 1,
                "chi_square": rounded(sum), "freedom": freedom, "p": p, "p_against_shift_plus_one": power,
                "mean_dummies_per_word": rounded(noise.mean()),
            }),
        )?;
    }
    if least < NEVER {
        return Err(format!("providers do not receive the mechanism: p {least}").into());
    }
    if blind > 0 {
        return Err(format!("{blind} tests do not notice another mechanism: draw more plans").into());
    }
    Ok(())
}

/// Returns how unusual the received counts are among `draws` plans of the same pieces: the fraction of plans whose
/// counts are at least as far from their means, over all words and providers. An exact p-value.
///
/// # Errors
/// When there is no plan.
pub(super) fn rank(plan: &Plan, candidates: &[Candidate], words: u32, draws: usize) -> TestResult<f64> {
    let mechanism = *plan.mechanism();
    let distance = |plan: &Plan| {
        let counts = counts(candidates, words);
        let (share, noise) = (mechanism.partition().providers().get(), mechanism.noise());
        let (beta, mut sum) = (1.0 / f64::from(share), 0.0);
        for seen in received(std::slice::from_ref(plan), candidates, words) {
            for (word, seen) in seen.iter().enumerate() {
                let count = counts[word] as f64;
                let mean = noise.mean() + count * beta;
                let variance = noise.variance() + count * beta * (1.0 - beta);
                sum += seen.iter().map(|seen| (*seen as f64 - mean).powi(2) / variance).sum::<f64>();
            }
        }
        sum
    };
    let real = distance(plan);
    let mut farther = 0_usize;
    for _ in 0..draws {
        farther += usize::from(distance(&draw(mechanism, words, candidates)?) >= real);
    }
    Ok((1 + farther) as f64 / (1 + draws) as f64)
}

fn draw(mechanism: DummyMechanism, words: u32, candidates: &[Candidate]) -> TestResult<Plan> {
    Ok(Plan::draw(
        mechanism,
        words,
        WordDisclosure::Nothing,
        candidates,
        CrowdedPieces::Keep,
        &PlanRandomness::from_os(),
    )?)
}

/// Returns the word that a piece counts as, if it is sent: pieces without a word of the vocabulary count as the last
/// one.
fn word(piece_words: PieceWords, words: u32) -> Option<usize> {
    match piece_words {
        PieceWords::Nothing => Some(words as usize),
        PieceWords::One(word) => Some(word as usize),
        PieceWords::Several => None,
    }
}

fn counts(candidates: &[Candidate], words: u32) -> Vec<u64> {
    let mut counts = vec![0; words as usize + 1];
    for word in candidates.iter().filter_map(|(_, piece_words)| word(*piece_words, words)) {
        counts[word] += 1;
    }
    counts
}

/// Returns the received counts of each plan, by provider and word.
fn received(plans: &[Plan], candidates: &[Candidate], words: u32) -> Vec<Vec<Vec<u64>>> {
    let word_of_piece: BTreeMap<u32, usize> = candidates
        .iter()
        .filter_map(|(piece, piece_words)| word(*piece_words, words).map(|word| (*piece, word)))
        .collect();
    let providers = plans.first().map_or(0, Plan::providers) as usize;
    let mut all = vec![vec![vec![0; plans.len()]; words as usize + 1]; providers];
    for (place, plan) in plans.iter().enumerate() {
        for dummy in plan.dummies() {
            all[dummy.provider as usize][dummy.word.unwrap_or(words) as usize][place] += 1;
        }
        for (provider, seen) in (0..plan.providers()).zip(&mut all) {
            for item in plan.batch(provider) {
                if let BatchItem::Piece(piece) = item
                    && let Some(word) = word_of_piece.get(piece)
                {
                    seen[*word][place] += 1;
                }
            }
        }
    }
    all
}

/// Returns chi-square over all words of one provider, and its degrees of freedom.
fn chi_square(seen: &[Vec<u64>], counts: &[u64], providers: u32, noise: TruncatedLaplace) -> (f64, f64) {
    let (mut sum, mut freedom) = (0.0, 0.0);
    for (seen, count) in seen.iter().zip(counts) {
        let all = seen.len() as f64;
        let expected = distribution(*count, providers, noise);
        let mut hits = vec![0_u64; expected.len() + 1];
        for value in seen {
            hits[(*value as usize).min(expected.len())] += 1;
        }
        // The last bin includes the tail.
        let beyond = (1.0 - expected.iter().sum::<f64>()).max(0.0);
        let values = hits.iter().zip(expected.iter().chain([&beyond]));
        let (mut bins, mut open) = (Vec::new(), (0.0, 0.0));
        for (hits, probability) in values {
            open = (open.0 + *hits as f64, open.1 + all * probability);
            if open.1 >= FEWEST {
                bins.push(open);
                open = (0.0, 0.0);
            }
        }
        if let Some(last) = bins.last_mut() {
            *last = (last.0 + open.0, last.1 + open.1);
        }
        sum += bins.iter().map(|(hits, mean)| (hits - mean).powi(2) / mean).sum::<f64>();
        freedom += (bins.len() as f64 - 1.0).max(0.0);
    }
    (sum, freedom)
}

/// Returns the probabilities of a provider's count of a word that was spoken `count` times.
fn distribution(count: u64, providers: u32, noise: TruncatedLaplace) -> Vec<f64> {
    let beta = 1.0 / f64::from(providers);
    let reach = noise.mean() + count as f64 + 40.0 * noise.variance().sqrt();
    let dummies: Vec<f64> = (0..reach.ceil() as u64).map(|dummies| noise.probability(dummies)).collect();
    let mut together = vec![0.0; dummies.len() + count as usize];
    for pieces in 0..=count {
        let share = binomial_pmf(count as f64, pieces as f64, beta, 1.0 - beta);
        for (sum, probability) in together[pieces as usize..].iter_mut().zip(&dummies) {
            *sum += share * probability;
        }
    }
    together
}

/// Returns the probability of a chi-square at least so large, by Wilson and Hilferty's cube root (1931).
fn p_value(sum: f64, freedom: f64) -> f64 {
    if freedom < 1.0 {
        return 1.0;
    }
    let spread = 2.0 / (9.0 * freedom);
    normal_tail(((sum / freedom).cbrt() - (1.0 - spread)) / spread.sqrt())
}

/// Returns pieces with one word, none and several; the first words are the most frequent.
fn example_candidates(words: u32) -> Vec<Candidate> {
    let piece_words = |piece: u32| match piece % 8 {
        0 => PieceWords::Several,
        1 | 2 => PieceWords::Nothing,
        _ => PieceWords::One((piece * piece / 64) % (1 + piece % words.max(1))),
    };
    (0..PIECES).map(|piece| (piece, piece_words(piece))).collect()
}
