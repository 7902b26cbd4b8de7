//! Workers: retired, restored, replaced.

use ed25519_dalek::SigningKey;
use sea_orm::EntityTrait as _;
use undertone_api::audit_log::AuditAction;
use undertone_api::problem::Code;
use undertone_api::retirement::StatedReason;
use undertone_api::signed::{KeyChange, KeyRotation, Signed};

use super::{code, consortium_admin, owner, reason};
use crate::ctx::Ctx;
use crate::model::{audit_log, dataset};
use crate::service::offer::{self, OfferRequest};
use crate::service::retirement::{restore_worker, retire_worker};
use crate::service::world::{TestConsortium, TestSite};
use crate::service::{bundle, presence, site_key, worker};
use crate::testing::on_both;
use crate::verify;

fn hex_of(key: &SigningKey) -> String {
    hex::encode(key.verifying_key().to_bytes())
}

async fn retire(ctx: &Ctx, site: &TestSite) {
    retire_worker(ctx, &site.steward, owner(site), site.worker, &reason()).await.unwrap();
}

/// Returns a rotation signed by the holder of the site's key.
fn rotation(site: &TestSite, new: &SigningKey) -> KeyRotation {
    let change = KeyChange {
        worker: site.worker,
        number: 1,
        old: hex_of(&site.key),
        new: hex_of(new),
        receipts: site.sequence,
        last: site.head.clone(),
        at: time::OffsetDateTime::UNIX_EPOCH,
    };
    KeyRotation { by_old: Signed::new(&change, &site.key).unwrap(), by_new: Signed::new(&change, new).unwrap() }
}

/// Makes a replacement token; returns its secret.
async fn replacement_secret(ctx: &Ctx, site: &TestSite) -> String {
    let link = worker::invite_replacement(ctx, &site.steward, owner(site), site.worker).await.unwrap();
    worker::tests::opened(&link).secret
}

on_both! {
    async fn retired_worker_is_shown_with_the_reason(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        let site = &world.sites[1];
        let view = retire_worker(&app.ctx, &site.steward, owner(site), site.worker, &reason()).await.unwrap();
        let retirement = view.retirement.unwrap();
        assert_eq!((retirement.reason.as_str(), retirement.by), ("the machine was stolen", site.steward.id()));
        assert_eq!(presence::key(&app.ctx, site.worker).await.unwrap(), None, "its sessions end");
        let again = retire_worker(&app.ctx, &site.steward, owner(site), site.worker, &reason()).await;
        assert_eq!(code(again), Code::WrongState);
        let restored = restore_worker(&app.ctx, &site.steward, owner(site), site.worker, &reason()).await.unwrap();
        assert_eq!(restored.retirement, None);
        assert!(presence::key(&app.ctx, site.worker).await.unwrap().is_some());
        let entries = audit_log::Entity::find().all(app.ctx.db.read()).await.unwrap();
        let words: Vec<_> = entries.iter().map(|entry| entry.what.as_str()).collect();
        assert!([AuditAction::WorkerRetired, AuditAction::WorkerRestored].iter().all(|what| words.contains(&what.word())), "{words:?}");
    }

    async fn retired_worker_that_waits_for_work_is_sent_away(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        let site = &world.sites[1];
        let ctx = app.ctx.clone();
        let id = site.worker;
        let asking = OfferRequest { wait_seconds: 30, ..OfferRequest::default() };
        let waits = tokio::spawn(async move { offer::next(&ctx, id, &asking).await });
        let last_seen = async || {
            let all = worker::list(&app.ctx, &site.steward, owner(site)).await.unwrap();
            all[0].last_seen_at
        };
        while last_seen().await.is_none() {
            tokio::task::yield_now().await;
        }
        retire(&app.ctx, site).await;
        assert_eq!(code(waits.await.unwrap()), Code::Unauthenticated);
    }

    async fn retired_worker_needs_a_reason_and_a_fresh_proof(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        let site = &world.sites[1];
        let empty = StatedReason { reason: " ".to_owned() };
        let refused = retire_worker(&app.ctx, &site.steward, owner(site), site.worker, &empty).await;
        assert_eq!(code(refused), Code::ValidationFailed);
        let mut stale = site.steward.clone();
        stale.is_fresh = false;
        let refused = retire_worker(&app.ctx, &stale, owner(site), site.worker, &reason()).await;
        assert_eq!(code(refused), Code::ProofStale);
        let other = &world.sites[0];
        let refused = retire_worker(&app.ctx, &other.steward, owner(site), site.worker, &reason()).await;
        assert_eq!(code(refused), Code::Forbidden);
        let hidden = retire_worker(&app.ctx, &other.steward, owner(other), site.worker, &reason()).await;
        assert_eq!(code(hidden), Code::NotFound);
    }

    async fn worker_retired_by_the_consortium_is_restored_by_it(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        let site = &world.sites[1];
        let admin = consortium_admin(&world);
        let mut above = admin.clone();
        above.consortia.clone_from(&site.steward.consortia);
        let view = retire_worker(&app.ctx, &above, owner(site), site.worker, &reason()).await.unwrap();
        assert!(!view.retirement.unwrap().is_own);
        let own = restore_worker(&app.ctx, &site.steward, owner(site), site.worker, &reason()).await;
        assert_eq!(code(own), Code::Forbidden);
        restore_worker(&app.ctx, &above, owner(site), site.worker, &reason()).await.unwrap();
    }

    async fn stolen_key_cannot_rotate_after_retirement(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        let site = &world.sites[1];
        retire(&app.ctx, site).await;
        let thief = SigningKey::from_bytes(&[66; 32]);
        assert_eq!(code(site_key::rotate(&app.ctx, &rotation(site, &thief)).await), Code::Unauthenticated);
    }

    async fn key_rotation_is_announced_to_the_admins(app: &TestApp) {
        use undertone_api::notification::NotificationKind;
        let founded = app.founded().await;
        let (organization, admin) = &founded.north;
        let new = undertone_api::worker::NewEnrolment { name: "ward".to_owned() };
        let link = worker::invite(&app.ctx, &admin.actor(app).await, *organization, &new).await.unwrap();
        let old = SigningKey::from_bytes(&[5; 32]);
        let secret = worker::tests::opened(&link).secret;
        let enrolled = worker::enrol(&app.ctx, &secret, &hex_of(&old), "1", &[]).await.unwrap();
        let thief = SigningKey::from_bytes(&[6; 32]);
        let change = KeyChange {
            worker: enrolled.id,
            number: 1,
            old: hex_of(&old),
            new: hex_of(&thief),
            receipts: 0,
            last: hex::encode(<sha2::Sha256 as sha2::Digest>::digest(b"")),
            at: time::OffsetDateTime::UNIX_EPOCH,
        };
        let by_thief = KeyRotation { by_old: Signed::new(&change, &old).unwrap(), by_new: Signed::new(&change, &thief).unwrap() };
        site_key::rotate(&app.ctx, &by_thief).await.unwrap();
        let query = undertone_api::notification::NotificationQuery {
            kind: Some(NotificationKind::SiteKeyRotated),
            ..Default::default()
        };
        let notices = crate::service::notification::list(&app.ctx, &admin.actor(app).await, &query).await.unwrap();
        assert_eq!(notices.items.len(), 1);
        // The owner recovers the site: the thief's key is invalid, and so is the earlier key.
        let actor = admin.actor(app).await;
        retire_worker(&app.ctx, &actor, *organization, enrolled.id, &reason()).await.unwrap();
        let token = worker::invite_replacement(&app.ctx, &actor, *organization, enrolled.id).await.unwrap();
        let secret = worker::tests::opened(&token).secret;
        for stolen in [&old, &thief] {
            let refused = worker::enrol(&app.ctx, &secret, &hex_of(stolen), "1", &[]).await;
            assert_eq!(code(refused), Code::AlreadyExists);
        }
        let fresh = SigningKey::from_bytes(&[7; 32]);
        let heir = worker::enrol(&app.ctx, &secret, &hex_of(&fresh), "1", &[]).await.unwrap();
        assert_eq!(heir.replaces, Some(enrolled.id));
    }

    async fn replacement_keeps_the_account_and_old_receipts_verify(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        let job = world.queued(1).await;
        let lease = world.lease(1).await;
        world.submit(&job, 1, &lease, 1, &[1.0]).await.unwrap();
        let before = world.account(1).await;
        assert!(before.spent > 0.0);
        let site = &world.sites[1];
        let not_yet = worker::invite_replacement(&app.ctx, &site.steward, owner(site), site.worker).await.map(drop);
        assert_eq!(code(not_yet), Code::WrongState);
        retire(&app.ctx, site).await;
        let secret = replacement_secret(&app.ctx, site).await;
        let key = hex_of(&SigningKey::from_bytes(&[9; 32]));
        let heir = worker::enrol(&app.ctx, &secret, &key, "1", &[]).await.unwrap();
        let row = dataset::Entity::find_by_id(site.dataset.0).one(app.ctx.db.read()).await.unwrap().unwrap();
        assert_eq!((row.worker_id, row.lineage_id), (heir.id.0, site.lineage.0));
        let after = world.account(1).await;
        assert_eq!((after.id, after.spent), (before.id, before.spent));
        let restored = restore_worker(&app.ctx, &site.steward, owner(site), site.worker, &reason()).await;
        assert_eq!(code(restored), Code::WrongState);
        let twice = worker::invite_replacement(&app.ctx, &site.steward, owner(site), site.worker).await.map(drop);
        assert_eq!(code(twice), Code::WrongState);
        let server = app.ctx.signer.verifying_key();
        let report = bundle::examine(&app.ctx.db, &server, verify::Pins::default(), app.ctx.now()).await.unwrap();
        assert_eq!((report.findings.len(), report.receipts), (0, 1), "{:?}", report.findings);
        world.propose(world.spec(1)).await.expect("the dataset has a worker again");
    }
}
