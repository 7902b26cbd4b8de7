//! The browser's direct requests to the server: server functions under `/ui`.
//!
//! Those that change something are targets of plain forms: they answer with a redirect and leave a message for the next
//! page (see `native`). The few that islands call, through `ask`, answer with values. Each translates and delegates;
//! none makes decisions.

#![expect(missing_docs, reason = "the macro makes a struct of each function's arguments and gives its fields no words")]
#![cfg_attr(feature = "ssr", expect(clippy::unused_async, reason = "server functions are asynchronous"))]

pub mod account;
pub mod api_key;
pub(crate) mod ask;
pub mod life;
#[cfg(feature = "ssr")]
pub(crate) mod native;
pub mod notification;
pub mod passkey;
pub mod retirement;

use leptos::prelude::*;
use leptos::server_fn::codec::{GetUrl, JsonEncoding};
use serde::{Deserialize, Serialize};
use undertone_api::id::{ConsortiumId, DatasetId, JobId, OrganizationId, QuestionId};
use undertone_api::member::Role;
use undertone_api::problem::{Code, Problem};

/// A problem in a response to the browser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
#[serde(transparent)]
pub struct Fault(pub Problem);

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl FromServerFnError for Fault {
    type Encoder = JsonEncoding;

    fn from_server_fn_error(error: ServerFnErrorErr) -> Self {
        let code = match error {
            ServerFnErrorErr::Request(_) | ServerFnErrorErr::Response(_) => Code::Unavailable,
            ServerFnErrorErr::Args(_) | ServerFnErrorErr::MissingArg(_) | ServerFnErrorErr::Deserialization(_) => {
                Code::Malformed
            }
            _ => Code::Internal,
        };
        Self(Problem::new(code, error.to_string()))
    }
}

/// Returns the present state of a job: a [`Live`](crate::live::Live) as JSON, in the form that the page contains.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "watch", input = GetUrl)]
pub async fn watch(job: JobId) -> Result<String, Fault> {
    let backend = crate::backend::backend()?;
    let live = native::live(backend.as_ref(), &backend.job(job).await?).await?;
    Ok(native::text(&live)?)
}

/// Signs in and redirects to `to`.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "sign-in")]
pub async fn sign_in(email: String, password: String, #[server(default)] to: String) -> Result<(), Fault> {
    let credentials = undertone_api::session::SignIn { email, password };
    let answer = crate::backend::backend()?.sign_in(credentials).await;
    let entered = answer.map(|entry| {
        native::keep(entry.cookies);
        entry.second_factor
    });
    let to = native::own_address(&to);
    native::land(entered, |code| if *code { crate::path::second_factor(&to) } else { to.clone() }, None)
}

/// Signs out.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "sign-out")]
pub async fn sign_out() -> Result<(), Fault> {
    let answer = crate::backend::backend()?.sign_out().await;
    native::land(answer.map(native::keep), |()| crate::path::SIGN_IN.to_owned(), None)
}

/// Accepts a one-time link.
///
/// # Errors
/// The backend's [`Problem`].
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
    let answer = crate::backend::backend()?.accept(&secret, member).await;
    native::land(answer.map(native::keep), |()| "/".to_owned(), Some("Welcome. You are signed in.".to_owned()))
}

/// Founds a consortium.
///
/// # Errors
/// The backend's [`Problem`].
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
    let answer = crate::backend::backend()?.found(consortium).await;
    native::land(answer, |made| crate::path::overview(made.id), Some("The consortium is founded.".to_owned()))
}

/// Declares in how many organizations of a consortium one person may be.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "attest-overlap")]
pub async fn attest_overlap(
    consortium: ConsortiumId,
    overlap: String,
    #[server(default)] most: u32,
    #[server(default)] statement: String,
) -> Result<(), Fault> {
    let backend = crate::backend::backend()?;
    let answer = match native::overlap(&overlap, most) {
        Ok(overlap) => backend.attest(consortium, undertone_api::consortium::NewOverlap { overlap, statement }).await,
        Err(problem) => Err(problem),
    };
    let notice = "It is declared, with your name. Certificates made from now on say so.".to_owned();
    native::land(answer, |_| crate::path::overview(consortium), Some(notice))
}

/// Makes a link for an organization to join.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "invite-organization")]
pub async fn invite_organization(consortium: ConsortiumId, label: String) -> Result<(), Fault> {
    let purpose = undertone_api::organization::InvitationPurpose::Organization { consortium };
    let invitation = undertone_api::organization::NewInvitation { purpose, label };
    let answer = crate::backend::backend()?.invite(invitation).await;
    native::land(answer.map(native::show_link), |()| crate::path::organizations(consortium), None)
}

/// Makes a link for an annotator, with no other permission.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "invite-annotator")]
pub async fn invite_annotator(consortium: ConsortiumId, label: String) -> Result<(), Fault> {
    let purpose = undertone_api::organization::InvitationPurpose::Annotator { consortium };
    let invitation = undertone_api::organization::NewInvitation { purpose, label };
    let answer = crate::backend::backend()?.invite(invitation).await;
    native::land(answer.map(native::show_link), |()| crate::path::questions(consortium), None)
}

/// Makes a link for a person to join an organization.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "invite-member")]
pub async fn invite_member(
    consortium: ConsortiumId,
    organization: OrganizationId,
    label: String,
    #[server(default)] roles: Vec<Role>,
) -> Result<(), Fault> {
    let purpose = undertone_api::organization::InvitationPurpose::Member { organization, roles };
    let invitation = undertone_api::organization::NewInvitation { purpose, label };
    let answer = crate::backend::backend()?.invite(invitation).await;
    native::land(answer.map(native::show_link), |()| crate::path::organization(consortium, organization), None)
}

/// Makes an enrolment token for a worker.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "enrol")]
pub async fn enrol(consortium: ConsortiumId, organization: OrganizationId, name: String) -> Result<(), Fault> {
    let worker = undertone_api::worker::NewEnrolment { name: name.clone() };
    let answer = crate::backend::backend()?.enrol(organization, worker).await;
    let answer = answer.map(|enrolment| native::show_token(name, enrolment));
    native::land(answer, |()| crate::path::organization(consortium, organization), None)
}

/// Sets or raises a lifetime limit.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "set-budget")]
pub async fn set_budget(
    consortium: ConsortiumId,
    dataset: DatasetId,
    unit: undertone_privacy::PrivacyUnit,
    epsilon: f64,
    delta: f64,
) -> Result<(), Fault> {
    let backend = crate::backend::backend()?;
    let answer = match native::budget(unit, epsilon, delta) {
        Ok(budget) => backend.set_budget(dataset, budget).await,
        Err(problem) => Err(problem),
    };
    let notice = format!(
        "The lifetime limit for {} is now ε {} at δ {}.",
        crate::words::each(unit),
        crate::words::limit(epsilon),
        crate::words::delta(delta)
    );
    native::land(answer, |_| crate::path::dataset(consortium, dataset), Some(notice))
}

/// Clears a dataset that an audit has frozen.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "clear-freeze")]
pub async fn clear_freeze(consortium: ConsortiumId, dataset: DatasetId, reason: String) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.clear_freeze(dataset, undertone_api::freeze::ClearFreeze { reason }).await;
    let notice = "The dataset may be used again in this consortium; its site clears a freeze of its own.".to_owned();
    native::land(answer, |_| crate::path::dataset(consortium, dataset), Some(notice))
}

/// Approves a job for a dataset.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "approve")]
pub async fn approve(
    consortium: ConsortiumId,
    job: JobId,
    dataset: DatasetId,
    #[server(default)] manifest: String,
    #[server(default)] signature: String,
) -> Result<(), Fault> {
    let backend = crate::backend::backend()?;
    let answer = match native::signed_approval(&signature) {
        Err(problem) => Err(problem),
        Ok(None) if manifest.is_empty() => backend.approve(job, dataset).await,
        Ok(signature) => backend.approve_signed(job, dataset, &manifest, signature).await,
    };
    native::land(answer, |_| crate::path::job(consortium, job), Some("You approved the job.".to_owned()))
}

/// Refuses a job for a dataset.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "refuse")]
pub async fn refuse(consortium: ConsortiumId, job: JobId, dataset: DatasetId, reason: String) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.refuse(job, dataset, undertone_api::job::RefuseRequest { reason }).await;
    native::land(answer, |_| crate::path::job(consortium, job), Some("You refused the job.".to_owned()))
}

/// Ends a job.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "cancel")]
pub async fn cancel(consortium: ConsortiumId, job: JobId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.cancel(job).await;
    native::land(answer, |_| crate::path::job(consortium, job), Some("The job is cancelled.".to_owned()))
}

/// Proposes a job again, exactly as it was signed.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "propose-again")]
pub async fn propose_again(consortium: ConsortiumId, job: JobId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.propose_again(consortium, job).await;
    let notice = "The same job is proposed again; its owners are asked.".to_owned();
    native::land(answer, |job| crate::path::job(consortium, job.summary.id), Some(notice))
}

/// Answers a question of a job, or undoes the last answer, and returns the next [`Turn`](crate::answer::Turn) as JSON.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "annotate")]
pub async fn annotate(
    consortium: ConsortiumId,
    job: JobId,
    question: Option<QuestionId>,
    #[server(default)] trail: String,
    #[server(default)] typed: String,
    answer: String,
) -> Result<String, Fault> {
    let backend = crate::backend::backend()?;
    let at = crate::answer::part::AnnotatorPosition::new(consortium, job, &trail, question);
    native::finish_annotation(native::annotate(backend.as_ref(), at, &answer, &typed).await).await
}

/// Returns the current question of a job: a [`Turn`](crate::answer::Turn) as JSON.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "turn", input = GetUrl)]
pub async fn turn(consortium: ConsortiumId, job: JobId, #[server(default)] trail: String) -> Result<String, Fault> {
    let backend = crate::backend::backend()?;
    let at = crate::answer::part::AnnotatorPosition::new(consortium, job, &trail, None);
    let queue = backend.queue(job).await?;
    Ok(native::text(&native::turn(backend.as_ref(), &queue, &at, "").await?)?)
}

/// Imports labels from elsewhere.
///
/// # Errors
/// The backend's [`Problem`].
#[server(prefix = "/ui", endpoint = "import-labels")]
pub async fn import_labels(
    consortium: ConsortiumId,
    job: JobId,
    #[server(default)] name: String,
    labels: String,
) -> Result<(), Fault> {
    let name = Some(name.trim()).filter(|name| !name.is_empty());
    let answer = crate::backend::backend()?.import_labels(job, name, &labels).await;
    let notice = answer.as_ref().ok().map(native::imported);
    native::land(answer, |_| crate::path::annotate(consortium, job), notice)
}

/// Selects the light, dark or system theme.
///
/// # Errors
/// None of its own.
#[server(prefix = "/ui", endpoint = "theme")]
pub async fn theme(theme: String) -> Result<(), Fault> {
    native::land(native::keep_theme(&theme), |()| native::came_from(), None)
}
