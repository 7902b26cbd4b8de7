//! A model that a job reads, and that its data do not fit: no part of the job could run.

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _};
use undertone_api::dataset::{Dataset, DatasetContent};
use undertone_api::id::ConsortiumId;
use undertone_api::job::Spec;
use undertone_api::job::dp_sgd::{RowColumns, TrainingLoss};
use undertone_api::problem::Violation;

use crate::error::Error;
use crate::model::{artifact, job};

/// Returns the reason why a job cannot read the model that it names; `None` also for a model that the server does not
/// know.
pub(super) async fn find_misread_model(
    connection: &impl ConnectionTrait,
    consortium: ConsortiumId,
    spec: &Spec,
    datasets: &[Dataset],
) -> Result<Option<Violation>, Error> {
    let Some(digest) = spec.read_model() else { return Ok(None) };
    let files = artifact::Entity::find().filter(artifact::Column::Digest.eq(digest)).all(connection).await?;
    let jobs = job::Entity::find()
        .filter(job::Column::Id.is_in(files.iter().map(|file| file.job_id)))
        .filter(job::Column::ConsortiumId.eq(consortium.0))
        .all(connection)
        .await?;
    let used = spec.datasets();
    let tables: Vec<&Dataset> = datasets
        .iter()
        .filter(|dataset| dataset.content == DatasetContent::Table && used.iter().any(|(id, _)| *id == dataset.id))
        .collect();
    let reason = jobs.iter().find_map(|made| {
        let reason = match &*made.spec {
            Spec::DpSgd(training) => match &training.model.rows {
                Some(columns) => describe_rows(spec, columns, &tables),
                None if tables.is_empty() => None,
                None => Some("reads speech: evaluate it on speech".to_owned()),
            },
            Spec::ActiveLearning(_) => {
                Some("classifies queries: a site applies it with `undertone-worker predict`".to_owned())
            }
            _ => None,
        };
        reason.map(|reason| Violation::new("spec.model", format!("the model of the job {:?} {reason}", made.title)))
    });
    Ok(reason)
}

/// Returns the reason why a job cannot read a model of rows.
fn describe_rows(spec: &Spec, columns: &RowColumns, tables: &[&Dataset]) -> Option<String> {
    let Spec::Evaluation(evaluation) = spec else {
        return Some("reads rows of tables, and this job has none".to_owned());
    };
    if tables.is_empty() {
        return Some("reads rows of tables: evaluate it on tables".to_owned());
    }
    if columns.loss() == TrainingLoss::SquaredError {
        return Some(
            "predicts a number, which has no classes: evaluate it at a site with `undertone-worker evaluate`"
                .to_owned(),
        );
    }
    if evaluation.columns.as_deref().is_some_and(|named| named != columns) {
        return Some("names its columns itself, and `columns` names other ones: leave these out".to_owned());
    }
    if let Some(class) = evaluation.classes.iter().find(|class| **class >= columns.outputs()) {
        return Some(format!("has the classes 0 to {}, not {class}", columns.outputs().saturating_sub(1)));
    }
    let all = columns.columns();
    tables.iter().find_map(|dataset| {
        let schema = dataset.table.as_ref()?;
        let missing = all.iter().find(|column| !schema.columns.contains(column))?;
        Some(format!("reads the column `{}`, which `{}` declares otherwise or lacks", missing.name, dataset.name))
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use serde_json::json;
    use undertone_api::dataset::Dataset;
    use undertone_api::job::dp_sgd::RowColumns;
    use undertone_api::job::{Spec, evaluation};

    use super::describe_rows;

    #[test]
    fn columns_of_a_spec_are_those_of_its_model_of_rows() {
        let id = "00000000-0000-0000-0000-000000000001";
        let returns = json!({ "name": "returns", "kind": "boolean" });
        let age = json!({ "name": "age", "kind": "integer", "least": 0, "most": 100 });
        let table: Dataset = serde_json::from_value(json!({
            "id": id, "lineage": id, "organization": id, "organization_name": "a hospital", "worker": id, "name": "visits",
            "visibility": "private", "content": "table", "inputs": 0, "classes": 0, "records": 100, "speakers": 1,
            "test_records": 0, "table": { "unit_column": "patient", "columns": [age, returns] }, "units": ["user"],
            "accounts": [], "created_at": "2026-01-01T00:00:00Z",
        }))
        .unwrap();
        let columns: RowColumns =
            serde_json::from_value(json!({ "target": returns, "features": [age], "rows_per_unit": 4 })).unwrap();
        let refusal = |named: Option<RowColumns>| {
            let spec: evaluation::Spec = serde_json::from_value(json!({
                "unit": "user", "model": "ab".repeat(32), "columns": named, "classes": [1], "noise_multiplier": 4.0,
                "participants": [{ "dataset": id }],
            }))
            .unwrap();
            describe_rows(&Spec::Evaluation(spec), &columns, &[&table])
        };
        assert_eq!((refusal(None), refusal(Some(columns.clone()))), (None, None));
        let other = refusal(Some(RowColumns { rows_per_unit: 5, ..columns.clone() })).unwrap();
        assert!(other.contains("`columns` names other ones"), "{other}");
    }
}
