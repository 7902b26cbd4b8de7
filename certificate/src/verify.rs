//! Checks a certificate with nothing but the file: its content follows from documents that the sites and the server
//! signed, and every figure is computed again. Pure: it runs on any machine without a network.
//!
//! Each [`VerificationPoint`] is checked separately and named in the [`CertificateVerdict`]; a point that cannot be
//! checked is reported as such and is no success. To check one more thing: a variant of [`VerificationPoint`], a
//! function that returns its [`PointFinding`], a forgery in the tests.

mod figures;
mod lineage;
mod proofs;
mod spent;

use std::fmt;

use ed25519_dalek::VerifyingKey;
use undertone_api::job::Charge;
use undertone_api::signed::certificate::CertificateParty;
use undertone_api::signed::{self, Certificate, CertificateFile, Manifest, Receipt, SignedError};

use crate::price;

/// The verifier's knowledge from other sources.
#[derive(Debug, Clone, Default)]
pub struct TrustedInputs {
    /// The server's public key, as a worker's enrolment pinned it.
    pub server_key: Option<VerifyingKey>,
    /// Public keys of sites, hex: when some are given, every site of the certificate must have one of them.
    pub site_keys: Vec<String>,
    /// The model at hand: its size in bytes and its SHA-256, hex.
    pub model: Option<(u64, String)>,
}

/// A checked point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VerificationPoint {
    /// The server signed exactly this certificate.
    Signature,
    /// The manifest is the server's, and agrees with the certificate about job, parties and charges.
    Manifest,
    /// The sites' keys are the known ones.
    Sites,
    /// Noise, sampling and clip follow from the manifest.
    Mechanism,
    /// Every receipt is signed by its site and pays for a planned release.
    Receipts,
    /// The receipts are complete, unbroken pieces of the sites' chains.
    Chain,
    /// The number of releases is correct.
    Counts,
    /// The formulas are those of this program.
    Accountant,
    /// Every party's ε follows from its releases.
    Epsilon,
    /// The consortium's ε follows from the parties' ε under the rule.
    Rule,
    /// The initial model is the manifest's, and the cost of all jobs that it follows from adds up.
    Lineage,
    /// The accounts' positions are consistent, and cover this job.
    Account,
    /// Every receipt is charged in the server's log under the certificate's signed head.
    Log,
    /// No audit measured more than the claim.
    Audit,
    /// The model at hand is the job's.
    Model,
}

impl VerificationPoint {
    /// Every point, in the order of checking.
    pub const ALL: [Self; 15] = [
        Self::Signature,
        Self::Manifest,
        Self::Sites,
        Self::Mechanism,
        Self::Receipts,
        Self::Chain,
        Self::Counts,
        Self::Accountant,
        Self::Epsilon,
        Self::Rule,
        Self::Lineage,
        Self::Account,
        Self::Log,
        Self::Audit,
        Self::Model,
    ];

    /// Returns the point in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Signature => "signature",
            Self::Manifest => "manifest",
            Self::Sites => "sites",
            Self::Mechanism => "mechanism",
            Self::Receipts => "receipts",
            Self::Chain => "chain",
            Self::Counts => "counts",
            Self::Accountant => "accountant",
            Self::Epsilon => "epsilon",
            Self::Rule => "rule",
            Self::Lineage => "lineage",
            Self::Account => "account",
            Self::Log => "log",
            Self::Audit => "audit",
            Self::Model => "model",
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PointFinding {
    /// It holds; a summary.
    Holds(String),
    /// It could not be checked; the reason.
    Unchecked(String),
    /// It does not hold; every defect.
    Fails(Vec<String>),
}

impl PointFinding {
    /// Returns `Holds` when there is no defect.
    fn from_defects(wrong: Vec<String>, right: impl FnOnce() -> String) -> Self {
        if wrong.is_empty() { Self::Holds(right()) } else { Self::Fails(wrong) }
    }
}

/// The results of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CertificateVerdict(Vec<(VerificationPoint, PointFinding)>);

impl CertificateVerdict {
    /// Returns whether no check failed. An unchecked point is no failure; it is reported.
    pub fn holds(&self) -> bool {
        !self.0.is_empty() && !self.0.iter().any(|(_, finding)| matches!(finding, PointFinding::Fails(_)))
    }

    /// Returns the failed points.
    pub fn failed(&self) -> Vec<VerificationPoint> {
        let fails = |(point, finding): &(VerificationPoint, PointFinding)| {
            matches!(finding, PointFinding::Fails(_)).then_some(*point)
        };
        self.0.iter().filter_map(fails).collect()
    }

    /// Returns the result of one check; `None` when an earlier failure prevented it.
    pub fn finding(&self, point: VerificationPoint) -> Option<&PointFinding> {
        self.0.iter().find(|(known, _)| *known == point).map(|(_, finding)| finding)
    }

    fn say(&mut self, point: VerificationPoint, finding: PointFinding) {
        self.0.push((point, finding));
    }
}

/// A line for each point, and one for each defect.
impl fmt::Display for CertificateVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (point, finding) in &self.0 {
            let name = point.name();
            match finding {
                PointFinding::Holds(what) => writeln!(f, "ok      {name:<11}{what}")?,
                PointFinding::Unchecked(why) => writeln!(f, "-       {name:<11}not checked: {why}")?,
                PointFinding::Fails(wrong) => {
                    for what in wrong {
                        writeln!(f, "FAILED  {name:<11}{what}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A certificate under examination, with its documents opened.
struct OpenedCertificate {
    certificate: Certificate,
    key: VerifyingKey,
    manifest: Manifest,
    /// Every receipt with a valid signature, with its digest and the index of its party.
    receipts: Vec<(usize, String, Receipt)>,
}

impl OpenedCertificate {
    /// Returns the charged parties with their receipts.
    fn parts(&self) -> impl Iterator<Item = (&CertificateParty, Vec<(&str, &Receipt)>)> {
        self.certificate.parties.iter().enumerate().map(|(index, party)| {
            let own = self.receipts.iter().filter(move |(of, ..)| *of == index);
            (party, own.map(|(_, digest, receipt)| (digest.as_str(), receipt)).collect())
        })
    }
}

/// Checks every point that the file permits to check.
pub fn verify(file: &CertificateFile, known: &TrustedInputs) -> CertificateVerdict {
    let mut verdict = CertificateVerdict::default();
    let (certificate, key) = match signature(file, known) {
        Ok((certificate, key, finding)) => {
            verdict.say(VerificationPoint::Signature, finding);
            (certificate, key)
        }
        Err(wrong) => {
            verdict.say(VerificationPoint::Signature, PointFinding::Fails(vec![wrong]));
            return verdict;
        }
    };
    let manifest: Manifest = match file.evidence.manifest.open(&key) {
        Ok(manifest) => manifest,
        Err(error) => {
            verdict.say(VerificationPoint::Manifest, PointFinding::Fails(vec![format!("the manifest: {error}")]));
            return verdict;
        }
    };
    verdict.say(VerificationPoint::Manifest, same_job(&certificate, &manifest, &file.evidence.manifest.digest()));
    verdict.say(VerificationPoint::Sites, sites(&certificate, known));
    let (receipts, wrong) = spent::open_receipts(&certificate, &file.evidence.receipts);
    let opened = OpenedCertificate { certificate, key, manifest, receipts };
    verdict.say(VerificationPoint::Mechanism, figures::mechanism(&opened));
    verdict.say(VerificationPoint::Receipts, spent::check_receipts(&opened, wrong));
    verdict.say(VerificationPoint::Chain, spent::chain(&opened));
    verdict.say(VerificationPoint::Counts, spent::counts(&opened));
    verdict.say(VerificationPoint::Accountant, figures::accountant(&opened));
    let (epsilon, rule) = figures::figures(&opened);
    verdict.say(VerificationPoint::Epsilon, epsilon);
    verdict.say(VerificationPoint::Rule, rule);
    verdict.say(VerificationPoint::Lineage, lineage::check(&opened));
    verdict.say(VerificationPoint::Account, figures::accounts(&opened));
    verdict.say(VerificationPoint::Log, proofs::log(&opened, &file.evidence.receipts));
    verdict.say(VerificationPoint::Audit, proofs::audit(&opened));
    verdict.say(VerificationPoint::Model, model(&opened.certificate, known));
    verdict
}

/// Opens the certificate: with the known key, otherwise with the key that it names, which proves less.
fn signature(
    file: &CertificateFile,
    known: &TrustedInputs,
) -> Result<(Certificate, VerifyingKey, PointFinding), String> {
    let embedded_key = serde_json::from_str::<Certificate>(&file.payload)
        .map_err(|error| SignedError::Payload(error.to_string()))
        .and_then(|certificate| signed::public_key(&certificate.issuer.public_key));
    let (key, pinned) = match known.server_key {
        Some(key) => (key, true),
        None => (embedded_key.map_err(|error| format!("the certificate cannot be read: {error}"))?, false),
    };
    let certificate: Certificate = file.signed().open(&key).map_err(|error| format!("the certificate: {error}"))?;
    let hex = hex::encode(key.to_bytes());
    if certificate.issuer.public_key != hex {
        return Err("the certificate names another server key than the one that signed it".to_owned());
    }
    let finding = if pinned {
        PointFinding::Holds(format!("signed by the server's key {hex}"))
    } else {
        PointFinding::Holds(format!(
            "signed by the key it names, {hex}: compare it with the one in a worker's enrolment, or give --server-key"
        ))
    };
    Ok((certificate, key, finding))
}

/// Compares the certificate with the manifest that it names.
fn same_job(certificate: &Certificate, manifest: &Manifest, digest: &str) -> PointFinding {
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    let job = &certificate.job;
    expect(job.manifest == digest, "the certificate names another manifest");
    expect(job.id == manifest.job && job.title == manifest.title, "the manifest is of another job");
    expect(job.kind == manifest.spec.kind(), "the manifest is of another kind of job");
    expect(job.proposed_by == manifest.proposed_by, "the manifest names another proposer");
    expect(certificate.consortium.id == manifest.consortium, "the manifest is of another consortium");
    let rounds: u64 = manifest.spec.series(&[]).iter().map(|series| u64::from(series.rounds)).sum();
    let rounds = rounds + manifest.spec.questions().map_or(0, |questions| u64::from(questions.rounds));
    expect(u64::from(job.rounds) == rounds, "the manifest plans another number of rounds");
    expect(certificate.parties.len() == manifest.participants.len(), "the manifest has another number of parties");
    for (party, asked) in certificate.parties.iter().zip(&manifest.participants) {
        let name = &party.dataset_name;
        let same = (party.dataset, party.lineage, party.organization, party.worker, party.purpose, party.units)
            == (asked.dataset, asked.lineage, asked.organization, asked.worker, asked.purpose, asked.units)
            && (&party.dataset_name, &party.organization_name) == (&asked.dataset_name, &asked.organization_name);
        expect(same, &format!("{name}: the manifest names another dataset, site or size"));
        let party_charges = party.charged.as_ref();
        let says = party_charges.map(|c| (c.unit, c.adjacency, &c.mechanism.event, c.releases.reserved));
        let charges = asked.charge.as_ref().map(|c| (c.unit, c.adjacency, &c.event, c.releases));
        expect(says == charges, &format!("{name}: unit, adjacency, release or reservation is not the manifest's"));
        expect(
            Charge::reconcile(manifest.spec.cost(&price::to_dataset(party)), asked.charge.as_ref()).is_some(),
            &format!("{name}: what the manifest charges does not follow from what it lets the job do"),
        );
    }
    PointFinding::from_defects(wrong, || format!("{digest}, of {} parties", certificate.parties.len()))
}

fn sites(certificate: &Certificate, known: &TrustedInputs) -> PointFinding {
    if known.site_keys.is_empty() {
        return PointFinding::Unchecked(
            "the sites' keys are those that the certificate names; compare them with the sites, or give --site-key"
                .to_owned(),
        );
    }
    let strange = certificate.parties.iter().filter(|party| !known.site_keys.contains(&party.site_key));
    let wrong: Vec<_> = strange
        .map(|party| format!("{}: {} is none of the given keys", party.organization_name, party.site_key))
        .collect();
    PointFinding::from_defects(wrong, || "every site has one of the given keys".to_owned())
}

fn model(certificate: &Certificate, known: &TrustedInputs) -> PointFinding {
    let Some((size, digest)) = &known.model else {
        return PointFinding::Unchecked("no model was given: add --model FILE".to_owned());
    };
    let artifact = certificate.artifacts.iter().find(|file| file.size == *size && file.digest == *digest);
    match artifact {
        Some(file) => PointFinding::Holds(format!("the model is the job's {}", file.name)),
        None => PointFinding::Fails(vec![format!("{digest} ({size} bytes) is none of the job's files")]),
    }
}
