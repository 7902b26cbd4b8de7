//! The progress of the questions of a consortium's jobs, with as many statements for a hundred jobs as for one.

use std::collections::HashMap;

use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _,
};
use undertone_api::id::ConsortiumId;
use undertone_api::job::AskingJob;
use undertone_api::question::{QuestionPlan, QuestionProgress};
use uuid::Uuid;

use super::{agreement, close, read_plan};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::{annotation, annotator, job, pool, tally};

/// The highest number of jobs in a list.
const JOBS: u64 = 100;

/// Returns the jobs of a consortium with questions, newest first, with their progress.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn asking(ctx: &Ctx, actor: &Actor, consortium: ConsortiumId) -> Result<Vec<AskingJob>, Error> {
    policy::check(actor, Operation::FollowQuestions, Place::Consortium(consortium))?;
    let rows = job::Entity::find()
        .filter(job::Column::ConsortiumId.eq(consortium.0))
        .filter(job::Column::Asks.eq(true))
        .order_by_desc(job::Column::Id)
        .limit(JOBS)
        .all(ctx.db.read())
        .await?;
    let mut asking = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(questions) = read_plan(&row) {
            asking.push((row, questions));
        }
    }
    let figures = ProgressCounts::load(ctx.db.read(), &asking).await?;
    let to_asking_job = |(row, questions): &(job::Model, QuestionPlan)| {
        Ok(AskingJob { summary: row.into(), asking: figures.summarize(row, questions) })
    };
    asking.iter().map(to_asking_job).collect()
}

/// The counts, by job.
struct ProgressCounts {
    /// The number of received pools, and of the questions in them.
    pools: HashMap<Uuid, (u32, u64)>,
    /// The number of asked questions, by their number of answers.
    counts: HashMap<Uuid, Vec<(i32, u64)>>,
    annotations: HashMap<Uuid, u64>,
    annotators: HashMap<Uuid, u64>,
    agreement: HashMap<Uuid, f64>,
}

impl ProgressCounts {
    async fn load(connection: &impl ConnectionTrait, asking: &[(job::Model, QuestionPlan)]) -> Result<Self, Error> {
        let ids: Vec<Uuid> = asking.iter().map(|(row, _)| row.id).collect();
        let came: Vec<(Uuid, i64)> = pool::Entity::find()
            .select_only()
            .columns([pool::Column::JobId, pool::Column::Questions])
            .filter(pool::Column::JobId.is_in(ids.clone()))
            .into_tuple()
            .all(connection)
            .await?;
        let mut pools: HashMap<Uuid, (u32, u64)> = HashMap::new();
        for (job, questions) in came {
            let here = pools.entry(job).or_default();
            *here = (here.0 + 1, here.1 + questions as u64);
        }
        let tallies: Vec<(Uuid, i32, i64)> = tally::Entity::find()
            .select_only()
            .columns([tally::Column::JobId, tally::Column::Answers])
            .column_as(tally::Column::QuestionId.count(), "questions")
            .filter(tally::Column::JobId.is_in(ids.clone()))
            .group_by(tally::Column::JobId)
            .group_by(tally::Column::Answers)
            .into_tuple()
            .all(connection)
            .await?;
        let mut counts: HashMap<Uuid, Vec<(i32, u64)>> = HashMap::new();
        for (job, answers, questions) in tallies {
            counts.entry(job).or_default().push((answers, questions as u64));
        }
        let annotations: Vec<(Uuid, i64)> = close::counting_of(&ids)
            .select_only()
            .column(annotation::Column::JobId)
            .column_as(annotation::Column::Id.count(), "answers")
            .group_by(annotation::Column::JobId)
            .into_tuple()
            .all(connection)
            .await?;
        let annotators: Vec<(Uuid, i64)> = annotator::Entity::find()
            .select_only()
            .column(annotator::Column::JobId)
            .column_as(annotator::Column::Number.count(), "people")
            .filter(annotator::Column::JobId.is_in(ids))
            .group_by(annotator::Column::JobId)
            .into_tuple()
            .all(connection)
            .await?;
        let several = asking.iter().filter(|(_, questions)| agreement::says(questions)).map(|(row, _)| row.id);
        let count = |(job, count): (Uuid, i64)| (job, count as u64);
        Ok(Self {
            pools,
            counts,
            annotations: annotations.into_iter().map(count).collect(),
            annotators: annotators.into_iter().map(count).collect(),
            agreement: agreement::find_agreements(connection, &several.collect::<Vec<_>>()).await?,
        })
    }

    fn summarize(&self, row: &job::Model, questions: &QuestionPlan) -> QuestionProgress {
        let (pools, held) = self.pools.get(&row.id).copied().unwrap_or_default();
        let counts = self.counts.get(&row.id).map_or(&[][..], Vec::as_slice);
        let needed = questions.annotators as i32;
        QuestionProgress {
            rounds_done: row.rounds_done as u32,
            rounds: questions.rounds,
            pools,
            pools_awaited: questions.asking.len() as u32,
            questions: held,
            asked: counts.iter().map(|(_, questions)| questions).sum(),
            answered: counts.iter().filter(|(answers, _)| *answers >= needed).map(|(_, questions)| questions).sum(),
            annotations: self.annotations.get(&row.id).copied().unwrap_or_default(),
            annotators: self.annotators.get(&row.id).copied().unwrap_or_default() as u32,
            agreement: self.agreement.get(&row.id).copied(),
        }
    }
}
