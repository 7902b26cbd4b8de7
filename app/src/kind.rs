//! The third part of a job kind: its display.
//!
//! `kind/<kind>.rs` implements [`Card`] for the kind's spec: the planner's form, the facts of a proposed job, an
//! owner's consent, the charts of a running job, the result of a finished one. The functions below match every kind, so
//! a kind without a display does not compile.

pub mod active_learning;
pub mod dp_sgd;
#[cfg(feature = "ssr")]
mod field;
#[cfg(feature = "ssr")]
mod opened;
#[cfg(feature = "ssr")]
mod posted;
pub mod transcription;
pub mod weighed;

use leptos::prelude::*;
#[cfg(feature = "ssr")]
use undertone_api::dataset::Dataset;
#[cfg(feature = "ssr")]
use undertone_api::id::ConsortiumId;
use undertone_api::id::DatasetId;
use undertone_api::job::{Charge, Kind, Measurement, Participant, Report, Spec};

pub use crate::component::chart::Figure;
#[cfg(feature = "ssr")]
use crate::standing::Standing;
#[cfg(feature = "ssr")]
pub use opened::Opened;

/// The data of a form: everything that the proposer may see.
#[cfg(feature = "ssr")]
#[derive(Clone)]
pub struct Ground {
    /// The backend for further requests.
    pub backend: std::sync::Arc<dyn crate::backend::Backend>,
    /// The consortium of the future job.
    pub consortium: ConsortiumId,
    /// The consortium's datasets.
    pub datasets: Vec<Dataset>,
    /// The balances of their accounts.
    pub standings: Vec<(DatasetId, Vec<Standing>)>,
    /// The query of the page: a saved plan, or empty.
    pub query: String,
    /// The draft to edit, if any.
    pub opened: Option<Opened>,
}

/// The display of a kind.
pub trait Card: Kind {
    /// The type of its result.
    type Result;

    /// The kind's display name.
    const TITLE: &'static str;

    /// Renders the form in which a job of this kind is planned and proposed.
    #[cfg(feature = "ssr")]
    fn form(ground: Ground) -> impl Future<Output = AnyView> + Send;

    /// Returns the facts of the job, as pairs of a term and its description.
    fn facts(&self) -> Vec<(&'static str, String)>;

    /// Returns the effects of an approval by the owner of a charged dataset, sentence by sentence.
    fn consent(&self, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String>;

    /// Returns the charts of its measurements: always the same number, whatever their progress.
    fn figures(&self, measurements: &[Measurement]) -> Vec<Figure>;

    /// Renders the result.
    fn result(&self, result: &Self::Result, participants: &[Participant]) -> AnyView;
}

/// Returns the display name of a kind.
pub const fn title(spec: &Spec) -> &'static str {
    match spec {
        Spec::DpSgd(_) => <undertone_api::job::dp_sgd::Spec as Card>::TITLE,
        Spec::ActiveLearning(_) => <undertone_api::job::active_learning::Spec as Card>::TITLE,
        Spec::Transcription(_) => <undertone_api::job::transcription::Spec as Card>::TITLE,
    }
}

/// Renders the forms of the kinds with suitable data, with their titles; each receives the data of its content. For an
/// opened draft, only the form of its kind.
#[cfg(feature = "ssr")]
pub async fn forms(ground: Ground) -> Vec<(&'static str, AnyView)> {
    use undertone_api::dataset::{Content, Visibility};
    use undertone_api::job::{active_learning, dp_sgd, transcription};
    let of = |content| {
        let mut own = ground.clone();
        own.datasets.retain(|dataset| dataset.content == content);
        own.standings.retain(|(id, _)| own.datasets.iter().any(|dataset| dataset.id == *id));
        own
    };
    let (speech, queries, recordings) = (of(Content::Speech), of(Content::Queries), of(Content::Recordings));
    let wanted = ground.opened.as_ref().map(|opened| opened.draft.content.kind.clone());
    let wanted = |kind: &str| wanted.as_deref().is_none_or(|wanted| wanted == kind);
    let mut forms = Vec::new();
    if wanted(dp_sgd::Spec::NAME) && speech.datasets.iter().any(|dataset| dataset.visibility == Visibility::Public) {
        forms.push((dp_sgd::Spec::TITLE, dp_sgd::Spec::form(speech).await));
    }
    if wanted(active_learning::Spec::NAME) && !queries.datasets.is_empty() {
        forms.push((active_learning::Spec::TITLE, active_learning::Spec::form(queries).await));
    }
    if wanted(transcription::Spec::NAME) && !recordings.datasets.is_empty() {
        forms.push((transcription::Spec::TITLE, transcription::Spec::form(recordings).await));
    }
    forms
}

/// Calls [`Card::facts`].
pub fn facts(spec: &Spec) -> Vec<(&'static str, String)> {
    match spec {
        Spec::DpSgd(spec) => spec.facts(),
        Spec::ActiveLearning(spec) => spec.facts(),
        Spec::Transcription(spec) => spec.facts(),
    }
}

/// Calls [`Card::consent`].
pub fn consent(spec: &Spec, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
    match spec {
        Spec::DpSgd(spec) => spec.consent(dataset, charge),
        Spec::ActiveLearning(spec) => spec.consent(dataset, charge),
        Spec::Transcription(spec) => spec.consent(dataset, charge),
    }
}

/// Calls [`Card::figures`].
pub fn figures(spec: &Spec, measurements: &[Measurement]) -> Vec<Figure> {
    match spec {
        Spec::DpSgd(spec) => spec.figures(measurements),
        Spec::ActiveLearning(spec) => spec.figures(measurements),
        Spec::Transcription(spec) => spec.figures(measurements),
    }
}

/// Calls [`Card::result`]; empty if the result is of another kind than the spec.
pub fn result(spec: &Spec, report: &Report, participants: &[Participant]) -> AnyView {
    match (spec, report) {
        (Spec::DpSgd(spec), Report::DpSgd(result)) => spec.result(result, participants),
        (Spec::ActiveLearning(spec), Report::ActiveLearning(result)) => spec.result(result, participants),
        (Spec::Transcription(spec), Report::Transcription(result)) => spec.result(result, participants),
        (Spec::DpSgd(_) | Spec::ActiveLearning(_) | Spec::Transcription(_), _) => ().into_any(),
    }
}
