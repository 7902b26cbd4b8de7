//! Evidence and guesses.

use undertone_api::job::audit::{AuditTrial, TrialResult};

/// Returns the evidence of one round that a canary is a member, in nats. `x` is its amount in the release, in clips.
/// The evidence is the log-likelihood ratio of `x` between a draw with probability `q` under noise `z` and its absence.
/// No test of the same size is more powerful against such noise (Neyman and Pearson). The sum over rounds is a canary's
/// score.
pub(super) fn evidence(x: f64, q: f64, z: f64) -> f64 {
    let gain = (2.0 * x - 1.0) / (2.0 * z * z);
    // ln(1 − q + q e^gain), from the larger term.
    let present = q.ln() + gain;
    let absent = (-q).ln_1p();
    let (large, small) = if present > absent { (present, absent) } else { (absent, present) };
    large + (small - large).exp().ln_1p()
}

/// Guesses "in" for the highest scores and "out" for the lowest, half of the guesses each, and counts the correct ones.
/// Among equal scores the first count as higher.
///
/// # Panics
/// Unless there is a coin and a score for every canary.
pub(super) fn guess(trial: AuditTrial, scores: &[f64], coins: &[bool]) -> TrialResult {
    let canaries = trial.canaries as usize;
    assert!(scores.len() == canaries && coins.len() == canaries, "a score and a coin for each canary");
    let mut order: Vec<usize> = (0..canaries).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let half = trial.guesses as usize / 2;
    let correct_in = order[..half].iter().filter(|canary| coins[**canary]);
    let correct_out = order[canaries - half..].iter().filter(|canary| !coins[**canary]);
    TrialResult { trial, correct: (correct_in.count() + correct_out.count()) as u32 }
}
