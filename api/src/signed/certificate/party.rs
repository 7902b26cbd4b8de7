//! One dataset's part in a certificate: what was done with it, what it paid, and where its account then stood.

use serde::{Deserialize, Serialize};
use undertone_privacy::ledger::Balance;
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use super::{AuditAsked, Figure};
use crate::dataset::Visibility;
use crate::id::{AccountId, DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::Purpose;

/// A dataset of the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateParty))]
#[serde(deny_unknown_fields)]
pub struct Party {
    /// The owner.
    pub organization: OrganizationId,
    /// The owner's name.
    pub organization_name: String,
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub dataset_name: String,
    /// Its line of versions: the budget belongs to the line.
    pub lineage: LineageId,
    /// Who may learn what from it, as its site declared it.
    pub visibility: Visibility,
    /// What the job did with it.
    pub purpose: Purpose,
    /// The worker that ran it.
    pub worker: WorkerId,
    /// The site's public key, hex: it signed the receipts.
    pub site_key: String,
    /// n, the public number of units that stood in every division.
    pub units: u64,
    /// What it paid; absent for public data, of which nothing is protected.
    #[serde(default)]
    pub charged: Option<Charged>,
}

/// What a dataset paid for the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateCharged))]
#[serde(deny_unknown_fields)]
pub struct Charged {
    /// Who is protected.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// Against which change.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// What made each release.
    pub mechanism: Mechanism,
    /// How many releases there were.
    pub releases: Releases,
    /// ε of the counted releases, as budgets count; absent when the account has no budget and so no δ.
    pub renyi: Option<Figure>,
    /// The tight ε of the counted releases; absent when there is none to compute.
    pub tight: Option<Figure>,
    /// Where the account for life stood when the certificate was made.
    pub account: Position,
    /// The site's receipts for this job.
    pub receipts: ChainPiece,
    /// What an audit measured from below, to stand beside the claim; null when the job did not ask for one.
    pub audit: Option<AuditAsked>,
}

/// What made each release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateMechanism))]
#[serde(deny_unknown_fields)]
pub struct Mechanism {
    /// The release with exact parameters, as both ledgers priced it.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::event))]
    pub event: Event,
    /// How units came into a release.
    pub sampling: Sampling,
    /// C, the L2 norm to which each unit's contribution to a step was clipped at most; absent for a mechanism that clips nothing.
    pub clip: Option<f64>,
    /// The most that one change moves the sum in L2: the clip by construction, twice the clip when a unit is replaced.
    pub sensitivity: Option<f64>,
    /// Standard deviation of the noise in each coordinate of a step's sum: z times the clip.
    pub noise: Option<f64>,
}

/// How units came into a release.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateSampling))]
#[serde(tag = "sampling", rename_all = "snake_case")]
pub enum Sampling {
    /// Each unit independently, in secret, with this probability: the only sampling that is counted as amplification.
    Poisson {
        /// q, exactly as drawn: a multiple of 2⁻³².
        rate: f64,
    },
    /// Every unit, or in an order that is not counted as sampling.
    Everything,
}

impl Sampling {
    /// The sampling that is part of an event: of each of its steps, where it has several.
    pub fn of(event: &Event) -> Self {
        match event.innermost() {
            Event::PoissonSampledGaussian { sampling_rate, .. } => Self::Poisson { rate: sampling_rate.get() },
            _ => Self::Everything,
        }
    }
}

/// How many releases there were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateReleases))]
#[serde(deny_unknown_fields)]
pub struct Releases {
    /// Reserved before the job began: its worst case.
    pub reserved: u64,
    /// Paid, each with a receipt of the site.
    pub committed: u64,
    /// Whether the site has closed its part, so that nothing more can be paid.
    pub settled: bool,
    /// Counted in the figures: those paid; all that were reserved while the site has not closed its part.
    pub counted: u64,
    /// Exact releases beside them, for a comparison that the owner opened the dataset for. No ε covers these.
    pub in_the_clear: u64,
}

/// An account for life at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificatePosition))]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The account.
    pub account: AccountId,
    /// The limit ε for life; absent without a budget.
    pub limit: Option<f64>,
    /// δ of every ε here; absent without a budget.
    pub delta: Option<f64>,
    /// ε of everything released by then, in all jobs of all consortia, rounded up.
    pub spent: f64,
    /// ε of everything released and reserved by then, rounded up.
    pub committed: f64,
    /// Releases of its whole life that left in the clear.
    pub in_the_clear: u64,
    /// The sums from which all this follows: Rényi loss spent and reserved at every order, in exact fixed point.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub balance: Balance,
    /// Rows of the account's ledger.
    pub entries: u64,
    /// Hash of the last of them, which covers all before it, hex.
    pub head: String,
}

/// The receipts of one site for one job, as a piece of the site's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChainPiece {
    /// How many.
    pub count: u64,
    /// Number of the first in the site's chain; absent without any.
    pub first: Option<u64>,
    /// Number of the last.
    pub last: Option<u64>,
    /// Digest of the last one's payload, hex: it covers every receipt that the site signed before it.
    pub head: Option<String>,
    /// SHA-256 over the digests of all of them, oldest first, each as 64 hex digits and a line feed.
    pub list: String,
}
