//! ε against rounds: the resulting ε of an account for more or fewer rounds of a plan.

use serde::{Deserialize, Serialize};
use undertone_privacy::ledger::FilterKind;

use super::PricedPlan;
use super::price::{AccountQuote, MOST_ROUNDS};

/// The number of steps of a curve.
const STEPS: u32 = 24;
/// The number of steps under the Gaussian filter, where each point certifies a job.
const WHOLE_STEPS: u32 = 8;

/// ε of an account against the rounds of a plan, at no more than 29 points, including the plan's own rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EpsilonCurve {
    /// Rounds, ascending. 0 is the account without the plan and without its releases in reserve.
    pub rounds: Vec<u32>,
    /// ε of the spent and reserved releases and the plan with these rounds and its releases in reserve, by the
    /// account's gauge, rounded up; null if it is infinite.
    pub epsilon: Vec<Option<f64>>,
}

impl PricedPlan {
    /// Returns the curve of an account, from zero to a little beyond both the requested and the fitting rounds, but
    /// never so far that the plan's own rounds cannot be distinguished.
    pub fn curve(&self, quote: &AccountQuote) -> EpsilonCurve {
        let fit = self.rounds_that_fit(quote);
        let far = self.rounds.saturating_mul(4);
        let end =
            self.rounds.saturating_add(self.rounds / 2).max(fit.saturating_add(fit / 4).min(far)).clamp(4, MOST_ROUNDS);
        let steps = if quote.balance.filter() == FilterKind::Gaussian { WHOLE_STEPS } else { STEPS };
        let mut rounds: Vec<u32> =
            (1..=steps).map(|step| (f64::from(end) * f64::from(step) / f64::from(steps)) as u32).collect();
        rounds.extend([1, self.rounds.min(end)]);
        rounds.extend([fit, fit.saturating_add(1)].into_iter().filter(|fit| *fit <= end));
        rounds.retain(|rounds| *rounds > 0);
        rounds.sort_unstable();
        rounds.dedup();
        let at = |rounds: &u32| {
            let epsilon = quote.project(i64::from(*rounds) - i64::from(self.rounds)).epsilon;
            epsilon.is_finite().then_some(epsilon)
        };
        let epsilon: Vec<_> =
            std::iter::once(Some(quote.balance.summary().committed_epsilon)).chain(rounds.iter().map(at)).collect();
        rounds.insert(0, 0);
        EpsilonCurve { rounds, epsilon }
    }
}
