//! The numbers of a certificate, each with its meaning and its permitted use.

use serde::{Deserialize, Serialize};
use undertone_privacy::{Adjacency, PrivacyUnit};

use crate::id::OrganizationId;

/// The method of computation of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CertificateMethod))]
#[serde(rename_all = "snake_case")]
pub enum FigureMethod {
    /// Rényi differential privacy, as in the ledger, converted at the best order of the fine grid and rounded up.
    Renyi,
    /// Privacy-loss distributions on a pessimistic grid: the tight number.
    PrivacyLossDistribution,
}

/// The permitted use of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ValidFor {
    /// A report about this job by itself, by the kind of curve that budgets add over jobs (Feldman and Zrnic 2021). The curves add
    /// up; the ε of several jobs do not.
    Budgets,
    /// A report about this job by itself, whose parameters and greatest number of releases were fixed in the signed manifest before
    /// its first release (Zhu, Dong and Wang 2022). It must not be added to another job's, and must not decide whether another job
    /// is admitted.
    ThisJobAlone,
}

/// An ε at a δ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Figure))]
#[serde(deny_unknown_fields)]
pub struct CertifiedFigure {
    /// The method of computation.
    pub method: FigureMethod,
    /// The permitted use.
    pub valid_for: ValidFor,
    /// ε, rounded up; null if no finite one holds.
    pub epsilon: Option<f64>,
    /// The δ at which it holds.
    pub delta: f64,
}

impl CertifiedFigure {
    /// Makes the number by the ledger's kind of curve, at the best order for this job.
    pub const fn renyi(epsilon: Option<f64>, delta: f64) -> Self {
        Self { method: FigureMethod::Renyi, valid_for: ValidFor::Budgets, epsilon, delta }
    }

    /// Makes the tight number.
    pub const fn tight(epsilon: Option<f64>, delta: f64) -> Self {
        Self { method: FigureMethod::PrivacyLossDistribution, valid_for: ValidFor::ThisJobAlone, epsilon, delta }
    }
}

/// The consortium's figure for one person, for one unit and adjacency, of this job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Together))]
#[serde(deny_unknown_fields)]
pub struct CombinedFigure {
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The adjacency, the change that the guarantee covers.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// The organizations whose data were charged for this unit.
    pub organizations: Vec<OrganizationId>,
    /// The most organizations that may have data of one person, by the rule.
    pub most: u64,
    /// ε at the least δ of those organizations' accounts; absent when no account has a budget.
    pub figure: Option<CertifiedFigure>,
    /// Exact releases in addition, for comparison. No ε covers them.
    pub in_the_clear: u64,
}
