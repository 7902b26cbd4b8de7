//! Private selection: in each private round every private party makes a secret number of whole runs of the round's
//! local steps, scores each on public data, and releases only the best run's update (Papernot and Steinke 2022;
//! `privacy::selection`).
//!
//! The number of runs (K), the losing runs and their candidates must stay secret. So K is drawn anew in each round, is
//! at most `most_runs`, and a party *always* makes `most_runs` runs, of which it considers the first K: neither its
//! duration nor a missed deadline reveals K. The bound is part of the price ([`Runs::CappedNegativeBinomial`]); the
//! runs beyond K only cost time.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};
use undertone_privacy::Event;
use undertone_privacy::selection::Runs;
use undertone_privacy::unit::{RunShape, StoppingRate};

/// The best of several runs, chosen by each private party, in every round of the private arm.
///
/// A run draws one of the candidates with equal probability. It takes the round's local steps from the round's
/// parameters, and is scored by the mean cross-entropy on the development data, which are public. The score is computed
/// from the run's release, so it costs nothing more. A coin decides between equal scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdSelection))]
pub struct SelectionOptions {
    /// η, the shape of the truncated negative binomial number of runs: more than −1, at most 1. 1 is geometric, 0
    /// logarithmic; a smaller one is cheaper, and more often a single run.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 0.0))]
    pub shape: RunShape,
    /// γ, the probability of stopping after each run: 1/1,024 to less than 1.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 0.1))]
    pub stopping: StoppingRate,
    /// The bound of the number of runs, and the number of runs that every private party makes in every round, whatever
    /// its secret number is: 2 to 1,000. Use a few times the mean; a nearer bound raises the price of a round.
    #[cfg_attr(feature = "openapi", schema(value_type = u16, example = 20))]
    pub most_runs: NonZeroU16,
    /// Utterances of the lead's public training data by which runs are scored: 1 to 2,000. The seed of the warm start
    /// chooses them, the lead does not train on them, and every participant receives them.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 2000))]
    pub development: u32,
    /// The candidates: 2 to 64.
    #[cfg_attr(feature = "openapi", schema(max_items = 64))]
    pub candidates: Vec<SelectionCandidate>,
}

/// The parameters of one run. Only parameters that change no price can be chosen: z, q and the number of steps are
/// those of the round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdCandidate))]
pub struct SelectionCandidate {
    /// The learning rate of the run, with the limits of the private arm's rate, which it replaces.
    pub learning_rate: f64,
    /// The clip relative to the party's own: greater than 0, at most 1. The noise shrinks with it.
    #[serde(default = "whole")]
    #[cfg_attr(feature = "openapi", schema(exclusive_minimum = 0, maximum = 1))]
    pub clip: f64,
}

const fn whole() -> f64 {
    1.0
}

impl SelectionOptions {
    /// Returns the distribution of the number of runs.
    pub const fn runs(&self) -> Runs {
        Runs::CappedNegativeBinomial { shape: self.shape, stopping: self.stopping, most: self.most_runs }
    }

    /// Returns the release of the best run, if one run releases `run`: the runs are not charged one by one.
    pub fn event(&self, run: Event) -> Event {
        Event::Selected { of: Box::new(run), runs: self.runs() }
    }
}

#[cfg(test)]
mod tests;
