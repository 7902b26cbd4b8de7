//! The planner's form becomes a job, its numbers equal the ledger's, and the steward's text matches the spec.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use leptos::prelude::{Owner, RenderHtml as _};
use undertone_api::job::JobKind as _;
use undertone_api::job::evaluation::Spec;
use undertone_privacy::PrivacyUnit;

use super::description::{describe_consent, list_facts};
use super::plan::EvaluationPlan;
use super::planner::cost;
use super::result;
use crate::kind::Card;
use crate::path;
use crate::testing::TestDashboard;
use crate::testing::example::{self, CONSORTIUM};

fn plan(change: impl FnOnce(&mut EvaluationPlan)) -> EvaluationPlan {
    let mut plan = EvaluationPlan::first(&example::datasets()).unwrap();
    plan.model = "ab".repeat(32);
    plan.unit = PrivacyUnit::Speaker;
    change(&mut plan);
    plan
}

fn render_cost(plan: &EvaluationPlan) -> String {
    Owner::new().with(|| cost::render_cost(plan, &example::datasets(), &example::standings(), CONSORTIUM))
}

#[test]
fn first_plan_with_a_model_is_valid() {
    let spec = plan(|_| ()).spec().unwrap();
    assert_eq!(spec.check(&example::datasets()), Vec::new());
    assert_eq!(spec.participants.len(), 4, "the lead and three private test sets");
}

#[test]
fn first_plan_leads_where_a_private_set_can_be_measured() {
    let speech = example::datasets();
    let mut table = example::tables().swap_remove(0);
    table.id = undertone_api::id::DatasetId(uuid::Uuid::from_u128(0x0400));
    table.records = undertone_api::dataset::SizeClass(1_000_000);
    let datasets = [speech.clone(), vec![table.clone()]].concat();
    let plan = EvaluationPlan::first(&datasets).unwrap();
    assert_eq!(plan.lead, speech[0].id, "the larger table has no private one");
    assert!(plan.parts.iter().all(|part| part.joins), "{:?}", plan.parts);
    let tables = example::tables();
    let datasets = [vec![table.clone()], tables[1..].to_vec()].concat();
    let plan = EvaluationPlan::first(&datasets).unwrap();
    assert_eq!((plan.lead, plan.unit), (table.id, PrivacyUnit::User));
}

#[test]
fn planned_spec_opens_as_its_plan() {
    let other = plan(|plan| {
        (plan.accuracy, plan.bins, plan.hours) = (true, 32, 1.5);
        plan.parts[1].joins = false;
        plan.classes = "4, 7".to_owned();
    });
    for planned in [plan(|_| ()), other] {
        let spec = planned.spec().unwrap();
        let first = EvaluationPlan::first(&example::datasets()).unwrap();
        let opened = EvaluationPlan::from_spec("a title", &spec, &first);
        assert_eq!((opened.title.as_str(), opened.spec().unwrap()), ("a title", spec));
    }
}

/// Returns a plan of a graph on tables, with the columns as a person enters them.
fn row_plan(columns: &str) -> EvaluationPlan {
    let mut plan = EvaluationPlan::first(&example::tables()).unwrap();
    (plan.model, plan.columns) = ("ab".repeat(32), columns.to_owned());
    plan
}

#[test]
fn columns_of_a_graph_are_entered_as_json() {
    let plan = row_plan(
        r#" {"target":{"name":"returns","kind":"boolean"},"features":[{"name":"age","kind":"integer","least":0,"most":100}],"rows_per_unit":4}"#,
    );
    let spec = plan.spec().unwrap();
    assert_eq!(spec.check(&example::tables()), Vec::new());
    let opened = EvaluationPlan::from_spec("", &spec, &EvaluationPlan::first(&example::tables()).unwrap());
    assert_eq!(opened.spec().unwrap(), spec);
    let link = opened.link(CONSORTIUM);
    assert_eq!(EvaluationPlan::from_query(link.split_once('?').unwrap().1), Some(opened));
    let facts = list_facts(&spec);
    let (_, text) = facts.iter().find(|(term, _)| *term == "Columns").unwrap();
    assert_eq!(text, "the graph predicts returns from 1 column (1 input); at most 4 rows of each unit");
    let violations = row_plan(r#"{"target":"returns"}"#).spec().unwrap_err();
    assert!(violations[0].field == "spec.columns" && violations[0].message.contains("as JSON"), "{violations:?}");
}

#[test]
fn plan_link_round_trips() {
    let plan = plan(|plan| (plan.title, plan.accuracy) = ("what, & why?".to_owned(), true));
    let link = plan.link(CONSORTIUM);
    assert_eq!(EvaluationPlan::from_query(link.split_once('?').unwrap().1), Some(plan));
    assert_eq!(EvaluationPlan::from_query("hear%5Btitle%5D=of+another+kind"), None);
}

#[test]
fn invalid_fields_are_named_by_path() {
    let garbled = plan(|plan| {
        (plan.noise, plan.hours) = (0.0, f64::NAN);
        (plan.classes, plan.specificities) = ("one".to_owned(), "most".to_owned());
    });
    let fields: Vec<_> = garbled.spec().unwrap_err().into_iter().map(|violation| violation.field).collect();
    let expected = ["classes", "specificities", "noise_multiplier", "deadline_seconds"];
    assert_eq!(fields, expected.map(|field| format!("spec.{field}")));
    let page = render_cost(&plan(|plan| plan.model.clear()));
    assert!(page.contains("<code>model</code>"), "{page}");
}

#[test]
fn refused_plan_links_to_fitting_plans() {
    assert!(render_cost(&plan(|plan| plan.noise = 20.0)).contains("Fits every budget."));
    let page = render_cost(&plan(|plan| plan.noise = 0.3));
    assert!(page.contains("Over the limit.") && page.contains("It exceeds the remaining budget."), "{page}");
    let link = page.split("<a class=\"button\" href=\"").nth(1).or_else(|| page.split("href=\"").nth(1)).unwrap();
    let query = link.split('"').next().unwrap().replace("&amp;", "&");
    let offer = EvaluationPlan::from_query(query.split_once('?').unwrap().1).unwrap();
    assert!(offer.noise > 0.3 && render_cost(&offer).contains("Fits every budget."));
}

#[test]
fn consent_describes_the_release() {
    let spec = plan(|plan| plan.classes = "4, 7".to_owned()).spec().unwrap();
    let datasets = example::datasets();
    let consent = describe_consent(&spec, datasets[1].id, spec.cost(&datasets[1]).as_ref()).join(" ");
    for words in
        ["One vector leaves your test set, once", "for 2 classes", "noise of deviation", "1 release is charged."]
    {
        assert!(consent.contains(words), "{words:?} is not in {consent}");
    }
    assert_eq!(describe_consent(&spec, datasets[0].id, None), Vec::<String>::new(), "the lead pays nothing");
    let facts = list_facts(&spec);
    assert!(facts.iter().any(|(term, text)| *term == "Classes" && text == "4, 7, each against the rest"));
}

#[test]
fn result_shows_intervals_or_the_reason_for_none() {
    let spec = plan(|_| ()).spec().unwrap();
    let layout = spec.histograms().layout();
    let none = spec.report(&vec![0.0; layout.length()], 3).unwrap();
    let page = Owner::new().with(|| result::render_result(&none).to_html());
    assert!(page.contains("within the noise"), "{page}");
    let mut sums = vec![0.0; layout.length()];
    for n in 0..20_000_u32 {
        let is_positive = n % 5 == 0;
        let logit = f64::from(n % 97) / 20.0 - if is_positive { 2.0 } else { 3.5 };
        let label = is_positive.then_some(0);
        let example = undertone_api::job::evaluation::ScoredExample { logits: &[logit], label, is_correct: true };
        layout.add_example(example, 1.0, &mut sums);
    }
    let report = spec.report(&sums, 3).unwrap();
    let page = Owner::new().with(|| result::render_result(&report).to_html());
    for words in ["AUROC", " to ", "Operating points and calibration of class 1", "3 sites"] {
        assert!(page.contains(words), "{words:?} is not in {page}");
    }
    assert!(result::summarize(&report).starts_with("AUROC 0."), "{}", result::summarize(&report));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn form_has_every_field_without_a_script() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = dashboard.render(&path::plan_of(consortium, "evaluation"), true, "").await.body;
    let form = page.split_once(<Spec as Card>::TITLE).unwrap().1;
    for words in [
        "id=\"plan-evaluation\"",
        "action=\"/ui/propose-evaluation\"",
        "formaction=\"/ui/draft-evaluation\"",
        "name=\"evaluation[model]\"",
        "name=\"evaluation[columns]\"",
        "name=\"evaluation[parts][0][joins]\"",
        "name=\"evaluation[classes]\"",
        "name=\"evaluation[noise]\"",
        "name=\"evaluation[specificities]\"",
        "Recalculate",
    ] {
        assert!(form.contains(words), "{words:?} is not in {form}");
    }
}
