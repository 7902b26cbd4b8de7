//! The storage limits of job files, and the removal of files without a row.
//!
//! A file is stored under its digest, so several names of a job may share it. An object is removed in the writer's turn
//! after a query of the rows. A row is written in the writer's turn after a check of the object. So neither operation
//! loses the other's data.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use sea_orm::sea_query::Query;
use sea_orm::{
    ColumnTrait as _, Condition, ConnectionTrait, EntityTrait as _, ExprTrait as _, PaginatorTrait as _,
    QueryFilter as _, QuerySelect as _,
};
use undertone_api::id::JobId;
use undertone_api::job::JobState;
use undertone_api::problem::Code;
use uuid::Uuid;

use crate::ctx::{Ctx, UploadBytes};
use crate::error::Error;
use crate::exchange::artifact as files;
use crate::exchange::object::{self, ObjectError};
use crate::metrics::Limit;
use crate::model::column::ColumnEnum;
use crate::model::{artifact, job, participant};
use crate::rule::job::load_job;
use crate::service::round::object_error;

/// The longest time for which the writer's turn may wait for the object store.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// Storage that an upload reserves until it is stored or dropped.
pub(super) struct StorageHold {
    uploads: Arc<UploadBytes>,
    owners: [Uuid; 2],
    size: u64,
}

impl StorageHold {
    /// Reserves storage for a file of `size` bytes that becomes `name` of a job led by `organization`.
    ///
    /// # Errors
    /// `too_large` when the files of the job, or of all jobs that the organization leads, would exceed their limit.
    pub(super) async fn take(ctx: &Ctx, job: JobId, organization: Uuid, name: &str, size: u64) -> Result<Self, Error> {
        // Counted before the rows are read: of two concurrent uploads at most one gets the last storage.
        let (uploads, owners) = (Arc::clone(ctx.uploads()), [job.0, organization]);
        let [job_pending, organization_pending] = uploads.add(owners, size);
        let hold = Self { uploads, owners, size };
        let (db, store) = (ctx.db.read(), &ctx.config.store);
        let led = Query::select()
            .column(participant::Column::JobId)
            .from(participant::Entity)
            .and_where(participant::Column::OrganizationId.eq(organization))
            .and_where(participant::Column::Position.eq(0))
            .take();
        let of_job = Condition::all().add(artifact::Column::JobId.eq(job.0));
        let replaced = stored_bytes(db, of_job.clone().add(artifact::Column::Name.eq(name))).await?;
        let job_total = stored_bytes(db, of_job).await?.saturating_sub(replaced) + job_pending;
        let led = Condition::all().add(artifact::Column::JobId.in_subquery(led));
        let organization_total = stored_bytes(db, led).await?.saturating_sub(replaced) + organization_pending;
        for (owner, total, gib, key) in [
            ("a job", job_total, store.job_gib, "store.job_gib"),
            (
                "the jobs that an organization leads",
                organization_total,
                store.organization_gib,
                "store.organization_gib",
            ),
        ] {
            if total > gib << 30 {
                ctx.metrics.reach(Limit::StoredBytes);
                return Err(Error::problem(
                    Code::TooLarge,
                    format!(
                        "with {name:?} the files of {owner} would come to {total} bytes, and the server keeps at most {gib} GiB \
                         (`{key}`): end jobs whose files are not needed, or ask the server's operator for more"
                    ),
                ));
            }
        }
        Ok(hold)
    }
}

impl Drop for StorageHold {
    fn drop(&mut self) {
        self.uploads.subtract(self.owners, self.size);
    }
}

/// Adds up the sizes of the files that a condition selects.
async fn stored_bytes(connection: &impl ConnectionTrait, selected: Condition) -> Result<u64, Error> {
    // The sum of 64-bit integers is a decimal on PostgreSQL.
    let sum: Option<i64> = artifact::Entity::find()
        .select_only()
        .column_as(artifact::Column::Size.sum().cast_as("bigint"), "bytes")
        .filter(selected.add(artifact::Column::DeletedAt.is_null()))
        .into_tuple::<Option<i64>>()
        .one(connection)
        .await?
        .flatten();
    Ok(u64::try_from(sum.unwrap_or_default()).unwrap_or_default())
}

/// Checks in the writer's turn that the bytes of a file still exist.
///
/// # Errors
/// `unavailable` when the end of another upload removed them: then the file is sent again.
pub(super) async fn check_object(ctx: &Ctx, job: JobId, digest: &str) -> Result<(), Error> {
    let path = files::path(job, digest);
    match tokio::time::timeout(STORE_PATIENCE, ctx.store.head(&path)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(object_store::Error::NotFound { .. })) => {
            Err(Error::problem(Code::Unavailable, "another upload removed the file's bytes meanwhile: send it again"))
        }
        Ok(Err(error)) => Err(object_error(ObjectError::Store(error))),
        Err(_) => {
            Err(Error::problem(Code::Unavailable, "the object store does not answer just now; send the file again"))
        }
    }
}

/// Removes the bytes of a file, unless a row of the job names them. A failure is logged: the end of the job removes the
/// remaining bytes.
pub(super) async fn remove_unnamed(ctx: &Ctx, job: JobId, digest: &str) {
    let removed = ctx
        .db
        .write("remove file", async |tx| {
            let rows = artifact::Entity::find().filter(artifact::Column::JobId.eq(job.0));
            let rows = rows.filter(artifact::Column::DeletedAt.is_null());
            if rows.filter(artifact::Column::Digest.eq(digest)).count(tx).await? > 0 {
                return Ok(());
            }
            let path = files::path(job, digest);
            let removed = tokio::time::timeout(STORE_PATIENCE, object::remove(&ctx.store, &path)).await;
            removed.map_err(|late| Error::internal("removing a file", late))?.map_err(object_error)
        })
        .await;
    if let Err(error) = removed {
        tracing::warn!(job.id = %job, error = &error as &dyn std::error::Error, "cannot remove a file that no row names");
    }
}

/// Removes the bytes of a job's files that no row names, or whose row records a deletion. Only for an ended job, which cannot complete an upload any
/// more.
///
/// # Errors
/// When the database or the object store fails.
pub(crate) async fn sweep(ctx: &Ctx, job: JobId) -> Result<(), Error> {
    let rows = artifact::Entity::find().filter(artifact::Column::JobId.eq(job.0));
    let rows = rows.filter(artifact::Column::DeletedAt.is_null()).all(ctx.db.read()).await?;
    let paths: HashSet<Path> = rows.iter().map(|row| files::path(job, &row.digest)).collect();
    let listed = ctx.store.list(Some(&files::folder(job)));
    let listed: Vec<_> = listed.try_collect().await.map_err(|error| object_error(error.into()))?;
    for object in listed.into_iter().filter(|object| !paths.contains(&object.location)) {
        object::remove(&ctx.store, &object.location).await.map_err(object_error)?;
    }
    Ok(())
}

/// Returns the jobs with bytes that no row names: a server crashed, or could not remove them.
///
/// # Errors
/// When the database or the object store fails.
pub(crate) async fn jobs_to_sweep(ctx: &Ctx) -> Result<BTreeSet<JobId>, Error> {
    let rows: Vec<(Uuid, String)> = artifact::Entity::find()
        .select_only()
        .column(artifact::Column::JobId)
        .column(artifact::Column::Digest)
        .filter(artifact::Column::DeletedAt.is_null())
        .into_tuple()
        .all(ctx.db.read())
        .await?;
    let paths: HashSet<Path> = rows.iter().map(|(job, digest)| files::path(JobId(*job), digest)).collect();
    let mut listed = ctx.store.list(Some(&Path::from(files::FOLDER)));
    let mut jobs = BTreeSet::new();
    while let Some(object) = listed.try_next().await.map_err(|error| object_error(error.into()))? {
        if !paths.contains(&object.location) {
            jobs.extend(files::job_of(&object.location));
        }
    }
    Ok(jobs)
}

/// Removes the files of jobs that ended without a result at least `store.unfinished_days` ago.
///
/// # Errors
/// When the database or the object store fails.
pub(crate) async fn expire_unfinished(ctx: &Ctx) -> Result<(), Error> {
    let before = ctx.now() - time::Duration::days(i64::from(ctx.config.store.unfinished_days));
    let ended = [JobState::Refused, JobState::Failed, JobState::Cancelled].map(ColumnEnum::to_text);
    let with_files = Query::select().column(artifact::Column::JobId).from(artifact::Entity).take();
    let due: Vec<Uuid> = job::Entity::find()
        .select_only()
        .column(job::Column::Id)
        .filter(job::Column::State.is_in(ended))
        .filter(job::Column::FinishedAt.lt(before))
        .filter(job::Column::Id.in_subquery(with_files))
        .into_tuple()
        .all(ctx.db.read())
        .await?;
    for job in due.into_iter().map(JobId) {
        let expire = async |tx: &crate::db::Tx| {
            load_job(tx, job).await?;
            let rows = artifact::Entity::delete_many().filter(artifact::Column::JobId.eq(job.0));
            Ok(rows.exec(tx).await?.rows_affected)
        };
        let files = ctx.db.write("expire files", expire).await?;
        tracing::info!(job.id = %job, files, "the files of a job that ended without a result were removed");
        sweep(ctx, job).await?;
    }
    Ok(())
}
