//! The report of an active-learning job: what the answers taught, what the gates let through, and what that cost.
//!
//! Every drawing is of the job's own report. What was rehearsed on the lead's public log, with played annotators, is said to be
//! that wherever it stands.

mod annotators;
mod pools;
mod rehearsed;
mod taught;
#[cfg(test)]
mod tests;

use leptos::prelude::*;
use undertone_api::id::DatasetId;
use undertone_api::job::active_learning::{Report as Found, Spec};
use undertone_api::job::{Report, Spec as AnySpec};
use undertone_api::report::ReportFile;

/// What the report says that is of this kind.
pub(super) struct Of<'a> {
    /// All of it.
    report: &'a ReportFile,
    /// What was asked for.
    spec: &'a Spec,
    /// What the lead reported; none while the job is not over.
    found: Option<&'a Found>,
}

/// A gate that the job used.
struct Chosen {
    name: String,
    rate: f64,
    threshold: u32,
}

impl<'a> Of<'a> {
    /// The report, when it is of this kind.
    pub(super) fn new(report: &'a ReportFile) -> Option<Self> {
        let AnySpec::ActiveLearning(spec) = report.spec() else { return None };
        let found = match &report.outcome {
            Some(Report::ActiveLearning(found)) => Some(found),
            _ => None,
        };
        Some(Self { report, spec, found })
    }

    /// Whether the lead has reported.
    pub(super) const fn is_told(&self) -> bool {
        self.found.is_some()
    }

    /// What came of it, in a sentence.
    pub(super) fn headline(&self) -> AnyView {
        taught::headline(self)
    }

    /// The sections that only this kind has.
    pub(super) fn sections(&self) -> AnyView {
        let Some(found) = self.found else { return ().into_any() };
        view! {
            {taught::section(self, found)}
            {rehearsed::section(self, found)}
            {pools::section(self, found)}
            {annotators::section(found)}
        }
        .into_any()
    }

    /// A dataset's name.
    fn name(&self, dataset: DatasetId) -> String {
        let known = self.report.datasets.iter().find(|known| known.dataset == dataset);
        known.map_or_else(|| dataset.to_string(), |known| known.name.clone())
    }

    /// The gates through which private questions left.
    fn chosen(&self) -> Vec<Chosen> {
        let private = |dataset: &DatasetId| {
            let known = self.report.datasets.iter().find(|known| known.dataset == *dataset);
            known.is_none_or(|known| known.visibility != undertone_api::dataset::Visibility::Public)
        };
        let parties = self.spec.participants.iter().filter(|party| private(&party.dataset));
        let gate = |party: &undertone_api::job::active_learning::Party| {
            let gate = party.gate?;
            Some(Chosen {
                name: self.name(party.dataset),
                rate: gate.sampling_rate.get(),
                threshold: gate.threshold.get(),
            })
        };
        parties.filter_map(gate).collect()
    }
}
