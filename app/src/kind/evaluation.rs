//! The display of `evaluation`: the planner, an owner's consent, and the metrics with their intervals.
//!
//! All of it is rendered on the server and works without a script; with one, the planner's numbers follow its form.

mod description;
#[cfg(feature = "ssr")]
mod plan;
#[cfg(feature = "ssr")]
mod planner;
pub(super) mod result;
#[cfg(all(test, feature = "ssr"))]
mod tests;

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, DatasetContent, Visibility};
use undertone_api::id::DatasetId;
#[cfg(feature = "ssr")]
use undertone_api::job::Report as AnyReport;
use undertone_api::job::evaluation::{Report, Spec};
use undertone_api::job::{Charge, JobParticipant, Measurement};
#[cfg(feature = "ssr")]
use undertone_api::report::ReportFile;

#[cfg(feature = "ssr")]
use super::PlannerData;
use super::{Card, KindTerms};
use crate::component::chart::ChartFigure;

#[cfg(feature = "ssr")]
pub use plan::{EvaluationPart, EvaluationPlan};
#[cfg(feature = "ssr")]
pub use planner::{propose_evaluation, save_evaluation, weigh_evaluation};

/// Returns whether models are evaluated on data of this content.
fn is_evaluated(dataset: &Dataset) -> bool {
    matches!(dataset.content, DatasetContent::Speech | DatasetContent::Table)
}

impl Card for Spec {
    type Result = Report;

    const TITLE: &'static str = "Private evaluation of a model";

    const TERMS: KindTerms = KindTerms {
        participation: "evaluated on",
        records: "records",
        public_release: "The data are public: their site provides the model, releases nothing of them, and nothing is charged.",
        retention: "The data stay at the site of",
        has_unit_counts: false,
    };

    fn can_begin(dataset: &Dataset) -> bool {
        is_evaluated(dataset) && dataset.visibility == Visibility::Public
    }

    #[cfg(feature = "ssr")]
    async fn form(ground: PlannerData) -> AnyView {
        let PlannerData { consortium, datasets, standings, query, opened, .. } = ground;
        let Some(first) = EvaluationPlan::first(&datasets) else {
            return ().into_any();
        };
        let (plan, notice) = opened.map_or((first.clone(), None), |opened| {
            let content = &opened.draft.content;
            let first = EvaluationPlan { title: content.title.clone(), ..first };
            let convert = |spec: &Self, first| EvaluationPlan::from_spec(&content.title, spec, &first);
            let (plan, lost) = super::draft::restore_plan(&content.spec, first, |plan| plan.spec().ok(), convert);
            (plan, Some(super::draft::render_notice(&opened, planner::FORM, planner::SAVE, &lost)))
        });
        let plan = EvaluationPlan::from_query(&query).unwrap_or(plan);
        let form = planner::render_planner(&plan, &datasets, &standings, consortium);
        view! { {notice}{form} }.into_any()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        description::list_facts(self)
    }

    fn consent(&self, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
        description::describe_consent(self, dataset, charge)
    }

    fn figures(&self, _: &[Measurement]) -> Vec<ChartFigure> {
        // Nothing is measured during the run: a figure of private data would be a release.
        Vec::new()
    }

    fn result(&self, result: &Report, _: &[JobParticipant]) -> AnyView {
        result::render_result(result)
    }

    #[cfg(feature = "ssr")]
    fn report_headline(&self, file: &ReportFile) -> AnyView {
        let text = match &file.outcome {
            Some(AnyReport::Evaluation(report)) => result::summarize(report),
            _ => "The sites have not released their histograms yet.".to_owned(),
        };
        view! { <p class="headline">{text}</p> }.into_any()
    }

    #[cfg(feature = "ssr")]
    fn report_sections(&self, file: &ReportFile) -> AnyView {
        let Some(AnyReport::Evaluation(report)) = &file.outcome else { return ().into_any() };
        view! { <section class="panel"><h2>"Accuracy on private test sets"</h2>{result::render_result(report)}</section> }
            .into_any()
    }
}
