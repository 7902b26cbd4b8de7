//! `/jobs/{id}/questions` and `/questions`: the questions of jobs to annotators, and the answers.

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use undertone_api::id::{ConsortiumId, DatasetId, JobId, QuestionId};
use undertone_api::job::AskingJob;
use undertone_api::page::{Page, PageQuery};
use undertone_api::question::{
    Annotation, AnnotationQueue, ExportFormat, ImportResult, NewAnnotation, Question, QuestionState,
};

use super::extract::{Caller, Json, Path, Query};
use super::openapi::response::WrongState;
use super::problem::Rejection;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::nul_bytes;
use undertone_server_core::service::question;

/// The largest body of an import, bytes: 16 MiB.
pub(crate) const LARGEST_IMPORT: usize = 16 << 20;

/// A filter of a job's questions.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
pub(super) struct ListQuery {
    /// The `next` of the previous page.
    cursor: Option<String>,
    /// Items on a page: 1 to 200, 50 by default.
    limit: Option<u32>,
    /// Only questions in this state. Questions in the state `waiting` are listed only on request, and only while the
    /// job runs.
    state: Option<QuestionState>,
    /// Only questions of this round.
    round: Option<u32>,
    /// Only questions from this dataset's pool.
    dataset: Option<DatasetId>,
}

/// The form of exported questions.
#[derive(Debug, Clone, Copy, Default, Deserialize, utoipa::IntoParams)]
pub(super) struct ExportQuery {
    /// `jsonl` by default.
    #[serde(default)]
    format: ExportFormat,
}

/// The annotator of imported labels.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
pub(super) struct ImportQuery {
    /// A name for the annotator, 1 to 100 characters: all labels under one name count as one annotator's. The caller by
    /// default.
    name: Option<String>,
}

/// List the jobs of a consortium with questions, newest first, at most 100
#[utoipa::path(get, path = "/consortia/{id}/questions", tag = "questions", operation_id = "list_asking_jobs", params(("id" = ConsortiumId, Path)),
    responses((status = 200, body = Vec<AskingJob>), Rejection))]
pub(super) async fn asking(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<ConsortiumId>,
) -> Result<Json<Vec<AskingJob>>, Rejection> {
    Ok(Json(question::asking(&ctx, &actor, id).await?))
}

/// List a job's questions, in the order in which they are asked
#[utoipa::path(get, path = "/jobs/{id}/questions", tag = "questions", operation_id = "list_questions", params(("id" = JobId, Path), ListQuery),
    responses((status = 200, body = Page<Question>), WrongState, Rejection))]
pub(super) async fn list(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
    Query(query): Query<ListQuery>,
) -> Result<Json<Page<Question>>, Rejection> {
    let ListQuery { cursor, limit, state, round, dataset } = query;
    let filter = question::QuestionFilter { state, round, dataset };
    Ok(Json(question::list(&ctx, &actor, id, &filter, &PageQuery { cursor, limit }).await?))
}

/// List the caller's next questions in a job
///
/// The most uncertain first. The listed questions are reserved for the caller for five minutes: other annotators
/// receive others, if there are any.
#[utoipa::path(get, path = "/jobs/{id}/questions/next", tag = "questions", operation_id = "next_questions", params(("id" = JobId, Path)),
    responses((status = 200, body = AnnotationQueue), WrongState, Rejection))]
pub(super) async fn next(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
) -> Result<Json<AnnotationQueue>, Rejection> {
    Ok(Json(question::next(&ctx, &actor, id).await?))
}

/// Answer a question
///
/// Once; the same answer again changes nothing, and a skipped question can still be answered.
#[utoipa::path(post, path = "/questions/{id}/annotations", tag = "questions", operation_id = "annotate_question", params(("id" = QuestionId, Path)), request_body = NewAnnotation,
    responses((status = 201, body = Annotation), Rejection))]
pub(super) async fn annotate(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<QuestionId>,
    Json(new): Json<NewAnnotation>,
) -> Result<(StatusCode, Json<Annotation>), Rejection> {
    Ok((StatusCode::CREATED, Json(question::annotate(&ctx, &actor, id, &new).await?)))
}

/// Withdraw an answer of the caller, while the round is open
#[utoipa::path(post, path = "/questions/{id}/annotations/undo", tag = "questions", operation_id = "take_back_annotation", params(("id" = QuestionId, Path)),
    responses((status = 200, body = Annotation), Rejection))]
pub(super) async fn take_back(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<QuestionId>,
) -> Result<Json<Annotation>, Rejection> {
    Ok(Json(question::take_back(&ctx, &actor, id).await?))
}

/// Export a job's questions and answers
///
/// `jsonl` has a question with its answers in each line, `csv` an answer, `label_studio` is a file of tasks for a
/// labelling configuration with `<Text name="text" value="$text"/>` and `<Choices name="label" toName="text">`, one
/// `<Choice>` for each label of the job.
#[utoipa::path(get, path = "/jobs/{id}/questions/export", tag = "questions", operation_id = "export_questions", params(("id" = JobId, Path), ExportQuery),
    responses((status = 200, content((String = "application/x-ndjson"), (String = "text/csv"), (Vec<Object> = "application/json"))),
        WrongState, Rejection))]
pub(super) async fn export(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, Rejection> {
    let question::QuestionExport { name, content_type, body } =
        question::export(&ctx, &actor, id, query.format).await?;
    let headers = [
        (header::CONTENT_TYPE, content_type.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// Import labels from another tool
///
/// JSON Lines with `text` and `label`, the `jsonl` form of the export, or the JSON of Label Studio (its tasks with
/// annotations, or its short form). A label belongs to the question with exactly its text; a line without a label
/// counts among the unknown labels. At most 20,000 lines and 16 MiB.
#[utoipa::path(post, path = "/jobs/{id}/questions/import", tag = "questions", operation_id = "import_answers", params(("id" = JobId, Path), ImportQuery),
    request_body(content((String = "application/x-ndjson"), (String = "application/json"))),
    responses((status = 200, body = ImportResult), Rejection))]
pub(super) async fn import(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    Path(id): Path<JobId>,
    Query(query): Query<ImportQuery>,
    text: String,
) -> Result<Json<ImportResult>, Rejection> {
    nul_bytes::refuse_in_json(text.as_bytes())?;
    Ok(Json(question::import(&ctx, &actor, id, query.name.as_deref(), &text).await?))
}
