mod account;
mod disk;
mod limits;
mod lists;
mod nul;
mod report;
mod session;

use axum::http::{HeaderName, StatusCode, header};
use axum_test::TestResponse;
use serde_json::{Value, json};
use time::Duration;
use undertone_api::member::Role;
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::problem::{Code, Problem};

use crate::testing::{PASSWORD, Person, newcomer, on_both};
use undertone_server_core::service::invitation;
use undertone_server_core::service::world::TestConsortium;

/// Checks that an error response is a problem document with this code, and returns it.
fn problem(response: &TestResponse, code: Code) -> Problem {
    assert_eq!(response.header(header::CONTENT_TYPE), "application/problem+json", "{}", response.text());
    let problem: Problem = response.json();
    assert_eq!(problem.code, code, "{problem:?}");
    assert_eq!(response.status_code().as_u16(), code.http_status());
    problem
}

#[test]
fn the_description_is_what_was_agreed() {
    let text = serde_json::to_string_pretty(&super::openapi::described()).expect("JSON");
    assert!(text.contains("\"openapi\": \"3.1.0\""));
    insta::assert_snapshot!(text);
}

#[test]
fn every_operation_describes_its_errors() {
    let document = super::openapi::described();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            assert!(operation["responses"]["default"].is_object(), "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
        }
    }
}

on_both! {
    async fn a_member_signs_in_looks_around_and_signs_out(app: &TestApp) {
        app.operator().await;
        let credentials = json!({ "email": "operator@example.org", "password": PASSWORD });
        let session: Value = app.server.post("/api/v1/session").json(&credentials).await.json();
        let bearer = format!("Bearer {}", session["access_token"].as_str().expect("a token"));
        let me: Value = app.server.get("/api/v1/me").add_header(header::AUTHORIZATION, &bearer).await.json();
        assert_eq!(me["operator"], true);
        let new = json!({ "name": "Speech", "organization_name": "Centre" });
        let response = app.server.post("/api/v1/consortia").add_header(header::AUTHORIZATION, &bearer).json(&new).await;
        response.assert_status(StatusCode::CREATED);
        let refresh = json!({ "refresh_token": session["refresh_token"] });
        app.server.post("/api/v1/session/refresh").json(&refresh).await.assert_status_ok();
        let out = app.server.delete("/api/v1/session").add_header(header::AUTHORIZATION, &bearer).await;
        out.assert_status(StatusCode::NO_CONTENT);
        let after = app.server.get("/api/v1/me").add_header(header::AUTHORIZATION, &bearer).await;
        problem(&after, Code::Unauthenticated);
    }

    async fn an_invitation_is_looked_at_and_accepted(app: &TestApp) {
        let operator = app.operator().await;
        let bearer = operator.bearer();
        let new = json!({ "name": "Speech" });
        let consortium: Value =
            app.server.post("/api/v1/consortia").add_header(header::AUTHORIZATION, &bearer).json(&new).await.json();
        let invite = json!({ "purpose": "organization", "consortium": consortium["id"], "label": "North" });
        let invited: Value =
            app.server.post("/api/v1/invitations").add_header(header::AUTHORIZATION, &bearer).json(&invite).await.json();
        let secret = invited["link"].as_str().and_then(|link| link.rsplit('/').next()).expect("a link").to_owned();
        let preview: Value = app.server.get(&format!("/api/v1/invitations/{secret}")).await.json();
        assert_eq!((&preview["purpose"], &preview["from"]), (&json!("organization"), &json!("Speech")));
        let me = json!({ "name": "N", "email": "n@example.org", "password": PASSWORD, "organization": "North" });
        let accepted = app.server.post(&format!("/api/v1/invitations/{secret}/accept")).json(&me).await;
        accepted.assert_status(StatusCode::CREATED);
        let again = app.server.post(&format!("/api/v1/invitations/{secret}/accept")).json(&me).await;
        problem(&again, Code::LinkSpent);
        let list: Value =
            app.server.get("/api/v1/organizations").add_header(header::AUTHORIZATION, &bearer).await.json();
        assert_eq!(list["items"][0]["name"], "North");
    }

    async fn whatever_fails_is_a_problem_document(app: &TestApp) {
        problem(&app.server.get("/api/v1/me").await, Code::Unauthenticated);
        problem(&app.server.get("/api/v1/nothing").await, Code::NotFound);
        let wrong = app.server.put("/api/v1/me").await;
        problem(&wrong, Code::MethodNotAllowed);
        assert!(!wrong.header(header::ALLOW).is_empty());
        problem(&app.server.post("/api/v1/session").text("{").content_type("application/json").await, Code::Malformed);
        problem(&app.server.post("/api/v1/session").text("{}").await, Code::Malformed);
        let huge = json!({ "email": "x".repeat(1 << 20), "password": "x" });
        problem(&app.server.post("/api/v1/session").json(&huge).await, Code::TooLarge);
        let basic = app.server.get("/api/v1/me").add_header(header::AUTHORIZATION, "Basic eDp4").await;
        problem(&basic, Code::Unauthenticated);
        let bearer = app.operator().await.bearer();
        let strange = app.server.get("/api/v1/consortia/not-an-id").add_header(header::AUTHORIZATION, &bearer).await;
        problem(&strange, Code::NotFound);
        let cursor = app.server.get("/api/v1/consortia?cursor=x").add_header(header::AUTHORIZATION, &bearer).await;
        assert_eq!(problem(&cursor, Code::ValidationFailed).violations[0].field, "cursor");
    }

    async fn who_only_annotates_finds_the_jobs_that_ask_and_nothing_else(app: &TestApp) {
        let founded = app.founded().await;
        let id = founded.consortium;
        let admin = founded.operator.bearer();
        let invite = json!({ "purpose": "annotator", "consortium": id, "label": "a linguist" });
        let invitations = app.server.post("/api/v1/invitations");
        problem(&invitations.add_header(header::AUTHORIZATION, founded.north.1.bearer()).json(&invite).await, Code::Forbidden);
        let invited = app.server.post("/api/v1/invitations").add_header(header::AUTHORIZATION, &admin).json(&invite).await;
        invited.assert_status(StatusCode::CREATED);
        let link = invited.json::<Value>()["link"].as_str().expect("a link").to_owned();
        let listed = app.server.get(&format!("/api/v1/consortia/{id}/annotators/invitations"));
        let listed: Value = listed.add_header(header::AUTHORIZATION, &admin).await.json();
        assert_eq!((&listed["items"][0]["purpose"], &listed["items"][0]["link"]), (&json!("annotator"), &Value::Null));
        let bearer = app.accept(&link, newcomer("Linguist", None)).await.bearer();
        let get = async |path: String| app.server.get(&path).add_header(header::AUTHORIZATION, &bearer).await;
        let me: Value = get("/api/v1/me".to_owned()).await.json();
        assert_eq!(me["grants"], json!([{ "scope": "consortium", "id": id, "role": "annotator" }]));
        assert_eq!(get(format!("/api/v1/consortia/{id}/questions")).await.json::<Value>(), json!([]));
        for path in ["", "/jobs", "/datasets", "/organizations"] {
            problem(&get(format!("/api/v1/consortia/{id}{path}")).await, Code::Forbidden);
        }
        problem(&get(format!("/api/v1/organizations/{}", founded.north.0)).await, Code::NotFound);
        assert_eq!(get("/api/v1/organizations".to_owned()).await.json::<Value>()["items"], json!([]));
        let consortia = &get("/api/v1/consortia".to_owned()).await.json::<Value>()["items"];
        assert_eq!((&consortia[0]["name"], &consortia[0]["organizations"]), (&json!("Speech"), &json!([])));
    }

    async fn an_import_may_be_larger_than_other_bodies(app: &TestApp) {
        let bearer = app.operator().await.bearer();
        let import = async |text: String| {
            let path = format!("/api/v1/jobs/{}/questions/import?name=x", uuid::Uuid::nil());
            app.server.post(&path).add_header(header::AUTHORIZATION, &bearer).text(text).await
        };
        problem(&import("x".repeat(2 << 20)).await, Code::NotFound);
        problem(&import("x".repeat((16 << 20) + 1)).await, Code::TooLarge);
    }

    async fn a_request_from_another_site_is_refused(app: &TestApp) {
        let body = json!({ "email": "x", "password": "x" });
        let fetch_site = HeaderName::from_static("sec-fetch-site");
        let forged = app.server.post("/api/v1/session").add_header(fetch_site.clone(), "cross-site").json(&body).await;
        problem(&forged, Code::Forbidden);
        let own = app.server.post("/api/v1/session").add_header(fetch_site, "same-origin").json(&body).await;
        problem(&own, Code::WrongCredentials);
        let origin = app.server.post("/api/v1/session").add_header(header::ORIGIN, "https://evil.example").json(&body).await;
        problem(&origin, Code::Forbidden);
    }

    async fn every_answer_has_an_id_and_takes_powers_away(app: &TestApp) {
        for path in ["/health/live", "/api/v1/me", "/api/v1/openapi.json"] {
            let response = app.server.get(path).await;
            assert_eq!(response.header("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(response.header("x-frame-options"), "DENY", "{path}");
            assert!(response.header(header::CONTENT_SECURITY_POLICY).to_str().is_ok_and(|csp| csp.contains("'none'")));
            assert!(!response.header("x-request-id").is_empty(), "{path}");
        }
    }

    async fn a_server_that_stops_is_not_ready(app: &TestApp) {
        app.server.get("/health/ready").await.assert_status(StatusCode::NO_CONTENT);
        app.ctx.shutdown.cancel();
        problem(&app.server.get("/health/ready").await, Code::Unavailable);
        app.server.get("/health/live").await.assert_status(StatusCode::NO_CONTENT);
    }

    async fn cookies_sign_in_and_are_renewed_without_a_word(app: &TestApp) {
        let tokens = app.operator().await.session.tokens;
        let jar = super::jar(&undertone_server_core::auth::cookie::store_session(&app.ctx, &tokens));
        let me = app.server.get("/api/v1/me").add_header(header::COOKIE, &jar).await;
        me.assert_status_ok();
        assert!(me.maybe_header(header::SET_COOKIE).is_none(), "nothing to renew");
        app.clock.advance(Duration::minutes(16));
        let me = app.server.get("/api/v1/me").add_header(header::COOKIE, &jar).await;
        me.assert_status_ok();
        let renewed = set_cookies(&me);
        // Access token, refresh token, and known device.
        assert_eq!(renewed.len(), 3);
        assert!(renewed.iter().all(|cookie| cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax")));
        // A concurrent request with the old cookies succeeds, and changes nothing.
        let late = app.server.get("/api/v1/me").add_header(header::COOKIE, &jar).await;
        late.assert_status_ok();
        assert!(late.maybe_header(header::SET_COOKIE).is_none());
        // The answer with the new ones was lost: the old ones bring others.
        app.clock.advance(Duration::minutes(1));
        let again = app.server.get("/api/v1/me").add_header(header::COOKIE, &jar).await;
        again.assert_status_ok();
        let renewed = set_cookies(&again);
        assert_eq!(renewed.len(), 3);
        // Once those are used, the old ones are a thief's.
        app.clock.advance(Duration::minutes(1));
        let renewed = super::jar(&renewed);
        app.server.get("/api/v1/me").add_header(header::COOKIE, &renewed).await.assert_status_ok();
        let thief = app.server.get("/api/v1/me").add_header(header::COOKIE, &jar).await;
        problem(&thief, Code::Unauthenticated);
        problem(&app.server.get("/api/v1/me").add_header(header::COOKIE, &renewed).await, Code::Unauthenticated);
    }

    async fn cookies_of_a_renewal_and_of_the_handler_are_merged_by_name(app: &TestApp) {
        let tokens = app.operator().await.session.tokens;
        let jar = super::jar(&undertone_server_core::auth::cookie::store_session(&app.ctx, &tokens));
        let post = async |path: &str, form: &[(&str, &str)]| {
            let answer = app.server.post(path).add_header(header::COOKIE, &jar).form(&form).await;
            let mut pairs: Vec<String> = set_cookies(&answer);
            pairs.sort_unstable();
            pairs.into_iter().filter_map(|cookie| cookie.split(';').next().map(str::to_owned)).collect::<Vec<_>>()
        };
        let names = |pairs: &[String]| -> Vec<String> {
            pairs.iter().filter_map(|pair| pair.split('=').next().map(str::to_owned)).collect()
        };
        app.clock.advance(Duration::minutes(16));
        let themed = post("/ui/theme", &[("theme", "dark")]).await;
        let all = ["undertone-access", "undertone-device", "undertone-refresh", "undertone-theme"];
        assert_eq!(names(&themed), all, "those of the handler and those of the renewal");
        app.clock.advance(Duration::minutes(1));
        let out = post("/ui/sign-out", &[]).await;
        assert_eq!(names(&out), &all[..3], "each once");
        assert!(out.contains(&"undertone-access=".to_owned()) && out.contains(&"undertone-refresh=".to_owned()), "{out:?}");
    }
}

/// The values of the `Set-Cookie` headers of an answer.
fn set_cookies(answer: &TestResponse) -> Vec<String> {
    let values = answer.iter_headers_by_name(header::SET_COOKIE);
    values.map(|value| value.to_str().unwrap_or_default().to_owned()).collect()
}

/// Returns the `Cookie` header that a browser derives from `Set-Cookie` headers.
fn jar(set: &[String]) -> String {
    let pairs: Vec<&str> = set.iter().filter_map(|cookie| cookie.split(';').next()).collect();
    pairs.join("; ")
}

/// Adds a member with every role at a site's organization, and signs in.
pub(crate) async fn member_of(app: &crate::testing::TestApp, world: &TestConsortium, site: usize) -> Person {
    let steward = &world.sites[site].steward;
    let organization = steward.organizations()[0];
    let roles = vec![Role::OrganizationAdmin, Role::DataSteward, Role::Researcher, Role::Auditor];
    let purpose = InvitationPurpose::Member { organization, roles };
    let new = NewInvitation { purpose, label: "for a test".to_owned() };
    let invitation = invitation::create(&app.ctx, steward, &new).await.expect("an admin invites");
    app.accept(&invitation.link.expect("a link"), newcomer(&format!("Person{site}"), None)).await
}
