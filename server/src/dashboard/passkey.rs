//! The backend of pages about passkeys.

use async_trait::async_trait;
use undertone_api::account::SecondFactors;
use undertone_api::id::PasskeyId;
use undertone_api::passkey::{NewPasskey, Passkey, PasskeyAssertion, PasskeyChallenge, PasskeySignIn, PasskeyUse};
use undertone_app::{Answer, Cookies, PasskeyCeremony, Passkeys};

use super::desk::Desk;
use crate::rest::cookie;
use undertone_server_core::error::Error;
use undertone_server_core::service::{passkey, session};

#[async_trait]
impl Passkeys for Desk {
    async fn passkey_challenge(&self, ceremony: PasskeyCeremony) -> Answer<PasskeyChallenge> {
        let ctx = self.ctx();
        let challenge = match ceremony {
            PasskeyCeremony::SignIn => session::sign_in_challenge(ctx, "").await,
            PasskeyCeremony::SecondStep => session::sign_in_challenge(ctx, self.half_token()?).await,
            PasskeyCeremony::Register => passkey::challenge(ctx, self.actor()?, PasskeyUse::Register).await,
            PasskeyCeremony::Prove => passkey::challenge(ctx, self.actor()?, PasskeyUse::Prove).await,
        };
        challenge.map_err(Error::into_problem)
    }

    async fn sign_in_by_passkey(&self, ceremony: PasskeyCeremony, passkey: PasskeyAssertion) -> Answer<Cookies> {
        let half_token = match ceremony {
            PasskeyCeremony::SecondStep => self.half_token()?.to_owned(),
            _ => String::new(),
        };
        let sign_in = PasskeySignIn { half_token, passkey };
        let session =
            session::passkey_sign_in(self.ctx(), self.origin(), &sign_in).await.map_err(Error::into_problem)?;
        let mut cookies = cookie::set(self.ctx(), &session.tokens);
        cookies.push(cookie::clear_half(self.ctx()));
        Ok(cookies)
    }

    async fn second_factors(&self) -> Answer<SecondFactors> {
        session::second_factors(self.ctx(), self.half_token()?).await.map_err(Error::into_problem)
    }

    async fn passkeys(&self) -> Answer<Vec<Passkey>> {
        passkey::list(self.ctx(), self.actor()?).await.map_err(Error::into_problem)
    }

    async fn add_passkey(&self, new: NewPasskey) -> Answer<Passkey> {
        passkey::create(self.ctx(), self.actor()?, &new).await.map_err(Error::into_problem)
    }

    async fn remove_passkey(&self, id: PasskeyId) -> Answer<()> {
        passkey::remove(self.ctx(), self.actor()?, id).await.map_err(Error::into_problem)
    }
}
