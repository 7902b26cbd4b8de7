//! Forgeries: a server (or a thief of its key) certifies something untrue, one forgery at a time.

use ed25519_dalek::SigningKey;
use undertone_api::signed::certificate::{Certificate, CertificateFile, ClockSummary};
use undertone_api::signed::{DocumentSigner, Manifest, SignatureScope, Signed};
use undertone_certificate::{TrustedInputs, VerificationPoint, verify};
use undertone_privacy::ledger::Overlap;
use undertone_privacy::{Adjacency, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::file;
use crate::service::world::TestConsortium;
use crate::service::world::finished::{finished, verification_keys};
use crate::testing::on_both;

/// The changes of a forgery: to the certificate, the evidence, or the verifier's known values.
type Lie = fn(&mut Certificate, &mut CertificateFile, &mut TrustedInputs);

fn charges_mut(certificate: &mut Certificate) -> &mut undertone_api::signed::certificate::PartyCharges {
    certificate.parties[1].charged.as_mut().unwrap()
}

fn epsilon(figure: &mut Option<undertone_api::signed::certificate::CertifiedFigure>, factor: f64) {
    let figure = figure.as_mut().unwrap();
    figure.epsilon = figure.epsilon.map(|epsilon| epsilon * factor);
}

/// Each forgery with the point at which it must be found.
const LIES: [(&str, VerificationPoint, Lie); 29] = [
    ("a smaller ε", VerificationPoint::Epsilon, |c, _, _| epsilon(&mut charges_mut(c).renyi, 0.9)),
    ("a larger ε", VerificationPoint::Epsilon, |c, _, _| epsilon(&mut charges_mut(c).renyi, 1.1)),
    ("a smaller tight ε", VerificationPoint::Epsilon, |c, _, _| epsilon(&mut charges_mut(c).tight, 0.999)),
    ("no tight ε", VerificationPoint::Epsilon, |c, _, _| charges_mut(c).tight = None),
    ("an insider ε of a release without masks", VerificationPoint::Epsilon, |c, _, _| {
        let charged = charges_mut(c);
        charged.insider = charged.renyi;
    }),
    ("a receipt left out", VerificationPoint::Chain, |_, f, _| drop(f.evidence.receipts.remove(1))),
    ("a receipt told twice", VerificationPoint::Chain, |_, f, _| {
        let again = f.evidence.receipts[0].clone();
        f.evidence.receipts.insert(0, again);
    }),
    ("a receipt altered", VerificationPoint::Receipts, |_, f, _| {
        let receipt = &mut f.evidence.receipts[0].receipt;
        receipt.payload = receipt.payload.replace("\"noise_multiplier\":1.0", "\"noise_multiplier\":2.0");
    }),
    ("fewer releases than receipts", VerificationPoint::Counts, |c, _, _| {
        charges_mut(c).releases.committed -= 1;
    }),
    ("fewer releases counted than paid", VerificationPoint::Counts, |c, _, _| charges_mut(c).releases.counted = 1),
    ("a release clock that no receipt names", VerificationPoint::Counts, |c, _, _| {
        charges_mut(c).clock = Some(ClockSummary { period_millis: 250, releases: 3, late: 0 });
    }),
    ("another clip", VerificationPoint::Mechanism, |c, _, _| charges_mut(c).mechanism.clip = Some(0.5)),
    ("another sensitivity", VerificationPoint::Mechanism, |c, _, _| charges_mut(c).mechanism.sensitivity = Some(2.0)),
    ("another sampling", VerificationPoint::Manifest, |c, _, _| {
        charges_mut(c).mechanism.event = Event::PoissonSampledGaussian {
            sampling_rate: SamplingRate::new(0.0625).unwrap(),
            noise_multiplier: NoiseMultiplier::new(1.0).unwrap(),
        };
    }),
    ("another adjacency", VerificationPoint::Manifest, |c, _, _| charges_mut(c).adjacency = Adjacency::AddRemove),
    ("another relation in words", VerificationPoint::Mechanism, |c, _, _| {
        charges_mut(c).relation = "Nothing is compared.".to_owned();
    }),
    ("a public fact left out", VerificationPoint::Mechanism, |c, _, _| charges_mut(c).public.truncate(1)),
    ("rules that are not known", VerificationPoint::Counts, |c, _, _| c.version = 9),
    ("no promised limit", VerificationPoint::Account, |c, _, _| charges_mut(c).account.promises.clear()),
    ("another unit", VerificationPoint::Manifest, |c, _, _| charges_mut(c).unit = PrivacyUnit::Speaker),
    ("another rule", VerificationPoint::Rule, |c, _, _| c.overlap.overlap = Overlap::Disjoint),
    ("a smaller ε of the consortium", VerificationPoint::Rule, |c, _, _| epsilon(&mut c.together[0].figure, 0.9)),
    ("an account that spent less", VerificationPoint::Account, |c, _, _| charges_mut(c).account.spent *= 0.5),
    ("an account without this job", VerificationPoint::Account, |c, _, _| {
        let account = &mut charges_mut(c).account;
        account.balance = undertone_privacy::ledger::Balance::new(account.balance.budget().copied());
        (account.spent, account.committed) = (0.0, 0.0);
    }),
    ("another site's key", VerificationPoint::Receipts, |c, _, _| {
        c.parties[1].site_key = c.parties[2].site_key.clone();
    }),
    ("a site that is not known", VerificationPoint::Sites, |_, _, known| drop(known.site_keys.remove(1))),
    ("another model", VerificationPoint::Model, |_, _, known| known.model = Some((16, "00".repeat(32)))),
    ("a place in the log that is another's", VerificationPoint::Log, |_, f, _| {
        let other = f.evidence.receipts[1].logged.clone();
        f.evidence.receipts[0].logged = other;
    }),
    ("a receipt that the log does not know", VerificationPoint::Log, |_, f, _| f.evidence.receipts[0].logged = None),
];

/// Returns the file with the certificate signed again.
pub(super) fn sign_certificate(
    mut file: CertificateFile,
    certificate: &Certificate,
    key: &dyn DocumentSigner,
) -> CertificateFile {
    let Signed { payload, signature } = Signed::new(certificate, key).unwrap();
    (file.payload, file.signature) = (payload, signature);
    file
}

/// Returns the file with a text in the certificate's place.
pub(super) fn sign_text(mut file: CertificateFile, payload: String, key: &dyn DocumentSigner) -> CertificateFile {
    let message =
        [<Certificate as undertone_api::signed::Document>::DOMAIN.as_bytes(), &[0], payload.as_bytes()].concat();
    let scope = SignatureScope { purpose: None, at: None };
    (file.signature, file.payload) = (key.sign_message(&message, scope).unwrap(), payload);
    file
}

on_both! {
    async fn every_lie_is_found_at_its_point_though_the_server_signed_it(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 3).await;
        let true_file = file(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        let certificate: Certificate = serde_json::from_str(&true_file.payload).unwrap();
        for (what, point, lie) in LIES {
            let (mut certificate, mut file, mut known) = (certificate.clone(), true_file.clone(), verification_keys(&world));
            lie(&mut certificate, &mut file, &mut known);
            let verdict = verify(&sign_certificate(file, &certificate, &app.ctx.signer), &known);
            assert!(verdict.failed().contains(&point), "{what}: not found at {}\n{verdict}", point.name());
        }
    }

    async fn whoever_lacks_the_server_s_key_can_change_nothing(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 1).await;
        let true_file = file(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        let certificate: Certificate = serde_json::from_str(&true_file.payload).unwrap();
        let mut edited = true_file.clone();
        edited.payload = edited.payload.replace("\"settled\":true", "\"settled\": true");
        assert_ne!(edited.payload, true_file.payload);
        let stranger = SigningKey::from_bytes(&[9; 32]);
        // One forger signs in the server's name, one in their own.
        let posing = sign_certificate(true_file.clone(), &certificate, &stranger);
        let mut own = certificate.clone();
        own.issuer.public_key = hex::encode(stranger.verifying_key().to_bytes());
        let own = sign_certificate(true_file.clone(), &own, &stranger);
        for forged in [&edited, &posing, &own] {
            assert_eq!(verify(forged, &verification_keys(&world)).failed(), [VerificationPoint::Signature]);
        }
        assert_eq!(verify(&posing, &TrustedInputs::default()).failed(), [VerificationPoint::Signature]);
        // Without a key to compare with, a forger with an own key still lacks the server's signature on the manifest.
        assert_eq!(verify(&own, &TrustedInputs::default()).failed(), [VerificationPoint::Manifest]);
    }

    async fn a_head_of_another_log_proves_nothing(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let first = finished(&mut world, 1).await.summary.id;
        let second = finished(&mut world, 1).await.summary.id;
        let reader = &world.sites[1].steward;
        let (old, new) = (file(&app.ctx, reader, first).await.unwrap(), file(&app.ctx, reader, second).await.unwrap());
        let (early, mut late): (Certificate, Certificate) =
            (serde_json::from_str(&old.payload).unwrap(), serde_json::from_str(&new.payload).unwrap());
        assert_ne!(early.head, late.head);
        late.head = early.head;
        assert_eq!(verify(&sign_certificate(new.clone(), &late, &app.ctx.signer), &verification_keys(&world)).failed(), [VerificationPoint::Log]);
        late.head = None;
        let without = verify(&sign_certificate(new, &late, &app.ctx.signer), &verification_keys(&world));
        assert!(without.holds() && without.to_string().contains("not checked: the certificate carries no head"));
    }

    async fn a_manifest_of_more_noise_does_not_pass_for_the_one_that_ran(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 1).await;
        let mut forged = file(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        let mut certificate: Certificate = serde_json::from_str(&forged.payload).unwrap();
        let manifest = forged.evidence.manifest.payload.replace("\"clip\":1000000.0", "\"clip\":0.1");
        let manifest: Manifest = serde_json::from_str(&manifest).unwrap();
        forged.evidence.manifest = Signed::new(&manifest, &app.ctx.signer).unwrap();
        certificate.job.manifest = forged.evidence.manifest.digest();
        for party in certificate.parties.iter_mut().filter_map(|party| party.charged.as_mut()) {
            (party.mechanism.clip, party.mechanism.sensitivity, party.mechanism.noise) = (Some(0.1), Some(0.1), Some(0.1));
        }
        let verdict = verify(&sign_certificate(forged, &certificate, &app.ctx.signer), &verification_keys(&world));
        assert_eq!(verdict.failed(), [VerificationPoint::Receipts], "the sites signed for another manifest\n{verdict}");
    }
}
