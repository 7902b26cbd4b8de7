//! `/ui/events`: notifies a page that its content has changed. It sends versions only. The page then requests the
//! content as rendered for its member (`/ui/watch`, or the page itself), so each part of a page reaches the browser by
//! one path only.

use std::net::IpAddr;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::Event;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use undertone_api::event::ChangeNotice;
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::problem::{Code, Violation};

use crate::rest::events::{known, stream};
use crate::rest::extract::{From, Query};
use crate::rest::problem::Rejection;
use undertone_server_core::auth::{Actor, Operation};
use undertone_server_core::ctx::{Ctx, StreamSubject};
use undertone_server_core::error::Error;
use undertone_server_core::service::event;

/// The subjects of a page.
#[derive(Debug, Deserialize)]
pub(super) struct Shown {
    /// A job.
    job: Option<JobId>,
    /// A consortium, its jobs and its budgets.
    consortium: Option<ConsortiumId>,
    /// The questions of a consortium.
    questions: Option<ConsortiumId>,
}

/// Streams the versions of a page's subjects.
pub(super) async fn events(
    State(ctx): State<Ctx>,
    Query(shown): Query<Shown>,
    actor: Option<Extension<Actor>>,
    From(from): From,
    headers: HeaderMap,
) -> Response {
    match begin(&ctx, &shown, actor.as_deref(), from, known(&headers)).await {
        Ok(response) => response,
        Err(error) => Rejection::from(error).into_response(),
    }
}

async fn begin(
    ctx: &Ctx,
    shown: &Shown,
    actor: Option<&Actor>,
    from: IpAddr,
    known: Option<String>,
) -> Result<Response, Error> {
    let actor = actor.ok_or_else(|| Error::problem(Code::Unauthenticated, "sign in to go on"))?;
    let (subject, operation) = match shown {
        Shown { job: Some(id), consortium: None, questions: None } => (StreamSubject::Job(*id), Operation::ReadJob),
        Shown { job: None, consortium: Some(id), questions: None } => {
            (StreamSubject::Consortium(*id), Operation::ReadJob)
        }
        Shown { job: None, consortium: None, questions: Some(id) } => {
            (StreamSubject::Consortium(*id), Operation::FollowQuestions)
        }
        _ => {
            let one = Violation::new("job", "name one of `job`, `consortium` and `questions`");
            return Err(Error::validation(vec![one]));
        }
    };
    let events = event::watch(ctx, actor, from, subject, operation, known).await?;
    Ok(stream(events, |seen| {
        let changed = ChangeNotice { version: seen.version.clone() };
        // Two short fields always have a JSON form.
        Event::default().data(serde_json::to_string(&changed).unwrap_or_default())
    }))
}
