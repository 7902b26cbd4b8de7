//! The display of `transcription`: the planner, an owner's consent, the promises, and the result for public recordings.
//!
//! All of it is rendered on the server and works without a script; with one, the planner's numbers follow its form.

#[cfg(feature = "ssr")]
mod plan;
#[cfg(feature = "ssr")]
mod planner;
#[cfg(feature = "ssr")]
mod report;
mod result;
mod said;
#[cfg(all(test, feature = "ssr"))]
mod tests;

use leptos::prelude::*;
use undertone_api::dataset::{Content, Dataset};
use undertone_api::id::DatasetId;
use undertone_api::job::transcription::{Report, Spec};
use undertone_api::job::{Charge, Measurement, Participant};
#[cfg(feature = "ssr")]
use undertone_api::report::ReportFile;

#[cfg(feature = "ssr")]
use super::Ground;
use super::{Card, KindTerms};
use crate::component::chart::Figure;

#[cfg(feature = "ssr")]
pub use plan::{Heard, Plan};
#[cfg(feature = "ssr")]
pub use planner::{propose_transcription, save_transcription, weigh_transcription};

impl Card for Spec {
    type Result = Report;

    const TITLE: &'static str = "Private transcription by cloud recognizers";

    const TERMS: KindTerms = KindTerms {
        participation: "transcribed",
        records: "recordings",
        public_release: "The recordings are public: they are sent to the recognizers, and nothing is charged.",
        retention: "The transcript never leaves",
        has_unit_counts: false,
    };

    fn can_begin(dataset: &Dataset) -> bool {
        dataset.content == Content::Recordings
    }

    #[cfg(feature = "ssr")]
    async fn form(ground: Ground) -> AnyView {
        let Ground { consortium, datasets, standings, query, opened, .. } = ground;
        let Some(first) = Plan::first(&datasets, &standings) else {
            return view! {
                <p class="hint">"Recordings can be transcribed once a dataset of recordings is registered here."</p>
            }
            .into_any();
        };
        let (plan, told) = opened.map_or((first.clone(), None), |opened| {
            let content = &opened.draft.content;
            let first = Plan { title: content.title.clone(), ..first };
            let of = |spec: &Self, first| Plan::of(&content.title, spec, first);
            let (plan, lost) = super::opened::reopened(&content.spec, first, |plan| plan.spec().ok(), of);
            (plan, Some(super::opened::notice(&opened, planner::FORM, planner::SAVE, &lost)))
        });
        let plan = Plan::from_query(&query).unwrap_or(plan);
        let form = planner::planner(&plan, &datasets, &standings, consortium);
        view! { {told}{form} }.into_any()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        said::facts(self)
    }

    fn consent(&self, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
        said::consent(self, dataset, charge)
    }

    fn audience(&self, _: String) -> String {
        "the recognizers that are named above; this server sees none of it".to_owned()
    }

    fn figures(&self, _: &[Measurement]) -> Vec<Figure> {
        // Nothing is measured during the run: a figure of private recordings would be a release.
        Vec::new()
    }

    fn result(&self, result: &Report, participants: &[Participant]) -> AnyView {
        result::render_result(result, participants)
    }

    #[cfg(feature = "ssr")]
    fn report_headline(&self, report: &ReportFile) -> AnyView {
        report::render_headline(self, report)
    }

    #[cfg(feature = "ssr")]
    fn report_sections(&self, report: &ReportFile) -> AnyView {
        report::render_sections(report)
    }
}
