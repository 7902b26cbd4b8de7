//! The registration of a site's datasets when its worker connects.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _,
    PaginatorTrait as _, QueryFilter as _,
};
use serde_json::json;
use undertone_api::dataset::{Dataset, DatasetContent, DatasetRegistration, SizeClass, Visibility};
use undertone_api::id::{DatasetId, WorkerId};
use undertone_api::job::JobState;
use undertone_api::member::check_name;
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::MOST_APPROVAL_KEYS;
use undertone_privacy::PrivacyUnit;

use super::to_datasets;
use crate::auth::Place;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::metrics::Limit;
use crate::model::column::{ColumnEnum, JsonColumn};
use crate::model::{dataset, job, participant, worker};
use crate::service::approval;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};

/// The most labels that a query log that is not public can declare: as many as a job may have.
const MOST_DECLARED: u32 = 200;
/// The highest number of coefficients in a frame, and of classes.
const WIDEST: u32 = 1_000_000;

/// The highest number of datasets of one worker: none is ever removed.
pub const MOST_DATASETS: u64 = 1_000;

/// Registers a dataset that `worker` holds, or updates the facts of one with the same name. The caller is the worker
/// itself, proven by its key; no member's role is checked. Several datasets of an organization may have one lineage, at
/// one worker or at several: they share its accounts. The sites determine the lineage; the server learns only its id.
///
/// # Errors
/// `validation_failed` with every violation; `too_large` when the worker has `MOST_DATASETS`; `wrong_state` when the
/// lineage or the kind of content of a name would change, or its visibility while it is in a job.
pub async fn register(ctx: &Ctx, worker: WorkerId, registration: &DatasetRegistration) -> Result<Dataset, Error> {
    if let Some(dataset) = find_registered(ctx, worker, registration).await? {
        return Ok(dataset);
    }
    let row = ctx
        .db
        .write("register dataset", async |tx| {
            let worker = worker::Entity::find_by_id(worker.0).one(tx).await?;
            let worker = worker.ok_or_else(|| Error::not_found("worker"))?;
            let dataset = dataset::Entity::find()
                .filter(dataset::Column::OrganizationId.eq(worker.organization_id))
                .filter(dataset::Column::Name.eq(registration.name.trim()))
                .one(tx)
                .await?;
            let Some(dataset) = dataset else {
                let count = dataset::Entity::find().filter(dataset::Column::WorkerId.eq(worker.id)).count(tx).await?;
                if count >= MOST_DATASETS {
                    ctx.metrics.reach(Limit::Datasets);
                    return Err(Error::problem(
                        Code::TooLarge,
                        format!(
                            "a worker has at most {MOST_DATASETS} datasets: prepare these under a name that is known"
                        ),
                    ));
                }
                let row = row(ctx, &worker, ctx.id(), ctx.now(), registration)?;
                let act = NewAuditEntry {
                    by: AuditAuthor::Worker(worker.id.into()),
                    what: AuditAction::DatasetRegistered,
                    place: Place::Organization(worker.organization_id.into()),
                    subject: Some(("dataset", row.id.to_string())),
                    detail: json!({ "name": row.name, "visibility": registration.visibility, "content": registration.content }),
                };
                audit_log::record(ctx, tx, act).await?;
                return Ok(row.into_active_model().insert(tx).await?);
            };
            if dataset.worker_id != worker.id {
                return Err(Error::wrong_state(format!(
                    "another worker of your organization registered a dataset named {:?}: choose another name",
                    registration.name.trim()
                )));
            }
            agrees(tx, &dataset, registration).await?;
            let row = row(ctx, &worker, dataset.id.into(), dataset.created_at, registration)?;
            let row = row.into_active_model().reset_all().update(tx).await?;
            if let Some(now) = to_datasets(tx, vec![row.clone()]).await?.pop() {
                // A manifest with other facts about the dataset is no longer valid.
                Box::pin(approval::refuse_outdated(ctx, tx, &now)).await?;
            }
            Ok(row)
        })
        .await?;
    ctx.changes().notify();
    tracing::info!(dataset.id = %row.id, worker.id = %worker, "a dataset was registered");
    to_datasets(ctx.db.read(), vec![row]).await?.pop().ok_or_else(|| Error::not_found("dataset"))
}

/// Returns a worker's dataset if it is registered with exactly these facts already, so that nothing must be written.
///
/// # Errors
/// `validation_failed` with every violation.
pub async fn find_registered(
    ctx: &Ctx,
    worker: WorkerId,
    registration: &DatasetRegistration,
) -> Result<Option<Dataset>, Error> {
    let violations = violations(registration);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let connection = ctx.db.read();
    let Some(worker) = worker::Entity::find_by_id(worker.0).one(connection).await? else { return Ok(None) };
    let dataset = dataset::Entity::find()
        .filter(dataset::Column::WorkerId.eq(worker.id))
        .filter(dataset::Column::Name.eq(registration.name.trim()))
        .one(connection)
        .await?;
    let Some(dataset) = dataset else { return Ok(None) };
    let row = row(ctx, &worker, dataset.id.into(), dataset.created_at, registration)?;
    if (dataset::Model { updated_at: dataset.updated_at, ..row }) != dataset {
        return Ok(None);
    }
    Ok(to_datasets(connection, vec![dataset]).await?.pop())
}

/// Checks that the new facts may replace the old ones.
async fn agrees(
    connection: &impl ConnectionTrait,
    known: &dataset::Model,
    registration: &DatasetRegistration,
) -> Result<(), Error> {
    if known.lineage_id != registration.lineage.0 {
        return Err(Error::wrong_state(
            "the name has accounts of its own, and what was spent on them stays spent: a dataset never leaves its lineage. Prepare data \
             that continue another dataset under a new name",
        ));
    }
    if known.content != registration.content {
        return Err(Error::wrong_state("the name is of data of another kind: register these under another name"));
    }
    // Running jobs were approved for the previous visibility.
    if known.visibility != registration.visibility {
        let parts =
            participant::Entity::find().filter(participant::Column::DatasetId.eq(known.id)).all(connection).await?;
        let under_way = [JobState::Proposed, JobState::Queued, JobState::Running, JobState::Paused];
        let under_way = under_way.map(ColumnEnum::to_text);
        let busy = job::Entity::find()
            .filter(job::Column::Id.is_in(parts.into_iter().map(|part| part.job_id)))
            .filter(job::Column::State.is_in(under_way))
            .one(connection)
            .await?;
        if busy.is_some() {
            return Err(Error::wrong_state("the dataset is in a job: change its visibility when the job is over"));
        }
    }
    Ok(())
}

fn row(
    ctx: &Ctx,
    worker: &worker::Model,
    id: DatasetId,
    created_at: time::OffsetDateTime,
    registration: &DatasetRegistration,
) -> Result<dataset::Model, Error> {
    let too_many = |error| Error::internal("storing a count", error);
    Ok(dataset::Model {
        id: id.0,
        organization_id: worker.organization_id,
        worker_id: worker.id,
        lineage_id: registration.lineage.0,
        name: registration.name.trim().to_owned(),
        visibility: registration.visibility.into(),
        inputs: i32::try_from(registration.inputs).map_err(too_many)?,
        classes: i32::try_from(registration.classes).map_err(too_many)?,
        records: i64::try_from(registration.records.0).map_err(too_many)?,
        speakers: i64::try_from(registration.speakers.0).map_err(too_many)?,
        test_records: i64::try_from(registration.test_records).map_err(too_many)?,
        users: registration.users.map(|users| i64::try_from(users.0).map_err(too_many)).transpose()?,
        seconds: registration.seconds.map(|seconds| i64::try_from(seconds.0).map_err(too_many)).transpose()?,
        content: registration.content.into(),
        approval: registration.approval.clone().map(JsonColumn::new).transpose()?,
        table_schema: registration.table.clone().map(JsonColumn::new).transpose()?,
        units: Some(registration.units.iter().map(|unit| unit.to_text()).collect::<Vec<_>>().join(" ")),
        created_at,
        updated_at: ctx.now(),
    })
}

fn violations(registration: &DatasetRegistration) -> Vec<Violation> {
    let mut violations = Vec::new();
    check_name("name", &registration.name, &mut violations);
    check_content(registration, &mut violations);
    let rest = [("users", registration.users), ("seconds", registration.seconds)];
    let rest = rest.into_iter().filter_map(|(field, size)| Some((field, size?.0)));
    for (field, size) in
        [("records", registration.records.0), ("speakers", registration.speakers.0)].into_iter().chain(rest)
    {
        if size == 0 || SizeClass::from_count(size).0 != size {
            violations.push(Violation::new(field, "tell sizes roughly: 1, 2 or 5 times a power of ten"));
        }
    }
    if registration.test_records != 0 && SizeClass::from_count(registration.test_records).0 != registration.test_records
    {
        violations.push(Violation::new("test_records", "tell sizes roughly: 0, or 1, 2 or 5 times a power of ten"));
    }
    let keys = registration.approval.iter().flat_map(|approval| &approval.keys);
    if keys.clone().count() > MOST_APPROVAL_KEYS || keys.clone().any(|key| key.check().is_err()) {
        violations.push(Violation::new("approval", format!("name at most {MOST_APPROVAL_KEYS} well-formed keys")));
    }
    if registration.units.is_empty() || !registration.units.is_sorted_by(|a, b| a < b) {
        violations.push(Violation::new(
            "units",
            "name at least one of `record`, `speaker`, `user`, `words`, in this order, each once",
        ));
    }
    if registration.units.contains(&PrivacyUnit::User) && registration.users.is_none() {
        violations.push(Violation::new("users", "tell roughly how many users there are, as users can be protected"));
    }
    violations
}

/// Checks the rules for each kind of content. Speech has coefficients and classes. Of a private query log the number of
/// declared labels is registered, and the labels that its rows have are not.
/// For recordings without labels, only the words are protected, and the length is stated. A table has declared columns.
fn check_content(registration: &DatasetRegistration, violations: &mut Vec<Violation>) {
    let mut within = |field: &str, count: u32, least: u32, most: u32| {
        if !(least..=most).contains(&count) {
            violations.push(Violation::new(field, format!("use {least} to {most}, not {count}")));
        }
    };
    match registration.content {
        DatasetContent::Speech => {
            within("inputs", registration.inputs, 1, WIDEST);
            within("classes", registration.classes, 1, WIDEST);
        }
        DatasetContent::Queries => {
            within("inputs", registration.inputs, 0, 0);
            let most = if registration.visibility == Visibility::Public { WIDEST } else { MOST_DECLARED };
            within("classes", registration.classes, 0, most);
            if registration.units.contains(&PrivacyUnit::Speaker) {
                violations.push(Violation::new(
                    "units",
                    "queries have no speakers: name `record`, and `user` where there are any",
                ));
            }
        }
        DatasetContent::Recordings => {
            within("inputs", registration.inputs, 0, 0);
            within("classes", registration.classes, 0, 0);
            if registration.units != [PrivacyUnit::Words] {
                let only = "of recordings without labels words are protected, and nothing else: name `words` alone";
                violations.push(Violation::new("units", only));
            }
            if registration.test_records != 0 {
                violations.push(Violation::new("test_records", "use 0: recordings have no test part"));
            }
        }
        DatasetContent::Table => {
            within("inputs", registration.inputs, 0, 0);
            within("classes", registration.classes, 0, 0);
            if registration.units != [PrivacyUnit::User] {
                violations.push(Violation::new("units", "of a table its units are protected: name `user` alone"));
            }
            if registration.test_records != 0 {
                violations.push(Violation::new("test_records", "use 0: a table has no test part"));
            }
        }
    }
    match &registration.table {
        Some(schema) if registration.content == DatasetContent::Table => violations.extend(schema.check("table")),
        Some(_) => {
            violations.push(Violation::new("table", "columns are declared for tables, and for no other content"));
        }
        None if registration.content == DatasetContent::Table => {
            violations.push(Violation::new("table", "declare the columns of the table"));
        }
        None => {}
    }
    if registration.content != DatasetContent::Recordings && registration.units.contains(&PrivacyUnit::Words) {
        violations.push(Violation::new("units", "only of recordings to be transcribed words are protected"));
    }
    if registration.seconds.is_some() != (registration.content == DatasetContent::Recordings) {
        violations.push(Violation::new(
            "seconds",
            "tell roughly how long recordings to be transcribed are, and nothing of others",
        ));
    }
}
