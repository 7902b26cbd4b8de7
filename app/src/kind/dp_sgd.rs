//! How `dp_sgd` looks: the planner, the arms' learning curves, the table that matters.

mod plan;
mod planner;
mod price;
mod result;

use leptos::prelude::*;
use undertone_api::job::dp_sgd::{Arm, Optimizer, Report, Spec};
use undertone_api::job::{Measurement, Participant};

use super::Card;
#[cfg(feature = "ssr")]
use super::Ground;
use crate::component::chart::Figure;
use crate::words;

pub use plan::Plan;
pub use planner::{Planner, propose};
pub use price::{Prices, Verdict, prices};

impl Card for Spec {
    type Result = Report;

    const TITLE: &'static str = "Federated acoustic model";

    #[cfg(feature = "ssr")]
    async fn form(ground: Ground) -> AnyView {
        let Ground { backend, consortium, datasets, standings, query } = ground;
        let Some(plan) = Plan::from_query(&query).or_else(|| Plan::first(&datasets, &standings)) else {
            return ().into_any();
        };
        let tight = planner::tight::ask(backend.as_ref(), consortium, &plan, &datasets).await;
        view! { <Planner consortium datasets standings plan tight/> }.into_any()
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![
            ("Protects", format!("each {} in every private dataset", words::unit(self.unit))),
            (
                "Model",
                match self.model.classes {
                    Some(classes) => format!(
                        "LSTM with {} hidden units, {} classes",
                        self.model.hidden,
                        words::count(classes.into())
                    ),
                    None => format!("LSTM with {} hidden units, as many classes as the data have", self.model.hidden),
                },
            ),
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
            if let Some(rounds) = self.rounds(arm) {
                let step = match rounds.optimizer {
                    Optimizer::Sgd { learning_rate, momentum } => {
                        format!(
                            "SGD, learning rate {}, momentum {}",
                            words::number(learning_rate),
                            words::number(momentum)
                        )
                    }
                    Optimizer::Adam { learning_rate } => {
                        format!("Adam, learning rate {}", words::number(learning_rate))
                    }
                };
                facts.push((
                    term,
                    format!(
                        "{}, {step}; a round waits {} and goes on with {}",
                        words::plural(rounds.rounds.into(), "round"),
                        words::duration(f64::from(rounds.deadline_seconds)),
                        words::plural(rounds.quorum.into(), "submission")
                    ),
                ));
            }
        }
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
                "{} for rounds that must be paid again after a crash",
                words::plural(self.spare_releases.into(), "release")
            ),
        ));
        facts
    }

    fn figures(&self, measurements: &[Measurement]) -> Vec<Figure> {
        result::figures(self, measurements)
    }

    fn result(&self, result: &Report, participants: &[Participant]) -> AnyView {
        result::table(self, result, participants)
    }
}
