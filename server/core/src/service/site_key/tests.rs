#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use ed25519_dalek::SigningKey;
use sea_orm::EntityTrait as _;
use undertone_api::id::WorkerId;
use undertone_api::job::Job;
use undertone_api::problem::Code;
use undertone_api::signed::{CertificatePins, DocumentSigner, KeyChange, KeyRotation, Signed, public_key};

use super::{load_keys, rotate};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::worker;
use crate::service::offer::{self, OfferRequest, WorkOffer};
use crate::service::world::{TestConsortium, TestSite};
use crate::service::{bundle, pins, receipt, witness};
use crate::testing::on_both;
use crate::verify;

fn hex_of(key: &SigningKey) -> String {
    hex::encode(key.verifying_key().to_bytes())
}

/// Returns the site's next change, to this key.
fn change(site: &TestSite, number: u32, new: &SigningKey) -> KeyChange {
    KeyChange {
        worker: site.worker,
        number,
        old: hex_of(&site.key),
        new: hex_of(new),
        receipts: site.sequence,
        last: site.head.clone(),
        at: time::OffsetDateTime::UNIX_EPOCH,
    }
}

fn signed(change: &KeyChange, old: &dyn DocumentSigner, new: &SigningKey) -> KeyRotation {
    KeyRotation { by_old: Signed::new(change, old).unwrap(), by_new: Signed::new(change, new).unwrap() }
}

fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> Code {
    answer.unwrap_err().into_problem().code
}

async fn at_work(ctx: &Ctx) -> (TestConsortium, Job, String) {
    let world = TestConsortium::new(ctx, 2, 20.0).await;
    let job = world.queued(6).await;
    let lease = world.lease(1).await;
    (world, job, lease)
}

/// Accepts receipts; returns the number of countersigned ones.
async fn accept(ctx: &Ctx, worker: WorkerId, receipts: Vec<Signed>) -> Result<usize, Error> {
    let countersigned = ctx.db.write("test", async |tx| receipt::accept(ctx, tx, worker, &receipts).await).await?;
    Ok(countersigned.len())
}

async fn current_key(ctx: &Ctx, worker: WorkerId) -> Vec<u8> {
    load_keys(ctx.db.read(), worker).await.unwrap().newest().to_bytes().to_vec()
}

on_both! {
    async fn receipts_of_either_key_are_believed_and_the_whole_ledger_verifies(app: &TestApp) {
        let (mut world, job, lease) = at_work(&app.ctx).await;
        let old = world.sites[1].receipt(&job, 1, 1);
        world.submit_with(1, &lease, 1, &[1.0], vec![old.clone()]).await.unwrap();
        let new = SigningKey::from_bytes(&[77; 32]);
        let rotation = signed(&change(&world.sites[1], 1, &new), &world.sites[1].key, &new);
        rotate(&app.ctx, &rotation).await.unwrap();
        rotate(&app.ctx, &rotation).await.expect("the answer was lost, so it is said again");
        let old_key = std::mem::replace(&mut world.sites[1].key, new.clone());
        // A receipt from before the change is accepted when it is repeated, and later ones have the new key.
        let next = world.sites[1].receipt(&job, 2, 1);
        assert_eq!(accept(&app.ctx, world.sites[1].worker, vec![old, next]).await.unwrap(), 2);
        world.sites[1].key = old_key;
        let late = world.sites[1].receipt(&job, 3, 1);
        assert_eq!(code(accept(&app.ctx, world.sites[1].worker, vec![late]).await), Code::BadSignature);

        let worker = world.sites[1].worker;
        assert_eq!(current_key(&app.ctx, worker).await, new.verifying_key().to_bytes());
        let site = &world.sites[1];
        let view =
            crate::service::worker::list(&app.ctx, &site.steward, site.steward.organizations()[0]).await.unwrap();
        let announcement = change(site, 1, &new);
        let [of_key] = &view[0].key_changes[..] else { panic!("one change: {view:?}") };
        assert_eq!((of_key.number, &of_key.old, &of_key.new), (1, &announcement.old, &announcement.new));
        assert_eq!((of_key.receipts, of_key.at, &view[0].public_key), (1, announcement.at, &announcement.new));
        let all = witness::receipts(&app.ctx, worker, 0).await.unwrap();
        assert_eq!((all.len(), witness::receipts(&app.ctx, worker, 1).await.unwrap().len()), (2, 1));
        let key = app.ctx.signer.verifying_key();
        let report = bundle::examine(&app.ctx.db, &key, verify::Pins::default(), app.ctx.now()).await.unwrap();
        assert_eq!((report.findings.len(), report.receipts), (0, 2), "{:?}", report.findings);
    }

    async fn whoever_waits_for_work_under_the_key_before_is_sent_away(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        let site = &world.sites[1];
        let (ctx, id) = (app.ctx.clone(), site.worker);
        let asking = OfferRequest { wait_seconds: 30, ..OfferRequest::default() };
        let waits = tokio::spawn(async move { offer::next(&ctx, id, &asking).await });
        // The call has stored its first sign of life: it waits.
        let last_seen = async || worker::Entity::find_by_id(id.0).one(app.ctx.db.read()).await.unwrap().unwrap().last_seen_at;
        while last_seen().await.is_none() {
            tokio::task::yield_now().await;
        }
        let new = SigningKey::from_bytes(&[79; 32]);
        rotate(&app.ctx, &signed(&change(site, 1, &new), &site.key, &new)).await.unwrap();
        assert_eq!(code(waits.await.unwrap()), Code::Unauthenticated);
        let again = offer::next(&app.ctx, id, &OfferRequest::default()).await.unwrap();
        assert_eq!(again, WorkOffer::Nothing, "under the new key it may ask");
    }

    async fn nobody_changes_a_sites_key_but_the_site(app: &TestApp) {
        let (mut world, job, lease) = at_work(&app.ctx).await;
        let receipt = world.sites[1].receipt(&job, 1, 1);
        world.submit_with(1, &lease, 1, &[1.0], vec![receipt]).await.unwrap();
        let (site, other) = (&world.sites[1], &world.sites[2]);
        let before = current_key(&app.ctx, site.worker).await;
        let new = SigningKey::from_bytes(&[78; 32]);
        let good = change(site, 1, &new);
        let unknown = KeyChange { worker: WorkerId(uuid::Uuid::nil()), ..good.clone() };
        let theirs = KeyChange { new: hex_of(&other.key), ..good.clone() };
        let hidden = KeyChange { receipts: 0, ..good.clone() };
        let swapped = KeyChange { last: "00".repeat(32), ..good.clone() };
        let skipped = KeyChange { number: 2, ..good.clone() };
        for (what, rotation, wanted) in [
            ("the server's own hand", signed(&good, &app.ctx.signer, &new), Code::BadSignature),
            ("another site's hand", signed(&good, &other.key, &new), Code::BadSignature),
            ("a key that nobody holds", signed(&good, &site.key, &site.key), Code::BadSignature),
            ("another site's key", signed(&theirs, &site.key, &other.key), Code::AlreadyExists),
            ("an unknown worker", signed(&unknown, &site.key, &new), Code::BadSignature),
            ("receipts left out", signed(&hidden, &site.key, &new), Code::BadSignature),
            ("another last receipt", signed(&swapped, &site.key, &new), Code::BadSignature),
            ("a change left out", signed(&skipped, &site.key, &new), Code::BadSignature),
        ] {
            assert_eq!(code(rotate(&app.ctx, &rotation).await), wanted, "{what}");
        }
        assert_eq!(current_key(&app.ctx, site.worker).await, before, "nothing has changed");
    }

    async fn the_server_says_by_its_key_what_it_was_asked(app: &TestApp) {
        let challenge = "ab".repeat(32);
        let answer = pins::pins(&app.ctx, &challenge).await.unwrap();
        let document: CertificatePins = answer.open(&app.ctx.signer.verifying_key()).unwrap();
        assert_eq!((document.challenge, document.at), (challenge, app.ctx.now()));
        assert!(document.certificates.is_empty(), "it speaks no TLS");
        let another = public_key(&hex_of(&SigningKey::from_bytes(&[1; 32]))).unwrap();
        assert!(answer.open::<CertificatePins>(&another).is_err());
        for challenge in ["", "ab", "zz"] {
            assert_eq!(code(pins::pins(&app.ctx, challenge).await), Code::ValidationFailed);
        }
    }
}

#[tokio::test]
async fn a_server_with_tls_announces_the_certificate_that_it_shows() {
    let app = crate::testing::TestApp::sqlite_with(|config| config.tls.mode = crate::config::TlsMode::On).await;
    let answer = pins::pins(&app.ctx, &"00".repeat(32)).await.unwrap();
    let document: CertificatePins = answer.open(&app.ctx.signer.verifying_key()).unwrap();
    let tls = app.ctx.tls.as_ref().unwrap();
    assert_eq!((document.certificates.len(), &document.certificates[0].sha256), (1, &tls.fingerprint()));
    assert_eq!(document.certificates[0].until, tls.rotates_at());
    assert!(document.certificates[0].until.is_some_and(|until| until > app.ctx.now()));
}
