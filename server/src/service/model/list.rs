//! What the jobs of a consortium have made, newest first.

use undertone_api::id::ConsortiumId;
use undertone_api::job::State;
use undertone_api::model::Model;
use undertone_api::page::{Page, PageQuery};

use super::list;
use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::job;

/// The models of a consortium: its finished jobs that are wanted, with their files. A job without files is in no list.
///
/// # Errors
/// As [`job::search`].
pub async fn in_consortium(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    wanted: &job::Wanted,
    page: &PageQuery,
) -> Result<Page<Model>, Error> {
    let wanted = job::Wanted { state: Some(State::Finished), ..wanted.clone() };
    let Page { items: jobs, next } = job::search(ctx, actor, consortium, &wanted, page).await?;
    let mut items = Vec::with_capacity(jobs.len());
    for job in jobs {
        let files = list(ctx, actor, job.id).await?;
        if !files.is_empty() {
            items.push(Model { job, files });
        }
    }
    Ok(Page { items, next })
}
