use axum::http::{StatusCode, header};
use serde_json::{Value, json};
use time::Duration;
use undertone_api::problem::Code;

use super::problem;
use crate::testing::{PASSWORD, code, on_both};

on_both! {
    async fn two_factor_is_set_up_and_asked_for_by_rest(app: &TestApp) {
        let bearer = app.operator().await.bearer();
        let with = |request: axum_test::TestRequest| request.add_header(header::AUTHORIZATION, &bearer);
        let offer = with(app.server.post("/api/v1/me/second-factor")).await;
        offer.assert_status(StatusCode::CREATED);
        let secret = offer.json::<Value>()["secret"].as_str().expect("a secret").to_owned();
        let confirm = with(app.server.put("/api/v1/me/second-factor")).json(&json!({ "code": code(&secret, app) })).await;
        confirm.assert_status_ok();
        assert_eq!(confirm.header(header::CACHE_CONTROL), "no-store");
        let recovery = confirm.json::<Value>()["codes"][0].as_str().expect("a code").to_owned();
        let state: Value = with(app.server.get("/api/v1/me/second-factor")).await.json();
        assert_eq!((&state["recovery_codes_left"], &state["required"]), (&json!(10), &json!(false)));

        let credentials = json!({ "email": "operator@example.org", "password": PASSWORD });
        let half = app.server.post("/api/v1/session").json(&credentials).await;
        half.assert_status(StatusCode::ACCEPTED);
        let half: Value = half.json();
        assert!(half.get("access_token").is_none() && half.get("refresh_token").is_none(), "{half}");
        let token = half["half_token"].as_str().expect("a token").to_owned();
        let opens = app.server.get("/api/v1/me").add_header(header::AUTHORIZATION, format!("Bearer {token}")).await;
        problem(&opens, Code::Unauthenticated);
        let step = |code: &str| json!({ "half_token": token, "code": code });
        let wrong = app.server.post("/api/v1/session/second-factor").json(&step("12345x")).await;
        problem(&wrong, Code::WrongCode);
        assert_eq!(wrong.header(header::WWW_AUTHENTICATE), "Bearer");
        let session: Value = app.server.post("/api/v1/session/second-factor").json(&step(&recovery)).await.json();
        assert_eq!(session["member"]["operator"], true);
    }

    async fn a_closed_door_says_when_it_opens(app: &TestApp) {
        app.operator().await;
        let guess = json!({ "email": "operator@example.org", "password": "a guess" });
        for _ in 0..10 {
            problem(&app.server.post("/api/v1/session").json(&guess).await, Code::WrongCredentials);
        }
        app.clock.advance(Duration::minutes(5));
        let closed = app.server.post("/api/v1/session").json(&guess).await;
        assert_eq!(problem(&closed, Code::RateLimited).retry_after, Some(600));
        assert_eq!(closed.header(header::RETRY_AFTER), "600");
    }

    async fn sessions_passwords_and_resets_go_by_rest(app: &TestApp) {
        let founded = app.founded().await;
        let operator = founded.operator.bearer();
        let north = founded.north.1.bearer();
        let with = |request: axum_test::TestRequest, bearer: &str| request.add_header(header::AUTHORIZATION, bearer);
        let credentials = json!({ "email": "northadmin@example.org", "password": PASSWORD });
        let other: Value = app.server.post("/api/v1/session").json(&credentials).await.json();
        let other = format!("Bearer {}", other["access_token"].as_str().expect("a token"));
        let listed: Value = with(app.server.get("/api/v1/me/sessions"), &north).await.json();
        let items = listed["items"].as_array().expect("a page");
        assert_eq!(items.len(), 2);
        let id = items.iter().find(|one| one["current"] == false).expect("the other")["id"].as_str().expect("an id");
        with(app.server.delete(&format!("/api/v1/me/sessions/{id}")), &north).await.assert_status(StatusCode::NO_CONTENT);
        problem(&with(app.server.get("/api/v1/me"), &other).await, Code::Unauthenticated);
        with(app.server.delete("/api/v1/me/sessions"), &north).await.assert_status(StatusCode::NO_CONTENT);
        let change = json!({ "old": PASSWORD, "new": "some other sentence of mine" });
        with(app.server.put("/api/v1/me/password"), &north).json(&change).await.assert_status(StatusCode::NO_CONTENT);

        let new = json!({ "email": "northadmin@example.org" });
        problem(&with(app.server.post("/api/v1/password-resets"), &north).json(&new).await, Code::Forbidden);
        let response = with(app.server.post("/api/v1/password-resets"), &operator).json(&new).await;
        response.assert_status(StatusCode::CREATED);
        let link = response.json::<Value>()["link"].as_str().expect("a link").to_owned();
        let address = format!("/api/v1/password-resets/{}", link.rsplit('/').next().expect("parts"));
        let preview: Value = app.server.get(&address).await.json();
        assert_eq!(preview["clears_second_factor"], false);
        let weak = app.server.post(&address).json(&json!({ "password": "passwordpassword" })).await;
        assert_eq!(problem(&weak, Code::ValidationFailed).violations[0].field, "password");
        let good = json!({ "password": "a third sentence of mine" });
        app.server.post(&address).json(&good).await.assert_status(StatusCode::NO_CONTENT);
        problem(&app.server.post(&address).json(&good).await, Code::LinkSpent);
        problem(&with(app.server.get("/api/v1/me"), &north).await, Code::Unauthenticated);
    }

    async fn roles_and_links_go_by_rest(app: &TestApp) {
        let founded = app.founded().await;
        let north = founded.north.0;
        let admin = founded.north.1.bearer();
        let with = |request: axum_test::TestRequest| request.add_header(header::AUTHORIZATION, &admin);
        let own = founded.north.1.session.member.id;
        let last = with(app.server.delete(&format!("/api/v1/organizations/{north}/members/{own}"))).await;
        problem(&last, Code::WrongState);
        let ann = app.joins(&founded.north.1, north, "Ann", &[undertone_api::member::Role::Auditor]).await;
        let at = format!("/api/v1/organizations/{north}/members/{}", ann.session.member.id);
        let member: Value = with(app.server.put(&at)).json(&json!({ "roles": ["researcher"] })).await.json();
        assert_eq!(member["grants"][0]["role"], "researcher");
        with(app.server.delete(&at)).await.assert_status(StatusCode::NO_CONTENT);
        problem(&with(app.server.delete(&at)).await, Code::NotFound);
        let invite = json!({ "purpose": "member", "organization": north, "roles": ["auditor"], "label": "Bea" });
        let invitation: Value = with(app.server.post("/api/v1/invitations")).json(&invite).await.json();
        let link = invitation["link"].as_str().and_then(|link| link.rsplit('/').next()).expect("a link").to_owned();
        let join = app.server.post(&format!("/api/v1/invitations/{link}/join"));
        let joined: Value = join.add_header(header::AUTHORIZATION, ann.bearer()).json(&json!({})).await.json();
        assert_eq!((&joined["id"], &joined["grants"][0]["role"]), (&json!(ann.session.member.id), &json!("auditor")));
        let invitation: Value = with(app.server.post("/api/v1/invitations")).json(&invite).await.json();
        let id = invitation["id"].as_str().expect("an id");
        let withdraw = format!("/api/v1/organizations/{north}/invitations/{id}");
        with(app.server.delete(&withdraw)).await.assert_status(StatusCode::NO_CONTENT);
        let over = format!("/api/v1/consortia/{}/members", founded.consortium);
        problem(&with(app.server.get(&over)).await, Code::Forbidden);
        let operator = founded.operator.bearer();
        let add = json!({ "email": "northadmin@example.org", "roles": ["auditor"] });
        let post = |address: &str| app.server.post(address).add_header(header::AUTHORIZATION, &operator);
        problem(&post(&over).json(&add).await, Code::WrongState);
        let confirmed = post(&format!("/api/v1/organizations/{north}/members/{own}/address-confirmation")).await;
        confirmed.assert_status(StatusCode::NO_CONTENT);
        post(&over).json(&add).await.assert_status(StatusCode::CREATED);
        let listed: Value = app.server.get(&over).add_header(header::AUTHORIZATION, &operator).await.json();
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(2));
        let request = app.server.put(&format!("{over}/{own}")).add_header(header::AUTHORIZATION, &operator);
        request.json(&json!({ "roles": [] })).await.assert_status_ok();
    }
}
