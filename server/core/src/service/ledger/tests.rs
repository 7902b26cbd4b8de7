#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]
#![expect(clippy::float_cmp, reason = "what was never charged is exactly 0")]

use futures::future::join_all;
use sea_orm::{ConnectionTrait as _, EntityTrait as _};
use undertone_api::budget::EntryKind;
use undertone_api::job::JobState;
use undertone_api::page::PageQuery;
use undertone_api::problem::Code;

mod explorer;
mod gaussian;
mod promises;
mod relation;
mod units;

use super::{entries, rebuild};
use crate::ctx::Ctx;
use crate::model::{account, ledger_entry};
use crate::service::approval;
use crate::service::world::TestConsortium;
use crate::testing::on_both;

/// Asserts that every account equals the sum of its rows.
async fn all_accounts_follow_from_their_rows(ctx: &Ctx) {
    for row in account::Entity::find().all(ctx.db.read()).await.unwrap() {
        let rebuilt = rebuild(ctx.db.read(), row.id).await.unwrap();
        assert_eq!(rebuilt.balance, row.balance().unwrap());
        assert_eq!((rebuilt.in_the_clear as i64, rebuilt.head), (row.in_the_clear, row.head));
    }
}

on_both! {
    async fn of_fifty_reservations_at_once_exactly_those_that_fit_are_admitted(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 10.0).await;
        let site = &world.sites[1];
        let proposals = join_all((0..50).map(|_| world.propose(world.spec(5)))).await;
        let jobs: Vec<_> = proposals.into_iter().map(Result::unwrap).collect();
        let fit = {
            let mut fit = 0;
            let account = account::Entity::find().one(app.ctx.db.read()).await.unwrap().unwrap();
            let balance = account.balance().unwrap();
            let charge = jobs[0].participants[1].charge.clone().unwrap();
            let cost = balance.price(&charge.event, charge.adjacency).unwrap();
            while balance.headroom().releases(&cost) >= (fit + 1) * charge.releases {
                fit += 1;
            }
            fit as usize
        };
        assert!((1..50).contains(&fit), "the race must have winners and losers: {fit}");

        let ctx = &app.ctx;
        let answers =
            join_all(jobs.iter().map(|job| approval::approve(ctx, &site.steward, job.summary.id, site.dataset))).await;
        let jobs: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
        let queued = jobs.iter().filter(|job| job.summary.state == JobState::Queued).count();
        let refused: Vec<_> = jobs.iter().filter(|job| job.summary.state == JobState::Refused).collect();
        assert_eq!((queued, refused.len()), (fit, 50 - fit));
        for job in refused {
            let [refusal] = &job.refusals[..] else { panic!("one account refuses") };
            assert!(refusal.would_be.unwrap() > refusal.limit && refusal.spent <= refusal.limit);
            assert!(refusal.releases_that_fit < 5);
        }
        let rows = ledger_entry::Entity::find().all(app.ctx.db.read()).await.unwrap();
        assert_eq!(rows.len(), fit, "a refusal writes no row");
        let account = world.account(1).await;
        assert!(account.committed <= 10.0 && account.spent == 0.0);
        all_accounts_follow_from_their_rows(&app.ctx).await;
    }

    async fn a_reservation_over_two_accounts_is_all_or_nothing(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 10.0).await;
        world.set_budget(&world.sites[2], 50.0).await.unwrap();
        let (first, second) = (world.propose(world.spec(60)).await.unwrap(), world.propose(world.spec(60)).await.unwrap());
        for job in [&first, &second] {
            for site in &world.sites[1..] {
                approval::approve(&app.ctx, &site.steward, job.summary.id, site.dataset).await.unwrap();
            }
        }
        let (first, second) = (world.job(first.summary.id).await, world.job(second.summary.id).await);
        assert_eq!((first.summary.state, second.summary.state), (JobState::Queued, JobState::Refused));
        assert_eq!(second.refusals.len(), 1, "only the poorer account refuses");
        let page = entries(&app.ctx, &world.sites[2].steward, world.sites[2].dataset, &PageQuery::default()).await.unwrap();
        assert_eq!(page.items.len(), 1, "nothing of the refused job stands in the richer account");
        all_accounts_follow_from_their_rows(&app.ctx).await;
    }

    async fn a_commit_moves_a_release_from_reserved_to_spent_and_settling_returns_the_rest(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 8.0).await;
        let job = world.queued(3).await;
        let reserved = world.account(1).await;
        let lease = world.lease(1).await;
        world.submit(&job, 1, &lease, 1, &[1.0]).await.unwrap();
        let spent = world.account(1).await;
        assert_eq!(spent.committed, reserved.committed);
        assert!(spent.spent > 0.0 && spent.spent < spent.committed);
        let outcome = crate::service::finish::PartOutcome::GaveUp("enough".to_owned());
        crate::service::finish::finish(&app.ctx, world.sites[1].worker, &lease, &outcome, &[]).await.unwrap();
        let settled = world.account(1).await;
        assert_eq!((settled.spent, settled.committed), (spent.spent, spent.spent));
        let page = entries(&app.ctx, &world.sites[1].steward, world.sites[1].dataset, &PageQuery::default()).await.unwrap();
        let rows: Vec<_> = page.items.iter().map(|entry| (entry.sequence, entry.kind, entry.count)).collect();
        assert_eq!(rows, [(3, EntryKind::Settle, 2), (2, EntryKind::Commit, 1), (1, EntryKind::Reserve, 3)]);
        all_accounts_follow_from_their_rows(&app.ctx).await;
    }

    async fn rows_are_read_in_the_order_of_their_chain_though_the_clock_went_back(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 1, 8.0).await;
        let job = world.queued(2).await;
        let lease = world.lease(1).await;
        app.clock.advance(time::Duration::hours(-1));
        world.submit(&job, 1, &lease, 1, &[1.0]).await.unwrap();
        let query = PageQuery::default();
        let page = entries(&app.ctx, &world.sites[1].steward, world.sites[1].dataset, &query).await.unwrap();
        assert!(page.items[0].at < page.items[1].at, "the clock went back");
        assert_eq!(page.items.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [2, 1]);
    }

    async fn the_database_itself_refuses_to_change_evidence(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 8.0).await;
        let job = world.queued(1).await;
        let lease = world.lease(1).await;
        world.submit(&job, 1, &lease, 1, &[1.0]).await.unwrap();
        for table in ["ledger_entry", "receipt", "budget", "decision"] {
            for change in [format!("DELETE FROM {table}"), format!("UPDATE {table} SET job_id = job_id")] {
                let change = if table == "budget" { change.replace("job_id", "account_id") } else { change };
                let refused = app.ctx.db.write("tamper", async |tx| Ok(tx.execute_unprepared(&change).await?)).await;
                let error = refused.expect_err("refused by a trigger");
                let crate::error::Error::Database(error) = error else { panic!("{error}") };
                assert!(error.to_string().contains("append-only"), "{change}: {error}");
            }
        }
    }

    async fn a_budget_cannot_be_lowered_below_what_is_spent_and_reserved(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 10.0).await;
        world.queued(40).await;
        let committed = world.account(1).await.committed;
        let refused = world.set_budget(&world.sites[1], committed * 0.9).await.expect_err("too low");
        assert_eq!(refused.code(), Code::BudgetExceeded);
        assert_eq!(f64::from(world.account(1).await.epsilon), 10.0);
        let lowered = world.set_budget(&world.sites[1], committed * 1.01).await.unwrap();
        assert!(lowered.committed <= f64::from(lowered.epsilon));
        assert!(world.set_budget(&world.sites[1], 20_000.0).await.is_err(), "the most is 10,000");
        assert_eq!(f64::from(world.set_budget(&world.sites[1], 100.0).await.unwrap().epsilon), 100.0);
    }
}
