//! Accounts with the Gaussian filter: whole jobs over the service.

use sea_orm::EntityTrait as _;
use undertone_api::budget::{EntryKind, ExceededPart, NewBudget};
use undertone_api::job::{JobState, NewJob, Spec, dp_sgd};
use undertone_api::page::PageQuery;
use undertone_api::plan::NewPlan;
use undertone_api::problem::Code;
use undertone_privacy::ledger::FilterKind;
use undertone_privacy::{Delta, Epsilon, NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::{all_accounts_follow_from_their_rows, entries};
use crate::error::Error;
use crate::model::ledger_entry;
use crate::service::budget;
use crate::service::bundle::examine;
use crate::service::finish::{self, PartOutcome};
use crate::service::ledger::{explain, history, rebuild};
use crate::service::plan::plan;
use crate::service::world::TestConsortium;
use crate::testing::on_both;
use crate::verify::Pins;

async fn choose(
    world: &TestConsortium,
    epsilon: f64,
    filter: Option<FilterKind>,
) -> Result<undertone_api::budget::Account, Error> {
    let (epsilon, delta) = (Epsilon::new(epsilon).unwrap(), Delta::new(1e-6).unwrap());
    let new = NewBudget { unit: PrivacyUnit::Record, epsilon, delta, filter };
    budget::set(&world.ctx, &world.sites[1].steward, world.sites[1].dataset, new).await
}

/// Returns a job of q = 0.05 and noise z.
fn training(world: &TestConsortium, rounds: u32, z: f64) -> dp_sgd::Spec {
    let mut spec = world.spec(rounds);
    for party in &mut spec.participants {
        party.sampling_rate = SamplingRate::new(0.05).unwrap();
        if let Some(noise) = &mut party.noise {
            noise.noise_multiplier = NoiseMultiplier::new(z).unwrap();
        }
    }
    spec
}

async fn planned(world: &TestConsortium, rounds: u32, z: f64) -> undertone_api::plan::Plan {
    let job = NewJob { title: "a job".to_owned(), spec: Spec::DpSgd(training(world, rounds, z)) };
    plan(&world.ctx, &world.sites[0].steward, &NewPlan { consortium: world.consortium, job }).await.unwrap()
}

on_both! {
    async fn gaussian_filter_admits_long_training_and_spends_it_whole(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 4.0).await;
        choose(&world, 4.0, None).await.unwrap();
        assert!(!planned(&world, 89, 1.0).await.admitted, "the Rényi filter admits 33 rounds");
        assert_eq!(choose(&world, 4.0, Some(FilterKind::Gaussian)).await.unwrap().filter, FilterKind::Gaussian);
        let plan = planned(&world, 89, 1.0).await;
        let [account] = &plan.parties[0].accounts[..] else { panic!("{:?}", plan.parties[0].accounts) };
        assert!(plan.admitted && account.filter == FilterKind::Gaussian);
        assert_eq!((account.rounds_that_fit, plan.parties[0].rounds_that_fit), (Some(93), 93));

        let job = world.propose(training(&world, 89, 1.0)).await.unwrap();
        let job = world.approved(job).await;
        assert_eq!(job.summary.state, JobState::Queued);
        let reserved = world.account(1).await;
        assert!(reserved.spent_fraction == 0.0 && reserved.committed > 3.5 && reserved.committed <= 4.0);

        // The releases of this world's workers are those of its own spec.
        let mut world = TestConsortium::new(&app.ctx, 1, 4.0).await;
        choose(&world, 50.0, Some(FilterKind::Gaussian)).await.unwrap();
        let job = world.queued(9).await;
        let reserved = world.account(1).await;
        let lease = world.lease(1).await;
        world.submit(&job, 1, &lease, 1, &[1.0]).await.unwrap();
        let spent = world.account(1).await;
        assert_eq!((spent.spent, spent.committed), (reserved.committed, reserved.committed));
        finish::finish(&app.ctx, world.sites[1].worker, &lease, &PartOutcome::GaveUp("enough".to_owned()), &[]).await.unwrap();
        let settled = world.account(1).await;
        assert_eq!((settled.spent, settled.committed), (spent.spent, spent.spent), "nothing is returned");

        let steward = &world.sites[1].steward;
        let page = entries(&app.ctx, steward, world.sites[1].dataset, &PageQuery::default()).await.unwrap();
        let rows: Vec<_> = page.items.iter().map(|entry| (entry.kind, entry.count, entry.certificate.is_some())).collect();
        assert_eq!(rows, [(EntryKind::Settle, 8, false), (EntryKind::Commit, 1, false), (EntryKind::Reserve, 9, true)]);
        let proof = explain(&app.ctx, steward, page.items[2].account, 1).await.unwrap();
        assert!(proof.chained && proof.certificate.is_some_and(|stated| stated.covers() == 9) && !proof.price.is_empty());
        let histories = history(&app.ctx, steward, world.sites[1].dataset).await.unwrap();
        let share = histories[0].jobs[0];
        assert!(share.spent > 0.0 && share.reserved == 0.0 && (share.alone - spent.spent).abs() < 1e-9, "{share:?}");
        all_accounts_follow_from_their_rows(&app.ctx).await;
        let report = examine(&app.ctx.db, &app.ctx.signer.verifying_key(), Pins::default(), app.ctx.now()).await.unwrap();
        assert!(report.holds(), "{report}");
    }

    async fn filter_is_chosen_once(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 4.0).await;
        choose(&world, 4.0, Some(FilterKind::Gaussian)).await.unwrap();
        choose(&world, 4.0, Some(FilterKind::Renyi)).await.unwrap();
        choose(&world, 4.0, Some(FilterKind::Gaussian)).await.unwrap();
        let job = world.propose(training(&world, 10, 2.0)).await.unwrap();
        world.approved(job).await;
        let refused = choose(&world, 8.0, Some(FilterKind::Renyi)).await.unwrap_err();
        let Error::Problem(problem) = refused else { panic!("{refused}") };
        let [violation] = &problem.violations[..] else { panic!("{problem:?}") };
        assert_eq!((problem.code, violation.field.as_str()), (Code::ValidationFailed, "filter"));
        assert!(violation.message.contains("leave the field out or set `gaussian`"), "{}", violation.message);
        assert_eq!(choose(&world, 8.0, None).await.unwrap().filter, FilterKind::Gaussian, "a raise keeps it");
    }

    async fn too_loud_a_job_is_refused_with_the_remedy(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 4.0).await;
        choose(&world, 4.0, Some(FilterKind::Gaussian)).await.unwrap();
        let began = std::time::Instant::now();
        let refused = world.propose(training(&world, 100_000, 0.1)).await.unwrap_err();
        assert_eq!(refused.code(), Code::BudgetExceeded);
        let Error::Problem(problem) = refused else { panic!("{refused}") };
        let reason = problem.refusals[0].reason.clone().unwrap();
        assert_eq!(problem.refusals[0].exceeded, Some(ExceededPart::NoPrice));
        assert!(reason.contains("at most 32 is certified: plan fewer rounds or more noise"), "{reason}");
        assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
    }

    async fn charge_of_less_than_the_certificate_is_found(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 4.0).await;
        choose(&world, 4.0, Some(FilterKind::Gaussian)).await.unwrap();
        let job = world.propose(training(&world, 40, 1.0)).await.unwrap();
        world.approved(job).await;
        let row = ledger_entry::Entity::find().one(app.ctx.db.read()).await.unwrap().unwrap();
        let stated = row.certificate.unwrap();
        let less = stated.replacen("\"mu_squared\":\"", "\"mu_squared\":\"1", 1);
        assert_ne!(less, stated);
        crate::testing::tamper(&app.ctx, "ledger_entry", &format!("UPDATE ledger_entry SET certificate = '{less}'")).await;
        let report = examine(&app.ctx.db, &app.ctx.signer.verifying_key(), Pins::default(), app.ctx.now()).await.unwrap();
        assert!(!report.holds(), "the hash covers the certificate");
        assert!(rebuild(app.ctx.db.read(), row.account_id).await.is_err());
    }
}
