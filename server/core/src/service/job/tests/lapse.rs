//! Expiry, clones and retries.

use sea_orm::{ColumnTrait as _, EntityTrait as _, PaginatorTrait as _, QueryFilter as _};
use time::Duration;
use undertone_api::job::{JobState, PauseRequest};
use undertone_api::problem::Code;

use crate::model::{audit_log, job};
use crate::service::approval::approve;
use crate::service::job::{cancel, clone_spec, lapse, pause, retry};
use crate::service::world::TestConsortium;
use crate::testing::{TestApp, on_both, refuse_entries};

on_both! {
    async fn unanswered_proposal_is_refused_after_fourteen_days(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.propose(world.spec(1)).await.unwrap();
        let id = job.summary.id;
        assert_eq!(job.answer_by, Some(job.summary.created_at + Duration::days(14)));
        approve(&app.ctx, &world.sites[1].steward, id, world.sites[1].dataset).await.unwrap();
        app.clock.advance(Duration::days(14));
        lapse(&app.ctx).await.unwrap();
        assert_eq!(world.job(id).await.summary.state, JobState::Proposed, "its last moment");
        app.clock.advance(Duration::seconds(1));
        for _ in 0..2 {
            lapse(&app.ctx).await.unwrap();
        }
        let over = world.job(id).await;
        assert_eq!((over.summary.state, over.answer_by), (JobState::Refused, None));
        let reason = over.reason.unwrap();
        assert!(reason.contains("within 14 days") && reason.contains("speech"), "{reason}");
        let late = approve(&app.ctx, &world.sites[2].steward, id, world.sites[2].dataset).await.unwrap_err();
        assert_eq!(late.code(), Code::WrongState);
    }

    async fn a_job_ends_with_its_manifest_even_while_it_is_paused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, lead) = (world.queued(1).await, world.sites[0].steward.clone());
        let id = job.summary.id;
        pause(&app.ctx, &lead, id, &PauseRequest { reason: "for a long time".to_owned() }).await.unwrap();
        app.clock.advance(Duration::days(30));
        lapse(&app.ctx).await.unwrap();
        assert_eq!(world.job(id).await.summary.state, JobState::Paused);
        // The manifest adds a minute for its one round.
        app.clock.advance(Duration::seconds(61));
        lapse(&app.ctx).await.unwrap();
        assert_eq!(world.job(id).await.summary.state, JobState::Failed);
        let account = world.account(1).await;
        assert_eq!(account.committed, account.spent, "what nobody touched comes back");
    }

    async fn retry_has_same_spec_and_new_manifest_to_approve(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (first, lead) = (world.queued(2).await, world.sites[0].steward.clone());
        let id = first.summary.id;
        let early = retry(&app.ctx, &lead, id).await.unwrap_err();
        assert!(early.code() == Code::WrongState && early.to_string().contains("cloned"), "{early}");
        cancel(&app.ctx, &lead, id).await.unwrap();
        let second = retry(&app.ctx, &lead, id).await.unwrap();
        assert_eq!((&second.spec, second.summary.state), (&first.spec, JobState::Proposed));
        assert_ne!(second.manifest, first.manifest);
        assert_eq!(second.participants[1].approval, undertone_api::job::Approval::Pending);
        let notes = audit_log::Entity::find()
            .filter(audit_log::Column::What.eq("job_retried"))
            .all(app.ctx.db.read())
            .await
            .unwrap();
        let [note] = &notes[..] else { panic!("one note of one retry: {notes:?}") };
        assert!(note.detail.contains(&id.to_string()), "{note:?}");
        assert_eq!(note.subject_id, Some(second.summary.id.to_string()));
    }

    async fn a_retry_that_cannot_be_noted_is_not_proposed(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let (first, lead) = (world.queued(1).await, world.sites[0].steward.clone());
        cancel(&app.ctx, &lead, first.summary.id).await.unwrap();
        let jobs = async || job::Entity::find().count(app.ctx.db.read()).await.unwrap();
        let before = jobs().await;
        refuse_entries(&app.ctx, "job_retried").await;
        retry(&app.ctx, &lead, first.summary.id).await.unwrap_err();
        assert_eq!(jobs().await, before, "a job and its note come together or not at all");
    }

    async fn clone_is_a_draft_with_spec_and_without_answers(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (job, lead) = (world.queued(2).await, world.sites[0].steward.clone());
        let draft = clone_spec(&app.ctx, &lead, job.summary.id).await.unwrap();
        assert_eq!(draft.content.parsed().as_ref(), Ok(&job.spec));
        assert_eq!((draft.cloned_from, draft.version), (Some(job.summary.id), 1));
        assert_eq!(draft.violations, [], "it could be proposed as it is");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_says_within_how_many_days_owners_answer() {
    let app = TestApp::sqlite_with(|config| config.answer_days = 3).await;
    let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
    let job = world.propose(world.spec(1)).await.unwrap();
    assert_eq!(job.answer_by, Some(job.summary.created_at + Duration::days(3)));
    app.clock.advance(Duration::days(3) + Duration::seconds(1));
    lapse(&app.ctx).await.unwrap();
    let over = world.job(job.summary.id).await;
    assert_eq!(over.summary.state, JobState::Refused);
    assert!(over.reason.unwrap().contains("within 3 days"));
    app.close().await;
}
