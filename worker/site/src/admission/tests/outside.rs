//! A server that signs invalid jobs which send something to recipients other than the server. Only the site adds noise
//! to these releases, so the site checks the proof's requirements on the spec again.

use serde_json::{Value, json};
use undertone_api::dataset::Visibility;
use undertone_api::job::Spec;
use undertone_api::signed::JobLimits;
use undertone_privacy::PrivacyUnit;

use super::{ExaminedManifest, ManifestFault, examine, identity, now, sign};
use crate::datasets::LocalDataset;
use crate::testing::{ORGANIZATION, OURS, WORKER, local, local_recordings, manifest};

fn recordings(visibility: Visibility) -> LocalDataset {
    local_recordings(visibility, 3_600)
}

/// Examines a transcription, with `more` in its spec, in an otherwise valid manifest.
fn ask(data: LocalDataset, more: Value) -> Result<ExaminedManifest, ManifestFault> {
    let mut spec = json!({
        "participant": { "dataset": OURS, "epsilon": 1.0, "delta": 1e-7, "distance": 10 },
        "providers": [{ "name": "one", "protocol": "deepgram" }],
        "vocabulary": { "from": "public", "words": ["medicine", "window"] },
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    let spec = Spec::Transcription(serde_json::from_value(spec).expect("it is a spec"));
    let dataset = data.to_dataset(OURS, ORGANIZATION, WORKER);
    let charge = spec.cost(&dataset);
    let mut manifest = manifest(spec, charge);
    manifest.participants.remove(0);
    manifest.participants[0].units = dataset.count(PrivacyUnit::Words).0;
    manifest.limits = Some(JobLimits::from_spec(&manifest.spec, &manifest.participants, manifest.issued_at));
    examine(&sign(&manifest), OURS, &identity(), &[data], now())
}

#[test]
fn valid_proposal_is_admitted() {
    assert!(ask(recordings(Visibility::Private), json!({})).is_ok());
    assert!(ask(recordings(Visibility::Public), json!({ "crowded": "send" })).is_ok(), "of public recordings anything");
}

#[test]
fn spec_without_protection_is_refused_despite_a_signature() {
    for (more, named) in [
        (json!({ "crowded": "send" }), "spec.crowded"),
        (json!({ "vocabulary": { "from": "data", "top_percent": 10.0, "most": 5 } }), "spec.vocabulary.from"),
        (json!({ "voice": { "kind": "mcadams", "alpha": 0.99, "speakers_identifiable": true } }), "spec.voice.alpha"),
    ] {
        for visibility in [Visibility::Private, Visibility::Open] {
            let fault = ask(recordings(visibility), more.clone()).expect_err("it lies");
            assert!(matches!(&fault, ManifestFault::Spec { field, .. } if field == named), "{named}: {fault}");
        }
    }
    let fault = ask(local(Visibility::Private), json!({})).expect_err("it is no dataset of recordings");
    assert!(matches!(&fault, ManifestFault::Spec { field, .. } if field == "spec.participant.dataset"), "{fault}");
}
