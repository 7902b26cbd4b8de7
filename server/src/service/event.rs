//! What changes, told to those who watch: how a job or a consortium stands now, with a version.
//!
//! A subject that somebody watches is looked at when something happens in this process that may concern it, at most every half
//! second, and every five seconds for what another replica or the time has changed. Few are looked at at a time, in turns that go
//! around organizations; what is seen is shared by all who watch. An event is a state,
//! so nothing is lost by who misses one; who comes back with the version they have is told nothing until there is another.
//! A stream asks again and again whether its caller is still signed in and still may, and ends when not, when the server
//! stops, and when the member has too many.
//!
//! To make something else watchable: a `Subject`, its policy in `may`, its look in `look`.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use undertone_api::event::{ConsortiumEvent, JobEvent};
use undertone_api::id::{ConsortiumId, MemberId};
use undertone_api::problem::{Code, Problem};
use uuid::Uuid;

use crate::auth::{Actor, Means, Operation, Place, policy};
use crate::ctx::{Ctx, Desk, News, Seat, Seen, StreamCaller, StreamRefusal, Subject, Waiter};
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::metrics::Limit;
use crate::service::code::to_json;
use crate::service::entity::{account, annotation, api_key, dataset, freeze, job, member, membership, participant};
use crate::service::job::{readable, standing, state, summary};
use crate::service::{job_log, member as members, session, stuck};

/// How often is looked for what another replica, or the time, has changed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Least time between two looks, however much happens.
const LEAST: Duration = Duration::from_millis(500);
/// How often a stream asks whether its caller still may.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Jobs that an event of a consortium holds at most.
const MOST_JOBS: u64 = 50;

/// A stream of what changes.
pub struct Events {
    ctx: Ctx,
    actor: Actor,
    subject: Subject,
    operation: Operation,
    news: News,
    /// The version that the caller has.
    known: Option<String>,
    again: Interval,
    standings: Waiter,
    _seat: Seat,
}

/// Begins to watch for the caller, who comes from an address and has seen the version `known`, if any. `operation` is what the caller would otherwise
/// do to see the subject: [`Operation::ReadJob`], or [`Operation::FollowQuestions`] where only versions are told.
///
/// # Errors
/// 404 and 403 as usual; those of [`take_seat`].
pub async fn watch(
    ctx: &Ctx,
    actor: &Actor,
    from: IpAddr,
    subject: Subject,
    operation: Operation,
    known: Option<String>,
) -> Result<Events, Error> {
    // Before the first look at the caller's rights, so that no change falls in between.
    let standings = ctx.wake().listen_for_standings();
    // Which asks the policy.
    may(ctx, actor, subject, operation).await?;
    let seat = take_seat(ctx, actor, from)?;
    let (news, desk) = ctx.watchers().join(subject);
    if let Some(desk) = desk {
        tokio::spawn(keep_looking(ctx.clone(), WorkOwner::from(actor), subject, desk));
    }
    let mut again = interval_at(Instant::now() + ASK_AGAIN, ASK_AGAIN);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Ok(Events {
        ctx: ctx.clone(),
        actor: actor.clone(),
        subject,
        operation,
        news,
        known,
        again,
        standings,
        _seat: seat,
    })
}

/// Counts a stream of a member from an address until the seat is dropped.
///
/// # Errors
/// `rate_limited` where the member, the organization or the address has too many, `unavailable` where the server has.
pub fn take_seat(ctx: &Ctx, actor: &Actor, from: IpAddr) -> Result<Seat, Error> {
    let organization = actor.organizations().first().copied();
    let caller = StreamCaller { member: actor.id(), organization, address: from };
    ctx.watchers().sit(caller).map_err(|refusal: StreamRefusal| {
        ctx.metrics.reach(Limit::EventStreams);
        Problem::from(refusal).into()
    })
}

impl Events {
    /// The next state that the caller does not have; nothing when the stream has ended.
    pub async fn next(&mut self) -> Option<Arc<Seen>> {
        loop {
            let newest = self.news.borrow_and_update().clone();
            if let Some(seen) = newest.filter(|seen| self.known.as_ref() != Some(&seen.version)) {
                if !self.still_may().await {
                    return None;
                }
                self.known = Some(seen.version.clone());
                return Some(seen);
            }
            tokio::select! {
                changed = self.news.changed() => changed.ok()?,
                () = self.standings.changed() => {
                    if !self.still_may().await {
                        return None;
                    }
                }
                _ = self.again.tick() => {
                    if !self.still_may().await {
                        return None;
                    }
                }
                () = self.ctx.shutdown.cancelled() => return None,
            }
        }
    }

    /// Whether the caller is still signed in, and still may.
    async fn still_may(&mut self) -> bool {
        let asked = async {
            let actor = still(&self.ctx, &self.actor).await?;
            may(&self.ctx, &actor, self.subject, self.operation).await?;
            Ok::<Actor, Error>(actor)
        };
        match asked.await {
            Ok(actor) => {
                self.actor = actor;
                true
            }
            Err(Error::Problem(_)) => false,
            Err(error) => {
                // The log has it now; who cannot be asked about is told nothing.
                let _ = error.into_problem();
                false
            }
        }
    }
}

/// The caller as they stand now.
async fn still(ctx: &Ctx, actor: &Actor) -> Result<Actor, Error> {
    let over = || Error::problem(Code::Unauthenticated, "the session or the key is over");
    match &actor.means {
        Means::Session(id) | Means::Confined(id) => session::actor_of(ctx, *id).await,
        Means::Key(id, _) => {
            let row = api_key::Entity::find_by_id(id.0).one(ctx.db.read()).await?.ok_or_else(over)?;
            if row.revoked_at.is_some() || row.expires_at <= ctx.now() {
                return Err(over());
            }
            session::proven_enough(ctx, MemberId(row.member_id)).await?;
            let row = member::Entity::find_by_id(row.member_id).one(ctx.db.read()).await?;
            let row = row.filter(|row| row.retired_at.is_none()).ok_or_else(over)?;
            let member = members::with_grants(ctx.db.read(), row).await?;
            let standing = members::standing_of(ctx.db.read(), &member.grants).await?;
            Ok(Actor::new(member, actor.means.clone(), standing, false))
        }
    }
}

/// Whether the caller may watch.
async fn may(ctx: &Ctx, actor: &Actor, subject: Subject, operation: Operation) -> Result<(), Error> {
    match subject {
        Subject::Job(id) => readable(ctx, actor, id).await.map(|_| ()),
        Subject::Consortium(id) => policy::check(actor, operation, Place::Consortium(id)),
    }
}

/// Begins to listen to what may change a subject.
pub(super) fn listen(ctx: &Ctx, subject: Subject) -> Waiter {
    match subject {
        Subject::Job(id) => ctx.wake().listen_to_shown(id),
        Subject::Consortium(_) => ctx.wake().listen(),
    }
}

/// Looks at a subject for all who watch it, until nobody does, in the turns of whoever watched first.
async fn keep_looking(ctx: Ctx, owner: WorkOwner, subject: Subject, desk: Desk) {
    loop {
        // Before looking, so that no change falls in between.
        let mut waiter = listen(&ctx, subject);
        let seen = async {
            let _turn = ctx.watchers().looks().acquire(owner).await?;
            look(&ctx, subject).await
        };
        match seen.await {
            Ok(seen) => {
                desk.send_if_modified(|now| {
                    let other = now.as_ref().is_none_or(|now| now.version != seen.version);
                    if other {
                        *now = Some(Arc::new(seen));
                    }
                    other
                });
            }
            Err(error) => {
                // Told in the log; the next look may succeed.
                let _ = error.into_problem();
            }
        }
        let pause = async {
            tokio::time::sleep(LEAST).await;
            waiter.wait(LOOK_AGAIN.saturating_sub(LEAST)).await;
        };
        tokio::select! {
            () = pause => {}
            () = ctx.shutdown.cancelled() => return,
        }
        if ctx.watchers().is_left(subject) {
            return;
        }
    }
}

async fn look(ctx: &Ctx, subject: Subject) -> Result<Seen, Error> {
    match subject {
        Subject::Job(id) => {
            let row = state::row(ctx.db.read(), id).await?;
            let event = JobEvent {
                job: summary(&row)?,
                diagnoses: stuck::diagnose(ctx, &row).await?,
                log: job_log::newest(ctx, id).await?,
                progress: standing(ctx, row).await?,
            };
            seen(&event, "")
        }
        Subject::Consortium(id) => {
            let jobs = job::Entity::find()
                .filter(job::Column::ConsortiumId.eq(id.0))
                .order_by_desc(job::Column::Id)
                .limit(MOST_JOBS)
                .all(ctx.db.read())
                .await?;
            let rest = beside(ctx, id, &jobs).await?;
            seen(&ConsortiumEvent { jobs: jobs.iter().map(summary).collect::<Result<_, _>>()? }, &rest)
        }
    }
}

/// A state with its version; `rest` is what belongs to the version beside the state.
fn seen(state: &impl Serialize, rest: &str) -> Result<Seen, Error> {
    let json = to_json(state)?;
    let digest = Sha256::new().chain_update(&json).chain_update(rest).finalize();
    Ok(Seen { version: hex::encode(&digest[..8]), json })
}

/// What else the pages of a consortium show: who is in it, what each dataset is and has, what is frozen, what was answered.
async fn beside(ctx: &Ctx, id: ConsortiumId, jobs: &[job::Model]) -> Result<String, Error> {
    let connection = ctx.db.read();
    let members: Vec<Uuid> = membership::Entity::find()
        .filter(membership::Column::ConsortiumId.eq(id.0))
        .order_by_asc(membership::Column::OrganizationId)
        .select_only()
        .column(membership::Column::OrganizationId)
        .into_tuple()
        .all(connection)
        .await?;
    let datasets = dataset::Entity::find()
        .filter(dataset::Column::OrganizationId.is_in(members.clone()))
        .order_by_asc(dataset::Column::Id)
        .all(connection)
        .await?;
    let accounts: Vec<(Uuid, i64, String)> = account::Entity::find()
        .filter(account::Column::OrganizationId.is_in(members.clone()))
        .order_by_asc(account::Column::Id)
        .select_only()
        .columns([account::Column::Id, account::Column::InTheClear])
        .column(account::Column::Balance)
        .into_tuple()
        .all(connection)
        .await?;
    let freezes: Vec<(Uuid, Uuid, i32)> = freeze::Entity::find()
        .filter(freeze::Column::OrganizationId.is_in(members.clone()))
        .order_by_asc(freeze::Column::OrganizationId)
        .order_by_asc(freeze::Column::LineageId)
        .order_by_asc(freeze::Column::Number)
        .select_only()
        .columns([freeze::Column::OrganizationId, freeze::Column::LineageId])
        .column(freeze::Column::Number)
        .into_tuple()
        .all(connection)
        .await?;
    let open: Vec<Uuid> = jobs.iter().filter(|job| job.finished_at.is_none()).map(|job| job.id).collect();
    let answers: Vec<(Uuid, Uuid, String)> = participant::Entity::find()
        .filter(participant::Column::JobId.is_in(open.clone()))
        .order_by_asc(participant::Column::JobId)
        .order_by_asc(participant::Column::DatasetId)
        .select_only()
        .columns([participant::Column::JobId, participant::Column::DatasetId])
        .column(participant::Column::Approval)
        .into_tuple()
        .all(connection)
        .await?;
    let annotated: Vec<(Uuid, i64)> = annotation::Entity::find()
        .filter(annotation::Column::JobId.is_in(open))
        .order_by_asc(annotation::Column::JobId)
        .group_by(annotation::Column::JobId)
        .select_only()
        .column(annotation::Column::JobId)
        .column_as(annotation::Column::Id.count(), "answers")
        .into_tuple()
        .all(connection)
        .await?;
    Ok(format!("{members:?}{datasets:?}{accounts:?}{freezes:?}{answers:?}{annotated:?}"))
}
