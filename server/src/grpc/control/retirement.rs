//! Retirement and restoration, by the kind of the subject.

use prost_types::Struct;
use serde::Serialize;
use tonic::Status;
use undertone_api::id::{ConsortiumId, MemberId, OrganizationId, WorkerId};
use undertone_api::problem::Violation;
use undertone_api::retirement::StatedReason;
use undertone_proto::document;
use undertone_proto::v1::access_subject::Subject;
use undertone_proto::v1::{AccessSubject, JoinedSubject, OwnedSubject};

use super::message::id;
use crate::grpc::convert::{fail, texts};
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::error::Error;
use undertone_server_core::service::retirement;

/// The subject of a retirement or a restoration, by its ids.
enum AccessTarget {
    Worker(OrganizationId, WorkerId),
    Member(OrganizationId, MemberId),
    Organization(ConsortiumId, OrganizationId),
    Account(MemberId),
}

impl AccessTarget {
    fn parse(subject: Option<AccessSubject>) -> Result<Self, Status> {
        const ORGANIZATION: &str = "subject.organization";
        let missing = || {
            let violation = Violation::new("subject", "name a worker, a member, an organization or an account");
            fail(Error::validation(vec![violation]))
        };
        Ok(match subject.and_then(|subject| subject.subject).ok_or_else(missing)? {
            Subject::Worker(OwnedSubject { organization, id: worker }) => {
                Self::Worker(id(&organization, ORGANIZATION)?, id(&worker, "subject.id")?)
            }
            Subject::Member(OwnedSubject { organization, id: member }) => {
                Self::Member(id(&organization, ORGANIZATION)?, id(&member, "subject.id")?)
            }
            Subject::Organization(JoinedSubject { consortium, organization }) => {
                Self::Organization(id(&consortium, "subject.consortium")?, id(&organization, ORGANIZATION)?)
            }
            Subject::Account(member) => Self::Account(id(&member, "subject.account")?),
        })
    }
}

/// Retires a subject; returns it in REST's form.
pub(super) async fn retire(
    ctx: &Ctx,
    actor: &Actor,
    subject: Option<AccessSubject>,
    reason: String,
) -> Result<Option<Struct>, Status> {
    texts([&*reason])?;
    let stated = StatedReason { reason };
    match AccessTarget::parse(subject)? {
        AccessTarget::Worker(organization, worker) => {
            to_document(retirement::retire_worker(ctx, actor, organization, worker, &stated).await)
        }
        AccessTarget::Member(organization, member) => {
            to_document(retirement::retire_member(ctx, actor, organization, member, &stated).await)
        }
        AccessTarget::Organization(consortium, organization) => {
            to_document(retirement::retire_organization(ctx, actor, consortium, organization, &stated).await)
        }
        AccessTarget::Account(member) => to_document(retirement::retire_account(ctx, actor, member, &stated).await),
    }
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
    match AccessTarget::parse(subject)? {
        AccessTarget::Worker(organization, worker) => {
            to_document(retirement::restore_worker(ctx, actor, organization, worker, &stated).await)
        }
        AccessTarget::Member(organization, member) => {
            to_document(retirement::restore_member(ctx, actor, organization, member, &stated).await)
        }
        AccessTarget::Organization(consortium, organization) => {
            to_document(retirement::restore_organization(ctx, actor, consortium, organization, &stated).await)
        }
        AccessTarget::Account(member) => to_document(retirement::restore_account(ctx, actor, member, &stated).await),
    }
}

/// Converts the answer of an operation to a document.
fn to_document<T: Serialize>(answer: Result<T, Error>) -> Result<Option<Struct>, Status> {
    Ok(document::to_struct(&answer.map_err(fail)?))
}
