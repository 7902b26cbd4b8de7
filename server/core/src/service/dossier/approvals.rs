//! The approvals: one proof for each dataset that needs one.

use undertone_api::audit_log::{AuditAction, AuditEntry, AuditPlace};
use undertone_api::dataset::Visibility;
use undertone_api::signed::Consent;
use undertone_api::signed::certificate::CertificateParty;

use super::{
    DossierFacts, DossierItem, DossierProof, FiveSafes, OutputSubject, ProofResult, ProofSource, prove_entry,
    to_strings,
};

pub(super) fn describe_approvals(facts: &DossierFacts) -> DossierItem {
    let parties = facts.certificate.parties.iter();
    let mut proofs: Vec<DossierProof> =
        parties.filter(|party| needs_approval(party)).map(|party| prove_approval(facts, party)).collect();
    proofs.extend(facts.prove_chains());
    DossierItem {
        id: "approvals",
        safe: FiveSafes::People,
        subject: Some(OutputSubject::Responsibility),
        question: "Who approved the job for each dataset?",
        answer: facts.certificate.parties.iter().map(describe_consent).collect(),
        proofs,
        not_covered: to_strings(&[
            "Whether the people behind the accounts are who they claim to be, and are trained: the organizations vouch for their members.",
            "The signature of a steward: its site verifies and keeps it, and this dossier did not verify it.",
            "A dataset whose proof is not checked: ask its organization for the approval.",
        ]),
    }
}

fn needs_approval(party: &CertificateParty) -> bool {
    party.consent.is_some() || party.visibility != Visibility::Public
}

/// Describes the basis of the approval as the certificate states it.
fn describe_consent(party: &CertificateParty) -> String {
    let consent = match &party.consent {
        Some(Consent::Signed { key }) => format!("the certificate states a steward's signature with the key {key}"),
        Some(Consent::ServerWord) => {
            "the certificate states an approval by the server's word, without a steward's signature".to_owned()
        }
        Some(Consent::Site) => "the certificate states an approval by the site itself".to_owned(),
        None if needs_approval(party) => "the certificate does not state the basis of the approval".to_owned(),
        None => "public data, which need no approval".to_owned(),
    };
    format!("{} ({}): {consent}.", party.dataset_name, party.organization_name)
}

/// Returns the approval of a dataset in the audit log of its organization as a proof. The entry must name the dataset and
/// the manifest that the parties approved.
fn prove_approval(facts: &DossierFacts, party: &CertificateParty) -> DossierProof {
    let (name, owner) = (&party.dataset_name, &party.organization_name);
    let place = AuditPlace::Organization(party.organization);
    let dataset = party.dataset.to_string();
    let is_approval = |entry: &AuditEntry| {
        entry.what == AuditAction::JobApproved
            && entry.place == place
            && entry.detail["dataset"].as_str() == Some(dataset.as_str())
    };
    let approvals: Vec<&AuditEntry> =
        facts.logs.iter().flat_map(|log| &log.entries).filter(|entry| is_approval(entry)).collect();
    if let Some(entry) = approvals.iter().find(|entry| facts.has_approved_manifest(entry)) {
        let proof = prove_entry(owner, entry);
        return DossierProof { text: format!("{name}: {}", proof.text), ..proof };
    }
    let text = match approvals.last().and_then(|entry| entry.detail["manifest"].as_str()) {
        Some(manifest) => format!("{name}: the approval in the audit log of {owner} names the manifest {manifest}"),
        None => format!("{name}: the audit log of {owner} has no approval of this dataset with a manifest"),
    };
    DossierProof { source: ProofSource::AuditLog, result: ProofResult::Unchecked, text }
}
