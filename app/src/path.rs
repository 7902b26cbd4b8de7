//! The addresses of the pages, each made in one place.

use undertone_api::id::{ConsortiumId, DatasetId, JobId, OrganizationId};

/// Where a member signs in.
pub const SIGN_IN: &str = "/sign-in";
/// Where a consortium is founded.
pub const FOUND: &str = "/found";
/// The member's own settings.
pub const SETTINGS: &str = "/settings";
/// Which thresholds keep which promise.
pub const THRESHOLDS: &str = "/thresholds";

/// Where the bearer of a one-time link accepts it.
pub fn accept(secret: &str) -> String {
    format!("/accept/{secret}")
}

/// A consortium's overview.
pub fn overview(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}")
}

/// A consortium's jobs.
pub fn jobs(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/jobs")
}

/// The job planner.
pub fn plan(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/plan")
}

/// A job.
pub fn job(consortium: ConsortiumId, job: JobId) -> String {
    format!("/c/{consortium}/jobs/{job}")
}

/// What a job cost.
pub fn certificate(consortium: ConsortiumId, job: JobId) -> String {
    format!("/c/{consortium}/jobs/{job}/certificate")
}

/// What came of a job, in full.
pub fn report(consortium: ConsortiumId, job: JobId) -> String {
    format!("/c/{consortium}/jobs/{job}/report")
}

/// The jobs of a consortium that ask people.
pub fn questions(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/questions")
}

/// Where the questions of a job are answered.
pub fn annotate(consortium: ConsortiumId, job: JobId) -> String {
    format!("/c/{consortium}/questions/{job}")
}

/// A consortium's datasets.
pub fn datasets(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/datasets")
}

/// A dataset.
pub fn dataset(consortium: ConsortiumId, dataset: DatasetId) -> String {
    format!("/c/{consortium}/datasets/{dataset}")
}

/// A consortium's organizations.
pub fn organizations(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/organizations")
}

/// An organization.
pub fn organization(consortium: ConsortiumId, organization: OrganizationId) -> String {
    format!("/c/{consortium}/organizations/{organization}")
}

/// A consortium's models.
pub fn models(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/models")
}

/// The ledger of all a consortium's datasets.
pub fn ledger(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/ledger")
}
