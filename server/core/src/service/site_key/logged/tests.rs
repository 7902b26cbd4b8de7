#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use ed25519_dalek::SigningKey;
use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use undertone_api::log::witness::WitnessError;
use undertone_api::retirement::StatedReason;
use undertone_api::signed::LogHead;

use super::{adopt_keys, newest_key};
use crate::ctx::Ctx;
use crate::model::worker;
use crate::service::retirement::{restore_worker, retire_worker};
use crate::service::world::{TestConsortium, TestSite};
use crate::service::{bundle, log};
use crate::testing::on_both;
use crate::verify::{Pins, Report};

fn hex_of(key: &SigningKey) -> String {
    hex::encode(key.verifying_key().to_bytes())
}

async fn examined(ctx: &Ctx) -> Report {
    bundle::examine(&ctx.db, &ctx.signer.verifying_key(), Pins::default(), ctx.now()).await.unwrap()
}

/// Checks the newest key of a site in the log, as the site does.
async fn judge_key(ctx: &Ctx, site: &TestSite) -> Result<(), WitnessError> {
    let head: LogHead = log::newest_of(&ctx.db).await.unwrap().unwrap().open(&ctx.signer.verifying_key()).unwrap();
    let proof = newest_key(ctx, site.worker, head.size).await.unwrap().unwrap();
    proof.check(&head, site.worker, &hex_of(&site.key))
}

on_both! {
    async fn keys_from_before_are_logged_once(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        assert_eq!(adopt_keys(&app.ctx).await.unwrap(), 3);
        assert_eq!(adopt_keys(&app.ctx).await.unwrap(), 0);
        for site in &world.sites {
            judge_key(&app.ctx, site).await.unwrap();
        }
        let report = examined(&app.ctx).await;
        assert!(report.holds() && report.keys == 3, "{report}");
    }

    async fn retirement_and_restoration_of_a_key_are_logged(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        adopt_keys(&app.ctx).await.unwrap();
        let site = &world.sites[1];
        let organization = site.steward.organizations()[0];
        let reason = StatedReason { reason: "the machine was stolen".to_owned() };
        retire_worker(&app.ctx, &site.steward, organization, site.worker, &reason).await.unwrap();
        assert_eq!(judge_key(&app.ctx, site).await, Err(WitnessError::Key(hex_of(&site.key))));
        restore_worker(&app.ctx, &site.steward, organization, site.worker, &reason).await.unwrap();
        judge_key(&app.ctx, site).await.unwrap();
        let report = examined(&app.ctx).await;
        assert!(report.holds() && report.keys == 4, "{report}");
    }

    async fn key_that_the_log_does_not_have_is_found(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        adopt_keys(&app.ctx).await.unwrap();
        let thief = hex_of(&SigningKey::from_bytes(&[9; 32]));
        app.ctx.db.write("put another key in", async |tx| {
            let row = worker::Entity::find_by_id(world.sites[1].worker.0).one(tx).await?.unwrap();
            let row = worker::Model { public_key: thief.clone(), ..row };
            Ok(row.into_active_model().reset_all().update(tx).await?)
        }).await.unwrap();
        let report = examined(&app.ctx).await;
        let has_finding = report.findings.iter().any(|finding| finding.what.contains("the last one in the log is"));
        assert!(has_finding, "{report}");
    }
}
