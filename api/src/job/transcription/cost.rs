//! What a `transcription` job charges: one histogram, once, however many pieces are sent and however often the same bits are sent
//! again. The ledgers, the site's policy and every planner ask here.
//!
//! The vocabulary is public where data pay, so it tells nothing beside the counts; sending pieces that no dummy resembles is
//! refused where data pay. A second job on the same recordings is a second release.

use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use super::{HISTOGRAM, Spec};
use crate::dataset::{Dataset, Visibility};
use crate::job::Charge;

/// See [`crate::job::Kind::cost`].
pub(super) fn cost(spec: &Spec, dataset: &Dataset) -> Option<Charge> {
    let event = release(spec, dataset, HISTOGRAM)?;
    Some(Charge { unit: PrivacyUnit::Words, adjacency: Adjacency::ZeroOut, event, releases: 1 })
}

/// See [`crate::job::Kind::release`]. A dataset marked open is charged as a private one: it was opened for gradients, not for
/// listening. A spec without noise, which `check` refuses, has a price that no account can pay, whatever its data are marked.
pub(super) fn release(spec: &Spec, dataset: &Dataset, series: &str) -> Option<Event> {
    if dataset.visibility == Visibility::Public || series != HISTOGRAM || dataset.id != spec.participant.dataset {
        return None;
    }
    Some(spec.event().unwrap_or_else(|_| Event::Composed { events: vec![Event::NonPrivate] }))
}
