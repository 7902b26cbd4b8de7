use axum::http::{HeaderName, StatusCode, header};
use axum_test::{TestResponse, TestServer};
use serde_json::{Value, json};
use time::Duration;
use undertone_api::problem::{Code, Problem};

use crate::testing::{TestApp, on_both};
use undertone_server_core::service::idempotency::{self, KeyState};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

async fn post(server: &TestServer, bearer: &str, path: &str, key: &str, body: &Value) -> TestResponse {
    server.post(path).add_header(header::AUTHORIZATION, bearer).add_header(KEY, key).json(body).await
}

async fn create_consortium(app: &TestApp, bearer: &str, key: &str, name: &str) -> TestResponse {
    post(&app.server, bearer, "/api/v1/consortia", key, &json!({ "name": name })).await
}

fn problem(response: &TestResponse, code: Code) -> Problem {
    let problem: Problem = response.json();
    assert_eq!(problem.code, code, "{problem:?}");
    problem
}

async fn consortia(app: &TestApp, bearer: &str) -> usize {
    let list = app.server.get("/api/v1/consortia").add_header(header::AUTHORIZATION, bearer).await;
    list.json::<Value>()["items"].as_array().expect("a list").len()
}

on_both! {
    async fn a_request_with_a_key_is_done_once_by_all_replicas(app: &TestApp) {
        let bearer = app.operator().await.bearer();
        let first = create_consortium(app, &bearer, "k1", "Speech").await;
        first.assert_status(StatusCode::CREATED);
        assert!(first.maybe_header("idempotency-replayed").is_none());
        let again = create_consortium(app, &bearer, "k1", "Speech").await;
        again.assert_status(StatusCode::CREATED);
        assert_eq!(again.header("idempotency-replayed"), "true");
        assert_eq!(again.text(), first.text());
        let other = app.restarted().await;
        let replica = TestServer::new(other.router);
        let elsewhere = post(&replica, &bearer, "/api/v1/consortia", "k1", &json!({ "name": "Speech" })).await;
        assert_eq!(elsewhere.text(), first.text());
        assert_eq!(consortia(app, &bearer).await, 1);
        other.ctx.shutdown.cancel();
        other.ctx.db.clone().close().await.expect("closed");
    }

    async fn a_key_is_of_one_request_and_one_caller(app: &TestApp) {
        let world = app.founded().await;
        let bearer = world.operator.bearer();
        create_consortium(app, &bearer, "k1", "One").await.assert_status(StatusCode::CREATED);
        let other = problem(&create_consortium(app, &bearer, "k1", "Two").await, Code::ValidationFailed);
        assert_eq!(other.violations[0].field, "Idempotency-Key");
        let stranger = create_consortium(app, &world.north.1.bearer(), "k1", "One").await;
        problem(&stranger, Code::Forbidden);
        for wrong in ["", "a b", &"x".repeat(256)] {
            let refused = problem(&create_consortium(app, &bearer, wrong, "Three").await, Code::ValidationFailed);
            assert_eq!(refused.violations[0].field, "Idempotency-Key", "{wrong:?}");
        }
        create_consortium(app, &bearer, &"x".repeat(255), "Three").await.assert_status(StatusCode::CREATED);
    }

    async fn what_was_refused_changed_nothing_and_frees_its_key(app: &TestApp) {
        let bearer = app.operator().await.bearer();
        problem(&create_consortium(app, &bearer, "k1", "").await, Code::ValidationFailed);
        create_consortium(app, &bearer, "k1", "Speech").await.assert_status(StatusCode::CREATED);
    }

    async fn a_request_under_way_or_without_answer_is_not_done_again(app: &TestApp) {
        let operator = app.operator().await;
        let actor = operator.actor(app).await;
        let bearer = operator.bearer();
        let request = b"POST\n/consortia\napplication/json\n{\"name\":\"Speech\"}";
        let attempt = idempotency::begin(&app.ctx, &actor, "k1", request).await.expect("it begins");
        assert!(matches!(attempt, KeyState::Never(_)));
        let busy = create_consortium(app, &bearer, "k1", "Speech").await;
        busy.assert_status(StatusCode::CONFLICT);
        assert!(problem(&busy, Code::InProgress).detail.contains("under way"));
        app.clock.advance(Duration::minutes(3));
        let lost = create_consortium(app, &bearer, "k1", "Speech").await;
        assert!(problem(&lost, Code::InProgress).detail.contains("never got its answer"));
        assert_eq!(consortia(app, &bearer).await, 0);
    }

    async fn after_a_day_a_key_is_new_again(app: &TestApp) {
        let operator = app.operator().await;
        create_consortium(app, &operator.bearer(), "k1", "Speech").await.assert_status(StatusCode::CREATED);
        app.clock.advance(Duration::hours(24));
        let credentials = json!({ "email": "operator@example.org", "password": crate::testing::PASSWORD });
        let session: Value = app.server.post("/api/v1/session").json(&credentials).await.json();
        let bearer = format!("Bearer {}", session["access_token"].as_str().expect("a token"));
        problem(&create_consortium(app, &bearer, "k1", "Speech").await, Code::AlreadyExists);
    }

    async fn what_is_kept_is_sealed(app: &TestApp) {
        let bearer = app.operator().await.bearer();
        create_consortium(app, &bearer, "k1", "Speech").await.assert_status(StatusCode::CREATED);
        let records = idempotency::list_responses(&app.ctx).await;
        assert_eq!(records.len(), 1);
        assert!(records.iter().all(|bytes| !bytes.is_empty() && !String::from_utf8_lossy(bytes).contains("Speech")));
    }

    async fn key_is_refused_where_the_response_contains_a_secret(app: &TestApp) {
        let world = app.founded().await;
        let bearer = world.operator.bearer();
        let organization = world.north.0;
        for path in [
            "session",
            "session/second-factor",
            "session/refresh",
            "session/passkey",
            "session/passkey/challenge",
            "me/passkeys",
            "me/passkeys/challenge",
            "invitations/abc/accept",
            "me/second-factor",
            "me/second-factor/off",
            "me/second-factor/recovery-codes",
            "password-resets",
            "password-resets/abc",
            &format!("organizations/{organization}/workers"),
        ] {
            let refused = post(&app.server, &bearer, &format!("/api/v1/{path}"), "k1", &json!({})).await;
            refused.assert_status(StatusCode::BAD_REQUEST);
            assert!(problem(&refused, Code::Malformed).detail.contains("without `Idempotency-Key`"), "{path}");
        }
        let invite = json!({ "purpose": "organization", "consortium": world.consortium, "label": "East" });
        let key = json!({ "name": "nightly", "scopes": ["read"], "days": 30 });
        for (path, body, secret) in [("/api/v1/invitations", &invite, "link"), ("/api/v1/keys", &key, "secret")] {
            let refused = post(&app.server, &bearer, path, "k1", body).await;
            problem(&refused, Code::Malformed);
            // Without a key the request takes effect, once after all refusals, and its response is not stored.
            let response = app.server.post(path).add_header(header::AUTHORIZATION, &bearer).json(body).await;
            response.assert_status(StatusCode::CREATED);
            assert!(response.json::<Value>()[secret].is_string(), "{path}");
        }
        let listed = app.server.get("/api/v1/keys").add_header(header::AUTHORIZATION, &bearer).await;
        assert_eq!(listed.json::<Value>()["items"].as_array().map(Vec::len), Some(1), "what was refused was not done");
        assert!(idempotency::list_responses(&app.ctx).await.is_empty());
    }

    async fn to_join_by_a_link_may_bear_a_key(app: &TestApp) {
        // The response names the organization, and contains nothing that is shown once.
        let bearer = app.operator().await.bearer();
        let answer = post(&app.server, &bearer, "/api/v1/invitations/abc/join", "k1", &json!({})).await;
        assert!(!answer.text().contains("Idempotency-Key"), "{}", answer.text());
    }
}
