//! The display of `transcription`: the planner, an owner's consent, the promises, and the result for public recordings.
//!
//! All of it is rendered on the server and works without a script; with one, the planner's numbers follow its form.

mod description;
#[cfg(feature = "ssr")]
mod plan;
#[cfg(feature = "ssr")]
mod planner;
mod promises;
#[cfg(feature = "ssr")]
mod report;
mod result;
#[cfg(all(test, feature = "ssr"))]
mod tests;

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, DatasetContent};
use undertone_api::id::DatasetId;
use undertone_api::job::transcription::{Report, Spec};
use undertone_api::job::{Charge, JobParticipant, Measurement};
#[cfg(feature = "ssr")]
use undertone_api::report::ReportFile;

#[cfg(feature = "ssr")]
use super::PlannerData;
use super::{Card, KindTerms};
use crate::component::chart::ChartFigure;

#[cfg(feature = "ssr")]
pub use plan::{RecognizerRow, TranscriptionPlan};
#[cfg(feature = "ssr")]
pub use planner::{propose_transcription, save_transcription, weigh_transcription};

impl Card for Spec {
    type Result = Report;

    const TITLE: &'static str = "Private transcription by cloud recognizers";

    const TERMS: KindTerms = KindTerms {
        participation: "transcribed",
        records: "recordings",
        public_release: "The recordings are public: they are sent to the recognizers, and nothing is charged.",
        retention: "The transcript stays at the site of",
        has_unit_counts: false,
    };

    fn can_begin(dataset: &Dataset) -> bool {
        dataset.content == DatasetContent::Recordings
    }

    #[cfg(feature = "ssr")]
    async fn form(ground: PlannerData) -> AnyView {
        let PlannerData { consortium, datasets, standings, query, opened, .. } = ground;
        let Some(first) = TranscriptionPlan::first(&datasets, &standings) else {
            return ().into_any();
        };
        let (plan, notice) = opened.map_or((first.clone(), None), |opened| {
            let content = &opened.draft.content;
            let first = TranscriptionPlan { title: content.title.clone(), ..first };
            let convert = |spec: &Self, first| TranscriptionPlan::from_spec(&content.title, spec, first);
            let (plan, lost) = super::draft::restore_plan(&content.spec, first, |plan| plan.spec().ok(), convert);
            (plan, Some(super::draft::render_notice(&opened, planner::FORM, planner::SAVE, &lost)))
        });
        let plan = TranscriptionPlan::from_query(&query).unwrap_or(plan);
        let form = planner::render_planner(&plan, &datasets, &standings, consortium);
        view! { {notice}{form} }.into_any()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        description::list_facts(self)
    }

    fn consent(&self, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
        description::describe_consent(self, dataset, charge)
    }

    fn audience(&self, _: String) -> String {
        "the recognizers named above; this server sees none of it".to_owned()
    }

    fn figures(&self, _: &[Measurement]) -> Vec<ChartFigure> {
        // Nothing is measured during the run: a figure of private recordings would be a release.
        Vec::new()
    }

    fn result(&self, result: &Report, participants: &[JobParticipant]) -> AnyView {
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
