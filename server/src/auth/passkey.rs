//! Challenges of passkeys, and the place where passkeys are used.
//!
//! A challenge is a ticket that the server signs (HMAC-SHA-256) and does not store: asking for one takes no room. The passkey signs
//! the ticket's digest, so an answer holds for its use, its member and its session, within [`LIFETIME`]. That each is used once is
//! the service's part.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::{Duration, OffsetDateTime};
use undertone_api::id::{MemberId, SessionId};

use super::token::{decode, encode};
use crate::error::Error;
use crate::keys::TokenKeys;

/// How long a challenge waits for its answer.
pub const LIFETIME: Duration = Duration::minutes(5);
/// Distinguishes the ticket from other documents that the same key signs.
const ISSUER: &str = "undertone-passkey";

/// For which use a challenge holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PasskeyPurpose {
    /// Signing in by a passkey alone.
    SignIn,
    /// Finishing a sign-in whose password was right.
    SecondStep,
    /// Registering a new passkey.
    Register,
    /// Proving one's identity once more.
    Prove,
}

/// The content of a challenge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PasskeyTicket {
    iss: String,
    exp: i64,
    /// 128 random bits, hex: the name under which its use is noted.
    pub nonce: String,
    /// The use.
    pub purpose: PasskeyPurpose,
    /// The member; none at a sign-in by a passkey alone.
    pub member: Option<MemberId>,
    /// The session of a signed-in member.
    pub session: Option<SessionId>,
}

impl PasskeyTicket {
    /// Makes a ticket that is over [`LIFETIME`] after `now`.
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

    /// Returns when it is over.
    pub fn expires_at(&self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(self.exp).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    /// Signs the ticket.
    ///
    /// # Errors
    /// [`Error::Internal`] when it cannot be signed.
    pub fn sign(&self, keys: &TokenKeys, now: OffsetDateTime) -> Result<String, Error> {
        encode(self, keys, now).map_err(|error| Error::internal("signing a passkey's challenge", error))
    }

    /// Opens a ticket; `None` when it is not ours or is over.
    pub fn open(text: &str, keys: &TokenKeys, now: OffsetDateTime) -> Option<Self> {
        decode::<Self>(text, ISSUER, keys, now, LIFETIME).filter(|ticket| ticket.exp > now.unix_timestamp())
    }
}

/// Returns the challenge that a passkey signs for a ticket.
pub fn challenge_of(ticket: &str) -> [u8; 32] {
    Sha256::digest([b"undertone/passkey-challenge/1\0", ticket.as_bytes()].concat()).into()
}

/// Returns the handle by which authenticators know a member's account: nothing else can be derived from it. It differs from the
/// handle of approval keys, so that an authenticator does not replace one by the other.
pub fn user_handle(member: MemberId) -> String {
    hex::encode(Sha256::digest([b"undertone/passkey-user/1\0", &member.0.as_bytes()[..]].concat()))
}

/// Where passkeys are used: WebAuthn's relying party and origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasskeyPlace {
    /// The host.
    pub relying_party: String,
    /// Scheme, host and port.
    pub origin: String,
}

impl PasskeyPlace {
    /// Returns the place of a server with this public address; `None` where browsers have no passkeys: without TLS, except on the
    /// browser's own machine, where they take the name `localhost`.
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
    use crate::auth::{open_device, sign_device};
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
            let found = PasskeyPlace::of_address(address);
            let found = found.as_ref().map(|place| (place.relying_party.as_str(), place.origin.as_str()));
            assert_eq!(found, place, "{address}");
        }
    }
}
