//! Checks a certificate with nothing but the file: its content follows from documents that the sites and the server
//! signed, and every figure is computed again. Pure: it runs on any machine without a network.
//!
//! Each [`VerificationPoint`] is checked separately and named in the [`CertificateVerdict`]; a point that cannot be
//! checked is reported as such and is no success. To check one more thing: a variant of [`VerificationPoint`], a
//! function that returns its [`PointFinding`], a forgery in the tests of the server's service.

mod figures;
mod lineage;
mod proofs;
mod spent;

use ed25519_dalek::VerifyingKey;
use undertone_api::job::Charge;
use undertone_api::signed::certificate::CertificateParty;
use undertone_api::signed::{self, Certificate, CertificateFile, Manifest, Receipt, SignedError};

use crate::price;
use crate::{CertificateVerdict, PointFinding, VerificationPoint};

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
    Verification::new(file.clone(), known.clone()).collect()
}

/// A verification in progress: an iterator over the points, each checked when it is asked for. It ends early when an
/// invalid signature leaves nothing to check.
pub struct Verification {
    file: CertificateFile,
    known: TrustedInputs,
    points: std::slice::Iter<'static, VerificationPoint>,
    /// The signed certificate, until its manifest is opened.
    signed: Option<(Certificate, VerifyingKey)>,
    opened: Option<OpenedCertificate>,
    /// The finding of the rule, which is computed with every ε.
    rule: Option<PointFinding>,
}

impl Verification {
    /// Returns the verification of a file, before its first point.
    pub fn new(file: CertificateFile, known: TrustedInputs) -> Self {
        Self { file, known, points: VerificationPoint::ALL.iter(), signed: None, opened: None, rule: None }
    }

    /// Checks one point; `None` when an earlier failure prevents it.
    fn check(&mut self, point: VerificationPoint) -> Option<PointFinding> {
        match point {
            VerificationPoint::Signature => return Some(self.check_signature()),
            VerificationPoint::Manifest => return self.check_manifest(),
            _ => {}
        }
        let opened = self.opened.as_mut()?;
        let receipts = &self.file.evidence.receipts;
        Some(match point {
            VerificationPoint::Signature | VerificationPoint::Manifest => return None,
            VerificationPoint::Sites => sites(&opened.certificate, &self.known),
            VerificationPoint::Mechanism => figures::mechanism(opened),
            VerificationPoint::Receipts => {
                let (valid, wrong) = spent::open_receipts(&opened.certificate, receipts);
                opened.receipts = valid;
                spent::check_receipts(opened, wrong)
            }
            VerificationPoint::Chain => spent::chain(opened),
            VerificationPoint::Counts => spent::counts(opened),
            VerificationPoint::Accountant => figures::accountant(opened),
            VerificationPoint::Epsilon => {
                let (epsilon, rule) = figures::figures(opened);
                self.rule = Some(rule);
                epsilon
            }
            VerificationPoint::Rule => return self.rule.take(),
            VerificationPoint::Lineage => lineage::check(opened),
            VerificationPoint::Account => figures::accounts(opened),
            VerificationPoint::Log => proofs::log(opened, receipts),
            VerificationPoint::Audit => proofs::audit(opened),
            VerificationPoint::Model => model(&opened.certificate, &self.known),
        })
    }

    fn check_signature(&mut self) -> PointFinding {
        match signature(&self.file, &self.known) {
            Ok((certificate, key, finding)) => {
                self.signed = Some((certificate, key));
                finding
            }
            Err(wrong) => PointFinding::Fails(vec![wrong]),
        }
    }

    fn check_manifest(&mut self) -> Option<PointFinding> {
        let (certificate, key) = self.signed.take()?;
        let manifest: Manifest = match self.file.evidence.manifest.open(&key) {
            Ok(manifest) => manifest,
            Err(error) => return Some(PointFinding::Fails(vec![format!("the manifest: {error}")])),
        };
        let finding = same_job(&certificate, &manifest, &self.file.evidence.manifest.digest());
        self.opened = Some(OpenedCertificate { certificate, key, manifest, receipts: Vec::new() });
        Some(finding)
    }
}

impl Iterator for Verification {
    type Item = (VerificationPoint, PointFinding);

    fn next(&mut self) -> Option<Self::Item> {
        let point = *self.points.next()?;
        Some((point, self.check(point)?))
    }
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
            "signed by the key it names, {hex}: compare it with the one in a worker's enrolment, or state the known key"
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
            "the sites' keys are those that the certificate names; compare them with the sites, or state the known keys"
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
        return PointFinding::Unchecked("no model file was given".to_owned());
    };
    let artifact = certificate.artifacts.iter().find(|file| file.size == *size && file.digest == *digest);
    match artifact {
        Some(file) => PointFinding::Holds(format!("the model is the job's {}", file.name)),
        None => PointFinding::Fails(vec![format!("{digest} ({size} bytes) is none of the job's files")]),
    }
}
