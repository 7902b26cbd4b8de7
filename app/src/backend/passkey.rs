//! The pages' requests about passkeys. Part of [`Backend`](super::Backend).

use async_trait::async_trait;
use undertone_api::account::SecondFactors;
use undertone_api::id::PasskeyId;
use undertone_api::passkey::{NewPasskey, Passkey, PasskeyAssertion, PasskeyChallenge};

use super::{Answer, Cookies};

/// A use of a passkey in the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasskeyCeremony {
    /// Sign-in by a passkey alone.
    SignIn,
    /// Second step of a sign-in after the right password.
    SecondStep,
    /// Registration of a new passkey.
    Register,
    /// Repeated proof of identity.
    Prove,
}

impl PasskeyCeremony {
    /// Every ceremony.
    const ALL: [Self; 4] = [Self::SignIn, Self::SecondStep, Self::Register, Self::Prove];

    /// Returns the word in forms.
    pub const fn word(self) -> &'static str {
        match self {
            Self::SignIn => "sign_in",
            Self::SecondStep => "second_step",
            Self::Register => "register",
            Self::Prove => "prove",
        }
    }

    /// Returns the ceremony of a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ceremony| ceremony.word() == word)
    }
}

/// The requests of one caller about passkeys.
#[async_trait]
pub trait Passkeys: Send + Sync + 'static {
    /// Returns a challenge for a ceremony.
    async fn passkey_challenge(&self, ceremony: PasskeyCeremony) -> Answer<PasskeyChallenge>;

    /// Signs in by a passkey: as the second step of the caller's half session, or alone. The returned cookies make the
    /// following requests the member's.
    async fn sign_in_by_passkey(&self, ceremony: PasskeyCeremony, passkey: PasskeyAssertion) -> Answer<Cookies>;

    /// Returns the ways to finish the caller's half session.
    async fn second_factors(&self) -> Answer<SecondFactors>;

    /// Returns the caller's passkeys, newest first.
    async fn passkeys(&self) -> Answer<Vec<Passkey>>;

    /// Registers a passkey.
    async fn add_passkey(&self, passkey: NewPasskey) -> Answer<Passkey>;

    /// Removes a passkey.
    async fn remove_passkey(&self, passkey: PasskeyId) -> Answer<()>;
}
