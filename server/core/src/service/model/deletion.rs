//! Deletion of a job's file: the bytes go, the record stays with its digest, the author, the time and the reason.
//!
//! The same bytes may lie in several jobs of a consortium: a warm start that a later job began with, a model that
//! another job evaluated. A deletion removes all copies. From then on jobs neither begin with these bytes nor evaluate
//! them, no lead stores them again, and a download is refused, each with the reason.

use std::collections::{BTreeSet, HashMap};

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, Condition, ConnectionTrait, EntityTrait as _, IntoActiveModel as _,
    QueryFilter as _, QueryOrder as _,
};
use serde_json::json;
use undertone_api::id::{ArtifactId, ConsortiumId, JobId, MemberId, OrganizationId};
use undertone_api::job::Spec;
use undertone_api::model::{Artifact, FileDeletion};
use undertone_api::problem::{Code, Violation};
use undertone_api::retirement::StatedReason;
use uuid::Uuid;

use super::storage;
use crate::auth::policy::Standing;
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{artifact, job, member, organization, participant};
use crate::rule::job::load_job;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};

/// Deletes the bytes of a file, and all copies of them in the consortium. Returns its record.
///
/// # Errors
/// 404 and 403 as usual, `validation_failed` for the reason, `wrong_state` when it was deleted already, or a job that
/// is not over has it, begins with it or evaluates it.
pub async fn delete(ctx: &Ctx, actor: &Actor, id: ArtifactId, stated: &StatedReason) -> Result<Artifact, Error> {
    let row = artifact::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    let row = row.ok_or_else(|| Error::not_found("file"))?;
    let consortium = load_job(ctx.db.read(), row.job_id.into()).await?.consortium_id;
    let place = Place::Consortium(ConsortiumId(consortium));
    policy::check(actor, Operation::DeleteModel, place)?;
    let copies = load_copies(ctx.db.read(), consortium, &row.digest).await?;
    check_owner(ctx, actor, place, &copies).await?;
    let violations = stated.check();
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let jobs = ctx
        .db
        .write("delete file", async |tx| {
            let copies = load_copies(tx, consortium, &row.digest).await?;
            check_state(tx, consortium, &row.digest, &copies).await?;
            let mut jobs = BTreeSet::new();
            for (file, job) in copies {
                jobs.insert(JobId(job.id));
                let file = artifact::Model {
                    deleted_at: Some(ctx.now()),
                    deleted_by: Some(actor.id().0),
                    deletion_reason: Some(stated.reason.trim().to_owned()),
                    ..file
                };
                file.into_active_model().reset_all().update(tx).await?;
            }
            let act = NewAuditEntry {
                by: AuditAuthor::from(actor),
                what: AuditAction::ModelDeleted,
                place,
                subject: Some(("job", row.job_id.to_string())),
                detail: json!({ "file": row.name, "digest": row.digest, "reason": stated.reason.trim() }),
            };
            audit_log::record(ctx, tx, act).await?;
            Ok(jobs)
        })
        .await?;
    for job in &jobs {
        // The periodic sweep removes bytes that remain here.
        if let Err(error) = storage::sweep(ctx, *job).await {
            tracing::warn!(job.id = %job, error = &error as &dyn std::error::Error, "cannot remove a deleted file yet");
        }
        ctx.changes().notify_job(*job);
    }
    // The jobs are over, and their consortium shows the files.
    ctx.changes().notify_display();
    tracing::info!(artifact.id = %id, jobs = jobs.len(), "a file was deleted");
    let files = super::of_jobs(ctx.db.read(), [row.job_id]).await?.remove(&row.job_id);
    files.into_iter().flatten().find(|file| file.id == id).ok_or_else(|| Error::not_found("file"))
}

/// Returns the files of a consortium's jobs with a digest and their jobs, the first made first.
pub(super) async fn load_copies(
    connection: &impl ConnectionTrait,
    consortium: Uuid,
    digest: &str,
) -> Result<Vec<(artifact::Model, job::Model)>, Error> {
    find_files(connection, consortium, Condition::all().add(artifact::Column::Digest.eq(digest))).await
}

/// Returns a deleted file of a consortium's jobs with a digest, and its job.
async fn find_deleted(
    connection: &impl ConnectionTrait,
    consortium: Uuid,
    digest: &str,
) -> Result<Option<(artifact::Model, job::Model)>, Error> {
    let deleted = artifact::Column::DeletedAt.is_not_null();
    let selected = Condition::all().add(artifact::Column::Digest.eq(digest)).add(deleted);
    Ok(find_files(connection, consortium, selected).await?.into_iter().next())
}

/// Returns the files of a consortium's jobs that a condition selects and their jobs, the first made first.
async fn find_files(
    connection: &impl ConnectionTrait,
    consortium: Uuid,
    selected: Condition,
) -> Result<Vec<(artifact::Model, job::Model)>, Error> {
    let rows = artifact::Entity::find()
        .filter(selected)
        .order_by_asc(artifact::Column::CreatedAt)
        .order_by_asc(artifact::Column::Name)
        .all(connection)
        .await?;
    let makers: BTreeSet<Uuid> = rows.iter().map(|row| row.job_id).collect();
    let jobs = job::Entity::find()
        .filter(job::Column::Id.is_in(makers))
        .filter(job::Column::ConsortiumId.eq(consortium))
        .all(connection)
        .await?;
    let job_of = |row: &artifact::Model| jobs.iter().find(|job| job.id == row.job_id).cloned();
    Ok(rows.into_iter().filter_map(|row| Some((job_of(&row)?, row))).map(|(job, row)| (row, job)).collect())
}

/// Checks that the caller is an admin of the consortium, or of the organization whose worker stored the file first.
async fn check_owner(
    ctx: &Ctx,
    actor: &Actor,
    place: Place,
    copies: &[(artifact::Model, job::Model)],
) -> Result<(), Error> {
    if Standing::list_for(actor, place).contains(&Standing::ConsortiumAdmin) {
        return Ok(());
    }
    let Some((_, made)) = copies.first() else { return Err(Error::not_found("file")) };
    let lead = participant::Entity::find()
        .filter(participant::Column::JobId.eq(made.id))
        .filter(participant::Column::Position.eq(0))
        .one(ctx.db.read())
        .await?;
    let Some(lead) = lead else { return Err(Error::not_found("file")) };
    let owner = Place::Organization(OrganizationId(lead.organization_id));
    if Standing::list_for(actor, owner).contains(&Standing::OrganizationAdmin) {
        return Ok(());
    }
    let owner = organization::Entity::find_by_id(lead.organization_id).one(ctx.db.read()).await?;
    let owner = owner.map_or_else(String::new, |owner| owner.name);
    Err(Error::forbidden(format!(
        "this file was stored by {owner}: ask an admin of {owner} or of the consortium to delete it"
    )))
}

/// Checks that no job needs the file, and that it was not deleted before.
async fn check_state(
    connection: &impl ConnectionTrait,
    consortium: Uuid,
    digest: &str,
    copies: &[(artifact::Model, job::Model)],
) -> Result<(), Error> {
    if let Some(reason) = copies.iter().find_map(|(file, _)| file.deletion_reason()) {
        return Err(Error::wrong_state(format!("the file was deleted already: {reason}")));
    }
    let running = |job: &job::Model| {
        let title = &job.title;
        Error::wrong_state(format!(
            "the job {title:?} is not over and needs this file: cancel the job, or wait for its end"
        ))
    };
    if let Some((_, job)) = copies.iter().find(|(_, job)| !job.state.is_over()) {
        return Err(running(job));
    }
    let open = job::Entity::find()
        .filter(job::Column::ConsortiumId.eq(consortium))
        .filter(job::Column::FinishedAt.is_null())
        .all(connection)
        .await?;
    let reads = |job: &&job::Model| !job.state.is_over() && job.spec.read_model() == Some(digest);
    open.iter().find(reads).map_or(Ok(()), |job| Err(running(job)))
}

/// Returns the violation of a proposal that reads a deleted file.
///
/// # Errors
/// When the database fails.
pub(crate) async fn violations(
    connection: &impl ConnectionTrait,
    consortium: ConsortiumId,
    spec: &Spec,
) -> Result<Vec<Violation>, Error> {
    let Some(digest) = spec.read_model() else { return Ok(Vec::new()) };
    let deleted = find_deleted(connection, consortium.0, digest).await?;
    let field = if spec.initial_file().is_some() { "spec.initial_model" } else { "spec.model" };
    let violation = |(file, job): (artifact::Model, job::Model)| Violation::new(field, describe(&file, &job.title));
    Ok(deleted.map(violation).into_iter().collect())
}

/// Checks that no file with the digest was deleted in the consortium, before a lead stores one.
///
/// # Errors
/// `forbidden` with the reason of the deletion.
pub(super) async fn check_upload(connection: &impl ConnectionTrait, job: JobId, digest: &str) -> Result<(), Error> {
    let consortium = load_job(connection, job).await?.consortium_id;
    match find_deleted(connection, consortium, digest).await? {
        Some((file, made)) => Err(Error::forbidden(describe(&file, &made.title))),
        None => Ok(()),
    }
}

/// Describes a deleted file.
pub(super) fn describe(file: &artifact::Model, title: &str) -> String {
    let name = &file.name;
    let reason = file.deletion_reason().filter(|reason| !reason.is_empty());
    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    format!("{name:?} of the job {title:?} was deleted{reason}: choose another model of the Models page")
}

/// Returns the refusal of a download, if the bytes were deleted.
pub(super) fn check_kept(file: &artifact::Model, title: &str) -> Result<(), Error> {
    match file.deletion_reason() {
        Some(_) => Err(Error::problem(Code::NotFound, describe(file, title))),
        None => Ok(()),
    }
}

/// Returns the deletions of files, by the id of the file.
pub(super) async fn load_deletions(
    connection: &impl ConnectionTrait,
    files: &[artifact::Model],
) -> Result<HashMap<Uuid, FileDeletion>, Error> {
    let authors: BTreeSet<Uuid> = files.iter().filter_map(|file| file.deleted_by).collect();
    if authors.is_empty() {
        return Ok(HashMap::new());
    }
    let members = member::Entity::find().filter(member::Column::Id.is_in(authors)).all(connection).await?;
    let name_of = |id: Uuid| members.iter().find(|member| member.id == id).map(|member| member.name.clone());
    let deletion = |file: &artifact::Model| {
        let by = file.deleted_by?;
        let reason = file.deletion_reason()?.to_owned();
        let by_name = name_of(by).unwrap_or_default();
        Some((file.id, FileDeletion { at: file.deleted_at?, by: MemberId(by), by_name, reason }))
    };
    Ok(files.iter().filter_map(deletion).collect())
}

#[cfg(test)]
mod tests;
