#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use sea_orm::{EntityTrait as _, PaginatorTrait as _};
use tokio::sync::oneshot;
use undertone_api::job::{Job, PauseRequest};
use undertone_api::problem::Code;
use undertone_api::signed::{Countersignature, Signed};

use super::{batch, count_group};
use crate::ctx::{Ctx, PartPlan, ReceiptBatch};
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::model::{account, countersignature, ledger_entry, log_head, log_leaf, participant, receipt, reservation};
use crate::service::receipt::{countersign, prove};
use crate::service::world::TestConsortium;
use crate::service::{bundle, job as jobs, lease, ledger};
use crate::testing::on_both;
use crate::verify;

/// Sites at work on one job, with the tokens of their leases by their number. The first is public and holds none.
struct GroupSites {
    world: TestConsortium,
    job: Job,
    tokens: Vec<String>,
}

impl GroupSites {
    async fn new(ctx: &Ctx, private: usize, rounds: u32) -> Self {
        let world = TestConsortium::new(ctx, private, 20.0).await;
        let job = world.queued(rounds).await;
        let mut tokens = vec![String::new()];
        for site in 1..=private {
            tokens.push(world.lease(site).await);
        }
        Self { world, job, tokens }
    }

    fn sign(&mut self, site: usize, round: u32) -> Signed {
        self.world.sites[site].receipt(&self.job, round, 1)
    }

    async fn batch(&self, site: usize, receipts: &[Signed]) -> ReceiptBatch {
        let ctx = &self.world.ctx;
        let (worker, token) = (self.world.sites[site].worker, &self.tokens[site]);
        let held = lease::find_lease(ctx.db.read(), worker, token).await.unwrap();
        let verified = prove(ctx, ctx.db.read(), worker, receipts).await.unwrap();
        batch(&held, token, receipts, &verified).unwrap()
    }

    /// Signs and batches a receipt.
    async fn next(&mut self, site: usize, round: u32) -> ReceiptBatch {
        let receipt = self.sign(site, round);
        self.batch(site, &[receipt]).await
    }

    async fn count(&self, group: &[ReceiptBatch]) -> Vec<Option<Vec<Signed>>> {
        let ctx = &self.world.ctx;
        ctx.db.write("test", async |tx| count_group(ctx, tx, group).await).await.unwrap()
    }

    /// Asserts that every account follows from its rows, and that the whole database verifies, with `receipts` receipts.
    async fn check(&self, receipts: usize) {
        let ctx = &self.world.ctx;
        for row in account::Entity::find().all(ctx.db.read()).await.unwrap() {
            let rebuilt = ledger::rebuild(ctx.db.read(), row.id).await.unwrap();
            assert_eq!(rebuilt.balance, row.balance().unwrap());
            assert_eq!((rebuilt.in_the_clear as i64, rebuilt.head), (row.in_the_clear, row.head));
        }
        let key = ctx.signer.verifying_key();
        let report = bundle::examine(&ctx.db, &key, verify::Pins::default(), ctx.now()).await.unwrap();
        assert_eq!((report.findings.len(), report.receipts), (0, receipts as u64), "{:?}", report.findings);
    }
}

/// The numbers of receipts, countersignatures, ledger rows, leaves and heads.
async fn rows(ctx: &Ctx) -> [u64; 5] {
    let read = ctx.db.read();
    [
        receipt::Entity::find().count(read).await.unwrap(),
        countersignature::Entity::find().count(read).await.unwrap(),
        ledger_entry::Entity::find().count(read).await.unwrap(),
        log_leaf::Entity::find().count(read).await.unwrap(),
        log_head::Entity::find().count(read).await.unwrap(),
    ]
}

async fn releases(ctx: &Ctx) -> (Vec<i64>, Vec<i64>) {
    let parts = participant::Entity::find().all(ctx.db.read()).await.unwrap();
    let reserved = reservation::Entity::find().all(ctx.db.read()).await.unwrap();
    let mut counts = (
        parts.iter().filter(|part| part.charge.is_some()).map(|part| part.releases).collect::<Vec<_>>(),
        reserved.iter().map(|row| row.committed).collect::<Vec<_>>(),
    );
    counts.0.sort_unstable();
    counts.1.sort_unstable();
    counts
}

fn positions(ctx: &Ctx, answers: &[Option<Vec<Signed>>]) -> Vec<u64> {
    let key = ctx.signer.verifying_key();
    let signed = answers.iter().flatten().flatten();
    signed.map(|signed| signed.open::<Countersignature>(&key).unwrap().position).collect()
}

on_both! {
    async fn group_shares_one_head_and_each_receipt_has_its_place(app: &TestApp) {
        let mut sites = GroupSites::new(&app.ctx, 3, 4).await;
        let before = rows(&app.ctx).await;
        let first = [sites.sign(1, 1), sites.sign(1, 2)];
        let group = [sites.batch(1, &first).await, sites.next(2, 1).await, sites.next(3, 1).await];
        let answers = sites.count(&group).await;
        let size = before[3];
        assert_eq!(positions(&app.ctx, &answers), [size, size + 1, size + 2, size + 3]);
        let added: Vec<_> = rows(&app.ctx).await.iter().zip(before).map(|(now, before)| now - before).collect();
        assert_eq!(added, [4, 4, 4, 4, 1]);
        assert_eq!(releases(&app.ctx).await, (vec![1, 1, 2], vec![1, 1, 2]));
        sites.check(4).await;
        // The next group continues every chain.
        let group = [sites.next(3, 2).await, sites.next(1, 3).await];
        assert_eq!(positions(&app.ctx, &sites.count(&group).await), [size + 4, size + 5]);
        sites.check(6).await;
    }

    async fn batch_that_fails_changes_nothing_for_the_others(app: &TestApp) {
        let mut sites = GroupSites::new(&app.ctx, 8, 2).await;
        let spent = [sites.sign(1, 1), sites.sign(1, 2)];
        let spent = sites.batch(1, &spent).await;
        assert!(sites.count(&[spent]).await[0].is_some());
        let known = sites.next(2, 1).await;
        assert!(sites.count(std::slice::from_ref(&known)).await[0].is_some());
        let before = rows(&app.ctx).await;
        let (good, last) = (sites.next(7, 1).await, sites.next(8, 1).await);
        // The second receipt of the batch fails, so its first one is undone.
        let exhausted = {
            let [first, second, third] = [sites.sign(3, 1), sites.sign(3, 2), sites.sign(3, 2)];
            sites.batch(3, &[first, second, third]).await
        };
        let over_spent = sites.next(1, 2).await;
        sites.sign(4, 1);
        let skipping = sites.next(4, 2).await;
        let mut other_lease = sites.next(5, 1).await;
        other_lease.token.clone_from(&sites.tokens[6]);
        let mut other_keys = sites.next(6, 1).await;
        other_keys.key_changes = 1;
        let again = good.clone();
        let group = [exhausted, good, over_spent, known, skipping, other_lease, other_keys, again, last];
        let answers = sites.count(&group).await;
        let counted: Vec<_> = answers.iter().map(Option::is_some).collect();
        assert_eq!(counted, [false, true, false, false, false, false, false, false, true]);
        let added: Vec<_> = rows(&app.ctx).await.iter().zip(before).map(|(now, before)| now - before).collect();
        assert_eq!(added, [2, 2, 2, 2, 1]);
        sites.check(5).await;
        // A group without a countable batch writes nothing.
        let before = rows(&app.ctx).await;
        assert_eq!(sites.count(&group[2..5]).await, [None, None, None]);
        assert_eq!(rows(&app.ctx).await, before);
    }

    async fn plan_of_a_started_job_is_read_once(app: &TestApp) {
        let mut sites = GroupSites::new(&app.ctx, 1, 2).await;
        let part = (sites.job.summary.id, sites.world.sites[1].dataset);
        let plans = app.ctx.part_plans();
        let first = sites.next(1, 1).await;
        let plan = plans.get(part).expect("kept");
        assert_eq!(sites.count(&[first]).await.iter().flatten().count(), 1);
        // A plan of another lineage refuses the next receipt: nothing else was read.
        let other = PartPlan { lineage: app.ctx.id(), ..(*plan).clone() };
        plans.keep(part, Arc::new(other));
        let receipt = sites.sign(1, 2);
        let worker = sites.world.sites[1].worker;
        let verified = prove(&app.ctx, app.ctx.db.read(), worker, std::slice::from_ref(&receipt)).await.unwrap();
        assert!(verified.receipts[0].foreseen.is_err());
    }

    async fn number_that_no_row_can_have_joins_no_group(app: &TestApp) {
        let mut sites = GroupSites::new(&app.ctx, 1, 2).await;
        let receipt = sites.world.sites[1].receipt(&sites.job, 1, u32::MAX);
        let read = app.ctx.db.read();
        let (worker, token) = (sites.world.sites[1].worker, &sites.tokens[1]);
        let held = lease::find_lease(read, worker, token).await.unwrap();
        let verified = prove(&app.ctx, read, worker, std::slice::from_ref(&receipt)).await.unwrap();
        assert!(batch(&held, token, std::slice::from_ref(&receipt), &verified).is_none());
        let refused = countersign(&app.ctx, worker, token, &[receipt]).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadSignature);
    }

    async fn receipts_of_a_job_that_ended_are_not_counted(app: &TestApp) {
        let mut sites = GroupSites::new(&app.ctx, 2, 2).await;
        let group = [sites.next(1, 1).await, sites.next(2, 1).await];
        jobs::cancel(&app.ctx, &sites.world.sites[0].steward, sites.job.summary.id).await.unwrap();
        assert_eq!(sites.count(&group).await, [None, None]);
        let receipt = group[0].receipts[0].signed.clone();
        let refused = countersign(&app.ctx, sites.world.sites[1].worker, &sites.tokens[1], &[receipt]).await;
        assert_eq!(refused.unwrap_err().code(), Code::LeaseLost);
    }

    /// The running group ends after the calls, so a call that waited for it would fail in another way.
    async fn worker_of_a_stopped_job_takes_no_place_in_a_group(app: &TestApp) {
        let mut sites = GroupSites::new(&app.ctx, 2, 2).await;
        let batch = sites.next(1, 1).await;
        let (start_sender, start) = oneshot::channel();
        let (end_sender, end) = oneshot::channel::<()>();
        let ctx = app.ctx.clone();
        let running = tokio::spawn(async move {
            let run = |_: Vec<ReceiptBatch>| async move {
                start_sender.send(()).unwrap();
                let _ = end.await;
                None
            };
            ctx.receipt_groups().submit(WorkOwner::System, batch, run).await
        });
        start.await.unwrap();
        let (id, steward) = (sites.job.summary.id, sites.world.sites[0].steward.clone());
        let receipt = sites.sign(2, 1);
        let (worker, token) = (sites.world.sites[2].worker, &sites.tokens[2]);
        let call = || countersign(&app.ctx, worker, token, std::slice::from_ref(&receipt));
        let pause = PauseRequest { reason: "a look at the learning rate".to_owned() };
        jobs::pause(&app.ctx, &steward, id, &pause).await.unwrap();
        let refusal = call().await.unwrap_err();
        assert_eq!(refusal.code(), Code::LeaseLost);
        assert!(refusal.to_string().contains("a look at the learning rate"), "{refusal}");
        jobs::cancel(&app.ctx, &steward, id).await.unwrap();
        assert_eq!(call().await.unwrap_err().code(), Code::LeaseLost);
        end_sender.send(()).unwrap();
        assert!(running.await.unwrap().unwrap().is_none());
    }

    async fn concurrent_sites_are_answered_by_durable_rows(app: &TestApp) {
        let mut sites = GroupSites::new(&app.ctx, 12, 3).await;
        for round in 1..=3 {
            // Every third site repeats its call at once, as after a lost answer.
            let mut calls = Vec::new();
            for site in 1..=12 {
                let call = (site, sites.sign(site, round));
                if site % 3 == 0 {
                    calls.push(call.clone());
                }
                calls.push(call);
            }
            let answers = join_all(calls.iter().map(|(site, receipt)| {
                let (ctx, worker) = (app.ctx.clone(), sites.world.sites[*site].worker);
                let (token, receipt) = (sites.tokens[*site].clone(), receipt.clone());
                tokio::spawn(async move {
                    let signed = countersign(&ctx, worker, &token, std::slice::from_ref(&receipt)).await?;
                    // The row is visible to others when the call returns.
                    let key = (worker.0, i64::from(round));
                    let row = countersignature::Entity::find_by_id(key).one(ctx.db.read()).await?.unwrap();
                    assert_eq!((&row.payload, row.receipt), (&signed[0].payload, receipt.digest()));
                    Ok::<_, Error>(signed)
                })
            }))
            .await;
            let answers: Vec<_> = answers.into_iter().map(|answer| Some(answer.unwrap().unwrap())).collect();
            let places: BTreeSet<u64> = positions(&app.ctx, &answers).into_iter().collect();
            assert_eq!((answers.len(), places.len()), (16, 12), "a repeated receipt has one place");
        }
        sites.check(36).await;
    }

    /// Two servers on one database, as replicas are, count at once: they continue one log and the same chains.
    async fn replicas_continue_one_log(app: &TestApp) {
        let mut sites = GroupSites::new(&app.ctx, 6, 4).await;
        let servers = [app.ctx.clone(), app.restarted().await];
        for round in 1..=4 {
            let calls: Vec<_> = (1..=6).map(|site| (site, sites.sign(site, round))).collect();
            let answers = join_all(calls.into_iter().map(|(site, receipt)| {
                let (server, worker) = (servers[(site + round as usize) % 2].clone(), sites.world.sites[site].worker);
                let token = sites.tokens[site].clone();
                tokio::spawn(async move { countersign(&server, worker, &token, &[receipt]).await })
            }))
            .await;
            for answer in answers {
                assert_eq!(answer.unwrap().unwrap().len(), 1);
            }
        }
        let [_, replica] = servers;
        replica.db.clone().close().await.unwrap();
        sites.check(24).await;
    }
}
