//! Event streams: the present state of a job or a consortium, with a version, for each subscriber.
//!
//! A subject with subscribers is queried after each event that may concern it, in this process or at another replica
//! (`service::change`), at most every half second: a consortium after events of its own open jobs, and after those that
//! are not of a job. Without such an event it is queried every 5 seconds, for changes by time, and for expenses of its
//! members in another consortium. Few subjects are queried at a time, in turns that alternate between organizations. All subscribers of a subject share the result. An event is a whole
//! state, so a missed event loses nothing; a subscriber that reconnects with the current version receives nothing until
//! there is another. A stream rechecks its caller's session and rights after each change of a session, a
//! key or a role, and every 5 seconds; all streams of a session share the query for it. It ends when these end, when the
//! server stops, or when the member has too many streams.
//!
//! To add a subject: a variant of `StreamSubject`, its policy in `may`, its query in `look`.

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until};
use undertone_api::event::{ConsortiumEvent, JobEvent};
use undertone_api::id::{ConsortiumId, JobId, MemberId};
use undertone_api::problem::{Code, Problem};
use uuid::Uuid;

use crate::auth::{Actor, Means, Operation, Place, policy};
use crate::ctx::{
    CHECK_AGE, ChangeSubscription, CheckedCaller, Ctx, DisplaySubscription, JobChannels, StreamCaller, StreamPermit,
    StreamRefusal, StreamSubject, SubjectState, UpdateReceiver, UpdateSender,
};
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::metrics::Limit;
use crate::model::column::to_json;
use crate::model::{account, annotation, api_key, dataset, freeze, job, member, membership, participant};
use crate::rule::job::{load_job, load_readable_job};
use crate::service::{job_log, member as members, session};
use crate::view::diagnosis;
use crate::view::job as view;

/// The interval of queries without an event.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The minimum time between two queries, however many events arrive.
const LEAST: Duration = Duration::from_millis(500);
/// The highest number of jobs in an event of a consortium.
const MOST_JOBS: u64 = 50;

/// A stream of changes.
pub struct EventStream {
    ctx: Ctx,
    actor: Actor,
    subject: StreamSubject,
    operation: Operation,
    news: UpdateReceiver,
    /// The version that the caller has.
    known: Option<String>,
    caller: Arc<CheckedCaller>,
    /// When the check of the caller is too old.
    due: Instant,
    standings: ChangeSubscription,
    _seat: StreamPermit,
}

/// Begins a stream for a caller at an address with the version `known`, if any. `operation` is the operation with which
/// the caller would read the subject: [`Operation::ReadJob`], or [`Operation::FollowQuestions`] where only versions are
/// sent.
///
/// # Errors
/// 404 and 403 as usual; those of [`take_seat`].
pub async fn watch(
    ctx: &Ctx,
    actor: &Actor,
    from: IpAddr,
    subject: StreamSubject,
    operation: Operation,
    known: Option<String>,
) -> Result<EventStream, Error> {
    // Before the first check of the caller's rights, so that no change is missed in between.
    let standings = ctx.changes().subscribe_to_standings();
    // Checks the policy.
    may(ctx, actor, subject, operation).await?;
    let seat = take_seat(ctx, actor, from)?;
    let (news, desk) = ctx.event_hub().join(subject);
    if let Some(desk) = desk {
        tokio::spawn(keep_looking(ctx.clone(), WorkOwner::from(actor), subject, desk));
    }
    Ok(EventStream {
        ctx: ctx.clone(),
        actor: actor.clone(),
        subject,
        operation,
        news,
        known,
        caller: ctx.event_hub().callers().join(&actor.means),
        due: Instant::now() + CHECK_AGE,
        standings,
        _seat: seat,
    })
}

/// Counts a stream of a member from an address until the seat is dropped.
///
/// # Errors
/// `rate_limited` when the member, the organization or the address has too many, `unavailable` when the server has.
pub fn take_seat(ctx: &Ctx, actor: &Actor, from: IpAddr) -> Result<StreamPermit, Error> {
    let organization = actor.organizations().first().copied();
    let caller = StreamCaller { member: actor.id(), organization, address: from };
    ctx.event_hub().acquire(caller).map_err(|refusal: StreamRefusal| {
        ctx.metrics.reach(Limit::EventStreams);
        Problem::from(refusal).into()
    })
}

impl EventStream {
    /// Returns the next state that the caller does not have; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Arc<SubjectState>> {
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
                () = sleep_until(self.due) => {
                    if !self.still_may().await {
                        return None;
                    }
                }
                () = self.ctx.shutdown.cancelled() => return None,
            }
        }
    }

    /// Returns whether the caller still has a session and the right to watch.
    async fn still_may(&mut self) -> bool {
        let check = async {
            let found = self.caller.get(self.ctx.changes(), async || still(&self.ctx, &self.actor).await).await?;
            may(&self.ctx, &found.actor, self.subject, self.operation).await?;
            Ok::<_, Error>(found)
        };
        match check.await {
            Ok(found) => {
                self.due = found.at + CHECK_AGE;
                true
            }
            Err(Error::Problem(_)) => false,
            Err(error) => {
                // `into_problem` logs it. Without a successful check, the stream ends.
                let _ = error.into_problem();
                false
            }
        }
    }
}

/// Returns the caller with its present grants.
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

/// Checks that the caller may watch the subject.
async fn may(ctx: &Ctx, actor: &Actor, subject: StreamSubject, operation: Operation) -> Result<(), Error> {
    match subject {
        StreamSubject::Job(id) => load_readable_job(ctx, actor, id).await.map(|_| ()),
        StreamSubject::Consortium(id) => policy::check(actor, operation, Place::Consortium(id)),
    }
}

/// A subscription to changes that may concern a subject.
enum SubjectSubscription {
    Job(ChangeSubscription),
    Consortium(DisplaySubscription),
}

impl SubjectSubscription {
    fn new(ctx: &Ctx, subject: StreamSubject) -> Self {
        match subject {
            StreamSubject::Job(id) => Self::Job(ctx.changes().subscribe_to_job_display(id)),
            StreamSubject::Consortium(_) => Self::Consortium(ctx.changes().subscribe_to_display()),
        }
    }

    /// Waits for the next change, but for at most `at_most`. `jobs` are the open jobs of a consortium.
    async fn wait(&mut self, jobs: JobChannels, at_most: Duration) {
        match self {
            Self::Job(changes) => changes.wait(at_most).await,
            Self::Consortium(changes) => changes.wait(jobs, at_most).await,
        }
    }
}

/// Queries a subject until it has no subscribers, in the turns of the first subscriber.
async fn keep_looking(ctx: Ctx, owner: WorkOwner, subject: StreamSubject, desk: UpdateSender) {
    loop {
        // Before the query, so that no change is missed in between.
        let mut waiter = SubjectSubscription::new(&ctx, subject);
        let mut jobs = JobChannels::ALL;
        let query = async {
            let _turn = ctx.event_hub().looks().acquire(owner).await?;
            look(&ctx, subject).await
        };
        match query.await {
            Ok((state, open)) => {
                jobs = open;
                desk.send_if_modified(|now| {
                    let other = now.as_ref().is_none_or(|now| now.version != state.version);
                    if other {
                        *now = Some(Arc::new(state));
                    }
                    other
                });
            }
            Err(error) => {
                // `into_problem` logs it; the next query may succeed.
                let _ = error.into_problem();
            }
        }
        let pause = async {
            tokio::time::sleep(LEAST).await;
            waiter.wait(jobs, LOOK_AGAIN.saturating_sub(LEAST)).await;
        };
        tokio::select! {
            () = pause => {}
            () = ctx.shutdown.cancelled() => return,
        }
        if ctx.event_hub().remove_unused(subject) {
            return;
        }
    }
}

/// Queries a subject. Returns its state, and the channels of its open jobs.
async fn look(ctx: &Ctx, subject: StreamSubject) -> Result<(SubjectState, JobChannels), Error> {
    match subject {
        StreamSubject::Job(id) => {
            let row = load_job(ctx.db.read(), id).await?;
            let event = JobEvent {
                job: (&row).into(),
                diagnoses: diagnosis::diagnose(ctx, &row).await?,
                log: job_log::newest(ctx, id).await?,
                progress: view::progress(ctx, None, row).await?,
            };
            Ok((to_update(&event, "")?, [id].into_iter().collect()))
        }
        StreamSubject::Consortium(id) => {
            let jobs = job::Entity::find()
                .filter(job::Column::ConsortiumId.eq(id.0))
                .order_by_desc(job::Column::Id)
                .limit(MOST_JOBS)
                .all(ctx.db.read())
                .await?;
            let rest = page_content(ctx, id, &jobs).await?;
            let open = jobs.iter().filter(|job| job.finished_at.is_none()).map(|job| JobId(job.id)).collect();
            let event = ConsortiumEvent { jobs: jobs.iter().map(Into::into).collect() };
            Ok((to_update(&event, &rest)?, open))
        }
    }
}

/// Returns a state with its version; `rest` is further content that belongs to the version only.
fn to_update(state: &impl Serialize, rest: &str) -> Result<SubjectState, Error> {
    let json = to_json(state)?;
    let digest = Sha256::new().chain_update(&json).chain_update(rest).finalize();
    Ok(SubjectState { version: hex::encode(&digest[..8]), json })
}

/// Returns the other content of a consortium's pages: its members, the facts and accounts of its datasets, freezes, and
/// answers.
async fn page_content(ctx: &Ctx, id: ConsortiumId, jobs: &[job::Model]) -> Result<String, Error> {
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
