#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

mod signature;
mod terms;
mod total;

use sea_orm::{ActiveModelTrait as _, IntoActiveModel as _};
use time::Duration;
use undertone_api::budget::NewBudget;
use undertone_api::dataset::{DatasetContent, DatasetRegistration, SizeClass, Visibility, usual_units};
use undertone_api::job::{
    Approval, DisclosureForm, Job, JobState, NewApprovalLimit, NewJob, Observer, RefuseRequest, Spec,
};
use undertone_api::member::{Role, RoleGrant, RoleScope};
use undertone_api::page::PageQuery;
use undertone_api::plan::NewPlan;
use undertone_api::problem::Code;
use undertone_api::signed::{Manifest, public_key};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

use crate::model::role::ScopeKind;
use crate::model::{member, role};
use crate::rule::job::load_readable_job;
use crate::service::approval::{approve, approve_signed, limit_set, limit_withdraw, limits, refuse};
use crate::service::dataset::register;
use crate::service::job::propose;
use crate::service::plan::plan;
use crate::service::version::ExpectedVersion;
use crate::service::world::{TestConsortium, TestSite};
use crate::service::{budget, job as jobs};
use crate::testing::{TestApp, on_both};
use crate::view::approval::review::review;

fn limit(app: &TestApp, epsilon: f64, days: i64) -> NewApprovalLimit {
    let kinds = vec!["dp_sgd".to_owned()];
    NewApprovalLimit {
        epsilon: Epsilon::new(epsilon).unwrap(),
        total_epsilon: None,
        kinds,
        until: app.ctx.now() + Duration::days(days),
    }
}

/// Stores the steward of a site in the tables as well, which limits read.
async fn appoint_steward(app: &TestApp, site: &TestSite) {
    let organization = site.steward.organizations()[0].0;
    let id = site.steward.id();
    let person = member::Model {
        id: id.0,
        name: site.steward.member.name.clone(),
        email: format!("{id}@people.example.org"),
        password_hash: String::new(),
        operator: false,
        created_at: app.ctx.now(),
        retired_at: None,
        address_confirmed_at: None,
    };
    let row = role::Model {
        member_id: id.0,
        scope: ScopeKind::Organization.into(),
        scope_id: organization,
        role: Role::DataSteward.into(),
    };
    app.ctx
        .db
        .write("test", async |tx| {
            person.clone().into_active_model().insert(tx).await?;
            row.clone().into_active_model().insert(tx).await?;
            Ok(())
        })
        .await
        .unwrap();
}

fn approvals(job: &Job) -> Vec<Approval> {
    job.participants.iter().map(|party| party.approval.clone()).collect()
}

on_both! {
    async fn job_within_every_limit_is_queued_at_once(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        for site in &world.sites[1..] {
            appoint_steward(app, site).await;
            limit_set(&app.ctx, &site.steward, site.dataset, &limit(app, 5.0, 30), &ExpectedVersion::Anything).await.unwrap();
        }
        let job = world.propose(world.spec(2)).await.unwrap();
        assert_eq!(job.summary.state, JobState::Queued, "{:?}", job.participants);
        let Approval::Approved { by } = &job.participants[1].approval else { panic!("nobody was asked") };
        assert_eq!(by, "the limit that steward 1 set");
    }

    async fn limit_out_of_force_or_exceeded_approves_nothing(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let (site, spec) = (&world.sites[1], || world.spec(2));
        let set = async |epsilon: f64, days: i64| {
            limit_set(&app.ctx, &site.steward, site.dataset, &limit(app, epsilon, days), &ExpectedVersion::Anything).await
        };
        set(5.0, 30).await.unwrap();
        let pending = |job: &Job| job.participants[1].approval == Approval::Pending;
        let because = async |job: &Job| {
            let read = jobs::get(&app.ctx, &site.steward, job.summary.id).await.unwrap();
            read.participants[1].asked_because.clone()
        };
        let job = world.propose(spec()).await.unwrap();
        assert!(pending(&job), "who set it is no steward in the tables");
        assert!(because(&job).await.is_some_and(|said| said.contains("no steward")));
        appoint_steward(app, site).await;
        set(0.000_1, 30).await.unwrap();
        let job = world.propose(spec()).await.unwrap();
        assert!(pending(&job), "it costs more");
        assert!(because(&job).await.is_some_and(|said| said.contains("by itself")));
        set(5.0, 1).await.unwrap();
        assert!(!pending(&world.propose(spec()).await.unwrap()));
        app.clock.advance(Duration::days(1));
        assert!(pending(&world.propose(spec()).await.unwrap()), "its day is over");
        set(5.0, 30).await.unwrap();
        limit_withdraw(&app.ctx, &site.steward, site.dataset).await.unwrap();
        let job = world.propose(spec()).await.unwrap();
        assert!(pending(&job), "it is withdrawn");
        assert_eq!(because(&job).await, None, "no limit is in force that could say why");
        let twice = limit_withdraw(&app.ctx, &site.steward, site.dataset).await.unwrap_err();
        assert_eq!(twice.code(), Code::WrongState);
        let history = limits(&app.ctx, &site.steward, site.dataset).await.unwrap();
        assert_eq!((history.len(), history.iter().filter(|limit| limit.in_force).count()), (4, 0), "all are kept");
    }

    async fn limit_reason_is_shown_to_limit_readers_only(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (own, other, lead) = (&world.sites[1], &world.sites[2], &world.sites[0]);
        appoint_steward(app, own).await;
        limit_set(&app.ctx, &own.steward, own.dataset, &limit(app, 0.000_1, 30), &ExpectedVersion::Anything).await.unwrap();
        let proposed = world.propose(world.spec(2)).await.unwrap();
        let id = proposed.summary.id;
        assert_eq!(proposed.participants[1].approval, Approval::Pending);
        assert_eq!(proposed.participants[1].asked_because, None, "to its proposer");
        let with = |scope, role| {
            let mut actor = own.steward.clone();
            actor.member.grants = vec![RoleGrant { scope, role }];
            actor
        };
        let at = RoleScope::Organization(own.steward.organizations()[0]);
        let readers = [Role::DataSteward, Role::OrganizationAdmin, Role::Auditor].map(|role| with(at, role));
        let over = with(RoleScope::Consortium(world.consortium), Role::ConsortiumAdmin);
        let others = [with(at, Role::Researcher), over, other.steward.clone(), lead.steward.clone()];
        for (actor, is_reader) in readers.iter().map(|actor| (actor, true)).chain(others.iter().map(|actor| (actor, false))) {
            let job = jobs::get(&app.ctx, actor, id).await.unwrap();
            let progress = jobs::progress(&app.ctx, actor, id).await.unwrap();
            for parts in [job.participants, progress.participants] {
                let reason = parts[1].asked_because.as_ref();
                assert_eq!(reason.is_some_and(|reason| reason.contains("by itself")), is_reader, "{:?}", actor.member.grants);
                assert_eq!(reason.is_some(), is_reader, "{:?}", actor.member.grants);
            }
        }
        // One event goes to all subscribers.
        let row = load_readable_job(&app.ctx, &own.steward, id).await.unwrap();
        assert!(crate::view::job::progress(&app.ctx, None, row).await.unwrap().participants.iter().all(|part| part.asked_because.is_none()));

        let refusal = RefuseRequest { reason: "too much".to_owned() };
        refuse(&app.ctx, &own.steward, id, own.dataset, &refusal).await.unwrap();
        for actor in &others {
            let job = jobs::get(&app.ctx, actor, id).await.unwrap();
            let Approval::Refused { reason, .. } = &job.participants[1].approval else { panic!("it was refused") };
            assert_eq!(reason, "too much");
        }
    }

    async fn limits_are_set_and_seen_by_those_who_answer_for_the_dataset(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (own, other) = (&world.sites[1], &world.sites[2]);
        let denied = limit_set(&app.ctx, &other.steward, own.dataset, &limit(app, 5.0, 30), &ExpectedVersion::Anything).await;
        assert_eq!(denied.unwrap_err().code(), Code::Forbidden);
        assert_eq!(limits(&app.ctx, &other.steward, own.dataset).await.unwrap_err().code(), Code::Forbidden);
        let wrong = limit_set(&app.ctx, &own.steward, own.dataset, &limit(app, 5.0, 366), &ExpectedVersion::Anything).await;
        assert_eq!(wrong.unwrap_err().code(), Code::ValidationFailed);
    }

    async fn an_answer_is_to_exactly_the_manifest_that_was_read(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let (job, site) = (world.propose(world.spec(2)).await.unwrap(), &world.sites[1]);
        let id = job.summary.id;
        let other = "00".repeat(32);
        let other = approve_signed(&app.ctx, &site.steward, id, site.dataset, Some(&other), None).await.unwrap_err();
        assert_eq!(other.code(), Code::PreconditionFailed);
        assert_eq!(world.job(id).await.participants[1].approval, Approval::Pending);
        let job = approve_signed(&app.ctx, &site.steward, id, site.dataset, Some(&job.manifest), None).await.unwrap();
        assert_eq!(job.summary.state, JobState::Queued);
    }

    async fn changed_budget_revokes_answers_but_no_reservation(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (waiting, reserved) = (world.propose(world.spec(1)).await.unwrap(), world.queued(1).await);
        let site = &world.sites[1];
        approve(&app.ctx, &site.steward, waiting.summary.id, site.dataset).await.unwrap();
        world.set_budget(site, 60.0).await.unwrap();
        let now = world.job(waiting.summary.id).await;
        assert_eq!(approvals(&now)[1], Approval::Pending, "it was given beside another limit");
        assert_eq!(now.summary.state, JobState::Proposed);
        assert_eq!(world.job(reserved.summary.id).await.summary.state, JobState::Queued, "what is reserved stays");
        assert_eq!(world.approved(now).await.summary.state, JobState::Queued);
    }

    async fn proposal_with_outdated_dataset_is_refused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, site) = (world.propose(world.spec(1)).await.unwrap(), &world.sites[1]);
        approve(&app.ctx, &site.steward, job.summary.id, site.dataset).await.unwrap();
        let registration = |records| DatasetRegistration {
            name: "speech".to_owned(),
            lineage: site.lineage,
            visibility: Visibility::Private,
            content: DatasetContent::Speech,
            inputs: 13,
            classes: 40,
            records: SizeClass(records),
            speakers: SizeClass(20),
            test_records: 0,
            seconds: None,
            users: None,
            table: None,
            units: usual_units(),
            approval: None,
        };
        register(&app.ctx, site.worker, &registration(500)).await.unwrap();
        assert_eq!(world.job(job.summary.id).await.summary.state, JobState::Proposed, "nothing has changed");
        register(&app.ctx, site.worker, &registration(2000)).await.unwrap();
        let refused = world.job(job.summary.id).await;
        assert_eq!(refused.summary.state, JobState::Refused);
        assert!(refused.reason.unwrap().contains("has changed since"));
    }

    async fn review_shows_manifest_cost_and_disclosures(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, site) = (world.propose(world.spec(2)).await.unwrap(), &world.sites[1]);
        let read = review(&app.ctx, &site.steward, job.summary.id, site.dataset).await.unwrap();
        let manifest: Manifest = read.manifest.open(&public_key(&read.server_key).unwrap()).unwrap();
        assert_eq!((manifest.job, read.manifest.digest(), &read.digest), (job.summary.id, job.manifest.clone(), &job.manifest));
        let cost = read.cost.unwrap();
        assert_eq!(cost.epsilon, job.participants[1].epsilon_reserved);
        assert!(cost.would_be.unwrap() >= cost.epsilon.unwrap());
        let disclosures_to = |observer| read.learned.iter().filter(move |row| row.observer == observer);
        let server: Vec<_> = disclosures_to(Observer::Server).map(|row| (row.form, row.times, row.epsilon)).collect();
        assert_eq!(server, [(DisclosureForm::Protected, 2, cost.epsilon)]);
        assert!(disclosures_to(Observer::Recipients).all(|row| row.form == DisclosureForm::Derived && row.epsilon == cost.epsilon));
        assert!(read.learned.iter().all(|row| row.form != DisclosureForm::Exact), "nothing of it leaves in the clear");
        let lead = review(&app.ctx, &site.steward, job.summary.id, world.sites[0].dataset).await.unwrap();
        assert!(lead.learned.iter().any(|row| row.form == DisclosureForm::Exact && row.epsilon.is_none()), "public data does");
        let absent = review(&app.ctx, &site.steward, job.summary.id, undertone_api::id::DatasetId(uuid::Uuid::nil())).await;
        assert_eq!(absent.unwrap_err().code(), Code::NotFound);
    }

    async fn speaker_budget_does_not_cover_record_job(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (lead, site) = (world.sites[0].steward.clone(), &world.sites[1]);
        let speakers = NewBudget {
            unit: PrivacyUnit::Speaker,
            epsilon: Epsilon::new(8.0).unwrap(),
            delta: Delta::new(1e-5).unwrap(),
            filter: None,
        };
        let registered = DatasetRegistration {
            name: "speakers only".to_owned(),
            lineage: app.ctx.id(),
            visibility: Visibility::Private,
            content: DatasetContent::Speech,
            inputs: 13,
            classes: 40,
            records: SizeClass(500),
            speakers: SizeClass(20),
            test_records: 0,
            seconds: None,
            users: None,
            table: None,
            units: usual_units(),
            approval: None,
        };
        let dataset = register(&app.ctx, site.worker, &registered).await.unwrap();
        budget::set(&app.ctx, &site.steward, dataset.id, speakers).await.unwrap();
        let mut spec = world.spec(2);
        spec.participants[1].dataset = dataset.id;
        let job = NewJob { title: "records".to_owned(), spec: Spec::DpSgd(spec) };
        let new = NewPlan { consortium: world.consortium, job: job.clone() };
        let planned = plan(&app.ctx, &lead, &new).await.unwrap();
        let units: Vec<_> = planned.refusals.iter().map(|refusal| refusal.unit).collect();
        assert!(!planned.admitted && units == [PrivacyUnit::Speaker, PrivacyUnit::Record], "{:?}", planned.refusals);
        let refused = propose(&app.ctx, &lead, world.consortium, job).await.unwrap_err();
        assert_eq!(refused.code(), Code::BudgetMissing);
        let message = refused.to_string();
        assert!(message.contains("lifetime limit for the unit `speaker`") && !message.contains("no budget"), "{message}");
        assert_eq!(jobs::list(&app.ctx, &lead, world.consortium, &PageQuery::default()).await.unwrap().items, []);
    }
}
