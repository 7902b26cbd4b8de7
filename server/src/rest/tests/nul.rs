//! U+0000, which only one of the databases accepts: it is refused before either is used.

use axum::http::header;
use serde_json::{Value, json};
use undertone_api::problem::{Code, Problem};

use super::problem;
use crate::testing::{PASSWORD, on_both};

on_both! {
    async fn no_text_of_a_body_holds_a_zero_byte(app: &TestApp) {
        let bearer = app.operator().await.bearer();
        let create = async |description: &str| {
            let new = json!({ "name": "Speech", "description": description });
            app.server.post("/api/v1/consortia").add_header(header::AUTHORIZATION, &bearer).json(&new).await
        };
        assert!(problem(&create("a\u{0}b").await, Code::Malformed).detail.contains("leave it out"));
        let none = app.server.get("/api/v1/consortia").add_header(header::AUTHORIZATION, &bearer).await;
        assert_eq!(none.json::<Value>()["items"], json!([]), "nothing was done");
        // Similar texts are ordinary texts.
        let consortium: Value = create("a\\u0000b %00").await.json();
        assert_eq!(consortium["description"], "a\\u0000b %00");
        let sign_in = json!({ "email": "a\u{0}@example.org", "password": PASSWORD });
        problem(&app.server.post("/api/v1/session").json(&sign_in).await, Code::Malformed);
        let path = format!("/api/v1/jobs/{}/questions/import?name=x", uuid::Uuid::nil());
        let line = json!({ "text": "a\u{0}", "label": "b" }).to_string();
        let import = app.server.post(&path).add_header(header::AUTHORIZATION, &bearer).text(line);
        problem(&import.await, Code::Malformed);
    }

    async fn no_address_holds_a_zero_byte(app: &TestApp) {
        let bearer = app.operator().await.bearer();
        let get = async |path: &str| app.server.get(path).add_header(header::AUTHORIZATION, &bearer).await;
        let jobs = format!("/api/v1/consortia/{}/jobs", uuid::Uuid::nil());
        problem(&get(&format!("{jobs}?text=a%00")).await, Code::Malformed);
        let other: Problem = get(&format!("{jobs}?text=a%2500")).await.json();
        assert_ne!(other.code, Code::Malformed);
        problem(&get("/api/v1/invitations/a%00b").await, Code::NotFound);
    }

    async fn no_form_of_the_dashboard_holds_a_zero_byte(app: &TestApp) {
        let form = |text: &str| {
            let post = app.server.post("/ui/sign-in").text(text.to_owned());
            post.content_type("application/x-www-form-urlencoded")
        };
        problem(&form("email=a%00b&password=x").await, Code::Malformed);
        let read = form("email=a%2500b&password=x").await.maybe_header(header::CONTENT_TYPE);
        assert!(read.is_none_or(|kind| kind != "application/problem+json"));
        problem(&app.server.get("/sign-in?to=%00").await, Code::Malformed);
        app.server.get("/sign-in?to=%2500").await.assert_status_ok();
    }
}
