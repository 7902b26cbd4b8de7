//! One dataset's part in a certificate: its releases, its charges, and the following state of its account.

use serde::{Deserialize, Serialize};
use undertone_privacy::ledger::{Balance, JobCertificate};
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use super::super::ReleaseTick;
use super::{AuditAsked, CertifiedFigure, PublicFact};
use crate::budget::PromisedLimit;
use crate::dataset::Visibility;
use crate::id::{AccountId, DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::{DatasetUse, Departure};
use crate::signed::Consent;

/// A dataset of the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateParty))]
#[serde(deny_unknown_fields)]
pub struct CertificateParty {
    /// The owner.
    pub organization: OrganizationId,
    /// The owner's name.
    pub organization_name: String,
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub dataset_name: String,
    /// Its lineage. All versions in the lineage share one budget.
    pub lineage: LineageId,
    /// The visibility of the dataset, as its site declared it.
    pub visibility: Visibility,
    /// The use of the dataset by the job.
    pub purpose: DatasetUse,
    /// The worker that ran it.
    pub worker: WorkerId,
    /// The site's public key, hex. It signed the receipts.
    pub site_key: String,
    /// n, the public number of units, used in every division.
    pub units: u64,
    /// The basis of the owner's consent; absent for public data, and in certificates from before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consent: Option<Consent>,
    /// Its departure before the end of the job; absent unless it left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub departure: Option<Departure>,
    /// Its charges; absent for public data, which are not protected.
    #[serde(default)]
    pub charged: Option<PartyCharges>,
}

/// The charges of a dataset for the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateCharged))]
#[serde(deny_unknown_fields)]
pub struct PartyCharges {
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The adjacency, the change that the guarantee covers.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// The adjacency in plain words: the compared data. Empty in certificates of version 1.
    #[serde(default)]
    pub relation: String,
    /// The facts about the dataset that are taken to be public. Empty in certificates of version 1.
    #[serde(default)]
    pub public: Vec<PublicFact>,
    /// The mechanism of each release.
    pub mechanism: ReleaseMechanism,
    /// The numbers of releases.
    pub releases: ReleaseCounts,
    /// ε of the counted releases, as budgets count; absent if the account has no budget and so no δ.
    pub renyi: Option<CertifiedFigure>,
    /// The tight ε of the counted releases; absent if there is none to compute.
    pub tight: Option<CertifiedFigure>,
    /// ε of the counted releases against the server with all other sites, which leave the site's own noise; absent unless the
    /// vectors were added under masks. The other figures hold against the server with the colluding sites of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insider: Option<CertifiedFigure>,
    /// The state of the lifetime account at the time of the certificate.
    pub account: AccountPosition,
    /// The site's receipts for this job.
    pub receipts: ChainPiece,
    /// The ticks of the site's release clock at which its releases left; absent if no receipt names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSummary>,
    /// An audit's lower bound, for comparison with the claim; null if the job did not request an audit.
    pub audit: Option<AuditAsked>,
    /// The accounts of all other limited units of the lineage, to which the same releases were charged. Each limit
    /// bounds all jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ChargedBeside>,
}

/// The charges of a job to another limited unit of the same lineage than the one that it protects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateChargedBeside))]
#[serde(deny_unknown_fields)]
pub struct ChargedBeside {
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The release as it is charged for this unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::event))]
    pub event: Event,
    /// ε of the counted releases, as budgets count.
    pub renyi: Option<CertifiedFigure>,
    /// The state of the lifetime account at the time of the certificate.
    pub account: AccountPosition,
}

/// The ticks at which a site's releases left, as its receipts state them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateClock))]
#[serde(deny_unknown_fields)]
pub struct ClockSummary {
    /// Milliseconds between two ticks; the longest period if receipts name several.
    pub period_millis: u64,
    /// Receipts that name a tick.
    pub releases: u64,
    /// Receipts of a later tick than the first. The time of these releases can depend on the data.
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

/// The mechanism of each release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateMechanism))]
#[serde(deny_unknown_fields)]
pub struct ReleaseMechanism {
    /// The release with exact parameters, as both ledgers priced it.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::event))]
    pub event: Event,
    /// How units were selected for a release.
    pub sampling: UnitSampling,
    /// C, the largest L2 norm of a unit's contribution to a step after clipping; absent for a mechanism that clips
    /// nothing.
    pub clip: Option<f64>,
    /// The largest change of the sum in L2 by one neighbouring change: the clip by construction, twice the clip if a
    /// unit is replaced.
    pub sensitivity: Option<f64>,
    /// Standard deviation of the noise in each coordinate of a step's sum: z times the clip, with correlated noise
    /// that of the independent part times the clip over the column norm; under masks that of the least
    /// number of honest sites together.
    pub noise: Option<f64>,
}

/// How units were selected for a release.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateSampling))]
#[serde(tag = "sampling", rename_all = "snake_case")]
pub enum UnitSampling {
    /// Each unit independently, in secret, with this probability. Only this sampling is counted as amplification.
    Poisson {
        /// q, exactly as drawn: a multiple of 2⁻³². With correlated noise that of a unit at its group's turn.
        rate: f64,
    },
    /// Every unit, or in an order that is not counted as sampling.
    Everything,
}

impl UnitSampling {
    /// Returns the sampling that is part of an event, or of each of its steps.
    pub fn from_event(event: &Event) -> Self {
        match event.innermost() {
            Event::PoissonSampledGaussian { sampling_rate, .. }
            | Event::PoissonSampledDistributedDiscreteGaussian { sampling_rate, .. }
            | Event::BandedGaussian { sampling_rate, .. } => Self::Poisson { rate: sampling_rate.get() },
            _ => Self::Everything,
        }
    }
}

/// The numbers of releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateReleases))]
#[serde(deny_unknown_fields)]
pub struct ReleaseCounts {
    /// Reserved before the job began: its worst case.
    pub reserved: u64,
    /// Paid, each with a receipt from the site.
    pub committed: u64,
    /// Whether the site has closed its part, so that no more payments are possible.
    pub settled: bool,
    /// Counted in the figures: all reserved releases, made or not. In certificates of version 1: the paid releases,
    /// once the site had closed its part.
    pub counted: u64,
    /// Exact releases in addition, for a comparison for which the owner opened the dataset. No ε covers these.
    pub in_the_clear: u64,
}

/// The state of a lifetime account at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificatePosition))]
#[serde(deny_unknown_fields)]
pub struct AccountPosition {
    /// The account.
    pub account: AccountId,
    /// The lifetime limit ε; absent without a budget.
    pub limit: Option<f64>,
    /// δ of every ε here; absent without a budget.
    pub delta: Option<f64>,
    /// ε of all releases until then, in all jobs of all consortia, rounded up.
    pub spent: f64,
    /// ε of all releases and reservations until then, rounded up.
    pub committed: f64,
    /// The limits that were promised one after another. Raising a limit after a release begins a new promise. The
    /// guarantee for all releases together is the sum of their ε at the sum of their δ. Empty without a budget, and in
    /// certificates of version 1.
    #[serde(default)]
    pub promises: Vec<PromisedLimit>,
    /// Exact releases during its whole life.
    pub in_the_clear: u64,
    /// The sums from which these figures follow: Rényi loss spent and reserved at every order, in exact fixed point.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub balance: Balance,
    /// The certificate by which the account is charged for this job as a whole, on an account with the filter `gaussian`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub certificate: Option<JobCertificate>,
    /// Rows of the account's ledger.
    pub entries: u64,
    /// Hash of the last of them, hex. It covers all previous rows.
    pub head: String,
}

/// The receipts of one site for one job, as a piece of the site's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ChainPiece {
    /// The number of receipts.
    pub count: u64,
    /// Number of the first in the site's chain; absent if there are none.
    pub first: Option<u64>,
    /// Number of the last.
    pub last: Option<u64>,
    /// Digest of the last one's payload, hex. It covers every receipt that the site signed before.
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
