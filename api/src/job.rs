//! Jobs: their specs, costs and states.
//!
//! A job kind has three files. This module holds the first, the specification: `job/<kind>.rs` with `Spec`, `Report`
//! and [`JobKind`] (check, cost, exchange). The second runs the kind (`worker/src/run/<kind>.rs`), the third displays it
//! (`app/src/kind/<kind>.rs`). To add a kind: the three files, and one line in the `kinds!` call below.

mod charge;
mod check;
mod departure;
mod draft;
mod hold;
mod initial;
mod life;
mod limit;
mod masked_group;
mod reason;
mod review;
#[cfg(test)]
mod spec_page;
pub mod terms;
mod view;

pub mod active_learning;
pub mod analytics;
pub mod audit;
pub mod diagnosis;
pub mod dp_sgd;
pub mod evaluation;
pub mod log;
pub mod transcription;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::model::source::ModelSource;
use crate::problem::Violation;
use crate::question::QuestionPlan;
use audit::AuditPlan;

pub use departure::{Departure, DepartureOrigin, LeaveRequest};
pub use draft::{JobDraft, LONGEST_SPEC, NewDraft};
pub use hold::{Hold, Holder, PauseRequest};
pub use initial::INITIAL_MODEL;
pub use life::{JobState, JobStep, WrongStep};
pub use limit::{ApprovalLimit, ApprovedTotal, LONGEST_LIMIT_DAYS, NewApprovalLimit};
pub use masked_group::{LEAST_MEMBERS, MOST_MEMBERS, MaskedGroup};
pub use reason::MOST_REASON;
pub use review::{Disclosure, DisclosureForm, JobReview, Observer, disclosures};
pub use terms::{OpenTerm, PartyTerms, TermName, TermRange};
pub use view::{
    Approval, ApproveRequest, AskingJob, Job, JobParticipant, JobProgress, JobSummary, Measurement, NewJob,
    ParticipantState, RefuseRequest, RoundSubmission, RoundView, SeriesProgress,
};

/// The use of a dataset by a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Purpose))]
#[serde(rename_all = "snake_case")]
pub enum DatasetUse {
    /// Its worker takes part in the job.
    Participate,
    /// The lead's worker, which holds the dataset, only reads it to measure the result. It must be public.
    Evaluate,
}

/// A job's worst-case charge to one dataset's lineage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Charge {
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The adjacency, the change that the guarantee covers.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// One release.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub event: Event,
    /// The most releases of it.
    pub releases: u64,
}

impl Charge {
    /// Returns whether the charge goes to the account for `unit` under `adjacency`.
    pub fn is_on(&self, unit: PrivacyUnit, adjacency: Adjacency) -> bool {
        self.unit == unit && self.adjacency.shares_account(adjacency)
    }

    /// Returns whether a manifest that states `stated` charges the same releases of the same account as this version
    /// computes. Manifests from before zero-out adjacency state add-remove, at the same price.
    pub fn agrees_with(&self, stated: &Self) -> bool {
        self.is_on(stated.unit, stated.adjacency) && (&self.event, self.releases) == (&stated.event, stated.releases)
    }

    /// Returns the charge of a manifest that states `stated`, if this version computes `own`; `None` if they disagree.
    pub fn reconcile(own: Option<Self>, stated: Option<&Self>) -> Option<Option<Self>> {
        match (own, stated) {
            (None, None) => Some(None),
            (Some(own), Some(stated)) if own.agrees_with(stated) => Some(Some(stated.clone())),
            _ => None,
        }
    }
}

/// A series of rounds in which the server averages the participants' vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundSeries {
    /// Name within the job: `private`.
    pub name: String,
    /// Rounds, numbered from 1.
    pub rounds: u32,
    /// The fewest submissions with which a round may close after its deadline.
    pub quorum: u32,
    /// Seconds from the opening of a round to its deadline.
    pub deadline_seconds: u32,
    /// The contributing datasets with their weights: positive; only ratios matter.
    pub weights: Vec<(DatasetId, f64)>,
    /// The last round of each contributor that takes part in fewer rounds than the series has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<(DatasetId, u32)>,
    /// The most numbers in a vector: the trained parameters. `None` if the kind cannot tell.
    #[serde(default)]
    pub length: Option<u64>,
    /// The width of each number in transit, in both directions.
    #[serde(default)]
    pub precision: dp_sgd::Precision,
    /// The contributors whose vectors are added under masks. Absent: the server receives each vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masked: Option<MaskedGroup>,
}

impl RoundSeries {
    /// Returns the last round in which a dataset contributes; 0 if it contributes in none.
    pub fn last_round(&self, dataset: DatasetId) -> u32 {
        if !self.weights.iter().any(|(id, _)| *id == dataset) {
            return 0;
        }
        self.until.iter().find(|(id, _)| *id == dataset).map_or(self.rounds, |(_, last)| (*last).min(self.rounds))
    }

    /// Returns the contributors of a round, in the order of the spec.
    pub fn contributors(&self, round: u32) -> impl Iterator<Item = DatasetId> + '_ {
        self.weights.iter().map(|(dataset, _)| *dataset).filter(move |dataset| self.last_round(*dataset) >= round)
    }
}

/// The specification of a job kind.
pub trait JobKind: Serialize + DeserializeOwned + Clone {
    /// The kind's name on the wire and in the database; never changes.
    const NAME: &'static str;

    /// Returns every violation of the spec against its datasets (those that the proposer may see), with field paths
    /// that start at `spec`.
    fn check(&self, datasets: &[Dataset]) -> Vec<Violation>;

    /// Returns the spec with a number for every value that it leaves to the datasets. The signed manifest holds this
    /// form, so that all sites read the same. Call it only on a spec without violations under [`JobKind::check`], with the
    /// same datasets. A kind that leaves nothing open keeps this default.
    #[must_use]
    fn settle(self, datasets: &[Dataset]) -> Self {
        let _ = datasets;
        self
    }

    /// Returns the terms that the spec leaves to the owner of `dataset`, with their present values. A kind without open
    /// terms keeps this default.
    fn open_terms(&self, dataset: DatasetId) -> Vec<TermRange> {
        let _ = dataset;
        Vec::new()
    }

    /// Sets a term of `dataset`. Called only with a value that the range of [`JobKind::open_terms`] admits.
    fn set_term(&mut self, dataset: DatasetId, term: TermName, value: f64) {
        let _ = (dataset, term, value);
    }

    /// Returns its datasets, each once, participants first; the first participant leads.
    fn datasets(&self) -> Vec<(DatasetId, DatasetUse)>;

    /// Returns the worst-case charge to `dataset`'s lineage. `None` if only already public data leave the site;
    /// [`Event::NonPrivate`] if only exact results of data marked open leave. [`JobKind::release`] reports exact releases
    /// in addition to charged ones.
    fn cost(&self, dataset: &Dataset) -> Option<Charge>;

    /// Returns the release of one vector of `dataset` in `series`, with exact parameters; `None` if no data that are
    /// not public leave in that series. At most as much as [`JobKind::cost`] charges.
    fn release(&self, dataset: &Dataset, series: &str) -> Option<Event>;

    /// Returns C, the L2 norm to which each unit's contribution from `dataset` is clipped before noise is added: the
    /// sensitivity of the sum by construction. `None` without clipping.
    fn clip(&self, dataset: DatasetId) -> Option<f64> {
        let _ = dataset;
        None
    }

    /// Returns the greatest L2 norm of a vector of `dataset` in `series`, up to a probability of
    /// [`dp_sgd::FALSE_REFUSAL`]. `None` if the spec implies no bound.
    fn most_norm(&self, dataset: &Dataset, series: &RoundSeries) -> Option<f64> {
        let _ = (dataset, series);
        None
    }

    /// Returns n, the public number of a dataset's units, used in every division.
    fn units(&self, dataset: &Dataset) -> u64;

    /// Returns the series of rounds that the server averages, in order: a series begins when every earlier one with a
    /// common contributor is over.
    fn series(&self, datasets: &[Dataset]) -> Vec<RoundSeries>;

    /// Returns the SHA-256, hex, of the description of the initial model, for data of `inputs` coefficients in a frame.
    /// Parties whose data imply another model have another digest. `None` for a kind without an initial model.
    fn model(&self, inputs: u32) -> Option<String> {
        let _ = inputs;
        None
    }

    /// Returns the SHA-256, hex, of the registry's file with which the job begins; `None` for a job that begins with
    /// none.
    fn initial_file(&self) -> Option<&str> {
        None
    }

    /// Returns the SHA-256, hex, of the model that the job reads: the one with which it begins, or the one that it
    /// evaluates.
    fn read_model(&self) -> Option<&str> {
        self.initial_file()
    }

    /// Returns the data from which a model of the finished job follows; `None` for a file that is no model.
    fn model_source(&self, file: &str) -> Option<ModelSource> {
        let _ = file;
        None
    }

    /// Returns the job's questions to annotators; `None` for a kind without questions. The server knows nothing else
    /// about them.
    fn questions(&self) -> Option<QuestionPlan> {
        None
    }

    /// Returns the release to recipients outside the consortium; `None` for a kind without one. The server knows
    /// nothing else about it. It is charged like every other release, and never passes through the server.
    fn external_release(&self) -> Option<ExternalRelease> {
        None
    }

    /// Returns the measurements that the lead may submit: every series (arm) with its last round, and the names of the
    /// public test sets. The server accepts no other figure.
    fn allowed_measurements(&self) -> AllowedMeasurements;

    /// Returns whether the files, figures, choices and report of `dataset`'s part follow from its charged releases, from
    /// answers and from public data alone, so that they may leave for private data too. A kind whose lead is public
    /// keeps this default.
    fn follows_from_releases(&self, dataset: DatasetId) -> bool {
        let _ = dataset;
        false
    }

    /// Returns the promised audit of `dataset`'s releases, if the job promises one. The job's files then stay closed
    /// until every statement has arrived and none disproves its claim.
    fn audit_plan(&self, dataset: &Dataset) -> Option<AuditPlan> {
        let _ = dataset;
        None
    }
}

/// A release to recipients outside the consortium: recognizers that receive pieces of recordings among dummies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalRelease {
    /// The series that is charged for it, in one round with the number 1; [`JobKind::release`] describes the release.
    pub series: String,
    /// The datasets that leave, in the order of the participants.
    pub sending: Vec<DatasetId>,
    /// The recipients of the parts, by the site's names for them: at least one.
    pub recipients: Vec<String>,
    /// The most recipients that may combine their parts without learning more than is charged.
    pub colluding: u32,
    /// d: the hidden distance in counts of pieces by word, added and removed together.
    pub distance: u32,
    /// Whether pieces keep the speakers' own voices, by which recognizers can identify them; the speakers' site must
    /// allow that.
    pub voices: bool,
    /// Whether the words of the vocabulary are chosen from the recordings with noise: each recipient learns them.
    pub chosen_words: bool,
}

impl Report {
    /// Returns whether the report contains no more than the spec does. This is required for charged recordings: any
    /// other content would be computed from them without a charge. Reports of other kinds follow from releases and
    /// public data.
    pub fn tells_no_more(&self, spec: &Spec) -> bool {
        match (self, spec) {
            (Self::Transcription(report), Spec::Transcription(spec)) => spec.report().as_ref() == Ok(report),
            (Self::Transcription(_), _) => false,
            (Self::DpSgd(_) | Self::ActiveLearning(_) | Self::Evaluation(_) | Self::Analytics(_), _) => true,
        }
    }
}

/// The measurements that a job's lead may submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedMeasurements {
    /// Each series, with the last round after which it can be measured.
    pub series: Vec<(String, u32)>,
    /// Names of the test sets.
    pub tests: Vec<String>,
}

/// Makes the closed enum of all kinds, so that a kind without a complete specification does not compile.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident => $module:ident),* $(,)?) => {
        /// The spec of a job of any kind; in JSON `{"kind": ..., "spec": {...}}`.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(tag = "kind", content = "spec", rename_all = "snake_case")]
        pub enum Spec {
            $($(#[$doc])* $variant($module::Spec),)*
        }

        impl Spec {
            /// The names of all kinds.
            pub const KINDS: &'static [&'static str] = &[$($module::Spec::NAME,)*];

            /// Returns the kind's name.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $module::Spec::NAME,)* }
            }

            /// Calls [`JobKind::check`].
            pub fn check(&self, datasets: &[Dataset]) -> Vec<Violation> {
                match self { $(Self::$variant(spec) => spec.check(datasets),)* }
            }

            /// Calls [`JobKind::settle`].
            #[must_use]
            pub fn settle(self, datasets: &[Dataset]) -> Self {
                match self { $(Self::$variant(spec) => Self::$variant(spec.settle(datasets)),)* }
            }

            /// Calls [`JobKind::open_terms`].
            pub fn open_terms(&self, dataset: DatasetId) -> Vec<TermRange> {
                match self { $(Self::$variant(spec) => JobKind::open_terms(spec, dataset),)* }
            }

            /// Calls [`JobKind::set_term`].
            fn set_term(&mut self, dataset: DatasetId, term: TermName, value: f64) {
                match self { $(Self::$variant(spec) => JobKind::set_term(spec, dataset, term, value),)* }
            }

            /// Calls [`JobKind::datasets`].
            pub fn datasets(&self) -> Vec<(DatasetId, DatasetUse)> {
                match self { $(Self::$variant(spec) => spec.datasets(),)* }
            }

            /// Calls [`JobKind::cost`].
            pub fn cost(&self, dataset: &Dataset) -> Option<Charge> {
                match self { $(Self::$variant(spec) => spec.cost(dataset),)* }
            }

            /// Calls [`JobKind::release`].
            pub fn release(&self, dataset: &Dataset, series: &str) -> Option<Event> {
                match self { $(Self::$variant(spec) => spec.release(dataset, series),)* }
            }

            /// Calls [`JobKind::clip`].
            pub fn clip(&self, dataset: DatasetId) -> Option<f64> {
                match self { $(Self::$variant(spec) => spec.clip(dataset),)* }
            }

            /// Calls [`JobKind::most_norm`].
            pub fn most_norm(&self, dataset: &Dataset, series: &RoundSeries) -> Option<f64> {
                match self { $(Self::$variant(spec) => spec.most_norm(dataset, series),)* }
            }

            /// Calls [`JobKind::units`].
            pub fn units(&self, dataset: &Dataset) -> u64 {
                match self { $(Self::$variant(spec) => JobKind::units(spec, dataset),)* }
            }

            /// Calls [`JobKind::model`].
            pub fn model(&self, inputs: u32) -> Option<String> {
                match self { $(Self::$variant(spec) => JobKind::model(spec, inputs),)* }
            }

            /// Calls [`JobKind::initial_file`].
            pub fn initial_file(&self) -> Option<&str> {
                match self { $(Self::$variant(spec) => JobKind::initial_file(spec),)* }
            }

            /// Calls [`JobKind::read_model`].
            pub fn read_model(&self) -> Option<&str> {
                match self { $(Self::$variant(spec) => JobKind::read_model(spec),)* }
            }

            /// Calls [`JobKind::model_source`].
            pub fn model_source(&self, file: &str) -> Option<ModelSource> {
                match self { $(Self::$variant(spec) => JobKind::model_source(spec, file),)* }
            }

            /// Calls [`JobKind::follows_from_releases`].
            pub fn follows_from_releases(&self, dataset: DatasetId) -> bool {
                match self { $(Self::$variant(spec) => JobKind::follows_from_releases(spec, dataset),)* }
            }

            /// Calls [`JobKind::audit_plan`].
            pub fn audit_plan(&self, dataset: &Dataset) -> Option<AuditPlan> {
                match self { $(Self::$variant(spec) => spec.audit_plan(dataset),)* }
            }

            /// Calls [`JobKind::questions`].
            pub fn questions(&self) -> Option<QuestionPlan> {
                match self { $(Self::$variant(spec) => JobKind::questions(spec),)* }
            }

            /// Calls [`JobKind::external_release`].
            pub fn external_release(&self) -> Option<ExternalRelease> {
                match self { $(Self::$variant(spec) => JobKind::external_release(spec),)* }
            }

            /// Calls [`JobKind::allowed_measurements`].
            pub fn allowed_measurements(&self) -> AllowedMeasurements {
                match self { $(Self::$variant(spec) => spec.allowed_measurements(),)* }
            }

            /// Calls [`JobKind::series`].
            pub fn series(&self, datasets: &[Dataset]) -> Vec<RoundSeries> {
                match self { $(Self::$variant(spec) => spec.series(datasets),)* }
            }
        }

        /// The report of a finished job, by kind.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(tag = "kind", content = "report", rename_all = "snake_case")]
        pub enum Report {
            $($(#[$doc])* $variant($module::Report),)*
        }
    };
}

kinds! {
    /// Federated DP-SGD of an acoustic model.
    DpSgd => dp_sgd,
    /// A classifier of queries, trained with annotators who see only privately released questions.
    ActiveLearning => active_learning,
    /// Transcription of recordings by external recognizers. Dummies hide the counts of pieces by word.
    Transcription => transcription,
    /// The accuracy of a model on private test sets, from one noisy score histogram per class.
    Evaluation => evaluation,
    /// Aggregates of tables of rows over several sites, from one noisy vector of each site.
    Analytics => analytics,
}
