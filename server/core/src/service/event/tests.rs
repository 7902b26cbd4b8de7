#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::time::Duration;

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::event::{ConsortiumEvent, JobEvent};
use undertone_api::id::JobId;
use undertone_api::job::JobState;
use undertone_api::problem::Code;
use uuid::Uuid;

use super::{EventStream, LEAST, watch};
use crate::auth::{Actor, Operation};
use crate::config::Config;
use crate::ctx::{MOST_STREAMS, StreamSubject, SubjectState};
use crate::model::role::ScopeKind;
use crate::model::{member, role};
use crate::service::world::TestConsortium;
use crate::service::{api_key, approval, change, job, session};
use crate::testing::{HERE, TestApp, on_both};
use undertone_api::member::Role;

const READ: Operation = Operation::ReadJob;

/// Signs in the steward of a site as a member with the steward's roles: a stream rechecks them.
async fn sign_in(app: &TestApp, world: &TestConsortium, site: usize) -> Actor {
    use sea_orm::{ActiveModelTrait as _, IntoActiveModel as _};
    let steward = &world.sites[site].steward;
    let (id, organization) = (steward.id(), steward.organizations()[0]);
    let tokens = app
        .ctx
        .db
        .write("test", async |tx| {
            let row = member::Model {
                id: id.0,
                name: steward.member.name.clone(),
                email: format!("{id}@example.org"),
                password_hash: String::new(),
                operator: false,
                created_at: app.ctx.now(),
                retired_at: None,
                address_confirmed_at: None,
            };
            row.into_active_model().insert(tx).await?;
            let row = role::Model {
                member_id: id.0,
                scope: ScopeKind::Organization.into(),
                scope_id: organization.0,
                role: Role::DataSteward.into(),
            };
            row.into_active_model().insert(tx).await?;
            session::begin(&app.ctx, tx, id, &HERE.into()).await
        })
        .await
        .unwrap();
    session::authenticate(&app.ctx, &tokens.access_token).await.unwrap()
}

/// Returns the next event; the test fails without one within a minute.
async fn next(events: &mut EventStream) -> Option<std::sync::Arc<SubjectState>> {
    tokio::time::timeout(Duration::from_mins(1), events.next()).await.expect("something is told in time")
}

async fn state_of(events: &mut EventStream) -> (String, JobState) {
    let update = next(events).await.expect("the stream goes on");
    let event: JobEvent = serde_json::from_str(&update.json).unwrap();
    assert_eq!(event.job.state, event.progress.state);
    (update.version.clone(), event.job.state)
}

on_both! {
    async fn a_stream_tells_the_present_first_and_then_every_other_state(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let actor = sign_in(app, &world, 1).await;
        let proposed = world.propose(world.spec(2)).await.unwrap();
        let subject = StreamSubject::Job(proposed.summary.id);
        let mut events = watch(&app.ctx, &actor, HERE, subject, READ, None).await.unwrap();
        let (first, state) = state_of(&mut events).await;
        assert_eq!(state, JobState::Proposed);
        approval::approve(&app.ctx, &world.sites[1].steward, proposed.summary.id, world.sites[1].dataset).await.unwrap();
        let (second, state) = state_of(&mut events).await;
        assert!(first != second && state == JobState::Queued, "{state:?}");

        // A subscriber with an old version receives the present state; with the present version, only new ones.
        let mut back = watch(&app.ctx, &actor, HERE, subject, READ, Some(first)).await.unwrap();
        assert_eq!(state_of(&mut back).await, (second.clone(), JobState::Queued));
        let mut current = watch(&app.ctx, &actor, HERE, subject, READ, Some(second)).await.unwrap();
        job::cancel(&app.ctx, &world.sites[0].steward, proposed.summary.id).await.unwrap();
        assert_eq!(state_of(&mut current).await.1, JobState::Cancelled);
    }

    async fn job_is_not_looked_at_for_another_jobs_change(app: &TestApp) {
        let (one, other) = (JobId(Uuid::from_u128(1)), JobId(Uuid::from_u128(2)));
        let is_notified = |change: fn(&crate::ctx::ChangeNotifier, JobId)| {
            let waiters = [one, other].map(|job| app.ctx.changes().subscribe_to_job_display(job));
            change(app.ctx.changes(), one);
            waiters.map(|waiter| waiter.has_changed())
        };
        assert_eq!(is_notified(crate::ctx::ChangeNotifier::notify_job), [true, false]);
        assert_eq!(is_notified(crate::ctx::ChangeNotifier::notify_job_display), [true, false]);
        assert_eq!(is_notified(|notifier, _| notifier.notify()), [true, true]);
        assert_eq!(is_notified(|notifier, _| notifier.notify_standings()), [true, true]);
    }

    async fn consortium_is_looked_at_after_changes_of_its_own_only(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let actor = sign_in(app, &world, 1).await;
        let own = world.propose(world.spec(2)).await.unwrap().summary.id;
        let subject = StreamSubject::Consortium(world.consortium);
        let mut events = watch(&app.ctx, &actor, HERE, subject, READ, None).await.unwrap();
        assert!(next(&mut events).await.is_some());
        let before = app.ctx.db.statements();
        let foreign = JobId(Uuid::from_u128(own.0.as_u128() ^ 1));
        app.ctx.changes().notify_job(foreign);
        // A look at an event would have begun by now.
        tokio::time::sleep(LEAST + Duration::from_millis(200)).await;
        assert_eq!(app.ctx.db.statements(), before, "nothing of this consortium has changed");
        app.ctx.changes().notify_job(own);
        let looked = async {
            while app.ctx.db.statements() == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), looked).await.expect("its own job has changed");
        drop(events);
    }

    /// Another server on the same database sends no change notification to this process.
    async fn what_another_replica_does_is_told_as_well(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let actor = sign_in(app, &world, 1).await;
        let proposed = world.propose(world.spec(2)).await.unwrap();
        let other = app.restarted().await;
        for replica in [&app.ctx, &other] {
            tokio::spawn(change::exchange_changes(replica.clone()));
        }
        let mut events = watch(&app.ctx, &actor, HERE, StreamSubject::Job(proposed.summary.id), READ, None).await.unwrap();
        assert_eq!(state_of(&mut events).await.1, JobState::Proposed);
        job::cancel(&other, &world.sites[0].steward, proposed.summary.id).await.unwrap();
        assert_eq!(state_of(&mut events).await.1, JobState::Cancelled);
        other.shutdown.cancel();
        other.db.clone().close().await.unwrap();
    }

    async fn consortium_stream_sends_jobs_and_other_changes(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let actor = sign_in(app, &world, 1).await;
        let subject = StreamSubject::Consortium(world.consortium);
        let mut events = watch(&app.ctx, &actor, HERE, subject, READ, None).await.unwrap();
        let jobs = async |events: &mut EventStream| {
            let update = next(events).await.expect("the stream goes on");
            serde_json::from_str::<ConsortiumEvent>(&update.json).unwrap().jobs.len()
        };
        assert_eq!(jobs(&mut events).await, 0);
        world.propose(world.spec(2)).await.unwrap();
        assert_eq!(jobs(&mut events).await, 1);
        world.set_budget(&world.sites[1], 60.0).await.unwrap();
        assert_eq!(jobs(&mut events).await, 1, "the budget is another, the jobs are the same");
    }

    async fn stream_ends_with_session_right_or_server(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (one, two) = (sign_in(app, &world, 1).await, sign_in(app, &world, 2).await);
        let id = world.propose(world.spec(2)).await.unwrap().summary.id;
        let mut first = watch(&app.ctx, &one, HERE, StreamSubject::Job(id), READ, None).await.unwrap();
        let mut second = watch(&app.ctx, &two, HERE, StreamSubject::Job(id), READ, None).await.unwrap();
        assert!(next(&mut first).await.is_some() && next(&mut second).await.is_some());
        session::sign_out(&app.ctx, &one).await.unwrap();
        app.ctx.db.write("test", async |tx| {
            Ok(role::Entity::delete_many().filter(role::Column::MemberId.eq(two.id().0)).exec(tx).await?)
        }).await.unwrap();
        app.ctx.changes().notify_standings();
        job::cancel(&app.ctx, &world.sites[0].steward, id).await.unwrap();
        assert_eq!(next(&mut first).await, None, "the session is over");
        assert_eq!(next(&mut second).await, None, "the role is gone");
        let three = sign_in(app, &world, 0).await;
        let mut third = watch(&app.ctx, &three, HERE, StreamSubject::Job(id), READ, None).await.unwrap();
        assert!(next(&mut third).await.is_some());
        app.ctx.shutdown.cancel();
        assert_eq!(next(&mut third).await, None, "the server stops");
    }

    async fn key_stream_ends_when_owner_lacks_required_second_factor(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let owner = sign_in(app, &world, 1).await;
        let new = NewApiKey { name: "a program".to_owned(), scopes: vec![KeyScope::Read], days: 30 };
        let secret = api_key::create(&app.ctx, &owner, &new).await.unwrap().secret.unwrap();
        let program = session::authenticate(&app.ctx, &secret).await.unwrap();
        let subject = StreamSubject::Job(world.propose(world.spec(2)).await.unwrap().summary.id);
        let mut events = watch(&app.ctx, &program, HERE, subject, READ, None).await.unwrap();
        assert!(next(&mut events).await.is_some());
        let strict = app.restarted_with(Config { require_two_factor: true, ..app.ctx.config.clone() }).await;
        let mut events = watch(&strict, &program, HERE, subject, READ, None).await.unwrap();
        assert_eq!(next(&mut events).await, None, "its owner has none");
        strict.shutdown.cancel();
        strict.db.clone().close().await.unwrap();
    }

    async fn stream_without_right_or_above_limit_is_refused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let stranger = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let actor = sign_in(app, &world, 1).await;
        let id = world.propose(world.spec(2)).await.unwrap().summary.id;
        let code = async |actor: &Actor, subject| watch(&app.ctx, actor, HERE, subject, READ, None).await.err().map(|error| error.code());
        let other = sign_in(app, &stranger, 1).await;
        assert_eq!(code(&other, StreamSubject::Job(id)).await, Some(Code::NotFound));
        assert_eq!(code(&other, StreamSubject::Consortium(world.consortium)).await, Some(Code::NotFound));
        assert_eq!(code(&actor, StreamSubject::Job(JobId(Uuid::nil()))).await, Some(Code::NotFound));
        let mut open = Vec::new();
        for _ in 0..MOST_STREAMS {
            open.push(watch(&app.ctx, &actor, HERE, StreamSubject::Job(id), READ, None).await.unwrap());
        }
        assert_eq!(code(&actor, StreamSubject::Job(id)).await, Some(Code::RateLimited));
        open.pop();
        assert_eq!(code(&actor, StreamSubject::Job(id)).await, None, "one that is closed makes room");
    }
}
