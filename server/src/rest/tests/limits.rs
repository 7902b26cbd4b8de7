//! Limits of request sizes, each at its value and one beyond.

use axum::http::{StatusCode, header};
use undertone_api::problem::{Code, Problem};

use super::problem;
use crate::rest::{LARGEST_BODY, LARGEST_IMPORT};
use crate::testing::{TestApp, on_both};
use undertone_server_core::metrics::Limit;

/// Pads a text to this number of bytes.
fn filled(text: &str, with: char, size: usize) -> String {
    let body: String = text.chars().chain(std::iter::repeat(with)).take(size).collect();
    assert_eq!(body.len(), size);
    body
}

/// With which code the fifty-first wrong link is refused, when a proxy would name another address for each.
async fn fifty_first_wrong_link(app: &TestApp) -> Code {
    let open = async |last: u8| {
        let preview = app.server.get("/api/v1/password-resets/wrong");
        let refused = preview.add_header("x-forwarded-for", format!("192.0.2.9, 203.0.113.{last}")).await;
        refused.json::<Problem>().code
    };
    for last in 0..50 {
        assert_eq!(open(last).await, Code::LinkSpent);
    }
    open(50).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_before_the_other_face_names_no_address_here() {
    for (is_behind_proxy, expected) in [(false, Code::RateLimited), (true, Code::LinkSpent)] {
        let app = TestApp::sqlite_with(|config| {
            config.http_behind_proxy = is_behind_proxy;
            config.grpc_behind_proxy = !is_behind_proxy;
        })
        .await;
        assert_eq!(fifty_first_wrong_link(&app).await, expected);
        app.close().await;
    }
}

on_both! {
    async fn a_body_of_a_mebibyte_is_read_and_one_byte_more_is_not(app: &TestApp) {
        let post = async |size: usize| {
            let body = filled("{\"email\":\"n@example.org\",\"password\":\"x\"}", ' ', size);
            app.server.post("/api/v1/session").text(body).content_type("application/json").await
        };
        problem(&post(LARGEST_BODY).await, Code::WrongCredentials);
        assert_eq!(app.ctx.metrics.reached(Limit::RequestSize), 0);
        problem(&post(LARGEST_BODY + 1).await, Code::TooLarge);
        assert_eq!(app.ctx.metrics.reached(Limit::RequestSize), 1);
    }

    async fn a_form_of_a_mebibyte_is_read_and_one_byte_more_is_not(app: &TestApp) {
        let post = async |size: usize| {
            let body = filled("email=n&password=", 'x', size);
            let post = app.server.post("/ui/sign-in").text(body);
            post.content_type("application/x-www-form-urlencoded").await.status_code()
        };
        assert_ne!(post(LARGEST_BODY).await, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(post(LARGEST_BODY + 1).await, StatusCode::PAYLOAD_TOO_LARGE);
    }

    async fn import_over_sixteen_mebibytes_is_refused(app: &TestApp) {
        let bearer = app.operator().await.bearer();
        let import = async |size: usize| {
            let path = format!("/api/v1/jobs/{}/questions/import?name=x", uuid::Uuid::nil());
            app.server.post(&path).add_header(header::AUTHORIZATION, &bearer).text("x".repeat(size)).await
        };
        problem(&import(LARGEST_IMPORT).await, Code::NotFound);
        problem(&import(LARGEST_IMPORT + 1).await, Code::TooLarge);
    }
}
