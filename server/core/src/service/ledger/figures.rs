//! The figures of an answer: the cost of a charge, and the details of a refusal. Every epsilon is rounded up.

use undertone_api::budget::{BudgetRefusal, ExceededPart, SideDelta};
use undertone_api::job::Charge;
use undertone_api::plan::AccountQuote;
use undertone_privacy::curve::{Curve, OrderGrid};
use undertone_privacy::ledger::{self, Balance, FilterKind, JobCost};
use undertone_privacy::{Adjacency, Delta, Event, PrivacyUnit, convert, mechanism};

use super::request::ChargeRequest;
use crate::error::Error;

/// The most jobs that are certified at once for questions about the ledger. Reservations do not wait for them.
pub const MOST_QUESTIONS: usize = 2;
static QUESTIONS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(MOST_QUESTIONS);

/// Returns the cost of a charge for a question, as [`price`] does for a reservation.
pub(super) async fn price_question(balance: &Balance, charge: &Charge) -> Result<Result<JobCost, String>, Error> {
    let is_certified = balance.filter() == FilterKind::Gaussian;
    let turn = if is_certified { Some(QUESTIONS.acquire().await) } else { None };
    let cost = price(balance, charge).await;
    drop(turn);
    cost
}

/// Returns the cost of a charge on the account, or the reason why the account's filter has none: a job that is not
/// certified is refused by this account, and may be admitted by others.
pub(super) async fn price(balance: &Balance, charge: &Charge) -> Result<Result<JobCost, String>, Error> {
    if charge.is_in_the_clear() {
        return Ok(Ok(JobCost::PerRelease(Curve::infinite(balance.grid()))));
    }
    if balance.filter() == FilterKind::Renyi {
        let cost = balance.job_cost(&charge.event, charge.releases, charge.adjacency);
        return cost.map(Ok).map_err(|error| Error::wrong_state(error.to_string()));
    }
    // Composing loss distributions takes up to half a second of computation.
    let (balance, charge) = (balance.clone(), charge.clone());
    let cost = move || balance.job_cost(&charge.event, charge.releases, charge.adjacency);
    let cost = tokio::task::spawn_blocking(cost).await;
    Ok(cost.map_err(|error| Error::internal("certifying a job", error))?.map_err(|error| error.to_string()))
}

/// Returns an account's refusal of a charge, with the number of releases that a certified job could plan.
pub(super) async fn whole_refusal(
    balance: &Balance,
    refused: &ledger::Refusal,
    ask: &ChargeRequest,
) -> Result<BudgetRefusal, Error> {
    let mut refusal = refusal(balance, refused, ask);
    if balance.filter() == FilterKind::Gaussian && balance.budget().is_some() {
        let (balance, charge) = (balance.clone(), ask.charge.clone());
        let fit = tokio::task::spawn_blocking(move || AccountQuote::paying(&balance, &charge).releases_that_fit());
        refusal.releases_that_fit = fit.await.map_err(|error| Error::internal("certifying a job", error))?;
    }
    Ok(refusal)
}

/// Returns an account's refusal of a charge. Without a budget every figure is 0, and no release fits.
fn refusal(balance: &Balance, refused: &ledger::Refusal, ask: &ChargeRequest) -> BudgetRefusal {
    let summary = balance.summary();
    let shortfall = refused.shortfall();
    BudgetRefusal {
        dataset: ask.dataset,
        dataset_name: ask.dataset_name.clone(),
        unit: ask.charge.unit,
        limit: summary.limit.map_or(0.0, f64::from),
        delta: summary.delta.map_or(0.0, f64::from),
        spent: summary.committed_epsilon,
        asked: shortfall.and_then(|shortfall| shortfall.asked),
        would_be: shortfall.and_then(|shortfall| shortfall.would_be),
        releases_that_fit: shortfall.map_or(0, |shortfall| shortfall.releases_that_fit),
        reason: None,
        exceeded: Some(exceeded_part(refused)),
        side_delta: match refused {
            ledger::Refusal::OverDelta(shortfall) => Some(SideDelta {
                limit: shortfall.side_limit,
                committed: shortfall.side_committed,
                asked: shortfall.side_asked,
            }),
            _ => None,
        },
    }
}

const fn exceeded_part(refused: &ledger::Refusal) -> ExceededPart {
    match refused {
        ledger::Refusal::NoBudget => ExceededPart::NoBudget,
        ledger::Refusal::Infinite => ExceededPart::InfiniteLoss,
        ledger::Refusal::OverBudget(_) => ExceededPart::Epsilon,
        ledger::Refusal::OverDelta(_) => ExceededPart::SideDelta,
    }
}

/// Returns the refusal by an account of another unit, at which a job has no price.
pub(super) fn unpriced(balance: &Balance, ask: &ChargeRequest, unit: PrivacyUnit, reason: String) -> BudgetRefusal {
    let summary = balance.summary();
    BudgetRefusal {
        dataset: ask.dataset,
        dataset_name: ask.dataset_name.clone(),
        unit,
        limit: summary.limit.map_or(0.0, f64::from),
        delta: summary.delta.map_or(0.0, f64::from),
        spent: summary.committed_epsilon,
        asked: None,
        would_be: None,
        releases_that_fit: 0,
        reason: Some(reason),
        exceeded: Some(ExceededPart::NoPrice),
        side_delta: None,
    }
}

/// Returns ε at δ of `releases` releases of a charge alone, on the fine grid of reports; `None` when it is infinite.
pub(crate) fn epsilon_alone(charge: &Charge, releases: u64, delta: f64) -> Option<f64> {
    epsilon_together([(&charge.event, charge.event.count_charges(releases))], charge.adjacency, delta)
}

/// Returns ε at δ of the charges of several events together, on the fine grid of reports: one for each release, or for
/// each job of releases that are charged as a whole. Their losses add at every
/// order, even if later events are chosen by earlier outputs (adaptive composition of Rényi DP). `None` when it is
/// infinite.
pub(crate) fn epsilon_together<'a>(
    releases: impl IntoIterator<Item = (&'a Event, u64)>,
    adjacency: Adjacency,
    delta: f64,
) -> Option<f64> {
    let grid = OrderGrid::reporting();
    let together = releases.into_iter().try_fold(Curve::zero(&grid), |sum, (event, count)| {
        sum.add(&mechanism::curve(event, adjacency, &grid).ok()?.times(count)).ok()
    })?;
    Some(convert::epsilon(&together, Delta::new(delta).ok()?)?.get())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use undertone_api::budget::ExceededPart;
    use undertone_api::id::{DatasetId, LineageId, OrganizationId};
    use undertone_api::job::Charge;
    use undertone_privacy::ledger::{Balance, Budget, GridKind, LedgerError, ReservationId};
    use undertone_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, PrivacyUnit};
    use uuid::Uuid;

    use super::refusal;
    use crate::service::job::refused::in_words;
    use crate::service::ledger::ChargeRequest;

    fn ask(event: Event, releases: u64) -> ChargeRequest {
        ChargeRequest {
            dataset: DatasetId(Uuid::nil()),
            dataset_name: "rounds".to_owned(),
            organization: OrganizationId(Uuid::nil()),
            lineage: LineageId(Uuid::nil()),
            charge: Charge { unit: PrivacyUnit::Record, adjacency: Adjacency::ZeroOut, event, releases },
        }
    }

    fn refused(balance: &mut Balance, ask: &ChargeRequest) -> undertone_api::budget::BudgetRefusal {
        let cost = balance.price(&ask.charge.event, ask.charge.adjacency).unwrap();
        match balance.reserve(ReservationId(2), &cost, ask.charge.releases) {
            Err(LedgerError::Refused(refused)) => refusal(balance, &refused, ask),
            other => panic!("{other:?}"),
        }
    }

    fn balance() -> Balance {
        let (epsilon, delta) = (Epsilon::new(16.0).unwrap(), Delta::new(1e-2).unwrap());
        Balance::new(Some(Budget::new(epsilon, delta, GridKind::for_epsilon(epsilon)).unwrap()))
    }

    #[test]
    fn refusal_over_the_side_delta_names_it() {
        let mut balance = balance();
        let ask = ask(Event::Approximate { epsilon: Epsilon::new(0.5).unwrap(), delta: Delta::new(1e-3).unwrap() }, 2);
        let cost = balance.price(&ask.charge.event, ask.charge.adjacency).unwrap();
        balance.reserve(ReservationId(1), &cost, 2).unwrap();
        let refusal = refused(&mut balance, &ask);
        assert_eq!(refusal.exceeded, Some(ExceededPart::SideDelta));
        let side = refusal.side_delta.unwrap();
        assert!(side.committed + side.asked > side.limit && refusal.would_be.unwrap() < refusal.limit, "{refusal:?}");
        let sentence = in_words(&[refusal], &[]);
        assert!(sentence.contains("part of δ for releases with a δ of their own"), "{sentence}");
        assert!(!sentence.contains("would come to ε"), "{sentence}");
    }

    #[test]
    fn refusal_over_epsilon_names_it() {
        let ask = ask(Event::Gaussian { noise_multiplier: NoiseMultiplier::new(0.1).unwrap() }, 9);
        let refusal = refused(&mut balance(), &ask);
        assert_eq!((refusal.exceeded, refusal.side_delta), (Some(ExceededPart::Epsilon), None));
        let sentence = in_words(&[refusal], &[]);
        assert!(sentence.contains("would come to ε"), "{sentence}");
    }

    #[test]
    fn refusal_without_a_budget_says_so() {
        let ask = ask(Event::Gaussian { noise_multiplier: NoiseMultiplier::new(1.0).unwrap() }, 1);
        assert_eq!(refused(&mut Balance::new(None), &ask).exceeded, Some(ExceededPart::NoBudget));
    }
}
