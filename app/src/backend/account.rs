//! The pages' requests about accounts: second factor, sessions, passwords, roles, and links. Part of
//! [`Backend`](super::Backend).

use async_trait::async_trait;
use undertone_api::account::{
    ChangePassword, FactorOffer, FactorProof, FactorStatus, NewReset, OpenSession, PasswordReset, RecoveryCodes,
    ResetPreview,
};
use undertone_api::approval_key::{NewApprovalKey, OwnApprovalKey};
use undertone_api::id::{ApprovalKeyId, ConsortiumId, InvitationId, MemberId, OrganizationId, SessionId};
use undertone_api::member::{JoinRequest, Member, NewConsortiumMember, RoleAssignment, RoleScope};
use undertone_api::organization::{Invitation, InvitationPurpose};

use super::{Answer, Cookies};

/// The result of the right password: cookies, and whether a second step is required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entered {
    /// Forwarded without reading.
    pub cookies: Cookies,
    /// Whether a code is required next.
    pub second_factor: bool,
}

/// The requests of one caller about their account, and as an admin about others'.
#[async_trait]
pub trait Accounts: Send + Sync + 'static {
    /// Seals a text that the caller's browser keeps for the next page, as a cookie's value. A secret is bound to the
    /// caller's session. `None` if it cannot be sealed.
    fn seal_page_text(&self, text: &str, is_secret: bool) -> Option<String>;

    /// Opens such a text; `None` if it was not sealed within the last minute, or is the secret of another session.
    fn open_page_text(&self, sealed: &str) -> Option<String>;

    /// Finishes a sign-in by a code. The returned cookies make the following requests this member's.
    async fn finish_sign_in(&self, code: String) -> Answer<Cookies>;

    /// Returns the state of the caller's second factor.
    async fn factor(&self) -> Answer<FactorStatus>;

    /// Offers a secret; only this answer contains it.
    async fn offer_factor(&self) -> Answer<FactorOffer>;

    /// Switches two-factor on, by a code; only this answer contains the recovery codes.
    async fn confirm_factor(&self, code: String) -> Answer<RecoveryCodes>;

    /// Makes new recovery codes.
    async fn renew_codes(&self, code: String) -> Answer<RecoveryCodes>;

    /// Switches two-factor off.
    async fn drop_factor(&self, proof: FactorProof) -> Answer<()>;

    /// Returns the keys with which the caller approves jobs, newest first.
    async fn approval_keys(&self) -> Answer<Vec<OwnApprovalKey>>;

    /// Lists such a key.
    async fn add_approval_key(&self, key: NewApprovalKey) -> Answer<OwnApprovalKey>;

    /// Takes such a key off the list.
    async fn remove_approval_key(&self, key: ApprovalKeyId) -> Answer<()>;

    /// Returns the caller's sessions, the last used first.
    async fn sessions(&self) -> Answer<Vec<OpenSession>>;

    /// Ends one of the caller's sessions.
    async fn end_session(&self, session: SessionId) -> Answer<()>;

    /// Ends all sessions except this one; returns their number.
    async fn end_other_sessions(&self) -> Answer<u64>;

    /// Changes the caller's password.
    async fn change_password(&self, change: ChangePassword) -> Answer<()>;

    /// Makes, as an operator, a link for a member to set a new password.
    async fn make_reset(&self, new: NewReset) -> Answer<PasswordReset>;

    /// Returns the effect of such a link. `secret` is the last part of `/reset/<secret>`; links must have that address.
    async fn reset(&self, secret: &str) -> Answer<ResetPreview>;

    /// Sets a new password by such a link.
    async fn redeem_reset(&self, secret: &str, password: String) -> Answer<()>;

    /// Accepts a one-time link with the caller's existing account.
    async fn join(&self, secret: &str, join: JoinRequest) -> Answer<Member>;

    /// Returns the links of this purpose, newest first.
    async fn invitations(&self, purpose: InvitationPurpose) -> Answer<Vec<Invitation>>;

    /// Withdraws an unused link.
    async fn withdraw(&self, place: RoleScope, invitation: InvitationId) -> Answer<()>;

    /// Replaces the roles of a member in an organization.
    async fn assign_roles(
        &self,
        organization: OrganizationId,
        member: MemberId,
        roles: RoleAssignment,
    ) -> Answer<Member>;

    /// Removes a member from an organization.
    async fn remove_member(&self, organization: OrganizationId, member: MemberId) -> Answer<()>;

    /// Returns the members with a role over the consortium itself.
    async fn consortium_members(&self, consortium: ConsortiumId) -> Answer<Vec<Member>>;

    /// Gives a member within a consortium a role over it.
    async fn add_consortium_member(&self, consortium: ConsortiumId, new: NewConsortiumMember) -> Answer<Member>;

    /// Replaces the roles of a member over a consortium; an empty list removes all.
    async fn assign_consortium_roles(
        &self,
        consortium: ConsortiumId,
        member: MemberId,
        roles: RoleAssignment,
    ) -> Answer<Member>;
}
