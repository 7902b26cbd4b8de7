//! The approvals that the caller can give, in a whole consortium at once.

use std::collections::HashMap;

use sea_orm::sea_query::Query;
use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use undertone_api::id::{ConsortiumId, DatasetId, JobId};
use undertone_api::job::JobState;
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::participant::ApprovalState;
use crate::model::{job, participant};

/// The highest number of listed approvals.
const MOST: u64 = 100;

/// A dataset of a proposed job that awaits the caller's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingApproval {
    /// The job.
    pub job: JobId,
    /// Its title.
    pub title: String,
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub dataset_name: String,
}

/// Returns the missing answers to proposed jobs of a consortium that the caller may give, the newest jobs first, up to
/// 100.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn waiting(ctx: &Ctx, actor: &Actor, consortium: ConsortiumId) -> Result<Vec<WaitingApproval>, Error> {
    up_to(ctx, actor, consortium, MOST).await
}

/// Returns the same as [`waiting`], up to `most`.
pub(crate) async fn up_to(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    most: u64,
) -> Result<Vec<WaitingApproval>, Error> {
    policy::check(actor, Operation::ReadJob, Place::Consortium(consortium))?;
    let decides = |id| policy::allows(actor, Operation::DecideJob, Place::Organization(id));
    let own = actor.organizations().into_iter().filter(|id| decides(*id)).map(|id| id.0);
    let proposed = Query::select()
        .column(job::Column::Id)
        .from(job::Entity)
        .and_where(job::Column::ConsortiumId.eq(consortium.0))
        .and_where(job::Column::State.eq(JobState::Proposed.to_text()))
        .take();
    let parts = participant::Entity::find()
        .filter(participant::Column::JobId.in_subquery(proposed))
        .filter(participant::Column::Approval.eq(ApprovalState::Pending.to_text()))
        .filter(participant::Column::OrganizationId.is_in(own))
        .order_by_desc(participant::Column::JobId)
        .order_by_asc(participant::Column::Position)
        .limit(most)
        .all(ctx.db.read())
        .await?;
    let titles: Vec<(Uuid, String)> = job::Entity::find()
        .select_only()
        .column(job::Column::Id)
        .column(job::Column::Title)
        .filter(job::Column::Id.is_in(parts.iter().map(|part| part.job_id)))
        .into_tuple()
        .all(ctx.db.read())
        .await?;
    let titles: HashMap<Uuid, String> = titles.into_iter().collect();
    Ok(parts
        .into_iter()
        .map(|part| WaitingApproval {
            job: part.job_id.into(),
            title: titles.get(&part.job_id).cloned().unwrap_or_default(),
            dataset: part.dataset_id.into(),
            dataset_name: part.dataset_name,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use undertone_api::member::Role;
    use undertone_api::problem::Code;

    use crate::service::approval::approve;
    use crate::service::world::TestConsortium;
    use crate::testing::on_both;
    use crate::view::approval::waiting::{up_to, waiting};

    on_both! {
        async fn a_steward_is_told_of_what_waits_for_them_and_of_nothing_else(app: &TestApp) {
            let (ctx, world) = (&app.ctx, TestConsortium::new(&app.ctx, 2, 8.0).await);
            let first = world.propose(world.spec(1)).await.unwrap().summary.id;
            app.clock.advance(time::Duration::SECOND);
            let second = world.propose(world.spec(1)).await.unwrap().summary.id;
            let (one, two) = (&world.sites[1], &world.sites[2]);
            let list_waiting = async |actor: &crate::auth::Actor| {
                let waiting = waiting(ctx, actor, world.consortium).await.unwrap();
                waiting.into_iter().map(|one| (one.job, one.dataset)).collect::<Vec<_>>()
            };
            assert_eq!(list_waiting(&one.steward).await, [(second, one.dataset), (first, one.dataset)]);
            assert!(list_waiting(&world.sites[0].steward).await.is_empty(), "public data ask nobody");

            let mut both = one.steward.clone();
            both.member.grants.extend(two.steward.member.grants.iter().copied());
            let all = [(second, one.dataset), (second, two.dataset), (first, one.dataset), (first, two.dataset)];
            assert_eq!(list_waiting(&both).await, all);
            let few = up_to(ctx, &both, world.consortium, 3).await.unwrap();
            assert_eq!(few.iter().map(|one| (one.job, one.dataset)).collect::<Vec<_>>(), all[..3]);
            assert!(few.iter().all(|one| one.title == "a job" && one.dataset_name == "speech"));

            approve(ctx, &one.steward, first, one.dataset).await.unwrap();
            assert_eq!(list_waiting(&one.steward).await, [(second, one.dataset)]);
            assert_eq!(list_waiting(&two.steward).await, [(second, two.dataset), (first, two.dataset)]);

            let mut researcher = one.steward.clone();
            researcher.member.grants.retain(|grant| grant.role == Role::Researcher);
            assert!(list_waiting(&researcher).await.is_empty(), "who may not decide is not asked");
            let stranger = TestConsortium::new(ctx, 1, 8.0).await.sites.remove(1).steward;
            let hidden = waiting(ctx, &stranger, world.consortium).await.unwrap_err();
            assert_eq!(hidden.code(), Code::NotFound);
        }
    }
}
