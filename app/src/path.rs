//! The addresses of the pages, and those of files in REST that pages link to, each made in one place.

use undertone_api::audit_log::AuditPlace;
use undertone_api::id::{AccountId, ArtifactId, ConsortiumId, DatasetId, DraftId, JobId, OrganizationId};
use undertone_api::question::ExportFormat;

/// The sign-in page.
pub const SIGN_IN: &str = "/sign-in";
/// The page to found a consortium.
pub const FOUND: &str = "/found";
/// The member's own settings.
pub const SETTINGS: &str = "/settings";
/// The member's own keys.
pub const KEYS: &str = "/settings/keys";
/// The start of a sign-in at the provider: an address of the server's, not a page.
pub const PROVIDER: &str = "/oidc/start";
/// The member's second factor, password and sessions.
pub const SECURITY: &str = "/settings/security";
/// The server's accounts and operators.
pub const ACCOUNTS: &str = "/settings/accounts";
/// The member's notifications.
pub const NOTIFICATIONS: &str = "/notifications";
/// The switches of the member's notifications.
pub const SWITCHES: &str = "/notifications#switches";
/// The table of thresholds by promise.
pub const THRESHOLDS: &str = "/thresholds";

/// Returns the second step of a sign-in, on the way to an address of this site.
pub fn second_factor(to: &str) -> String {
    let encoded: String = to
        .bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect();
    format!("/sign-in/code?to={encoded}")
}

/// Returns the page that accepts a one-time link.
pub fn accept(secret: &str) -> String {
    format!("/accept/{secret}")
}

/// Returns a consortium's overview.
pub fn overview(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}")
}

/// Returns a consortium's jobs.
pub fn jobs(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/jobs")
}

/// Returns the job planner.
pub fn plan(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/plan")
}

/// Returns the job planner with the form of a kind, by the kind's word.
pub fn plan_of(consortium: ConsortiumId, word: &str) -> String {
    format!("/c/{consortium}/plan?kind={word}")
}

/// The prefix of the file names of the planner's bundle.
pub const PLANNER_BUNDLE: &str = "planner";

/// Returns whether an address is that of a job planner.
pub fn is_plan(path: &str) -> bool {
    let mut parts = path.trim_end_matches('/').split('/').skip(1);
    (parts.next(), parts.nth(1), parts.next()) == (Some("c"), Some("plan"), None)
}

/// Returns a job.
pub fn job(consortium: ConsortiumId, job: JobId) -> String {
    format!("/c/{consortium}/jobs/{job}")
}

/// Returns the review of a job for a dataset.
pub fn review(consortium: ConsortiumId, job: JobId, dataset: DatasetId) -> String {
    format!("/c/{consortium}/jobs/{job}/review/{dataset}")
}

/// Returns a draft of a job.
pub fn draft(consortium: ConsortiumId, draft: DraftId) -> String {
    format!("/c/{consortium}/drafts/{draft}")
}

/// Returns the planner with a draft.
pub fn reopen(consortium: ConsortiumId, draft: DraftId) -> String {
    format!("/c/{consortium}/plan?draft={draft}")
}

/// Returns the log of a job.
pub fn job_log(consortium: ConsortiumId, job: JobId) -> String {
    format!("/c/{consortium}/jobs/{job}/log")
}

/// Returns the certificate of a job.
pub fn certificate(consortium: ConsortiumId, job: JobId) -> String {
    format!("/c/{consortium}/jobs/{job}/certificate")
}

/// Returns the full report of a job.
pub fn report(consortium: ConsortiumId, job: JobId) -> String {
    format!("/c/{consortium}/jobs/{job}/report")
}

/// Returns the jobs of a consortium with questions.
pub fn questions(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/questions")
}

/// Returns the annotation page of a job.
pub fn annotate(consortium: ConsortiumId, job: JobId) -> String {
    format!("/c/{consortium}/questions/{job}")
}

/// Returns a consortium's datasets.
pub fn datasets(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/datasets")
}

/// Returns a dataset.
pub fn dataset(consortium: ConsortiumId, dataset: DatasetId) -> String {
    format!("/c/{consortium}/datasets/{dataset}")
}

/// Returns a consortium's organizations.
pub fn organizations(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/organizations")
}

/// Returns an organization.
pub fn organization(consortium: ConsortiumId, organization: OrganizationId) -> String {
    format!("/c/{consortium}/organizations/{organization}")
}

/// Returns a consortium's models.
pub fn models(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/models")
}

/// The audit log of the server.
pub const SERVER_LOG: &str = "/audit-log";

/// Returns the audit log of a consortium.
pub fn audit_log(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/audit-log")
}

/// Returns the audit log of an organization.
pub fn organization_log(consortium: ConsortiumId, organization: OrganizationId) -> String {
    format!("/c/{consortium}/organizations/{organization}/audit-log")
}

/// Returns the comparison of models.
pub fn compare(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/models/compare")
}

/// Returns a model.
pub fn model(consortium: ConsortiumId, model: ArtifactId) -> String {
    format!("/c/{consortium}/models/{model}")
}

/// Returns the comparison of two models.
pub fn model_comparison(consortium: ConsortiumId, first: ArtifactId, second: ArtifactId) -> String {
    format!("/c/{consortium}/models/{first}/compare/{second}")
}

/// Returns the file of a model's card.
pub fn model_card(model: ArtifactId) -> String {
    format!("/api/v1/artifacts/{model}/model/card")
}

/// Returns the archive of a model for MLflow.
pub fn model_archive(model: ArtifactId) -> String {
    format!("/api/v1/artifacts/{model}/model/archive")
}

/// Returns one row of an account, with its proofs.
pub fn ledger_row(consortium: ConsortiumId, account: AccountId, sequence: u64) -> String {
    format!("/c/{consortium}/ledger/{account}/{sequence}")
}

/// Returns the ledger of all of a consortium's datasets.
pub fn ledger(consortium: ConsortiumId) -> String {
    format!("/c/{consortium}/ledger")
}

/// Returns the file of a job's certificate with its evidence.
pub fn certificate_file(job: JobId) -> String {
    format!("/api/v1/jobs/{job}/certificate")
}

/// Returns the file of a job's report, for programs.
pub fn report_file(job: JobId) -> String {
    format!("/api/v1/jobs/{job}/report")
}

/// Returns a job's report as a self-contained page.
pub fn report_document(job: JobId) -> String {
    format!("/api/v1/jobs/{job}/report.html")
}

/// Returns the file of a job's review for a dataset.
pub fn review_file(job: JobId, dataset: DatasetId) -> String {
    format!("/api/v1/jobs/{job}/datasets/{dataset}/review")
}

/// Returns the file of a job's whole log.
pub fn job_log_file(job: JobId) -> String {
    format!("/api/v1/jobs/{job}/log/export")
}

/// Returns the file of a job's questions with their answers.
pub fn question_file(job: JobId, format: ExportFormat) -> String {
    let format = match format {
        ExportFormat::Jsonl => "jsonl",
        ExportFormat::Csv => "csv",
        ExportFormat::LabelStudio => "label_studio",
    };
    format!("/api/v1/jobs/{job}/questions/export?format={format}")
}

/// Returns the content of a job's file.
pub fn artifact_file(artifact: ArtifactId) -> String {
    format!("/api/v1/artifacts/{artifact}/content")
}

/// Returns the file of one row of an account with its proofs.
pub fn entry_file(account: AccountId, sequence: u64) -> String {
    format!("/api/v1/accounts/{account}/entries/{sequence}")
}

/// Returns the file of a consortium's ledgers.
pub fn ledger_file(consortium: ConsortiumId) -> String {
    format!("/api/v1/consortia/{consortium}/ledger/bundle")
}

/// Returns the file of a place's whole audit log.
pub fn audit_log_file(place: AuditPlace) -> String {
    match place {
        AuditPlace::Server => "/api/v1/audit-log/export".to_owned(),
        AuditPlace::Consortium(id) => format!("/api/v1/consortia/{id}/audit-log/export"),
        AuditPlace::Organization(id) => format!("/api/v1/organizations/{id}/audit-log/export"),
    }
}

#[cfg(test)]
mod tests {
    use undertone_api::id::ConsortiumId;

    use super::{is_plan, overview, plan, plan_of};

    #[test]
    fn planner_alone_has_the_bundle_of_the_planner() {
        let consortium: ConsortiumId = "0198a1b2-0000-7000-8000-000000000001".parse().expect("an id");
        assert_eq!(plan_of(consortium, "rows"), format!("{}?kind=rows", plan(consortium)));
        assert!(is_plan(&plan(consortium)) && is_plan(&format!("{}/", plan(consortium))));
        for other in [overview(consortium), format!("{}/1", plan(consortium)), "/plan".to_owned(), "/".to_owned()] {
            assert!(!is_plan(&other), "{other}");
        }
    }
}
