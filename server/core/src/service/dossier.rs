//! Egress dossiers: the questions behind a decision that a result may leave a trusted research environment,
//! answered for one job. The questions follow the Five Safes and the subjects of output management in SATRE 2.0,
//! section 3.3.
//!
//! A dossier decides nothing, and holds no figure of its own: each answer is read from the certificate or from the audit
//! logs. The proofs of the certificate can be repeated on another machine; those of the audit logs are checks of this server.
//! To add a question: a function in `items`, and its line in `list_items`.

mod approvals;
mod files;
mod items;
mod privacy;
#[cfg(test)]
mod tests;

use serde::Serialize;
use time::OffsetDateTime;
use undertone_api::audit_log::{AuditAction, AuditCheck, AuditEntry, AuditPlace};
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::problem::Code;
use undertone_api::signed::Manifest;
use undertone_api::signed::certificate::{Certificate, CertificateParty, ConsortiumNamed, JobCovered, PartyCharges};
use undertone_certificate::{CertificateVerdict, PointFinding, TrustedInputs, VerificationPoint, verify};

use crate::auth::Place;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::rule::job::load_job;
use crate::service::audit_log::{self, AuditAuthor, NewAuditEntry};
use crate::service::certificate;

/// The format of the document.
pub const FORMAT: &str = "undertone-dossier/1";

/// The limits of each dossier, for its reader.
pub const NOTICE: &str = "The certificate was checked with this server's own key: compare the key with the `server_key` in the \
     configuration of a worker. This server checked the audit logs; these checks cannot be repeated on another machine.";

/// The answers for one job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EgressDossier {
    /// The format: `undertone-dossier/1`.
    pub format: &'static str,
    /// When it was assembled.
    #[serde(with = "time::serde::rfc3339")]
    pub made_at: OffsetDateTime,
    /// The consortium.
    pub consortium: ConsortiumNamed,
    /// The job.
    pub job: JobCovered,
    /// SHA-256 of the signed certificate's payload, hex.
    pub certificate: String,
    /// The server's public key, hex. Compare it with the key in a worker's configuration.
    pub server_key: String,
    /// The limits of the dossier: the reader compares the server's key, and the server itself checked the audit logs.
    pub notice: &'static str,
    /// The questions with their answers.
    pub items: Vec<DossierItem>,
}

/// One of the Five Safes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FiveSafes {
    /// Safe projects: an appropriate use of the data.
    Projects,
    /// Safe people: trusted users.
    People,
    /// Safe settings: a place that limits misuse.
    Settings,
    /// Safe data: the risk in the data themselves.
    Data,
    /// Safe outputs: results that disclose no person.
    Outputs,
}

impl FiveSafes {
    /// Each of them, in the usual order.
    pub const ALL: [Self; 5] = [Self::Projects, Self::People, Self::Settings, Self::Data, Self::Outputs];

    /// Returns the name for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Projects => "Safe projects",
            Self::People => "Safe people",
            Self::Settings => "Safe settings",
            Self::Data => "Safe data",
            Self::Outputs => "Safe outputs",
        }
    }
}

/// A subject of output management in SATRE 2.0, section 3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSubject {
    /// The classes of the outputs.
    Classification,
    /// The outputs that were intended from the outset.
    IntendedOutputs,
    /// The process of disclosure control.
    DisclosureControl,
    /// The responsibility for checking outputs.
    Responsibility,
    /// Outputs that a person cannot check.
    UncheckableOutputs,
    /// The statistical basis of a decision.
    StatisticalBasis,
    /// Automated checks.
    AutomatedChecks,
    /// The minimum of outputs.
    MinimumOutputs,
}

impl OutputSubject {
    /// Each of them.
    pub const ALL: [Self; 8] = [
        Self::Classification,
        Self::IntendedOutputs,
        Self::DisclosureControl,
        Self::Responsibility,
        Self::UncheckableOutputs,
        Self::StatisticalBasis,
        Self::AutomatedChecks,
        Self::MinimumOutputs,
    ];

    /// Returns the name for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Classification => "classification of outputs",
            Self::IntendedOutputs => "intended outputs",
            Self::DisclosureControl => "disclosure control",
            Self::Responsibility => "responsibility for output checking",
            Self::UncheckableOutputs => "outputs that cannot be checked by hand",
            Self::StatisticalBasis => "statistical basis",
            Self::AutomatedChecks => "automated checks",
            Self::MinimumOutputs => "minimum of outputs",
        }
    }
}

/// A question with its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DossierItem {
    /// A word that identifies the question in each dossier.
    pub id: &'static str,
    /// Its place in the Five Safes.
    pub safe: FiveSafes,
    /// Its subject in SATRE; absent for a question of the Five Safes alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<OutputSubject>,
    /// The question.
    pub question: &'static str,
    /// The answer, in sentences.
    pub answer: Vec<String>,
    /// The proofs of the answer.
    pub proofs: Vec<DossierProof>,
    /// The limits of the answer: facts that the proofs do not show, and that a person has to judge.
    pub not_covered: Vec<String>,
}

/// A check that supports an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DossierProof {
    /// The origin of the proof.
    pub source: ProofSource,
    /// The result of the check.
    pub result: ProofResult,
    /// The check and its finding.
    pub text: String,
}

/// The origin of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofSource {
    /// A point of the certificate's verification.
    Certificate,
    /// The signed log of the ledgers, and the receipts in it.
    Ledger,
    /// The audit logs of the consortium and of its organizations.
    AuditLog,
    /// A measured audit of the release, signed by its site.
    Audit,
}

impl ProofSource {
    /// Returns the name for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Ledger => "ledger",
            Self::AuditLog => "audit log",
            Self::Audit => "audit",
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofResult {
    /// It holds.
    Holds,
    /// It was not checked here; the text states the reason.
    Unchecked,
    /// It does not hold.
    Fails,
}

impl EgressDossier {
    /// Returns each defect: an item without an answer, a proof or a limit, a subject without an item, and each proof that
    /// does not hold. A dossier without defects is complete; whether the result may leave is for people to decide.
    pub fn list_defects(&self) -> Vec<String> {
        let mut defects = Vec::new();
        for item in &self.items {
            for (part, is_missing) in [
                ("an answer", item.answer.iter().all(|line| line.trim().is_empty())),
                ("a proof", item.proofs.is_empty()),
                ("its limits", item.not_covered.is_empty()),
            ] {
                if is_missing {
                    defects.push(format!("{}: it lacks {part}", item.id));
                }
            }
            let failed = item.proofs.iter().filter(|proof| proof.result == ProofResult::Fails);
            defects.extend(failed.map(|proof| format!("{}: {}", item.id, proof.text)));
        }
        let safes = FiveSafes::ALL.into_iter().filter(|safe| !self.items.iter().any(|item| item.safe == *safe));
        defects.extend(safes.map(|safe| format!("{}: there is no question", safe.label())));
        let has_item = |subject: &OutputSubject| self.items.iter().any(|item| item.subject == Some(*subject));
        let subjects = OutputSubject::ALL.into_iter().filter(|subject| !has_item(subject));
        defects.extend(subjects.map(|subject| format!("{}: there is no question", subject.label())));
        defects
    }
}

/// The facts of a dossier.
struct DossierFacts {
    certificate: Certificate,
    /// The digest of the document that the parties approved: the manifest, or the proposal in it.
    approved_manifest: String,
    verdict: CertificateVerdict,
    /// The audit logs of the consortium and of the organizations whose data were read.
    logs: Vec<DossierLog>,
}

/// An audit log with its entries about the job.
struct DossierLog {
    /// The name of its consortium or organization.
    name: String,
    /// The entries about the job, the first first.
    entries: Vec<AuditEntry>,
    /// The check of the whole log.
    chain: AuditCheck,
}

impl DossierFacts {
    /// Returns a point of the certificate's verification as a proof.
    fn prove(&self, source: ProofSource, point: VerificationPoint) -> DossierProof {
        let (result, finding) = match self.verdict.finding(point) {
            Some(PointFinding::Holds(summary)) => (ProofResult::Holds, summary.clone()),
            Some(PointFinding::Unchecked(reason)) => (ProofResult::Unchecked, reason.clone()),
            Some(PointFinding::Fails(defects)) => (ProofResult::Fails, defects.join("; ")),
            None => (ProofResult::Fails, "an earlier check of the certificate failed".to_owned()),
        };
        DossierProof { source, result, text: format!("{}: {finding}", point.name()) }
    }

    /// Returns the entries with one of these actions as proofs; without an entry, the absence is not checked.
    fn prove_actions(&self, actions: &[AuditAction], absence: &str) -> Vec<DossierProof> {
        let own = self.logs.iter().flat_map(|log| log.entries.iter().map(move |entry| (&log.name, entry)));
        let own = own.filter(|(_, entry)| actions.contains(&entry.what));
        let proofs: Vec<DossierProof> = own.map(|(name, entry)| prove_entry(name, entry)).collect();
        if proofs.is_empty() {
            let text = absence.to_owned();
            return vec![DossierProof { source: ProofSource::AuditLog, result: ProofResult::Unchecked, text }];
        }
        proofs
    }

    /// Returns whether an entry names the manifest of the job, or the proposal that the parties approved.
    fn has_approved_manifest(&self, entry: &AuditEntry) -> bool {
        let manifest = entry.detail["manifest"].as_str();
        manifest.is_some_and(|digest| digest == self.certificate.job.manifest || digest == self.approved_manifest)
    }

    /// Returns the checks of the audit logs' chains as proofs.
    fn prove_chains(&self) -> Vec<DossierProof> {
        let proof = |log: &DossierLog| {
            let AuditCheck { entries, broken_at, head } = &log.chain;
            let name = &log.name;
            let (result, text) = match broken_at {
                None => (ProofResult::Holds, format!("{name}: the chain of {entries} entries holds up to {head}")),
                Some(number) => {
                    (ProofResult::Fails, format!("{name}: the chain breaks at entry {number} of {entries}"))
                }
            };
            DossierProof { source: ProofSource::AuditLog, result, text }
        };
        self.logs.iter().map(proof).collect()
    }
}

/// Returns an entry of the log of `name` as a proof: it holds if the entry has its stated hash.
fn prove_entry(name: &str, entry: &AuditEntry) -> DossierProof {
    let author = entry.by.name.clone().unwrap_or_else(|| entry.by.hand.word().to_owned());
    let time = entry.at.format(&time::format_description::well_known::Rfc3339).unwrap_or_default();
    let (number, action, hash) = (entry.number, entry.what.phrase(), &entry.hash);
    let text = format!("{name}, entry {number}, {time}: {author} {action} (hash {hash})");
    let result = if entry.digest() == entry.hash { ProofResult::Holds } else { ProofResult::Fails };
    DossierProof { source: ProofSource::AuditLog, result, text }
}

/// Returns the charged parties of the certificate.
fn list_charged(facts: &DossierFacts) -> impl Iterator<Item = (&CertificateParty, &PartyCharges)> {
    facts.certificate.parties.iter().filter_map(|party| Some((party, party.charged.as_ref()?)))
}

/// Returns sentences, or one that replaces an empty list.
fn fill_empty(sentences: Vec<String>, empty: &str) -> Vec<String> {
    if sentences.is_empty() { vec![empty.to_owned()] } else { sentences }
}

fn to_strings(limits: &[&str]) -> Vec<String> {
    limits.iter().map(|limit| (*limit).to_owned()).collect()
}

/// Assembles the dossier of a job at the server's terminal. `trusted` has the keys of sites and the model that the caller
/// brings; the server's key is this server's. The consortium's audit log notes that the certificate was taken.
///
/// # Errors
/// 404 when there is no such job, `wrong_state` when it has no certificate.
pub async fn assemble_at_terminal(ctx: &Ctx, id: JobId, trusted: TrustedInputs) -> Result<EgressDossier, Error> {
    let row = load_job(ctx.db.read(), id).await?;
    let file = certificate::existing_file(ctx, id).await?.ok_or_else(|| {
        Error::problem(
            Code::WrongState,
            "the job has no certificate, so there is nothing to decide about: one is made when a job has finished, or has ended \
             otherwise after releasing something",
        )
    })?;
    let server_key = ctx.signer.verifying_key();
    let trusted = TrustedInputs { server_key: Some(server_key), ..trusted };
    let digest = file.signed().digest();
    let certificate: Certificate =
        serde_json::from_str(&file.payload).map_err(|error| Error::internal("reading a certificate", error))?;
    let manifest: Manifest = serde_json::from_str(&file.evidence.manifest.payload)
        .map_err(|error| Error::internal("reading a manifest", error))?;
    let approved_manifest = manifest.approved_digest(&certificate.job.manifest);
    let logs = load_logs(ctx, id, &certificate).await?;
    // Every figure is computed again.
    let verdict =
        ctx.compute().run(WorkOwner::current(), "verifying a certificate", move || verify(&file, &trusted)).await?;
    let entry = NewAuditEntry {
        by: AuditAuthor::Operator,
        what: AuditAction::CertificateTaken,
        place: Place::Consortium(ConsortiumId(row.consortium_id)),
        subject: Some(("job", id.to_string())),
        detail: serde_json::json!({ "dossier": true }),
    };
    audit_log::note(ctx, entry).await?;
    let facts = DossierFacts { certificate, approved_manifest, verdict, logs };
    Ok(EgressDossier {
        format: FORMAT,
        made_at: ctx.now(),
        consortium: facts.certificate.consortium.clone(),
        job: facts.certificate.job.clone(),
        certificate: digest,
        server_key: hex::encode(server_key.to_bytes()),
        notice: NOTICE,
        items: items::list_items(&facts),
    })
}

/// Returns the audit logs of the consortium and of the organizations of a certificate, with their entries about the job.
async fn load_logs(ctx: &Ctx, id: JobId, certificate: &Certificate) -> Result<Vec<DossierLog>, Error> {
    let consortium = &certificate.consortium;
    let mut places = vec![(AuditPlace::Consortium(consortium.id), &consortium.name)];
    for party in &certificate.parties {
        let place = AuditPlace::Organization(party.organization);
        if !places.iter().any(|(known, _)| *known == place) {
            places.push((place, &party.organization_name));
        }
    }
    let mut logs = Vec::with_capacity(places.len());
    for (place, name) in places {
        let entries = audit_log::list_subject(ctx, place, "job", &id.to_string()).await?;
        let chain = audit_log::check_chain(ctx, place).await?;
        logs.push(DossierLog { name: name.clone(), entries, chain });
    }
    Ok(logs)
}
