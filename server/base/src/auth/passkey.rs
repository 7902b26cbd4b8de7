//! Challenges for passkeys, and the WebAuthn relying party.
//!
//! A challenge is a ticket that the server signs (HMAC-SHA-256) and does not store, so requesting one uses no storage.
//! The passkey signs the ticket's digest, so a response is valid only for its purpose, member and session, within
//! [`LIFETIME`]. The service layer ensures that each ticket is used once.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::{Duration, OffsetDateTime};
use undertone_api::id::{MemberId, SessionId};

use super::token::{decode, encode};
use crate::error::Error;
use crate::keys::TokenKeys;

/// The time for which a challenge is valid.
pub const LIFETIME: Duration = Duration::minutes(5);
/// Distinguishes the ticket from other documents that the same key signs.
const ISSUER: &str = "undertone-passkey";

/// The purpose of a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PasskeyPurpose {
    /// Signing in with a passkey alone.
    SignIn,
    /// Finishing a sign-in after a correct password.
    SecondStep,
    /// Registering a new passkey.
    Register,
    /// Proving the member's identity again.
    Prove,
}

/// The content of a challenge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasskeyTicket {
    iss: String,
    exp: i64,
    /// 128 random bits, hex: the name under which the used ticket is recorded.
    pub nonce: String,
    /// The purpose.
    pub purpose: PasskeyPurpose,
    /// The member; `None` when signing in with a passkey alone.
    pub member: Option<MemberId>,
    /// The session of a signed-in member.
    pub session: Option<SessionId>,
}

impl PasskeyTicket {
    /// Makes a ticket that expires [`LIFETIME`] after `now`.
    pub fn new(
        purpose: PasskeyPurpose,
        member: Option<MemberId>,
        session: Option<SessionId>,
        nonce: [u8; 16],
        now: OffsetDateTime,
    ) -> Self {
        let exp = (now + LIFETIME).unix_timestamp();
        Self { iss: ISSUER.to_owned(), exp, nonce: hex::encode(nonce), purpose, member, session }
    }

    /// Returns the time at which the ticket expires.
    pub fn expires_at(&self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(self.exp).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// Signs the ticket.
    ///
    /// # Errors
    /// [`Error::Internal`] if it cannot be signed.
    pub fn sign(&self, keys: &TokenKeys, now: OffsetDateTime) -> Result<String, Error> {
        encode(self, keys, now).map_err(|error| Error::internal("signing a passkey's challenge", error))
    }

    /// Verifies a ticket; `None` if it is invalid or expired.
    pub fn open(text: &str, keys: &TokenKeys, now: OffsetDateTime) -> Option<Self> {
        decode::<Self>(text, ISSUER, keys, now, LIFETIME).filter(|ticket| ticket.exp > now.unix_timestamp())
    }
}

/// Returns the challenge that a passkey signs for a ticket.
pub fn challenge_of(ticket: &str) -> [u8; 32] {
    Sha256::digest([b"undertone/passkey-challenge/1\0", ticket.as_bytes()].concat()).into()
}

/// Returns the handle that identifies a member's account to authenticators and reveals nothing else. It differs from
/// the handle of approval keys, so that an authenticator does not replace one credential with the other.
pub fn user_handle(member: MemberId) -> String {
    hex::encode(Sha256::digest([b"undertone/passkey-user/1\0", &member.0.as_bytes()[..]].concat()))
}

/// WebAuthn's relying party and origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasskeyPlace {
    /// The host.
    pub relying_party: String,
    /// Scheme, host and port.
    pub origin: String,
}

impl PasskeyPlace {
    /// Returns the relying party of a server with this public address. `None` where browsers do not support passkeys:
    /// without TLS, except on the browser's own machine, where the host becomes `localhost`.
    pub fn of_address(address: &str) -> Option<Self> {
        let (scheme, rest) = address.split_once("://")?;
        let authority = rest.split('/').next()?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, Some(port)),
            _ => (authority, None),
        };
        let is_loopback = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        let host = if is_loopback { "localhost" } else { host };
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let is_safe = scheme == "https" || (scheme == "http" && is_loopback);
        let is_name = !host.is_empty() && host.parse::<std::net::Ipv4Addr>().is_err() && !host.starts_with('[');
        let origin = format!("{scheme}://{host}{port}");
        (is_safe && is_name).then(|| Self { relying_party: host.to_owned(), origin })
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};
    use undertone_api::id::MemberId;
    use uuid::Uuid;

    use super::{LIFETIME, PasskeyPlace, PasskeyPurpose, PasskeyTicket, challenge_of, user_handle};
    use crate::auth::device::{open_device, sign_device};
    use crate::keys::TokenKeys;
    use crate::keys::ring::KeyRing;

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
    const MEMBER: MemberId = MemberId(Uuid::from_u128(7));

    fn keys(seed: u8) -> TokenKeys {
        TokenKeys(KeyRing::from_secret([seed; 32]).into())
    }

    #[test]
    fn ticket_holds_for_five_minutes_under_its_key() {
        let own = keys(1);
        let ticket = PasskeyTicket::new(PasskeyPurpose::Prove, Some(MEMBER), None, [3; 16], NOW);
        let text = ticket.sign(&own, NOW).expect("signed");
        assert_eq!(PasskeyTicket::open(&text, &own, NOW + LIFETIME - Duration::SECOND), Some(ticket));
        assert_eq!(PasskeyTicket::open(&text, &own, NOW + LIFETIME), None);
        assert_eq!(PasskeyTicket::open(&text, &keys(2), NOW), None);
        assert_eq!(open_device(&text, &own, NOW), None, "it is no device's cookie");
        let device = sign_device(MEMBER, &own, NOW).expect("signed");
        assert_eq!(PasskeyTicket::open(&device, &own, NOW), None, "nor is that a ticket");
        assert_ne!(challenge_of(&text), challenge_of("another"));
    }

    #[test]
    fn user_handle_is_the_members_own_and_says_nothing() {
        let handle = user_handle(MEMBER);
        assert_eq!(handle.len(), 64);
        assert_ne!(handle, user_handle(MemberId(Uuid::from_u128(8))));
        assert!(!handle.contains(&hex::encode(MEMBER.0.as_bytes())));
    }

    #[test]
    fn passkeys_are_used_over_tls_or_on_this_machine() {
        for (address, place) in [
            ("https://undertone.example.org", Some(("undertone.example.org", "https://undertone.example.org"))),
            ("https://hub.example:8420", Some(("hub.example", "https://hub.example:8420"))),
            ("http://127.0.0.1:8420", Some(("localhost", "http://localhost:8420"))),
            ("http://[::1]:8420", Some(("localhost", "http://localhost:8420"))),
            ("http://undertone.example.org", None),
            ("https://192.0.2.7:8420", None),
            ("https://[2001:db8::1]", None),
            ("undertone.example.org", None),
        ] {
            let result = PasskeyPlace::of_address(address);
            let result = result.as_ref().map(|place| (place.relying_party.as_str(), place.origin.as_str()));
            assert_eq!(result, place, "{address}");
        }
    }
}
