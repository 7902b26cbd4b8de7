//! The third face of a job kind: how it looks.
//!
//! `kind/<kind>.rs` implements [`Card`] for the kind's spec: the form in which it is planned, the facts of a proposed job, what
//! an owner consents to, the charts of a running one, the result of a finished one. The functions below match every kind, so a kind without a
//! face does not compile.

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

/// What a form may know: everything the proposer may see.
#[cfg(feature = "ssr")]
#[derive(Clone)]
pub struct Ground {
    /// Whom to ask for more.
    pub backend: std::sync::Arc<dyn crate::backend::Backend>,
    /// Where the job is to be proposed.
    pub consortium: ConsortiumId,
    /// The consortium's datasets.
    pub datasets: Vec<Dataset>,
    /// The balances of their accounts.
    pub standings: Vec<(DatasetId, Vec<Standing>)>,
    /// The query of the page: a plan that was begun, or nothing.
    pub query: String,
    /// The draft that is to be changed, if one is.
    pub opened: Option<Opened>,
}

/// How a kind looks.
pub trait Card: Kind {
    /// What the result is.
    type Result;

    /// The kind's name for people.
    const TITLE: &'static str;

    /// The form in which a job of this kind is planned and proposed.
    #[cfg(feature = "ssr")]
    fn form(ground: Ground) -> impl Future<Output = AnyView> + Send;

    /// What the job will do, as pairs of a term and what holds for it.
    fn facts(&self) -> Vec<(&'static str, String)>;

    /// What the owner of a dataset that is charged lets happen by approving, sentence by sentence.
    fn consent(&self, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String>;

    /// The charts of its measurements: always as many, whatever was measured so far.
    fn figures(&self, measurements: &[Measurement]) -> Vec<Figure>;

    /// The result.
    fn result(&self, result: &Self::Result, participants: &[Participant]) -> AnyView;
}

/// The name of a kind for people.
pub const fn title(spec: &Spec) -> &'static str {
    match spec {
        Spec::DpSgd(_) => <undertone_api::job::dp_sgd::Spec as Card>::TITLE,
        Spec::ActiveLearning(_) => <undertone_api::job::active_learning::Spec as Card>::TITLE,
        Spec::Transcription(_) => <undertone_api::job::transcription::Spec as Card>::TITLE,
    }
}

/// The forms of the kinds for which there are data, with their titles; each is given the data that it works on. Of a draft
/// that is opened there is the form of its kind only.
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

/// See [`Card::facts`].
pub fn facts(spec: &Spec) -> Vec<(&'static str, String)> {
    match spec {
        Spec::DpSgd(spec) => spec.facts(),
        Spec::ActiveLearning(spec) => spec.facts(),
        Spec::Transcription(spec) => spec.facts(),
    }
}

/// See [`Card::consent`].
pub fn consent(spec: &Spec, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
    match spec {
        Spec::DpSgd(spec) => spec.consent(dataset, charge),
        Spec::ActiveLearning(spec) => spec.consent(dataset, charge),
        Spec::Transcription(spec) => spec.consent(dataset, charge),
    }
}

/// See [`Card::figures`].
pub fn figures(spec: &Spec, measurements: &[Measurement]) -> Vec<Figure> {
    match spec {
        Spec::DpSgd(spec) => spec.figures(measurements),
        Spec::ActiveLearning(spec) => spec.figures(measurements),
        Spec::Transcription(spec) => spec.figures(measurements),
    }
}

/// See [`Card::result`]; nothing when the result is of another kind than the spec.
pub fn result(spec: &Spec, report: &Report, participants: &[Participant]) -> AnyView {
    match (spec, report) {
        (Spec::DpSgd(spec), Report::DpSgd(result)) => spec.result(result, participants),
        (Spec::ActiveLearning(spec), Report::ActiveLearning(result)) => spec.result(result, participants),
        (Spec::Transcription(spec), Report::Transcription(result)) => spec.result(result, participants),
        (Spec::DpSgd(_) | Spec::ActiveLearning(_) | Spec::Transcription(_), _) => ().into_any(),
    }
}
