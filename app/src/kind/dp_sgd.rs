//! The display of `dp_sgd`: the planner, the arms' learning curves, the comparison table.

mod description;
mod plan;
mod planner;
mod price;
pub(super) mod rehearsal;
#[cfg(feature = "ssr")]
mod report;
mod result;

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, DatasetContent, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::dp_sgd::{Arm, Report, Spec};
use undertone_api::job::{Charge, JobParticipant, Measurement};
#[cfg(feature = "ssr")]
use undertone_api::report::ReportFile;

#[cfg(feature = "ssr")]
use super::PlannerData;
use super::{Card, KindTerms};
use crate::component::chart::ChartFigure;
use crate::words;

#[cfg(feature = "ssr")]
pub(super) use plan::can_predict_rows;
pub use plan::{
    DatasetPart, FrozenParts, GroupPlan, ModelLayers, ScheduleShape, SelectionPlan, StepOptimizer, StepOptions,
    TermPlan, TermPlans, TrainingPlan,
};
pub use planner::{Planner, propose_training, rehearse_training, save_training};
pub use price::{MaskEffect, PartyVerdict, PlanPrices, TermEffect, price_plan};

/// Reads a draft as a plan; also returns the paths that the plan cannot represent.
#[cfg(feature = "ssr")]
fn restore_plan(
    draft: &undertone_api::job::NewDraft,
    first: TrainingPlan,
    datasets: &[Dataset],
) -> (TrainingPlan, Vec<String>) {
    let first = TrainingPlan { title: draft.title.clone(), ..first };
    super::draft::restore_plan(
        &draft.spec,
        first,
        |plan| plan.spec(datasets).ok(),
        |spec, first| TrainingPlan::from_spec(&draft.title, spec, &first),
    )
}

/// The name of a job on tables.
pub(super) const ROW_TITLE: &str = "Federated model of rows";
/// The terms of a job on tables.
pub(super) const ROW_TERMS: KindTerms = KindTerms {
    participation: "trained on",
    records: "rows",
    public_release: "The data are public: exact gradients leave the site, and nothing is charged.",
    retention: "The rows stay at the site of",
    has_unit_counts: true,
};

impl Card for Spec {
    type Result = Report;

    const TITLE: &'static str = "Federated acoustic model";

    const TERMS: KindTerms = KindTerms {
        participation: "trained on",
        records: "recordings",
        public_release: "The data are public: exact gradients leave the site, and nothing is charged.",
        retention: "The recordings stay at the site of",
        has_unit_counts: true,
    };

    fn can_begin(dataset: &Dataset) -> bool {
        matches!(dataset.content, DatasetContent::Speech | DatasetContent::Table)
            && dataset.visibility == Visibility::Public
    }

    #[cfg(feature = "ssr")]
    async fn form(ground: PlannerData) -> AnyView {
        let PlannerData { request, consortium, datasets, standings, query, opened } = ground;
        let Some(first) = TrainingPlan::first(&datasets, &standings) else {
            return ().into_any();
        };
        let (plan, notice) = opened.map_or((first.clone(), None), |opened| {
            let (plan, lost) = restore_plan(&opened.draft.content, first, &datasets);
            (plan, Some(super::draft::render_notice(&opened, planner::FORM, planner::SAVE, &lost)))
        });
        let plan = TrainingPlan::from_query(&query).unwrap_or(plan);
        // The page is correct without them: a job can always begin with random parameters.
        let initials = planner::initial::fetch_choices(&request, consortium, &datasets).await;
        let plan = if planner::initial::is_adopting(&query) { plan.with_initial_layers(&initials) } else { plan };
        let tight = planner::tight::fetch_tight_numbers(&request, consortium, &plan, &datasets).await;
        view! { {notice}<Planner consortium datasets standings initials plan tight/> }.into_any()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![
            ("Protects", format!("each {} in every private dataset", words::unit(self.unit))),
            ("Model", description::describe_model(&self.model)),
            (
                "Warm start",
                format!(
                    "{} over the public data, batches of {}, learning rate {}",
                    words::plural(self.warm_start.epochs.into(), "pass").replace("passs", "passes"),
                    self.warm_start.batch,
                    words::number(self.warm_start.learning_rate)
                ),
            ),
        ];
        facts.extend(
            self.initial_model.as_deref().map(|digest| ("Initial model", description::describe_initial(digest))),
        );
        facts.extend(self.rehearsal.as_deref().into_iter().flat_map(rehearsal::list_facts));
        for (arm, term) in [(Arm::Open, "Open arm"), (Arm::Private, "Private arm")] {
            facts.extend(self.rounds(arm).map(|rounds| (term, description::describe_rounds(rounds))));
        }
        facts.extend(description::describe_clipping(self).map(|clipping| ("Clipping", clipping)));
        facts
            .extend(self.selection.as_ref().map(|selection| ("Selection", description::describe_selection(selection))));
        facts.extend(description::describe_masks(self).map(|masks| ("Secure aggregation", masks)));
        if let Some(audit) = self.audit {
            facts.push((
                "Audit",
                format!(
                    "{} and {} at each private party, {} guesses; the files are withheld until the audit passes",
                    words::plural(audit.canaries.into(), "canary").replace("canarys", "canaries"),
                    words::plural(audit.recordings.into(), "made-up recording"),
                    words::count(audit.guesses.into())
                ),
            ));
        }
        if self.rehearsal.is_none() {
            let rounds = words::plural(self.spare_releases.into(), "round");
            facts.push(("Reserve", format!("{rounds} to repeat after a crash")));
        }
        facts
    }

    fn consent(&self, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
        description::describe_consent(self, dataset, charge)
    }

    fn figures(&self, measurements: &[Measurement]) -> Vec<ChartFigure> {
        // A rehearsal measures parts of public data in the roles of others, and has no curves of its own.
        if self.rehearsal.is_some() { Vec::new() } else { result::list_figures(self, measurements) }
    }

    fn result(&self, result: &Report, participants: &[JobParticipant]) -> AnyView {
        match &result.rehearsal {
            Some(report) => rehearsal::render_outcome(&self.model, report),
            None => result::render_result(self, result, participants),
        }
    }

    #[cfg(feature = "ssr")]
    fn report_headline(&self, report: &ReportFile) -> AnyView {
        match rehearsal_report(report) {
            Some(outcome) => {
                view! { <p class="headline">{rehearsal::describe_own(&self.model, outcome)}</p> }.into_any()
            }
            None => report::render_headline(report),
        }
    }

    #[cfg(feature = "ssr")]
    fn report_sections(&self, report: &ReportFile) -> AnyView {
        let rehearsal = rehearsal_report(report).map(|outcome| {
            let outcome = rehearsal::render_outcome(&self.model, outcome);
            view! { <section class="panel"><h2>"Rehearsal"</h2>{outcome}</section> }
        });
        view! {
            {rehearsal}
            {report::render_sections(report, &self.figures(&report.measurements))}
        }
        .into_any()
    }
}

/// Returns the results of a rehearsal in a job's report, if it is one.
#[cfg(feature = "ssr")]
fn rehearsal_report(report: &ReportFile) -> Option<&undertone_api::job::dp_sgd::RehearsalReport> {
    match &report.outcome {
        Some(undertone_api::job::Report::DpSgd(outcome)) => outcome.rehearsal.as_ref(),
        _ => None,
    }
}
