//! A passkey in software, for tests: produces the data of browsers and authenticators, with Ed25519.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signer as _, SigningKey};
use sha2::{Digest as _, Sha256};
use undertone_api::passkey::{
    NewPasskey, Passkey, PasskeyAssertion, PasskeyChallenge, PasskeyRegistration, PasskeyUse,
};

use super::{challenge, create};
use crate::auth::passkey::user_handle;
use crate::error::Error;
use crate::testing::{Person, TestApp};

/// A COSE key of EdDSA up to its 32 bytes.
const COSE: &str = "a4010103272006215820";

/// A passkey of one account.
pub(crate) struct SoftwarePasskey {
    key: SigningKey,
    handle: String,
    /// The signature counter of the next use.
    pub(crate) counter: u32,
    /// The origin that the browser reports.
    pub origin: String,
    /// The flags of the authenticator's data: user present and verified.
    pub flags: u8,
}

impl SoftwarePasskey {
    /// Makes a passkey for a person; it is not registered yet.
    pub(crate) fn new(app: &TestApp, person: &Person, seed: u8) -> Self {
        let port = app.ctx.addresses.http.rsplit(':').next().unwrap_or_default();
        Self {
            key: SigningKey::from_bytes(&[seed; 32]),
            handle: user_handle(person.session.member.id),
            counter: 0,
            origin: format!("http://localhost:{port}"),
            flags: 0x05,
        }
    }

    /// Makes a passkey and registers it.
    pub(crate) async fn registered(app: &TestApp, person: &Person, seed: u8) -> (Self, Passkey) {
        let passkey = Self::new(app, person, seed);
        let listed = passkey.register(app, person, "the laptop").await.expect("registered");
        (passkey, listed)
    }

    /// Registers the passkey.
    pub(crate) async fn register(&self, app: &TestApp, person: &Person, label: &str) -> Result<Passkey, Error> {
        let actor = person.actor(app).await;
        let challenge = challenge(&app.ctx, &actor, PasskeyUse::Register).await?;
        let new = NewPasskey { label: label.to_owned(), registration: self.registration(&challenge) };
        create(&app.ctx, &actor, &new).await
    }

    /// Returns a browser's registration of the new passkey.
    pub(crate) fn registration(&self, asked: &PasskeyChallenge) -> PasskeyRegistration {
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
    pub(crate) fn sign(&mut self, asked: &PasskeyChallenge) -> PasskeyAssertion {
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
