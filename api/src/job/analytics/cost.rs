//! The charge of an `analytics` job: one vector of each site, once, and where it selects keys one more before it. The
//! ledgers, the sites' policies and every planner use it.
//!
//! Each unit of the table is in the sum, so the event is a Gaussian release at the sampling rate 1, relative to the
//! sensitivity that `layout.rs` derives. Filters and groups do not change it: a unit that no query counts contributes
//! zero. Results are post-processing of the released vector. A second job on the same table is a second release.

use undertone_privacy::{Adjacency, Event, SamplingRate};

use super::{KEYS, Spec, VECTOR};
use crate::dataset::{Dataset, SizeClass, Visibility};
use crate::job::dp_sgd::FALSE_REFUSAL;
use crate::job::{Charge, RoundSeries};

/// The greatest factor that f32 and the noise grid add to a norm.
const ROUNDING: f64 = 1.001;

/// Implements [`crate::job::JobKind::cost`].
pub(super) fn cost(spec: &Spec, dataset: &Dataset) -> Option<Charge> {
    let event = release(spec, dataset, VECTOR)?;
    let releases = if spec.selects_keys() { 2 } else { 1 };
    Some(Charge { unit: spec.unit, adjacency: Adjacency::ZeroOut, event, releases })
}

/// Implements [`crate::job::JobKind::release`]. A dataset marked open is charged as a private one: it was opened for
/// gradients, not for queries.
pub(super) fn release(spec: &Spec, dataset: &Dataset, series: &str) -> Option<Event> {
    let is_released = series == VECTOR || (series == KEYS && spec.selects_keys());
    let is_charged = dataset.visibility != Visibility::Public && is_released;
    (is_charged && spec.is_participant(dataset.id)).then(|| spec.event())
}

/// Implements [`crate::job::JobKind::most_norm`]. The sum of at most n contributions of norm 1 is at most n long; noise
/// of deviation z in each of d coordinates is longer than z√(d + 2√(dt) + 2t) with probability at most e⁻ᵗ (Hsu, Kakade
/// and Zhang 2012, theorem 2.1; the discrete Gaussian is subgaussian: Canonne, Kamath and Steinke 2020, fact 18).
pub(super) fn most_norm(spec: &Spec, dataset: &Dataset, series: &RoundSeries) -> Option<f64> {
    if ![KEYS, VECTOR].contains(&&*series.name)
        || dataset.visibility == Visibility::Public
        || !spec.is_participant(dataset.id)
    {
        return None;
    }
    let length = series.length? as f64;
    let units = SizeClass::from_count(dataset.count(spec.unit).0).most() as f64;
    let tail = -libm::log(FALSE_REFUSAL);
    let noise = spec.noise_multiplier.get() * (length + 2.0 * (length * tail).sqrt() + 2.0 * tail).sqrt();
    Some((units * spec.contribution_norm() + noise) * ROUNDING).filter(|norm| norm.is_finite())
}

impl Spec {
    /// Returns the release of one site's vector, of the choice of keys or of the aggregates: both have the same noise
    /// relative to their sensitivity.
    pub const fn event(&self) -> Event {
        Event::PoissonSampledGaussian { sampling_rate: SamplingRate::ONE, noise_multiplier: self.noise_multiplier }
    }
}
