//! Clean-up after a job: no worker may fetch its means or pools any more. So none of its vectors is kept, of its pools
//! only the asked questions, and of its files only those that a row names.

use object_store::path::Path;
use undertone_api::id::JobId;

use super::{masked, object_error};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::exchange::object;
use crate::rule::job::load_job;
use crate::service::model::storage;

/// The folders of vectors, by job: the means, the submissions, and partial uploads; and the pools of questions.
const PLACES: [&str; 4] = ["averages", "submissions", "uploads", "pools"];

/// Removes the vectors of a job if it is over. A failure does not undo the end of the job: the next start of the server
/// tries again.
pub(crate) async fn clear(ctx: &Ctx, job: JobId) {
    if let Err(error) = try_clear(ctx, job).await {
        tracing::warn!(job.id = %job, %error, "the vectors of a job that is over could not be removed");
    }
}

async fn try_clear(ctx: &Ctx, job: JobId) -> Result<(), Error> {
    let row = load_job(ctx.db.read(), job).await?;
    if !row.state.is_over() {
        return Ok(());
    }
    if row.series.iter().any(|planned| planned.series.masked.is_some()) {
        ctx.db.write("clear masked rounds", async |tx| masked::remove(tx, job.0, None).await).await?;
    }
    for place in PLACES {
        object::remove_all(&ctx.store, &Path::from(format!("{place}/{job}"))).await.map_err(object_error)?;
    }
    storage::sweep(ctx, job).await
}

/// Removes the remains of ended jobs after a crash of a server.
///
/// # Errors
/// When the object store cannot be listed.
pub(crate) async fn clear_all(ctx: &Ctx) -> Result<(), Error> {
    for place in PLACES {
        let listed = ctx.store.list_with_delimiter(Some(&Path::from(place))).await;
        let listed = listed.map_err(|error| Error::internal("listing vectors", error))?;
        let names = listed.common_prefixes.iter().filter_map(|prefix| prefix.filename()?.parse().ok());
        for job in names.map(JobId) {
            clear(ctx, job).await;
        }
    }
    for job in storage::jobs_to_sweep(ctx).await? {
        clear(ctx, job).await;
    }
    Ok(())
}
