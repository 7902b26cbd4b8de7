//! One dataset's part in a certificate: its releases, its charges, and the following state of its account.

use serde::{Deserialize, Serialize};
use undertone_privacy::ledger::Balance;
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use super::super::ReleaseTick;
use super::{AuditAsked, Figure, PublicFact};
use crate::budget::PromisedLimit;
use crate::dataset::Visibility;
use crate::id::{AccountId, DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::Purpose;
use crate::signed::Consent;

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
    /// What the owner's consent rests on; absent for public data, and from certificates of before it was stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<Consent>,
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
    /// The same in plain words: which data are compared. Empty in certificates of version 1.
    #[serde(default)]
    pub relation: String,
    /// What is taken to be public of the dataset. Empty in certificates of version 1.
    #[serde(default)]
    pub public: Vec<PublicFact>,
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
    /// The ticks of the site's release clock at which its releases left; absent where no receipt names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSummary>,
    /// What an audit measured from below, to stand beside the claim; null when the job did not ask for one.
    pub audit: Option<AuditAsked>,
    /// The accounts of all other limited units of the lineage, which the same releases were charged to: each limit bounds all jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ChargedBeside>,
}

/// What a job's releases cost another limited unit of the same lineage than the one that it protects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateChargedBeside))]
#[serde(deny_unknown_fields)]
pub struct ChargedBeside {
    /// Who is protected.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The release as this unit is charged for it.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::event))]
    pub event: Event,
    /// ε of the counted releases, as budgets count.
    pub renyi: Option<Figure>,
    /// Where the account for life stood when the certificate was made.
    pub account: Position,
}

/// The ticks at which a site's releases left, as its receipts state them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateClock))]
#[serde(deny_unknown_fields)]
pub struct ClockSummary {
    /// Milliseconds between two ticks; the most, where receipts name several periods.
    pub period_millis: u64,
    /// Receipts that name a tick.
    pub releases: u64,
    /// Those of a later tick than the first, whose time can depend on the data.
    pub late: u64,
}

impl ClockSummary {
    /// Returns the summary of some receipts' ticks; `None` if no receipt has one.
    pub fn from_ticks(ticks: impl IntoIterator<Item = Option<ReleaseTick>>) -> Option<Self> {
        let add = |sum: Option<Self>, tick: ReleaseTick| {
            let sum = sum.unwrap_or(Self { period_millis: 0, releases: 0, late: 0 });
            Some(Self {
                period_millis: sum.period_millis.max(tick.period_millis),
                releases: sum.releases + 1,
                late: sum.late + u64::from(tick.number != 1),
            })
        };
        ticks.into_iter().flatten().fold(None, add)
    }
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
    /// Returns the sampling that is part of an event, or of each of its steps.
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
    /// Counted in the figures: all that were reserved, made or not. In certificates of version 1 those paid, once the site had
    /// closed its part.
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
    /// The limits that were promised one after another: a limit that is raised after something was released begins a promise of
    /// its own. What holds for everything together is the sum of their ε at the sum of their δ. Empty without a budget, and in
    /// certificates of version 1.
    #[serde(default)]
    pub promises: Vec<PromisedLimit>,
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

#[cfg(test)]
mod tests {
    use super::super::super::ReleaseTick;
    use super::ClockSummary;

    #[test]
    fn clock_summary_counts_late_ticks() {
        let tick = |period_millis, number| Some(ReleaseTick { period_millis, number });
        assert_eq!(ClockSummary::from_ticks([None, None]), None);
        let ticks = [tick(250, 1), None, tick(250, 3), tick(400, 1), tick(400, 0)];
        let expected = ClockSummary { period_millis: 400, releases: 4, late: 2 };
        assert_eq!(ClockSummary::from_ticks(ticks), Some(expected));
    }
}
