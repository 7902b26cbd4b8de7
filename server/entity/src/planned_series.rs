//! The rounds of a job as fixed at its proposal: the contributors, their weights, and the release of each vector.

use serde::{Deserialize, Serialize};
use undertone_api::dataset::Dataset;
use undertone_api::id::DatasetId;
use undertone_api::job::audit::AuditPlan;
use undertone_api::job::{RoundSeries, Spec};
use undertone_privacy::Event;

/// A series with the release of each contributor's vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedSeries {
    /// The rounds.
    pub series: RoundSeries,
    /// The release of one vector, for every dataset that is not public.
    releases: Vec<(DatasetId, Event)>,
    /// The promised audits of these releases, by dataset; empty in old jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    audited: Vec<(DatasetId, AuditPlan)>,
    /// The greatest norms of vectors, by dataset; empty in old jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    most_norms: Vec<(DatasetId, f64)>,
}

impl PlannedSeries {
    /// Returns the series of a spec, in order.
    pub fn from_spec(spec: &Spec, datasets: &[Dataset]) -> Vec<Self> {
        let plan = |series: RoundSeries| Self {
            releases: datasets
                .iter()
                .filter_map(|dataset| Some((dataset.id, spec.release(dataset, &series.name)?)))
                .collect(),
            audited: datasets
                .iter()
                .filter_map(|dataset| Some((dataset.id, spec.audit_plan(dataset)?)))
                .filter(|(_, audited)| audited.series == series.name)
                .collect(),
            most_norms: datasets
                .iter()
                .filter_map(|dataset| Some((dataset.id, spec.most_norm(dataset, &series)?)))
                .collect(),
            series,
        };
        spec.series(datasets).into_iter().map(plan).collect()
    }

    /// Returns the release of one vector of a dataset; `None` for public data.
    pub fn release_of(&self, dataset: DatasetId) -> Option<&Event> {
        self.releases.iter().find(|(id, _)| *id == dataset).map(|(_, event)| event)
    }

    /// Returns the greatest norm of a dataset's vectors; `None` where none is known.
    pub fn most_norm_of(&self, dataset: DatasetId) -> Option<f64> {
        self.most_norms.iter().find(|(id, _)| *id == dataset).map(|(_, norm)| *norm)
    }

    /// Returns the promised audit of a dataset's releases in this series.
    pub fn audited_of(&self, dataset: DatasetId) -> Option<&AuditPlan> {
        self.audited.iter().find(|(id, _)| *id == dataset).map(|(_, audited)| audited)
    }

    /// Returns whether an audit of any releases in this series is promised.
    pub const fn is_audited(&self) -> bool {
        !self.audited.is_empty()
    }

    /// Returns a contributor's weight.
    pub fn weight_of(&self, dataset: DatasetId) -> Option<f64> {
        self.series.weights.iter().find(|(id, _)| *id == dataset).map(|(_, weight)| *weight)
    }
}
