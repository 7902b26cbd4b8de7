//! The third part of a job kind: its display.
//!
//! `kind/<kind>.rs` implements [`Card`] for the kind's spec: the planner's form, the facts of a proposed job, an
//! owner's consent, the charts of a running job, the result and the report of a finished one. The functions below match
//! every kind, so a kind without a display does not compile. Pages never match on a kind: they call these functions.

pub mod active_learning;
pub mod analytics;
mod cost;
pub mod dp_sgd;
#[cfg(feature = "ssr")]
mod draft;
pub mod evaluation;
#[cfg(feature = "ssr")]
mod field;
#[cfg(feature = "ssr")]
mod planner_kind;
pub mod priced_form;
#[cfg(feature = "ssr")]
mod submission;
pub mod transcription;

use leptos::prelude::*;
#[cfg(feature = "ssr")]
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::Dataset;
#[cfg(feature = "ssr")]
use undertone_api::id::ConsortiumId;
use undertone_api::id::DatasetId;
use undertone_api::job::{Charge, JobKind, JobParticipant, Measurement, Report, Spec};
#[cfg(feature = "ssr")]
use undertone_api::report::ReportFile;

pub use crate::component::chart::ChartFigure;
#[cfg(feature = "ssr")]
use crate::component::chart::render_still;
#[cfg(feature = "ssr")]
use crate::request::DashboardRequest;
#[cfg(feature = "ssr")]
pub use draft::OpenedDraft;
#[cfg(feature = "ssr")]
pub use planner_kind::PlannerKind;

/// The data of a form: everything that the proposer may see.
#[cfg(feature = "ssr")]
#[derive(Clone)]
pub struct PlannerData {
    /// The request, for further operations.
    pub request: std::sync::Arc<DashboardRequest>,
    /// The consortium of the future job.
    pub consortium: ConsortiumId,
    /// The consortium's datasets that the kind uses.
    pub datasets: Vec<Dataset>,
    /// The balances of their accounts.
    pub standings: Vec<(DatasetId, Vec<AccountStanding>)>,
    /// The query of the page: a saved plan of the kind, or empty.
    pub query: String,
    /// The draft to edit, if any.
    pub opened: Option<OpenedDraft>,
}

/// The words with which pages describe a job of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindTerms {
    /// The use of a participating dataset, to follow its visibility: `trained on`.
    pub participation: &'static str,
    /// The records that a job can protect, in the plural: `recordings`.
    pub records: &'static str,
    /// The effects of an approval by the owner of a public dataset, as a sentence.
    pub public_release: &'static str,
    /// The data that stay at the site, to precede its owner's name.
    pub retention: &'static str,
    /// Whether reports state the speakers of a dataset and the number of units in divisions.
    pub has_unit_counts: bool,
}

/// The display of a kind.
pub trait Card: JobKind {
    /// The type of its result.
    type Result;

    /// The kind's display name.
    const TITLE: &'static str;

    /// The kind's words.
    const TERMS: KindTerms;

    /// Returns whether a job of this kind can begin with `dataset`.
    fn can_begin(dataset: &Dataset) -> bool;

    /// Renders the form in which a job of this kind is planned and proposed; empty if no job can begin with the datasets.
    #[cfg(feature = "ssr")]
    fn form(ground: PlannerData) -> impl Future<Output = AnyView> + Send;

    /// Returns the facts of the job, as pairs of a term and its description.
    fn facts(&self) -> Vec<(&'static str, String)>;

    /// Returns the effects of an approval by the owner of a charged dataset, sentence by sentence.
    fn consent(&self, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String>;

    /// Returns the readers of the releases, given those of a job that releases to its parties.
    fn audience(&self, parties: String) -> String {
        parties
    }

    /// Returns the charts of its measurements: always the same number, whatever their progress.
    fn figures(&self, measurements: &[Measurement]) -> Vec<ChartFigure>;

    /// Renders the result.
    fn result(&self, result: &Self::Result, participants: &[JobParticipant]) -> AnyView;

    /// Renders the result in a sentence, for the job's report.
    #[cfg(feature = "ssr")]
    fn report_headline(&self, report: &ReportFile) -> AnyView;

    /// Renders the sections of the job's report that only this kind has.
    #[cfg(feature = "ssr")]
    fn report_sections(&self, report: &ReportFile) -> AnyView;
}

/// Returns the display name of a kind.
pub const fn title(spec: &Spec) -> &'static str {
    match spec {
        Spec::DpSgd(spec) if spec.model.rows.is_some() => dp_sgd::ROW_TITLE,
        Spec::DpSgd(_) => <undertone_api::job::dp_sgd::Spec as Card>::TITLE,
        Spec::ActiveLearning(_) => <undertone_api::job::active_learning::Spec as Card>::TITLE,
        Spec::Transcription(_) => <undertone_api::job::transcription::Spec as Card>::TITLE,
        Spec::Evaluation(_) => <undertone_api::job::evaluation::Spec as Card>::TITLE,
        Spec::Analytics(_) => <undertone_api::job::analytics::Spec as Card>::TITLE,
    }
}

/// Returns the words of a kind.
pub const fn terms(spec: &Spec) -> KindTerms {
    match spec {
        Spec::DpSgd(spec) if spec.model.rows.is_some() => dp_sgd::ROW_TERMS,
        Spec::DpSgd(_) => <undertone_api::job::dp_sgd::Spec as Card>::TERMS,
        Spec::ActiveLearning(_) => <undertone_api::job::active_learning::Spec as Card>::TERMS,
        Spec::Transcription(_) => <undertone_api::job::transcription::Spec as Card>::TERMS,
        Spec::Evaluation(_) => <undertone_api::job::evaluation::Spec as Card>::TERMS,
        Spec::Analytics(_) => <undertone_api::job::analytics::Spec as Card>::TERMS,
    }
}

/// Calls [`Card::facts`].
pub fn facts(spec: &Spec) -> Vec<(&'static str, String)> {
    match spec {
        Spec::DpSgd(spec) => spec.facts(),
        Spec::ActiveLearning(spec) => spec.facts(),
        Spec::Transcription(spec) => spec.facts(),
        Spec::Evaluation(spec) => spec.facts(),
        Spec::Analytics(spec) => spec.facts(),
    }
}

/// Calls [`Card::consent`].
pub fn consent(spec: &Spec, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
    match spec {
        Spec::DpSgd(spec) => spec.consent(dataset, charge),
        Spec::ActiveLearning(spec) => spec.consent(dataset, charge),
        Spec::Transcription(spec) => spec.consent(dataset, charge),
        Spec::Evaluation(spec) => spec.consent(dataset, charge),
        Spec::Analytics(spec) => spec.consent(dataset, charge),
    }
}

/// Returns whether jobs of this kind ask annotators.
pub fn has_questions(spec: &Spec) -> bool {
    spec.questions().is_some()
}

/// Calls [`Card::audience`].
pub fn audience(spec: &Spec, parties: String) -> String {
    match spec {
        Spec::DpSgd(spec) => spec.audience(parties),
        Spec::ActiveLearning(spec) => spec.audience(parties),
        Spec::Transcription(spec) => spec.audience(parties),
        Spec::Evaluation(spec) => spec.audience(parties),
        Spec::Analytics(spec) => spec.audience(parties),
    }
}

/// Calls [`Card::figures`].
pub fn figures(spec: &Spec, measurements: &[Measurement]) -> Vec<ChartFigure> {
    match spec {
        Spec::DpSgd(spec) => spec.figures(measurements),
        Spec::ActiveLearning(spec) => spec.figures(measurements),
        Spec::Transcription(spec) => spec.figures(measurements),
        Spec::Evaluation(spec) => spec.figures(measurements),
        Spec::Analytics(spec) => spec.figures(measurements),
    }
}

/// Calls [`Card::result`]; empty if the result is of another kind than the spec.
pub fn result(spec: &Spec, report: &Report, participants: &[JobParticipant]) -> AnyView {
    match (spec, report) {
        (Spec::DpSgd(spec), Report::DpSgd(result)) => spec.result(result, participants),
        (Spec::ActiveLearning(spec), Report::ActiveLearning(result)) => spec.result(result, participants),
        (Spec::Transcription(spec), Report::Transcription(result)) => spec.result(result, participants),
        (Spec::Evaluation(spec), Report::Evaluation(result)) => spec.result(result, participants),
        (Spec::Analytics(spec), Report::Analytics(result)) => spec.result(result, participants),
        (
            Spec::DpSgd(_)
            | Spec::ActiveLearning(_)
            | Spec::Transcription(_)
            | Spec::Evaluation(_)
            | Spec::Analytics(_),
            _,
        ) => ().into_any(),
    }
}

/// Calls [`Card::report_headline`].
#[cfg(feature = "ssr")]
pub fn render_report_headline(report: &ReportFile) -> AnyView {
    match report.spec() {
        Spec::DpSgd(spec) => spec.report_headline(report),
        Spec::ActiveLearning(spec) => spec.report_headline(report),
        Spec::Transcription(spec) => spec.report_headline(report),
        Spec::Evaluation(spec) => spec.report_headline(report),
        Spec::Analytics(spec) => spec.report_headline(report),
    }
}

/// Calls [`Card::report_sections`].
#[cfg(feature = "ssr")]
pub fn render_report_sections(report: &ReportFile) -> AnyView {
    match report.spec() {
        Spec::DpSgd(spec) => spec.report_sections(report),
        Spec::ActiveLearning(spec) => spec.report_sections(report),
        Spec::Transcription(spec) => spec.report_sections(report),
        Spec::Evaluation(spec) => spec.report_sections(report),
        Spec::Analytics(spec) => spec.report_sections(report),
    }
}

/// Renders the rehearsals of a job on public data; empty without one, and for kinds that are not rehearsed.
#[cfg(feature = "ssr")]
pub fn render_rehearsals(
    consortium: ConsortiumId,
    spec: &Spec,
    rehearsals: &[undertone_api::plan::PlanRehearsal],
) -> AnyView {
    match spec {
        Spec::DpSgd(spec) => dp_sgd::rehearsal::render_rehearsals(consortium, &spec.model, rehearsals),
        Spec::ActiveLearning(_) | Spec::Transcription(_) | Spec::Evaluation(_) | Spec::Analytics(_) => ().into_any(),
    }
}

/// Renders the links of a rehearsal job to the plans that it rehearsed; empty for another job.
#[cfg(feature = "ssr")]
pub fn render_plan_links(consortium: ConsortiumId, job: &undertone_api::job::Job, datasets: &[Dataset]) -> AnyView {
    match &job.spec {
        Spec::DpSgd(spec) => {
            let (title, report) = (&job.summary.title, job.report.as_ref());
            dp_sgd::rehearsal::render_plan_links(consortium, title, spec, report, datasets)
        }
        Spec::ActiveLearning(_) | Spec::Transcription(_) | Spec::Evaluation(_) | Spec::Analytics(_) => ().into_any(),
    }
}

/// Renders the charts that have measurements, for pages that are read and printed.
#[cfg(feature = "ssr")]
fn render_curves(figures: &[ChartFigure]) -> AnyView {
    let charts = figures.iter().filter(|figure| !figure.lines.is_empty()).map(render_still).collect_view();
    view! { <section class="charts" aria-label="Learning curves">{charts}</section> }.into_any()
}
