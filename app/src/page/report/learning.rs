//! The report of an active-learning job: the effect of the answers, the gates' releases, and their cost.
//!
//! Every drawing uses the job's own report. Results of the rehearsal on the lead's public log, with simulated
//! annotators, are always marked as such.

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

/// The parts of the report that this kind has.
pub(super) struct Of<'a> {
    /// The whole report.
    report: &'a ReportFile,
    /// The job's spec.
    spec: &'a Spec,
    /// The lead's report; `None` while the job is not over.
    found: Option<&'a Found>,
}

/// A gate that the job used.
struct Chosen {
    name: String,
    rate: f64,
    threshold: u32,
}

impl<'a> Of<'a> {
    /// Returns the report, if it is of this kind.
    pub(super) fn new(report: &'a ReportFile) -> Option<Self> {
        let AnySpec::ActiveLearning(spec) = report.spec() else { return None };
        let found = match &report.outcome {
            Some(Report::ActiveLearning(found)) => Some(found),
            _ => None,
        };
        Some(Self { report, spec, found })
    }

    /// Returns whether the lead has reported.
    pub(super) const fn is_told(&self) -> bool {
        self.found.is_some()
    }

    /// Renders the result in a sentence.
    pub(super) fn headline(&self) -> AnyView {
        taught::headline(self)
    }

    /// Renders the sections that only this kind has.
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

    /// Returns a dataset's name.
    fn name(&self, dataset: DatasetId) -> String {
        let known = self.report.datasets.iter().find(|known| known.dataset == dataset);
        known.map_or_else(|| dataset.to_string(), |known| known.name.clone())
    }

    /// Returns the gates that released private questions.
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
