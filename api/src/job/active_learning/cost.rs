//! The charge of an `active_learning` job: one pool, once. The ledgers, the sites' policies and every planner use it.
//!
//! A second pool of the same log would be a second sample and a second charge (Li, Qardaji and Su's guarantee does not
//! compose for free); the job draws none. Ranking, annotation, training and measuring use released questions, answers
//! and public data alone.

use undertone_privacy::{Adjacency, Event};

use super::{POOL, Spec};
use crate::dataset::{Dataset, Visibility};
use crate::job::Charge;

/// Implements [`crate::job::JobKind::cost`].
pub(super) fn cost(spec: &Spec, dataset: &Dataset) -> Option<Charge> {
    let event = release(spec, dataset, POOL)?;
    Some(Charge { unit: spec.unit, adjacency: Adjacency::ZeroOut, event, releases: 1 })
}

/// Implements [`crate::job::JobKind::release`]. A dataset marked open is charged as a private one: it was opened for
/// gradients, not for reading.
pub(super) fn release(spec: &Spec, dataset: &Dataset, series: &str) -> Option<Event> {
    if dataset.visibility == Visibility::Public || series != POOL {
        return None;
    }
    Some(spec.party(dataset.id)?.gate?.event())
}
