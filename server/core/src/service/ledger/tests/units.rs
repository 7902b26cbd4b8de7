//! Each limit of a lineage bounds the releases of all jobs about its unit: jobs are charged to all of them, or refused.

use sea_orm::EntityTrait as _;
use undertone_api::job::{NewJob, Spec, dp_sgd};
use undertone_api::plan::NewPlan;
use undertone_api::problem::Code;
use undertone_privacy::PrivacyUnit::{self, Record, Speaker};
use undertone_privacy::ledger::Balance;
use undertone_privacy::transfer::event_at;

use super::all_accounts_follow_from_their_rows;
use crate::model::{account, ledger_entry, reservation};
use crate::service::bundle::examine;
use crate::service::finish::{self, PartOutcome};
use crate::service::plan::plan;
use crate::service::world::TestConsortium;
use crate::testing::on_both;
use crate::verify::Pins;

/// Returns the spent ε of a unit, and whether anything is reserved for it.
async fn standing(world: &TestConsortium, unit: PrivacyUnit) -> (f64, bool) {
    let lineage = world.sites[1].lineage.0;
    let rows = account::Entity::find().all(world.ctx.db.read()).await.unwrap();
    let word = serde_json::to_value(unit).unwrap();
    let row = rows.into_iter().find(|row| row.lineage_id == lineage && word == row.unit.as_str()).unwrap();
    let balance: Balance = row.balance().unwrap();
    (balance.epsilon_spent(), !balance.reserved().is_zero())
}

/// Returns a job over the lead and the first private site.
fn protecting(world: &TestConsortium, unit: PrivacyUnit, rounds: u32) -> dp_sgd::Spec {
    dp_sgd::Spec { unit, ..world.spec(rounds) }
}

async fn planned(world: &TestConsortium, spec: dp_sgd::Spec) -> undertone_api::plan::Plan {
    let job = NewJob { title: "a job".to_owned(), spec: Spec::DpSgd(spec) };
    plan(&world.ctx, &world.sites[0].steward, &NewPlan { consortium: world.consortium, job }).await.unwrap()
}

on_both! {
    async fn record_job_beside_a_speaker_limit_is_refused_with_the_reason(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 8.0).await;
        assert!(planned(&world, protecting(&world, Record, 2)).await.admitted, "alone it fits");
        world.set_budget_of(&world.sites[1], Speaker, 8.0).await.unwrap();
        let plan = planned(&world, protecting(&world, Record, 2)).await;
        assert!(!plan.admitted && plan.offers.is_empty());
        let [refusal] = &plan.refusals[..] else { panic!("{:?}", plan.refusals) };
        let reason = refusal.reason.as_deref().unwrap();
        assert_eq!((refusal.unit, refusal.limit), (Speaker, 8.0));
        assert!(reason.contains("propose the job with the unit `speaker`"), "{reason}");
        let accounts: Vec<_> = plan.parties[0].accounts.iter().map(|account| (account.unit, account.fits)).collect();
        assert_eq!(accounts, [(Record, true), (Speaker, false)]);
        let refused = world.propose(protecting(&world, Record, 2)).await.unwrap_err();
        assert_eq!(refused.code(), Code::BudgetExceeded);
    }

    async fn speaker_job_is_charged_to_speakers_and_records(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        world.set_budget_of(&world.sites[1], Speaker, 30.0).await.unwrap();
        let plan = planned(&world, protecting(&world, Speaker, 3)).await;
        let [own, other] = &plan.parties[0].accounts[..] else { panic!("{:?}", plan.parties[0].accounts) };
        assert!(plan.admitted && (own.unit, other.unit) == (Speaker, Record));
        assert!(other.after.unwrap() > own.after.unwrap() && own.before == 0.0);

        let job = world.propose(protecting(&world, Speaker, 3)).await.unwrap();
        let job = world.approved(job).await;
        let lease = world.lease(1).await;
        world.submit(&job, 1, &lease, 1, &[1.0]).await.unwrap();
        let (speaker, record) = (standing(&world, Speaker).await, standing(&world, Record).await);
        assert!(speaker.0 > 0.0 && record.0 > speaker.0 && speaker.1 && record.1);
        let rows = reservation::Entity::find().all(app.ctx.db.read()).await.unwrap();
        let charge = job.participants[1].charge.clone().unwrap();
        for row in &rows {
            let unit = if row.own { Speaker } else { Record };
            assert_eq!(row.event().unwrap(), event_at(&charge.event, Speaker, unit).unwrap());
            assert_eq!((row.committed, row.releases), (1, 3));
        }
        assert_eq!(rows.len(), 2);
        finish::finish(&app.ctx, world.sites[1].worker, &lease, &PartOutcome::GaveUp("enough".to_owned()), &[]).await.unwrap();
        assert_eq!(standing(&world, Speaker).await, (speaker.0, false));
        assert_eq!(standing(&world, Record).await, (record.0, false));
        assert_eq!(ledger_entry::Entity::find().all(app.ctx.db.read()).await.unwrap().len(), 6);
        all_accounts_follow_from_their_rows(&app.ctx).await;
        let report = examine(&app.ctx.db, &app.ctx.signer.verifying_key(), Pins::default(), app.ctx.now()).await.unwrap();
        assert!(report.holds(), "{report}");
    }

    async fn release_that_one_limit_was_spared_is_found_by_the_examination(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        world.set_budget_of(&world.sites[1], Speaker, 30.0).await.unwrap();
        let job = world.propose(protecting(&world, Speaker, 3)).await.unwrap();
        let job = world.approved(job).await;
        // A server that forgets the reservation of the other unit charges the release to one account alone.
        crate::testing::tamper(&app.ctx, "reservation", "DELETE FROM reservation WHERE NOT own").await;
        let lease = world.lease(1).await;
        world.submit(&job, 1, &lease, 1, &[1.0]).await.unwrap();
        let report = examine(&app.ctx.db, &app.ctx.signer.verifying_key(), Pins::default(), app.ctx.now()).await.unwrap();
        let has_finding = |finding: &crate::verify::Finding| finding.what.contains("was not charged to the account of the unit Record");
        assert!(report.findings.iter().any(has_finding), "{report}");
    }

    async fn job_over_the_limit_of_another_unit_is_charged_nowhere(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 3.0).await;
        world.set_budget_of(&world.sites[1], Speaker, 50.0).await.unwrap();
        let plan = planned(&world, protecting(&world, Speaker, 40)).await;
        let [refusal] = &plan.refusals[..] else { panic!("{:?}", plan.refusals) };
        assert_eq!((refusal.unit, &refusal.reason), (Record, &None));
        assert!(refusal.would_be.unwrap() > 3.0);
        let fits = plan.buys.as_ref().unwrap().rounds_that_fit;
        assert!(fits < 40, "the record limit decides");
        assert!(fits == 0 || planned(&world, protecting(&world, Speaker, fits)).await.admitted);
        assert!(!planned(&world, protecting(&world, Speaker, fits + 1)).await.admitted);
        assert!(plan.offers.iter().all(|offer| matches!(&offer.job.spec, Spec::DpSgd(spec) if spec.unit == Speaker)));
        let refused = world.propose(protecting(&world, Speaker, 40)).await.unwrap_err();
        assert_eq!(refused.code(), Code::BudgetExceeded);
        assert_eq!(standing(&world, Speaker).await, (0.0, false));
        assert_eq!(standing(&world, Record).await, (0.0, false));
    }
}
