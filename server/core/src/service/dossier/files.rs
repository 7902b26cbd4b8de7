//! The files that a person cannot read, and the releases from which they follow.

use undertone_api::job::{JobKind as _, active_learning, transcription};
use undertone_certificate::VerificationPoint as Point;

use super::{DossierFacts, DossierItem, FiveSafes, OutputSubject, ProofSource, list_charged, to_strings};

/// The endings of files that a person can read.
const READABLE: [&str; 6] = ["csv", "json", "jsonl", "md", "tsv", "txt"];

pub(super) fn describe_model_files(facts: &DossierFacts) -> DossierItem {
    let names = facts.certificate.artifacts.iter().map(|file| file.name.as_str());
    let binary: Vec<&str> = names.filter(|name| !is_readable(name)).collect();
    let answer = if binary.is_empty() {
        vec!["The job has no file that a person could not read.".to_owned()]
    } else {
        let first = format!("{} cannot be read by a person.", binary.join(", "));
        std::iter::once(first).chain(describe_releases(facts)).collect()
    };
    DossierItem {
        id: "uncheckable-outputs",
        safe: FiveSafes::Outputs,
        subject: Some(OutputSubject::UncheckableOutputs),
        question: "Which files cannot be checked by hand, and why may they be safe?",
        answer,
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

pub(super) fn is_readable(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| READABLE.contains(&ending))
}

/// Describes the releases of the job, by its kind, and the exact releases of each dataset.
fn describe_releases(facts: &DossierFacts) -> Vec<String> {
    let releases = match facts.certificate.job.kind.as_str() {
        active_learning::Spec::NAME => {
            "Sites sent the texts of queries that passed a threshold; these texts have no noise, and files can contain them \
             as they were written. A site with a private lead or a private test set sent vectors with noise."
        }
        transcription::Spec::NAME => {
            "The site sent segments of recordings, mixed with dummy segments, to external recognizers, which hear clear \
             speech. The ε covers counts of segments by word, not the speech."
        }
        _ => {
            "Each charged dataset sent releases of the mechanism in the item `disclosure-control`. The stated ε covers the \
             content of the files that follows from these releases."
        }
    };
    let exact = list_charged(facts).filter(|(_, charged)| charged.releases.in_the_clear > 0).map(|(party, charged)| {
        format!(
            "{}: {} releases were exact; no ε covers their content in the files.",
            party.dataset_name, charged.releases.in_the_clear
        )
    });
    std::iter::once(releases.to_owned()).chain(exact).collect()
}
