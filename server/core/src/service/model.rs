//! Files of jobs: stored by the lead, fetched by the other participants, and downloaded by members as the model.

pub mod archive;
pub mod card;
mod classifier;
pub mod compare;
pub mod deletion;
pub mod initial;
mod list;
mod record;
pub(crate) mod storage;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use object_store::path::Path;
use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _,
    PaginatorTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _,
};
use serde_json::json;
use undertone_api::id::{ArtifactId, ConsortiumId, JobId, WorkerId};
use undertone_api::job::Spec;
use undertone_api::model::{Artifact, ModelSource, PersonalMarkScan};
use undertone_api::problem::{Code, Violation};
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::exchange::artifact::{self as files, MAX_FILES, MAX_SIZE};
use crate::exchange::object::{self, ObjectUpload};
use crate::model::column::JsonColumn;
use crate::model::{artifact, job, participant};
use crate::rule::job::{load_job, load_readable_job};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::round::object_error;
use crate::service::{audit, lease};

pub use archive::archive;
pub use card::card;
pub use compare::compare;
pub use deletion::delete;
pub use list::in_consortium;
pub use record::get;
use storage::StorageHold;

/// The longest wait that a worker may request, seconds.
pub const LONGEST_WAIT: u32 = 60;
/// The interval of queries for changes by other replicas.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The header of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactHeader {
    /// Fencing token.
    pub lease: String,
    /// Name within the job.
    pub name: String,
    /// The size in bytes.
    pub size: u64,
    /// SHA-256 of the content, hex.
    pub digest: String,
}

/// An upload in progress.
pub struct ArtifactUpload {
    header: ArtifactHeader,
    worker: WorkerId,
    job: JobId,
    upload: ObjectUpload,
    mark: PersonalMarkScan,
    /// The storage reserved for its bytes, until a row counts them.
    _hold: StorageHold,
}

/// A stored file and the location of its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredArtifact {
    /// The file.
    pub artifact: Artifact,
    /// Its path in the object store.
    pub object: Path,
}

/// Begins the upload of a file of the job by its lead.
///
/// # Errors
/// 403 for any worker but the lead's, `too_large` when the file, or all files of the job or of its lead's organization,
/// would exceed their limit, `validation_failed`, `lease_lost`.
pub async fn begin(ctx: &Ctx, worker: WorkerId, header: ArtifactHeader) -> Result<ArtifactUpload, Error> {
    if header.size > MAX_SIZE {
        return Err(Error::problem(Code::TooLarge, format!("a file has at most {MAX_SIZE} bytes")));
    }
    let mut violations = Vec::new();
    if !files::is_name(&header.name) {
        violations.push(Violation::new("name", "1 to 100 of a-z A-Z 0-9 . _ -, not beginning with a dot"));
    }
    if !object::is_digest(&header.digest) {
        violations.push(Violation::new("digest", "give a SHA-256 as 64 hex digits"));
    }
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    // The digest must not depend on the sender's spelling.
    let header = ArtifactHeader { digest: header.digest.to_ascii_lowercase(), ..header };
    let (job, organization) = lead(ctx.db.read(), worker, &header.lease).await?;
    let hold = StorageHold::take(ctx, job, organization, &header.name, header.size).await?;
    let upload = ObjectUpload::begin(&ctx.store, &files::path(job, &header.digest), header.size, &header.digest)
        .await
        .map_err(object_error)?;
    Ok(ArtifactUpload { header, worker, job, upload, mark: PersonalMarkScan::default(), _hold: hold })
}

impl ArtifactUpload {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// `bad_signature` when they do not match the header, 403 for a model that a site personalized.
    pub async fn write(&mut self, data: &[u8]) -> Result<(), Error> {
        if self.mark.add(data) {
            return Err(Error::forbidden("a personal model never leaves its site: send the model of the job"));
        }
        self.upload.write(data).await.map_err(object_error)
    }

    /// Stores the file under its name. A file of the same name is replaced, and its bytes are deleted.
    ///
    /// # Errors
    /// `bad_signature` when the bytes do not match the header, `lease_lost`, `too_large` when the job has too many
    /// files. Then nothing of the upload is kept.
    pub async fn accept(self, ctx: &Ctx) -> Result<ArtifactId, Error> {
        let Self { header, worker, job, upload, mark: _, _hold } = self;
        upload.finish().await.map_err(object_error)?;
        let accepted = name_file(ctx, worker, job, &header).await;
        let unnamed = match &accepted {
            Ok((_, replaced)) => replaced.clone().filter(|replaced| *replaced != header.digest),
            Err(_) => Some(header.digest.clone()),
        };
        if let Some(digest) = unnamed {
            storage::remove_unnamed(ctx, job, &digest).await;
        }
        let (id, _) = accepted?;
        ctx.changes().notify_job(job);
        Ok(id)
    }
}

/// Writes the row of a file whose bytes are stored. Returns the file's id, and the previous digest of its name.
async fn name_file(
    ctx: &Ctx,
    worker: WorkerId,
    job: JobId,
    header: &ArtifactHeader,
) -> Result<(ArtifactId, Option<String>), Error> {
    ctx.db
        .write("put artifact", async |tx| {
            if lead(tx, worker, &header.lease).await?.0 != job {
                return Err(Error::problem(Code::LeaseLost, "the lease is of another job now: ask for work again"));
            }
            deletion::check_upload(tx, job, &header.digest).await?;
            let before = find(tx, job, &header.name).await?;
            let count = artifact::Entity::find().filter(artifact::Column::JobId.eq(job.0)).count(tx).await?;
            if before.is_none() && count >= MAX_FILES {
                return Err(Error::problem(Code::TooLarge, format!("a job has at most {MAX_FILES} files")));
            }
            storage::check_object(ctx, job, &header.digest).await?;
            let row = artifact::Model {
                id: before.as_ref().map_or_else(|| ctx.id::<ArtifactId>().0, |row| row.id),
                job_id: job.0,
                name: header.name.clone(),
                size: header.size as i64,
                digest: header.digest.clone(),
                created_at: ctx.now(),
                deleted_at: None,
                deleted_by: None,
                deletion_reason: None,
            };
            let row = row.into_active_model().reset_all();
            let row = if before.is_some() { row.update(tx).await? } else { row.insert(tx).await? };
            Ok((row.id.into(), before.map(|row| row.digest)))
        })
        .await
}

/// Waits up to `wait_seconds` for a file of the job; `None` when it does not exist.
///
/// # Errors
/// `lease_lost` when the lease or the job has ended.
pub async fn fetch(
    ctx: &Ctx,
    worker: WorkerId,
    token: &str,
    name: &str,
    wait_seconds: u32,
) -> Result<Option<StoredArtifact>, Error> {
    let wait = Duration::from_secs(u64::from(wait_seconds.min(LONGEST_WAIT)));
    let end = tokio::time::Instant::now() + wait;
    let mut waiter = ctx.changes().subscribe_to_job(lease::find_lease(ctx.db.read(), worker, token).await?.job);
    loop {
        let (held, _) = lease::at_work(ctx.db.read(), worker, token).await?;
        lease::extend(ctx, &held, token).await?;
        if let Some(file) = initial::find_file(ctx.db.read(), held.job, name).await? {
            return Ok(Some(file));
        }
        if let Some(row) = find(ctx.db.read(), held.job, name).await? {
            return Ok(Some(stored(row, None)));
        }
        let remaining = end.saturating_duration_since(tokio::time::Instant::now());
        if remaining.is_zero() {
            return Ok(None);
        }
        tokio::select! {
            () = waiter.wait(remaining.min(LOOK_AGAIN)) => {}
            () = ctx.shutdown.cancelled() => return Ok(None),
        }
    }
}

/// Returns the files of a job, by name; none while a promised audit withholds them.
///
/// # Errors
/// 404 when there is no job that the caller may know.
pub async fn list(ctx: &Ctx, actor: &Actor, job: JobId) -> Result<Vec<Artifact>, Error> {
    let row = load_readable_job(ctx, actor, job).await?;
    if audit::releasable(&row).is_err() {
        return Ok(Vec::new());
    }
    Ok(of_jobs(ctx.db.read(), [job.0]).await?.remove(&job.0).unwrap_or_default())
}

/// Returns the files of jobs, each job's by name. The caller has checked the access.
async fn of_jobs(
    connection: &impl ConnectionTrait,
    jobs: impl IntoIterator<Item = Uuid>,
) -> Result<HashMap<Uuid, Vec<Artifact>>, Error> {
    let rows = artifact::Entity::find()
        .filter(artifact::Column::JobId.is_in(jobs))
        .order_by_asc(artifact::Column::Name)
        .all(connection)
        .await?;
    let makers: HashSet<Uuid> = rows.iter().map(|row| row.job_id).collect();
    let specs: HashMap<Uuid, JsonColumn<Spec, job::Entity>> = job::Entity::find()
        .select_only()
        .column(job::Column::Id)
        .column(job::Column::Spec)
        .filter(job::Column::Id.is_in(makers))
        .into_tuple::<(Uuid, JsonColumn<Spec, job::Entity>)>()
        .all(connection)
        .await?
        .into_iter()
        .collect();
    let mut deletions = deletion::load_deletions(connection, &rows).await?;
    let mut all: HashMap<Uuid, Vec<Artifact>> = HashMap::new();
    for row in rows {
        let source = specs.get(&row.job_id).and_then(|spec| spec.model_source(&row.name));
        let deletion = deletions.remove(&row.id);
        let file = Artifact { deletion, ..stored(row, source).artifact };
        all.entry(file.job.0).or_default().push(file);
    }
    Ok(all)
}

/// Returns a file for download.
///
/// # Errors
/// 404 when there is none that the caller may know, or with the reason when its bytes were deleted, 403 when they may not
/// download it, `withheld` while the job has not passed a promised audit.
pub async fn take(ctx: &Ctx, actor: &Actor, id: ArtifactId) -> Result<StoredArtifact, Error> {
    let (row, job) = find_file_to_take(ctx, actor, id).await?;
    let place = Place::Consortium(ConsortiumId(job.consortium_id));
    let act = NewAuditEntry {
        by: AuditAuthor::from(actor),
        what: AuditAction::ModelTaken,
        place,
        subject: Some(("job", row.job_id.to_string())),
        detail: json!({ "file": row.name, "digest": row.digest }),
    };
    audit_log::note(ctx, act).await?;
    let source = job.spec.model_source(&row.name);
    Ok(stored(row, source))
}

/// Returns a file that the caller may download, and its job.
async fn find_file_to_take(ctx: &Ctx, actor: &Actor, id: ArtifactId) -> Result<(artifact::Model, job::Model), Error> {
    let row = artifact::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    let row = row.ok_or_else(|| Error::not_found("file"))?;
    let job = load_job(ctx.db.read(), row.job_id.into()).await?;
    policy::check(actor, Operation::TakeModel, Place::Consortium(ConsortiumId(job.consortium_id)))?;
    audit::releasable(&job)?;
    deletion::check_kept(&row, &job.title)?;
    Ok((row, job))
}

/// Returns the job of which the lease's holder is the lead, and the lead's organization.
async fn lead(connection: &impl ConnectionTrait, worker: WorkerId, token: &str) -> Result<(JobId, Uuid), Error> {
    let (held, _) = lease::at_work(connection, worker, token).await?;
    let part = participant::Entity::find_by_id((held.job.0, held.dataset.0)).one(connection).await?;
    match part {
        Some(part) if part.position == 0 => Ok((held.job, part.organization_id)),
        _ => Err(Error::forbidden("only the lead participant stores files of a job")),
    }
}

async fn find(connection: &impl ConnectionTrait, job: JobId, name: &str) -> Result<Option<artifact::Model>, Error> {
    Ok(artifact::Entity::find()
        .filter(artifact::Column::JobId.eq(job.0))
        .filter(artifact::Column::Name.eq(name))
        .one(connection)
        .await?)
}

fn stored(row: artifact::Model, source: Option<ModelSource>) -> StoredArtifact {
    let job = JobId(row.job_id);
    StoredArtifact {
        object: files::path(job, &row.digest),
        artifact: Artifact {
            id: row.id.into(),
            job,
            name: row.name,
            size: row.size as u64,
            digest: row.digest,
            source,
            created_at: row.created_at,
            deletion: None,
        },
    }
}
