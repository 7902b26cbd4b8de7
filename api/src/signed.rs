//! Signed documents: what may run (manifest), what a site says to it (decision), what was spent (receipt).
//!
//! A signature is over the exact bytes of the payload with the document's domain before them, so one document can never
//! pass for another and no re-serialization can break or bend it.

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::{Duration, OffsetDateTime};
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use crate::id::{ConsortiumId, DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use crate::job::{Charge, Purpose, Series, Spec};

/// A kind of document that is signed.
pub trait Document: Serialize + DeserializeOwned {
    /// What stands before the payload under the signature; never the same for two kinds of document.
    const DOMAIN: &'static str;
}

/// Why a signed document is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignedError {
    /// The signature, or the key, is not well formed.
    #[error("the signature is not well formed")]
    Malformed,
    /// The signature was not made by this key over this payload.
    #[error("the signature does not hold")]
    Forged,
    /// The payload is not the document it should be.
    #[error("the signed payload is not the expected document: {0}")]
    Payload(String),
}

/// A document with its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Signed {
    /// The document as JSON, byte for byte as it was signed.
    pub payload: String,
    /// Ed25519 signature over domain, a zero byte and payload, hex.
    pub signature: String,
}

impl Signed {
    /// Signs `document`.
    ///
    /// # Errors
    /// [`SignedError::Payload`] when the document has no JSON form.
    pub fn new<D: Document>(document: &D, key: &SigningKey) -> Result<Self, SignedError> {
        let payload = serde_json::to_string(document).map_err(|error| SignedError::Payload(error.to_string()))?;
        let signature = key.sign(&message::<D>(&payload));
        Ok(Self { payload, signature: hex::encode(signature.to_bytes()) })
    }

    /// The document, when `key` signed it.
    ///
    /// # Errors
    /// [`SignedError`] when the signature does not hold or the payload is another document.
    pub fn open<D: Document>(&self, key: &VerifyingKey) -> Result<D, SignedError> {
        let bytes = hex::decode(&self.signature).map_err(|_| SignedError::Malformed)?;
        let signature = Signature::from_slice(&bytes).map_err(|_| SignedError::Malformed)?;
        key.verify_strict(&message::<D>(&self.payload), &signature).map_err(|_| SignedError::Forged)?;
        serde_json::from_str(&self.payload).map_err(|error| SignedError::Payload(error.to_string()))
    }

    /// SHA-256 of the payload, hex: the document's name.
    pub fn digest(&self) -> String {
        hex::encode(Sha256::digest(self.payload.as_bytes()))
    }
}

fn message<D: Document>(payload: &str) -> Vec<u8> {
    [D::DOMAIN.as_bytes(), &[0], payload.as_bytes()].concat()
}

/// Reads an Ed25519 public key from hex.
///
/// # Errors
/// [`SignedError::Malformed`] when it is not one.
pub fn public_key(text: &str) -> Result<VerifyingKey, SignedError> {
    let bytes: [u8; 32] =
        hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(SignedError::Malformed)?;
    VerifyingKey::from_bytes(&bytes).map_err(|_| SignedError::Malformed)
}

/// One participant, as the manifest names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestParticipant {
    /// The dataset, under the server's id.
    pub dataset: DatasetId,
    /// The dataset's name at its site.
    pub dataset_name: String,
    /// Its line of versions.
    pub lineage: LineageId,
    /// Its owner.
    pub organization: OrganizationId,
    /// The owner's name.
    pub organization_name: String,
    /// The worker that is to run it.
    pub worker: WorkerId,
    /// What the job does with it.
    pub purpose: Purpose,
    /// n, the public number of units that stands in every division.
    pub units: u64,
    /// What it is charged at worst; absent for public data.
    pub charge: Option<Charge>,
}

/// What may run: signed by the server, read by every site before it says yes and again before it begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The job.
    pub job: JobId,
    /// Its consortium.
    pub consortium: ConsortiumId,
    /// Its title.
    pub title: String,
    /// Who proposed it.
    pub proposed_by: String,
    /// What is to be done.
    #[serde(flatten)]
    pub spec: Spec,
    /// Every dataset in it, the lead first.
    pub participants: Vec<ManifestParticipant>,
    /// Digest of what all start from ([`Spec::model`]); absent when the kind starts from no model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the job does at most. Absent only from manifests of before there were limits: a site runs none of those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// When it was proposed.
    #[serde(with = "time::serde::rfc3339")]
    pub issued_at: OffsetDateTime,
}

/// How long, beside the longest time that its rounds may take, a proposed job may wait and run.
const SPARE_TIME: Duration = Duration::days(30);

/// What a job does at most: said in the manifest, so that who reads it need not work it out, and held by every site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Most releases that any one participant pays for.
    pub releases: u64,
    /// Rounds, over all series.
    pub rounds: u64,
    /// Longest that a round waits for all, in seconds.
    pub round_seconds: u32,
    /// When it is over: later, no site begins, reserves or releases anything under the manifest.
    #[serde(with = "time::serde::rfc3339")]
    pub not_after: OffsetDateTime,
}

impl Limits {
    /// What `spec` with `participants` comes to when it was proposed at `issued_at`: 30 days, and as long as its rounds may
    /// take, until it is over.
    pub fn of(spec: &Spec, participants: &[ManifestParticipant], issued_at: OffsetDateTime) -> Self {
        let series = spec.series(&[]);
        let charges = participants.iter().filter_map(|party| party.charge.as_ref());
        let longest = |series: &Series| i64::from(series.rounds) * i64::from(series.deadline_seconds);
        let time = Duration::seconds(series.iter().map(longest).sum());
        Self {
            releases: charges.map(|charge| charge.releases).max().unwrap_or_default(),
            rounds: series.iter().map(|series| u64::from(series.rounds)).sum(),
            round_seconds: series.iter().map(|series| series.deadline_seconds).max().unwrap_or_default(),
            not_after: issued_at.saturating_add(SPARE_TIME).saturating_add(time),
        }
    }

    /// Whether they are what `own` says, and end no later.
    pub fn agree_with(&self, own: &Self) -> bool {
        let counts = |of: &Self| (of.releases, of.rounds, of.round_seconds);
        counts(self) == counts(own) && self.not_after <= own.not_after
    }
}

impl Document for Manifest {
    const DOMAIN: &'static str = "undertone/manifest/1";
}

/// A site's answer to a manifest, signed with the site's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Digest of the manifest's payload.
    pub manifest: String,
    /// The job.
    pub job: JobId,
    /// The dataset.
    pub dataset: DatasetId,
    /// Yes or no.
    pub approve: bool,
    /// Why not; empty for a yes.
    pub reason: String,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Document for Decision {
    const DOMAIN: &'static str = "undertone/decision/1";
}

/// What was spent: signed with the site's key after the site's ledger has committed and fsynced it, before the release
/// is made. Receipts of one site form a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// Position in the site's chain, from 1.
    pub sequence: u64,
    /// SHA-256 of the previous receipt's payload, hex; of nothing for the first.
    pub previous: String,
    /// The worker.
    pub worker: WorkerId,
    /// The dataset.
    pub dataset: DatasetId,
    /// Its line of versions.
    pub lineage: LineageId,
    /// The job.
    pub job: JobId,
    /// Digest of the manifest under which it ran.
    pub manifest: String,
    /// The series: `private`.
    pub series: String,
    /// The round, from 1.
    pub round: u32,
    /// Which attempt at this round was paid, from 1; more than 1 only after a crash between payment and release.
    pub attempt: u32,
    /// Who is protected.
    pub unit: PrivacyUnit,
    /// Against which change.
    pub adjacency: Adjacency,
    /// The release, with exact parameters.
    pub event: Event,
    /// Version of the code that priced it.
    pub evaluator: String,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Document for Receipt {
    const DOMAIN: &'static str = "undertone/receipt/1";
}

/// A worker's proof, when it signs in, that it holds its site's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// The worker.
    pub worker: WorkerId,
    /// The server's challenge, hex.
    pub challenge: String,
}

impl Document for Presence {
    const DOMAIN: &'static str = "undertone/presence/1";
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::SigningKey;

    use super::{Decision, Presence, Signed, SignedError};
    use crate::id::WorkerId;

    fn presence() -> Presence {
        Presence { worker: WorkerId(uuid::Uuid::nil()), challenge: "00ff".to_owned() }
    }

    #[test]
    fn a_document_opens_only_with_the_key_that_signed_it() {
        let (ours, theirs) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        let signed = Signed::new(&presence(), &ours).expect("a presence has a JSON form");
        assert_eq!(signed.open(&ours.verifying_key()), Ok(presence()));
        assert_eq!(signed.open::<Presence>(&theirs.verifying_key()), Err(SignedError::Forged));
    }

    #[test]
    fn a_changed_payload_is_forged() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let mut signed = Signed::new(&presence(), &key).expect("a presence has a JSON form");
        signed.payload = signed.payload.replace("00ff", "00fe");
        assert_eq!(signed.open::<Presence>(&key.verifying_key()), Err(SignedError::Forged));
    }

    #[test]
    fn one_document_never_passes_for_another() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let signed = Signed::new(&presence(), &key).expect("a presence has a JSON form");
        assert_eq!(signed.open::<Decision>(&key.verifying_key()), Err(SignedError::Forged));
    }
}
