//! The addresses of the pages, each made in one place.

use undertone_api::id::{AccountId, ConsortiumId, DatasetId, DraftId, JobId, OrganizationId};

/// Where a member signs in.
pub const SIGN_IN: &str = "/sign-in";
/// Where a consortium is founded.
pub const FOUND: &str = "/found";
/// The member's own settings.
pub const SETTINGS: &str = "/settings";
/// The member's own keys.
pub const KEYS: &str = "/settings/keys";
/// Where signing in at the provider begins: an address of the server's, not a page.
pub const PROVIDER: &str = "/oidc/start";
/// The member's second factor, password and sessions.
pub const SECURITY: &str = "/settings/security";
/// The server's accounts and operators.
pub const ACCOUNTS: &str = "/settings/accounts";
/// What the member was told.
pub const NOTIFICATIONS: &str = "/notifications";
/// Of what the member is told, and of what not.
pub const SWITCHES: &str = "/notifications#switches";
/// Which thresholds keep which promise.
pub const THRESHOLDS: &str = "/thresholds";

/// Where a sign-in waits for its code, on the way to an address of this site.
pub fn second_factor(to: &str) -> String {
    let encoded: String = to
        .bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect();
    format!("/sign-in/code?to={encoded}")
}

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

/// What a job asks of a dataset.
pub fn review(consortium: ConsortiumId, job: JobId, dataset: DatasetId) -> String {
    format!("/c/{consortium}/jobs/{job}/review/{dataset}")
}

/// A draft of a job.
pub fn draft(consortium: ConsortiumId, draft: DraftId) -> String {
    format!("/c/{consortium}/drafts/{draft}")
}

/// The planner with a draft in it.
pub fn reopen(consortium: ConsortiumId, draft: DraftId) -> String {
    format!("/c/{consortium}/plan?draft={draft}")
}

/// What a job's parts did.
pub fn job_log(consortium: ConsortiumId, job: JobId) -> String {
    format!("/c/{consortium}/jobs/{job}/log")
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

/// What was done on the server as such.
pub const SERVER_LOG: &str = "/audit-log";

/// What was done in a consortium.
pub fn audit_log(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/audit-log")
}

/// What was done in an organization.
pub fn organization_log(consortium: ConsortiumId, organization: OrganizationId) -> String {
    format!("/c/{consortium}/organizations/{organization}/audit-log")
}

/// Models beside each other.
pub fn compare(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/models/compare")
}

/// One row of an account, with its proofs.
pub fn ledger_row(consortium: ConsortiumId, account: AccountId, sequence: u64) -> String {
    format!("/c/{consortium}/ledger/{account}/{sequence}")
}

/// The ledger of all a consortium's datasets.
pub fn ledger(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/ledger")
}
