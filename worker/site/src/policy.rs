//! The site's own rules: `policy.toml`. Regardless of the server, the consortium and other sites, nothing runs here
//! that this file does not allow, and no account exceeds its lifetime limits.
//!
//! The file is read again before every decision, so an edit takes effect without a restart. An unreadable file refuses
//! everything. To add a rule: a field here with its description in `policy/template.toml`, its check in
//! [`DatasetRules::judge`], its line in `policy show`, its case in the tests.

mod aggregation;
mod approval;
mod cost;
mod defaults;
mod edit;
mod limit;
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
use undertone_privacy::ledger::{BudgetError, LedgerError};
use undertone_privacy::mechanism::PriceError;
use undertone_privacy::{Epsilon, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::folder::FolderError;

pub use aggregation::AggregationRules;
pub use approval::RequiredApproval;
pub use cost::{AmountError, CostRefusal, MostCost, PricedProvider, most_cost};
pub use edit::{TEMPLATE, declare};
pub use limit::{LifetimeLimit, LifetimeLimits};
pub use logs::LogDisclosure;
pub use release::{
    LONGEST_PERIOD, LONGEST_UNIT, LongestUnits, ReleasePeriod, ReleasePeriods, SHORTEST_PERIOD, SHORTEST_UNIT,
    UnitLength, judge_period,
};
pub use units::{UnitLimits, units_of};

/// Reasons why the policy cannot be read. In that case nothing is allowed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file is not TOML, or has unknown fields.
    #[error(
        "{path} cannot be understood, so nothing may run: mend it (`undertone-worker policy show` tells where it is wrong)"
    )]
    Toml {
        /// The file.
        path: PathBuf,
        /// The problem, with its line.
        #[source]
        source: toml::de::Error,
    },
    /// The file names a kind of job that this worker does not know.
    #[error("{path}: `jobs.kinds`: there is no kind of job `{kind}`; the kinds are {known}")]
    Kind {
        /// The file.
        path: PathBuf,
        /// The kind.
        kind: String,
        /// The known kinds.
        known: String,
    },
    /// The site's database cannot return the shared accounts.
    #[error("which datasets share accounts cannot be read")]
    Lineages(#[source] Box<super::store::StoreError>),
    /// A limit that no release could ever meet, or that cannot be kept.
    #[error("{path}: `{field}`")]
    Budget {
        /// The file.
        path: PathBuf,
        /// The field of the limit.
        field: String,
        /// The problem.
        #[source]
        source: BudgetError,
    },
    /// The file already has another entry for the dataset.
    #[error("{path} already says that `{name}` is {found}: edit the file if that is to change")]
    Declared {
        /// The file.
        path: PathBuf,
        /// The dataset.
        name: String,
        /// The declared visibility.
        found: &'static str,
    },
}

/// The rules for jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct JobRules {
    kinds: Vec<String>,
    #[serde(default)]
    approval: RequiredApproval,
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
    logs: LogDisclosure,
    #[serde(default, skip_serializing_if = "ReleasePeriods::is_empty")]
    release_period_seconds: ReleasePeriods,
    #[serde(default, skip_serializing_if = "LongestUnits::is_empty")]
    longest_unit_seconds: LongestUnits,
    #[serde(default, skip_serializing_if = "AggregationRules::is_default")]
    secure_aggregation: AggregationRules,
}

/// The rules for one dataset, as in the file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DatasetSection {
    #[serde(default)]
    visibility: Visibility,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval: Option<RequiredApproval>,
    #[serde(default)]
    budget: LifetimeLimits,
    #[serde(default, skip_serializing_if = "LongestUnits::is_empty")]
    longest_unit_seconds: LongestUnits,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    jobs: JobRules,
    #[serde(default)]
    budget: LifetimeLimits,
    #[serde(default)]
    datasets: BTreeMap<String, DatasetSection>,
    /// Datasets that share their accounts, each with all names of its lineage.
    #[serde(skip)]
    shared: BTreeMap<String, Vec<String>>,
}

/// The rules for one dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetRules {
    /// The visibility of the dataset.
    pub visibility: Visibility,
    /// The required approval.
    pub approval: RequiredApproval,
    /// Job kinds that may run.
    pub kinds: Vec<String>,
    /// Least noise relative to the clip in any Gaussian release.
    pub least_noise_multiplier: NoiseMultiplier,
    /// Least kept occurrences of any released query.
    pub least_threshold: NonZeroU32,
    /// Largest sampling rate for a query log.
    pub most_sampling_rate: SamplingRate,
    /// Least distance of a histogram of words: the number of hidden counts. Never below the counts that one spoken word
    /// changes.
    pub least_distance: NonZeroU32,
    /// Least number of colluding recognizers (or all of a job, if fewer) assumed when a histogram of words is charged.
    pub least_colluding: NonZeroU32,
    /// Whether recordings may leave in the speakers' own voices.
    pub voices_may_leave: bool,
    /// Highest ε of a single job, at the δ of the unit's lifetime limit.
    pub most_epsilon_per_job: Epsilon,
    /// Highest ε, at the same δ, of all automatically approved jobs together; `None` where the lifetime limits alone
    /// bound them.
    pub most_epsilon_automatic: Option<Epsilon>,
    /// Highest cost of one job at external recognizers; `None` for no limit.
    pub most_cost_per_job: Option<MostCost>,
    /// Lifetime limits.
    pub limits: LifetimeLimits,
    /// Periods of release clocks, by kind of job, where they are not measured.
    pub release_periods: ReleasePeriods,
    /// Public lengths to which units are cut.
    pub longest_units: LongestUnits,
    /// The rules for groups of secure aggregation.
    pub secure_aggregation: AggregationRules,
}

/// Reasons why the policy refuses a job. They depend on public parameters only, so they may be disclosed.
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
        /// The job's noise multiplier.
        asked: f64,
        /// The policy's least.
        least: f64,
    },
    /// The threshold is too low.
    #[error("the threshold of {asked} occurrences is below this site's least of {least} (`jobs.least_threshold`)")]
    Threshold {
        /// The job's threshold.
        asked: u32,
        /// The policy's least.
        least: u32,
    },
    /// The sampling rate is too high.
    #[error("the sampling rate of {asked} is above this site's largest of {most} (`jobs.most_sampling_rate`)")]
    Rate {
        /// The job's rate.
        asked: f64,
        /// The policy's highest.
        most: f64,
    },
    /// The distance is too small.
    #[error(
        "the distance of {asked} counts is below this site's least of {least} (`jobs.least_distance`; one spoken word changes up to \
         {ONE_WORD}): ask for {least} or more"
    )]
    Distance {
        /// The job's distance.
        asked: u32,
        /// The policy's least.
        least: u32,
    },
    /// The job assumes too few colluding recognizers.
    #[error(
        "the job assumes that at most {asked} recognizers put their parts together, and this site assumes {least}, or all of them \
         (`jobs.least_colluding`)"
    )]
    Colluding {
        /// The job's assumption.
        asked: u32,
        /// The policy's least.
        least: u32,
    },
    /// Voices that identify speakers.
    #[error(
        "the job would let pieces leave in voices by which their speakers can be identified, which this site does not allow \
         (`jobs.voices_may_leave`): propose it with the voice `vocoder`, or a converter of this site"
    )]
    Voices,
    /// The job may cost too much money.
    #[error(transparent)]
    Cost(#[from] CostRefusal),
    /// The job uses secure aggregation.
    #[error(
        "the job adds the sites' vectors by secure aggregation, which this site's policy does not allow \
         (`jobs.secure_aggregation`)"
    )]
    SecureAggregation,
    /// Too few honest sites in a sum.
    #[error(
        "a sum of the job has the noise of {honest} honest sites, and this site asks for {least} \
         (`jobs.secure_aggregation`): propose it with a larger `smallest_group`, or fewer colluding sites"
    )]
    Honest {
        /// n − t of the job.
        honest: u32,
        /// The policy's least.
        least: u8,
    },
    /// The job costs too much against the server and all other sites.
    #[error(
        "against the server and all other sites the job would come to more than this site's epsilon of {most} for that \
         (`jobs.secure_aggregation`): {source}"
    )]
    Insider {
        /// The limit.
        most: f64,
        /// The figures.
        #[source]
        source: Box<LedgerError>,
    },
    /// The period of the release clock is too long for the job.
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
    /// The job has no price for the unit of another lifetime limit.
    #[error("{0}")]
    OtherUnit(String),
    /// The job alone exceeds the limit per job.
    #[error(
        "the job by itself would come to more than this site's epsilon of {most} per job for the unit {unit:?}: {source}"
    )]
    PerJob {
        /// The unit of the limit.
        unit: PrivacyUnit,
        /// The limit.
        most: f64,
        /// The figures.
        #[source]
        source: Box<LedgerError>,
    },
    /// The job's releases cannot be priced.
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
    /// [`PolicyError`] when it cannot be read, or contains an invalid rule.
    pub fn load(path: &Path) -> Result<Self, PolicyError> {
        let text = fs::read_to_string(path).map_err(FolderError::io("read", path))?;
        Self::parse(&text, path)
    }

    /// Parses the text of the file at `path`, as [`Policy::load`] does.
    ///
    /// # Errors
    /// [`PolicyError`] when it contains an invalid rule.
    pub fn parse(text: &str, path: &Path) -> Result<Self, PolicyError> {
        let policy: Self =
            toml::from_str(text).map_err(|source| PolicyError::Toml { path: path.to_owned(), source })?;
        if let Some(kind) = policy.jobs.kinds.iter().find(|kind| !Spec::KINDS.contains(&kind.as_str())) {
            let kinds = Spec::KINDS.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
            return Err(PolicyError::Kind { path: path.to_owned(), kind: kind.clone(), known: kinds });
        }
        let general = policy.budget.iter().map(|(unit, limit)| (format!("budget.{unit}"), limit));
        let special = policy.datasets.iter().flat_map(|(name, of)| {
            of.budget.iter().map(move |(unit, limit)| (format!("datasets.{name}.budget.{unit}"), limit))
        });
        for (field, limit) in general.chain(special) {
            limit.budget(None).map_err(|source| PolicyError::Budget { path: path.to_owned(), field, source })?;
        }
        Ok(policy)
    }

    /// Returns the rule for the logs of the parts of jobs.
    pub const fn logs(&self) -> LogDisclosure {
        self.jobs.logs
    }

    /// Returns the names of the datasets in the file.
    pub fn dataset_names(&self) -> impl Iterator<Item = &str> {
        self.datasets.keys().map(String::as_str)
    }

    /// Returns the rules for the dataset called `name`; a dataset without an entry is private.
    pub fn rules(&self, name: &str) -> DatasetRules {
        let of = self.datasets.get(name).cloned().unwrap_or_default();
        DatasetRules {
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
            secure_aggregation: self.jobs.secure_aggregation,
        }
    }
}

impl DatasetRules {
    /// Checks that a job with the charge `charge` may run on this dataset at all; the ledger checks the lifetime
    /// budget.
    ///
    /// # Errors
    /// [`PolicyRefusal`], in words for the proposer.
    pub fn judge(&self, spec: &Spec, charge: Option<&Charge>) -> Result<(), PolicyRefusal> {
        if !self.kinds.iter().any(|kind| kind == spec.kind()) {
            return Err(PolicyRefusal::Kind(spec.kind().to_owned()));
        }
        // Public data, or a job without a release of this dataset: there is no charge to check.
        let Some(charge) = charge else { return Ok(()) };
        if let Some(period) = self.release_periods.of_kind(spec.kind()) {
            judge_period(spec, period)?;
        }
        if !self.voices_may_leave && spec.external_release().is_some_and(|outside| outside.voices) {
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
            | Event::BandedGaussian { noise_multiplier, .. }
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
            // Their noise is given by ε, so the limits on ε apply.
            Event::Laplace { .. } | Event::Pure { .. } | Event::Approximate { .. } => Ok(()),
            Event::DistributedDiscreteGaussian(noise) => self.judge_masked_sum(noise),
            Event::PoissonSampledDistributedDiscreteGaussian { noise, .. } => self.judge_masked_sum(noise),
            Event::NonPrivate if self.visibility == Visibility::Open => Ok(()),
            Event::NonPrivate => Err(PolicyRefusal::Exact),
            Event::Composed { events } => events.iter().try_for_each(|event| self.judge_event(event)),
            Event::Repeated { of, .. } | Event::Substituted { of } | Event::Selected { of, .. } => self.judge_event(of),
        }
    }
}

/// Returns whether an event releases something without noise.
pub fn is_exact(event: &Event) -> bool {
    match event {
        Event::NonPrivate => true,
        Event::Composed { events } => events.iter().any(is_exact),
        Event::Repeated { of, .. } | Event::Substituted { of } | Event::Selected { of, .. } => is_exact(of),
        Event::Gaussian { .. }
        | Event::PoissonSampledGaussian { .. }
        | Event::BandedGaussian { .. }
        | Event::Laplace { .. }
        | Event::Pure { .. }
        | Event::Approximate { .. }
        | Event::DiscreteGaussian { .. }
        | Event::PoissonSampledDiscreteGaussian { .. }
        | Event::DistributedDiscreteGaussian(_)
        | Event::PoissonSampledDistributedDiscreteGaussian { .. }
        | Event::SampledThreshold { .. }
        | Event::TruncatedLaplace { .. } => false,
    }
}

/// Returns the name of a visibility in the file.
pub const fn word(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Private => "private",
        Visibility::Open => "open",
        Visibility::Public => "public",
    }
}

#[cfg(test)]
mod tests;
