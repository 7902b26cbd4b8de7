//! The possible offers, in one query for all workers.

use std::collections::HashMap;

use sea_orm::sea_query::{Query, SelectStatement};
use sea_orm::{ColumnTrait as _, Condition, EntityTrait as _, ExprTrait as _, QueryFilter as _, QuerySelect as _};
use tokio::time::Instant;
use undertone_api::dataset::Visibility;
use undertone_api::id::WorkerId;
use undertone_api::job::{DatasetUse, JobState};
use uuid::Uuid;

use super::OfferRequest;
use crate::ctx::{CachedOffer, CachedOffers, Ctx};
use crate::error::Error;
use crate::model::column::ColumnEnum;
use crate::model::participant::PartState;
use crate::model::{job, lease, participant, worker};
use crate::service::presence;

/// Returns the worker's public key, and whether there may be an offer for it, from a query not older than `since`.
///
/// # Errors
/// `unauthenticated` when the worker was retired since its session was checked.
pub(super) async fn check_due(
    ctx: &Ctx,
    id: WorkerId,
    asking: &OfferRequest,
    since: Instant,
) -> Result<(String, bool), Error> {
    let posted = ctx.offer_cache().load_since(since, look(ctx)).await?;
    let key = posted.keys.get(&id.0).cloned().ok_or_else(presence::retired)?;
    let may_be = posted.due.get(&id.0).is_some_and(|due| due.iter().any(|due| is_news(due, asking)));
    Ok((key, may_be))
}

/// Returns whether the worker does not have this offer already.
fn is_news(due: &CachedOffer, asking: &OfferRequest) -> bool {
    match due {
        CachedOffer::Proposal(digest) => !asking.decided.contains(digest),
        CachedOffer::Work(token) => token.as_ref().is_none_or(|token| !asking.leases.contains(token)),
    }
}

async fn look(ctx: &Ctx) -> Result<CachedOffers, Error> {
    let connection = ctx.db.read();
    let keys: Vec<(Uuid, String)> = worker::Entity::find()
        .select_only()
        .columns([worker::Column::Id, worker::Column::PublicKey])
        .filter(worker::Column::RetiredAt.is_null())
        .into_tuple()
        .all(connection)
        .await?;
    let proposed: Vec<(Uuid, String)> = job::Entity::find()
        .filter(job::Column::State.eq(JobState::Proposed.to_text()))
        .select_only()
        .columns([job::Column::Id, job::Column::Digest])
        .into_tuple()
        .all(connection)
        .await?;
    let proposed: HashMap<_, _> = proposed.into_iter().collect();
    let under_way = || jobs_in(&[JobState::Queued, JobState::Running]);
    let leases: Vec<(Uuid, Uuid, String)> = lease::Entity::find()
        .filter(lease::Column::JobId.in_subquery(under_way()))
        .select_only()
        .columns([lease::Column::JobId, lease::Column::DatasetId, lease::Column::Token])
        .into_tuple()
        .all(connection)
        .await?;
    let leases: HashMap<_, _> = leases.into_iter().map(|(job, dataset, token)| ((job, dataset), token)).collect();

    let awaits_answer = participant::Column::SiteAnswered
        .eq(false)
        .and(participant::Column::Visibility.ne(Visibility::Public.to_text()))
        .and(participant::Column::JobId.in_subquery(jobs_in(&[JobState::Proposed])));
    let works = participant::Column::State
        .is_in(PartState::OPEN.map(ColumnEnum::to_text))
        .and(participant::Column::JobId.in_subquery(under_way()));
    // Includes ended jobs: a part may still hold a reservation.
    let owes =
        participant::Column::State.eq(PartState::Running.to_text()).and(participant::Column::Charge.is_not_null());
    let rows = participant::Entity::find()
        .filter(Condition::any().add(awaits_answer).add(works).add(owes))
        .all(connection)
        .await?;
    let mut due: HashMap<Uuid, Vec<CachedOffer>> = HashMap::new();
    for part in rows {
        let here = due.entry(part.worker_id).or_default();
        if let Some(digest) = proposed.get(&part.job_id) {
            here.push(CachedOffer::Proposal(digest.clone()));
        } else if part.purpose == DatasetUse::Participate {
            here.push(CachedOffer::Work(leases.get(&(part.job_id, part.dataset_id)).cloned()));
        }
    }
    Ok(CachedOffers { keys: keys.into_iter().collect(), due })
}

/// Selects the ids of the jobs in these states.
fn jobs_in(states: &[JobState]) -> SelectStatement {
    let words = states.iter().map(|state| state.to_text());
    Query::select().column(job::Column::Id).from(job::Entity).and_where(job::Column::State.is_in(words)).take()
}
