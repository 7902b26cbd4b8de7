//! Hostile bodies at every address of REST that accepts one, from every kind of caller, to a complete server. No body
//! may cause a server error, and every refusal has a problem document.

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tower::ServiceExt as _;
use undertone_fuzz::Target;

use super::caller::TestCaller;
use super::request::RequestBuilder;
use super::scene::TestScene;
use crate::matrix::MatrixRow;
use crate::matrix::rest::REST;
use crate::testing::TestApp;
use undertone_server_core::config::RateConfig;

/// Returns the addresses that accept a body.
fn rows() -> Vec<&'static MatrixRow> {
    let takes = |row: &&MatrixRow| ["POST ", "PUT ", "PATCH "].iter().any(|method| row.name.starts_with(method));
    REST.iter().filter(takes).collect()
}

/// Decodes an input: the index of the caller, the index of the address, and the body. Input that is not JSON is itself
/// the body.
fn decode_input(bytes: &[u8]) -> (usize, usize, Vec<u8>) {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(fields)) if fields.contains_key("body") => {
            let number = |name: &str| fields.get(name).and_then(Value::as_u64).unwrap_or_default() as usize;
            let body = match &fields["body"] {
                // A body that is not JSON itself: JSON lines, a table.
                Value::String(text) => text.clone().into_bytes(),
                other => other.to_string().into_bytes(),
            };
            (number("caller"), number("row"), body)
        }
        _ => (bytes.len(), bytes.len() / 7, bytes.to_vec()),
    }
}

/// Returns every body of the OpenAPI document, from every caller in turn.
async fn seeds(requests: &RequestBuilder, scene: &TestScene, callers: usize) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, row) in rows().into_iter().enumerate() {
        let body = to_bytes(requests.build(row, scene, None).into_body(), 1 << 20).await.expect("it is in memory");
        let text = String::from_utf8_lossy(&body);
        let body = serde_json::from_slice(&body).unwrap_or_else(|_| Value::String(text.into_owned()));
        for caller in [number % callers, callers - 3] {
            seeds.push(json!({ "caller": caller, "row": number, "body": body }).to_string().into_bytes());
        }
    }
    seeds
}

async fn knock(
    app: &TestApp,
    requests: &RequestBuilder,
    scene: &Mutex<TestScene>,
    callers: &[TestCaller],
    bytes: &[u8],
) {
    let rows = rows();
    let (caller, row, body) = decode_input(bytes);
    let caller = &callers[caller % callers.len()];
    let row = rows[row % rows.len()];
    let token = caller.token(&app.ctx).await;
    let mut scene = scene.lock().await;
    scene.renew(app).await;
    let (parts, _) = requests.build(row, &scene, token.as_deref()).into_parts();
    let response = app.router.clone().oneshot(Request::from_parts(parts, Body::from(body))).await;
    let response = response.expect("a router answers");
    let status = response.status();
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return;
    }
    let answer = to_bytes(response.into_body(), 1 << 24).await.expect("an answer ends");
    let text = String::from_utf8_lossy(&answer);
    let short: String = text.chars().take(300).collect();
    assert!(status.is_client_error(), "{} from {}: {status}: {short}", row.name, caller.name);
    let problem: Option<Value> = serde_json::from_slice(&answer).ok();
    assert!(problem.is_some_and(|problem| problem["code"].is_string()), "{} from {}: {short}", row.name, caller.name);
}

#[test]
fn no_body_makes_the_server_fail() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (app, requests) = runtime.block_on(async {
        let app = TestApp::sqlite_with(|config| {
            config.rates = RateConfig { by_caller: 0, by_address: 0, by_worker: 0, by_organization: 0 }
        })
        .await;
        (app, RequestBuilder::new())
    });
    let (seeds, callers, scene) = runtime.block_on(async {
        let mut scene = Box::pin(TestScene::set(&app)).await;
        let callers = std::mem::take(&mut scene.callers);
        (seeds(&requests, &scene, callers.len()).await, callers, Mutex::new(scene))
    });
    Target::new("server.rest", 200)
        .seeds(seeds)
        .run(|bytes| runtime.block_on(knock(&app, &requests, &scene, &callers, bytes)));
    drop(scene);
    runtime.block_on(app.close());
}
