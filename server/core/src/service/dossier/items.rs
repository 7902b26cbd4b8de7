//! The questions. Each function answers one from the certificate, names its proofs, and states the limits.

use undertone_api::audit_log::AuditAction;
use undertone_api::dataset::Visibility;
use undertone_api::job::audit::AuditVerdict;
use undertone_api::signed::AuditStatement;
use undertone_api::signed::certificate::{CertificateParty, CertifiedFigure, PartyCharges};
use undertone_certificate::VerificationPoint as Point;

use super::{DossierFacts, DossierItem, DossierProof, FiveSafes, OutputSubject, ProofResult, ProofSource};

/// Returns the items of a dossier, in the order of the Five Safes.
pub(super) fn list_items(facts: &DossierFacts) -> Vec<DossierItem> {
    vec![
        describe_purpose(facts),
        describe_approvals(facts),
        describe_recipients(facts),
        describe_setting(facts),
        describe_data(facts),
        describe_lifetime(facts),
        classify_outputs(facts),
        describe_minimum(facts),
        describe_mechanism(facts),
        state_epsilon(facts),
        describe_model_files(facts),
        describe_checks(facts),
    ]
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

/// Formats ε, rounded up in its last digit.
fn format_epsilon(value: f64) -> String {
    if value.is_finite() { format!("{:.4}", (value * 1e4).ceil() / 1e4) } else { "infinite".to_owned() }
}

fn format_figure(figure: &CertifiedFigure) -> String {
    let epsilon = figure.epsilon.map_or("infinite".to_owned(), format_epsilon);
    format!("ε = {epsilon} at δ = {}", figure.delta)
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

fn describe_approvals(facts: &DossierFacts) -> DossierItem {
    let answer = |party: &CertificateParty| {
        let consent = match (&party.consent, party.visibility) {
            (Some(consent), _) => consent.words(),
            (None, Visibility::Public) => "public data, which need no approval".to_owned(),
            (None, _) => "the certificate does not state the basis of the approval".to_owned(),
        };
        format!("{} ({}): {consent}.", party.dataset_name, party.organization_name)
    };
    let actions = [AuditAction::JobApproved, AuditAction::JobAdmitted];
    let mut proofs = facts
        .prove_actions(&actions, "the audit logs have no approval by a member: sites approved by their own policy");
    proofs.extend(facts.prove_chains());
    DossierItem {
        id: "approvals",
        safe: FiveSafes::People,
        subject: Some(OutputSubject::Responsibility),
        question: "Who approved the job for each dataset?",
        answer: facts.certificate.parties.iter().map(answer).collect(),
        proofs,
        not_covered: to_strings(&[
            "Whether the people behind the accounts are who they claim to be, and are trained: the organizations vouch for their members.",
            "An approval by the server's word was not verified at its site. A signed approval was: the site keeps it.",
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
            "{} was read by the worker {} of {}, beside the data; its key {} signed {receipts} receipts.",
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
            "{}: ε = {} was released and reserved by the jobs until then, {limit}.",
            party.dataset_name,
            format_epsilon(account.committed)
        )
    };
    DossierItem {
        id: "lifetime",
        safe: FiveSafes::Data,
        subject: None,
        question: "How much have the same people lost in the jobs together?",
        answer: fill_empty(
            list_charged(facts).map(sentence).collect(),
            "The job was charged to no account: it read public data alone.",
        ),
        proofs: vec![
            facts.prove(ProofSource::Ledger, Point::Account),
            facts.prove(ProofSource::Ledger, Point::Log),
            facts.prove(ProofSource::Certificate, Point::Lineage),
        ],
        not_covered: to_strings(&[
            "Releases about the same people outside this platform.",
            "Exact releases of data that their owner opened: the ledger counts them, and no ε bounds them.",
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
        answer: fill_empty(list_charged(facts).map(sentence).collect(), "No protected release was made."),
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
        let noise = mechanism.noise.map_or("the noise is that of the mechanism".to_owned(), |noise| {
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
        answer: fill_empty(
            list_charged(facts).map(sentence).collect(),
            "No mechanism was needed: the job read public data alone.",
        ),
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

fn state_epsilon(facts: &DossierFacts) -> DossierItem {
    let sentence = |(party, charged): (&CertificateParty, &PartyCharges)| {
        let figure = |figure: Option<&CertifiedFigure>| {
            figure.map_or("no figure, because the account has no budget".to_owned(), format_figure)
        };
        let tight = charged
            .tight
            .as_ref()
            .map_or(String::new(), |tight| format!(" Its tight value, for this job alone: {}.", format_figure(tight)));
        let unit = format!("{:?}", charged.unit).to_lowercase();
        format!("{}, unit {unit}: {}.{tight}", party.dataset_name, figure(charged.renyi.as_ref()))
    };
    let together = facts.certificate.together.iter().filter_map(|combined| {
        let figure = combined.figure.as_ref()?;
        Some(format!("For a person in the data of up to {} organizations: {}.", combined.most, format_figure(figure)))
    });
    DossierItem {
        id: "statistical-basis",
        safe: FiveSafes::Outputs,
        subject: Some(OutputSubject::StatisticalBasis),
        question: "How much can the result reveal about one protected unit?",
        answer: fill_empty(
            list_charged(facts).map(sentence).chain(together).collect(),
            "Nothing beyond public data: no protected data were read.",
        ),
        proofs: vec![
            facts.prove(ProofSource::Certificate, Point::Accountant),
            facts.prove(ProofSource::Certificate, Point::Epsilon),
            facts.prove(ProofSource::Certificate, Point::Rule),
        ],
        not_covered: to_strings(&[
            "Which ε is acceptable: people decide it. With ε = 1, an observer's odds about one unit change by a factor of at most 2.72, except with probability about δ.",
            "The declaration about people in several organizations, which is an admin's statement.",
        ]),
    }
}

fn describe_model_files(facts: &DossierFacts) -> DossierItem {
    let is_binary = |name: &str| !["csv", "json", "md"].iter().any(|ending| name.rsplit('.').next() == Some(ending));
    let binary: Vec<&str> =
        facts.certificate.artifacts.iter().map(|file| file.name.as_str()).filter(|name| is_binary(name)).collect();
    let answer = if binary.is_empty() {
        "The job has no file that a person could not read.".to_owned()
    } else {
        format!(
            "{} cannot be read by a person. The sites sent noisy releases alone, so the guarantee covers what the files contain of protected data, whatever a reader computes from them.",
            binary.join(", ")
        )
    };
    DossierItem {
        id: "uncheckable-outputs",
        safe: FiveSafes::Outputs,
        subject: Some(OutputSubject::UncheckableOutputs),
        question: "Which files cannot be checked by hand, and why may they be safe?",
        answer: vec![answer],
        proofs: vec![
            facts.prove(ProofSource::Certificate, Point::Mechanism),
            facts.prove(ProofSource::Ledger, Point::Counts),
            facts.prove(ProofSource::Certificate, Point::Model),
        ],
        not_covered: to_strings(&[
            "Public data and data that their owner opened are in such a file without protection.",
            "A file that was changed after the download: compare its SHA-256.",
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
            "`undertone verify FILE` or `undertone-server certificate verify FILE` repeats them on another machine, without this server.".to_owned(),
        ],
        proofs: std::iter::once(facts.prove(ProofSource::Audit, Point::Audit)).chain(statements).collect(),
        not_covered: to_strings(&[
            "An audit that finds nothing proves no guarantee: it bounds the loss from below.",
            "The keys of the sites, unless they were given from another source (`--site-key`).",
            "The decision itself: a person answers for it.",
        ]),
    }
}
