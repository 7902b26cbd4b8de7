//! The kinds that datasets make possible, and the kinds of drafts and saved plans.

use serde_json::json;
use undertone_api::dataset::{Dataset, DatasetContent};
use undertone_api::id::DatasetId;
use undertone_api::job::{NewDraft, Spec};
use uuid::Uuid;

use super::PlannerKind;
use crate::kind::dp_sgd::TrainingPlan;
use crate::testing::example;

/// Returns the public and a private dataset of the example, with this content.
fn pair(content: DatasetContent) -> [Dataset; 2] {
    let all = if content == DatasetContent::Table { example::tables() } else { example::datasets() };
    let mut all = all.into_iter().enumerate().map(|(index, dataset)| {
        let id = DatasetId(Uuid::from_u128(0x1000 + 0x100 * content as u128 + index as u128));
        Dataset { id, content, ..dataset }
    });
    [all.next().expect("a public dataset"), all.next().expect("a private dataset")]
}

fn list_possible(datasets: &[Dataset]) -> Vec<PlannerKind> {
    PlannerKind::ALL.into_iter().filter(|kind| kind.is_possible(datasets)).collect()
}

fn draft(kind: &str, spec: serde_json::Value) -> NewDraft {
    NewDraft { title: String::new(), kind: kind.to_owned(), spec }
}

/// Returns the query of a training plan with these columns.
fn training_query(datasets: &[Dataset], rows: &str) -> String {
    let first = TrainingPlan::first(datasets, &[]).expect("there are datasets");
    let plan = TrainingPlan { rows: rows.to_owned(), ..first };
    serde_qs::to_string(&std::collections::BTreeMap::from([("plan", plan)])).expect("a plan is a query")
}

#[test]
fn datasets_decide_the_possible_kinds() {
    use PlannerKind::{Analytics, Evaluation, Questions, Rows, Speech, Transcription};
    let both = |content| pair(content).to_vec();
    assert_eq!(list_possible(&[]), []);
    assert_eq!(list_possible(&both(DatasetContent::Speech)), [Speech, Evaluation]);
    assert_eq!(list_possible(&both(DatasetContent::Table)), [Rows, Evaluation, Analytics]);
    assert_eq!(list_possible(&both(DatasetContent::Queries)), [Questions]);
    assert_eq!(list_possible(&both(DatasetContent::Recordings)), [Transcription]);
    let all = [both(DatasetContent::Speech), both(DatasetContent::Table)].concat();
    assert_eq!(list_possible(&all), [Speech, Rows, Evaluation, Analytics], "both trainings beside each other");
}

#[test]
fn each_kind_needs_its_whole_requirement() {
    use PlannerKind::{Analytics, Rows, Speech};
    let [public, private] = pair(DatasetContent::Speech);
    assert_eq!(list_possible(std::slice::from_ref(&public)), [Speech], "nothing to evaluate on");
    assert_eq!(list_possible(&[private]), [], "nothing leads");
    let [table, private_table] = pair(DatasetContent::Table);
    assert_eq!(list_possible(std::slice::from_ref(&private_table)), [Analytics]);
    assert_eq!(list_possible(&[public, private_table.clone()]), [Speech, Analytics], "contents are not mixed");
    let mut vague = table;
    if let Some(schema) = &mut vague.table {
        schema.columns.clear();
    }
    assert!(!PlannerKind::is_possible(Rows, &[vague, private_table]), "no column can be predicted");
    let unlabelled = pair(DatasetContent::Queries).map(|log| Dataset { classes: 0, ..log });
    assert_eq!(list_possible(&unlabelled), [], "no log can lead");
}

#[test]
fn words_are_unique_and_lead_back() {
    for kind in PlannerKind::ALL {
        assert_eq!(PlannerKind::from_word(kind.word()), Some(kind));
        let is_title = |other: &PlannerKind| other.title() == kind.title();
        assert_eq!(PlannerKind::ALL.iter().filter(|other| is_title(other)).count(), 1, "{kind:?}");
    }
    assert_eq!(PlannerKind::from_word("dp_sgd"), None);
}

#[test]
fn every_kind_of_job_has_a_kind_of_the_planner() {
    for kind in Spec::KINDS {
        assert!(PlannerKind::from_draft(&draft(kind, json!({})), &[]).is_some(), "{kind}");
    }
}

#[test]
fn draft_opens_its_kind() {
    let speech = pair(DatasetContent::Speech);
    let tables = pair(DatasetContent::Table);
    let all = [speech.clone(), tables.clone()].concat();
    let kind = |kind: &str, spec| PlannerKind::from_draft(&draft(kind, spec), &all);
    assert_eq!(kind("evaluation", json!({})), Some(PlannerKind::Evaluation));
    assert_eq!(kind("active_learning", json!({})), Some(PlannerKind::Questions));
    assert_eq!(kind("transcription", json!({})), Some(PlannerKind::Transcription));
    assert_eq!(kind("analytics", json!({})), Some(PlannerKind::Analytics));
    assert_eq!(kind("unknown", json!({})), None);
    assert_eq!(kind("dp_sgd", json!({ "model": { "rows": null } })), Some(PlannerKind::Speech));
    assert_eq!(kind("dp_sgd", json!({ "model": { "rows": { "features": [] } } })), Some(PlannerKind::Rows));
    let leads = |dataset: &Dataset| json!({ "participants": [{ "dataset": dataset.id }] });
    assert_eq!(kind("dp_sgd", leads(&speech[0])), Some(PlannerKind::Speech));
    assert_eq!(kind("dp_sgd", leads(&tables[0])), Some(PlannerKind::Rows));
    let empty = draft("dp_sgd", json!({}));
    assert_eq!(PlannerKind::from_draft(&empty, &all), Some(PlannerKind::Speech));
    assert_eq!(PlannerKind::from_draft(&empty, &tables), Some(PlannerKind::Rows), "rows alone can be planned");
}

#[test]
fn saved_query_opens_its_kind() {
    let speech = pair(DatasetContent::Speech);
    let tables = pair(DatasetContent::Table);
    let all = [speech.clone(), tables.clone()].concat();
    let kind = |query: &str| PlannerKind::from_query(query, &all);
    assert_eq!(kind(""), None);
    assert_eq!(kind("tour=1&draft=2"), None);
    assert_eq!(kind("evaluation%5Btitle%5D=a"), Some(PlannerKind::Evaluation));
    assert_eq!(kind("consortium=1&ask[title]="), Some(PlannerKind::Questions));
    assert_eq!(kind("hear%5Bepsilon%5D=none"), Some(PlannerKind::Transcription), "an invalid number");
    assert_eq!(kind("analytics[sql]=SELECT"), Some(PlannerKind::Analytics));
    assert_eq!(kind(&training_query(&speech, "")), Some(PlannerKind::Speech));
    assert_eq!(kind(&training_query(&speech, "{}")), Some(PlannerKind::Rows));
    assert_eq!(kind(&training_query(&tables, " ")), Some(PlannerKind::Rows), "the columns are emptied");
}
