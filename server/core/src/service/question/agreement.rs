//! The agreement of annotators: Fleiss' κ (Fleiss 1971) over the questions that at least two people labelled; their
//! number may differ from question to question.

use std::collections::HashMap;

use sea_orm::{ColumnTrait as _, ConnectionTrait, QueryFilter as _, QuerySelect as _};
use undertone_api::id::JobId;
use undertone_api::question::QuestionPlan;
use uuid::Uuid;

use super::close;
use crate::error::Error;
use crate::model::annotation;

/// The number of answers to a question, for each label.
type Item = Vec<(String, u64)>;

/// Returns κ of a job's present answers; `None` where a question goes to one person only.
pub(super) async fn find_agreement(
    connection: &impl ConnectionTrait,
    job: JobId,
    questions: &QuestionPlan,
) -> Result<Option<f64>, Error> {
    if !says(questions) {
        return Ok(None);
    }
    Ok(find_agreements(connection, &[job.0]).await?.remove(&job.0))
}

/// Returns whether κ can exist: a question goes to several people.
pub(super) const fn says(questions: &QuestionPlan) -> bool {
    questions.annotators > 1
}

/// Returns κ of the present answers of several jobs, without jobs that have none.
pub(super) async fn find_agreements(
    connection: &impl ConnectionTrait,
    jobs: &[Uuid],
) -> Result<HashMap<Uuid, f64>, Error> {
    let counts: Vec<(Uuid, Uuid, String, i64)> = close::current_of(jobs)
        .filter(annotation::Column::Label.is_not_null())
        .select_only()
        .column(annotation::Column::JobId)
        .column(annotation::Column::QuestionId)
        .column(annotation::Column::Label)
        .column_as(annotation::Column::Id.count(), "answers")
        .group_by(annotation::Column::JobId)
        .group_by(annotation::Column::QuestionId)
        .group_by(annotation::Column::Label)
        .into_tuple()
        .all(connection)
        .await?;
    let mut items: HashMap<Uuid, HashMap<Uuid, Item>> = HashMap::new();
    for (job, question, label, count) in counts {
        items.entry(job).or_default().entry(question).or_default().push((label, count as u64));
    }
    Ok(items.into_iter().filter_map(|(job, items)| Some((job, kappa(items.into_values())?))).collect())
}

/// Returns κ of items, each with the number of answers per label; items with fewer than two labels are ignored. Returns
/// `None` where chance alone would agree as well.
fn kappa(items: impl Iterator<Item = Item>) -> Option<f64> {
    let (mut observed, mut count, mut all) = (0.0, 0_u64, 0_u64);
    let mut shares: HashMap<String, u64> = HashMap::new();
    for item in items {
        let total: u64 = item.iter().map(|(_, count)| count).sum();
        if total < 2 {
            continue;
        }
        let pairs: u64 = item.iter().map(|(_, count)| count * (count - 1)).sum();
        observed += pairs as f64 / (total * (total - 1)) as f64;
        count += 1;
        all += total;
        for (label, count) in item {
            *shares.entry(label).or_default() += count;
        }
    }
    let chance: f64 = shares.values().map(|share| (*share as f64 / all as f64).powi(2)).sum();
    (count > 0 && chance < 1.0).then(|| (observed / count as f64 - chance) / (1.0 - chance))
}

#[cfg(test)]
mod tests {
    use super::kappa;

    fn items(table: &[&[u64]]) -> Vec<Vec<(String, u64)>> {
        let item = |counts: &&[u64]| {
            let labels = (0..).zip(counts.iter()).filter(|(_, count)| **count > 0);
            labels.map(|(label, count): (usize, &u64)| (label.to_string(), *count)).collect()
        };
        table.iter().map(item).collect()
    }

    /// The worked example of textbooks: 14 people, 10 items, 5 labels; κ = 0.210.
    #[test]
    fn the_worked_example_comes_out() {
        let table: [&[u64]; 10] = [
            &[0, 0, 0, 0, 14],
            &[0, 2, 6, 4, 2],
            &[0, 0, 3, 5, 6],
            &[0, 3, 9, 2, 0],
            &[2, 2, 8, 1, 1],
            &[7, 7, 0, 0, 0],
            &[3, 2, 6, 3, 0],
            &[2, 5, 3, 2, 2],
            &[6, 5, 2, 1, 0],
            &[0, 2, 2, 3, 7],
        ];
        let value = kappa(items(&table).into_iter()).expect("people answered");
        assert!((value - 0.210).abs() < 5e-4, "{value}");
    }

    #[test]
    fn what_one_person_answered_and_what_all_would_agree_on_say_nothing() {
        assert_eq!(kappa(items(&[&[1, 0], &[0, 1]]).into_iter()), None);
        assert_eq!(kappa(items(&[&[2, 0], &[3, 0]]).into_iter()), None);
        assert_eq!(kappa(items(&[&[2, 0], &[0, 3], &[1, 0]]).into_iter()), Some(1.0));
    }
}
