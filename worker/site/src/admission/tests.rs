//! Each test is one lie of a malicious server.

mod outside;
mod terms;
mod widened;

use std::num::NonZeroU32;

use ed25519_dalek::SigningKey;
use time::{Duration, OffsetDateTime};
use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, JobId, LineageId, WorkerId};
use undertone_api::job::dp_sgd::BandedNoise;
use undertone_api::job::{DatasetUse, Spec};
use undertone_api::model::ModelSource;
use undertone_api::signed::{JobLimits, Manifest, ModelOrigin, Signed, SignedError};
use undertone_privacy::{Event, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use super::{CLOCKS, ExaminedManifest, ManifestFault, SiteIdentity, examine};
use crate::clock;
use crate::datasets::LocalDataset;
use crate::server_trust::ServerTrust;
use crate::testing::{LEAD, ORGANIZATION, OURS, WORKER, dp_sgd, local, manifest, rounds, server_key, spec, z};

fn identity() -> SiteIdentity {
    SiteIdentity {
        worker: WORKER,
        organization: ORGANIZATION,
        server_key: ServerTrust::new(&server_key().verifying_key()),
    }
}

fn honest() -> Manifest {
    manifest(spec(), spec().cost(&local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER)))
}

fn sign(manifest: &Manifest) -> Signed {
    Signed::new(manifest, &server_key()).expect("a manifest has a JSON form")
}

fn now() -> OffsetDateTime {
    clock::system()()
}

/// Recomputes model and limits from the spec.
fn settle(manifest: &mut Manifest) {
    manifest.model = manifest.spec.model(13);
    manifest.limits = Some(JobLimits::from_spec(&manifest.spec, &manifest.participants, manifest.issued_at));
}

fn ask_with(change: impl FnOnce(&mut Manifest), datasets: &[LocalDataset]) -> Result<ExaminedManifest, ManifestFault> {
    let mut manifest = honest();
    change(&mut manifest);
    examine(&sign(&manifest), OURS, &identity(), datasets, now())
}

fn ask(change: impl FnOnce(&mut Manifest)) -> Result<ExaminedManifest, ManifestFault> {
    ask_with(change, &[local(Visibility::Private)])
}

fn fault(change: impl FnOnce(&mut Manifest)) -> ManifestFault {
    ask(change).expect_err("it lies")
}

#[test]
fn honest_manifest_is_admitted() {
    let examined = ask(|_| ()).expect("it is honest");
    assert_eq!((examined.own, examined.own().dataset), (1, OURS));
    assert_eq!(examined.charge.as_ref().map(|charge| charge.releases), Some(12));
    assert_eq!(examined.rounds("private"), Some(10));
    assert_eq!((examined.rounds("open"), examined.release("open")), (None, None));
    assert_eq!(examined.release("private"), examined.charge.map(|charge| charge.event));
}

#[test]
fn forged_manifest_is_refused() {
    let by_another = Signed::new(&honest(), &SigningKey::from_bytes(&[8; 32])).expect("it has a JSON form");
    let mut widened = sign(&honest());
    widened.payload = widened.payload.replace("\"rounds\":10", "\"rounds\":11");
    assert_ne!(widened.payload, sign(&honest()).payload, "the payload was changed");
    for signed in [by_another, widened] {
        let fault =
            examine(&signed, OURS, &identity(), &[local(Visibility::Private)], now()).expect_err("it is forged");
        assert_eq!(fault, ManifestFault::Signature(SignedError::Forged));
    }
}

#[test]
fn spec_that_was_widened_after_the_charge_is_refused() {
    type Change = fn(&mut undertone_api::job::dp_sgd::Spec);
    let changes: [Change; 4] = [
        |spec| spec.private.iter_mut().for_each(|private| private.rounds += 1),
        |spec| spec.spare_releases += 1,
        |spec| spec.participants[1].noise.iter_mut().for_each(|noise| noise.noise_multiplier = z(3.9)),
        |spec| spec.unit = PrivacyUnit::Record,
    ];
    for change in changes {
        let mut wider = dp_sgd();
        change(&mut wider);
        assert_eq!(fault(|manifest| manifest.spec = Spec::DpSgd(wider)), ManifestFault::Charge("ward-7".to_owned()));
    }
}

#[test]
fn correlated_noise_without_a_proved_price_is_refused() {
    let four = NonZeroU32::new(4).expect("it is not 0");
    let banded = |bands: NonZeroU32, change: fn(&mut undertone_api::job::dp_sgd::Spec)| {
        let mut spec = dp_sgd();
        let party = &mut spec.participants[1];
        party.sampling_rate = SamplingRate::new(0.1).expect("a rate");
        party.noise.iter_mut().for_each(|noise| noise.banded = Some(BandedNoise { bands }));
        change(&mut spec);
        let spec = Spec::DpSgd(spec);
        let charge = spec.cost(&local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER));
        ask(|manifest| {
            manifest.spec = spec;
            manifest.participants[1].charge = charge;
            settle(manifest);
        })
    };
    assert!(banded(four, |_| ()).is_ok());
    let endless = banded(NonZeroU32::MAX, |_| ()).expect_err("its groups would fill the memory");
    let steps = banded(four, |spec| spec.private.iter_mut().for_each(|private| private.local_steps = 2));
    for fault in [endless, steps.expect_err("it has no proved price")] {
        assert!(matches!(&fault, ManifestFault::Spec { field, .. } if field.contains("noise.banded")), "{fault}");
    }
}

/// Features normalized by speaker, and a dataset without users: refused regardless of the registration at the server.
#[test]
fn unit_that_the_data_do_not_keep_apart_is_refused() {
    let of = |unit, data: &LocalDataset| {
        let mut spec = dp_sgd();
        spec.unit = unit;
        let spec = Spec::DpSgd(spec);
        let charge = spec.cost(&data.to_dataset(OURS, ORGANIZATION, WORKER));
        let units = charge.as_ref().map_or(0, |_| data.to_dataset(OURS, ORGANIZATION, WORKER).count(unit).0);
        let change = |manifest: &mut Manifest| {
            manifest.spec = spec;
            manifest.participants[1].charge = charge;
            manifest.participants[1].units = units;
            settle(manifest);
        };
        ask_with(change, std::slice::from_ref(data)).map(|examined| examined.own().units)
    };
    let (record, speaker, user) = (PrivacyUnit::Record, PrivacyUnit::Speaker, PrivacyUnit::User);
    let plain = local(Visibility::Private);
    assert_eq!((of(record, &plain), of(speaker, &plain)), (Ok(500), Ok(50)));
    assert_eq!(of(user, &plain), Err(ManifestFault::Mixed("ward-7".to_owned(), user)));
    let mut by_speaker = plain.clone();
    by_speaker.facts.units = vec![speaker];
    assert_eq!(of(record, &by_speaker), Err(ManifestFault::Mixed("ward-7".to_owned(), record)));
    assert_eq!(of(speaker, &by_speaker), Ok(50));
    let mut with_users = plain;
    (with_users.facts.users, with_users.facts.units) = (Some(190), vec![record, speaker, user]);
    assert_eq!(of(user, &with_users), Ok(200));
}

#[test]
fn charge_below_the_cost_is_refused() {
    assert_eq!(fault(|manifest| manifest.participants[1].charge = None), ManifestFault::Charge("ward-7".to_owned()));
    let less = fault(|manifest| manifest.participants[1].charge.iter_mut().for_each(|charge| charge.releases = 1));
    assert_eq!(less, ManifestFault::Charge("ward-7".to_owned()));
}

#[test]
fn visibility_claimed_by_the_server_is_ignored() {
    // The server declares the dataset public, so that nothing would be charged; the site's policy differs.
    let public = spec().cost(&local(Visibility::Public).to_dataset(OURS, ORGANIZATION, WORKER));
    assert_eq!(public, None);
    assert_eq!(fault(|manifest| manifest.participants[1].charge = public), ManifestFault::Charge("ward-7".to_owned()));
}

#[test]
fn exact_gradients_of_a_private_dataset_are_refused() {
    let mut open = dp_sgd();
    open.open = Some(rounds());
    open.private = None;
    let open = Spec::DpSgd(open);
    let as_open = open.cost(&local(Visibility::Open).to_dataset(OURS, ORGANIZATION, WORKER));
    assert_eq!(as_open.as_ref().map(|charge| &charge.event), Some(&Event::NonPrivate));
    let lie = |manifest: &mut Manifest| {
        manifest.spec = open.clone();
        manifest.participants[1].charge = as_open.clone();
        settle(manifest);
    };
    assert_eq!(fault(lie), ManifestFault::Charge("ward-7".to_owned()));
    let examined = ask_with(lie, &[local(Visibility::Open)]).expect("the site marks it open");
    assert_eq!(examined.release("open"), Some(Event::NonPrivate));
    assert_eq!(examined.release("private"), None);
}

#[test]
fn comparison_charges_the_private_arm_of_an_open_dataset_too() {
    let mut comparison = dp_sgd();
    comparison.open = Some(rounds());
    let comparison = Spec::DpSgd(comparison);
    let charge = comparison.cost(&local(Visibility::Open).to_dataset(OURS, ORGANIZATION, WORKER));
    assert!(charge.as_ref().is_some_and(|charge| charge.event != Event::NonPrivate), "{charge:?}");
    let offer = |manifest: &mut Manifest| {
        manifest.spec = comparison.clone();
        manifest.participants[1].charge = charge.clone();
        settle(manifest);
    };
    let examined = ask_with(offer, &[local(Visibility::Open)]).expect("the site marks it open");
    assert_eq!(examined.release("open"), Some(Event::NonPrivate));
    assert_eq!(examined.release("private"), charge.clone().map(|charge| charge.event));
    // At a site that does not mark the dataset open, nothing leaves in the open arm.
    let examined = ask_with(offer, &[local(Visibility::Private)]).expect("the private arm is charged as it says");
    assert_eq!(examined.release("open"), None);
}

#[test]
fn manifest_for_another_worker_dataset_or_line_is_refused() {
    let not_named = ManifestFault::NotNamed("ward-7".to_owned());
    assert_eq!(fault(|manifest| manifest.participants[1].worker = WorkerId(Uuid::from_u128(99))), not_named);
    assert_eq!(fault(|manifest| manifest.participants.truncate(1)), not_named);
    assert_eq!(fault(|manifest| manifest.participants.push(manifest.participants[1].clone())), not_named);
    assert_eq!(fault(|manifest| manifest.participants[1].purpose = DatasetUse::Evaluate), not_named);
    assert_eq!(
        fault(|manifest| manifest.participants[1].lineage = LineageId(Uuid::from_u128(99))),
        ManifestFault::Lineage("ward-7".to_owned())
    );
    let elsewhere = LocalDataset { id: Some(DatasetId(Uuid::from_u128(77))), ..local(Visibility::Private) };
    assert_eq!(ask_with(|_| (), &[elsewhere]).expect_err("it is not here"), ManifestFault::Stranger);
}

#[test]
fn participants_that_are_not_in_the_spec_are_refused() {
    let stranger = |manifest: &mut Manifest| {
        let mut other = manifest.participants[0].clone();
        other.dataset = DatasetId(Uuid::from_u128(99));
        manifest.participants.push(other);
    };
    assert_eq!(fault(stranger), ManifestFault::Participants);
    assert_eq!(fault(|manifest| manifest.participants.swap(0, 1)), ManifestFault::Participants);
}

#[test]
fn public_size_that_is_not_ours_is_refused() {
    let fault = fault(|manifest| manifest.participants[1].units = 49);
    assert_eq!(fault, ManifestFault::Units { dataset: "ward-7".to_owned(), manifest: 49, site: 50 });
}

#[test]
fn test_set_of_this_site_must_be_public_by_its_own_policy() {
    let other = DatasetId(Uuid::from_u128(11));
    let mut read = dp_sgd();
    read.tests[0].dataset = other;
    let lie = |manifest: &mut Manifest| {
        let lineage = LineageId(Uuid::from_u128(12));
        let mut entry = manifest.participants[1].clone();
        (entry.dataset, entry.lineage, entry.purpose, entry.charge) = (other, lineage, DatasetUse::Evaluate, None);
        manifest.spec = Spec::DpSgd(read.clone());
        manifest.participants.push(entry);
    };
    let second = |visibility| LocalDataset {
        name: "ward-8".to_owned(),
        id: Some(other),
        lineage: LineageId(Uuid::from_u128(12)),
        ..local(visibility)
    };
    for (visibility, believed) in [(Visibility::Private, false), (Visibility::Open, false), (Visibility::Public, true)]
    {
        let answer = ask_with(lie, &[local(Visibility::Private), second(visibility)]);
        assert_eq!(answer.is_ok(), believed, "{visibility:?}");
    }
    assert_eq!(LEAD, honest().participants[0].dataset);
}

#[test]
fn two_datasets_of_one_lineage_in_a_job_are_refused() {
    let other = DatasetId(Uuid::from_u128(11));
    let mut both = dp_sgd();
    both.participants.push(undertone_api::job::dp_sgd::Party { dataset: other, ..both.participants[1] });
    let lie = |manifest: &mut Manifest| {
        let mut entry = manifest.participants[1].clone();
        (entry.dataset, entry.dataset_name) = (other, "ward-8".to_owned());
        manifest.spec = Spec::DpSgd(both.clone());
        let at = manifest.spec.datasets().iter().position(|(id, _)| *id == other).expect("it is named");
        manifest.participants.insert(at, entry);
    };
    let second = LocalDataset { name: "ward-8".to_owned(), id: Some(other), ..local(Visibility::Private) };
    let answer = ask_with(lie, &[local(Visibility::Private), second]);
    assert_eq!(answer.err(), Some(ManifestFault::SharedAccounts("ward-8".to_owned())));
}

#[test]
fn dataset_of_another_owner_or_name_is_refused() {
    let other = undertone_api::id::OrganizationId(Uuid::from_u128(99));
    assert_eq!(
        fault(|manifest| manifest.participants[1].organization = other),
        ManifestFault::Owner("ward-7".to_owned())
    );
    let renamed = fault(|manifest| manifest.participants[1].dataset_name = "ward-8".to_owned());
    assert_eq!(renamed, ManifestFault::NotNamed("ward-7".to_owned()));
}

#[test]
fn start_from_another_model_is_refused() {
    for model in [None, Some("00".repeat(32)), spec().model(14)] {
        assert_eq!(fault(|manifest| manifest.model = model), ManifestFault::Model("ward-7".to_owned()));
    }
}

#[test]
fn initial_model_without_its_protected_origin_is_refused() {
    let origin = |digest: &str, source| ModelOrigin {
        digest: digest.repeat(32),
        job: JobId(Uuid::from_u128(0x77)),
        title: "an earlier job".to_owned(),
        file: "model.safetensors".to_owned(),
        source,
    };
    let begin = |manifest: &mut Manifest, stated: Option<ModelOrigin>| {
        if let Spec::DpSgd(spec) = &mut manifest.spec {
            spec.initial_model = Some("ab".repeat(32));
        }
        manifest.initial_model = stated;
        settle(manifest);
    };
    for source in [ModelSource::Public, ModelSource::Private] {
        assert!(ask(|manifest| begin(manifest, Some(origin("ab", source)))).is_ok());
    }
    for stated in [None, Some(origin("cd", ModelSource::Private)), Some(origin("ab", ModelSource::Open))] {
        assert_eq!(fault(|manifest| begin(manifest, stated)), ManifestFault::InitialModel);
    }
    let unasked = Some(origin("ab", ModelSource::Private));
    assert_eq!(fault(|manifest| manifest.initial_model = unasked), ManifestFault::InitialModel);
}

#[test]
fn limits_that_are_not_those_of_the_spec_are_refused() {
    assert_eq!(fault(|manifest| manifest.limits = None), ManifestFault::NoLimits);
    type Change = fn(&mut JobLimits);
    let changes: [Change; 7] = [
        |limits| limits.releases += 1,
        |limits| limits.releases -= 1,
        |limits| limits.rounds += 1,
        |limits| limits.rounds -= 1,
        |limits| limits.round_seconds += 1,
        |limits| limits.round_seconds -= 1,
        |limits| limits.not_after += Duration::SECOND,
    ];
    for change in changes {
        assert_eq!(fault(|manifest| manifest.limits.iter_mut().for_each(change)), ManifestFault::Limits);
    }
    // An earlier end does not widen the manifest.
    let sooner = |limits: &mut JobLimits| limits.not_after -= Duration::DAY;
    ask(|manifest| manifest.limits.iter_mut().for_each(sooner)).expect("it is within");
}

#[test]
fn manifest_holds_from_its_issue_until_its_limit() {
    let ends =
        |until| move |manifest: &mut Manifest| manifest.limits.iter_mut().for_each(|limits| limits.not_after = until);
    let past = now() - Duration::SECOND;
    assert_eq!(fault(ends(past)), ManifestFault::Expired(past));
    ask(ends(now() + Duration::MINUTE)).expect("it holds a minute more");
    let issue = |at| {
        move |manifest: &mut Manifest| {
            manifest.issued_at = at;
            settle(manifest);
        }
    };
    let tomorrow = now() + Duration::days(2);
    assert_eq!(fault(issue(tomorrow)), ManifestFault::Future(tomorrow));
    ask(issue(now() + CLOCKS)).expect("clocks may differ by a day");
    let beyond = now() + CLOCKS + Duration::SECOND;
    assert_eq!(fault(issue(beyond)), ManifestFault::Future(beyond));
}

#[test]
fn unknown_value_in_the_manifest_is_refused() {
    let mut signed = sign(&honest());
    let more = format!("{{\"also\":{{\"series\":\"raw\"}},{}", &signed.payload[1..]);
    let document = Foreign(serde_json::from_str(&more).expect("it is JSON"));
    signed = Signed::new(&document, &server_key()).expect("it has a JSON form");
    let fault = examine(&signed, OURS, &identity(), &[local(Visibility::Private)], now()).expect_err("it says more");
    assert_eq!(fault, ManifestFault::Strange("also".to_owned()));
}

/// Any JSON under the signature of a manifest.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
struct Foreign(serde_json::Value);

impl undertone_api::signed::Document for Foreign {
    const DOMAIN: &'static str = <Manifest as undertone_api::signed::Document>::DOMAIN;
}
