//! A plan: the planner's form as numbers, before they are a spec. It is what the form posts and what its address holds, so
//! a plan can be kept as a link.

use serde::{Deserialize, Serialize};
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::dp_sgd::{Audit, Model, Noise, Optimizer, Party, Rounds, Spec, TestSet, WarmStart, Weights};
use undertone_api::problem::Violation;
use undertone_privacy::{NoiseMultiplier, PrivacyUnit, SamplingRate, calibrate};

use crate::standing::Standing;

/// How the averaged gradient becomes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Stochastic gradient descent.
    Sgd,
    /// Adam.
    Adam,
}

/// One dataset in a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The dataset.
    pub dataset: DatasetId,
    /// Whether it takes part.
    #[serde(default)]
    pub joins: bool,
    /// Whether its test split is measured on.
    #[serde(default)]
    pub tests: bool,
    /// q.
    pub rate: f64,
    /// z; read only where data are not public.
    pub noise: f64,
    /// C; read only where data are not public.
    pub clip: f64,
}

/// A plan of a `dp_sgd` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Title of the job.
    pub title: String,
    /// Who is protected.
    pub unit: PrivacyUnit,
    /// Whether the open arm runs.
    #[serde(default)]
    pub open: bool,
    /// Whether the private arm runs.
    #[serde(default)]
    pub private: bool,
    /// Whether the private arm is audited.
    #[serde(default)]
    pub audit: bool,
    /// Every dataset of the consortium.
    pub parts: Vec<Part>,
    /// The dataset that leads.
    pub lead: DatasetId,
    /// Rounds of each arm.
    pub rounds: u32,
    /// How the average becomes a step.
    pub step: Step,
    /// Learning rate of the rounds.
    pub learning_rate: f64,
    /// Measure every so many rounds.
    pub evaluate_every: u32,
    /// Seconds a round waits.
    pub deadline: u32,
    /// How many contributors a round may miss.
    pub may_miss: u32,
    /// Hidden units.
    pub hidden: u32,
    /// Passes of the warm start.
    pub epochs: u32,
    /// Utterances in a batch of the warm start.
    pub batch: u32,
    /// Learning rate of the warm start.
    pub warm_rate: f64,
    /// Releases in reserve.
    pub spare: u32,
}

impl Plan {
    /// A plan to begin with: every private dataset takes part, the largest public one leads, and the noise is such that
    /// twice as many releases would fit into what is left, and never less than one clip.
    /// Nothing when there is no dataset.
    pub fn first(datasets: &[Dataset], standings: &[(DatasetId, Vec<Standing>)]) -> Option<Self> {
        let budgeted =
            |unit| standings.iter().flat_map(|(_, all)| all).any(|s| s.unit == unit && s.balance.budget().is_some());
        let unit = if budgeted(PrivacyUnit::Record) && !budgeted(PrivacyUnit::Speaker) {
            PrivacyUnit::Record
        } else {
            PrivacyUnit::Speaker
        };
        let public = |dataset: &&Dataset| dataset.visibility == Visibility::Public;
        let lead = datasets.iter().filter(public).max_by_key(|dataset| dataset.records).or(datasets.first())?;
        let (rounds, spare) = (40, 4);
        let parts = datasets
            .iter()
            .map(|dataset| {
                let n = if unit == PrivacyUnit::Speaker { dataset.speakers.0 } else { dataset.records.0 };
                let rate = if n <= 20 { 0.5 } else { (10.0 / n as f64).clamp(0.001, 0.5) };
                Part {
                    dataset: dataset.id,
                    joins: dataset.visibility != Visibility::Public || dataset.id == lead.id,
                    tests: dataset.visibility == Visibility::Public
                        && dataset.test_records > 0
                        && dataset.worker == lead.worker,
                    rate,
                    noise: account(dataset.id, standings, unit)
                        .and_then(|standing| least_noise(standing, rate, u64::from(2 * (rounds + spare))))
                        .map_or(1.0, |noise| noise.max(1.0)),
                    clip: 1.0,
                }
            })
            .collect();
        Some(Self {
            title: String::new(),
            unit,
            open: false,
            private: true,
            audit: false,
            parts,
            lead: lead.id,
            rounds,
            step: Step::Adam,
            learning_rate: 0.002,
            evaluate_every: 5,
            deadline: 600,
            may_miss: 0,
            hidden: 200,
            epochs: 10,
            batch: 16,
            warm_rate: 0.003,
            spare,
        })
    }

    /// The plan a page's query holds, if it holds one.
    #[cfg(feature = "ssr")]
    pub fn from_query(query: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Query {
            plan: Plan,
        }
        crate::query::parse::<Query>(query).map(|query| query.plan)
    }

    /// The part of a dataset.
    pub fn part(&self, dataset: DatasetId) -> Option<&Part> {
        self.parts.iter().find(|part| part.dataset == dataset)
    }

    /// Those that take part, the lead first.
    pub fn joining(&self) -> impl Iterator<Item = &Part> {
        let leads = move |part: &&Part| part.dataset == self.lead;
        self.parts.iter().filter(leads).chain(self.parts.iter().filter(move |part| part.joins && !leads(part)))
    }

    /// The spec this plan stands for.
    ///
    /// # Errors
    /// Every number that is out of range, by its place in the spec.
    pub fn spec(&self, datasets: &[Dataset]) -> Result<Spec, Vec<Violation>> {
        let mut violations = Vec::new();
        let mut participants = Vec::new();
        for (index, part) in self.joining().enumerate() {
            let mut say = |field: &str, message: String| {
                violations.push(Violation::new(format!("spec.participants.{index}.{field}"), message));
            };
            let dataset = datasets.iter().find(|dataset| dataset.id == part.dataset);
            let public = dataset.is_none_or(|dataset| dataset.visibility == Visibility::Public);
            let rate = SamplingRate::new(part.rate).map_err(|error| say("sampling_rate", error.to_string()));
            let noise = if public {
                Ok(None)
            } else {
                NoiseMultiplier::new(part.noise)
                    .map(|noise_multiplier| Some(Noise { noise_multiplier, clip: part.clip }))
                    .map_err(|error| say("noise.noise_multiplier", error.to_string()))
            };
            if let (Ok(sampling_rate), Ok(noise)) = (rate, noise) {
                participants.push(Party { dataset: part.dataset, sampling_rate, noise });
            }
        }
        if !violations.is_empty() {
            return Err(violations);
        }
        let contributors = u32::try_from(participants.len()).unwrap_or(u32::MAX);
        let rounds = Rounds {
            rounds: self.rounds,
            optimizer: match self.step {
                Step::Sgd => Optimizer::Sgd { learning_rate: self.learning_rate, momentum: 0.0 },
                Step::Adam => Optimizer::Adam { learning_rate: self.learning_rate },
            },
            evaluate_every: self.evaluate_every,
            deadline_seconds: self.deadline,
            quorum: contributors.saturating_sub(self.may_miss).max(1),
        };
        let tests = self
            .parts
            .iter()
            .filter(|part| part.tests)
            .filter_map(|part| datasets.iter().find(|dataset| dataset.id == part.dataset))
            .map(|dataset| TestSet { name: dataset.name.chars().take(40).collect(), dataset: dataset.id })
            .collect();
        Ok(Spec {
            unit: self.unit,
            model: Model { hidden: self.hidden, classes: None },
            participants,
            tests,
            warm_start: WarmStart { epochs: self.epochs, batch: self.batch, learning_rate: self.warm_rate, seed: 1 },
            open: self.open.then_some(rounds),
            private: self.private.then_some(rounds),
            audit: (self.audit && self.private).then(|| audit(self.hidden)),
            weights: Weights::ExpectedBatch,
            spare_releases: self.spare,
            checkpoint_every: 10,
        })
    }
}

/// An audit that suits most plans: a thousand canaries, or as many as the parameters of the recurrent layer at least are.
fn audit(hidden: u32) -> Audit {
    let canaries = hidden.saturating_mul(hidden.saturating_add(2)).saturating_mul(4).clamp(20, 1000);
    Audit { canaries, guesses: canaries / 4 * 2, recordings: 100 }
}

/// The least noise with which `releases` fit into what is left of an account, rounded up to three decimals; nothing when no
/// noise is enough.
pub(super) fn least_noise(standing: &Standing, rate: f64, releases: u64) -> Option<f64> {
    standing.balance.budget()?;
    let headroom = standing.balance.headroom();
    let rate = SamplingRate::new(rate).ok()?;
    let noise = calibrate::noise_for(&headroom, rate, releases, standing.adjacency).ok()?;
    Some((noise.get() * 1000.0).ceil() / 1000.0)
}

/// A dataset's account for a unit.
pub(super) fn account(
    dataset: DatasetId,
    standings: &[(DatasetId, Vec<Standing>)],
    unit: PrivacyUnit,
) -> Option<&Standing> {
    let (_, all) = standings.iter().find(|(id, _)| *id == dataset)?;
    all.iter().find(|standing| standing.unit == unit)
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use undertone_api::job::Kind;

    use super::Plan;
    use crate::fixture;

    #[test]
    fn the_first_plan_is_one_that_can_be_proposed() {
        let (datasets, standings) = (fixture::datasets(), fixture::standings());
        let plan = Plan::first(&datasets, &standings).expect("there are datasets");
        let spec = plan.spec(&datasets).expect("every number of the first plan is in range");
        assert_eq!(spec.check(&datasets), Vec::new());
    }

    #[test]
    fn the_first_plan_fits_into_what_is_left_of_every_budget() {
        let (datasets, standings) = (fixture::datasets(), fixture::standings());
        let plan = Plan::first(&datasets, &standings).expect("there are datasets");
        let spec = plan.spec(&datasets).expect("every number of the first plan is in range");
        for dataset in &datasets {
            let Some(charge) = spec.cost(dataset) else { continue };
            let (_, all) = standings.iter().find(|(id, _)| *id == dataset.id).expect("a private dataset has accounts");
            let standing = all.iter().find(|s| s.unit == charge.unit).expect("the plan's unit has an account");
            let cost = standing.balance.price(&charge.event, charge.adjacency).expect("the event has a price");
            standing.balance.check(&cost, charge.releases).expect("the plan fits");
        }
    }

    #[test]
    fn a_plan_that_was_posted_by_a_plain_form_is_the_plan_that_was_shown() {
        let plan = Plan::first(&fixture::datasets(), &fixture::standings()).expect("there are datasets");
        let text =
            serde_qs::to_string(&std::collections::BTreeMap::from([("plan", &plan)])).expect("a plan has a query");
        assert_eq!(Plan::from_query(&text), Some(plan.clone()));
        // Browsers write brackets in names as %5B and %5D.
        assert_eq!(Plan::from_query(&text.replace('[', "%5B").replace(']', "%5D")), Some(plan));
    }

    #[test]
    fn a_plan_with_an_audit_is_one_that_can_be_proposed() {
        let datasets = fixture::datasets();
        let mut plan = Plan::first(&datasets, &fixture::standings()).expect("there are datasets");
        plan.audit = true;
        for hidden in [2, 8, 200] {
            plan.hidden = hidden;
            let spec = plan.spec(&datasets).expect("every number is in range");
            assert!(spec.audit.is_some());
            assert_eq!(spec.check(&datasets), Vec::new(), "{hidden}");
        }
        plan.private = false;
        assert_eq!(plan.spec(&datasets).expect("every number is in range").audit, None, "there is nothing to audit");
    }

    #[test]
    fn a_rate_out_of_range_is_named_by_its_place_in_the_spec() {
        let datasets = fixture::datasets();
        let mut plan = Plan::first(&datasets, &fixture::standings()).expect("there are datasets");
        for part in &mut plan.parts {
            part.rate = 1.5;
        }
        let violations = plan.spec(&datasets).expect_err("no rate is above 1");
        assert_eq!(violations.first().map(|v| v.field.as_str()), Some("spec.participants.0.sampling_rate"));
    }
}
