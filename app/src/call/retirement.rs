//! The forms of retirement, replacement and operators' accounts: targets of plain forms.

#![expect(missing_docs, reason = "the macro makes a struct of each function's arguments and gives its fields no words")]

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, InvitationId, MemberId, OrganizationId, WorkerId};

use crate::fault::Fault;
#[cfg(feature = "ssr")]
use crate::request::DashboardRequest;
#[cfg(feature = "ssr")]
use crate::{message, reply};
#[cfg(feature = "ssr")]
use undertone_api::retirement::StatedReason;
#[cfg(feature = "ssr")]
use undertone_server_core::{auth::Place, service};

/// Proves the caller's identity once more.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "prove-identity")]
pub async fn prove_identity(#[server(default)] password: String, #[server(default)] code: String) -> Result<(), Fault> {
    let proof = undertone_api::account::IdentityProof { password, code, passkey: None };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::session::prove_identity(request.ctx(), request.actor()?, &proof).await }.await;
    let notice = "Your identity is confirmed. For ten minutes you can make credentials and change access.".to_owned();
    reply::land(answer, |()| crate::path::SECURITY.to_owned(), Some(notice))
}

/// Retires a worker.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "retire-worker")]
pub async fn retire_worker(
    consortium: ConsortiumId,
    organization: OrganizationId,
    worker: WorkerId,
    reason: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let reason = StatedReason { reason };
    let answer = async {
        service::retirement::retire_worker(request.ctx(), request.actor()?, organization, worker, &reason).await
    }
    .await;
    let notice = "The worker is retired: its calls fail from now on.".to_owned();
    reply::land(answer, |_| crate::path::organization(consortium, organization), Some(notice))
}

/// Restores a worker.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "restore-worker")]
pub async fn restore_worker(
    consortium: ConsortiumId,
    organization: OrganizationId,
    worker: WorkerId,
    reason: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let reason = StatedReason { reason };
    let answer = async {
        service::retirement::restore_worker(request.ctx(), request.actor()?, organization, worker, &reason).await
    }
    .await;
    let notice = "The worker is restored: it signs in with the key that it had.".to_owned();
    reply::land(answer, |_| crate::path::organization(consortium, organization), Some(notice))
}

/// Writes off a worker whose site does not return.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "write-off-worker")]
pub async fn write_off_worker(
    consortium: ConsortiumId,
    organization: OrganizationId,
    worker: WorkerId,
    reason: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let reason = StatedReason { reason };
    let answer = async {
        service::retirement::write_off_worker(request.ctx(), request.actor()?, organization, worker, &reason).await
    }
    .await;
    let notice = "The worker is written off until its site returns.".to_owned();
    reply::land(answer, |_| crate::path::organization(consortium, organization), Some(notice))
}

/// Makes a token for the replacement of a retired worker.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "replace-worker")]
pub async fn replace_worker(
    consortium: ConsortiumId,
    organization: OrganizationId,
    worker: WorkerId,
    name: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer =
        async { service::worker::invite_replacement(request.ctx(), request.actor()?, organization, worker).await }
            .await;
    let answer = answer.map(|enrolment| message::show_token(name, enrolment));
    reply::land(answer, |()| crate::path::organization(consortium, organization), None)
}

/// Retires a member of an organization.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "retire-member")]
pub async fn retire_member(
    consortium: ConsortiumId,
    organization: OrganizationId,
    member: MemberId,
    reason: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let reason = StatedReason { reason };
    let answer = async {
        service::retirement::retire_member(request.ctx(), request.actor()?, organization, member, &reason).await
    }
    .await;
    let notice = "The member is retired: their sessions and roles here have ended.".to_owned();
    reply::land(answer, |_| crate::path::organization(consortium, organization), Some(notice))
}

/// Restores a member of an organization.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "restore-member")]
pub async fn restore_member(
    consortium: ConsortiumId,
    organization: OrganizationId,
    member: MemberId,
    reason: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let reason = StatedReason { reason };
    let answer = async {
        service::retirement::restore_member(request.ctx(), request.actor()?, organization, member, &reason).await
    }
    .await;
    let notice = "The member is restored, with the roles that they had here.".to_owned();
    reply::land(answer, |_| crate::path::organization(consortium, organization), Some(notice))
}

/// Confirms that a member's e-mail address is theirs.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "confirm-address")]
pub async fn confirm_address(
    consortium: ConsortiumId,
    organization: OrganizationId,
    member: MemberId,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer =
        async { service::role::confirm_address(request.ctx(), request.actor()?, organization, member).await }.await;
    let notice = "The address is confirmed.".to_owned();
    reply::land(answer, |()| crate::path::organization(consortium, organization), Some(notice))
}

/// Retires an organization from a consortium.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "retire-organization")]
pub async fn retire_organization(
    consortium: ConsortiumId,
    organization: OrganizationId,
    reason: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let reason = StatedReason { reason };
    let answer = async {
        service::retirement::retire_organization(request.ctx(), request.actor()?, consortium, organization, &reason)
            .await
    }
    .await;
    let notice = "The organization is retired from the consortium.".to_owned();
    reply::land(answer, |_| crate::path::organizations(consortium), Some(notice))
}

/// Restores an organization in a consortium.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "restore-organization")]
pub async fn restore_organization(
    consortium: ConsortiumId,
    organization: OrganizationId,
    reason: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let reason = StatedReason { reason };
    let answer = async {
        service::retirement::restore_organization(request.ctx(), request.actor()?, consortium, organization, &reason)
            .await
    }
    .await;
    let notice = "The organization is restored in the consortium.".to_owned();
    reply::land(answer, |_| crate::path::organizations(consortium), Some(notice))
}

/// Retires an account.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "retire-account")]
pub async fn retire_account(member: MemberId, reason: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let reason = StatedReason { reason };
    let answer =
        async { service::retirement::retire_account(request.ctx(), request.actor()?, member, &reason).await }.await;
    let notice = "The account is retired: it signs in nowhere.".to_owned();
    reply::land(answer, |_| crate::path::ACCOUNTS.to_owned(), Some(notice))
}

/// Restores an account.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "restore-account")]
pub async fn restore_account(member: MemberId, reason: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let reason = StatedReason { reason };
    let answer =
        async { service::retirement::restore_account(request.ctx(), request.actor()?, member, &reason).await }.await;
    let notice = "The account is restored with its roles. The member signs in again.".to_owned();
    reply::land(answer, |_| crate::path::ACCOUNTS.to_owned(), Some(notice))
}

/// Makes a link for another operator.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "invite-operator")]
pub async fn invite_operator(label: String) -> Result<(), Fault> {
    let purpose = undertone_api::organization::InvitationPurpose::Operator;
    let invitation = undertone_api::organization::NewInvitation { purpose, label };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::invitation::create(request.ctx(), request.actor()?, &invitation).await }.await;
    reply::land(answer.map(message::show_link), |()| crate::path::ACCOUNTS.to_owned(), None)
}

/// Withdraws a link for an operator.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "withdraw-operator")]
pub async fn withdraw_operator(invitation: InvitationId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer =
        async { service::invitation::withdraw(request.ctx(), request.actor()?, Place::Server, invitation).await }.await;
    let notice = "The link is withdrawn; it works no longer.".to_owned();
    reply::land(answer, |()| crate::path::ACCOUNTS.to_owned(), Some(notice))
}
