//! The forms of accounts: second factor, sessions, passwords, roles and links. See the parent module for their
//! responses.

use leptos::prelude::*;
use undertone_api::id::{ApprovalKeyId, ConsortiumId, InvitationId, MemberId, OrganizationId, SessionId};
use undertone_api::member::Role;

#[cfg(feature = "ssr")]
use super::form;
use crate::fault::Fault;
#[cfg(feature = "ssr")]
use crate::request::DashboardRequest;
#[cfg(feature = "ssr")]
use crate::{message, reply};
#[cfg(feature = "ssr")]
use undertone_api::account::FactorCode;
#[cfg(feature = "ssr")]
use undertone_server_core::auth::{Place, cookie};
#[cfg(feature = "ssr")]
use undertone_server_core::service;

/// Finishes sign-in by a code and redirects to `to`.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "second-factor")]
pub async fn second_factor(code: String, #[server(default)] to: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        let half_token = request.half_token()?.to_owned();
        let step = undertone_api::account::SecondStep { half_token, code };
        service::session::finish(request.ctx(), request.origin(), &step).await
    };
    let cookies = answer.await.map(|session| cookie::replace_half_session(request.ctx(), &session.tokens));
    reply::land(cookies.map(reply::keep), |()| reply::own_address(&to), None)
}

/// Offers a secret for an authenticator.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "offer-factor")]
pub async fn offer_factor() -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::factor::offer(request.ctx(), request.actor()?).await }.await;
    let answer =
        answer.map(|offer| message::leave(&message::PageMessage::Factor { secret: offer.secret, uri: offer.uri }));
    reply::land(answer, |()| crate::path::SECURITY.to_owned(), None)
}

/// Switches two-factor on.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "confirm-factor")]
pub async fn confirm_factor(code: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::factor::confirm(request.ctx(), request.actor()?, &FactorCode { code }).await }.await;
    let answer = answer.map(|made| message::leave(&message::PageMessage::Codes { codes: made.codes }));
    reply::land(answer, |()| crate::path::SECURITY.to_owned(), None)
}

/// Makes new recovery codes.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "renew-codes")]
pub async fn renew_codes(code: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer =
        async { service::factor::renew_codes(request.ctx(), request.actor()?, &FactorCode { code }).await }.await;
    let answer = answer.map(|made| message::leave(&message::PageMessage::Codes { codes: made.codes }));
    reply::land(answer, |()| crate::path::SECURITY.to_owned(), None)
}

/// Switches two-factor off.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "drop-factor")]
pub async fn drop_factor(#[server(default)] password: String, code: String) -> Result<(), Fault> {
    let proof = undertone_api::account::FactorProof { password, code };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::factor::drop(request.ctx(), request.actor()?, &proof).await }.await;
    reply::land(answer, |()| crate::path::SECURITY.to_owned(), Some("Two-factor is off.".to_owned()))
}

/// Ends one of the caller's sessions.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "end-session")]
pub async fn end_session(session: SessionId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::sessions::end(request.ctx(), request.actor()?, session).await }.await;
    reply::land(answer, |()| crate::path::SECURITY.to_owned(), Some("That session is over.".to_owned()))
}

/// Ends all of the caller's sessions except this one.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "end-other-sessions")]
pub async fn end_other_sessions() -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::sessions::end_others(request.ctx(), request.actor()?).await }.await;
    let notice = answer.as_ref().ok().map(|ended| match ended {
        0 => "You were signed in nowhere else.".to_owned(),
        ended => format!("You are signed out everywhere else: {}.", crate::words::plural(*ended, "session")),
    });
    reply::land(answer, |_| crate::path::SECURITY.to_owned(), notice)
}

/// Changes the caller's password.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "change-password")]
pub async fn change_password(old: String, new: String, #[server(default)] keep_keys: bool) -> Result<(), Fault> {
    let change = undertone_api::account::ChangePassword { old, new, keep_keys };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::password::change(request.ctx(), request.actor()?, &change).await }.await;
    let keys = if keep_keys { "Your API keys go on." } else { "Your API keys are revoked." };
    let notice = format!("Your password is changed. You are signed out everywhere else. {keys}");
    reply::land(answer, |()| crate::path::SECURITY.to_owned(), Some(notice))
}

/// Makes, as an operator, a link for a member to set a new password.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "make-reset")]
pub async fn make_reset(email: String, #[server(default)] clear_second_factor: bool) -> Result<(), Fault> {
    let new = undertone_api::account::NewReset { email, clear_second_factor };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::reset::create(request.ctx(), request.actor()?, &new).await }.await;
    let answer = answer.map(|made| {
        let label = "a new password".to_owned();
        message::leave(&message::PageMessage::Link { label, link: made.link, expires_at: made.expires_at });
    });
    reply::land(answer, |()| crate::path::SETTINGS.to_owned(), None)
}

/// Sets a new password by a link.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "redeem-reset")]
pub async fn redeem_reset(secret: String, password: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let new = undertone_api::account::NewPassword { password };
    let answer = service::reset::redeem(request.ctx(), request.origin().address, &secret, &new).await;
    let notice = "Your new password is set, and you are signed out everywhere. Sign in with it.".to_owned();
    reply::land(answer, |()| crate::path::SIGN_IN.to_owned(), Some(notice))
}

/// Accepts a one-time link with the caller's existing account.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "join")]
pub async fn join(
    secret: String,
    #[server(default)] organization: String,
    #[server(default)] organization_name: String,
) -> Result<(), Fault> {
    // The field holds the id of an organization; `new`, or an empty choice, selects the name field.
    let organization = organization.parse().ok();
    let organization_name = Some(organization_name).filter(|name| organization.is_none() && !name.trim().is_empty());
    let join = undertone_api::member::JoinRequest { organization, organization_name };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::invitation::join(request.ctx(), request.actor()?, &secret, &join).await }.await;
    reply::land(answer, |_| "/".to_owned(), Some("You joined with the account you have.".to_owned()))
}

/// Withdraws a link into an organization.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "withdraw-member")]
pub async fn withdraw_member(
    consortium: ConsortiumId,
    organization: OrganizationId,
    invitation: InvitationId,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let place = Place::Organization(organization);
    let answer =
        async { service::invitation::withdraw(request.ctx(), request.actor()?, place, invitation).await }.await;
    let notice = "The link is withdrawn; it works no longer.".to_owned();
    reply::land(answer, |()| crate::path::organization(consortium, organization), Some(notice))
}

/// Withdraws a link into a consortium.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "withdraw-organization")]
pub async fn withdraw_organization(consortium: ConsortiumId, invitation: InvitationId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let place = Place::Consortium(consortium);
    let answer =
        async { service::invitation::withdraw(request.ctx(), request.actor()?, place, invitation).await }.await;
    let notice = "The link is withdrawn; it works no longer.".to_owned();
    reply::land(answer, |()| crate::path::organizations(consortium), Some(notice))
}

/// Replaces the roles of a member in an organization.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "assign-roles")]
pub async fn assign_roles(
    consortium: ConsortiumId,
    organization: OrganizationId,
    member: MemberId,
    #[server(default)] roles: Vec<Role>,
) -> Result<(), Fault> {
    let roles = undertone_api::member::RoleAssignment { roles };
    let request = DashboardRequest::from_context()?;
    let answer =
        async { service::role::assign(request.ctx(), request.actor()?, organization, member, &roles).await }.await;
    let notice = answer.as_ref().ok().map(|member| format!("{} now has these roles.", member.name));
    reply::land(answer, |_| crate::path::organization(consortium, organization), notice)
}

/// Removes a member from an organization.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "remove-member")]
pub async fn remove_member(
    consortium: ConsortiumId,
    organization: OrganizationId,
    member: MemberId,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::role::remove(request.ctx(), request.actor()?, organization, member).await }.await;
    let notice = "They are no longer a member of the organization.".to_owned();
    reply::land(answer, |()| crate::path::organization(consortium, organization), Some(notice))
}

/// Gives a member within a consortium a role over it.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "add-consortium-member")]
pub async fn add_consortium_member(
    consortium: ConsortiumId,
    email: String,
    #[server(default)] roles: Vec<Role>,
) -> Result<(), Fault> {
    let new = undertone_api::member::NewConsortiumMember { email, roles };
    let request = DashboardRequest::from_context()?;
    let answer =
        async { service::role::add_consortium_member(request.ctx(), request.actor()?, consortium, &new).await }.await;
    let notice = answer.as_ref().ok().map(|member| format!("{} now has a role over the consortium.", member.name));
    reply::land(answer, |_| crate::path::organizations(consortium), notice)
}

/// Replaces or removes the roles of a member over a consortium.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "assign-consortium-roles")]
pub async fn assign_consortium_roles(
    consortium: ConsortiumId,
    member: MemberId,
    #[server(default)] roles: Vec<Role>,
) -> Result<(), Fault> {
    let roles = undertone_api::member::RoleAssignment { roles };
    let request = DashboardRequest::from_context()?;
    let answer = async {
        service::role::assign_consortium_roles(request.ctx(), request.actor()?, consortium, member, &roles).await
    }
    .await;
    let notice = "The roles over the consortium are changed.".to_owned();
    reply::land(answer, |_| crate::path::organizations(consortium), Some(notice))
}

/// Lists a key with which the caller approves jobs: a new passkey from the browser, or the line of a key file.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "add-approval-key")]
pub async fn add_approval_key(
    label: String,
    #[server(default)] line: String,
    #[server(default)] credential: String,
    #[server(default)] algorithm: i64,
    #[server(default)] public_key: String,
    #[server(default)] origin: String,
) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        let key = form::approval_key(&line, (algorithm, &public_key), &credential, &origin)?;
        let new = undertone_api::approval_key::NewApprovalKey { label, key };
        service::approval_key::create(request.ctx(), request.actor()?, &new).await
    };
    let answer = answer.await;
    let notice = "The key is listed. It counts once your site's operator has pinned it.".to_owned();
    reply::land(answer, |_| crate::path::SECURITY.to_owned(), Some(notice))
}

/// Takes an approval key off the list.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "remove-approval-key")]
pub async fn remove_approval_key(key: ApprovalKeyId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::approval_key::remove(request.ctx(), request.actor()?, key).await }.await;
    let notice = "The key is off the list. Your site accepts it until its operator removes it there.".to_owned();
    reply::land(answer, |()| crate::path::SECURITY.to_owned(), Some(notice))
}
