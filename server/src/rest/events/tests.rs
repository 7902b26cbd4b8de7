#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{Request, StatusCode, header};
use axum::response::Response;
use futures::StreamExt as _;
use serde_json::Value;
use tower::ServiceExt as _;
use undertone_api::organization::InvitationPurpose;
use undertone_api::problem::{Code, Problem};

use super::{BEAT, answer};
use crate::testing::{Person, TestApp, newcomer, on_both};
use undertone_server_core::auth::cookie;

/// Returns the next part of a stream, as one text.
async fn chunk(body: &mut BodyDataStream) -> String {
    let next = tokio::time::timeout(Duration::from_mins(1), body.next()).await.expect("something comes in time");
    String::from_utf8(next.expect("the stream goes on").expect("the connection holds").to_vec()).unwrap()
}

/// Returns a field of an event.
fn field<'a>(event: &'a str, name: &str) -> Option<&'a str> {
    event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

async fn get(app: &TestApp, address: &str, headers: &[(header::HeaderName, String)]) -> Response {
    let mut request = Request::get(address);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    app.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

fn cookies(app: &TestApp, person: &Person) -> String {
    let set = cookie::store_session(&app.ctx, &person.session.tokens);
    set.iter().filter_map(|cookie| cookie.split(';').next()).collect::<Vec<_>>().join("; ")
}

async fn problem(response: Response) -> Code {
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap();
    serde_json::from_slice::<Problem>(&bytes).unwrap().code
}

#[tokio::test]
async fn idle_stream_sends_keep_alive_messages() {
    // Proxies close connections that are silent for 30 seconds or more.
    assert_eq!(BEAT, Duration::from_secs(15));
    let often = Duration::from_millis(10);
    let mut body = answer(futures::stream::pending(), often).into_body().into_data_stream();
    let start = tokio::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(chunk(&mut body).await, ": beat\n\n");
    }
    assert!(start.elapsed() >= often * 3);
}

on_both! {
    async fn stream_of_a_consortium_resumes_at_the_last_event(app: &TestApp) {
        let founded = app.founded().await;
        let address = format!("/api/v1/consortia/{}/events", founded.consortium);
        let bearer = (header::AUTHORIZATION, founded.north.1.bearer());
        let response = get(app, &address, std::slice::from_ref(&bearer)).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        let mut body = response.into_body().into_data_stream();
        let first = chunk(&mut body).await;
        assert_eq!((field(&first, "event"), field(&first, "retry")), (Some("consortium"), Some("2000")), "{first}");
        let state: Value = serde_json::from_str(field(&first, "data").unwrap()).unwrap();
        assert_eq!(state, serde_json::json!({ "jobs": [] }));
        drop(body);

        // The first event is a change that occurred without a listener; a known version is not sent again.
        let last_event = (header::HeaderName::from_static("last-event-id"), field(&first, "id").unwrap().to_owned());
        app.organization(&founded.operator, founded.consortium, "East").await;
        let mut body = get(app, &address, &[bearer.clone(), last_event]).await.into_body().into_data_stream();
        let second = chunk(&mut body).await;
        assert!(field(&second, "id").is_some() && field(&second, "id") != field(&first, "id"), "{second}");
    }

    async fn a_page_is_told_versions_of_what_its_member_may_see(app: &TestApp) {
        let founded = app.founded().await;
        let consortium = founded.consortium;
        let jar = (header::COOKIE, cookies(app, &founded.north.1));
        let page_events = format!("/ui/events?consortium={consortium}");
        let mut body = get(app, &page_events, std::slice::from_ref(&jar)).await.into_body().into_data_stream();
        let event = chunk(&mut body).await;
        let data: Value = serde_json::from_str(field(&event, "data").unwrap()).unwrap();
        assert_eq!(data, serde_json::json!({ "version": field(&event, "id").unwrap() }), "versions and nothing else");

        let link = app.link(&founded.operator, InvitationPurpose::Annotator { consortium }).await;
        let annotator = (header::COOKIE, cookies(app, &app.accept(&link, newcomer("Annotator", None)).await));
        assert_eq!(problem(get(app, &page_events, std::slice::from_ref(&annotator)).await).await, Code::Forbidden);
        let questions = get(app, &format!("/ui/events?questions={consortium}"), &[annotator]).await;
        assert_eq!(questions.status(), StatusCode::OK);
        assert_eq!(problem(get(app, &page_events, &[]).await).await, Code::Unauthenticated);
        for wrong in ["/ui/events".to_owned(), format!("{page_events}&questions={consortium}")] {
            assert_eq!(problem(get(app, &wrong, std::slice::from_ref(&jar)).await).await, Code::ValidationFailed, "{wrong}");
        }
        assert_eq!(problem(get(app, "/ui/events?job=x", &[jar]).await).await, Code::Malformed);
    }
}
