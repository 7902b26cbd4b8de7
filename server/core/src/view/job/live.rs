//! The live view of a running job: rounds, awaited and late participants, measurements.

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use time::Duration;
use undertone_api::job::{
    Approval, DatasetUse, JobParticipant, JobProgress, JobState, ParticipantState, RoundSubmission, RoundView,
    SeriesProgress,
};

use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::planned_series::PlannedSeries;
use crate::model::{job, measurement, participant, round, submission, worker};
use crate::rule::hold::describe_pause;
use crate::rule::job::load_participants;
use crate::service::question;

/// The highest number of rounds in the view.
const ROUNDS: u64 = 20;

/// Returns the present progress of a job as `reader` may see it; without one, as every reader of the job may.
pub(crate) async fn progress(ctx: &Ctx, reader: Option<&Actor>, row: job::Model) -> Result<JobProgress, Error> {
    let connection = ctx.db.read();
    let planned = &*row.series;
    let participants = super::participants(ctx, reader, &row).await?;
    let mut series = Vec::new();
    for planned in planned {
        let closed = round::Entity::find()
            .filter(round::Column::JobId.eq(row.id))
            .filter(round::Column::Series.eq(&planned.series.name))
            .filter(round::Column::ClosedAt.is_not_null())
            .order_by_desc(round::Column::Round)
            .one(connection)
            .await?;
        series.push(SeriesProgress {
            series: planned.series.name.clone(),
            done: closed.map_or(0, |closed| closed.round as u32),
            rounds: planned.series.rounds,
        });
    }
    let rounds = rounds(ctx, &row, planned).await?;
    let measurements = measurement::Entity::find()
        .filter(measurement::Column::JobId.eq(row.id))
        .order_by_asc(measurement::Column::At)
        .order_by_asc(measurement::Column::Series)
        .order_by_asc(measurement::Column::Round)
        .order_by_asc(measurement::Column::Test)
        .all(connection)
        .await?;
    Ok(JobProgress {
        state: *row.state,
        now: now(ctx, &row, &participants, &rounds).await?,
        series,
        rounds,
        measurements: measurements.into_iter().map(Into::into).collect(),
        participants,
    })
}

/// Returns the open round and the last closed ones, newest first.
async fn rounds(ctx: &Ctx, row: &job::Model, planned: &[PlannedSeries]) -> Result<Vec<RoundView>, Error> {
    let connection = ctx.db.read();
    let rows = round::Entity::find()
        .filter(round::Column::JobId.eq(row.id))
        .order_by_desc(round::Column::OpenedAt)
        .order_by_desc(round::Column::Round)
        .limit(ROUNDS)
        .all(connection)
        .await?;
    // Read for every series of these round numbers: few of the rows are not shown.
    let submissions = submission::Entity::find()
        .filter(submission::Column::JobId.eq(row.id))
        .filter(submission::Column::Round.is_in(rows.iter().map(|open| open.round)))
        .all(connection)
        .await?;
    let mut views = Vec::new();
    for open in rows {
        let of_it = |one: &&submission::Model| (&one.series, one.round) == (&open.series, open.round);
        let accepted: Vec<_> = submissions.iter().filter(of_it).collect();
        let weights = planned.iter().find(|planned| planned.series.name == open.series);
        let ended = open.closed_at.unwrap_or_else(|| ctx.now());
        let submissions = weights
            .into_iter()
            .flat_map(|planned| planned.series.contributors(open.round as u32))
            .map(|dataset| {
                let own = accepted.iter().find(|submission| submission.dataset_id == dataset.0);
                let accepted_at = own.map(|submission| submission.accepted_at);
                RoundSubmission {
                    dataset,
                    accepted_at,
                    late: accepted_at.unwrap_or(ended) > open.deadline || (own.is_none() && open.closed_at.is_some()),
                }
            })
            .collect();
        views.push(RoundView {
            series: open.series,
            round: open.round as u32,
            opened_at: open.opened_at,
            deadline: open.deadline,
            closed_at: open.closed_at,
            submissions,
        });
    }
    Ok(views)
}

/// Returns a sentence about the present activity, or about the awaited event.
async fn now(ctx: &Ctx, row: &job::Model, parts: &[JobParticipant], rounds: &[RoundView]) -> Result<String, Error> {
    let at_work = |part: &&JobParticipant| part.purpose == DatasetUse::Participate;
    let names = |parts: Vec<&JobParticipant>| {
        parts.iter().map(|part| part.organization_name.as_str()).collect::<Vec<_>>().join(", ")
    };
    Ok(match *row.state {
        JobState::Proposed => {
            let pending = parts.iter().filter(|part| part.approval == Approval::Pending).collect();
            format!("waits for the answer of {}", names(pending))
        }
        JobState::Queued => match offline(ctx, row).await? {
            missing if missing.is_empty() => "waits for its workers to begin".to_owned(),
            missing => format!("waits for the worker of {}: not connected", missing.join(", ")),
        },
        JobState::Paused => describe_pause(ctx.db.read(), row).await?,
        // The next training of a private lead is open while people answer.
        JobState::Running if row.asks => question::standing(ctx, row, parts).await?,
        JobState::Running => match rounds.iter().find(|round| round.closed_at.is_none()) {
            Some(open) => {
                let part = |submission: &RoundSubmission| parts.iter().find(|part| part.dataset == submission.dataset);
                let missing: Vec<&JobParticipant> = open
                    .submissions
                    .iter()
                    .filter(|submission| submission.accepted_at.is_none())
                    .filter_map(part)
                    .filter(|part| {
                        !matches!(
                            part.state,
                            ParticipantState::Failed | ParticipantState::Leaving | ParticipantState::Left
                        )
                    })
                    .collect();
                let late = if ctx.now() > open.deadline { ", past its deadline" } else { "" };
                match missing {
                    missing if missing.is_empty() => format!("averages round {} of `{}`", open.round, open.series),
                    missing => {
                        format!("round {} of `{}`{late}: waits for {}", open.round, open.series, names(missing))
                    }
                }
            }
            None if row.rounds_done < row.rounds => {
                let lead = parts.first().map_or("the lead", |part| part.organization_name.as_str());
                match parts
                    .iter()
                    .filter(at_work)
                    .filter(|part| part.state == ParticipantState::Waiting)
                    .collect::<Vec<_>>()
                {
                    waiting if waiting.is_empty() => format!("{lead} prepares the next series on public data"),
                    waiting => format!("{lead} prepares; waits for the worker of {}", names(waiting)),
                }
            }
            None => "all rounds are done; the lead measures and reports".to_owned(),
        },
        over => row.reason.clone().unwrap_or_else(|| over.label().to_owned()),
    })
}

/// Returns the owners of participants whose worker was not seen for a minute.
async fn offline(ctx: &Ctx, row: &job::Model) -> Result<Vec<String>, Error> {
    let parts = participants_of(ctx, row).await?;
    let workers = worker::Entity::find()
        .filter(worker::Column::Id.is_in(parts.iter().map(|part| part.worker_id)))
        .all(ctx.db.read())
        .await?;
    let mut missing = Vec::new();
    for part in parts {
        let worker = workers.iter().find(|worker| worker.id == part.worker_id);
        let last_seen = worker.and_then(|worker| worker.last_seen_at);
        if last_seen.is_none_or(|at| ctx.now() - at > Duration::MINUTE) && !missing.contains(&part.organization_name) {
            missing.push(part.organization_name);
        }
    }
    Ok(missing)
}

async fn participants_of(ctx: &Ctx, row: &job::Model) -> Result<Vec<participant::Model>, Error> {
    load_participants(ctx.db.read(), row.id.into()).await
}
