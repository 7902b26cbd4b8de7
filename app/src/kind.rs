//! The third face of a job kind: how it looks.
//!
//! `kind/<kind>.rs` implements [`Card`] for the kind's spec: the form in which it is planned, the facts of a proposed job,
//! the charts of a running one, the result of a finished one. The functions below match every kind, so a kind without a
//! face does not compile.

pub mod dp_sgd;

use leptos::prelude::*;
#[cfg(feature = "ssr")]
use undertone_api::dataset::Dataset;
#[cfg(feature = "ssr")]
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_api::job::{Kind, Measurement, Participant, Report, Spec};

pub use crate::component::chart::Figure;
#[cfg(feature = "ssr")]
use crate::standing::Standing;

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

    /// The charts of its measurements: always as many, whatever was measured so far.
    fn figures(&self, measurements: &[Measurement]) -> Vec<Figure>;

    /// The result.
    fn result(&self, result: &Self::Result, participants: &[Participant]) -> AnyView;
}

/// The name of a kind for people.
pub const fn title(spec: &Spec) -> &'static str {
    match spec {
        Spec::DpSgd(_) => <undertone_api::job::dp_sgd::Spec as Card>::TITLE,
    }
}

/// The forms of every kind, with their titles.
#[cfg(feature = "ssr")]
pub async fn forms(ground: Ground) -> Vec<(&'static str, AnyView)> {
    use undertone_api::job::dp_sgd;
    vec![(dp_sgd::Spec::TITLE, dp_sgd::Spec::form(ground).await)]
}

/// See [`Card::facts`].
pub fn facts(spec: &Spec) -> Vec<(&'static str, String)> {
    match spec {
        Spec::DpSgd(spec) => spec.facts(),
    }
}

/// See [`Card::figures`].
pub fn figures(spec: &Spec, measurements: &[Measurement]) -> Vec<Figure> {
    match spec {
        Spec::DpSgd(spec) => spec.figures(measurements),
    }
}

/// See [`Card::result`]; nothing when the result is of another kind than the spec.
pub fn result(spec: &Spec, report: &Report, participants: &[Participant]) -> AnyView {
    match (spec, report) {
        (Spec::DpSgd(spec), Report::DpSgd(result)) => spec.result(result, participants),
    }
}
