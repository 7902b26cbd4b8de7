//! The questions. Each function answers one from the certificate or the audit logs, names its proofs, and states the limits.

use undertone_api::audit_log::AuditAction;
use undertone_api::job::audit::AuditVerdict;
use undertone_api::signed::AuditStatement;
use undertone_api::signed::certificate::{CertificateParty, PartyCharges};
use undertone_certificate::VerificationPoint as Point;

use super::privacy::format_epsilon;
use super::{
    DossierFacts, DossierItem, DossierProof, FiveSafes, OutputSubject, ProofResult, ProofSource, approvals, files,
    fill_empty, list_charged, privacy, to_strings,
};

/// Returns the items of a dossier, in the order of the Five Safes.
pub(super) fn list_items(facts: &DossierFacts) -> Vec<DossierItem> {
    vec![
        describe_purpose(facts),
        approvals::describe_approvals(facts),
        describe_recipients(facts),
        describe_setting(facts),
        describe_data(facts),
        describe_lifetime(facts),
        classify_outputs(facts),
        describe_minimum(facts),
        describe_mechanism(facts),
        privacy::state_epsilon(facts),
        files::describe_model_files(facts),
        describe_checks(facts),
    ]
}

fn describe_purpose(facts: &DossierFacts) -> DossierItem {
    let job = &facts.certificate.job;
    let consortium = &facts.certificate.consortium.name;
    DossierItem {
        id: "purpose",
        safe: FiveSafes::Projects,
        subject: Some(OutputSubject::IntendedOutputs),
        question: "Which result was intended, and was it fixed before the data were read?",
        answer: vec![
            format!(
                "{} proposed \"{}\", a job of the kind {}, in the consortium {consortium}.",
                job.proposed_by, job.title, job.kind
            ),
            format!(
                "The signed manifest with the SHA-256 {} states the computation in full. It plans {} rounds; {} were closed, and the job is {}.",
                job.manifest,
                job.rounds,
                job.rounds_done,
                format!("{:?}", job.state).to_lowercase()
            ),
        ],
        proofs: [
            facts.prove_actions(
                &[AuditAction::JobProposed, AuditAction::JobRetried],
                "the audit logs have no entry of the proposal",
            ),
            vec![facts.prove(ProofSource::Certificate, Point::Manifest)],
        ]
        .concat(),
        not_covered: to_strings(&[
            "Whether the purpose is lawful, ethical and in the public interest: no document of the job states it.",
            "The use of the result after it has left.",
        ]),
    }
}

fn describe_recipients(facts: &DossierFacts) -> DossierItem {
    let actions = [
        AuditAction::ModelTaken,
        AuditAction::ReportTaken,
        AuditAction::CertificateTaken,
        AuditAction::LogsTaken,
        AuditAction::QuestionsExported,
        AuditAction::ModelDeleted,
    ];
    let entries = facts.logs.iter().flat_map(|log| &log.entries);
    let count = entries.filter(|entry| actions.contains(&entry.what)).count();
    let mut proofs = facts.prove_actions(&actions, "the audit logs have no download until now");
    proofs.extend(facts.prove_chains());
    DossierItem {
        id: "recipients",
        safe: FiveSafes::People,
        subject: None,
        question: "Who has taken files of the job until now?",
        answer: vec![format!(
            "The audit logs have {count} entries about downloads and deletions of the job's files, before this dossier."
        )],
        proofs,
        not_covered: to_strings(&[
            "Copies that a recipient made or passed on.",
            "Results that members read on pages without a download: members who may see jobs see reports and measurements.",
        ]),
    }
}

fn describe_setting(facts: &DossierFacts) -> DossierItem {
    let sentence = |party: &CertificateParty| {
        let receipts = party.charged.as_ref().map_or(0, |charged| charged.receipts.count);
        format!(
            "The manifest assigns {} to worker {} of {}; its key {} signed {receipts} receipts.",
            party.dataset_name, party.worker, party.organization_name, party.site_key
        )
    };
    let clock = |(party, charged): (&CertificateParty, &PartyCharges)| {
        let clock = charged.clock?;
        Some(format!(
            "{}: {} releases left on a clock of {} ms, {} of them later than their first tick.",
            party.dataset_name, clock.releases, clock.period_millis, clock.late
        ))
    };
    let parties = facts.certificate.parties.iter().map(sentence);
    DossierItem {
        id: "setting",
        safe: FiveSafes::Settings,
        subject: None,
        question: "Where were the data read, and is each release accounted for?",
        answer: parties.chain(list_charged(facts).filter_map(clock)).collect(),
        proofs: vec![
            facts.prove(ProofSource::Certificate, Point::Sites),
            facts.prove(ProofSource::Ledger, Point::Receipts),
            facts.prove(ProofSource::Ledger, Point::Chain),
            facts.prove(ProofSource::Ledger, Point::Log),
        ],
        not_covered: to_strings(&[
            "The security of the machines at the sites, and a worker whose program was replaced: a receipt proves a payment, not the code behind it.",
            "The times of a site's messages that are no releases, and a release later than its first tick, can depend on the data.",
        ]),
    }
}

fn describe_data(facts: &DossierFacts) -> DossierItem {
    let sentence = |party: &CertificateParty| {
        let visibility = format!("{:?}", party.visibility).to_lowercase();
        let relation = party.charged.as_ref().map_or(String::new(), |charged| format!(" {}", charged.relation));
        format!(
            "{} of {}: {visibility}, about {} units.{relation}",
            party.dataset_name, party.organization_name, party.units
        )
    };
    DossierItem {
        id: "data",
        safe: FiveSafes::Data,
        subject: None,
        question: "Which data were read, and whom does the guarantee protect?",
        answer: facts.certificate.parties.iter().map(sentence).collect(),
        proofs: vec![
            facts.prove(ProofSource::Certificate, Point::Signature),
            facts.prove(ProofSource::Certificate, Point::Manifest),
        ],
        not_covered: to_strings(&[
            "Names, size classes, classes of labels and declared columns are public facts, which no ε covers.",
            "People whose data are public or opened by their owner have no guarantee.",
            "A unit that the site cannot recognize as one: two identifiers of one person are two units.",
            "The datasets of the earlier jobs of an initial model: their certificates name them.",
        ]),
    }
}

fn describe_lifetime(facts: &DossierFacts) -> DossierItem {
    let sentence = |(party, charged): (&CertificateParty, &PartyCharges)| {
        let account = &charged.account;
        let limit = account.limit.map_or("without a limit".to_owned(), |limit| {
            format!("of a lifetime limit of {limit} at δ = {}", account.delta.unwrap_or_default())
        });
        format!(
            "{}: at issue, the account had ε = {} spent and reserved over all jobs, {limit}.",
            party.dataset_name,
            format_epsilon(account.committed)
        )
    };
    DossierItem {
        id: "lifetime",
        safe: FiveSafes::Data,
        subject: None,
        question: "How much have the same people lost in the jobs together?",
        answer: fill_empty(list_charged(facts).map(sentence).collect(), "This job charged no account."),
        proofs: vec![
            facts.prove(ProofSource::Ledger, Point::Account),
            facts.prove(ProofSource::Ledger, Point::Log),
            facts.prove(ProofSource::Certificate, Point::Lineage),
        ],
        not_covered: to_strings(&[
            "Releases about the same people outside this platform.",
            "Exact releases of data that their owner opened: the ledger counts them, and no ε bounds them.",
            "The accounts that the jobs of an initial model charged: the item `statistical-basis` has the sum of each.",
        ]),
    }
}

fn classify_outputs(facts: &DossierFacts) -> DossierItem {
    let files = facts.certificate.artifacts.iter();
    let sentence = |file: &undertone_api::signed::certificate::ArtifactNamed| {
        format!("{}: {} bytes, SHA-256 {}.", file.name, file.size, file.digest)
    };
    DossierItem {
        id: "outputs",
        safe: FiveSafes::Outputs,
        subject: Some(OutputSubject::Classification),
        question: "Which files leave, and how can each be recognized?",
        answer: fill_empty(files.map(sentence).collect(), "The job has no files: its result is the report alone."),
        proofs: vec![
            facts.prove(ProofSource::Certificate, Point::Signature),
            facts.prove(ProofSource::Certificate, Point::Model),
        ],
        not_covered: to_strings(&[
            "The sensitivity class of a file under the rules of an organization: a person assigns it.",
            "Confidential knowledge about an organization, such as the quality of its data, is not personal data and has no ε.",
        ]),
    }
}

fn describe_minimum(facts: &DossierFacts) -> DossierItem {
    let sentence = |(party, charged): (&CertificateParty, &PartyCharges)| {
        let releases = &charged.releases;
        format!(
            "{}: {} releases were planned, {} were paid for, and {} more were exact.",
            party.dataset_name, releases.reserved, releases.committed, releases.in_the_clear
        )
    };
    DossierItem {
        id: "minimum",
        safe: FiveSafes::Outputs,
        subject: Some(OutputSubject::MinimumOutputs),
        question: "How many releases were made, and was more released than the plan?",
        answer: fill_empty(list_charged(facts).map(sentence).collect(), "This job made no protected release."),
        proofs: vec![
            facts.prove(ProofSource::Ledger, Point::Counts),
            facts.prove(ProofSource::Ledger, Point::Receipts),
        ],
        not_covered: to_strings(&[
            "Whether a smaller result would serve the purpose: the certificate counts each planned release, made or not.",
        ]),
    }
}

fn describe_mechanism(facts: &DossierFacts) -> DossierItem {
    let sentence = |(party, charged): (&CertificateParty, &PartyCharges)| {
        let mechanism = &charged.mechanism;
        let bound =
            mechanism.clip.map_or("nothing is clipped".to_owned(), |clip| format!("each unit is clipped to {clip}"));
        let noise = mechanism.noise.map_or("the certificate states no noise deviation".to_owned(), |noise| {
            format!("the noise has the deviation {noise} in each coordinate")
        });
        let event = serde_json::to_string(&mechanism.event).unwrap_or_default();
        format!("{}: {bound}; {noise}. The mechanism is {event}.", party.dataset_name)
    };
    DossierItem {
        id: "disclosure-control",
        safe: FiveSafes::Outputs,
        subject: Some(OutputSubject::DisclosureControl),
        question: "Which mechanism limits disclosure, and with which parameters?",
        answer: fill_empty(list_charged(facts).map(sentence).collect(), "This job charged no mechanism."),
        proofs: vec![
            facts.prove(ProofSource::Certificate, Point::Mechanism),
            facts.prove(ProofSource::Ledger, Point::Receipts),
        ],
        not_covered: to_strings(&[
            "Inferences about a group, or from a true statement about the population: a statistic may teach something about everybody in it.",
            "The organization's own rules of disclosure control, such as least counts in tables, which this platform does not apply.",
        ]),
    }
}

fn describe_checks(facts: &DossierFacts) -> DossierItem {
    let statements = list_charged(facts).filter_map(|(party, charged)| {
        let statement = charged.audit.as_ref()?.statement.as_ref()?;
        // The check `audit` verifies the signature.
        let read: AuditStatement = serde_json::from_str(&statement.payload).ok()?;
        let (result, phrase) = match read.assessment.verdict {
            AuditVerdict::Disproved => (ProofResult::Fails, "measured more than the claim"),
            AuditVerdict::Uninformative => (ProofResult::Unchecked, "could not have disproved a claim of this size"),
            AuditVerdict::Consistent => (ProofResult::Holds, "measured no more than the claim"),
        };
        let text = format!("{}: the site's signed audit {phrase} (SHA-256 {})", party.dataset_name, statement.digest());
        Some(DossierProof { source: ProofSource::Audit, result, text })
    });
    let failed = facts.verdict.failed();
    let verdict = if facts.verdict.holds() {
        "The certificate was verified again for this dossier, and no check failed.".to_owned()
    } else {
        let names: Vec<&str> = failed.iter().map(|point| point.name()).collect();
        format!("The certificate was verified again for this dossier, and these checks failed: {}.", names.join(", "))
    };
    DossierItem {
        id: "automated-checks",
        safe: FiveSafes::Outputs,
        subject: Some(OutputSubject::AutomatedChecks),
        question: "Which checks were made by programs, and can another machine repeat them?",
        answer: vec![
            verdict,
            "`undertone verify FILE --server-key HEX` or `undertone-server certificate verify FILE --server-key HEX` repeats the checks of the certificate on another machine, without this server. HEX is the `server_key` in the configuration of a worker.".to_owned(),
            "This server checked the audit logs; these checks cannot be repeated on another machine.".to_owned(),
        ],
        proofs: std::iter::once(facts.prove(ProofSource::Audit, Point::Audit)).chain(statements).collect(),
        not_covered: to_strings(&[
            "An audit that finds nothing proves no guarantee: it bounds the loss from below.",
            "The key of the server: this dossier was checked with the server's own key, which the reader compares with the `server_key` in the configuration of a worker.",
            "The keys of the sites, unless they were given from another source (`--site-key`).",
            "The decision itself: a person answers for it.",
        ]),
    }
}
