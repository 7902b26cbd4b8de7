//! The display of `analytics`: the planner with its SQL text, an owner's consent, and the numbers with their intervals.
//!
//! All of it is rendered on the server and works without a script; with one, the planner's numbers follow its form.

mod description;
#[cfg(feature = "ssr")]
mod goal;
#[cfg(feature = "ssr")]
mod plan;
#[cfg(feature = "ssr")]
mod planner;
mod result;
#[cfg(feature = "ssr")]
mod template;
#[cfg(all(test, feature = "ssr"))]
mod tests;

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, DatasetContent};
use undertone_api::id::DatasetId;
#[cfg(feature = "ssr")]
use undertone_api::job::Report as AnyReport;
use undertone_api::job::analytics::{Report, Spec};
use undertone_api::job::{Charge, JobParticipant, Measurement};
#[cfg(feature = "ssr")]
use undertone_api::report::ReportFile;

#[cfg(feature = "ssr")]
use super::PlannerData;
use super::{Card, KindTerms};
use crate::component::chart::ChartFigure;

#[cfg(feature = "ssr")]
pub use plan::{AnalyticsPart, AnalyticsPlan};
#[cfg(feature = "ssr")]
pub use planner::{propose_analytics, save_analytics, weigh_analytics};

impl Card for Spec {
    type Result = Report;

    const TITLE: &'static str = "Queries on tables";

    const TERMS: KindTerms = KindTerms {
        participation: "queried",
        records: "units",
        public_release: "The table is public: sums over its rows leave its site, and nothing is charged.",
        retention: "The rows stay at the site of",
        has_unit_counts: false,
    };

    fn can_begin(dataset: &Dataset) -> bool {
        dataset.content == DatasetContent::Table && dataset.table.is_some()
    }

    #[cfg(feature = "ssr")]
    async fn form(ground: PlannerData) -> AnyView {
        let PlannerData { consortium, datasets, standings, query, opened, .. } = ground;
        let Some(first) = AnalyticsPlan::first(&datasets) else {
            return ().into_any();
        };
        let (plan, notice) = opened.map_or((first.clone(), None), |opened| {
            let content = &opened.draft.content;
            let first = AnalyticsPlan { title: content.title.clone(), ..first };
            let convert = |spec: &Self, first| AnalyticsPlan::from_spec(&content.title, spec, &datasets, &first);
            let read = |plan: &AnalyticsPlan| plan.spec(&datasets).ok();
            let (plan, lost) = super::draft::restore_plan(&content.spec, first, read, convert);
            (plan, Some(super::draft::render_notice(&opened, planner::FORM, planner::SAVE, &lost)))
        });
        let plan = AnalyticsPlan::from_query(&query).unwrap_or(plan);
        let form = planner::render_planner(&plan, &datasets, &standings, consortium);
        view! { {notice}{form} }.into_any()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        description::list_facts(self)
    }

    fn consent(&self, _: DatasetId, charge: Option<&Charge>) -> Vec<String> {
        description::describe_consent(self, charge)
    }

    fn figures(&self, _: &[Measurement]) -> Vec<ChartFigure> {
        // Nothing is measured during the run: a figure of private data would be a release.
        Vec::new()
    }

    fn result(&self, result: &Report, participants: &[JobParticipant]) -> AnyView {
        let names = participants.iter().map(|party| (party.dataset, party.dataset_name.clone()));
        result::render_result(result, &names.collect())
    }

    #[cfg(feature = "ssr")]
    fn report_headline(&self, file: &ReportFile) -> AnyView {
        let text = match &file.outcome {
            Some(AnyReport::Analytics(report)) => result::summarize(report),
            _ => "The sites have not released their vectors yet.".to_owned(),
        };
        view! { <p class="headline">{text}</p> }.into_any()
    }

    #[cfg(feature = "ssr")]
    fn report_sections(&self, file: &ReportFile) -> AnyView {
        let Some(AnyReport::Analytics(report)) = &file.outcome else { return ().into_any() };
        let names = file.datasets.iter().map(|used| (used.dataset, used.name.clone())).collect();
        view! { <section class="panel"><h2>"Numbers of the sites"</h2>{result::render_result(report, &names)}</section> }
            .into_any()
    }
}
