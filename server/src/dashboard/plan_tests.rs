//! Compares plans with the ledger's later decisions.

#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use undertone_api::budget::AccountStanding;
use undertone_api::id::DatasetId;
use undertone_api::job::{NewJob, Spec, dp_sgd};
use undertone_api::plan::{NewPlan, Plan, PlanParameter};
use undertone_api::problem::Code;
use undertone_app::kind::dp_sgd::{PartyVerdict, price_plan};
use undertone_privacy::{NoiseMultiplier, SamplingRate};

use crate::testing::on_both;
use undertone_server_core::service::plan::plan;
use undertone_server_core::service::world::TestConsortium;
use undertone_server_core::service::{budget, dataset};

async fn planned(world: &TestConsortium, spec: dp_sgd::Spec) -> Plan {
    let job = NewJob { title: "a plan".to_owned(), spec: Spec::DpSgd(spec) };
    plan(&world.ctx, &world.sites[0].steward, &NewPlan { consortium: world.consortium, job }).await.unwrap()
}

/// Makes three private sites with different limits, one of which has spent something already.
async fn world(ctx: &undertone_server_core::ctx::Ctx) -> TestConsortium {
    let mut world = TestConsortium::new(ctx, 3, 12.0).await;
    let job = world.queued(2).await;
    for site in 0..4 {
        let lease = world.lease(site).await;
        world.submit(&job, site, &lease, 1, &[1.0]).await.unwrap();
    }
    world.set_budget(&world.sites[2], 40.0).await.unwrap();
    world.set_budget(&world.sites[3], 20.0).await.unwrap();
    world
}

on_both! {
    async fn a_plan_that_is_offered_can_be_proposed_as_it_stands(app: &TestApp) {
        let world = world(&app.ctx).await;
        let job = world.spec(3000);
        assert_eq!(world.propose(job.clone()).await.unwrap_err().code(), Code::BudgetExceeded);
        let refused = planned(&world, job).await;
        assert!(!refused.admitted && !refused.refusals.is_empty());
        let knobs: Vec<_> = refused.offers.iter().map(|offer| offer.knob).collect();
        assert!(knobs.starts_with(&[PlanParameter::Rounds, PlanParameter::Noise]), "{knobs:?}");
        for offer in refused.offers {
            let again = NewPlan { consortium: world.consortium, job: offer.job.clone() };
            assert!(plan(&app.ctx, &world.sites[0].steward, &again).await.unwrap().admitted, "{}", offer.sentence);
            // The paths lead to the changed fields.
            let json = serde_json::to_value(&offer.job).unwrap();
            for change in &offer.changes {
                let value = json.pointer(&format!("/{}", change.field.replace('.', "/"))).unwrap().as_f64().unwrap();
                assert!((value - change.to).abs() < 1e-9, "{}: {value} is not {}", change.field, change.to);
            }
            let Spec::DpSgd(spec) = offer.job.spec else { panic!("it is of another kind") };
            world.propose(spec).await.unwrap();
        }
    }

    async fn plan_names_the_party_that_refuses_one_more_round(app: &TestApp) {
        let world = world(&app.ctx).await;
        let buys = planned(&world, world.spec(3)).await.buys.unwrap();
        assert_eq!(buys.rounds, 3);
        assert!(buys.bottleneck.others.unwrap() > buys.rounds_that_fit, "{buys:?}");
        assert_eq!(buys.bottleneck.datasets, [world.sites[1].dataset], "{}", buys.bottleneck.sentence);
        assert!(planned(&world, world.spec(buys.rounds_that_fit)).await.admitted);
        let more = planned(&world, world.spec(buys.rounds_that_fit + 1)).await;
        assert_eq!(more.refusals.iter().map(|refusal| refusal.dataset).collect::<Vec<_>>(), [world.sites[1].dataset]);
        assert_eq!(more.offers[0].changes[0].to.to_bits(), f64::from(buys.rounds_that_fit).to_bits());
    }

    async fn what_a_plan_would_leave_is_what_is_left_once_it_is_reserved(app: &TestApp) {
        let world = world(&app.ctx).await;
        let before = planned(&world, world.spec(5)).await;
        world.queued(5).await;
        for (site, party) in before.parties.iter().enumerate() {
            let account = world.account(site + 1).await;
            assert_eq!(party.would_be.unwrap().to_bits(), account.committed.to_bits());
            assert!(party.left.unwrap() + account.committed <= account.epsilon.get());
            // The stated number of remaining rounds still fits, and one more does not.
            let rest = planned(&world, world.spec(u32::try_from(party.rounds_left).unwrap())).await;
            let of = |plan: &Plan| plan.refusals.iter().any(|refusal| refusal.dataset == party.dataset);
            assert!(!of(&rest));
            assert!(of(&planned(&world, world.spec(u32::try_from(party.rounds_left + 1).unwrap())).await));
            assert_eq!(party.jobs_left, party.rounds_left / 5);
        }
    }

    async fn tight_epsilon_is_positive_and_below_the_ledgers_epsilon(app: &TestApp) {
        let world = world(&app.ctx).await;
        for party in planned(&world, world.spec(20)).await.parties {
            let tight = party.tight_epsilon.unwrap();
            let alone = party.epsilon.unwrap();
            assert!(0.5 * alone < tight && tight < alone, "{tight} of {alone}");
            assert!(alone < party.would_be.unwrap());
        }
        // One person may be in three organizations, until an admin declares that none is in two.
        let plan = planned(&world, world.spec(20)).await;
        let together = plan.together.unwrap();
        assert_eq!((together.organizations, together.most), (3, 3));
        let alone = plan.parties.iter().filter_map(|party| party.epsilon).fold(0.0, f64::max);
        assert!(together.epsilon.unwrap() > alone);
        let mut wrong = world.spec(20);
        wrong.tests.clear();
        let wrong = planned(&world, wrong).await;
        assert_eq!(wrong.violations[0].field, "spec.tests");
        assert!(!wrong.admitted && wrong.parties[0].tight_epsilon.is_none() && wrong.parties[0].would_be.is_some());
    }

    async fn the_browsers_planner_and_the_server_agree_to_the_bit(app: &TestApp) {
        let world = world(&app.ctx).await;
        let datasets = dataset::list(&app.ctx, &world.sites[0].steward, world.consortium).await.unwrap();
        let mut standings: Vec<(DatasetId, Vec<AccountStanding>)> = Vec::new();
        for site in &world.sites[1..] {
            standings.push((site.dataset, budget::balances(&app.ctx, &site.steward, site.dataset).await.unwrap()));
        }
        // The browser's input has been through JSON.
        let text = serde_json::to_string(&standings).unwrap();
        let standings: Vec<(DatasetId, Vec<AccountStanding>)> = serde_json::from_str(&text).unwrap();
        for (rounds, rate, noise) in [(7, 0.125, 1.0), (300, 0.031, 0.77), (2000, 0.4, 1.9), (1, 1.0, 0.3)] {
            let mut spec = world.spec(rounds);
            for party in &mut spec.participants[1..] {
                party.sampling_rate = SamplingRate::new(rate).unwrap();
                party.noise.as_mut().unwrap().noise_multiplier = NoiseMultiplier::new(noise).unwrap();
            }
            let there = price_plan(&spec, &datasets, &standings);
            let here = planned(&world, spec).await;
            assert_eq!(there.buys, here.buys);
            assert_eq!(there.offers.len(), here.offers.len());
            for (ours, theirs) in here.offers.iter().zip(&there.offers) {
                let values = theirs.values.iter().map(|(_, field, from, to)| (field, from.to_bits(), to.to_bits()));
                assert!(ours.changes.iter().map(|c| (&c.field, c.from.to_bits(), c.to.to_bits())).eq(values));
                assert_eq!(ours.sentence, theirs.sentence);
            }
            let bits = |number: Option<f64>| number.filter(|number| number.is_finite()).map(f64::to_bits);
            let mut paying_parties = 0;
            for (id, verdict) in &there.verdicts {
                let PartyVerdict::Pays { payment, rounds_that_fit, curve, .. } = verdict else { continue };
                let party = here.parties.iter().find(|party| party.dataset == *id).unwrap();
                assert_eq!(bits(party.epsilon), bits(Some(payment.own)));
                assert_eq!(bits(party.would_be), bits(Some(payment.ghost.committed)));
                assert_eq!(bits(party.left), bits(payment.left));
                assert_eq!((party.rounds_left, party.jobs_left), payment.further);
                assert_eq!(party.rounds_that_fit, *rounds_that_fit);
                assert_eq!(&party.curve, curve);
                paying_parties += 1;
            }
            assert_eq!(paying_parties, 3);
        }
    }
}
