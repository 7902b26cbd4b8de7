//! The browser's direct requests to the server: server functions under `/ui`.
//!
//! Those that change something are targets of plain forms: they answer with a redirect (see `reply`) and leave a message
//! for the next page (see `message`). The few that islands call, through `fetch`, answer with values. Each parses its form
//! and calls an operation of `undertone_server_core::service`; none makes decisions.
//!
//! The operation stands in an `async` block, so that a caller without a sign-in ends the form (`reply::land`) like a refusal of
//! the operation.

#![expect(missing_docs, reason = "the macro makes a struct of each function's arguments and gives its fields no words")]
#![cfg_attr(feature = "ssr", expect(clippy::unused_async, reason = "server functions are asynchronous"))]

pub mod account;
pub mod api_key;
#[cfg(feature = "ssr")]
mod form;
pub mod life;
pub mod notification;
pub mod passkey;
pub mod retirement;

use leptos::prelude::*;
use leptos::server_fn::codec::GetUrl;
#[cfg(feature = "ssr")]
use undertone_api::freeze;
use undertone_api::id::{ConsortiumId, DatasetId, JobId, OrganizationId, QuestionId};
#[cfg(feature = "ssr")]
use undertone_api::job::RefuseRequest;
use undertone_api::member::Role;
#[cfg(feature = "ssr")]
use undertone_server_core::{
    auth::cookie,
    service::{self, session::SignInResult},
};

#[cfg(feature = "ssr")]
use crate::answer::{
    part::AnnotatorPosition,
    turn::{finish_annotation, record_answer, render_turn},
};
use crate::fault::Fault;
#[cfg(feature = "ssr")]
use crate::{live::state::load_live, message, reply, request::DashboardRequest};

/// Returns the present state of a job: a [`Live`](crate::live::Live) as JSON, in the form that the page contains.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "watch", input = GetUrl)]
pub async fn watch(job: JobId) -> Result<String, Fault> {
    let request = DashboardRequest::from_context()?;
    let (_, live) = load_live(&request, job).await?;
    Ok(reply::text(&live)?)
}

/// Signs in and redirects to `to`.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "sign-in")]
pub async fn sign_in(email: String, password: String, #[server(default)] to: String) -> Result<(), Fault> {
    let credentials = undertone_api::session::SignIn { email, password };
    let request = DashboardRequest::from_context()?;
    let ctx = request.ctx();
    let answer = service::session::sign_in(ctx, request.origin(), &credentials).await;
    let needs_code = answer.map(|result| match result {
        SignInResult::Whole(session) => {
            reply::keep(cookie::store_session(ctx, &session.tokens));
            false
        }
        SignInResult::Half(half) => {
            reply::keep(vec![cookie::store_half_session(ctx, &half)]);
            true
        }
    });
    let to = reply::own_address(&to);
    reply::land(needs_code, |code| if *code { crate::path::second_factor(&to) } else { to.clone() }, None)
}

/// Signs out.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "sign-out")]
pub async fn sign_out() -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = match request.signed_in() {
        Some(actor) => service::session::sign_out(request.ctx(), actor).await,
        None => Ok(()),
    };
    let cookies = answer.map(|()| cookie::delete_session(request.ctx()));
    reply::land(cookies.map(reply::keep), |()| crate::path::SIGN_IN.to_owned(), None)
}

/// Accepts a one-time link.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "accept")]
pub async fn accept(
    secret: String,
    name: String,
    email: String,
    password: String,
    #[server(default)] organization: String,
) -> Result<(), Fault> {
    let organization = Some(organization).filter(|name| !name.trim().is_empty());
    let member = undertone_api::member::NewMember { name, email, password, organization };
    let request = DashboardRequest::from_context()?;
    let answer = service::invitation::accept(request.ctx(), request.origin(), &secret, &member).await;
    let cookies = answer.map(|session| cookie::store_session(request.ctx(), &session.tokens));
    reply::land(cookies.map(reply::keep), |()| "/".to_owned(), Some("Welcome. You are signed in.".to_owned()))
}

/// Founds a consortium.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "found")]
pub async fn create_consortium(
    name: String,
    #[server(default)] description: String,
    organization: String,
) -> Result<(), Fault> {
    // The field holds the id of an existing organization, or the name of a new one.
    let existing = organization.parse().ok();
    let consortium = undertone_api::consortium::NewConsortium {
        name,
        description,
        organization: existing,
        organization_name: existing.is_none().then_some(organization),
    };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::consortium::create(request.ctx(), request.actor()?, &consortium).await }.await;
    reply::land(answer, |made| crate::path::overview(made.id), Some("The consortium is founded.".to_owned()))
}

/// Declares in how many organizations of a consortium one person may be.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "attest-overlap")]
pub async fn attest_overlap(
    consortium: ConsortiumId,
    overlap: String,
    #[server(default)] most: u32,
    #[server(default)] statement: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        let overlap = form::overlap(&overlap, most)?;
        let new = undertone_api::consortium::NewOverlap { overlap, statement };
        service::consortium::attest(request.ctx(), request.actor()?, consortium, &new).await
    };
    let answer = answer.await;
    let notice = "It is declared, with your name. Certificates made from now on say so.".to_owned();
    reply::land(answer, |_| crate::path::overview(consortium), Some(notice))
}

/// Makes a link for an organization to join.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "invite-organization")]
pub async fn invite_organization(consortium: ConsortiumId, label: String) -> Result<(), Fault> {
    let purpose = undertone_api::organization::InvitationPurpose::Organization { consortium };
    let invitation = undertone_api::organization::NewInvitation { purpose, label };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::invitation::create(request.ctx(), request.actor()?, &invitation).await }.await;
    reply::land(answer.map(message::show_link), |()| crate::path::organizations(consortium), None)
}

/// Makes a link for an annotator, with no other permission.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "invite-annotator")]
pub async fn invite_annotator(consortium: ConsortiumId, label: String) -> Result<(), Fault> {
    let purpose = undertone_api::organization::InvitationPurpose::Annotator { consortium };
    let invitation = undertone_api::organization::NewInvitation { purpose, label };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::invitation::create(request.ctx(), request.actor()?, &invitation).await }.await;
    reply::land(answer.map(message::show_link), |()| crate::path::questions(consortium), None)
}

/// Makes a link for a person to join an organization.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "invite-member")]
pub async fn invite_member(
    consortium: ConsortiumId,
    organization: OrganizationId,
    label: String,
    #[server(default)] roles: Vec<Role>,
) -> Result<(), Fault> {
    let purpose = undertone_api::organization::InvitationPurpose::Member { organization, roles };
    let invitation = undertone_api::organization::NewInvitation { purpose, label };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::invitation::create(request.ctx(), request.actor()?, &invitation).await }.await;
    reply::land(answer.map(message::show_link), |()| crate::path::organization(consortium, organization), None)
}

/// Makes an enrolment token for a worker.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "enrol")]
pub async fn enrol(consortium: ConsortiumId, organization: OrganizationId, name: String) -> Result<(), Fault> {
    let worker = undertone_api::worker::NewEnrolment { name: name.clone() };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::worker::invite(request.ctx(), request.actor()?, organization, &worker).await }.await;
    let answer = answer.map(|enrolment| message::show_token(name, enrolment));
    reply::land(answer, |()| crate::path::organization(consortium, organization), None)
}

/// Sets or raises a lifetime limit.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "set-budget")]
pub async fn set_budget(
    consortium: ConsortiumId,
    dataset: DatasetId,
    unit: undertone_privacy::PrivacyUnit,
    epsilon: f64,
    delta: f64,
    #[server(default)] filter: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        let budget = form::budget(unit, (epsilon, delta), &filter)?;
        service::budget::set(request.ctx(), request.actor()?, dataset, budget).await
    };
    let answer = answer.await;
    let notice = format!(
        "The lifetime limit for {} is now ε {} at δ {}.",
        crate::words::each(unit),
        crate::words::limit(epsilon),
        crate::words::delta(delta)
    );
    reply::land(answer, |_| crate::path::dataset(consortium, dataset), Some(notice))
}

/// Clears a dataset that an audit has frozen.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "clear-freeze")]
pub async fn clear_freeze(consortium: ConsortiumId, dataset: DatasetId, reason: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        service::freeze::clear(request.ctx(), request.actor()?, dataset, &freeze::ClearFreeze { reason }).await
    }
    .await;
    let notice = "The dataset may be used again in this consortium; its site clears a freeze of its own.".to_owned();
    reply::land(answer, |_| crate::path::dataset(consortium, dataset), Some(notice))
}

/// Approves a job for a dataset.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "approve")]
pub async fn approve(
    consortium: ConsortiumId,
    job: JobId,
    dataset: DatasetId,
    #[server(default)] manifest: String,
    #[server(default)] signature: String,
    #[server(default)] terms: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        let signature = form::signed_approval(&signature)?;
        let terms = form::party_terms(&terms)?;
        let ctx = request.ctx();
        let actor = request.actor()?;
        let manifest = Some(&*manifest).filter(|manifest| signature.is_some() || !manifest.is_empty());
        let (signature, terms) = (signature.as_ref(), terms.as_ref());
        service::approval::approve_with_terms(ctx, actor, job, dataset, manifest, signature, terms).await
    };
    let answer = answer.await;
    reply::land(answer, |_| crate::path::job(consortium, job), Some("You approved the job.".to_owned()))
}

/// Refuses a job for a dataset.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "refuse")]
pub async fn refuse(consortium: ConsortiumId, job: JobId, dataset: DatasetId, reason: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        service::approval::refuse(request.ctx(), request.actor()?, job, dataset, &RefuseRequest { reason }).await
    }
    .await;
    reply::land(answer, |_| crate::path::job(consortium, job), Some("You refused the job.".to_owned()))
}

/// Ends a job.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "cancel")]
pub async fn cancel(consortium: ConsortiumId, job: JobId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::job::cancel(request.ctx(), request.actor()?, job).await }.await;
    reply::land(answer, |_| crate::path::job(consortium, job), Some("The job is cancelled.".to_owned()))
}

/// Proposes a job again, exactly as it was signed.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "propose-again")]
pub async fn propose_again(consortium: ConsortiumId, job: JobId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        let actor = request.actor()?;
        let report = service::report::get(request.ctx(), actor, job).await?;
        service::report::again(request.ctx(), actor, consortium, &report).await
    };
    let answer = answer.await;
    let notice = "The same job is proposed again; its owners are asked.".to_owned();
    reply::land(answer, |job| crate::path::job(consortium, job.summary.id), Some(notice))
}

/// Answers a question of a job, or undoes the last answer, and returns the next [`Turn`](crate::answer::Turn) as JSON.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "annotate")]
pub async fn annotate(
    consortium: ConsortiumId,
    job: JobId,
    question: Option<QuestionId>,
    #[server(default)] trail: String,
    #[server(default)] typed: String,
    answer: String,
) -> Result<String, Fault> {
    let request = DashboardRequest::from_context()?;
    let position = AnnotatorPosition::new(consortium, job, &trail, question);
    finish_annotation(&request, record_answer(&request, position, &answer, &typed).await).await
}

/// Returns the current question of a job: a [`Turn`](crate::answer::Turn) as JSON.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "turn", input = GetUrl)]
pub async fn turn(consortium: ConsortiumId, job: JobId, #[server(default)] trail: String) -> Result<String, Fault> {
    let request = DashboardRequest::from_context()?;
    let position = AnnotatorPosition::new(consortium, job, &trail, None);
    let queue = service::question::next(request.ctx(), request.actor()?, job).await?;
    Ok(reply::text(&render_turn(&request, &queue, &position, "").await?)?)
}

/// Imports labels from elsewhere.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "import-labels")]
pub async fn import_labels(
    consortium: ConsortiumId,
    job: JobId,
    #[server(default)] name: String,
    labels: String,
) -> Result<(), Fault> {
    let name = Some(name.trim()).filter(|name| !name.is_empty());
    let request = DashboardRequest::from_context()?;
    let answer = async { service::question::import(request.ctx(), request.actor()?, job, name, &labels).await }.await;
    let notice = answer.as_ref().ok().map(form::imported);
    reply::land(answer, |_| crate::path::annotate(consortium, job), notice)
}

/// Ends the guided tour of a demonstration for the caller.
///
/// # Errors
/// When nobody is signed in.
#[server(prefix = "/ui", endpoint = "end-tour")]
pub async fn end_tour(consortium: ConsortiumId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let ended = request.actor().map(|actor| crate::tour::end_tour(consortium, actor.id()));
    reply::land(ended, |()| crate::path::overview(consortium), None)
}

/// Selects the light, dark or system theme.
///
/// # Errors
/// None of its own.
#[server(prefix = "/ui", endpoint = "theme")]
pub async fn theme(theme: String) -> Result<(), Fault> {
    reply::land(reply::keep_theme(&theme), |()| reply::came_from(), None)
}
