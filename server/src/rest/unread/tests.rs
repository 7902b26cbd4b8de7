use axum::http::StatusCode;
use serde_json::{Value, json};
use undertone_api::api_key::NewApiKey;
use undertone_api::approval_key::NewApprovalKey;
use undertone_api::job::NewJob;
use undertone_api::member::{NewConsortiumMember, NewMember};
use undertone_api::organization::NewInvitation;
use undertone_api::problem::{Code, Problem, Violation};
use undertone_api::session::SignIn;

use super::{SchemaComponents, explain};
use crate::rest::openapi::described;
use crate::testing::on_both;

fn lines(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(|one| format!("{}: {}", one.field, one.message)).collect()
}

#[test]
fn every_missing_and_ill_typed_field_is_named_at_once() {
    let body = json!({ "name": 5, "password": ["x"] }).to_string();
    assert_eq!(
        lines(&explain::<NewMember>(body.as_bytes())),
        [
            "email: it is missing: give a text",
            "name: this is a number: give a text",
            "password: this is a list: give a text",
        ]
    );
    let list = lines(&explain::<SignIn>(b"[]"));
    assert_eq!(list, ["body: this is a list: give an object"]);
    assert!(explain::<SignIn>(b"{").is_empty(), "that is no JSON");
}

#[test]
fn fields_of_a_spec_are_named_with_their_paths() {
    let spec = json!({ "unit": "patient", "participants": [{ "dataset": "x" }], "warm_start": { "epochs": 1.5 } });
    let body = json!({ "kind": "dp_sgd", "title": "x", "spec": spec }).to_string();
    let messages = lines(&explain::<NewJob>(body.as_bytes()));
    for line in [
        "spec.unit: give one of `record`, `speaker`, `user`, `words`",
        "spec.model: it is missing: give an object",
        "spec.tests: it is missing: give a list",
        "spec.participants.0.sampling_rate: it is missing: give a number",
        "spec.warm_start.epochs: this is a number: give a whole number",
        "spec.warm_start.batch: it is missing: give a whole number",
    ] {
        assert!(messages.iter().any(|one| one == line), "{line}: {messages:#?}");
    }
}

#[test]
fn choice_is_made_by_its_tag() {
    let missing = lines(&explain::<NewInvitation>(br#"{"label":"x"}"#));
    assert_eq!(missing, ["purpose: it is missing: give one of `operator`, `organization`, `annotator`, `member`"]);
    let unknown = lines(&explain::<NewInvitation>(br#"{"label":"x","purpose":"guest"}"#));
    assert_eq!(unknown, ["purpose: give one of `operator`, `organization`, `annotator`, `member`"]);
    let messages = lines(&explain::<NewApprovalKey>(br#"{"label":"x","key":{"kind":"ed25519"}}"#));
    assert_eq!(messages, ["key.public_key: it is missing: give a text"]);
}

#[test]
fn field_that_its_schema_admits_is_named_by_the_reading() {
    let body = br#"{"roles":["auditor"],"email":"a@example.org","more":1}"#;
    assert!(explain::<NewConsortiumMember>(body).is_empty(), "it can be read");
    let violations = explain::<NewApiKey>(br#"{"name":"x","scopes":["read"],"days":-1}"#);
    assert_eq!(violations.len(), 1);
    assert!(violations[0].field == "days" && violations[0].message.contains("-1"), "{violations:?}");
}

#[test]
fn examples_of_all_bodies_fit_their_schemas() {
    let document = described();
    let components = SchemaComponents(document["components"]["schemas"].as_object().expect("schemas").clone());
    let mut bodies = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for operation in operations.as_object().expect("operations").values() {
            let media = &operation["requestBody"]["content"]["application/json"];
            let (Some(schema), Some(example)) = (media.get("schema"), media.get("example")) else { continue };
            let mut violations = Vec::new();
            components.compare("", schema, example, &mut violations);
            assert_eq!(lines(&violations), Vec::<String>::new(), "{path}");
            bodies += 1;
        }
    }
    assert!(bodies > 30, "only {bodies} bodies were compared");
}

#[test]
fn violations_of_an_answer_are_bounded() {
    let participants: Vec<Value> = (0..1000).map(|_| json!({})).collect();
    let body = json!({ "kind": "dp_sgd", "title": "x", "spec": { "participants": participants } }).to_string();
    assert_eq!(explain::<NewJob>(body.as_bytes()).len(), super::MOST);
}

on_both! {
    async fn body_with_missing_fields_is_refused_with_each_of_them(app: &TestApp) {
        let refused = app.server.post("/api/v1/session").json(&json!({})).await;
        refused.assert_status(StatusCode::BAD_REQUEST);
        let problem: Problem = refused.json();
        assert_eq!(problem.code, Code::Malformed);
        assert_eq!(problem.detail, "email: it is missing: give a text; password: it is missing: give a text");
        let fields: Vec<&str> = problem.violations.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(fields, ["email", "password"]);
    }
}
