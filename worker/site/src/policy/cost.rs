//! The highest cost of a job in money: `jobs.most_cost_per_job`, for each currency separately.
//!
//! The limit applies to the job's highest cost by the prices in this site's own configuration, computed from numbers
//! that all members of the consortium have. The actual recordings have no influence, so a refusal reveals nothing about
//! them. Prices are confidential to the site, and no refusal contains them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use undertone_api::dataset::{Dataset, SizeClass};
use undertone_api::job::Spec;
use undertone_api::job::transcription::{self, Money, Tariff, worst};

use super::{DatasetRules, PolicyRefusal};

/// The limit for each listed currency; a job may not cost anything in another currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct MostCost(BTreeMap<String, Money>);

/// An invalid limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "jobs.most_cost_per_job: `{currency} = \"{amount}\"` is no sum: three capital letters (ISO 4217), and a decimal number below \
     1000000 with at most 9 places, as in {{ USD = \"50.00\" }}"
)]
pub struct AmountError {
    currency: String,
    amount: String,
}

/// The properties of an external recognizer that the limit needs.
pub trait PricedProvider {
    /// Returns the name that jobs use.
    fn name(&self) -> &str;

    /// Returns the tariff; `None` where the site has no price for it.
    fn tariff_if_known(&self) -> Option<Tariff>;
}

/// Reasons why a job may cost too much.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostRefusal {
    /// The cost exceeds the limit.
    #[error(
        "by this site's own prices the job may cost more than {most}, the most that one may here (`jobs.most_cost_per_job`): a \
         larger epsilon, a smaller distance, fewer words or fewer recognizers make fewer dummies"
    )]
    Over {
        /// The limit.
        most: Money,
    },
    /// The price is unknown.
    #[error(
        "what the recognizer `{0}` asks is not known at this site, or is in a currency that its `jobs.most_cost_per_job` does not \
         name"
    )]
    Unpriced(String),
}

impl TryFrom<BTreeMap<String, String>> for MostCost {
    type Error = AmountError;

    fn try_from(said: BTreeMap<String, String>) -> Result<Self, AmountError> {
        let sum = |(currency, amount): (String, String)| match Money::parse(&currency, &amount) {
            Some(money) => Ok((currency, money)),
            None => Err(AmountError { currency, amount }),
        };
        said.into_iter().map(sum).collect::<Result<_, _>>().map(Self)
    }
}

impl From<MostCost> for BTreeMap<String, String> {
    fn from(most: MostCost) -> Self {
        let decimal = |nanos: u64| format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
        most.0.into_iter().map(|(currency, money)| (currency, decimal(money.nanos))).collect()
    }
}

/// Formats as `USD 50.0000, EUR 45.0000`.
impl std::fmt::Display for MostCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: Vec<String> = self.0.values().map(Money::to_string).collect();
        f.write_str(&if all.is_empty() { "nothing".to_owned() } else { all.join(", ") })
    }
}

impl DatasetRules {
    /// Checks that the highest cost of a job on `dataset`, by the prices of the site's `providers`, is within the
    /// limit.
    ///
    /// # Errors
    /// [`PolicyRefusal::Cost`], in words for the proposer.
    pub fn judge_cost<P: PricedProvider>(
        &self,
        spec: &Spec,
        dataset: &Dataset,
        providers: &[P],
    ) -> Result<(), PolicyRefusal> {
        match (&self.most_cost_per_job, spec) {
            (Some(most), Spec::Transcription(spec)) => most.judge(spec, dataset, providers),
            (None, _) | (_, Spec::DpSgd(_) | Spec::ActiveLearning(_) | Spec::Evaluation(_) | Spec::Analytics(_)) => {
                Ok(())
            }
        }
    }
}

impl MostCost {
    /// Returns whether a job may cost anything in this currency (ISO 4217).
    pub fn names(&self, currency: &str) -> bool {
        self.0.contains_key(currency)
    }

    fn judge<P: PricedProvider>(
        &self,
        spec: &transcription::Spec,
        dataset: &Dataset,
        providers: &[P],
    ) -> Result<(), PolicyRefusal> {
        let tariffs = tariffs(spec, providers)?;
        for (tariff, provider) in tariffs.iter().zip(&spec.providers) {
            if !self.names(&tariff.cost([]).currency) {
                return Err(CostRefusal::Unpriced(provider.name.clone()).into());
            }
        }
        let most = most_of(spec, &tariffs, dataset)?;
        let over = most.iter().find_map(|may| self.0.get(&may.currency).filter(|most| may.nanos > most.nanos));
        over.map_or(Ok(()), |most| Err(CostRefusal::Over { most: most.clone() }.into()))
    }
}

/// Returns the highest cost of a job on `dataset` by the prices of the site's `providers`, by currency.
///
/// # Errors
/// [`PolicyRefusal::Cost`] when a provider has no price, [`PolicyRefusal::Exact`] for a spec without noise.
pub fn most_cost<P: PricedProvider>(
    spec: &transcription::Spec,
    dataset: &Dataset,
    providers: &[P],
) -> Result<Vec<Money>, PolicyRefusal> {
    most_of(spec, &tariffs(spec, providers)?, dataset)
}

fn most_of(spec: &transcription::Spec, tariffs: &[Tariff], dataset: &Dataset) -> Result<Vec<Money>, PolicyRefusal> {
    let seconds = dataset.seconds.map_or(u64::MAX, SizeClass::most);
    worst(spec, tariffs, dataset.records.most(), seconds).map_err(|_| PolicyRefusal::Exact)
}

/// Returns the site's own tariffs of the spec's providers, in their order.
fn tariffs<P: PricedProvider>(spec: &transcription::Spec, providers: &[P]) -> Result<Vec<Tariff>, CostRefusal> {
    let tariff = |asked: &transcription::Provider| {
        let provider = providers.iter().find(|known| known.name() == asked.name);
        let tariff = provider.and_then(PricedProvider::tariff_if_known);
        tariff.ok_or_else(|| CostRefusal::Unpriced(asked.name.clone()))
    };
    spec.providers.iter().map(tariff).collect()
}
