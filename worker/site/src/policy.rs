//! The site's own rules: `policy.toml`. Whatever the server, the consortium or another site say, nothing runs here that
//! this file does not allow, and nothing more is spent than it sets for life.
//!
//! The file is read again before every decision, so an edit takes effect without a restart; a file that cannot be read
//! refuses everything. To add a rule: a field here with its sentence in `policy/template.toml`, its check in
//! [`Rules::judge`], its line in `policy show`, its case in the tests.

mod approval;
mod cost;
mod defaults;
mod edit;
mod logs;
mod release;
mod shared;
mod units;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_api::dataset::Visibility;
use undertone_api::job::transcription::window::ONE_WORD;
use undertone_api::job::{Charge, Spec};
use undertone_privacy::ledger::{Budget, BudgetError, GridKind, LedgerError};
use undertone_privacy::mechanism::PriceError;
use undertone_privacy::{Delta, Epsilon, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::folder::FolderError;

pub use approval::Approval;
pub use cost::{CostRefusal, MostCost, NoSum, PricedProvider, most_cost};
pub use edit::{TEMPLATE, declare};
pub use logs::Logs;
pub use release::{
    LONGEST_PERIOD, LONGEST_UNIT, LongestUnits, ReleasePeriod, ReleasePeriods, SHORTEST_PERIOD, SHORTEST_UNIT,
    UnitLength, judge_period,
};
pub use units::{UnitLimits, units_of};

/// Why the policy cannot be read. Nothing is allowed then.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Not TOML, or not these fields.
    #[error(
        "{path} cannot be understood, so nothing may run: mend it (`undertone-worker policy show` tells where it is wrong)"
    )]
    Toml {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        #[source]
        source: toml::de::Error,
    },
    /// A kind of job that this worker does not know.
    #[error("{path}: `jobs.kinds`: there is no kind of job `{kind}`; the kinds are {known}")]
    Kind {
        /// The file.
        path: PathBuf,
        /// The kind.
        kind: String,
        /// The kinds that there are.
        known: String,
    },
    /// The site's database does not say which datasets share accounts.
    #[error("which datasets share accounts cannot be read")]
    Lineages(#[source] Box<super::store::StoreError>),
    /// A limit that no release could ever meet, or that cannot be kept.
    #[error("{path}: `{field}`")]
    Budget {
        /// The file.
        path: PathBuf,
        /// Which limit.
        field: String,
        /// What is wrong with it.
        #[source]
        source: BudgetError,
    },
    /// An entry that says something else already.
    #[error("{path} already says that `{name}` is {found}: edit the file if that is to change")]
    Declared {
        /// The file.
        path: PathBuf,
        /// The dataset.
        name: String,
        /// What it says.
        found: &'static str,
    },
}

/// A lifetime limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// ε, greater than 0.
    pub epsilon: Epsilon,
    /// δ, greater than 0.
    pub delta: Delta,
}

impl Limit {
    /// The limit as a budget on the orders of `grid`; those that suit ε best when none are given.
    ///
    /// # Errors
    /// [`BudgetError`] when no release could ever be admitted.
    pub fn budget(&self, grid: Option<GridKind>) -> Result<Budget, BudgetError> {
        Budget::new(self.epsilon, self.delta, grid.unwrap_or_else(|| GridKind::for_epsilon(self.epsilon)))
    }
}

/// Lifetime limits by privacy unit; a unit without one cannot be charged at all.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// For records (utterances).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Limit>,
    /// For speakers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<Limit>,
    /// For users of a query log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Limit>,
    /// For words of recordings, as many as each job states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<Limit>,
}

/// What may run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Jobs {
    kinds: Vec<String>,
    #[serde(default)]
    approval: Approval,
    least_noise_multiplier: NoiseMultiplier,
    #[serde(default = "defaults::least_threshold")]
    least_threshold: NonZeroU32,
    #[serde(default = "defaults::most_sampling_rate")]
    most_sampling_rate: SamplingRate,
    #[serde(default = "defaults::least_distance")]
    least_distance: NonZeroU32,
    #[serde(default = "defaults::least_colluding")]
    least_colluding: NonZeroU32,
    #[serde(default)]
    voices_may_leave: bool,
    most_epsilon_per_job: Epsilon,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    most_epsilon_automatic: Option<Epsilon>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    most_cost_per_job: Option<MostCost>,
    #[serde(default)]
    logs: Logs,
    #[serde(default, skip_serializing_if = "ReleasePeriods::is_empty")]
    release_period_seconds: ReleasePeriods,
    #[serde(default, skip_serializing_if = "LongestUnits::is_empty")]
    longest_unit_seconds: LongestUnits,
}

/// What is said of one dataset.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfDataset {
    #[serde(default)]
    visibility: Visibility,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval: Option<Approval>,
    #[serde(default)]
    budget: Limits,
    #[serde(default, skip_serializing_if = "LongestUnits::is_empty")]
    longest_unit_seconds: LongestUnits,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    jobs: Jobs,
    #[serde(default)]
    budget: Limits,
    #[serde(default)]
    datasets: BTreeMap<String, OfDataset>,
    /// Datasets that share their accounts with others, and with which.
    #[serde(skip)]
    shared: BTreeMap<String, Vec<String>>,
}

/// The rules for one dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Who may learn what from it.
    pub visibility: Visibility,
    /// Who has to say yes.
    pub approval: Approval,
    /// Job kinds that may run.
    pub kinds: Vec<String>,
    /// Least noise relative to the clip in any Gaussian release.
    pub least_noise_multiplier: NoiseMultiplier,
    /// Least kept occurrences of any query that leaves.
    pub least_threshold: NonZeroU32,
    /// Largest share of its rows that a query log is sampled at.
    pub most_sampling_rate: SamplingRate,
    /// Least distance of a histogram of words: counts that are hidden. Never below those that one spoken word changes.
    pub least_distance: NonZeroU32,
    /// Least recognizers, or all that a job has, against which a histogram of words is paid for as if they put their parts together.
    pub least_colluding: NonZeroU32,
    /// Whether speakers may leave in their own voices.
    pub voices_may_leave: bool,
    /// Most ε of one job by itself, at the δ of the unit's lifetime limit.
    pub most_epsilon_per_job: Epsilon,
    /// Most ε, at the same δ, of all jobs together that run with nobody asked; none where the lifetime limits alone bound them.
    pub most_epsilon_automatic: Option<Epsilon>,
    /// Most money that one job may cost at recognizers outside; `None` for no limit.
    pub most_cost_per_job: Option<MostCost>,
    /// Lifetime limits.
    pub limits: Limits,
    /// Distances between the ticks of release clocks, by kind of job, where they are not measured.
    pub release_periods: ReleasePeriods,
    /// Public lengths to which units are cut.
    pub longest_units: LongestUnits,
}

/// Why the policy refuses a job. Depends on public parameters only, so it may be told.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyRefusal {
    /// The kind is not listed.
    #[error("this site's policy does not allow jobs of kind `{0}`")]
    Kind(String),
    /// Exact results of data that are not open.
    #[error("the job would release exact results, and this site does not mark the dataset as open for that")]
    Exact,
    /// Too little noise.
    #[error("the noise multiplier {asked} is below this site's least of {least}")]
    Noise {
        /// What the job asks for.
        asked: f64,
        /// What the policy sets.
        least: f64,
    },
    /// Too few occurrences.
    #[error("the threshold of {asked} occurrences is below this site's least of {least} (`jobs.least_threshold`)")]
    Threshold {
        /// What the job asks for.
        asked: u32,
        /// What the policy sets.
        least: u32,
    },
    /// Too many rows.
    #[error("the sampling rate of {asked} is above this site's largest of {most} (`jobs.most_sampling_rate`)")]
    Rate {
        /// What the job asks for.
        asked: f64,
        /// What the policy sets.
        most: f64,
    },
    /// Too few counts.
    #[error(
        "the distance of {asked} counts is below this site's least of {least} (`jobs.least_distance`; one spoken word changes up to \
         {ONE_WORD}): ask for {least} or more"
    )]
    Distance {
        /// What the job asks for.
        asked: u32,
        /// What the policy sets.
        least: u32,
    },
    /// Too few that put their parts together.
    #[error(
        "the job assumes that at most {asked} recognizers put their parts together, and this site assumes {least}, or all of them \
         (`jobs.least_colluding`)"
    )]
    Colluding {
        /// What the job assumes.
        asked: u32,
        /// What the policy sets.
        least: u32,
    },
    /// Voices by which speakers can be told.
    #[error(
        "the job would let speakers leave in their own voices, which this site does not allow (`jobs.voices_may_leave`): propose \
         it with one voice for all"
    )]
    Voices,
    /// Too much money.
    #[error(transparent)]
    Cost(#[from] CostRefusal),
    /// The release clock ticks too slowly for the job.
    #[error(
        "the release clock of this site ticks every {period} s, and the job closes its rounds after {deadline} s: propose it with \
         a deadline of more than {period} s, or ask the site for a shorter period (`jobs.release_period_seconds`)"
    )]
    Period {
        /// Seconds between two ticks.
        period: f64,
        /// The shortest deadline of the job's rounds, seconds.
        deadline: u32,
    },
    /// No lifetime limit for this unit.
    #[error("this site has set no budget for the privacy unit `{0:?}`")]
    NoLimit(PrivacyUnit),
    /// A lifetime limit of another unit that the job has no price for.
    #[error("{0}")]
    OtherUnit(String),
    /// The job alone is too much.
    #[error(
        "the job by itself would come to more than this site's epsilon of {most} per job for the unit {unit:?}: {source}"
    )]
    PerJob {
        /// The unit for which it would.
        unit: PrivacyUnit,
        /// The limit.
        most: f64,
        /// The figures.
        #[source]
        source: Box<LedgerError>,
    },
    /// It cannot be priced.
    #[error("the job's releases cannot be priced: {0}")]
    Price(#[from] PriceError),
    /// The limit per job can admit nothing.
    #[error("this site's limit per job admits nothing: {0}")]
    Hopeless(#[from] BudgetError),
}

impl Policy {
    /// Reads the policy at `path` and checks every limit in it.
    ///
    /// # Errors
    /// [`PolicyError`] when it cannot be read, or says something that cannot be kept.
    pub fn load(path: &Path) -> Result<Self, PolicyError> {
        let text = fs::read_to_string(path).map_err(FolderError::io("read", path))?;
        Self::parse(&text, path)
    }

    /// As [`Policy::load`], of the text of the file at `path`.
    ///
    /// # Errors
    /// [`PolicyError`] when it says something that cannot be kept.
    pub fn parse(text: &str, path: &Path) -> Result<Self, PolicyError> {
        let policy: Self =
            toml::from_str(text).map_err(|source| PolicyError::Toml { path: path.to_owned(), source })?;
        if let Some(kind) = policy.jobs.kinds.iter().find(|kind| !Spec::KINDS.contains(&kind.as_str())) {
            let known = Spec::KINDS.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
            return Err(PolicyError::Kind { path: path.to_owned(), kind: kind.clone(), known });
        }
        let general = policy.budget.named().map(|(unit, limit)| (format!("budget.{unit}"), limit));
        let special = policy.datasets.iter().flat_map(|(name, of)| {
            of.budget.named().map(move |(unit, limit)| (format!("datasets.{name}.budget.{unit}"), limit))
        });
        for (field, limit) in general.chain(special) {
            limit.budget(None).map_err(|source| PolicyError::Budget { path: path.to_owned(), field, source })?;
        }
        Ok(policy)
    }

    /// What may be said of the parts of jobs.
    pub const fn logs(&self) -> Logs {
        self.jobs.logs
    }

    /// The datasets that the file names.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.datasets.keys().map(String::as_str)
    }

    /// The rules for the dataset called `name`; one that is not named is private.
    pub fn rules(&self, name: &str) -> Rules {
        let of = self.datasets.get(name).cloned().unwrap_or_default();
        Rules {
            visibility: of.visibility,
            approval: of.approval.unwrap_or(self.jobs.approval),
            kinds: self.jobs.kinds.clone(),
            least_noise_multiplier: self.jobs.least_noise_multiplier,
            least_threshold: self.jobs.least_threshold,
            most_sampling_rate: self.jobs.most_sampling_rate,
            least_distance: self.jobs.least_distance.max(defaults::least_distance()),
            least_colluding: self.jobs.least_colluding,
            voices_may_leave: self.jobs.voices_may_leave,
            most_epsilon_per_job: self.jobs.most_epsilon_per_job,
            most_epsilon_automatic: self.jobs.most_epsilon_automatic,
            most_cost_per_job: self.jobs.most_cost_per_job.clone(),
            limits: self.limits(name),
            release_periods: self.jobs.release_period_seconds.clone(),
            longest_units: of.longest_unit_seconds.or(self.jobs.longest_unit_seconds),
        }
    }
}

impl Rules {
    /// Whether a job that charges `charge` may run on this dataset at all; the lifetime budget is the ledger's question.
    ///
    /// # Errors
    /// [`PolicyRefusal`], in words for the proposer.
    pub fn judge(&self, spec: &Spec, charge: Option<&Charge>) -> Result<(), PolicyRefusal> {
        if !self.kinds.iter().any(|kind| kind == spec.kind()) {
            return Err(PolicyRefusal::Kind(spec.kind().to_owned()));
        }
        // Public data, or a job that lets nothing of this dataset out: no figure to judge.
        let Some(charge) = charge else { return Ok(()) };
        if let Some(period) = self.release_periods.of_kind(spec.kind()) {
            judge_period(spec, period)?;
        }
        if !self.voices_may_leave && spec.outside().is_some_and(|outside| outside.voices) {
            return Err(PolicyRefusal::Voices);
        }
        self.judge_event(&charge.event)?;
        if is_exact(&charge.event) {
            return Ok(());
        }
        self.judge_units(charge)
    }

    fn judge_event(&self, event: &Event) -> Result<(), PolicyRefusal> {
        match event {
            Event::Gaussian { noise_multiplier }
            | Event::PoissonSampledGaussian { noise_multiplier, .. }
            | Event::DiscreteGaussian { noise_multiplier, .. }
            | Event::PoissonSampledDiscreteGaussian { noise_multiplier, .. } => {
                let least = self.least_noise_multiplier;
                if *noise_multiplier < least {
                    return Err(PolicyRefusal::Noise { asked: noise_multiplier.get(), least: least.get() });
                }
                Ok(())
            }
            Event::SampledThreshold { sampling_rate, threshold, .. } => {
                let (least, most) = (self.least_threshold, self.most_sampling_rate);
                if *threshold < least {
                    return Err(PolicyRefusal::Threshold { asked: threshold.get(), least: least.get() });
                }
                if sampling_rate.get() > most.get() {
                    return Err(PolicyRefusal::Rate { asked: sampling_rate.get(), most: most.get() });
                }
                Ok(())
            }
            Event::TruncatedLaplace { distance, partition, .. } => {
                let (asked, least) = (*distance, self.least_distance);
                if asked < least {
                    return Err(PolicyRefusal::Distance { asked: asked.get(), least: least.get() });
                }
                let (asked, least) = (partition.colluding(), self.least_colluding.min(partition.providers()));
                if asked < least {
                    return Err(PolicyRefusal::Colluding { asked: asked.get(), least: self.least_colluding.get() });
                }
                Ok(())
            }
            // Their ε is their noise; the limits on ε judge it.
            Event::Laplace { .. }
            | Event::Pure { .. }
            | Event::Approximate { .. }
            | Event::DistributedDiscreteGaussian(_) => Ok(()),
            Event::NonPrivate if self.visibility == Visibility::Open => Ok(()),
            Event::NonPrivate => Err(PolicyRefusal::Exact),
            Event::Composed { events } => events.iter().try_for_each(|event| self.judge_event(event)),
            Event::Repeated { of, .. } | Event::Substituted { of } | Event::Selected { of, .. } => self.judge_event(of),
        }
    }
}

/// Whether an event releases something without noise.
pub fn is_exact(event: &Event) -> bool {
    match event {
        Event::NonPrivate => true,
        Event::Composed { events } => events.iter().any(is_exact),
        Event::Repeated { of, .. } | Event::Substituted { of } | Event::Selected { of, .. } => is_exact(of),
        Event::Gaussian { .. }
        | Event::PoissonSampledGaussian { .. }
        | Event::Laplace { .. }
        | Event::Pure { .. }
        | Event::Approximate { .. }
        | Event::DiscreteGaussian { .. }
        | Event::PoissonSampledDiscreteGaussian { .. }
        | Event::DistributedDiscreteGaussian(_)
        | Event::SampledThreshold { .. }
        | Event::TruncatedLaplace { .. } => false,
    }
}

/// The word for a visibility, as it stands in the file.
pub const fn word(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Private => "private",
        Visibility::Open => "open",
        Visibility::Public => "public",
    }
}

#[cfg(test)]
mod tests;
