//! Retirement and restoration, by the kind of the subject.

use prost_types::Struct;
use tonic::Status;
use undertone_api::problem::Violation;
use undertone_api::retirement::StatedReason;
use undertone_proto::document;
use undertone_proto::v1::access_subject::Subject;
use undertone_proto::v1::{AccessSubject, JoinedSubject, OwnedSubject};

use super::message::id;
use crate::grpc::worker_gateway::{fail, texts};
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::error::Error;
use undertone_server_core::service::retirement;

/// Retires a subject; returns it in REST's form.
pub(super) async fn retire(
    ctx: &Ctx,
    actor: &Actor,
    subject: Option<AccessSubject>,
    reason: String,
) -> Result<Option<Struct>, Status> {
    texts([&*reason])?;
    let stated = StatedReason { reason };
    Ok(match named(subject)? {
        Subject::Worker(OwnedSubject { organization, id: worker }) => {
            let (organization, worker) = (id(&organization, "subject.organization")?, id(&worker, "subject.id")?);
            let retired = retirement::retire_worker(ctx, actor, organization, worker, &stated).await;
            document::of(&retired.map_err(fail)?)
        }
        Subject::Member(OwnedSubject { organization, id: member }) => {
            let (organization, member) = (id(&organization, "subject.organization")?, id(&member, "subject.id")?);
            let retired = retirement::retire_member(ctx, actor, organization, member, &stated).await;
            document::of(&retired.map_err(fail)?)
        }
        Subject::Organization(JoinedSubject { consortium, organization }) => {
            let consortium = id(&consortium, "subject.consortium")?;
            let organization = id(&organization, "subject.organization")?;
            let retired = retirement::retire_organization(ctx, actor, consortium, organization, &stated).await;
            document::of(&retired.map_err(fail)?)
        }
        Subject::Account(member) => {
            let member = id(&member, "subject.account")?;
            let retired = retirement::retire_account(ctx, actor, member, &stated).await;
            document::of(&retired.map_err(fail)?)
        }
    })
}

/// Restores a subject; returns it in REST's form.
pub(super) async fn restore(
    ctx: &Ctx,
    actor: &Actor,
    subject: Option<AccessSubject>,
    reason: String,
) -> Result<Option<Struct>, Status> {
    texts([&*reason])?;
    let stated = StatedReason { reason };
    Ok(match named(subject)? {
        Subject::Worker(OwnedSubject { organization, id: worker }) => {
            let (organization, worker) = (id(&organization, "subject.organization")?, id(&worker, "subject.id")?);
            let restored = retirement::restore_worker(ctx, actor, organization, worker, &stated).await;
            document::of(&restored.map_err(fail)?)
        }
        Subject::Member(OwnedSubject { organization, id: member }) => {
            let (organization, member) = (id(&organization, "subject.organization")?, id(&member, "subject.id")?);
            let restored = retirement::restore_member(ctx, actor, organization, member, &stated).await;
            document::of(&restored.map_err(fail)?)
        }
        Subject::Organization(JoinedSubject { consortium, organization }) => {
            let consortium = id(&consortium, "subject.consortium")?;
            let organization = id(&organization, "subject.organization")?;
            let restored = retirement::restore_organization(ctx, actor, consortium, organization, &stated).await;
            document::of(&restored.map_err(fail)?)
        }
        Subject::Account(member) => {
            let member = id(&member, "subject.account")?;
            let restored = retirement::restore_account(ctx, actor, member, &stated).await;
            document::of(&restored.map_err(fail)?)
        }
    })
}

fn named(subject: Option<AccessSubject>) -> Result<Subject, Status> {
    let missing = || {
        let violation = Violation::new("subject", "name a worker, a member, an organization or an account");
        fail(Error::validation(vec![violation]))
    };
    subject.and_then(|subject| subject.subject).ok_or_else(missing)
}
