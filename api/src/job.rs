//! Jobs: what they are, what they cost, and how they live.
//!
//! A job kind is three files. This room holds the first face, *what it is*: `job/<kind>.rs` with `Spec`, `Report` and
//! [`Kind`] (check, cost, exchange). The second is *how it runs* (`worker/src/run/<kind>.rs`), the third *how it looks*
//! (`app/src/kind/<kind>.rs`). To add one: the three files, and one line in the `kinds!` call below.

mod charge;
mod check;
mod draft;
mod hold;
mod life;
mod limit;
mod review;
mod view;

pub mod active_learning;
pub mod audit;
pub mod diagnosis;
pub mod dp_sgd;
pub mod log;
pub mod transcription;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use crate::dataset::Dataset;
use crate::id::DatasetId;
use crate::problem::Violation;
use crate::question::Questions;
use audit::Audited;

pub use draft::{Draft, LONGEST_SPEC, NewDraft};
pub use hold::{Hold, Holder, Pause};
pub use life::{State, Step, WrongStep};
pub use limit::{ApprovalLimit, ApprovedTotal, LONGEST_LIMIT_DAYS, NewApprovalLimit};
pub use review::{Disclosed, Disclosure, Observer, Review, disclosures};
pub use view::{
    Approval, Approve, Job, JobSummary, Measurement, NewJob, Participant, ParticipantState, Progress, Refuse,
    RoundView, SeriesProgress, Submission,
};

/// What a job does with a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Its worker takes part in the job.
    Participate,
    /// Only read by the lead participant, at whose worker it lies, to measure the result. Must be public.
    Evaluate,
}

/// What one dataset's lineage is charged by a job, at worst.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Charge {
    /// Who is protected.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// Against which change.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// One release.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub event: Event,
    /// Most releases of it.
    pub releases: u64,
}

impl Charge {
    /// Returns whether the charge goes to the account that is kept for `unit` under `adjacency`.
    pub fn is_on(&self, unit: PrivacyUnit, adjacency: Adjacency) -> bool {
        self.unit == unit && self.adjacency.shares_account(adjacency)
    }

    /// Returns whether a manifest that states `stated` charges what this version works out: the same releases of the same account.
    /// Manifests that were signed before zero-out adjacency state add-remove, at the same price.
    pub fn agrees_with(&self, stated: &Self) -> bool {
        self.is_on(stated.unit, stated.adjacency) && (&self.event, self.releases) == (&stated.event, stated.releases)
    }

    /// Returns the charge of a manifest that states `stated`, where this version works out `own`; `None` when they disagree.
    pub fn reconcile(own: Option<Self>, stated: Option<&Self>) -> Option<Option<Self>> {
        match (own, stated) {
            (None, None) => Some(None),
            (Some(own), Some(stated)) if own.agrees_with(stated) => Some(Some(stated.clone())),
            _ => None,
        }
    }
}

/// A run of rounds in which the participants' vectors are averaged by the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name within the job: `private`.
    pub name: String,
    /// Rounds, numbered from 1.
    pub rounds: u32,
    /// Fewest submissions with which a round may close when its deadline has passed.
    pub quorum: u32,
    /// Seconds from the opening of a round to its deadline.
    pub deadline_seconds: u32,
    /// Who contributes, with the weight of each: positive; only ratios matter.
    pub weights: Vec<(DatasetId, f64)>,
    /// Most numbers in a vector: the trained parameters. `None` where the kind cannot say.
    #[serde(default)]
    pub length: Option<u64>,
    /// In how many bits each number travels, both ways.
    #[serde(default)]
    pub precision: dp_sgd::Precision,
}

/// The first face of a job kind.
pub trait Kind: Serialize + DeserializeOwned + Clone {
    /// The kind's name on the wire and in the database: never changes.
    const NAME: &'static str;

    /// Every violation of the spec against the datasets it names (those the proposer may see), with field paths that
    /// start at `spec`.
    fn check(&self, datasets: &[Dataset]) -> Vec<Violation>;

    /// The spec with a number in the place of everything it leaves to the datasets, as it goes into the signed manifest, so that
    /// all sites read the same. Called on a spec that [`Kind::check`] finds nothing wrong with, with the same datasets. A kind
    /// that leaves nothing open keeps this.
    #[must_use]
    fn settled(self, datasets: &[Dataset]) -> Self {
        let _ = datasets;
        self
    }

    /// The datasets it uses, each once, participants first; the first participant leads.
    fn datasets(&self) -> Vec<(DatasetId, Purpose)>;

    /// What it charges `dataset`'s lineage at worst; `None` when nothing of it leaves the site unprotected by being
    /// public already, and [`Event::NonPrivate`] where nothing but exact
    /// results of data marked open leaves. Exact releases beside charged ones are known by [`Kind::release`].
    fn cost(&self, dataset: &Dataset) -> Option<Charge>;

    /// What one vector of `dataset` in `series` releases, with exact parameters; `None` when nothing of it that is not
    /// public leaves in that series. At most as much as [`Kind::cost`] charges.
    fn release(&self, dataset: &Dataset, series: &str) -> Option<Event>;

    /// C, the L2 norm to which each unit's contribution from `dataset` is clipped before noise is added: the sensitivity of the
    /// sum by construction. `None` where nothing is clipped.
    fn clip(&self, dataset: DatasetId) -> Option<f64> {
        let _ = dataset;
        None
    }

    /// The greatest L2 norm of a vector that `dataset` sends in `series`, but for a chance of [`dp_sgd::FALSE_REFUSAL`]. `None`
    /// where the spec bounds none.
    fn most_norm(&self, dataset: &Dataset, series: &Series) -> Option<f64> {
        let _ = (dataset, series);
        None
    }

    /// n, the public number of a dataset's units that stands in every division.
    fn units(&self, dataset: &Dataset) -> u64;

    /// The rounds it asks of the server's averaging, in order.
    fn series(&self, datasets: &[Dataset]) -> Vec<Series>;

    /// SHA-256, hex, of the description of the model that all participants start from, for data of `inputs` coefficients in a
    /// frame: parties whose data make another model have another digest. `None` from a kind that starts from no model.
    fn model(&self, inputs: u32) -> Option<String> {
        let _ = inputs;
        None
    }

    /// What it asks of people; `None` from a kind that asks nothing. All that the server knows of it.
    fn questions(&self) -> Option<Questions> {
        None
    }

    /// What leaves for somebody who is no part of the consortium; `None` from a kind of which nothing does. All that the server
    /// knows of it: it is paid for like everything else, and never comes here.
    fn outside(&self) -> Option<Outside> {
        None
    }

    /// What the lead may measure: every series (arm) with its last round, and the names of the public test sets. The server
    /// takes no other figure.
    fn measured(&self) -> Measured;

    /// The audit of `dataset`'s releases that the job promises; `None` when it promises none. While one is promised, the
    /// job's files are nobody's until every statement has come and none disproves its claim.
    fn audited(&self, dataset: &Dataset) -> Option<Audited> {
        let _ = dataset;
        None
    }
}

/// What leaves for somebody who is no part of the consortium: recognizers that hear pieces of recordings among dummies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    /// The series under which it is paid for, in one round with the number 1: [`Kind::release`] tells what is released.
    pub series: String,
    /// Whose data leave, in the order of the participants.
    pub sending: Vec<DatasetId>,
    /// Who gets a part of it, by the names that the site has for them: at least one.
    pub recipients: Vec<String>,
    /// How many of them may put their parts together without more being told than is charged for.
    pub colluding: u32,
    /// d: counts of pieces by word, added and removed together, that are hidden.
    pub distance: u32,
    /// Whether speakers leave in their own voices, by which recognizers can tell them: their site must allow that by itself.
    pub voices: bool,
}

impl Report {
    /// Whether it tells no more than the spec does, as a report must of recordings that are charged: whatever else is in it was
    /// computed of them and not paid for. Reports of other kinds follow from what was released and from public data.
    pub fn tells_no_more(&self, spec: &Spec) -> bool {
        match (self, spec) {
            (Self::Transcription(report), Spec::Transcription(spec)) => spec.report().as_ref() == Ok(report),
            (Self::Transcription(_), _) => false,
            (Self::DpSgd(_) | Self::ActiveLearning(_), _) => true,
        }
    }
}

/// What a job's lead may measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// Each series, with the last round after which it can be measured.
    pub series: Vec<(String, u32)>,
    /// Names of the test sets.
    pub tests: Vec<String>,
}

/// Makes the closed enum of all kinds, so that a kind with a missing face does not compile.
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

            /// The kind's name.
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $module::Spec::NAME,)* }
            }

            /// See [`Kind::check`].
            pub fn check(&self, datasets: &[Dataset]) -> Vec<Violation> {
                match self { $(Self::$variant(spec) => spec.check(datasets),)* }
            }

            /// See [`Kind::settled`].
            #[must_use]
            pub fn settled(self, datasets: &[Dataset]) -> Self {
                match self { $(Self::$variant(spec) => Self::$variant(spec.settled(datasets)),)* }
            }

            /// See [`Kind::datasets`].
            pub fn datasets(&self) -> Vec<(DatasetId, Purpose)> {
                match self { $(Self::$variant(spec) => spec.datasets(),)* }
            }

            /// See [`Kind::cost`].
            pub fn cost(&self, dataset: &Dataset) -> Option<Charge> {
                match self { $(Self::$variant(spec) => spec.cost(dataset),)* }
            }

            /// See [`Kind::release`].
            pub fn release(&self, dataset: &Dataset, series: &str) -> Option<Event> {
                match self { $(Self::$variant(spec) => spec.release(dataset, series),)* }
            }

            /// See [`Kind::clip`].
            pub fn clip(&self, dataset: DatasetId) -> Option<f64> {
                match self { $(Self::$variant(spec) => spec.clip(dataset),)* }
            }

            /// See [`Kind::most_norm`].
            pub fn most_norm(&self, dataset: &Dataset, series: &Series) -> Option<f64> {
                match self { $(Self::$variant(spec) => spec.most_norm(dataset, series),)* }
            }

            /// See [`Kind::units`].
            pub fn units(&self, dataset: &Dataset) -> u64 {
                match self { $(Self::$variant(spec) => Kind::units(spec, dataset),)* }
            }

            /// See [`Kind::model`].
            pub fn model(&self, inputs: u32) -> Option<String> {
                match self { $(Self::$variant(spec) => Kind::model(spec, inputs),)* }
            }

            /// See [`Kind::audited`].
            pub fn audited(&self, dataset: &Dataset) -> Option<Audited> {
                match self { $(Self::$variant(spec) => spec.audited(dataset),)* }
            }

            /// See [`Kind::questions`].
            pub fn questions(&self) -> Option<Questions> {
                match self { $(Self::$variant(spec) => Kind::questions(spec),)* }
            }

            /// See [`Kind::outside`].
            pub fn outside(&self) -> Option<Outside> {
                match self { $(Self::$variant(spec) => Kind::outside(spec),)* }
            }

            /// See [`Kind::measured`].
            pub fn measured(&self) -> Measured {
                match self { $(Self::$variant(spec) => spec.measured(),)* }
            }

            /// See [`Kind::series`].
            pub fn series(&self, datasets: &[Dataset]) -> Vec<Series> {
                match self { $(Self::$variant(spec) => spec.series(datasets),)* }
            }
        }

        /// What a finished job tells, by kind.
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
    /// A classifier of queries, taught by people who see only questions that are private.
    ActiveLearning => active_learning,
    /// Transcription of recordings by recognizers outside: counts of pieces by word are hidden among dummies.
    Transcription => transcription,
}
