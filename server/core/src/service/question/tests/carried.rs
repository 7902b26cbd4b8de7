//! Export and import of answers.

use futures::StreamExt as _;
use serde_json::{Value, json};
use undertone_api::problem::Code;
use undertone_api::question::{ExportFormat, ImportResult};

use crate::service::question::{export, import};
use crate::service::world::poll::{QuestionJob, read_answer};
use crate::testing::on_both;

async fn export_text(poll: &QuestionJob, format: ExportFormat) -> String {
    let export = export(poll.ctx(), &poll.world.sites[1].steward, poll.job.summary.id, format).await.unwrap();
    let pieces: Vec<_> = export.body.collect().await;
    String::from_utf8(pieces.into_iter().map(Result::unwrap).collect::<Vec<_>>().concat()).unwrap()
}

async fn bring(poll: &QuestionJob, name: Option<&str>, text: &str) -> ImportResult {
    import(poll.ctx(), &poll.world.sites[0].steward, poll.job.summary.id, name, text).await.unwrap()
}

const NONE: ImportResult = ImportResult { taken: 0, unknown_texts: 0, unknown_labels: 0, too_late: 0 };

on_both! {
    async fn what_label_studio_gives_back_are_the_answers_of_one_more_person(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 2).await;
        poll.chooses(1, &[poll.id(2, "d"), poll.id(1, "a")]).await.unwrap();
        let one = poll.annotator();
        poll.says(&one, poll.id(1, "a"), "what").await.unwrap();
        poll.says(&one, poll.id(2, "d"), "unsure").await.unwrap();

        let mut tasks: Value = serde_json::from_str(&export_text(&poll, ExportFormat::LabelStudio).await).unwrap();
        assert_eq!(tasks[0]["data"]["text"], "d");
        assert_eq!(tasks[0]["annotations"][0]["was_cancelled"], true, "unsure is no choice");
        let result = &tasks[1]["annotations"][0]["result"][0];
        assert_eq!((&result["from_name"], &result["to_name"], &result["type"]), (&json!("label"), &json!("text"), &json!("choices")));
        assert_eq!(result["value"], json!({ "choices": ["what"] }));
        // As edited there: one task is labelled again, the other is unchanged.
        tasks[0]["annotations"].as_array_mut().unwrap().push(json!({
            "id": 7, "completed_by": 1, "was_cancelled": false,
            "result": [{ "value": { "choices": ["where"] }, "from_name": "label", "to_name": "text", "type": "choices" }],
        }));
        let counts = bring(&poll, Some("the linguists"), &tasks.to_string()).await;
        assert_eq!(counts, ImportResult { taken: 2, ..NONE });
        let answers = poll.answers(1).await.unwrap();
        assert_eq!(answers.iter().map(read_answer).collect::<Vec<_>>(), [(1, "none"), (2, "where"), (1, "what"), (2, "what")]);
    }

    async fn json_lines_come_back_as_they_went_and_count_once(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 3).await;
        poll.chooses(1, &[poll.id(2, "b"), poll.id(1, "b"), poll.id(1, "a")]).await.unwrap();
        let one = poll.annotator();
        for (question, label) in [(poll.id(2, "b"), "when"), (poll.id(1, "b"), "when"), (poll.id(1, "a"), "what")] {
            poll.says(&one, question, label).await.unwrap();
        }
        let lines = export_text(&poll, ExportFormat::Jsonl).await;
        assert_eq!(lines.lines().count(), 3);
        let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!((&first["text"], &first["state"], &first["annotations"]), (&json!("b"), &json!("asked"), &json!(1)));
        assert_eq!(first["answers"], json!([{ "annotator": 1, "answer": "label", "label": "when" }]));
        // Two questions have the same text: its first label answers both, its second is too late.
        assert_eq!(bring(&poll, Some("again"), &lines).await, ImportResult { taken: 2, too_late: 1, ..NONE });
        assert_eq!(bring(&poll, Some("again"), &lines).await, ImportResult { too_late: 3, ..NONE });
        assert_eq!(bring(&poll, Some("a third"), &lines).await.taken, 2);
        let answers = poll.answers(1).await.unwrap();
        assert_eq!(answers.len(), 9);
        assert!(answers.iter().all(|answered| (1..=3).contains(&answered.annotator)));
        assert_eq!(bring(&poll, Some("too late"), &lines).await, ImportResult { too_late: 3, ..NONE });
    }

    async fn what_is_unknown_is_counted_and_what_cannot_be_read_refused(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 2).await;
        poll.chooses(1, &[poll.id(1, "a")]).await.unwrap();
        let lines = "{\"text\":\"a\",\"label\":\"why\"}\n{\"text\":\"A\",\"label\":\"what\"}\n{\"text\":\"c\",\"label\":\"what\"}\n{\"text\":\"a\"}\n";
        assert_eq!(bring(&poll, None, lines).await, ImportResult { unknown_labels: 2, unknown_texts: 2, ..NONE });
        assert_eq!(bring(&poll, None, "{\"text\":\"a\",\"label\":\"what\"}").await, ImportResult { taken: 1, ..NONE });
        let own = poll.says(&poll.world.sites[0].steward, poll.id(1, "a"), "what").await.unwrap();
        assert_eq!(own.annotator, 1, "without a name they are the caller's own");
        let (importer, id) = (&poll.world.sites[0].steward, poll.job.summary.id);
        for (name, text) in [(None, "text,label\na,what\n"), (None, "[1]"), (Some(""), "{\"text\":\"a\"}")] {
            let refused = import(&app.ctx, importer, id, name, text).await.unwrap_err();
            assert_eq!(refused.code(), Code::ValidationFailed, "{text}");
        }
        let most = "{\"text\":\"z\",\"label\":\"what\"}\n".repeat(20_000);
        assert_eq!(bring(&poll, None, &most).await, ImportResult { unknown_texts: 20_000, ..NONE });
        let many = most + "{\"text\":\"z\",\"label\":\"what\"}\n";
        assert_eq!(import(&app.ctx, importer, id, None, &many).await.unwrap_err().code(), Code::TooLarge);
    }

    async fn a_question_in_a_table_is_no_formula_and_elsewhere_as_it_was_asked(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 2).await;
        let formula = "=1+1 is what";
        poll.asks(1, &[formula]).await.unwrap();
        poll.asks(2, &[]).await.unwrap();
        poll.pools().await.unwrap();
        poll.chooses(1, &[poll.id(1, formula)]).await.unwrap();
        let table = export_text(&poll, ExportFormat::Csv).await;
        assert!(table.contains(",'=1+1 is what,"), "{table}");
        let lines = export_text(&poll, ExportFormat::Jsonl).await;
        assert!(lines.contains("\"=1+1 is what\""), "{lines}");
    }

    async fn a_table_has_a_line_for_each_answer(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 2).await;
        let odd = "say \"when\", please";
        poll.asks(1, &["a", odd]).await.unwrap();
        poll.asks(2, &[]).await.unwrap();
        poll.pools().await.unwrap();
        assert_eq!(export_text(&poll, ExportFormat::LabelStudio).await, "[]\n");
        poll.chooses(1, &[poll.id(1, odd), poll.id(1, "a")]).await.unwrap();
        poll.says(&poll.annotator(), poll.id(1, odd), "when").await.unwrap();
        poll.says(&poll.annotator(), poll.id(1, odd), "skip").await.unwrap();
        let table = export_text(&poll, ExportFormat::Csv).await;
        let mut table = csv::Reader::from_reader(table.as_bytes());
        let rows: Vec<Vec<String>> =
            table.records().map(|row| row.unwrap().iter().skip(6).map(str::to_owned).collect()).collect();
        assert_eq!(rows, [vec![odd, "1", "label", "when"], vec![odd, "2", "skip", ""], vec!["a", "", "", ""]]);
    }
}
