//! Diagnoses: the cause, the start and the remedy of a delay.
//!
//! Everything is derived on request from the server's other data: answers, leases, signs of life, rounds and their
//! deadlines, and site events in the job's log. Nothing here changes anything. To recognize one more problem: a
//! `DiagnosisCause`, and its case in `part`, `rounds` or `of_worker`.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use time::{Duration, OffsetDateTime};
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::diagnosis::{Diagnosis, DiagnosisCause};
use undertone_api::job::log::{Fault, Phase, SiteEvent};
use undertone_api::job::{DatasetUse, Departure, Hold, Holder, JobState};
use uuid::Uuid;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::participant::{ApprovalState, PartState};
use crate::model::{job, lease, participant, round, submission, worker};
use crate::rule::hold::list_holds;
use crate::rule::job::{load_departures, load_participants};
use crate::service::job_log::{self, LastSiteLine};

/// The time without a sign of life after which a worker counts as disconnected.
const GONE: Duration = Duration::minutes(1);
/// The highest accepted difference between two clocks, seconds.
pub(crate) const MOST_SKEW_SECONDS: i64 = 60;

/// Returns the causes of a job's delay; none for one that is over.
///
/// # Errors
/// When the database fails.
pub(crate) async fn diagnose(ctx: &Ctx, row: &job::Model) -> Result<Vec<Diagnosis>, Error> {
    let now = *row.state;
    let parts = load_participants(ctx.db.read(), JobId(row.id)).await?;
    let mut diagnoses = Vec::new();
    match now {
        JobState::Proposed => {
            diagnoses.extend(
                parts
                    .iter()
                    .filter(|part| part.approval == ApprovalState::Pending)
                    .map(|part| diagnose_unanswered(row, part)),
            );
        }
        JobState::Queued | JobState::Running => {
            let (open, known) = (open_rounds(ctx, row).await?, JobFacts::load(ctx, row, &parts).await?);
            for part in parts.iter().filter(|part| part.purpose == DatasetUse::Participate) {
                diagnoses.extend(self::part(ctx, row, part, &open, &known));
            }
            for open in &open {
                diagnoses.extend(rounds(ctx, &parts, open));
            }
        }
        JobState::Paused => diagnoses.extend(list_holds(ctx.db.read(), row).await?.into_iter().map(diagnose_hold)),
        JobState::Finished | JobState::Failed | JobState::Cancelled | JobState::Refused => {}
    }
    Ok(diagnoses)
}

/// Returns the diagnosis of a hold on a job.
fn diagnose_hold(hold: Hold) -> Diagnosis {
    let party = if hold.dataset.is_some() { hold.dataset_name } else { "the job".to_owned() };
    let remedy = match hold.holder {
        Holder::Job => "Its proposer, or an admin of the consortium, lets it go on.",
        Holder::Steward => "A steward of the dataset's owner lets it go on.",
        Holder::Site => {
            "Somebody at the site's terminal lets it go on: `undertone-worker jobs` lists what waits there."
        }
    };
    Diagnosis {
        dataset: hold.dataset,
        party,
        cause: DiagnosisCause::Held,
        since: Some(hold.since),
        reason: format!("{} holds it: {}", hold.by, hold.reason),
        remedy: remedy.to_owned(),
    }
}

/// Returns the problems of a worker, as far as the server can detect them.
pub(crate) fn of_worker(ctx: &Ctx, row: &worker::Model) -> Vec<Diagnosis> {
    let party = format!("the worker {}", row.name);
    disconnected(ctx, None, &party, row).into_iter().collect()
}

/// An open round, with the received and the awaited submissions.
struct OpenRound {
    row: round::Model,
    quorum: u32,
    awaited: Vec<DatasetId>,
    came: Vec<DatasetId>,
}

impl OpenRound {
    fn is_late(&self, ctx: &Ctx) -> bool {
        ctx.now() > self.row.deadline
    }
}

async fn open_rounds(ctx: &Ctx, row: &job::Model) -> Result<Vec<OpenRound>, Error> {
    let planned = &*row.series;
    let rows = round::Entity::find()
        .filter(round::Column::JobId.eq(row.id))
        .filter(round::Column::ClosedAt.is_null())
        .all(ctx.db.read())
        .await?;
    let mut open = Vec::new();
    for round in rows {
        let Some(planned) = planned.iter().find(|planned| planned.series.name == round.series) else { continue };
        let came = submission::Entity::find()
            .filter(submission::Column::JobId.eq(row.id))
            .filter(submission::Column::Series.eq(&round.series))
            .filter(submission::Column::Round.eq(round.round))
            .all(ctx.db.read())
            .await?;
        open.push(OpenRound {
            quorum: planned.series.quorum,
            awaited: planned.series.contributors(round.round as u32).collect(),
            came: came.into_iter().map(|sent| sent.dataset_id.into()).collect(),
            row: round,
        });
    }
    Ok(open)
}

/// The facts about the participants of a running job, loaded at once for all of them.
struct JobFacts {
    workers: HashMap<Uuid, worker::Model>,
    /// By dataset.
    leases: HashMap<Uuid, lease::Model>,
    /// By dataset.
    said: HashMap<Uuid, LastSiteLine>,
    /// By dataset.
    departures: HashMap<Uuid, Departure>,
}

impl JobFacts {
    async fn load(ctx: &Ctx, row: &job::Model, parts: &[participant::Model]) -> Result<Self, Error> {
        let workers = worker::Entity::find()
            .filter(worker::Column::Id.is_in(parts.iter().map(|part| part.worker_id)))
            .all(ctx.db.read())
            .await?;
        let leases = lease::Entity::find().filter(lease::Column::JobId.eq(row.id)).all(ctx.db.read()).await?;
        Ok(Self {
            workers: workers.into_iter().map(|worker| (worker.id, worker)).collect(),
            leases: leases.into_iter().map(|lease| (lease.dataset_id, lease)).collect(),
            said: job_log::last(ctx.db.read(), row.id).await?,
            departures: load_departures(ctx.db.read(), JobId(row.id)).await?,
        })
    }
}

/// Returns the diagnosis of a proposal that needs an owner's answer.
fn diagnose_unanswered(row: &job::Model, part: &participant::Model) -> Diagnosis {
    Diagnosis {
        dataset: Some(part.dataset_id.into()),
        party: party_name(part),
        cause: DiagnosisCause::AwaitsOwner,
        since: Some(row.created_at),
        reason: "no steward has decided, and the site's own policy has not either".to_owned(),
        remedy: format!("A steward of {} approves or refuses it on this page.", part.organization_name),
    }
}

/// Returns the problems of one participant of a running job: the first that applies.
fn part(
    ctx: &Ctx,
    row: &job::Model,
    part: &participant::Model,
    open: &[OpenRound],
    known: &JobFacts,
) -> Vec<Diagnosis> {
    let last = known.said.get(&part.dataset_id).copied();
    let about = |cause, since, reason: String, remedy: String| Diagnosis {
        dataset: Some(part.dataset_id.into()),
        party: party_name(part),
        cause,
        since,
        reason,
        remedy,
    };
    if known.departures.contains_key(&part.dataset_id) {
        // It holds up nothing. Only its own reservation waits, for its worker.
        let worker = known.workers.get(&part.worker_id).filter(|_| part.state == PartState::Leaving);
        return worker
            .and_then(|worker| disconnected(ctx, Some(part), &party_name(part), worker))
            .into_iter()
            .collect();
    }
    if part.state.is_out() {
        return vec![gave_up(&about, last)];
    }
    if part.state == PartState::Done {
        return Vec::new();
    }
    let mut diagnoses = Vec::new();
    let worker = known.workers.get(&part.worker_id);
    if let Some(worker) = worker
        && worker.last_seen_at.is_some()
        && !worker.kinds.contains(&row.kind)
    {
        diagnoses.push(about(
            DiagnosisCause::UnknownKind,
            None,
            format!("its worker ({}) cannot run jobs of the kind {}", worker.version, row.kind),
            format!("Somebody at {} upgrades the worker.", part.organization_name),
        ));
    }
    let disconnection = worker.and_then(|worker| disconnected(ctx, Some(part), &party_name(part), worker));
    if let Some(disconnection) = disconnection {
        diagnoses.push(disconnection);
        return diagnoses;
    }
    if let Some(last) = last {
        diagnoses.extend(from_log(&about, part, last));
    }
    if diagnoses.is_empty() && part.state == PartState::Running {
        let lease = known.leases.get(&part.dataset_id);
        let late = open.iter().find(|open| open.is_late(ctx) && lacks(open, part));
        match (lease, late) {
            (Some(lease), _) if lease.expires_at <= ctx.now() => diagnoses.push(about(
                DiagnosisCause::Silent,
                Some(lease.expires_at),
                "its worker is connected, but has not kept its part".to_owned(),
                format!("Somebody at {} looks at the worker's log, or restarts it; it goes on where it was.", part.organization_name),
            )),
            (Some(_), Some(late)) => diagnoses.push(about(
                DiagnosisCause::NoSubmission,
                Some(late.row.deadline),
                format!("it is at work, and its vector of round {}, {} is late", late.row.round, late.row.series),
                "The round closes without it when enough others have come. A slow site is helped by a longer deadline or a smaller batch in the next job.".to_owned(),
            )),
            _ => {}
        }
    }
    diagnoses
}

fn lacks(open: &OpenRound, part: &participant::Model) -> bool {
    let dataset = part.dataset_id.into();
    open.awaited.contains(&dataset) && !open.came.contains(&dataset)
}

type About<'a> = dyn Fn(DiagnosisCause, Option<OffsetDateTime>, String, String) -> Diagnosis + Sync + 'a;

/// Returns the diagnosis of a part that failed while the job continues.
fn gave_up(about: &About<'_>, said: Option<LastSiteLine>) -> Diagnosis {
    match said {
        Some(LastSiteLine { event: SiteEvent::Fault { fault }, at, .. }) => faulty(about, fault, at),
        _ => about(
            DiagnosisCause::GaveUp,
            None,
            "its worker gave up".to_owned(),
            "The site's own log says why. The job goes on without it while there is a quorum; a new job can include it again.".to_owned(),
        ),
    }
}

/// Returns the diagnosis of a fault that a site reported about its part.
fn faulty(about: &About<'_>, fault: Fault, at: OffsetDateTime) -> Diagnosis {
    let cause = if fault == Fault::DiskFull { DiagnosisCause::DiskFull } else { DiagnosisCause::GaveUp };
    about(cause, Some(at), format!("its part {}", fault.phrase()), remedy(fault).to_owned())
}

const fn remedy(fault: Fault) -> &'static str {
    match fault {
        Fault::RefusedByPolicy => {
            "The site's `policy.toml` decides; its reason stands with the refusal. Propose a job that it allows."
        }
        Fault::RefusedByLedger => {
            "The site's own budget does not admit it. Propose less, or ask its steward to raise the limit there."
        }
        Fault::RefusedAtTerminal => "Ask the site; a changed job can be proposed.",
        Fault::ForeignManifest => {
            "The site was shown another document than the one that was approved. Its steward should look into it before going on."
        }
        Fault::DiskFull => "Somebody at the site makes room; `undertone-worker doctor` says how much is left.",
        Fault::DiskFails => "Somebody at the site checks its disk: `undertone-worker doctor`.",
        Fault::Failed => "The site's own log says why; what went wrong with private data is not told to others.",
    }
}

/// Returns the delays that a site itself reports.
fn from_log(about: &About<'_>, part: &participant::Model, said: LastSiteLine) -> Vec<Diagnosis> {
    let mut diagnoses = Vec::new();
    let owner = &part.organization_name;
    match said.event {
        SiteEvent::Phase { phase: Phase::AwaitsTerminal } => diagnoses.push(about(
            DiagnosisCause::AwaitsTerminal,
            Some(said.at),
            "its policy wants a yes from somebody at the site's terminal".to_owned(),
            format!("Somebody at {owner} runs `undertone-worker approve` there, or `undertone-worker refuse`."),
        )),
        SiteEvent::Phase { phase: Phase::AwaitsSlot } => diagnoses.push(about(
            DiagnosisCause::AwaitsSlot,
            Some(said.at),
            "its worker is busy with another job".to_owned(),
            format!("It begins by itself; {owner} may allow more runs at once (`concurrent_runs`)."),
        )),
        SiteEvent::Fault { fault } => diagnoses.push(faulty(about, fault, said.at)),
        _ => {}
    }
    if said.skew_seconds.unsigned_abs() > MOST_SKEW_SECONDS.unsigned_abs() {
        let (far, way) = (said.skew_seconds.unsigned_abs(), if said.skew_seconds > 0 { "fast" } else { "slow" });
        diagnoses.push(about(
            DiagnosisCause::ClockSkew,
            Some(said.at),
            format!("its clock is {far} seconds {way}"),
            format!("Somebody at {owner} sets the clock (NTP): certificates and deadlines are judged by it."),
        ));
    }
    diagnoses
}

/// Returns the diagnosis of a round below its quorum after its deadline.
fn rounds(ctx: &Ctx, parts: &[participant::Model], open: &OpenRound) -> Option<Diagnosis> {
    let short = open.came.len() < open.quorum as usize;
    if !open.is_late(ctx) || !short {
        return None;
    }
    let missing = parts.iter().filter(|part| lacks(open, part) && !part.state.is_out());
    let missing: Vec<&str> = missing.map(|part| part.organization_name.as_str()).collect();
    Some(Diagnosis {
        dataset: None,
        party: "the job".to_owned(),
        cause: DiagnosisCause::NoQuorum,
        since: Some(open.row.deadline),
        reason: format!(
            "round {}, {} is past its deadline with {} of at least {} vectors",
            open.row.round,
            open.row.series,
            open.came.len(),
            open.quorum
        ),
        remedy: format!("It stays open until one of {} sends, or somebody cancels the job.", missing.join(", ")),
    })
}

fn disconnected(
    ctx: &Ctx,
    part: Option<&participant::Model>,
    party: &str,
    worker: &worker::Model,
) -> Option<Diagnosis> {
    let about = |cause, since, reason: &str, remedy: &str| Diagnosis {
        dataset: part.map(|part| part.dataset_id.into()),
        party: party.to_owned(),
        cause,
        since,
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    };
    match worker.last_seen_at {
        None => Some(about(
            DiagnosisCause::NeverConnected,
            Some(worker.created_at),
            "its worker was enrolled and has never connected",
            "Start it at the site: `undertone-worker run`, or `systemctl start undertone-worker` where it is installed as a service.",
        )),
        Some(at) if ctx.now() - at > GONE => Some(about(
            DiagnosisCause::Disconnected,
            Some(at),
            "its worker has not been heard of",
            "Somebody at the site looks whether it runs (`systemctl status undertone-worker`) and whether it reaches this server (`undertone-worker doctor`). It goes on where it was.",
        )),
        Some(_) => None,
    }
}

fn party_name(part: &participant::Model) -> String {
    format!("{} of {}", part.dataset_name, part.organization_name)
}
