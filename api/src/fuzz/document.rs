//! Signed documents: every change is rejected, and each accepted payload has one written form.

use ed25519_dalek::SigningKey;
use serde_json::json;
use time::OffsetDateTime;
use undertone_fuzz::Target;
use undertone_privacy::{Adjacency, Event, NoiseMultiplier, PrivacyUnit};
use uuid::Uuid;

use crate::id::{ConsortiumId, DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use crate::job::PartyTerms;
use crate::job::{Charge, DatasetUse, NewJob};
use crate::model::source::ModelSource;
use crate::signed::{
    AuditStatement, Certificate, CertificateFile, CertificatePins, Countersignature, Document, JobLimits, KeyChange,
    KeyRotation, LogHead, Manifest, ManifestParticipant, ModelOrigin, PinnedCertificate, PresenceProof, Receipt,
    ReleaseTick, Signed, SiteDecision, SiteDeparture, SiteHold, SiteKeys, key_id,
};

fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

const AT: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
const ID: Uuid = Uuid::from_u128(1);

fn charge() -> Charge {
    let noise_multiplier = NoiseMultiplier::new(1.5).expect("a positive number");
    let event = Event::Gaussian { noise_multiplier };
    Charge { unit: PrivacyUnit::Speaker, adjacency: Adjacency::ZeroOut, event, releases: 34 }
}

fn manifests() -> Vec<Manifest> {
    let manifest = |example: String| {
        let spec = serde_json::from_str::<NewJob>(&example).expect("a job").spec;
        let participants = vec![ManifestParticipant {
            dataset: DatasetId(ID),
            dataset_name: "ours".to_owned(),
            lineage: LineageId(ID),
            organization: OrganizationId(ID),
            organization_name: "an organization".to_owned(),
            worker: WorkerId(ID),
            purpose: DatasetUse::Participate,
            units: 20,
            charge: Some(charge()),
            site_key: Some("ab".repeat(32)),
        }];
        let limits = Some(JobLimits::from_spec(&spec, &participants, AT));
        let job = JobId(ID);
        let consortium = ConsortiumId(ID);
        let title = "a job".to_owned();
        let proposed_by = "Ada".to_owned();
        let model = spec.model(13);
        let initial_model = spec.initial_file().map(|digest| ModelOrigin {
            digest: digest.to_owned(),
            job: JobId(ID),
            title: "an earlier job".to_owned(),
            file: "model.safetensors".to_owned(),
            source: ModelSource::Private,
        });
        Manifest {
            job,
            consortium,
            title,
            proposed_by,
            spec,
            participants,
            model,
            initial_model,
            limits,
            proposal: None,
            issued_at: AT,
        }
    };
    super::spec::examples().into_iter().map(manifest).collect()
}

fn receipt() -> Receipt {
    Receipt {
        sequence: 1,
        previous: "ab".repeat(32),
        worker: WorkerId(ID),
        dataset: DatasetId(ID),
        lineage: LineageId(ID),
        job: JobId(ID),
        manifest: "cd".repeat(32),
        series: "private".to_owned(),
        round: 1,
        attempt: 1,
        unit: PrivacyUnit::Speaker,
        adjacency: Adjacency::ZeroOut,
        event: charge().event,
        evaluator: "rdp-1".to_owned(),
        at: AT,
        tick: Some(ReleaseTick { period_millis: 250, number: 1 }),
    }
}

fn change(number: u32, old: u8, new: u8) -> KeyChange {
    let hex_of = |seed| hex::encode(key(seed).verifying_key().to_bytes());
    let old = hex_of(old);
    let new = hex_of(new);
    let last = "ef".repeat(32);
    KeyChange { worker: WorkerId(ID), number, old, new, receipts: 7, last, at: AT }
}

/// Changes the signed document, and the payload alone. Only the unchanged document opens. Every payload that parses has
/// one written form.
fn try_document<D: Document>(name: &'static str, inputs: u32, documents: &[D]) {
    let signer = key(1);
    let originals: Vec<Signed> =
        documents.iter().map(|document| Signed::new(document, &signer).expect("JSON")).collect();
    let whole = originals.iter().map(|signed| serde_json::to_vec(signed).expect("JSON"));
    let payloads = originals.iter().map(|signed| signed.payload.clone());
    Target::new(name, inputs).seeds(whole).seeds(payloads).run(|bytes| {
        if let Ok(signed) = serde_json::from_slice::<Signed>(bytes)
            && signed.open::<D>(&signer.verifying_key()).is_ok()
        {
            let is_original = originals.iter().any(|original| {
                original.payload == signed.payload && original.signature.eq_ignore_ascii_case(&signed.signature)
            });
            assert!(is_original, "nobody signed this: {signed:?}");
        }
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        for original in &originals {
            let forged = Signed { payload: text.to_owned(), signature: original.signature.clone() };
            assert!(text == original.payload || forged.open::<D>(&signer.verifying_key()).is_err());
        }
        if let Ok(document) = serde_json::from_str::<D>(text) {
            let written = serde_json::to_string(&document).expect("what was read can be written");
            let again: D = serde_json::from_str(&written).expect("what was written can be read");
            assert_eq!(serde_json::to_string(&again).expect("JSON"), written);
        }
    });
}

#[test]
fn no_change_of_a_manifest_is_believed() {
    try_document("api.manifest", 900, &manifests());
}

/// Covers a hostile server: every value that a site derives from a manifest before it trusts the manifest.
#[test]
fn limits_of_any_manifest_are_computed() {
    let datasets = super::spec::datasets();
    let seeds = manifests().into_iter().map(|manifest| serde_json::to_vec(&manifest).expect("JSON"));
    Target::new("api.manifest_limits", 1_200).seeds(seeds).run(|bytes| {
        let Ok(manifest) = serde_json::from_slice::<Manifest>(bytes) else { return };
        let limits = JobLimits::from_spec(&manifest.spec, &manifest.participants, manifest.issued_at);
        assert!(limits.not_after >= manifest.issued_at && limits.agree_with(&limits));
        super::spec::call_all(&manifest.spec, &datasets);
    });
}

#[test]
fn no_change_of_a_receipt_or_a_decision_is_believed() {
    try_document("api.receipt", 1_000, &[receipt()]);
    let manifest = "ab".repeat(32);
    let job = JobId(ID);
    let dataset = DatasetId(ID);
    let reason = "not now".to_owned();
    let hold = SiteHold { manifest: manifest.clone(), job, dataset, hold: true, reason: reason.clone(), at: AT };
    try_document("api.hold", 600, &[hold]);
    let departure = SiteDeparture { manifest: manifest.clone(), job, dataset, reason: reason.clone(), at: AT };
    try_document("api.departure", 600, &[departure]);
    try_document(
        "api.decision",
        600,
        &[SiteDecision { manifest, job, dataset, approve: false, reason, terms: PartyTerms::default(), at: AT }],
    );
    try_document("api.presence", 600, &[PresenceProof { worker: WorkerId(ID), challenge: "00ff".to_owned() }]);
}

#[test]
fn changed_server_documents_are_refused() {
    let server = key_id(&key(1).verifying_key());
    let head = LogHead { size: 7, root: "ab".repeat(32), at: AT, server: server.clone() };
    try_document("api.head", 800, &[head]);
    let worker = WorkerId(ID);
    let receipt = "cd".repeat(32);
    let countersignature = Countersignature { worker, sequence: 1, receipt, position: 4, at: AT, server };
    try_document("api.countersignature", 800, &[countersignature]);
    let pinned = PinnedCertificate { sha256: "ab".repeat(32), until: Some(AT) };
    try_document(
        "api.pins",
        800,
        &[CertificatePins { challenge: "00".repeat(32), certificates: vec![pinned; 2], at: AT }],
    );
}

#[test]
fn no_change_of_a_certificate_is_believed() {
    let head = json!({ "payload": "{}", "signature": "ab".repeat(64) });
    let certificate = json!({
        "issued_at": "2026-11-20T12:00:00Z",
        "issuer": { "address": "https://hub.example", "public_key": "ab", "program": "0.1.0", "evaluator": "rdp-1" },
        "consortium": { "id": ID, "name": "Speech in care" },
        "job": { "id": ID, "title": "a job", "kind": "dp_sgd", "state": "finished", "proposed_by": "Ada", "rounds_done": 30,
            "rounds": 30, "manifest": "cd", "started_at": null, "finished_at": "2026-11-20T12:00:00Z" },
        "parties": [],
        "overlap": { "overlap": "disjoint", "statement": "regions of their own", "attested_by": "Ada",
            "attested_at": "2026-11-20T12:00:00Z" },
        "together": [],
        "artifacts": [{ "name": "model.safetensors", "size": 7_445_184, "digest": "ef" }],
        "head": head,
    });
    let certificate: Certificate = serde_json::from_value(certificate).expect("a certificate");
    try_document("api.certificate", 1_000, &[certificate]);
}

/// Statements and certificate files come from untrusted sources.
#[test]
fn evidence_of_any_content_is_read_without_panic() {
    let finding =
        json!({ "trials": [{ "family": "direction", "canaries": 100, "guesses": 20, "correct": 12 }], "attacks": [] });
    Target::new("api.evidence", 3_000).seed(finding.to_string()).run(|bytes| {
        let _ = serde_json::from_slice::<AuditStatement>(bytes);
        let _ = serde_json::from_slice::<CertificateFile>(bytes);
        let _ = serde_json::from_slice::<crate::job::audit::AuditFinding>(bytes);
    });
}

/// A rotation leads to a site's new key only if every key on the way has signed.
#[test]
fn no_change_of_a_rotation_leads_to_another_key() {
    let rotation = |number, old, new| {
        let change = change(number, old, new);
        let by = |seed| Signed::new(&change, &key(seed)).expect("JSON");
        KeyRotation { by_old: by(old), by_new: by(new) }
    };
    let chain = vec![rotation(1, 1, 2), rotation(2, 2, 3)];
    let first = key(1).verifying_key();
    Target::new("api.rotation", 1_500).seed(serde_json::to_vec(&chain).expect("JSON")).run(|bytes| {
        let Ok(rotations) = serde_json::from_slice::<Vec<KeyRotation>>(bytes) else { return };
        let mut keys = SiteKeys::with_key(first);
        for rotation in &rotations {
            let before = *keys.newest();
            let changes = keys.changes();
            match keys.follow(rotation) {
                Ok(change) => {
                    assert!([2, 3].map(key).iter().any(|key| key.verifying_key() == *keys.newest()), "{change:?}");
                }
                Err(_) => assert!(*keys.newest() == before && keys.changes() == changes, "nothing has changed"),
            }
        }
        let _ = SiteKeys::leading_to(first, &rotations);
    });
}
