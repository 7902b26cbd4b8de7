#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use object_store::ObjectStoreExt as _;
use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use sha2::{Digest as _, Sha256};
use undertone_api::problem::Code;
use uuid::Uuid;

use super::{Header, MAX_FILES, begin, fetch};
use crate::service::entity::artifact;
use crate::service::world::World;
use crate::testing::on_both;

on_both! {
    async fn a_job_has_ten_thousand_files_and_no_more(app: &TestApp) {
        let world = World::new(&app.ctx, 1, 50.0).await;
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
                Header { lease: lease.clone(), name: name.to_owned(), size: 7, digest: digest.clone() };
            let mut incoming = begin(&app.ctx, worker, header).await.unwrap();
            incoming.write(b"weights").await.unwrap();
            incoming.accept(&app.ctx).await
        };
        let last = put("last").await.unwrap();
        assert_eq!(put("one-more").await.unwrap_err().code(), Code::TooLarge);
        assert_eq!(put("last").await.unwrap(), last, "a file that is there may be written again");
    }

    async fn a_digest_in_capitals_is_the_same_digest(app: &TestApp) {
        let world = World::new(&app.ctx, 1, 50.0).await;
        world.queued(1).await;
        let (worker, lease) = (world.sites[0].worker, world.lease(0).await);
        let digest = hex::encode(Sha256::digest(b"weights"));
        for given in [digest.to_ascii_uppercase(), digest.clone()] {
            let header = Header { lease: lease.clone(), name: "model".to_owned(), size: 7, digest: given };
            let mut incoming = begin(&app.ctx, worker, header).await.unwrap();
            incoming.write(b"weights").await.unwrap();
            incoming.accept(&app.ctx).await.unwrap();
            let stored = fetch(&app.ctx, worker, &lease, "model", 0).await.unwrap().unwrap();
            assert_eq!(stored.artifact.digest, digest);
            let bytes = app.ctx.store.get(&stored.object).await.unwrap().bytes().await.unwrap();
            assert_eq!(&bytes[..], b"weights");
        }
    }
}
