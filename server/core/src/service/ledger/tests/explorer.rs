//! The displayed figures of a ledger are those that the ledger decides by, and every displayed row can be verified.

use undertone_api::budget::EntryKind;
use undertone_api::ledger::EntryProof;
use undertone_api::problem::Code;

use crate::model::account as account_row;
use crate::service::ledger::history::load_history;
use crate::service::ledger::{explain, history};
use crate::service::world::TestConsortium;
use crate::testing::{TestApp, on_both, tamper};
use sea_orm::EntityTrait as _;

/// Makes a world in which one release was paid and the rest was returned.
async fn settled(app: &TestApp) -> TestConsortium {
    let mut world = TestConsortium::new(&app.ctx, 2, 8.0).await;
    let job = world.queued(3).await;
    let lease = world.lease(1).await;
    world.submit(&job, 1, &lease, 1, &[1.0]).await.unwrap();
    let outcome = crate::service::finish::PartOutcome::GaveUp("enough".to_owned());
    crate::service::finish::finish(&app.ctx, world.sites[1].worker, &lease, &outcome, &[]).await.unwrap();
    world
}

async fn row(app: &TestApp, world: &TestConsortium, sequence: u64) -> EntryProof {
    let account = world.account(1).await.id;
    explain(&app.ctx, &world.sites[1].steward, account, sequence).await.unwrap()
}

on_both! {
    async fn a_history_ends_where_the_account_stands(app: &TestApp) {
        let world = settled(app).await;
        world.set_budget(&world.sites[1], 9.0).await.unwrap();
        let site = &world.sites[1];
        let account = world.account(1).await;
        let histories = history(&app.ctx, &site.steward, site.dataset).await.unwrap();
        let [history_of_site] = &histories[..] else { panic!("one account") };
        let kinds: Vec<_> = history_of_site.points.iter().map(|point| point.kind).collect();
        let (reserve, commit, settle) = (EntryKind::Reserve, EntryKind::Commit, EntryKind::Settle);
        assert_eq!(kinds, [None, Some(reserve), Some(commit), Some(settle), None]);
        let last = history_of_site.points.last().unwrap();
        assert_eq!((last.spent, last.committed, last.limit), (account.spent, account.committed, 9.0));
        assert_eq!(history_of_site.points[0].limit, 8.0);
        assert!(history_of_site.points[1].committed > history_of_site.points[3].committed, "what never left came back");
        let [job] = &history_of_site.jobs[..] else { panic!("one job") };
        assert_eq!((job.releases, job.reserved), (1, 0.0));
        assert!((job.spent - account.spent_fraction).abs() < 1e-9, "{} {}", job.spent, account.spent_fraction);
    }

    async fn a_long_history_is_thinned_and_a_longer_one_refused(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(12).await;
        let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
        for round in 1..=12 {
            for (site, lease) in leases.iter().enumerate() {
                world.submit(&job, site, lease, round, &[1.0]).await.unwrap();
            }
        }
        let rows = account_row::Entity::find().all(app.ctx.db.read()).await.unwrap();
        let row = rows.into_iter().find(|row| row.entries >= 13).expect("a long account");
        let all = load_history(app.ctx.db.read(), &row, row.entries, 100).await.unwrap();
        let few = load_history(app.ctx.db.read(), &row, row.entries, 5).await.unwrap();
        assert!(few.points.len() < all.points.len() && few.points.len() <= 8, "{}", few.points.len());
        assert_eq!(few.points.last(), all.points.last());
        let refused = load_history(app.ctx.db.read(), &row, row.entries - 1, 5).await.expect_err("too long");
        assert_eq!(refused.code(), Code::TooLarge);
    }

    async fn a_row_is_proved_from_its_text_to_the_signed_root(app: &TestApp) {
        let world = settled(app).await;
        for sequence in 1..=3 {
            let proof = row(app, &world, sequence).await;
            let inclusion = proof.inclusion.expect("the log knows it");
            assert!(proof.chained && inclusion.holds, "row {sequence}");
            let end = inclusion.steps.last().map_or(&inclusion.leaf_hash, |step| &step.hash);
            assert_eq!(*end, inclusion.head.head.root, "the last step is the root");
            assert!(!proof.price.is_empty());
            assert_eq!(proof.receipt.is_some(), proof.kind == EntryKind::Commit);
        }
        let receipt = row(app, &world, 2).await.receipt.expect("a payment has one");
        assert!(receipt.signature_holds && receipt.charged_as_signed && receipt.countersignature_holds);
    }

    async fn a_changed_row_is_told_for_what_it_is(app: &TestApp) {
        let world = settled(app).await;
        tamper(&app.ctx, "ledger_entry", "UPDATE ledger_entry SET round = 2 WHERE kind = 'commit'").await;
        let proof = row(app, &world, 2).await;
        assert!(!proof.chained && !proof.inclusion.expect("the log knows it").holds);
        assert!(!proof.receipt.expect("a payment has one").charged_as_signed);
    }

    async fn rows_and_histories_are_not_for_everybody(app: &TestApp) {
        let world = settled(app).await;
        let account = world.account(1).await.id;
        let other = &world.sites[2].steward;
        let refused = explain(&app.ctx, other, account, 1).await.expect_err("another's row").code();
        assert_eq!(refused, Code::Forbidden);
        let refused = history(&app.ctx, other, world.sites[1].dataset).await.expect_err("another's history").code();
        assert_eq!(refused, Code::Forbidden);
        let missing = explain(&app.ctx, &world.sites[1].steward, account, 99).await.expect_err("no such row").code();
        assert_eq!(missing, Code::NotFound);
    }
}
