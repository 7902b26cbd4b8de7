//! `Call`: every operation of REST with a token, with the answers of REST.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode, header};
use serde_json::{Value, json};
use tokio_stream::StreamExt as _;
use tonic::Status;
use tower::ServiceExt as _;
use undertone_api::problem::{Code, Problem};
use undertone_proto::v1::call_chunk::Part;
use undertone_proto::v1::control_client::ControlClient;
use undertone_proto::{to_problem, v1};

use super::{Channel, problem, request_as, scene};
use crate::rest::openapi;
use crate::testing::{Person, TestApp, on_both};

/// The operations of strangers: a gRPC call of them would need the token that they give.
const OPEN: [&str; 9] = [
    "accept_invitation",
    "finish_sign_in",
    "get_certificate_schema",
    "preview_invitation",
    "preview_password_reset",
    "redeem_password_reset",
    "refresh_session",
    "sign_in",
    "sign_in_by_passkey",
];

fn named(operation: &str, parameters: &[(&str, &str)], body: Option<&Value>) -> v1::CallRequest {
    let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    v1::CallRequest { operation: operation.to_owned(), parameters, body, content_type: String::new() }
}

/// Calls an operation, and collects its answer.
async fn collect(
    client: &mut ControlClient<Channel>,
    person: &Person,
    call: v1::CallRequest,
) -> Result<(v1::CallHead, Vec<u8>), Status> {
    let mut answer = client.call(request_as(person, call)).await?.into_inner();
    let (mut head, mut content) = (None, Vec::new());
    while let Some(chunk) = answer.next().await {
        match chunk?.part.unwrap() {
            Part::Head(first) => head = Some(first),
            Part::Data(data) => content.extend(data),
        }
    }
    Ok((head.unwrap(), content))
}

/// Returns each operation of REST with its method, its address, and whether it needs no token.
fn described() -> BTreeMap<String, (String, String, bool)> {
    let document = openapi::described();
    let mut operations = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let is_open = operation["security"] == json!([{}]);
            let name = operation["operationId"].as_str().unwrap().to_owned();
            operations.insert(name, (method.to_uppercase(), path.clone(), is_open));
        }
    }
    operations
}

/// Returns the status of an operation over REST, without a body and with zeros in its address.
async fn ask_rest(app: &TestApp, person: &Person, method: &str, path: &str) -> StatusCode {
    let request = HttpRequest::builder().method(method).uri(format!("/api/v1{path}"));
    let request = request.header(header::AUTHORIZATION, person.bearer()).body(Body::empty()).unwrap();
    app.router.clone().oneshot(request).await.unwrap().status()
}

on_both! {
    async fn every_operation_with_a_token_answers_over_grpc_as_over_rest(app: &TestApp) {
        let (_world, person, mut client) = scene(app).await;
        let listed = client.list_operations(request_as(&person, v1::ListOperationsRequest {})).await.unwrap();
        let listed: BTreeSet<String> = listed.into_inner().operations.into_iter().map(|one| one.name).collect();
        let all = described();
        let open: BTreeSet<&str> = all.iter().filter(|(_, one)| one.2).map(|(name, _)| name.as_str()).collect();
        assert!(OPEN.iter().all(|name| open.contains(name)), "{open:?}");
        let expected: BTreeSet<String> = all.keys().filter(|name| !open.contains(name.as_str())).cloned().collect();
        assert_eq!(listed, expected);

        let zero = uuid::Uuid::nil().to_string();
        for name in &listed {
            // These end the session with which the others are called.
            if ["sign_out", "end_other_sessions"].contains(&name.as_str()) {
                continue;
            }
            let (method, path, _) = &all[name];
            let names: Vec<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
            let filled = names.iter().fold(path.clone(), |path, name| path.replace(&format!("{{{name}}}"), &zero));
            let parameters: Vec<_> = names.iter().map(|name| (*name, zero.as_str())).collect();
            let own = match client.call(request_as(&person, named(name, &parameters, None))).await {
                Ok(answer) => match answer.into_inner().next().await.unwrap().unwrap().part.unwrap() {
                    Part::Head(head) => head.status,
                    Part::Data(_) => panic!("{name}: the head is first"),
                },
                Err(status) => u32::from(to_problem(&status).status),
            };
            let rest = ask_rest(app, &person, method, &filled).await;
            assert_eq!(own, u32::from(rest.as_u16()), "{name}: {method} {filled}");
        }
    }

    async fn call_has_parameters_bodies_versions_and_problems(app: &TestApp) {
        let (world, person, mut client) = scene(app).await;
        let body = json!({ "name": "by a call", "scopes": ["read"], "days": 1 });
        let (head, key) = collect(&mut client, &person, named("create_key", &[], Some(&body))).await.unwrap();
        let key: Value = serde_json::from_slice(&key).unwrap();
        assert!(head.status == 201 && key["secret"].is_string(), "{head:?} {key}");
        let (head, keys) = collect(&mut client, &person, named("list_keys", &[], None)).await.unwrap();
        let keys: Value = serde_json::from_slice(&keys).unwrap();
        assert_eq!((head.content_type.as_str(), head.etag.is_empty()), ("application/json", false));
        assert!(keys.to_string().contains("by a call") && !keys.to_string().contains("udk_"), "{keys}");
        let consortium = world.consortium.to_string();
        let jobs = named("list_jobs", &[("id", &consortium), ("limit", "1"), ("text", "a & b=c")], None);
        let (_, jobs) = collect(&mut client, &person, jobs).await.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&jobs).unwrap()["items"], json!([]));

        let refused = async |client: &mut ControlClient<Channel>, call, code| -> Problem {
            problem(collect(client, &person, call).await, code)
        };
        let unknown = refused(&mut client, named("sign_in", &[], None), Code::ValidationFailed).await;
        assert_eq!(unknown.violations[0].field, "operation");
        let missing = refused(&mut client, named("list_jobs", &[], None), Code::ValidationFailed).await;
        assert_eq!(missing.violations[0].field, "parameters.id");
        let other = named("list_jobs", &[("id", &consortium), ("color", "red")], None);
        let other = refused(&mut client, other, Code::ValidationFailed).await;
        assert!(other.violations[0].field == "parameters.color" && other.violations[0].message.contains("limit"), "{other:?}");
        refused(&mut client, named("create_key", &[], Some(&json!({ "name": 1 }))), Code::Malformed).await;
        // A value stays one part of the address.
        let outside = named("get_job", &[("id", "../consortia")], None);
        refused(&mut client, outside, Code::NotFound).await;
        refused(&mut client, named("list_server_log", &[], None), Code::Forbidden).await;

        let mut stale = request_as(&person, named("edit_consortium", &[("id", &consortium)], Some(&json!({ "name": "Other" }))));
        stale.metadata_mut().insert("if-match", "\"stale\"".parse().unwrap());
        let status = client.call(stale).await.unwrap_err();
        assert!(matches!(to_problem(&status).status, 403 | 412), "{status:?}");
    }
}
