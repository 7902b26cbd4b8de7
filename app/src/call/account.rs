//! The forms of accounts: second factor, sessions, passwords, roles and links. See the parent module for their
//! responses.

use leptos::prelude::*;
use undertone_api::id::{ApprovalKeyId, ConsortiumId, InvitationId, MemberId, OrganizationId, SessionId};
use undertone_api::member::Role;

use super::Fault;
#[cfg(feature = "ssr")]
use super::native;

/// Finishes sign-in by a code and redirects to `to`.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "second-factor")]
pub async fn second_factor(code: String, #[server(default)] to: String) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.finish_sign_in(code).await;
    native::land(answer.map(native::keep), |()| native::own_address(&to), None)
}

/// Offers a secret for an authenticator.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "offer-factor")]
pub async fn offer_factor() -> Result<(), Fault> {
    let answer = crate::backend::backend()?.offer_factor().await;
    let answer = answer.map(|offer| native::leave(&native::Word::Factor { secret: offer.secret, uri: offer.uri }));
    native::land(answer, |()| crate::path::SECURITY.to_owned(), None)
}

/// Switches two-factor on.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "confirm-factor")]
pub async fn confirm_factor(code: String) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.confirm_factor(code).await;
    let answer = answer.map(|made| native::leave(&native::Word::Codes { codes: made.codes }));
    native::land(answer, |()| crate::path::SECURITY.to_owned(), None)
}

/// Makes new recovery codes.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "renew-codes")]
pub async fn renew_codes(code: String) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.renew_codes(code).await;
    let answer = answer.map(|made| native::leave(&native::Word::Codes { codes: made.codes }));
    native::land(answer, |()| crate::path::SECURITY.to_owned(), None)
}

/// Switches two-factor off.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "drop-factor")]
pub async fn drop_factor(#[server(default)] password: String, code: String) -> Result<(), Fault> {
    let proof = undertone_api::account::FactorProof { password, code };
    let answer = crate::backend::backend()?.drop_factor(proof).await;
    native::land(answer, |()| crate::path::SECURITY.to_owned(), Some("Two-factor is off.".to_owned()))
}

/// Ends one of the caller's sessions.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "end-session")]
pub async fn end_session(session: SessionId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.end_session(session).await;
    native::land(answer, |()| crate::path::SECURITY.to_owned(), Some("That session is over.".to_owned()))
}

/// Ends all of the caller's sessions except this one.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "end-other-sessions")]
pub async fn end_other_sessions() -> Result<(), Fault> {
    let answer = crate::backend::backend()?.end_other_sessions().await;
    let notice = answer.as_ref().ok().map(|ended| match ended {
        0 => "You were signed in nowhere else.".to_owned(),
        ended => format!("You are signed out everywhere else: {}.", crate::words::plural(*ended, "session")),
    });
    native::land(answer, |_| crate::path::SECURITY.to_owned(), notice)
}

/// Changes the caller's password.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "change-password")]
pub async fn change_password(old: String, new: String, #[server(default)] keep_keys: bool) -> Result<(), Fault> {
    let change = undertone_api::account::ChangePassword { old, new, keep_keys };
    let answer = crate::backend::backend()?.change_password(change).await;
    let keys = if keep_keys { "Your API keys go on." } else { "Your API keys are revoked." };
    let notice = format!("Your password is changed. You are signed out everywhere else. {keys}");
    native::land(answer, |()| crate::path::SECURITY.to_owned(), Some(notice))
}

/// Makes, as an operator, a link for a member to set a new password.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "make-reset")]
pub async fn make_reset(email: String, #[server(default)] clear_second_factor: bool) -> Result<(), Fault> {
    let new = undertone_api::account::NewReset { email, clear_second_factor };
    let answer = crate::backend::backend()?.make_reset(new).await;
    let answer = answer.map(|made| {
        let label = "a new password".to_owned();
        native::leave(&native::Word::Link { label, link: made.link, expires_at: made.expires_at });
    });
    native::land(answer, |()| crate::path::SETTINGS.to_owned(), None)
}

/// Sets a new password by a link.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "redeem-reset")]
pub async fn redeem_reset(secret: String, password: String) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.redeem_reset(&secret, password).await;
    let notice = "Your new password is set, and you are signed out everywhere. Sign in with it.".to_owned();
    native::land(answer, |()| crate::path::SIGN_IN.to_owned(), Some(notice))
}

/// Accepts a one-time link with the caller's existing account.
///
/// # Errors
/// The backend's problem.
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
    let answer = crate::backend::backend()?.join(&secret, join).await;
    native::land(answer, |_| "/".to_owned(), Some("You joined with the account you have.".to_owned()))
}

/// Withdraws a link into an organization.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "withdraw-member")]
pub async fn withdraw_member(
    consortium: ConsortiumId,
    organization: OrganizationId,
    invitation: InvitationId,
) -> Result<(), Fault> {
    let place = undertone_api::member::RoleScope::Organization(organization);
    let answer = crate::backend::backend()?.withdraw(place, invitation).await;
    let notice = "The link is withdrawn; it works no longer.".to_owned();
    native::land(answer, |()| crate::path::organization(consortium, organization), Some(notice))
}

/// Withdraws a link into a consortium.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "withdraw-organization")]
pub async fn withdraw_organization(consortium: ConsortiumId, invitation: InvitationId) -> Result<(), Fault> {
    let place = undertone_api::member::RoleScope::Consortium(consortium);
    let answer = crate::backend::backend()?.withdraw(place, invitation).await;
    let notice = "The link is withdrawn; it works no longer.".to_owned();
    native::land(answer, |()| crate::path::organizations(consortium), Some(notice))
}

/// Replaces the roles of a member in an organization.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "assign-roles")]
pub async fn assign_roles(
    consortium: ConsortiumId,
    organization: OrganizationId,
    member: MemberId,
    #[server(default)] roles: Vec<Role>,
) -> Result<(), Fault> {
    let roles = undertone_api::member::RoleAssignment { roles };
    let answer = crate::backend::backend()?.assign_roles(organization, member, roles).await;
    let notice = answer.as_ref().ok().map(|member| format!("{} now has these roles.", member.name));
    native::land(answer, |_| crate::path::organization(consortium, organization), notice)
}

/// Removes a member from an organization.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "remove-member")]
pub async fn remove_member(
    consortium: ConsortiumId,
    organization: OrganizationId,
    member: MemberId,
) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.remove_member(organization, member).await;
    let notice = "They are no longer a member of the organization.".to_owned();
    native::land(answer, |()| crate::path::organization(consortium, organization), Some(notice))
}

/// Gives a member within a consortium a role over it.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "add-consortium-member")]
pub async fn add_consortium_member(
    consortium: ConsortiumId,
    email: String,
    #[server(default)] roles: Vec<Role>,
) -> Result<(), Fault> {
    let new = undertone_api::member::NewConsortiumMember { email, roles };
    let answer = crate::backend::backend()?.add_consortium_member(consortium, new).await;
    let notice = answer.as_ref().ok().map(|member| format!("{} now has a role over the consortium.", member.name));
    native::land(answer, |_| crate::path::organizations(consortium), notice)
}

/// Replaces or removes the roles of a member over a consortium.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "assign-consortium-roles")]
pub async fn assign_consortium_roles(
    consortium: ConsortiumId,
    member: MemberId,
    #[server(default)] roles: Vec<Role>,
) -> Result<(), Fault> {
    let roles = undertone_api::member::RoleAssignment { roles };
    let answer = crate::backend::backend()?.assign_consortium_roles(consortium, member, roles).await;
    let notice = "The roles over the consortium are changed.".to_owned();
    native::land(answer, |_| crate::path::organizations(consortium), Some(notice))
}

/// Lists a key with which the caller approves jobs: a new passkey from the browser, or the line of a key file.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "add-approval-key")]
pub async fn add_approval_key(
    label: String,
    #[server(default)] line: String,
    #[server(default)] credential: String,
    #[server(default)] algorithm: i64,
    #[server(default)] public_key: String,
    #[server(default)] origin: String,
) -> Result<(), Fault> {
    let answer = match native::approval_key(&line, (algorithm, &public_key), &credential, &origin) {
        Ok(key) => {
            let new = undertone_api::approval_key::NewApprovalKey { label, key };
            crate::backend::backend()?.add_approval_key(new).await
        }
        Err(problem) => Err(problem),
    };
    let notice = "The key is listed. It counts once your site's operator has pinned it.".to_owned();
    native::land(answer, |_| crate::path::SECURITY.to_owned(), Some(notice))
}

/// Takes an approval key off the list.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "remove-approval-key")]
pub async fn remove_approval_key(key: ApprovalKeyId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.remove_approval_key(key).await;
    let notice = "The key is off the list. Your site accepts it until its operator removes it there.".to_owned();
    native::land(answer, |()| crate::path::SECURITY.to_owned(), Some(notice))
}
