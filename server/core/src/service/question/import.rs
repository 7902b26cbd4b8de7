//! Imports labels from elsewhere. A label is matched to its question by the question's text. All labels of one import
//! count as one person's answers: the caller's, or those of a named import.

use std::collections::HashMap;

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use serde_json::{Value, json};
use undertone_api::id::JobId;
use undertone_api::member::check_name;
use undertone_api::problem::{Code, Violation};
use undertone_api::question::{Answer, ImportResult, QuestionPlan};

use super::answer::{self, AnswerAuthor, AnswerOutcome};
use super::askable;
use crate::auth::{Actor, Operation, Place};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::question;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};

/// The highest number of labels of one import.
pub const MOST: usize = 20_000;
/// The number of labels recorded in one transaction, so that other writes can run in between.
const AT_ONCE: usize = 200;

/// A text with its label; no label where none was given.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LabelLine {
    text: String,
    label: Option<String>,
}

/// Records labels as answers: JSON Lines, each with `text` and `label` (or one of [`super::export()`]'s); or the JSON
/// of Label Studio, its tasks with annotations or its short form. Of several annotations of a task the last that was
/// not cancelled counts. `name` names their author; without it the author is the caller. Labels recorded before a
/// failure stay, and are not recorded twice.
///
/// # Errors
/// 404 and 403 as usual; `validation_failed` with the lines that cannot be read, `too_large` for too many.
pub async fn import(
    ctx: &Ctx,
    actor: &Actor,
    id: JobId,
    name: Option<&str>,
    text: &str,
) -> Result<ImportResult, Error> {
    let (row, questions) = askable(ctx, actor, Operation::ImportAnswers, id).await?;
    let mut violations = Vec::new();
    if let Some(name) = name {
        check_name("name", name, &mut violations);
    }
    let lines = parse(text, &mut violations);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    if lines.len() > MOST {
        return Err(Error::problem(Code::TooLarge, format!("import at most {MOST} labels at a time")));
    }
    let who = name.map_or(AnswerAuthor::Member(actor.id().0), |name| AnswerAuthor::Import(name.trim()));
    let mut imported = ImportResult::default();
    for some in lines.chunks(AT_ONCE) {
        let counts =
            ctx.db.write("import answers", async |tx| record(ctx, tx, id, &questions, who, some).await).await?;
        imported.taken += counts.taken;
        imported.unknown_texts += counts.unknown_texts;
        imported.unknown_labels += counts.unknown_labels;
        imported.too_late += counts.too_late;
        ctx.changes().notify_job(id);
    }
    let act = NewAuditEntry {
        by: AuditAuthor::from(actor),
        what: AuditAction::AnswersImported,
        place: Place::Consortium(row.consortium_id.into()),
        subject: Some(("job", id.to_string())),
        detail: json!({ "lines": lines.len(), "taken": imported.taken, "as_another": name.is_some() }),
    };
    audit_log::note(ctx, act).await?;
    Ok(imported)
}

async fn record(
    ctx: &Ctx,
    tx: &Tx,
    job: JobId,
    questions: &QuestionPlan,
    who: AnswerAuthor<'_>,
    lines: &[LabelLine],
) -> Result<ImportResult, Error> {
    let texts = question::Column::Text.is_in(lines.iter().map(|line| line.text.as_str()));
    let rows = question::Entity::find().filter(question::Column::JobId.eq(job.0)).filter(texts).all(tx).await?;
    let mut by_text: HashMap<&str, Vec<&question::Model>> = HashMap::new();
    for row in &rows {
        by_text.entry(&row.text).or_default().push(row);
    }
    let (mut counts, mut number) = (ImportResult::default(), None);
    for line in lines {
        let Some(questions_of_text) = by_text.get(line.text.as_str()) else {
            counts.unknown_texts += 1;
            continue;
        };
        let answer = line.label.clone().map(|label| Answer::Label { label });
        let Some(answer) = answer.filter(|answer| answer::knows(questions, answer)) else {
            counts.unknown_labels += 1;
            continue;
        };
        let own = match number {
            Some(own) => own,
            None => answer::number(ctx, tx, job, who).await?,
        };
        number = Some(own);
        let mut has_new = false;
        for question in questions_of_text {
            let recorded = answer::record(ctx, tx, questions, question, own, &answer).await?;
            if matches!(recorded, AnswerOutcome::Taken(_)) {
                has_new = true;
                answer::end(ctx, tx, question, questions).await?;
            }
        }
        if has_new {
            counts.taken += 1;
        } else {
            counts.too_late += 1;
        }
    }
    Ok(counts)
}

/// Returns the labels of a text in any of the forms.
fn parse(text: &str, violations: &mut Vec<Violation>) -> Vec<LabelLine> {
    let text = text.trim_start_matches('\u{feff}');
    let values: Vec<Result<Value, serde_json::Error>> = if text.trim_start().starts_with('[') {
        match serde_json::from_str::<Vec<Value>>(text) {
            Ok(values) => values.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        }
    } else {
        text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect()
    };
    let mut lines = Vec::with_capacity(values.len());
    for (number, value) in (1..).zip(values) {
        let read = value.map_err(|error| error.to_string()).and_then(|value| {
            line(&value).ok_or_else(|| "give a `text`, or `data` with a `text`, as each question has it".to_owned())
        });
        match read {
            Ok(line) => lines.push(line),
            // Enough to recognize the problem of the file.
            Err(message) if violations.len() < 20 => {
                violations.push(Violation::new(format!("lines.{number}"), message));
            }
            Err(_) => {}
        }
    }
    lines
}

fn line(value: &Value) -> Option<LabelLine> {
    let text = value["data"]["text"].as_str().or_else(|| value["text"].as_str())?.to_owned();
    let label = choice(&value["label"])
        .or_else(|| last(&value["answers"], |answer| choice(&answer["label"])))
        .or_else(|| last(&value["annotations"], annotated));
    Some(LabelLine { text, label })
}

/// Returns a label in plain form, or in Label Studio's form of choices.
fn choice(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value["choices"][0].as_str()).map(str::to_owned)
}

fn last(values: &Value, label: impl Fn(&Value) -> Option<String>) -> Option<String> {
    values.as_array()?.iter().rev().find_map(label)
}

/// Returns the choice of one annotation of Label Studio.
fn annotated(annotation: &Value) -> Option<String> {
    if annotation["was_cancelled"] == true {
        return None;
    }
    annotation["result"].as_array()?.iter().find_map(|result| choice(&result["value"]))
}

#[cfg(test)]
mod tests {
    use super::{LabelLine, parse};

    fn read(text: &str) -> Vec<(String, Option<String>)> {
        let mut violations = Vec::new();
        let lines = parse(text, &mut violations);
        assert_eq!(violations, []);
        lines.into_iter().map(|LabelLine { text, label }| (text, label)).collect()
    }

    fn labelled(text: &str, label: &str) -> (String, Option<String>) {
        (text.to_owned(), Some(label.to_owned()))
    }

    #[test]
    fn a_label_is_read_in_every_form() {
        let forms = [
            r#"{"text":"where is it","label":"where"}"#,
            r#"{"id":"x","text":"where is it","answers":[{"annotator":1,"answer":"label","label":"where"},{"annotator":2,"answer":"skip"}]}"#,
            r#"[{"id":1,"text":"where is it","label":"where","annotator":7}]"#,
            r#"[{"id":1,"text":"where is it","label":{"choices":["where","what"]}}]"#,
            r#"[{"id":1,"data":{"text":"where is it"},"annotations":[
                {"was_cancelled":false,"result":[{"value":{"choices":["what"]},"from_name":"label","to_name":"text","type":"choices"}]},
                {"was_cancelled":false,"result":[{"value":{"choices":["where"]},"from_name":"label","to_name":"text","type":"choices"}]},
                {"was_cancelled":true,"result":[{"value":{"choices":["what"]}}]}]}]"#,
        ];
        for form in forms {
            assert_eq!(read(form), [labelled("where is it", "where")], "{form}");
        }
    }

    #[test]
    fn a_task_that_nobody_labelled_has_no_label() {
        let form = r#"[{"data":{"text":"a"},"annotations":[]},{"data":{"text":"b"},"annotations":[{"was_cancelled":true,"result":[]}]}]"#;
        assert_eq!(read(form), [("a".to_owned(), None), ("b".to_owned(), None)]);
        assert_eq!(read("\u{feff}\n"), []);
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_line() {
        let mut violations = Vec::new();
        parse("{\"text\":\"a\",\"label\":\"b\"}\n{\"label\":\"b\"}\nlabel\n", &mut violations);
        let fields: Vec<_> = violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["lines.2", "lines.3"]);
    }
}
