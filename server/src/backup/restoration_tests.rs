#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use age::secrecy::SecretString;
use ed25519_dalek::SigningKey;
use tempfile::TempDir;
use undertone_api::id::DatasetId;
use undertone_api::job::{Job, JobState};
use undertone_api::log::witness::MOST_RECEIPTS;
use undertone_api::problem::Code;
use undertone_api::retirement::StatedReason;
use undertone_api::signed::{HeadObservation, LogHead, Manifest, Signed};
use undertone_api::worker::Worker;

use crate::App;
use crate::backup::{read, write};
use crate::testing::{TestApp, on_both, tamper};
use undertone_server_core::config::Config;
use undertone_server_core::ctx::{Ctx, Random};
use undertone_server_core::error::Error;
use undertone_server_core::keys::ServerSigner;
use undertone_server_core::service::finish::{self, PartOutcome};
use undertone_server_core::service::head_exchange::exchange_heads;
use undertone_server_core::service::offer::{self, OfferRequest, WorkOffer};
use undertone_server_core::service::restoration::{
    LONGEST_REASON, MOST_PARTS, ReconciledPart, ReturnedReceipts, proofs, reconcile, state_restoration, waiting,
};
use undertone_server_core::service::retirement::write_off_worker;
use undertone_server_core::service::world::{TestConsortium, row};
use undertone_server_core::service::{bundle, ledger, log, worker};
use undertone_server_core::verify::{Pins, Report};

fn passphrase() -> SecretString {
    SecretString::from("a passphrase of a test".to_owned())
}

/// A server with a backup from before its last job, and the server restored from the backup.
struct RestoredServer {
    world: TestConsortium,
    /// The job that the backup lacks, with one receipt of the first private site.
    job: Job,
    manifest: Signed,
    receipt: Signed,
    app: TestApp,
    again: App,
    _folders: [TempDir; 2],
}

impl RestoredServer {
    async fn new() -> Self {
        let app = TestApp::sqlite().await;
        let mut world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        let folder = tempfile::tempdir().unwrap();
        let file: PathBuf = folder.path().join("server.backup");
        write::write(&app.ctx.config, &file, passphrase()).await.unwrap();
        let job = world.queued(3).await;
        let lease = world.lease(1).await;
        let receipt = world.sites[1].receipt(&job, 1, 1);
        world.submit_with(1, &lease, 1, &[1.0], vec![receipt.clone()]).await.unwrap();
        let stored = row(&app.ctx, job.summary.id).await;
        let manifest = Signed { payload: stored.manifest, signature: stored.signature };

        let place = tempfile::tempdir().unwrap();
        let config = Config { data_dir: place.path().to_owned(), ..app.ctx.config.clone() };
        let report = read::read(&config, &file, passphrase(), &[], "the disk was lost").await.unwrap();
        assert!(report.holds(), "{report}");
        let again = app.restarted_with(config).await;
        world.ctx = again.ctx.clone();
        Self { world, job, manifest, receipt, app, again, _folders: [folder, place] }
    }

    fn ctx(&self) -> &Ctx {
        &self.again.ctx
    }

    fn dataset(&self) -> DatasetId {
        self.world.sites[1].dataset
    }

    fn batch(&self, has_ended: bool) -> ReturnedReceipts {
        let part = ReconciledPart { manifest: self.manifest.clone(), dataset: self.dataset(), has_ended };
        ReturnedReceipts { parts: vec![part], receipts: vec![self.receipt.clone()], ..ReturnedReceipts::default() }
    }

    async fn reconcile(&self, request: &ReturnedReceipts) -> Result<Vec<Signed>, Error> {
        reconcile(self.ctx(), self.world.sites[1].worker, request).await
    }

    async fn complete(&self) {
        let complete = ReturnedReceipts { is_complete: true, ..ReturnedReceipts::default() };
        assert_eq!(self.reconcile(&complete).await.unwrap(), Vec::new());
    }

    async fn is_waiting(&self) -> bool {
        let worker = self.world.sites[1].worker.0;
        waiting(self.ctx().db.read(), [worker]).await.unwrap() == BTreeSet::from([worker])
    }

    async fn worker(&self) -> Worker {
        let site = &self.world.sites[1];
        let organization = site.steward.organizations()[0];
        worker::list(self.ctx(), &site.steward, organization).await.unwrap().remove(0)
    }

    async fn verify_ledger(&self) -> Report {
        verify_ledger(self.ctx()).await
    }

    async fn close(self) {
        self.again.ctx.shutdown.cancel();
        self.app.close().await;
    }
}

async fn verify_ledger(ctx: &Ctx) -> Report {
    bundle::examine(&ctx.db, &ctx.signer.verifying_key(), Pins::default(), ctx.now()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_server_offers_nothing_before_a_site_returns() {
    let restored = Box::pin(RestoredServer::new()).await;
    assert!(restored.is_waiting().await);
    let refused = restored.world.propose(restored.world.spec(2)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ValidationFailed);
    let offered = offer::next(restored.ctx(), restored.world.sites[1].worker, &OfferRequest::default()).await.unwrap();
    assert_eq!(offered, WorkOffer::Nothing);
    let state = restored.worker().await.reconciliation.unwrap();
    assert_eq!((state.receipts, state.finished_at), (0, None));
    restored.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_receipt_is_charged_again_and_its_job_ended() {
    let restored = Box::pin(RestoredServer::new()).await;
    assert_eq!(restored.reconcile(&restored.batch(false)).await.unwrap().len(), 1);
    // The response was lost, and the site sends it again.
    assert_eq!(restored.reconcile(&restored.batch(false)).await.unwrap().len(), 1);
    restored.complete().await;
    restored.complete().await;
    assert!(!restored.is_waiting().await);
    let state = restored.worker().await.reconciliation.unwrap();
    assert!(state.receipts == 1 && state.finished_at.is_some(), "{state:?}");

    let ctx = restored.ctx();
    let job = row(ctx, restored.job.summary.id).await;
    assert_eq!(job.state, JobState::Failed);
    let reserved = ledger::find_reservation(ctx.db.read(), job.id, restored.dataset().0).await.unwrap().unwrap();
    assert_eq!((reserved.committed, reserved.settled), (1, false), "the rest is held until the site ends its part");
    let lease = restored.world.lease(1).await;
    let gave_up = PartOutcome::GaveUp("the job is over".to_owned());
    finish::finish(ctx, restored.world.sites[1].worker, &lease, &gave_up, &[]).await.unwrap();
    let reserved = ledger::find_reservation(ctx.db.read(), job.id, restored.dataset().0).await.unwrap().unwrap();
    assert_eq!((reserved.committed, reserved.settled), (1, true));
    let report = restored.verify_ledger().await;
    assert!(report.holds() && report.restorations == 1 && report.receipts == 1, "{report}");
    restored.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_part_that_ended_gives_back_the_rest_at_once() {
    let restored = Box::pin(RestoredServer::new()).await;
    restored.reconcile(&restored.batch(true)).await.unwrap();
    let job = restored.job.summary.id.0;
    let dataset = restored.dataset().0;
    let reserved = ledger::find_reservation(restored.ctx().db.read(), job, dataset).await.unwrap().unwrap();
    assert_eq!((reserved.committed, reserved.settled), (1, true));
    assert!(restored.verify_ledger().await.holds());
    restored.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifest_of_another_signer_or_worker_is_refused() {
    let restored = Box::pin(RestoredServer::new()).await;
    let manifest: Manifest = serde_json::from_str(&restored.manifest.payload).unwrap();
    let stranger = SigningKey::from_bytes(&[9; 32]);
    let mut forged = restored.batch(false);
    forged.parts[0].manifest = Signed::new(&manifest, &stranger).unwrap();
    assert_eq!(restored.reconcile(&forged).await.unwrap_err().code(), Code::BadSignature);
    let other = restored.world.sites[2].worker;
    let refused = reconcile(restored.ctx(), other, &restored.batch(false)).await.unwrap_err();
    assert_eq!(refused.code(), Code::BadSignature);
    assert!(restored.is_waiting().await);
    restored.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_receipts_or_parts_than_the_bound_are_refused() {
    let restored = Box::pin(RestoredServer::new()).await;
    let batch = restored.batch(false);
    let many = ReturnedReceipts { receipts: vec![batch.receipts[0].clone(); MOST_RECEIPTS + 1], ..batch.clone() };
    assert_eq!(restored.reconcile(&many).await.unwrap_err().code(), Code::ValidationFailed);
    let many = ReturnedReceipts { parts: vec![batch.parts[0].clone(); MOST_PARTS + 1], ..batch };
    assert_eq!(restored.reconcile(&many).await.unwrap_err().code(), Code::ValidationFailed);
    restored.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_of_the_lost_log_is_not_relayed() {
    let restored = Box::pin(RestoredServer::new()).await;
    let site = &restored.world.sites[1];
    let observe = |head: Signed| {
        let observation = HeadObservation { worker: site.worker, head, observed_at: restored.ctx().now() };
        Signed::new(&observation, &site.key).unwrap()
    };
    let lost = observe(log::newest_of(&restored.app.ctx.db).await.unwrap().unwrap());
    let refused = exchange_heads(restored.ctx(), site.worker, &lost).await.unwrap_err();
    assert_eq!(refused.code(), Code::WrongState);
    let newest = observe(log::newest_of(&restored.ctx().db).await.unwrap().unwrap());
    exchange_heads(restored.ctx(), site.worker, &newest).await.unwrap();
    restored.close().await;
}

/// Returns the newest head of the log.
async fn newest_head(ctx: &Ctx) -> LogHead {
    let newest = log::newest_of(&ctx.db).await.unwrap().unwrap();
    newest.open(&ctx.signer.verifying_key()).unwrap()
}

on_both! {
    async fn restorations_after_the_accepted_one_are_proved(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        let ctx = &app.ctx;
        let mut stated = Vec::new();
        for reason in ["the disk was lost", "it was lost again"] {
            stated.push(state_restoration(&ctx.db, &ctx.signer, ctx.now(), reason).await.unwrap().unwrap());
        }
        world.set_budget(&world.sites[1], 21.0).await.unwrap();
        let head = newest_head(ctx).await;
        let key = ctx.signer.verifying_key();
        let all = proofs(ctx, None, head.size).await.unwrap();
        let checked: Vec<_> = all.iter().map(|proof| proof.check(&key, &head).unwrap()).collect();
        assert_eq!(checked, stated);
        let accepted = all[0].statement.digest();
        assert_eq!(proofs(ctx, Some(&accepted), head.size).await.unwrap(), all[1..]);
        assert_eq!(proofs(ctx, Some("unknown"), head.size).await.unwrap(), all);
        let report = verify_ledger(ctx).await;
        assert!(report.holds() && report.restorations == 2, "{report}");
    }

    async fn altered_statement_is_found_by_the_examination(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        let ctx = &app.ctx;
        state_restoration(&ctx.db, &ctx.signer, ctx.now(), "the disk was lost").await.unwrap();
        tamper(ctx, "restoration", "UPDATE restoration SET payload = replace(payload, 'disk', 'dish')").await;
        let report = verify_ledger(ctx).await;
        assert!(!report.holds());
        let first = &report.findings[0];
        assert!(first.place.contains("statement of a restoration"), "{report}");
        drop(world);
    }

    async fn restoration_without_a_reason_is_refused(app: &TestApp) {
        let ctx = &app.ctx;
        let long = "x".repeat(LONGEST_REASON + 1);
        for reason in ["  ", &*long] {
            let refused = state_restoration(&ctx.db, &ctx.signer, ctx.now(), reason).await.unwrap_err();
            assert_eq!(refused.code(), Code::ValidationFailed);
        }
        let folder = tempfile::tempdir().unwrap();
        let stranger = ServerSigner::load(folder.path(), None, &Random::seeded(9), ctx.now()).await.unwrap();
        let world = TestConsortium::new(ctx, 1, 20.0).await;
        let refused = state_restoration(&ctx.db, &stranger, ctx.now(), "another key").await.unwrap_err();
        assert_eq!(refused.code(), Code::WrongState);
        drop(world);
    }

    async fn written_off_worker_returns_by_reconciling(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        let job = world.queued(3).await;
        let lease = world.lease(1).await;
        let site = &world.sites[1];
        let organization = site.steward.organizations()[0];
        let reason = StatedReason { reason: "the clinic closed".to_owned() };
        let worker = write_off_worker(&app.ctx, &site.steward, organization, site.worker, &reason).await.unwrap();
        assert_eq!(worker.write_off.unwrap().reason, "the clinic closed");
        let again = write_off_worker(&app.ctx, &site.steward, organization, site.worker, &reason).await.unwrap_err();
        assert_eq!(again.code(), Code::WrongState);
        let stranger = &world.sites[2].steward;
        let refused = write_off_worker(&app.ctx, stranger, organization, site.worker, &reason).await.unwrap_err();
        assert!(matches!(refused.code(), Code::Forbidden | Code::NotFound), "{refused:?}");

        let reserved = ledger::find_reservation(app.ctx.db.read(), job.summary.id.0, site.dataset.0).await.unwrap().unwrap();
        assert!(!reserved.settled, "what it has reserved stays spent");
        assert_eq!(offer::next(&app.ctx, site.worker, &OfferRequest::default()).await.unwrap(), WorkOffer::Nothing);
        assert_eq!(world.propose(world.spec(2)).await.unwrap_err().code(), Code::ValidationFailed);

        let complete = ReturnedReceipts { is_complete: true, ..ReturnedReceipts::default() };
        reconcile(&app.ctx, site.worker, &complete).await.unwrap();
        let worker = worker::list(&app.ctx, &site.steward, organization).await.unwrap().remove(0);
        assert_eq!(worker.write_off, None);
        world.propose(world.spec(2)).await.unwrap();
        drop(lease);
    }
}
