//! The turns of an annotator: the next question after an answer, or after an undone one.

use undertone_api::problem::{Code, Problem};
use undertone_api::question::{AnnotationQueue, NewAnnotation};
use undertone_server_core::service;

use super::Turn;
use super::part::{self, AnnotatorPosition, TYPED, parse_answer};
use crate::fault::Fault;
use crate::message::{PageMessage, leave};
use crate::reply::{self, problem_html, wants_html};
use crate::request::{Answer, DashboardRequest};

/// Renders the next turn; queries the job's state only if there is no question.
pub(crate) async fn render_turn(
    request: &DashboardRequest,
    queue: &AnnotationQueue,
    position: &AnnotatorPosition,
    notice: &str,
) -> Answer<Turn> {
    if !queue.questions.is_empty() {
        return Ok(part::turn(queue, position, None, notice));
    }
    let asking = service::question::asking(request.ctx(), request.actor()?, position.consortium).await?;
    let job = asking.iter().find(|job| job.summary.id == position.job);
    Ok(part::turn(queue, position, job.map(|job| (job.summary.state, &job.asking)), notice))
}

/// Records the pressed or typed answer, or undoes the last one; returns the caller's new position and a notice.
pub(crate) async fn record_answer(
    request: &DashboardRequest,
    position: AnnotatorPosition,
    answer: &str,
    typed: &str,
) -> Answer<(AnnotatorPosition, &'static str)> {
    let ctx = request.ctx();
    let actor = request.actor()?;
    if answer == "undo" {
        let last = position.trail.first().copied();
        let last = last.ok_or_else(|| Problem::new(Code::WrongState, "There is no answer to take back."))?;
        service::question::take_back(ctx, actor, last).await?;
        return Ok((position.after_undo(), "Taken back."));
    }
    let question = position.first.ok_or_else(|| Problem::new(Code::WrongState, "There is no question to answer."))?;
    let labels =
        if answer == TYPED { service::question::next(ctx, actor, position.job).await?.labels } else { Vec::new() };
    let answer = parse_answer(answer, typed, &labels)?;
    service::question::annotate(ctx, actor, question, &NewAnnotation { answer }).await?;
    Ok((position.after_answer(question), ""))
}

/// Ends an annotation request: a browser that submits a form goes to the page with the next question, an island
/// receives the next turn.
pub(crate) async fn finish_annotation(
    request: &DashboardRequest,
    answer: Answer<(AnnotatorPosition, &'static str)>,
) -> Result<String, Fault> {
    let (position, notice) = match answer {
        Ok(answered) => answered,
        Err(problem) if wants_html() => {
            leave(&PageMessage::Problem(problem));
            leptos_axum::redirect(&reply::came_from());
            return Ok(String::new());
        }
        Err(problem) => return Ok(problem_html(problem)),
    };
    if wants_html() {
        leptos_axum::redirect(&position.page());
        return Ok(String::new());
    }
    let queue = match service::question::next(request.ctx(), request.actor()?, position.job).await {
        Ok(queue) => queue,
        Err(error) => return Ok(problem_html(error.into_problem())),
    };
    Ok(reply::text(&render_turn(request, &queue, &position, notice).await?)?)
}
