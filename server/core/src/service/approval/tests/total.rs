//! Totals of the jobs approved by a limit.

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use undertone_api::job::{Approval, ApprovedTotal, Job, JobState, NewApprovalLimit, NewJob, Spec};
use undertone_api::problem::Code;
use undertone_privacy::{Epsilon, PrivacyUnit};

use super::{appoint_steward, limit};
use crate::model::notification;
use crate::service::approval::{approve, limit_set, limits};
use crate::service::job as jobs;
use crate::service::version::ExpectedVersion;
use crate::service::world::TestConsortium;
use crate::testing::{TestApp, on_both};

/// Makes one private site whose steward may set limits.
async fn world(app: &TestApp) -> TestConsortium {
    let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
    appoint_steward(app, &world.sites[1]).await;
    world
}

/// Sets a limit of ε `epsilon` for one job and, if given, `total` for all.
async fn set(app: &TestApp, world: &TestConsortium, epsilon: f64, total: Option<f64>) {
    let total_epsilon = total.map(|total| Epsilon::new(total).unwrap());
    let new = NewApprovalLimit { total_epsilon, ..limit(app, epsilon, 30) };
    let site = &world.sites[1];
    limit_set(&app.ctx, &site.steward, site.dataset, &new, &ExpectedVersion::Anything).await.unwrap();
}

/// Returns the total of the jobs approved by the limit in force.
async fn load_totals(app: &TestApp, world: &TestConsortium) -> Vec<ApprovedTotal> {
    let site = &world.sites[1];
    let all = limits(&app.ctx, &site.steward, site.dataset).await.unwrap();
    all.into_iter().find(|limit| limit.in_force).unwrap().approved
}

async fn propose(world: &TestConsortium) -> Job {
    world.propose(world.spec(2)).await.unwrap()
}

fn has_passed(job: &Job) -> bool {
    matches!(job.participants[1].approval, Approval::Approved { .. })
}

/// Returns the reason why the owner's steward must answer.
async fn because(app: &TestApp, world: &TestConsortium, job: &Job) -> Option<String> {
    let read = jobs::get(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
    read.participants[1].asked_because.clone()
}

/// Returns the cost of one job by itself.
fn own(job: &Job) -> f64 {
    job.participants[1].epsilon_reserved.unwrap()
}

on_both! {
    async fn job_over_the_total_is_left_to_the_steward_with_reason(app: &TestApp) {
        let world = world(app).await;
        set(app, &world, 50.0, None).await;
        assert_eq!(load_totals(app, &world).await, []);
        let (first, second) = (propose(&world).await, propose(&world).await);
        assert!(has_passed(&first) && has_passed(&second));
        let both = load_totals(app, &world).await.remove(0);
        assert_eq!((both.unit, both.jobs, both.spent), (PrivacyUnit::Record, 2, Some(0.0)));
        let together = both.committed.unwrap();
        assert!(own(&first) < together && together <= 2.0 * own(&first), "{together} of twice {}", own(&first));

        set(app, &world, own(&first), Some(together)).await;
        assert!(has_passed(&propose(&world).await) && has_passed(&propose(&world).await), "it is exactly the total");
        let third = propose(&world).await;
        let part = &third.participants[1];
        assert_eq!((part.approval.clone(), third.summary.state), (Approval::Pending, JobState::Proposed));
        let because = because(app, &world, &third).await.unwrap();
        assert!(because.contains("more than the limit's total"), "{because}");
        let rows = notification::Entity::find().filter(notification::Column::JobId.eq(third.summary.id.0));
        let notices = rows.all(app.ctx.db.read()).await.unwrap();
        assert!(notices.iter().any(|row| row.text.contains(&because)), "{notices:?}");

        let site = &world.sites[1];
        let third = approve(&app.ctx, &site.steward, third.summary.id, site.dataset).await.unwrap();
        assert_eq!((third.summary.state, third.participants[1].asked_because.clone()), (JobState::Queued, None));
        assert_eq!(load_totals(app, &world).await[0].jobs, 2, "what a steward approves did not pass by the limit");
    }

    async fn total_just_below_the_sum_approves_one_job_less(app: &TestApp) {
        let world = world(app).await;
        set(app, &world, 50.0, None).await;
        let first = propose(&world).await;
        propose(&world).await;
        let together = load_totals(app, &world).await[0].committed.unwrap();
        set(app, &world, own(&first), Some(together.next_down())).await;
        assert!(has_passed(&propose(&world).await));
        assert!(!has_passed(&propose(&world).await));
    }

    async fn new_limit_with_larger_total_counts_from_zero(app: &TestApp) {
        let world = world(app).await;
        set(app, &world, 50.0, None).await;
        let own = own(&propose(&world).await);
        set(app, &world, own, Some(own)).await;
        assert!(has_passed(&propose(&world).await) && !has_passed(&propose(&world).await));
        set(app, &world, own, Some(2.0 * own)).await;
        assert_eq!(load_totals(app, &world).await, []);
        assert!(has_passed(&propose(&world).await) && has_passed(&propose(&world).await));
    }

    async fn of_jobs_proposed_at_once_no_more_pass_than_the_total_holds(app: &TestApp) {
        let world = world(app).await;
        set(app, &world, 50.0, None).await;
        let own = own(&propose(&world).await);
        set(app, &world, own, Some(own)).await;
        let tries = (0..6).map(|_| {
            let (ctx, lead, consortium) = (app.ctx.clone(), world.sites[0].steward.clone(), world.consortium);
            let new = NewJob { title: "at once".to_owned(), spec: Spec::DpSgd(world.spec(2)) };
            tokio::spawn(async move { jobs::propose(&ctx, &lead, consortium, new).await.unwrap() })
        });
        let results = futures::future::join_all(tries).await;
        assert_eq!(results.into_iter().filter(|job| has_passed(job.as_ref().unwrap())).count(), 1);
    }

    async fn ended_job_counts_its_actual_releases(app: &TestApp) {
        let world = world(app).await;
        set(app, &world, 50.0, None).await;
        let own = own(&propose(&world).await);
        set(app, &world, own, Some(own)).await;
        let first = propose(&world).await;
        assert!(has_passed(&first) && !has_passed(&propose(&world).await));
        jobs::cancel(&app.ctx, &world.sites[0].steward, first.summary.id).await.unwrap();
        let sum = load_totals(app, &world).await.remove(0);
        assert_eq!((sum.jobs, sum.spent, sum.committed), (1, Some(0.0), Some(0.0)), "nothing of it ever left");
        assert!(has_passed(&propose(&world).await));
    }

    async fn a_job_whose_answer_was_taken_back_did_not_pass(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        appoint_steward(app, &world.sites[1]).await;
        set(app, &world, 50.0, None).await;
        let job = propose(&world).await;
        assert!(has_passed(&job) && job.summary.state == JobState::Proposed, "the other owner is still asked");
        assert_eq!(load_totals(app, &world).await[0].jobs, 1);
        world.set_budget(&world.sites[1], 60.0).await.unwrap();
        assert_eq!(load_totals(app, &world).await, []);
        let again = because(app, &world, &job).await.unwrap();
        assert!(again.contains("budget was changed"), "{again}");
    }

    async fn a_total_below_what_one_job_may_cost_is_refused_by_name(app: &TestApp) {
        let world = world(app).await;
        let total_epsilon = Some(Epsilon::new(0.4).unwrap());
        let new = NewApprovalLimit { total_epsilon, ..limit(app, 0.5, 30) };
        let site = &world.sites[1];
        let refused = limit_set(&app.ctx, &site.steward, site.dataset, &new, &ExpectedVersion::Anything).await.unwrap_err();
        assert_eq!(refused.code(), Code::ValidationFailed);
        assert!(refused.into_problem().violations.iter().any(|violation| violation.field == "total_epsilon"));
    }
}
