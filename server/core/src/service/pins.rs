//! The certificates by which the server is recognized, signed by the server for each challenge, for any caller.
//!
//! A site knows the signing key from its enrolment. So the response may use an unauthenticated connection: an attacker
//! in between has no server signature over a certificate of their own.

use undertone_api::problem::Violation;
use undertone_api::signed::{CertificatePins, PinnedCertificate, Signed};

use crate::ctx::Ctx;
use crate::error::Error;

/// The size of a challenge, bytes.
const CHALLENGE: usize = 32;

/// Returns the server's certificates, signed, as the answer to `challenge`.
///
/// # Errors
/// `validation_failed` when the challenge is not 32 bytes in hex.
pub async fn pins(ctx: &Ctx, challenge: &str) -> Result<Signed, Error> {
    if hex::decode(challenge).map_or(0, |bytes| bytes.len()) != CHALLENGE {
        return Err(Error::validation(vec![Violation::new("challenge", "ask with 32 random bytes, in hex")]));
    }
    let document = CertificatePins { challenge: challenge.to_owned(), certificates: certificates(ctx), at: ctx.now() };
    ctx.signer.sign(&document).await.map_err(|error| Error::internal("signing the certificates", error))
}

/// Returns the present certificate, then the next one.
fn certificates(ctx: &Ctx) -> Vec<PinnedCertificate> {
    let Some(shown) = &ctx.tls else { return Vec::new() };
    let mut certificates = vec![PinnedCertificate { sha256: shown.fingerprint(), until: shown.rotates_at() }];
    certificates.extend(shown.next().map(|next| PinnedCertificate { sha256: next.fingerprint, until: None }));
    certificates.dedup_by(|next, current| next.sha256 == current.sha256);
    certificates
}
