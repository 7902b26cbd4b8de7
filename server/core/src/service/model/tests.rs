#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::time::Duration;

use object_store::ObjectStoreExt as _;
use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use sha2::{Digest as _, Sha256};
use undertone_api::model::PERSONAL_FORMAT;
use undertone_api::problem::Code;
use uuid::Uuid;

use super::{ArtifactHeader, MAX_FILES, begin, fetch};
use crate::metrics::Limit;
use crate::model::artifact;
use crate::service::job;
use crate::service::model::storage;
use crate::service::world::TestConsortium;
use crate::testing::{TestApp, on_both};

/// The lead worker of a job, which stores files.
struct LeadWorker<'a> {
    app: &'a TestApp,
    worker: undertone_api::id::WorkerId,
    lease: String,
}

impl LeadWorker<'_> {
    fn header(&self, name: &str, content: &[u8]) -> ArtifactHeader {
        let digest = hex::encode(Sha256::digest(content));
        ArtifactHeader { lease: self.lease.clone(), name: name.to_owned(), size: content.len() as u64, digest }
    }

    async fn put(&self, name: &str, content: &[u8]) -> Result<(), crate::error::Error> {
        let mut incoming = begin(&self.app.ctx, self.worker, self.header(name, content)).await?;
        incoming.write(content).await?;
        incoming.accept(&self.app.ctx).await.map(drop)
    }
}

/// Returns the number of objects in the folder of a job's files.
fn objects(app: &TestApp, job: undertone_api::id::JobId) -> usize {
    let folder = app.data_dir().join("objects/artifacts").join(job.to_string());
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

on_both! {
    async fn a_job_has_ten_thousand_files_and_no_more(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await.summary.id;
        let (worker, lease) = (world.sites[0].worker, world.lease(0).await);
        let digest = hex::encode(Sha256::digest(b"weights"));
        let row = |number: u64| artifact::Model {
            id: Uuid::from_u128(u128::from(number)),
            job_id: job.0,
            name: format!("file-{number}"),
            size: 7,
            digest: digest.clone(),
            created_at: app.ctx.now(),
            deleted_at: None,
            deleted_by: None,
            deletion_reason: None,
        };
        let rows: Vec<artifact::ActiveModel> =
            (1..MAX_FILES).map(|number| row(number).into_active_model().reset_all()).collect();
        app.ctx.db.write("files of a long job", async |tx| {
            for some in rows.chunks(1000) {
                artifact::Entity::insert_many(some.to_vec()).exec_without_returning(tx).await?;
            }
            Ok(())
        }).await.unwrap();
        let put = async |name: &str| {
            let header =
                ArtifactHeader { lease: lease.clone(), name: name.to_owned(), size: 7, digest: digest.clone() };
            let mut incoming = begin(&app.ctx, worker, header).await.unwrap();
            incoming.write(b"weights").await.unwrap();
            incoming.accept(&app.ctx).await
        };
        let last = put("last").await.unwrap();
        assert_eq!(put("one-more").await.unwrap_err().code(), Code::TooLarge);
        assert_eq!(put("last").await.unwrap(), last, "a file that is there may be written again");
    }

    async fn a_digest_in_capitals_is_the_same_digest(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        world.queued(1).await;
        let (worker, lease) = (world.sites[0].worker, world.lease(0).await);
        let digest = hex::encode(Sha256::digest(b"weights"));
        for given in [digest.to_ascii_uppercase(), digest.clone()] {
            let header = ArtifactHeader { lease: lease.clone(), name: "model".to_owned(), size: 7, digest: given };
            let mut incoming = begin(&app.ctx, worker, header).await.unwrap();
            incoming.write(b"weights").await.unwrap();
            incoming.accept(&app.ctx).await.unwrap();
            let stored = fetch(&app.ctx, worker, &lease, "model", 0).await.unwrap().unwrap();
            assert_eq!(stored.artifact.digest, digest);
            let bytes = app.ctx.store.get(&stored.object).await.unwrap().bytes().await.unwrap();
            assert_eq!(&bytes[..], b"weights");
        }
    }

    async fn personal_model_is_not_accepted(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await.summary.id;
        let lead = LeadWorker { app, worker: world.sites[0].worker, lease: world.lease(0).await };
        let content = format!("{{\"__metadata__\":{{\"model\":\"{PERSONAL_FORMAT}\"}}}}");
        let mut incoming = begin(&app.ctx, lead.worker, lead.header("model", content.as_bytes())).await.unwrap();
        let mut pieces = content.as_bytes().chunks(5);
        let refusal = loop {
            let piece = pieces.next().expect("the mark is found before the end");
            if let Err(error) = incoming.write(piece).await {
                break error;
            }
        };
        assert_eq!(refusal.code(), Code::Forbidden);
        drop(incoming);
        // The store removes the unfinished file on a thread of its own.
        let removed = async {
            while objects(app, job) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), removed).await.expect("no bytes remain");
    }

    async fn replaced_files_and_failed_uploads_leave_no_bytes(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await.summary.id;
        let lead = LeadWorker { app, worker: world.sites[0].worker, lease: world.lease(0).await };
        lead.put("model", b"first").await.unwrap();
        lead.put("copy", b"first").await.unwrap();
        lead.put("model", b"second").await.unwrap();
        assert_eq!(objects(app, job), 2, "the copy still has the first bytes");
        lead.put("copy", b"second").await.unwrap();
        assert_eq!(objects(app, job), 1);
        // The job ends between the last byte and the row.
        let mut incoming = begin(&app.ctx, lead.worker, lead.header("late", b"late")).await.unwrap();
        incoming.write(b"late").await.unwrap();
        job::cancel(&app.ctx, &world.sites[0].steward, job).await.unwrap();
        assert_eq!(incoming.accept(&app.ctx).await.unwrap_err().code(), Code::LeaseLost);
        assert_eq!(objects(app, job), 1);
    }

    async fn unnamed_files_of_a_dead_server_go_at_the_next_start(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await.summary.id;
        let lead = LeadWorker { app, worker: world.sites[0].worker, lease: world.lease(0).await };
        lead.put("model", b"named").await.unwrap();
        job::cancel(&app.ctx, &world.sites[0].steward, job).await.unwrap();
        app.ctx.store.put(&crate::exchange::artifact::path(job, &"ab".repeat(32)), b"left".to_vec().into()).await.unwrap();
        assert_eq!(objects(app, job), 2);
        let again = app.restarted().await;
        assert_eq!(objects(app, job), 1);
        again.shutdown.cancel();
        again.db.clone().close().await.unwrap();
    }

    async fn files_of_an_unfinished_job_go_after_their_days(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await.summary.id;
        let lead = LeadWorker { app, worker: world.sites[0].worker, lease: world.lease(0).await };
        lead.put("model", b"warm start").await.unwrap();
        job::cancel(&app.ctx, &world.sites[0].steward, job).await.unwrap();
        let days = time::Duration::days(i64::from(app.ctx.config.store.unfinished_days));
        for (later, kept) in [(days, 1), (time::Duration::SECOND, 0)] {
            app.clock.advance(later);
            storage::expire_unfinished(&app.ctx).await.unwrap();
            assert_eq!(objects(app, job), kept);
        }
        assert_eq!(artifact::Entity::find().all(app.ctx.db.read()).await.unwrap(), []);
    }

    async fn files_over_the_bytes_of_a_job_are_refused_before_a_byte(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await.summary.id;
        let lead = LeadWorker { app, worker: world.sites[0].worker, lease: world.lease(0).await };
        let most = app.ctx.config.store.job_gib << 30;
        let row = artifact::Model {
            id: Uuid::from_u128(1),
            job_id: job.0,
            name: "rest".to_owned(),
            size: (most - 10) as i64,
            digest: "ab".repeat(32),
            created_at: app.ctx.now(),
            deleted_at: None,
            deleted_by: None,
            deletion_reason: None,
        };
        app.ctx.db.write("rest", async |tx| Ok(row.clone().into_active_model().insert(tx).await?)).await.unwrap();
        // Of two concurrent uploads only one gets the last storage.
        let first = begin(&app.ctx, lead.worker, lead.header("first", b"six by")).await.unwrap();
        let second = begin(&app.ctx, lead.worker, lead.header("second", b"five!")).await.err().unwrap();
        assert_eq!(second.code(), Code::TooLarge);
        assert!(second.to_string().contains("store.job_gib"), "{second}");
        assert_eq!(app.ctx.metrics.reached(Limit::StoredBytes), 1);
        drop(first);
        lead.put("second", b"ten bytes!").await.unwrap();
        assert_eq!(lead.put("third", b"1").await.unwrap_err().code(), Code::TooLarge);
        lead.put("second", b"ten more b").await.unwrap();
    }
}
