//! The display of `active_learning`: the planner, the classifier's learning curves, the result.

mod description;
mod plan;
#[cfg(feature = "ssr")]
mod planner;
#[cfg(feature = "ssr")]
mod report;
mod result;
#[cfg(all(test, feature = "ssr"))]
mod tests;

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, DatasetContent};
use undertone_api::id::DatasetId;
use undertone_api::job::active_learning::{Report, Spec};
use undertone_api::job::{Charge, JobParticipant, Measurement};
#[cfg(feature = "ssr")]
use undertone_api::report::ReportFile;

#[cfg(feature = "ssr")]
use super::PlannerData;
use super::{Card, KindTerms};
use crate::component::chart::ChartFigure;

pub use plan::{LogPart, MeasurementPlan, QuestionPlan, RehearsalPlan, TrainingPlan};
#[cfg(feature = "ssr")]
pub use planner::{propose_questions, save_questions, weigh_questions};

/// Reads a draft as a plan; also returns the paths that the plan cannot represent.
#[cfg(feature = "ssr")]
fn restore_plan(
    draft: &undertone_api::job::NewDraft,
    first: QuestionPlan,
    datasets: &[Dataset],
) -> (QuestionPlan, Vec<String>) {
    let first = QuestionPlan { title: draft.title.clone(), ..first };
    super::draft::restore_plan(
        &draft.spec,
        first,
        |plan| plan.spec(datasets).ok(),
        |spec, first| QuestionPlan::from_spec(&draft.title, spec, first),
    )
}

impl Card for Spec {
    type Result = Report;

    const TITLE: &'static str = "Active learning with private questions";

    const TERMS: KindTerms = KindTerms {
        participation: "its questions",
        records: "rows of the log",
        public_release: "The data are public: exact gradients leave the site, and nothing is charged.",
        retention: "The log itself stays at the site of",
        has_unit_counts: false,
    };

    fn can_begin(dataset: &Dataset) -> bool {
        dataset.content == DatasetContent::Queries && dataset.classes > 0
    }

    #[cfg(feature = "ssr")]
    async fn form(ground: PlannerData) -> AnyView {
        let PlannerData { consortium, datasets, standings, query, opened, .. } = ground;
        let Some(first) = QuestionPlan::first(&datasets, &standings) else {
            return ().into_any();
        };
        let (plan, notice) = opened.map_or((first.clone(), None), |opened| {
            let (plan, lost) = restore_plan(&opened.draft.content, first, &datasets);
            (plan, Some(super::draft::render_notice(&opened, planner::FORM, planner::SAVE, &lost)))
        });
        let plan = QuestionPlan::from_query(&query).unwrap_or(plan);
        let form = planner::render_planner(&plan, &datasets, &standings, consortium);
        view! { {notice}{form} }.into_any()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        description::list_facts(self)
    }

    fn consent(&self, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
        description::describe_consent(self, dataset, charge)
    }

    fn audience(&self, parties: String) -> String {
        // Annotators need not belong to any organization.
        format!("{parties}, and the annotators")
    }

    fn figures(&self, measurements: &[Measurement]) -> Vec<ChartFigure> {
        result::list_figures(self, measurements)
    }

    fn result(&self, result: &Report, participants: &[JobParticipant]) -> AnyView {
        result::render_result(self, result, participants)
    }

    #[cfg(feature = "ssr")]
    fn report_headline(&self, file: &ReportFile) -> AnyView {
        report::render_headline(&report::LearningReport::new(self, file))
    }

    #[cfg(feature = "ssr")]
    fn report_sections(&self, file: &ReportFile) -> AnyView {
        let sections = report::LearningReport::new(self, file).render_sections();
        sections.unwrap_or_else(|| super::render_curves(&self.figures(&file.measurements)))
    }
}
