//! The backend of pages about accounts.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use undertone_api::account::{
    ChangePassword, FactorCode, FactorOffer, FactorProof, FactorStatus, NewPassword, NewReset, OpenSession,
    PasswordReset, RecoveryCodes, ResetPreview, SecondStep,
};
use undertone_api::approval_key::{NewApprovalKey, OwnApprovalKey};
use undertone_api::id::{ApprovalKeyId, ConsortiumId, InvitationId, MemberId, OrganizationId, SessionId};
use undertone_api::member::{JoinRequest, Member, NewConsortiumMember, RoleAssignment, RoleScope};
use undertone_api::organization::{Invitation, InvitationPurpose};
use undertone_app::{Accounts, Answer, Cookies, Entered};

use super::Desk;
use crate::rest::cookie;
use undertone_server_core::auth::{Actor, Place, page_seal};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::error::Error;
use undertone_server_core::service::session::{self, SignInResult as Proven};
use undertone_server_core::service::{approval_key, factor, invitation, password, reset, role, sessions};

/// Returns the cookies of a complete or half sign-in.
pub(super) fn entered(ctx: &Ctx, proven: &Proven) -> Entered {
    match proven {
        Proven::Whole(session) => Entered { cookies: cookie::set(ctx, &session.tokens), second_factor: false },
        Proven::Half(half) => Entered { cookies: vec![cookie::set_half(ctx, half)], second_factor: true },
    }
}

#[async_trait]
impl Accounts for Desk {
    fn seal_page_text(&self, text: &str, is_secret: bool) -> Option<String> {
        let session = self.actor.as_ref().and_then(Actor::session).filter(|_| is_secret);
        let nonce = self.ctx.random.bytes();
        let sealed = page_seal::seal_page_text(&self.ctx.keys.token(), session, text, self.ctx.now(), nonce)?;
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    fn open_page_text(&self, sealed: &str) -> Option<String> {
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let own = self.actor.as_ref().and_then(Actor::session);
        let open = |session| page_seal::open_page_text(&self.ctx.keys.token(), session, &sealed, self.ctx.now());
        open(None).or_else(|| open(Some(own?)))
    }

    async fn finish_sign_in(&self, code: String) -> Answer<Cookies> {
        let half_token = self.half_token()?.to_owned();
        let step = SecondStep { half_token, code };
        let session = session::finish(&self.ctx, self.from, &step).await.map_err(Error::into_problem)?;
        let mut cookies = cookie::set(&self.ctx, &session.tokens);
        cookies.push(cookie::clear_half(&self.ctx));
        Ok(cookies)
    }

    async fn factor(&self) -> Answer<FactorStatus> {
        factor::state(&self.ctx, self.actor()?).await.map_err(Error::into_problem)
    }

    async fn offer_factor(&self) -> Answer<FactorOffer> {
        factor::offer(&self.ctx, self.actor()?).await.map_err(Error::into_problem)
    }

    async fn confirm_factor(&self, code: String) -> Answer<RecoveryCodes> {
        factor::confirm(&self.ctx, self.actor()?, &FactorCode { code }).await.map_err(Error::into_problem)
    }

    async fn renew_codes(&self, code: String) -> Answer<RecoveryCodes> {
        factor::renew_codes(&self.ctx, self.actor()?, &FactorCode { code }).await.map_err(Error::into_problem)
    }

    async fn approval_keys(&self) -> Answer<Vec<OwnApprovalKey>> {
        approval_key::list(&self.ctx, self.actor()?).await.map_err(Error::into_problem)
    }

    async fn add_approval_key(&self, key: NewApprovalKey) -> Answer<OwnApprovalKey> {
        approval_key::create(&self.ctx, self.actor()?, &key).await.map_err(Error::into_problem)
    }

    async fn remove_approval_key(&self, key: ApprovalKeyId) -> Answer<()> {
        approval_key::remove(&self.ctx, self.actor()?, key).await.map_err(Error::into_problem)
    }

    async fn drop_factor(&self, proof: FactorProof) -> Answer<()> {
        factor::drop(&self.ctx, self.actor()?, &proof).await.map_err(Error::into_problem)
    }

    async fn sessions(&self) -> Answer<Vec<OpenSession>> {
        sessions::list(&self.ctx, self.actor()?).await.map_err(Error::into_problem)
    }

    async fn end_session(&self, id: SessionId) -> Answer<()> {
        sessions::end(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn end_other_sessions(&self) -> Answer<u64> {
        sessions::end_others(&self.ctx, self.actor()?).await.map_err(Error::into_problem)
    }

    async fn change_password(&self, change: ChangePassword) -> Answer<()> {
        password::change(&self.ctx, self.actor()?, &change).await.map_err(Error::into_problem)
    }

    async fn make_reset(&self, new: NewReset) -> Answer<PasswordReset> {
        reset::create(&self.ctx, self.actor()?, &new).await.map_err(Error::into_problem)
    }

    async fn reset(&self, secret: &str) -> Answer<ResetPreview> {
        reset::preview(&self.ctx, self.from.address, secret).await.map_err(Error::into_problem)
    }

    async fn redeem_reset(&self, secret: &str, password: String) -> Answer<()> {
        let new = NewPassword { password };
        reset::redeem(&self.ctx, self.from.address, secret, &new).await.map_err(Error::into_problem)
    }

    async fn join(&self, secret: &str, join: JoinRequest) -> Answer<Member> {
        invitation::join(&self.ctx, self.actor()?, secret, &join).await.map_err(Error::into_problem)
    }

    async fn invitations(&self, purpose: InvitationPurpose) -> Answer<Vec<Invitation>> {
        invitation::list(&self.ctx, self.actor()?, &purpose).await.map_err(Error::into_problem)
    }

    async fn withdraw(&self, place: RoleScope, id: InvitationId) -> Answer<()> {
        let place = match place {
            RoleScope::Consortium(id) => Place::Consortium(id),
            RoleScope::Organization(id) => Place::Organization(id),
        };
        invitation::withdraw(&self.ctx, self.actor()?, place, id).await.map_err(Error::into_problem)
    }

    async fn assign_roles(&self, id: OrganizationId, member: MemberId, roles: RoleAssignment) -> Answer<Member> {
        role::assign(&self.ctx, self.actor()?, id, member, &roles).await.map_err(Error::into_problem)
    }

    async fn remove_member(&self, id: OrganizationId, member: MemberId) -> Answer<()> {
        role::remove(&self.ctx, self.actor()?, id, member).await.map_err(Error::into_problem)
    }

    async fn consortium_members(&self, id: ConsortiumId) -> Answer<Vec<Member>> {
        role::list_consortium_members(&self.ctx, self.actor()?, id).await.map_err(Error::into_problem)
    }

    async fn add_consortium_member(&self, id: ConsortiumId, new: NewConsortiumMember) -> Answer<Member> {
        role::add_consortium_member(&self.ctx, self.actor()?, id, &new).await.map_err(Error::into_problem)
    }

    async fn assign_consortium_roles(
        &self,
        id: ConsortiumId,
        member: MemberId,
        roles: RoleAssignment,
    ) -> Answer<Member> {
        role::assign_consortium_roles(&self.ctx, self.actor()?, id, member, &roles).await.map_err(Error::into_problem)
    }
}
