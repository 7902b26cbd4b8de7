//! A plan's open terms: the ranges within which each owner of charged data sets noise, clip, sampling rate and rounds.

use serde::{Deserialize, Serialize};
#[cfg(feature = "ssr")]
use undertone_api::job::dp_sgd::Spec;
use undertone_api::job::{OpenTerm, TermName};

/// The range of a term.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TermPlan {
    /// Whether the owners set the term.
    #[serde(default)]
    pub open: bool,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
}

impl TermPlan {
    const fn closed(min: f64, max: f64) -> Self {
        Self { open: false, min, max }
    }

    /// Widens the range to a value.
    pub const fn include(&mut self, value: f64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
}

/// The ranges of all terms, the same for each owner.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TermPlans {
    /// z.
    pub noise: TermPlan,
    /// C.
    pub clip: TermPlan,
    /// q.
    pub rate: TermPlan,
    /// Whether the owners set the number of their rounds.
    pub rounds: bool,
    /// The fewest rounds; the most are the job's.
    pub least_rounds: u32,
}

impl Default for TermPlans {
    fn default() -> Self {
        Self {
            noise: TermPlan::closed(0.5, 10.0),
            clip: TermPlan::closed(0.1, 10.0),
            rate: TermPlan::closed(0.001, 0.5),
            rounds: false,
            least_rounds: 1,
        }
    }
}

impl TermPlans {
    /// Returns the open terms of a job with so many rounds.
    pub(super) fn open_terms(&self, rounds: u32) -> Vec<OpenTerm> {
        let range =
            |term, plan: TermPlan| plan.open.then_some(OpenTerm { dataset: None, term, min: plan.min, max: plan.max });
        let all_rounds =
            TermPlan { open: self.rounds, min: f64::from(self.least_rounds), max: f64::from(rounds.max(1)) };
        let terms = [
            range(TermName::NoiseMultiplier, self.noise),
            range(TermName::Clip, self.clip),
            range(TermName::SamplingRate, self.rate),
            range(TermName::Rounds, all_rounds),
        ];
        terms.into_iter().flatten().collect()
    }

    /// Converts the open terms of a spec. Ranges of single datasets are not in a plan.
    #[cfg(feature = "ssr")]
    pub(super) fn from_spec(spec: &Spec, first: &Self) -> Self {
        let range = |term, first: TermPlan| {
            let open = spec.open_terms.iter().find(|open| open.term == term && open.dataset.is_none());
            open.map_or(first, |open| TermPlan { open: true, min: open.min, max: open.max })
        };
        let rounds = range(TermName::Rounds, TermPlan::closed(f64::from(first.least_rounds), 0.0));
        Self {
            noise: range(TermName::NoiseMultiplier, first.noise),
            clip: range(TermName::Clip, first.clip),
            rate: range(TermName::SamplingRate, first.rate),
            rounds: rounds.open,
            least_rounds: rounds.min as u32,
        }
    }
}
