//! A passkey in software, for tests: produces the data of browsers and authenticators, with Ed25519.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signer as _, SigningKey};
use sha2::{Digest as _, Sha256};
use undertone_api::id::MemberId;
use undertone_api::passkey::{
    NewPasskey, Passkey, PasskeyAssertion, PasskeyChallenge, PasskeyRegistration, PasskeyUse,
};

use super::{Person, TestApp};
use crate::auth::Actor;
use crate::auth::passkey::user_handle;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::passkey::{challenge, create};

/// A COSE key of EdDSA up to its 32 bytes.
const COSE: &str = "a4010103272006215820";

/// A passkey of one account.
pub struct SoftwarePasskey {
    key: SigningKey,
    handle: String,
    /// The signature counter of the next use.
    pub counter: u32,
    /// The origin that the browser reports.
    pub origin: String,
    /// The flags of the authenticator's data: user present and verified.
    pub flags: u8,
}

impl SoftwarePasskey {
    /// Makes a passkey for a person; it is not registered yet.
    pub fn new(app: &TestApp, person: &Person, seed: u8) -> Self {
        Self::of_member(&app.ctx, person.session.member.id, seed)
    }

    /// Makes a passkey for a member; the same seed makes the same passkey.
    pub fn of_member(ctx: &Ctx, member: MemberId, seed: u8) -> Self {
        let port = ctx.addresses.http.rsplit(':').next().unwrap_or_default();
        Self {
            key: SigningKey::from_bytes(&[seed; 32]),
            handle: user_handle(member),
            counter: 0,
            origin: format!("http://localhost:{port}"),
            flags: 0x05,
        }
    }

    /// Makes a passkey and registers it.
    pub async fn registered(app: &TestApp, person: &Person, seed: u8) -> (Self, Passkey) {
        let passkey = Self::new(app, person, seed);
        let listed = passkey.register(app, person, "the laptop").await.expect("registered");
        (passkey, listed)
    }

    /// Registers the passkey.
    ///
    /// # Errors
    /// As the operation.
    pub async fn register(&self, app: &TestApp, person: &Person, label: &str) -> Result<Passkey, Error> {
        self.register_for(&app.ctx, &person.actor(app).await, label).await
    }

    /// Registers the passkey for a signed-in member.
    ///
    /// # Errors
    /// As the operation.
    pub async fn register_for(&self, ctx: &Ctx, actor: &Actor, label: &str) -> Result<Passkey, Error> {
        let challenge = challenge(ctx, actor, PasskeyUse::Register).await?;
        let new = NewPasskey { label: label.to_owned(), registration: self.registration(&challenge) };
        create(ctx, actor, &new).await
    }

    /// Returns a browser's registration of the new passkey.
    pub fn registration(&self, asked: &PasskeyChallenge) -> PasskeyRegistration {
        let head = self.head(&asked.relying_party, self.flags | 0x40);
        let cose = hex::decode(COSE).expect("hex");
        let id = self.credential();
        let length = u16::try_from(id.len()).expect("short").to_be_bytes();
        let data = [&head[..], &[0; 16], &length, &id, &cose, self.key.verifying_key().as_bytes()].concat();
        PasskeyRegistration {
            ticket: asked.ticket.clone(),
            client_data: self.client_data("webauthn.create", &asked.challenge),
            authenticator_data: hex::encode(data),
        }
    }

    /// Signs a challenge.
    pub fn sign(&mut self, asked: &PasskeyChallenge) -> PasskeyAssertion {
        let data = self.head(&asked.relying_party, self.flags);
        let client_data = self.client_data("webauthn.get", &asked.challenge);
        let signed = [&data[..], &Sha256::digest(client_data.as_bytes())].concat();
        if self.counter > 0 {
            self.counter += 1;
        }
        PasskeyAssertion {
            ticket: asked.ticket.clone(),
            credential: hex::encode(self.credential()),
            client_data,
            authenticator_data: hex::encode(data),
            signature: hex::encode(self.key.sign(&signed).to_bytes()),
            user_handle: self.handle.clone(),
        }
    }

    fn credential(&self) -> Vec<u8> {
        Sha256::digest(self.key.verifying_key().as_bytes()).to_vec()
    }

    fn head(&self, relying_party: &str, flags: u8) -> Vec<u8> {
        [&Sha256::digest(relying_party.as_bytes())[..], &[flags], &self.counter.to_be_bytes()].concat()
    }

    fn client_data(&self, ceremony: &str, challenge: &str) -> String {
        let challenge = URL_SAFE_NO_PAD.encode(hex::decode(challenge).expect("hex"));
        serde_json::json!({ "type": ceremony, "challenge": challenge, "origin": self.origin }).to_string()
    }
}
