//! What pages may ask about accounts: second factor, sessions, passwords, roles, and links. Part of [`Backend`](super::Backend).

use async_trait::async_trait;
use undertone_api::account::{
    ChangePassword, Factor, FactorOffer, FactorProof, NewReset, OpenSession, RecoveryCodes, Reset, ResetPreview,
};
use undertone_api::approval_key::{NewApprovalKey, OwnApprovalKey};
use undertone_api::id::{ApprovalKeyId, ConsortiumId, InvitationId, MemberId, OrganizationId, SessionId};
use undertone_api::member::{Join, Member, NewConsortiumMember, Roles, Scope};
use undertone_api::organization::{Invitation, Purpose};

use super::{Answer, Cookies};

/// What the right password gives: cookies, and whether they are only half of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entered {
    /// Passed on unread.
    pub cookies: Cookies,
    /// Whether a code is asked for next.
    pub second_factor: bool,
}

/// What one caller may ask about their account, and as an admin about others'.
#[async_trait]
pub trait Accounts: Send + Sync + 'static {
    /// Seals a text that the caller's browser keeps for the next page, as a cookie's value. A secret is bound to the caller's
    /// session. `None` when it cannot be sealed.
    fn seal_page_text(&self, text: &str, is_secret: bool) -> Option<String>;

    /// Opens such a text; `None` when it was not sealed within the last minute, or is the secret of another session.
    fn open_page_text(&self, sealed: &str) -> Option<String>;

    /// Finishes a sign-in by a code. The answer's cookies make the following requests this member's.
    async fn finish_sign_in(&self, code: String) -> Answer<Cookies>;

    /// How the caller's second factor stands.
    async fn factor(&self) -> Answer<Factor>;

    /// Offers a secret; the answer holds it, nothing later does.
    async fn offer_factor(&self) -> Answer<FactorOffer>;

    /// Switches two-factor on, by a code; the answer holds the recovery codes, nothing later does.
    async fn confirm_factor(&self, code: String) -> Answer<RecoveryCodes>;

    /// Makes new recovery codes.
    async fn renew_codes(&self, code: String) -> Answer<RecoveryCodes>;

    /// Switches two-factor off.
    async fn drop_factor(&self, proof: FactorProof) -> Answer<()>;

    /// The keys with which the caller approves jobs, newest first.
    async fn approval_keys(&self) -> Answer<Vec<OwnApprovalKey>>;

    /// Lists such a key.
    async fn add_approval_key(&self, key: NewApprovalKey) -> Answer<OwnApprovalKey>;

    /// Takes such a key off the list.
    async fn remove_approval_key(&self, key: ApprovalKeyId) -> Answer<()>;

    /// Where the caller is signed in, the last used first.
    async fn sessions(&self) -> Answer<Vec<OpenSession>>;

    /// Ends one of the caller's sessions.
    async fn end_session(&self, session: SessionId) -> Answer<()>;

    /// Ends all of them but this one; gives how many.
    async fn end_other_sessions(&self) -> Answer<u64>;

    /// Changes the caller's password.
    async fn change_password(&self, change: ChangePassword) -> Answer<()>;

    /// Makes, as an operator, a link by which a member sets a new password.
    async fn make_reset(&self, new: NewReset) -> Answer<Reset>;

    /// What such a link does. `secret` is the last part of `/reset/<secret>`; links must have that address.
    async fn reset(&self, secret: &str) -> Answer<ResetPreview>;

    /// Sets a new password by such a link.
    async fn redeem_reset(&self, secret: &str, password: String) -> Answer<()>;

    /// Accepts a one-time link with the account the caller has.
    async fn join(&self, secret: &str, join: Join) -> Answer<Member>;

    /// The links of this purpose into a place, newest first.
    async fn invitations(&self, purpose: Purpose) -> Answer<Vec<Invitation>>;

    /// Withdraws a link that was not used.
    async fn withdraw(&self, place: Scope, invitation: InvitationId) -> Answer<()>;

    /// Gives a member of an organization these roles instead of those they have there.
    async fn assign_roles(&self, organization: OrganizationId, member: MemberId, roles: Roles) -> Answer<Member>;

    /// Removes a member from an organization.
    async fn remove_member(&self, organization: OrganizationId, member: MemberId) -> Answer<()>;

    /// Who has a role over a consortium itself.
    async fn consortium_members(&self, consortium: ConsortiumId) -> Answer<Vec<Member>>;

    /// Gives somebody who stands in a consortium a role over it.
    async fn add_consortium_member(&self, consortium: ConsortiumId, new: NewConsortiumMember) -> Answer<Member>;

    /// Gives a member these roles over a consortium instead of those they have; none takes all away.
    async fn assign_consortium_roles(&self, consortium: ConsortiumId, member: MemberId, roles: Roles)
    -> Answer<Member>;
}
