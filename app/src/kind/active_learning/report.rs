//! The report of an active-learning job: the effect of the answers, the gates' releases, and their cost.
//!
//! Every drawing uses the job's own report. Results of the rehearsal on the lead's public log, with simulated
//! annotators, are always marked as such.

mod annotators;
mod learning;
mod pools;
mod rehearsal;
#[cfg(test)]
mod tests;

use leptos::prelude::*;
use undertone_api::dataset::Visibility;
use undertone_api::id::DatasetId;
use undertone_api::job::Report as AnyReport;
use undertone_api::job::active_learning::{Party, Report, Spec};
use undertone_api::report::ReportFile;

pub(super) use learning::render_headline;

/// The report of a job of this kind.
pub(super) struct LearningReport<'a> {
    /// The whole report.
    file: &'a ReportFile,
    /// The job's spec.
    spec: &'a Spec,
    /// The lead's report; `None` while the job is not over.
    outcome: Option<&'a Report>,
}

/// A gate that the job used.
struct UsedGate {
    name: String,
    rate: f64,
    threshold: u32,
}

impl<'a> LearningReport<'a> {
    /// Combines a job's spec with its report.
    pub(super) const fn new(spec: &'a Spec, file: &'a ReportFile) -> Self {
        let outcome = match &file.outcome {
            Some(AnyReport::ActiveLearning(outcome)) => Some(outcome),
            _ => None,
        };
        Self { file, spec, outcome }
    }

    /// Renders the sections about the lead's report; `None` before it has reported.
    pub(super) fn render_sections(&self) -> Option<AnyView> {
        let outcome = self.outcome?;
        let sections = view! {
            {learning::render_section(self, outcome)}
            {rehearsal::render_section(self, outcome)}
            {pools::render_section(self, outcome)}
            {annotators::render_section(outcome)}
        };
        Some(sections.into_any())
    }

    /// Returns a dataset's name.
    fn name(&self, dataset: DatasetId) -> String {
        let used = self.file.datasets.iter().find(|used| used.dataset == dataset);
        used.map_or_else(|| dataset.to_string(), |used| used.name.clone())
    }

    /// Returns the gates that released private questions.
    fn used_gates(&self) -> Vec<UsedGate> {
        let is_private = |dataset: &DatasetId| {
            let used = self.file.datasets.iter().find(|used| used.dataset == *dataset);
            used.is_none_or(|used| used.visibility != Visibility::Public)
        };
        let parties = self.spec.participants.iter().filter(|party| is_private(&party.dataset));
        let gate = |party: &Party| {
            let gate = party.gate?;
            Some(UsedGate {
                name: self.name(party.dataset),
                rate: gate.sampling_rate.get(),
                threshold: gate.threshold.get(),
            })
        };
        parties.filter_map(gate).collect()
    }
}
