//! The figures behind an answer: what a charge costs, and what a refusal tells. Every epsilon is rounded up.

use undertone_api::budget::Refusal;
use undertone_api::job::Charge;
use undertone_privacy::curve::{Curve, OrderGrid};
use undertone_privacy::ledger::{self, Balance, Cost};
use undertone_privacy::{Adjacency, Delta, Event, PrivacyUnit, convert, mechanism};

use super::Ask;
use crate::error::Error;

/// What one release of a charge costs on the account's orders.
pub(super) fn price(balance: &Balance, charge: &Charge) -> Result<Cost, Error> {
    balance.price(&charge.event, charge.adjacency).map_err(|error| Error::wrong_state(error.to_string()))
}

/// What an account answers to a charge that it does not admit. Without a budget every figure is 0, and nothing fits.
pub(super) fn refusal(balance: &Balance, refused: &ledger::Refusal, ask: &Ask) -> Refusal {
    let summary = balance.summary();
    let shortfall = refused.shortfall();
    Refusal {
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
    }
}

/// What an account of another unit answers to a job that has no price there.
pub(super) fn unpriced(balance: &Balance, ask: &Ask, unit: PrivacyUnit, reason: String) -> Refusal {
    let summary = balance.summary();
    Refusal {
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
    }
}

/// ε at δ of so many releases of a charge by themselves, on the fine grid of reports; `None` when it is infinite.
pub(crate) fn epsilon_alone(charge: &Charge, releases: u64, delta: f64) -> Option<f64> {
    epsilon_together([(&charge.event, releases)], charge.adjacency, delta)
}

/// ε at δ of so many releases of each of several events together, on the fine grid of reports: their losses add at every order,
/// whoever chose the later ones by the earlier (adaptive composition of Rényi DP). `None` when it is infinite.
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
