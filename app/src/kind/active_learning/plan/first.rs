//! The sources of a plan: the datasets, or an address.

use serde::Deserialize;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::active_learning::{Acquisition, Aggregation, Classifier};
use undertone_privacy::kanon::{Shown, least_threshold};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

use super::{LogPart, MeasurementPlan, QuestionPlan, RehearsalPlan, TrainingPlan};

/// The default share of an account's δ for one pool.
pub(in crate::kind::active_learning) const PART_OF_DELTA: f64 = 0.1;
/// The rate and the ε of a first plan.
const RATE: f64 = 0.1;
const EPSILON: f64 = 0.5;
/// The threshold of a first plan if no account determines one.
const THRESHOLD: u32 = 20;

impl QuestionPlan {
    /// Makes an initial plan: the largest public labelled log leads, or the largest private one without any; every
    /// private log takes part, with the least threshold whose δ is a tenth of its account's. `None` if no log can lead.
    pub(in crate::kind::active_learning) fn first(
        datasets: &[Dataset],
        standings: &[(DatasetId, Vec<AccountStanding>)],
    ) -> Option<Self> {
        let leads = |dataset: &&Dataset| dataset.classes > 0;
        let order = |dataset: &&Dataset| (dataset.visibility == Visibility::Public, dataset.records);
        let lead = datasets.iter().filter(leads).max_by_key(order)?;
        let private = || datasets.iter().filter(|dataset| dataset.visibility != Visibility::Public);
        let user = |dataset: &Dataset| {
            dataset.keeps_apart(PrivacyUnit::User)
                && account_delta(dataset.id, PrivacyUnit::User, standings).is_some_and(|delta| delta > 0.0)
        };
        let unit = if private().count() > 0 && private().all(user) { PrivacyUnit::User } else { PrivacyUnit::Record };
        let part = |dataset: &Dataset| {
            let public = dataset.visibility == Visibility::Public;
            let threshold = account_delta(dataset.id, unit, standings).and_then(|delta| {
                let target = Delta::new(delta * PART_OF_DELTA).ok()?;
                let least = least_threshold(Shown::Counts, Epsilon::new(EPSILON).ok()?, target, RATE).ok()?;
                u32::try_from(least).ok()
            });
            LogPart {
                dataset: dataset.id,
                joins: !public || dataset.id == lead.id,
                asks: false,
                tests: public
                    && dataset.classes > 0
                    && dataset.worker == lead.worker
                    && (dataset.test_records > 0 || dataset.id != lead.id),
                measures: false,
                rate: if public { 1.0 } else { RATE },
                threshold: if public { 1 } else { threshold.unwrap_or(THRESHOLD) },
                epsilon: EPSILON,
                shown: Shown::Counts,
                rows: 1,
            }
        };
        Some(Self {
            title: String::new(),
            unit,
            lead: lead.id,
            parts: datasets.iter().map(part).collect(),
            labels: String::new(),
            guidelines: String::new(),
            golden: u32::try_from(lead.records.least().min(100)).unwrap_or(100).max(1),
            rounds: 5,
            batch: 50,
            acquisition: Acquisition::Entropy,
            diversity: true,
            annotators: 1,
            aggregation: Aggregation::Majority,
            hours: 48.0,
            classifier: Classifier::default(),
            training: TrainingPlan::default(),
            measurement: MeasurementPlan::default(),
            trials: RehearsalPlan {
                on: false,
                rates: "0.1, 0.25, 0.5, 0.75".to_owned(),
                thresholds: "5, 10, 20, 50".to_owned(),
                questions: 250,
                repeats: 3,
                accuracy: 0.95,
                deviation: 0.0,
            },
        })
    }

    /// Parses the plan in a page's query, if it has one.
    pub(in crate::kind::active_learning) fn from_query(query: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct PlanQuery {
            ask: QuestionPlan,
        }
        crate::query::parse::<PlanQuery>(query).map(|query| query.ask)
    }

    /// Returns the address of the planner with this plan.
    pub(in crate::kind::active_learning) fn link(&self, consortium: undertone_api::id::ConsortiumId) -> String {
        let query = serde_qs::to_string(&std::collections::BTreeMap::from([("ask", self)])).unwrap_or_default();
        format!("{}?{query}", crate::path::plan(consortium))
    }
}

/// Returns δ of a dataset's account for a unit; `None` without a budget.
fn account_delta(
    dataset: DatasetId,
    unit: PrivacyUnit,
    standings: &[(DatasetId, Vec<AccountStanding>)],
) -> Option<f64> {
    let (_, all) = standings.iter().find(|(id, _)| *id == dataset)?;
    let balance = &all.iter().find(|standing| standing.unit == unit)?.balance;
    Some(balance.budget()?.delta().get())
}
