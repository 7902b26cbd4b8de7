//! The charge of a `transcription` job: one histogram, once, for any number of pieces and of repeated transmissions of
//! the same bits. The ledgers, the site's policy and every planner use it.
//!
//! Where data are charged, the vocabulary is public, so it reveals nothing beyond the counts; and pieces without
//! resembling dummies are not allowed. A second job on the same recordings is a second release.

use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use super::{HISTOGRAM, Spec};
use crate::dataset::{Dataset, Visibility};
use crate::job::Charge;

/// Implements [`crate::job::JobKind::cost`].
pub(super) fn cost(spec: &Spec, dataset: &Dataset) -> Option<Charge> {
    let event = release(spec, dataset, HISTOGRAM)?;
    Some(Charge { unit: PrivacyUnit::Words, adjacency: Adjacency::ZeroOut, event, releases: 1 })
}

/// Implements [`crate::job::JobKind::release`]. A dataset marked open is charged as a private one: it was opened for
/// gradients, not for listening. A spec without noise, which `check` rejects, has a price that no account can pay.
pub(super) fn release(spec: &Spec, dataset: &Dataset, series: &str) -> Option<Event> {
    if dataset.visibility == Visibility::Public || series != HISTOGRAM || dataset.id != spec.participant.dataset {
        return None;
    }
    Some(spec.event().unwrap_or_else(|_| Event::Composed { events: vec![Event::NonPrivate] }))
}
