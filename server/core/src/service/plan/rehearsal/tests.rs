#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]
#![expect(clippy::float_cmp, reason = "what was never charged is exactly 0, and factors are powers of 2")]

use undertone_api::job::dp_sgd::{
    RehearsalReport, RehearsedRun, RehearsedSetting, Report as DpSgdReport, SettingMeasure, Spec,
};
use undertone_api::job::{Approval, DatasetUse, JobState, NewJob, Report, Spec as AnySpec};
use undertone_api::plan::{NewPlan, PlanRehearsal};
use undertone_api::problem::Code;

use super::rehearsals;
use crate::service::finish::{PartOutcome, finish};
use crate::service::plan::plan;
use crate::service::world::TestConsortium;
use crate::testing::on_both;

/// Returns the lead's report: the halved clip is the best setting.
fn report() -> Report {
    let setting = |clip_factor, private| RehearsedSetting {
        clip_factor,
        rate_factor: 1.0,
        failed: 0,
        runs: vec![RehearsedRun { repeat: 1, public: 0.25, private, loss: 1.0, public_loss: None, seconds: 2.0 }],
    };
    let settings = vec![setting(1.0, 0.5), setting(0.5, 0.75)];
    let rehearsal = Some(RehearsalReport { units: vec![8, 4, 4], planned: 9, settings });
    Report::DpSgd(DpSgdReport { parameters: 7, rehearsal, ..DpSgdReport::default() })
}

/// Returns the rehearsals in the plan of a job.
async fn planned(world: &TestConsortium, spec: Spec) -> Vec<PlanRehearsal> {
    let job = NewJob { title: "a plan".to_owned(), spec: AnySpec::DpSgd(spec) };
    let new = NewPlan { consortium: world.consortium, job };
    plan(&world.ctx, &world.sites[0].steward, &new).await.unwrap().rehearsals
}

on_both! {
    async fn rehearsal_needs_the_lead_alone_and_is_shown_in_its_plan(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        assert!(planned(&world, world.spec(4)).await.is_empty());
        let job = world.propose(world.spec(4).to_rehearsal(30).unwrap()).await.unwrap();
        assert_eq!(job.summary.state, JobState::Queued, "no owner of private data is asked");
        let uses: Vec<_> = job.participants.iter().map(|party| (party.dataset, party.purpose)).collect();
        assert_eq!(uses, [(world.sites[0].dataset, DatasetUse::Participate), (world.test, DatasetUse::Evaluate)]);
        assert!(job.participants.iter().all(|party| party.charge.is_none() && party.approval == Approval::NotNeeded));
        let [waiting] = <[_; 1]>::try_from(planned(&world, world.spec(4)).await).unwrap();
        assert_eq!((waiting.job, waiting.state, waiting.own), (job.summary.id, JobState::Queued, None));

        let lease = world.lease(0).await;
        finish(&app.ctx, world.sites[0].worker, &lease, &PartOutcome::Done(Some(report())), &[]).await.unwrap();
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Finished);
        assert_eq!(world.account(1).await.spent, 0.0, "nothing is charged");
        let [result] = <[_; 1]>::try_from(planned(&world, world.spec(4)).await).unwrap();
        assert_eq!(result.own.unwrap().means(SettingMeasure::Accuracy), Some((0.25, 0.5)));
        assert_eq!(result.best.unwrap().clip_factor, 0.5);
        // The plan with half the clip is the best setting itself.
        let mut halved = world.spec(4);
        halved.participants.iter_mut().filter_map(|party| party.noise.as_mut()).for_each(|noise| noise.clip *= 0.5);
        let [result] = <[_; 1]>::try_from(planned(&world, halved).await).unwrap();
        assert!(result.own.unwrap().is_own() && result.best.unwrap().is_own());
        assert!(planned(&world, world.spec(5)).await.is_empty(), "another number of rounds is another plan");
    }

    async fn stranger_reads_no_rehearsals(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 3.0).await;
        let other = TestConsortium::new(&app.ctx, 1, 3.0).await;
        let spec = AnySpec::DpSgd(world.spec(1));
        let refused = rehearsals(&app.ctx, &other.sites[0].steward, world.consortium, &spec).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        assert!(rehearsals(&app.ctx, &world.sites[0].steward, world.consortium, &spec).await.unwrap().is_empty());
    }
}
