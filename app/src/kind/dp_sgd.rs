//! The display of `dp_sgd`: the planner, the arms' learning curves, the comparison table.

mod plan;
mod planner;
mod price;
#[cfg(feature = "ssr")]
mod report;
mod result;
mod said;

use leptos::prelude::*;
use undertone_api::dataset::{Content, Dataset, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::dp_sgd::{Arm, Report, Spec};
use undertone_api::job::{Charge, Measurement, Participant};
#[cfg(feature = "ssr")]
use undertone_api::report::ReportFile;

#[cfg(feature = "ssr")]
use super::Ground;
use super::{Card, KindTerms};
use crate::component::chart::Figure;
use crate::words;

pub use plan::{Frozen, Layers, Part, Plan, Shape, Step, Steps, Trials};
pub use planner::{Planner, propose, save};
pub use price::{Prices, Verdict, prices};

/// Reads a draft as a plan; also returns the paths that the plan cannot represent.
#[cfg(feature = "ssr")]
fn reopened(draft: &undertone_api::job::NewDraft, first: Plan, datasets: &[Dataset]) -> (Plan, Vec<String>) {
    let first = Plan { title: draft.title.clone(), ..first };
    super::opened::reopened(
        &draft.spec,
        first,
        |plan| plan.spec(datasets).ok(),
        |spec, first| Plan::of(&draft.title, spec, &first),
    )
}

impl Card for Spec {
    type Result = Report;

    const TITLE: &'static str = "Federated acoustic model";

    const TERMS: KindTerms = KindTerms {
        participation: "trained on",
        records: "recordings",
        public_release: "The data are public: exact gradients leave the site, and nothing is charged.",
        retention: "The recordings never leave",
        has_unit_counts: true,
    };

    fn can_begin(dataset: &Dataset) -> bool {
        dataset.content == Content::Speech && dataset.visibility == Visibility::Public
    }

    #[cfg(feature = "ssr")]
    async fn form(ground: Ground) -> AnyView {
        let Ground { backend, consortium, datasets, standings, query, opened } = ground;
        let Some(first) = Plan::first(&datasets, &standings) else {
            return ().into_any();
        };
        let (plan, told) = opened.map_or((first.clone(), None), |opened| {
            let (plan, lost) = reopened(&opened.draft.content, first, &datasets);
            (plan, Some(super::opened::notice(&opened, planner::FORM, planner::SAVE, &lost)))
        });
        let plan = Plan::from_query(&query).unwrap_or(plan);
        let tight = planner::tight::ask(backend.as_ref(), consortium, &plan, &datasets).await;
        view! { {told}<Planner consortium datasets standings plan tight/> }.into_any()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![
            ("Protects", format!("each {} in every private dataset", words::unit(self.unit))),
            ("Model", said::model(&self.model)),
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
        for (arm, term) in [(Arm::Open, "Open arm"), (Arm::Private, "Private arm")] {
            facts.extend(self.rounds(arm).map(|rounds| (term, said::rounds(rounds))));
        }
        facts.extend(said::clipping(self).map(|clipping| ("Clipping", clipping)));
        facts.extend(self.selection.as_ref().map(|selection| ("Selection", said::selection(selection))));
        if let Some(audit) = self.audit {
            facts.push((
                "Audit",
                format!(
                    "{} and {} at each private party, {} guesses; the files are withheld until it is passed",
                    words::plural(audit.canaries.into(), "canary").replace("canarys", "canaries"),
                    words::plural(audit.recordings.into(), "made-up recording"),
                    words::count(audit.guesses.into())
                ),
            ));
        }
        facts.push((
            "In reserve",
            format!(
                "{} for those that must be paid again after a crash",
                words::plural(self.spare_releases.into(), "round")
            ),
        ));
        facts
    }

    fn consent(&self, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
        said::consent(self, dataset, charge)
    }

    fn figures(&self, measurements: &[Measurement]) -> Vec<Figure> {
        result::figures(self, measurements)
    }

    fn result(&self, result: &Report, participants: &[Participant]) -> AnyView {
        result::table(self, result, participants)
    }

    #[cfg(feature = "ssr")]
    fn report_headline(&self, report: &ReportFile) -> AnyView {
        report::render_headline(report)
    }

    #[cfg(feature = "ssr")]
    fn report_sections(&self, report: &ReportFile) -> AnyView {
        report::render_sections(report, &self.figures(&report.measurements))
    }
}
