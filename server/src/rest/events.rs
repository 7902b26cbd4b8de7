//! `/jobs/{id}/events` and `/consortia/{id}/events`: changes as server-sent events. Pages use `stream` too.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::{Stream, StreamExt as _};
use undertone_api::event::{ConsortiumEvent, JobEvent};
use undertone_api::id::{ConsortiumId, JobId};

use super::extract::{Caller, CallerAddress, Path};
use super::openapi::response::WrongState;
use super::problem::Rejection;
use undertone_server_core::auth::Operation;
use undertone_server_core::ctx::{Ctx, StreamSubject, SubjectState};
use undertone_server_core::service::event::{EventStream, watch};

/// The interval of keep-alive messages, so that both ends detect a lost connection.
pub(crate) const BEAT: Duration = Duration::from_secs(15);
/// The time after which a browser reconnects.
const RETRY: Duration = Duration::from_secs(2);
const LAST: HeaderName = HeaderName::from_static("last-event-id");

/// Watch a job: an event `job` with its state after every change
///
/// Server-sent events. The `id` of each is the version of the state. With it as `Last-Event-ID`, the stream sends
/// nothing until there is a newer version. A comment every 15 seconds keeps the connection alive. At most 16 streams
/// for a member.
#[utoipa::path(get, path = "/jobs/{id}/events", tag = "jobs", operation_id = "follow_job",
    params(("id" = JobId, Path), ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last received event")),
    responses((status = 200, body = JobEvent, content_type = "text/event-stream"), WrongState, Rejection))]
pub(super) async fn job(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    CallerAddress(address): CallerAddress,
    Path(id): Path<JobId>,
    headers: HeaderMap,
) -> Result<Response, Rejection> {
    let events =
        watch(&ctx, &actor, address, StreamSubject::Job(id), Operation::ReadJob, last_event_id(&headers)).await?;
    Ok(stream(events, |seen| Event::default().event("job").data(&seen.json)))
}

/// Watch a consortium: an event `consortium` with its newest jobs after every change
///
/// Server-sent events, as for a job. Request other changes (budgets, members, datasets) at their own addresses.
#[utoipa::path(get, path = "/consortia/{id}/events", tag = "consortia", operation_id = "follow_consortium",
    params(("id" = ConsortiumId, Path), ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last received event")),
    responses((status = 200, body = ConsortiumEvent, content_type = "text/event-stream"), Rejection))]
pub(super) async fn consortium(
    State(ctx): State<Ctx>,
    Caller(actor): Caller,
    CallerAddress(address): CallerAddress,
    Path(id): Path<ConsortiumId>,
    headers: HeaderMap,
) -> Result<Response, Rejection> {
    let events =
        watch(&ctx, &actor, address, StreamSubject::Consortium(id), Operation::ReadJob, last_event_id(&headers))
            .await?;
    Ok(stream(events, |seen| Event::default().event("consortium").data(&seen.json)))
}

/// Returns the version that a client already has.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Option<String> {
    headers.get(LAST)?.to_str().ok().map(str::to_owned)
}

/// Returns a stream of events, each formatted by `to_event`.
pub(crate) fn stream(events: EventStream, to_event: impl Fn(&SubjectState) -> Event + Send + 'static) -> Response {
    let items = futures::stream::unfold((events, to_event), |(mut events, to_event)| async move {
        let update = events.next().await?;
        let event = to_event(&update).id(&update.version).retry(RETRY);
        Some((event, (events, to_event)))
    });
    answer(items, BEAT)
}

/// Returns a streaming response with keep-alive messages.
fn answer(events: impl Stream<Item = Event> + Send + 'static, beat: Duration) -> Response {
    let events = events.map(Ok::<_, Infallible>);
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(beat).text("beat")).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Buffering proxies would delay the events.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
