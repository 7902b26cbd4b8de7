//! Exports questions and answers: as JSON Lines, as CSV, or as tasks for Label Studio. Pages are read while they are
//! sent: memory does not grow with the job.

use std::collections::HashMap;

use futures::stream::{self, BoxStream, StreamExt as _};
use sea_orm::{ColumnTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _};
use serde_json::{Value, json};
use undertone_api::id::JobId;
use undertone_api::question::{Answer, ExportFormat, ExportedAnswer, ExportedQuestion, QuestionPlan};
use uuid::Uuid;

use super::{ROWS, answer_of, askable, close, list};
use crate::auth::{Actor, Operation, Place};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::{annotation, job, question};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};

/// An exported file.
pub struct QuestionExport {
    /// The file name.
    pub name: String,
    /// The content type.
    pub content_type: &'static str,
    /// The content.
    pub body: BoxStream<'static, Result<Vec<u8>, Error>>,
}

/// The progress of an export.
struct ExportProgress {
    ctx: Ctx,
    row: job::Model,
    questions: QuestionPlan,
    format: ExportFormat,
    last: Option<question::Model>,
    /// Whether something was written, and whether everything was.
    begun: bool,
    ended: bool,
}

/// Exports every asked question of a job, with its answers.
///
/// # Errors
/// 404 and 403 as usual.
pub async fn export(ctx: &Ctx, actor: &Actor, id: JobId, format: ExportFormat) -> Result<QuestionExport, Error> {
    let (row, questions) = askable(ctx, actor, Operation::ReadQuestions, id).await?;
    let (ending, content_type) = match format {
        ExportFormat::Jsonl => ("jsonl", "application/x-ndjson"),
        ExportFormat::Csv => ("csv", "text/csv; charset=utf-8"),
        ExportFormat::LabelStudio => ("json", "application/json"),
    };
    let act = NewAuditEntry {
        by: AuditAuthor::from(actor),
        what: AuditAction::QuestionsExported,
        place: Place::Consortium(row.consortium_id.into()),
        subject: Some(("job", id.to_string())),
        detail: json!({ "format": ending }),
    };
    audit_log::note(ctx, act).await?;
    let progress = ExportProgress { ctx: ctx.clone(), row, questions, format, last: None, begun: false, ended: false };
    let body = stream::try_unfold(progress, async |mut progress| {
        if progress.ended {
            return Ok(None);
        }
        let bytes = progress.page().await?;
        Ok(Some((bytes, progress)))
    });
    Ok(QuestionExport { name: format!("questions-{id}.{ending}"), content_type, body: body.boxed() })
}

impl ExportProgress {
    /// Returns the bytes of the next page.
    async fn page(&mut self) -> Result<Vec<u8>, Error> {
        let connection = self.ctx.db.read();
        let mut query = list::select_asked(self.row.id).limit(ROWS as u64);
        if let Some(last) = &self.last {
            query = query.filter(list::behind(last));
        }
        let rows = query.all(connection).await?;
        self.ended = rows.len() < ROWS;
        self.last = rows.last().cloned().or_else(|| self.last.take());
        let answers = annotation::Column::QuestionId.is_in(rows.iter().map(|row| row.id));
        let annotations = close::current(self.row.id).filter(answers).order_by_asc(annotation::Column::At);
        let annotations = annotations.order_by_asc(annotation::Column::Annotator).all(connection).await?;
        let mut answers: HashMap<Uuid, Vec<ExportedAnswer>> = HashMap::new();
        for row in annotations {
            let answer = answer_of(*row.answer, row.label.as_deref())?;
            let answer = ExportedAnswer { annotator: row.annotator as u32, answer };
            answers.entry(row.question_id).or_default().push(answer);
        }
        let questions = list::to_questions(connection, &self.row, &self.questions, rows).await?;
        let exported: Vec<ExportedQuestion> = questions
            .into_iter()
            .map(|question| ExportedQuestion { answers: answers.remove(&question.id.0).unwrap_or_default(), question })
            .collect();
        let bytes = match self.format {
            ExportFormat::Jsonl => lines(&exported),
            ExportFormat::Csv => table(&exported, !self.begun),
            ExportFormat::LabelStudio => tasks(&exported, !self.begun, self.ended),
        };
        self.begun |= !exported.is_empty();
        bytes.map_err(|error| Error::internal("writing an export", error))
    }
}

type Written = Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>>;

fn lines(exported: &[ExportedQuestion]) -> Written {
    let mut bytes = Vec::new();
    for exported in exported {
        serde_json::to_writer(&mut bytes, exported)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}

/// Writes a line for each answer; a question without answers has one line.
fn table(exported: &[ExportedQuestion], first: bool) -> Written {
    let mut table = csv::Writer::from_writer(Vec::new());
    if first {
        let columns =
            ["question", "dataset", "round", "state", "count", "uncertainty", "text", "annotator", "answer", "label"];
        table.write_record(columns)?;
    }
    for ExportedQuestion { question, answers } in exported {
        let number = |number: Option<String>| number.unwrap_or_default();
        let mut write = |annotator: String, answer: &str, label: &str| {
            table.write_record([
                &*question.id.to_string(),
                &question.dataset.to_string(),
                &number(question.round.map(|round| round.to_string())),
                question.state.label(),
                &number(question.count.map(|count| count.to_string())),
                &number(question.uncertainty.map(|uncertainty| uncertainty.to_string())),
                // The text comes from other users: a spreadsheet must not evaluate it.
                &audit_log::harmless(&question.text),
                &annotator,
                answer,
                &audit_log::harmless(label),
            ])
        };
        if answers.is_empty() {
            write(String::new(), "", "")?;
        }
        for ExportedAnswer { annotator, answer } in answers {
            let (kind, label) = super::columns(answer);
            write(annotator.to_string(), &kind.to_text(), label.as_deref().unwrap_or_default())?;
        }
    }
    Ok(table.into_inner()?)
}

/// Writes tasks for Label Studio's import, for a labelling configuration with `<Text name="text" value="$text"/>` and
/// `<Choices name="label" toName="text">`. Answers without a label become cancelled annotations.
fn tasks(exported: &[ExportedQuestion], first: bool, last: bool) -> Written {
    let mut bytes = Vec::new();
    if first && (last || !exported.is_empty()) {
        bytes.push(b'[');
    }
    for (index, exported) in exported.iter().enumerate() {
        if !(first && index == 0) {
            bytes.extend(b",\n");
        }
        serde_json::to_writer(&mut bytes, &task(exported))?;
    }
    if last {
        bytes.extend(b"]\n");
    }
    Ok(bytes)
}

fn task(exported: &ExportedQuestion) -> Value {
    let question = &exported.question;
    let annotation = |answered: &ExportedAnswer| {
        let Answer::Label { label } = &answered.answer else { return json!({"was_cancelled": true, "result": []}) };
        let result = json!({
            "id": format!("{}-{}", question.id, answered.annotator),
            "from_name": "label",
            "to_name": "text",
            "type": "choices",
            "value": {"choices": [label]},
        });
        json!({"was_cancelled": false, "result": [result]})
    };
    json!({
        "data": {
            "text": question.text,
            "question": question.id,
            "dataset": question.dataset,
            "round": question.round,
            "count": question.count,
            "uncertainty": question.uncertainty,
        },
        "annotations": exported.answers.iter().map(annotation).collect::<Vec<_>>(),
    })
}
