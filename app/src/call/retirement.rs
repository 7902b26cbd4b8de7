//! The forms of retirement, replacement and operators' accounts: targets of plain forms.

#![expect(missing_docs, reason = "the macro makes a struct of each function's arguments and gives its fields no words")]

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, InvitationId, MemberId, OrganizationId, WorkerId};

use super::Fault;
#[cfg(feature = "ssr")]
use super::native;
#[cfg(feature = "ssr")]
use crate::backend::RetirementSubject;
#[cfg(feature = "ssr")]
use undertone_api::retirement::StatedReason;

/// Retires a subject, and shows `page` with `message`.
#[cfg(feature = "ssr")]
async fn retire(subject: RetirementSubject, reason: String, page: String, message: &str) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.retire(subject, StatedReason { reason }).await;
    native::land(answer, |()| page, Some(message.to_owned()))
}

/// Restores a retired subject, and shows `page` with `message`.
#[cfg(feature = "ssr")]
async fn restore(subject: RetirementSubject, reason: String, page: String, message: &str) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.restore(subject, StatedReason { reason }).await;
    native::land(answer, |()| page, Some(message.to_owned()))
}

/// Proves the caller's identity once more.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "prove-identity")]
pub async fn prove_identity(#[server(default)] password: String, #[server(default)] code: String) -> Result<(), Fault> {
    let proof = undertone_api::account::IdentityProof { password, code, passkey: None };
    let answer = crate::backend::backend()?.prove_identity(proof).await;
    let notice = "Your identity is confirmed. For ten minutes you can make credentials and change access.".to_owned();
    native::land(answer, |()| crate::path::SECURITY.to_owned(), Some(notice))
}

/// Retires a worker.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "retire-worker")]
pub async fn retire_worker(
    consortium: ConsortiumId,
    organization: OrganizationId,
    worker: WorkerId,
    reason: String,
) -> Result<(), Fault> {
    let page = crate::path::organization(consortium, organization);
    let subject = RetirementSubject::Worker(organization, worker);
    retire(subject, reason, page, "The worker is retired: its calls fail from now on.").await
}

/// Restores a worker.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "restore-worker")]
pub async fn restore_worker(
    consortium: ConsortiumId,
    organization: OrganizationId,
    worker: WorkerId,
    reason: String,
) -> Result<(), Fault> {
    let page = crate::path::organization(consortium, organization);
    let subject = RetirementSubject::Worker(organization, worker);
    restore(subject, reason, page, "The worker is restored: it signs in with the key that it had.").await
}

/// Writes off a worker whose site does not return.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "write-off-worker")]
pub async fn write_off_worker(
    consortium: ConsortiumId,
    organization: OrganizationId,
    worker: WorkerId,
    reason: String,
) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.write_off(organization, worker, StatedReason { reason }).await;
    let notice = "The worker is written off until its site returns.".to_owned();
    native::land(answer, |()| crate::path::organization(consortium, organization), Some(notice))
}

/// Makes a token for the replacement of a retired worker.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "replace-worker")]
pub async fn replace_worker(
    consortium: ConsortiumId,
    organization: OrganizationId,
    worker: WorkerId,
    name: String,
) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.replace_worker(organization, worker).await;
    let answer = answer.map(|enrolment| native::show_token(name, enrolment));
    native::land(answer, |()| crate::path::organization(consortium, organization), None)
}

/// Retires a member of an organization.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "retire-member")]
pub async fn retire_member(
    consortium: ConsortiumId,
    organization: OrganizationId,
    member: MemberId,
    reason: String,
) -> Result<(), Fault> {
    let page = crate::path::organization(consortium, organization);
    let subject = RetirementSubject::Member(organization, member);
    retire(subject, reason, page, "The member is retired: their sessions and roles here have ended.").await
}

/// Restores a member of an organization.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "restore-member")]
pub async fn restore_member(
    consortium: ConsortiumId,
    organization: OrganizationId,
    member: MemberId,
    reason: String,
) -> Result<(), Fault> {
    let page = crate::path::organization(consortium, organization);
    let subject = RetirementSubject::Member(organization, member);
    restore(subject, reason, page, "The member is restored, with the roles that they had here.").await
}

/// Confirms that a member's e-mail address is theirs.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "confirm-address")]
pub async fn confirm_address(
    consortium: ConsortiumId,
    organization: OrganizationId,
    member: MemberId,
) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.confirm_address(organization, member).await;
    let notice = "The address is confirmed.".to_owned();
    native::land(answer, |()| crate::path::organization(consortium, organization), Some(notice))
}

/// Retires an organization from a consortium.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "retire-organization")]
pub async fn retire_organization(
    consortium: ConsortiumId,
    organization: OrganizationId,
    reason: String,
) -> Result<(), Fault> {
    let page = crate::path::organizations(consortium);
    let subject = RetirementSubject::Organization(consortium, organization);
    retire(subject, reason, page, "The organization is retired from the consortium.").await
}

/// Restores an organization in a consortium.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "restore-organization")]
pub async fn restore_organization(
    consortium: ConsortiumId,
    organization: OrganizationId,
    reason: String,
) -> Result<(), Fault> {
    let page = crate::path::organizations(consortium);
    let subject = RetirementSubject::Organization(consortium, organization);
    restore(subject, reason, page, "The organization is restored in the consortium.").await
}

/// Retires an account.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "retire-account")]
pub async fn retire_account(member: MemberId, reason: String) -> Result<(), Fault> {
    let page = crate::path::ACCOUNTS.to_owned();
    let subject = RetirementSubject::Account(member);
    retire(subject, reason, page, "The account is retired: it signs in nowhere.").await
}

/// Restores an account.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "restore-account")]
pub async fn restore_account(member: MemberId, reason: String) -> Result<(), Fault> {
    let page = crate::path::ACCOUNTS.to_owned();
    let subject = RetirementSubject::Account(member);
    restore(subject, reason, page, "The account is restored with its roles. The member signs in again.").await
}

/// Makes a link for another operator.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "invite-operator")]
pub async fn invite_operator(label: String) -> Result<(), Fault> {
    let purpose = undertone_api::organization::InvitationPurpose::Operator;
    let invitation = undertone_api::organization::NewInvitation { purpose, label };
    let answer = crate::backend::backend()?.invite(invitation).await;
    native::land(answer.map(native::show_link), |()| crate::path::ACCOUNTS.to_owned(), None)
}

/// Withdraws a link for an operator.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "withdraw-operator")]
pub async fn withdraw_operator(invitation: InvitationId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.withdraw_operator(invitation).await;
    let notice = "The link is withdrawn; it works no longer.".to_owned();
    native::land(answer, |()| crate::path::ACCOUNTS.to_owned(), Some(notice))
}
