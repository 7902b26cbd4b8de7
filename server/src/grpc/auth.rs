//! Who calls: a worker proves its key once and gets a session, a document signed by the server. Nothing of a session is
//! stored, so it holds at every replica and through a restart. It names the key that it was given for, and ends with it: each call
//! looks whether the worker still has that key. What must be signed first is the business of `service::challenge`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use tonic::Request;
use undertone_api::id::WorkerId;
use undertone_api::problem::{Code, Problem};
use undertone_api::signed::{Document, KeyPurpose, Signed};

use crate::ctx::{Ctx, fingerprint};
use crate::error::Error;
use crate::fairness::{WorkOwner, recognize_caller};
use crate::service::presence;

/// How long a session holds.
pub(crate) const SESSION: Duration = Duration::hours(12);

/// What a session says.
#[derive(Serialize, Deserialize)]
struct Session {
    worker: WorkerId,
    /// SHA-256 of the public key that was proven, hex.
    key: String,
    expires_at_unix: i64,
}

impl Document for Session {
    const DOMAIN: &'static str = "undertone/worker-session/2";
    const PURPOSE: Option<KeyPurpose> = Some(KeyPurpose::Connection);

    fn signed_at(&self) -> Option<OffsetDateTime> {
        Some(OffsetDateTime::from_unix_timestamp(self.expires_at_unix).ok()? - SESSION)
    }
}

/// A session token and when it ends.
pub(super) struct Token {
    pub(super) text: String,
    pub(super) expires_at: OffsetDateTime,
}

/// Makes a session for a worker that has proved the key `public` (hex).
pub(super) async fn session(ctx: &Ctx, worker: WorkerId, public: &str) -> Result<Token, Error> {
    let expires_at = ctx.now() + SESSION;
    let document = Session { worker, key: fingerprint(public), expires_at_unix: expires_at.unix_timestamp() };
    let signed = ctx.signer.sign(&document).await.map_err(|error| Error::internal("signing a session", error))?;
    let json = serde_json::to_vec(&signed).map_err(|error| Error::internal("writing a session", error))?;
    Ok(Token { text: URL_SAFE_NO_PAD.encode(json), expires_at })
}

/// A session that was looked at on the way in: whose it is, and of which key.
#[derive(Debug, Clone)]
pub(super) struct Recognized {
    pub(super) worker: WorkerId,
    key: String,
}

/// The session that stands in `authorization: Bearer <session>`, if it is ours and not over.
pub(super) fn presented<T>(ctx: &Ctx, request: &Request<T>) -> Result<Recognized, Problem> {
    if let Some(recognized) = request.extensions().get::<Recognized>() {
        return Ok(recognized.clone());
    }
    let text = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
    text.and_then(|text| recognize(ctx, text)).ok_or_else(refused)
}

/// The worker of a session, when its key is still the one that the session was given for. Whoever stole the key before has no session
/// any more; the site signs in again with the key that it has now.
pub(super) async fn worker(ctx: &Ctx, presented: Recognized) -> Result<WorkerId, Error> {
    let Recognized { worker, key } = presented;
    let site = presence::key(ctx, worker).await?.filter(|site| fingerprint(&site.public_key) == key);
    let site = site.ok_or_else(refused)?;
    recognize_caller(WorkOwner::Organization(site.organization));
    Ok(worker)
}

/// The session that this value of `authorization` is, if it holds.
pub(super) fn recognize(ctx: &Ctx, authorization: &str) -> Option<Recognized> {
    let json = URL_SAFE_NO_PAD.decode(authorization.strip_prefix("Bearer ")?).ok()?;
    let signed: Signed = serde_json::from_slice(&json).ok()?;
    let Session { worker, key, expires_at_unix } = signed.open(&ctx.signer).ok()?;
    (expires_at_unix > ctx.now().unix_timestamp()).then_some(Recognized { worker, key })
}

/// Returns what a caller without a session is answered.
pub(super) fn refused() -> Problem {
    Problem::new(Code::Unauthenticated, "sign in first: the session is missing, over, of a key before or not ours")
}
