#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use object_store::ObjectStoreExt as _;
use sea_orm::EntityTrait as _;
use sha2::{Digest as _, Sha256};
use undertone_api::audit_log::AuditAction;
use undertone_api::id::{ArtifactId, JobId};
use undertone_api::job::{NewJob, Spec, dp_sgd, evaluation};
use undertone_api::member::{Role, RoleGrant, RoleScope};
use undertone_api::problem::Code;
use undertone_api::retirement::StatedReason;

use super::delete;
use crate::auth::Actor;
use crate::exchange::artifact as files;
use crate::model::audit_log;
use crate::model::column::ColumnEnum as _;
use crate::service::world::TestConsortium;
use crate::service::world::finished::{MODEL, continued, end, finished, submitted};
use crate::service::{job, model};
use crate::testing::on_both;

fn reason() -> StatedReason {
    StatedReason { reason: " a speaker withdrew ".to_owned() }
}

fn digest() -> String {
    hex::encode(Sha256::digest(MODEL))
}

async fn file_of(world: &TestConsortium, job: JobId) -> ArtifactId {
    let files = model::list(&world.ctx, &world.sites[0].steward, job).await.unwrap();
    files.iter().find(|file| file.name == "model.safetensors").unwrap().id
}

/// Returns the text of the refusal of a proposal at a field.
async fn refusal(world: &TestConsortium, spec: Spec, field: &str) -> String {
    let new = NewJob { title: "another".to_owned(), spec };
    let error = job::propose(&world.ctx, &world.sites[0].steward, world.consortium, new).await.unwrap_err();
    let violations = error.into_problem().violations;
    violations.into_iter().find(|violation| violation.field == field).unwrap().message
}

on_both! {
    async fn deleted_model_is_refused_with_the_reason(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let first = finished(&mut world, 1).await.summary.id;
        app.clock.advance(time::Duration::HOUR);
        // The later job stores a copy of the model, as a warm start without epochs does.
        let later = continued(&mut world, MODEL, MODEL).await.summary.id;
        let owner = world.sites[0].steward.clone();
        let id = file_of(&world, first).await;
        let file = delete(&app.ctx, &owner, id, &reason()).await.unwrap();
        let deletion = file.deletion.unwrap();
        assert_eq!((&*deletion.reason, deletion.by, deletion.at), ("a speaker withdrew", owner.id(), app.ctx.now()));
        assert_eq!((file.digest, file.size), (digest(), MODEL.len() as u64), "the record stays");
        for job in [first, later] {
            let object = app.ctx.store.head(&files::path(job, &digest())).await;
            assert!(matches!(object, Err(object_store::Error::NotFound { .. })), "all copies are gone");
        }
        let refused = model::take(&app.ctx, &owner, file_of(&world, later).await).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
        assert!(refused.to_string().contains("a speaker withdrew"), "{refused}");

        let spec = dp_sgd::Spec { initial_model: Some(digest()), ..world.spec(1) };
        let message = refusal(&world, Spec::DpSgd(spec), "spec.initial_model").await;
        assert!(message.contains("a speaker withdrew"), "{message}");
        let spec: evaluation::Spec = serde_json::from_value(serde_json::json!({
            "unit": "record", "model": digest(), "classes": [1], "noise_multiplier": 4.0,
            "participants": [{ "dataset": world.sites[0].dataset }, { "dataset": world.sites[1].dataset }],
        }))
        .unwrap();
        let message = refusal(&world, Spec::Evaluation(spec), "spec.model").await;
        assert!(message.contains("a speaker withdrew"), "{message}");

        let again = delete(&app.ctx, &owner, id, &reason()).await.unwrap_err();
        assert_eq!(again.code(), Code::WrongState);
        let log = audit_log::Entity::find().all(app.ctx.db.read()).await.unwrap();
        let entries = log.iter().filter(|entry| entry.what == AuditAction::ModelDeleted.to_text());
        assert_eq!(entries.count(), 1);
        // The bytes never return, by whatever name: `submitted` stores the same content.
        let job = world.queued(1).await;
        let lease = world.lease(0).await;
        let header = model::ArtifactHeader {
            lease,
            name: "other".to_owned(),
            size: MODEL.len() as u64,
            digest: digest(),
        };
        let mut upload = model::begin(&app.ctx, world.sites[0].worker, header).await.unwrap();
        upload.write(MODEL).await.unwrap();
        let error = upload.accept(&app.ctx).await.unwrap_err();
        assert!(error.code() == Code::Forbidden && error.to_string().contains("a speaker withdrew"), "{error}");
        assert!(app.ctx.store.head(&files::path(job.summary.id, &digest())).await.is_err());
    }

    async fn deletion_needs_its_role_a_reason_and_an_ended_job(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let leases = submitted(&mut world, &job, 1).await;
        let id = file_of(&world, job.summary.id).await;
        let owner = world.sites[0].steward.clone();
        let code = async |actor: &Actor, reason: &StatedReason| delete(&app.ctx, actor, id, reason).await.unwrap_err();
        let running = code(&owner, &reason()).await;
        assert!(running.code() == Code::WrongState && running.to_string().contains("is not over"), "{running}");
        for site in [1, 2, 0] {
            end(&world, site, &leases[site]).await;
        }
        let other = code(&world.sites[1].steward, &reason()).await;
        assert!(other.code() == Code::Forbidden && other.to_string().contains("was stored by party 0"), "{other}");
        let mut researcher = owner.clone();
        researcher.member.grants.retain(|grant| grant.role == Role::Researcher);
        assert_eq!(code(&researcher, &reason()).await.code(), Code::Forbidden);
        assert_eq!(code(&owner, &StatedReason { reason: " ".to_owned() }).await.code(), Code::ValidationFailed);
        // A job that begins with the model, and is not over, needs it.
        let spec = dp_sgd::Spec { initial_model: Some(digest()), ..world.spec(1) };
        let waiting = world.propose(spec).await.unwrap().summary.id;
        assert_eq!(code(&owner, &reason()).await.code(), Code::WrongState);
        job::cancel(&app.ctx, &owner, waiting).await.unwrap();
        let mut admin = world.sites[1].steward.clone();
        admin.member.grants =
            vec![RoleGrant { scope: RoleScope::Consortium(world.consortium), role: Role::ConsortiumAdmin }];
        assert!(delete(&app.ctx, &admin, id, &reason()).await.is_ok());
    }
}
