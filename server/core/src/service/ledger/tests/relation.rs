//! Add-remove and zero-out charges of one lineage and unit are one account: the change of relation grants no second
//! budget.

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use undertone_api::job::JobState;
use undertone_api::problem::Code;
use undertone_privacy::Adjacency;

use super::all_accounts_follow_from_their_rows;
use crate::ctx::Ctx;
use crate::model::{account, ledger_entry};
use crate::service::world::TestConsortium;
use crate::service::{bundle, certificate};
use crate::testing::on_both;
use crate::verify::Pins;

on_both! {
    async fn zero_out_charges_continue_the_add_remove_account(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 1, 8.0).await;
        let proposed = world.propose(world.spec(2)).await.unwrap();
        let before = world.signed_before(&proposed).await;
        let before = world.approved(before).await;
        assert_eq!(before.summary.state, JobState::Queued);
        let lease = world.lease(1).await;
        world.submit(&before, 1, &lease, 1, &[1.0]).await.unwrap();
        let spent = world.account(1).await;
        assert!(spent.spent > 0.0);

        // A number of rounds that fits into a separate budget does not fit into the rest of this one.
        let alone = TestConsortium::new(&app.ctx, 1, 8.0).await;
        let most = fitting(&app.ctx, &alone).await;
        let refused = world.propose(world.spec(most)).await.unwrap_err();
        assert_eq!(refused.code(), Code::BudgetExceeded, "{most} rounds");
        assert!(alone.propose(alone.spec(most)).await.is_ok(), "{most} rounds fit into a budget of their own");
        let after = world.queued(2).await;
        assert_eq!(after.participants[1].charge.as_ref().unwrap().adjacency, Adjacency::ZeroOut);
        assert_eq!(after.summary.state, JobState::Queued);

        let lineage = world.sites[1].lineage.0;
        let rows = account::Entity::find().filter(account::Column::LineageId.eq(lineage)).all(app.ctx.db.read()).await.unwrap();
        let [row] = &rows[..] else { panic!("one account, not {}", rows.len()) };
        assert_eq!(row.adjacency, "add_remove", "the row and its leaf stay as they were written");
        let jobs = ledger_entry::Entity::find().filter(ledger_entry::Column::AccountId.eq(row.id)).all(app.ctx.db.read()).await.unwrap();
        assert!(jobs.iter().any(|row| row.job_id == before.summary.id.0) && jobs.iter().any(|row| row.job_id == after.summary.id.0));
        assert!(world.account(1).await.committed > spent.committed);
        all_accounts_follow_from_their_rows(&app.ctx).await;
        let report = bundle::examine(&app.ctx.db, &app.ctx.signer.verifying_key(), Pins::default(), app.ctx.now()).await.unwrap();
        assert!(report.holds(), "{report}");
    }

    async fn a_certificate_of_an_add_remove_job_still_verifies(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let proposed = world.propose(world.spec(1)).await.unwrap();
        let job = world.signed_before(&proposed).await;
        let job = world.approved(job).await;
        crate::service::world::finished::played(&mut world, &job, 1).await;
        let file = certificate::file(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        let verdict = undertone_certificate::verify(&file, &crate::service::world::finished::verification_keys(&world));
        assert!(verdict.holds(), "{verdict}");
        let document: undertone_api::signed::Certificate = serde_json::from_str(&file.payload).unwrap();
        assert_eq!(document.parties[1].charged.as_ref().unwrap().adjacency, Adjacency::AddRemove, "as its manifest says");
    }
}

/// Returns the highest number of rounds of a job that an account without history admits.
async fn fitting(ctx: &Ctx, world: &TestConsortium) -> u32 {
    let probe = world.propose(world.spec(1)).await.unwrap();
    let charge = probe.participants[1].charge.clone().unwrap();
    let row = account::Entity::find().filter(account::Column::LineageId.eq(world.sites[1].lineage.0));
    let row = row.one(ctx.db.read()).await.unwrap().unwrap();
    let balance: undertone_privacy::ledger::Balance = row.balance().unwrap();
    let cost = balance.price(&charge.event, charge.adjacency).unwrap();
    u32::try_from(balance.headroom().releases(&cost)).unwrap()
}
