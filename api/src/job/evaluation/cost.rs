//! The charge of an `evaluation` job: one vector of histograms of each site, once. The ledgers, the sites' policies and
//! every planner use it.
//!
//! All units of the test set are in the sum, so the event is a Gaussian release at the sampling rate 1. Metrics,
//! intervals and curves are post-processing of the released vector. A second job on the same test set is a second
//! release.

use undertone_privacy::{Adjacency, Event};

use super::{HISTOGRAMS, Spec};
use crate::dataset::{Dataset, Visibility};
use crate::job::Charge;

/// Implements [`crate::job::JobKind::cost`].
pub(super) fn cost(spec: &Spec, dataset: &Dataset) -> Option<Charge> {
    let event = release(spec, dataset, HISTOGRAMS)?;
    Some(Charge { unit: spec.unit, adjacency: Adjacency::ZeroOut, event, releases: 1 })
}

/// Implements [`crate::job::JobKind::release`]. A dataset marked open is charged as a private one: it was opened for
/// gradients, not for evaluation.
pub(super) fn release(spec: &Spec, dataset: &Dataset, series: &str) -> Option<Event> {
    let is_charged = dataset.visibility != Visibility::Public && series == HISTOGRAMS;
    (is_charged && spec.is_participant(dataset.id)).then(|| spec.histograms().event())
}
