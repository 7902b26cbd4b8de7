//! The charge of an `active_learning` job: one pool, once; of a private lead every training; of a private test set
//! every measurement. The ledgers, the sites' policies and every planner use it.
//!
//! A second pool of the same log would be a second sample and a second charge (Li, Qardaji and Su's guarantee does not
//! compose for free); the job draws none. Ranking, annotation, training and measuring use released questions, answers
//! and public data alone.
//!
//! A private lead releases its classifier after each training: once before the first round, and once after each round.
//! A charge covers releases of one form, so a private lead releases no pool of its own, and a private test set is a
//! dataset of its own: each measurement is one vector of noisy score histograms, as in an `evaluation`.

use undertone_privacy::{Adjacency, Event};

use super::{POOL, PRIVATE_TEST, Spec, TRAINING};
use crate::dataset::{Dataset, Visibility};
use crate::job::Charge;

/// Implements [`crate::job::JobKind::cost`].
pub(super) fn cost(spec: &Spec, dataset: &Dataset) -> Option<Charge> {
    let charge = |event, releases| Charge { unit: spec.unit, adjacency: Adjacency::ZeroOut, event, releases };
    if let Some(test) = spec.private_test_on(dataset.id) {
        return Some(charge(release(spec, dataset, PRIVATE_TEST)?, test.measurements.into()));
    }
    release(spec, dataset, TRAINING)
        .map(|event| charge(event, u64::from(spec.rounds) + 1))
        .or_else(|| Some(charge(release(spec, dataset, POOL)?, 1)))
}

/// Implements [`crate::job::JobKind::release`]. A dataset marked open is charged as a private one: it was opened for
/// gradients, not for reading.
pub(super) fn release(spec: &Spec, dataset: &Dataset, series: &str) -> Option<Event> {
    if dataset.visibility == Visibility::Public {
        return None;
    }
    if let Some(test) = spec.private_test_on(dataset.id) {
        return (series == PRIVATE_TEST).then(|| test.histograms(&spec.labels).event());
    }
    match spec.private_training(dataset.id) {
        Some(training) => (series == TRAINING).then(|| training.event()),
        None if series == POOL => Some(spec.party(dataset.id)?.gate?.event()),
        None => None,
    }
}
