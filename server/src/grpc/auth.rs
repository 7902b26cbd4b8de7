//! Who calls: a worker proves its key once and gets a session, a document signed by the server. Nothing of a session is
//! stored, so it holds at every replica and through a restart. What it must sign first is the business of `service::challenge`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use tonic::Request;
use undertone_api::id::WorkerId;
use undertone_api::problem::{Code, Problem};
use undertone_api::signed::{Document, Signed};

use crate::ctx::Ctx;
use crate::error::Error;

/// How long a session holds.
pub(crate) const SESSION: Duration = Duration::hours(12);

/// What a session says.
#[derive(Serialize, Deserialize)]
struct Session {
    worker: WorkerId,
    expires_at_unix: i64,
}

impl Document for Session {
    const DOMAIN: &'static str = "undertone/worker-session/1";
}

/// A session token and when it ends.
pub(super) struct Token {
    pub(super) text: String,
    pub(super) expires_at: OffsetDateTime,
}

/// Makes a session for a worker that has proved its key.
pub(super) fn session(ctx: &Ctx, worker: WorkerId) -> Result<Token, Error> {
    let expires_at = ctx.now() + SESSION;
    let document = Session { worker, expires_at_unix: expires_at.unix_timestamp() };
    let signed = Signed::new(&document, &ctx.signer).map_err(|error| Error::internal("signing a session", error))?;
    let json = serde_json::to_vec(&signed).map_err(|error| Error::internal("writing a session", error))?;
    Ok(Token { text: URL_SAFE_NO_PAD.encode(json), expires_at })
}

/// A worker whose session was looked at on the way in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recognized(pub(super) WorkerId);

/// The worker whose session stands in `authorization: Bearer <session>`.
pub(super) fn worker<T>(ctx: &Ctx, request: &Request<T>) -> Result<WorkerId, Problem> {
    if let Some(Recognized(worker)) = request.extensions().get() {
        return Ok(*worker);
    }
    let text = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
    let refused = || Problem::new(Code::Unauthenticated, "sign in first: the session is missing, over or not ours");
    text.and_then(|text| recognize(ctx, text)).ok_or_else(refused)
}

/// The worker whose session this value of `authorization` is, if it holds.
pub(super) fn recognize(ctx: &Ctx, authorization: &str) -> Option<WorkerId> {
    let json = URL_SAFE_NO_PAD.decode(authorization.strip_prefix("Bearer ")?).ok()?;
    let signed: Signed = serde_json::from_slice(&json).ok()?;
    let session: Session = signed.open(&ctx.signer.verifying_key()).ok()?;
    (session.expires_at_unix > ctx.now().unix_timestamp()).then_some(session.worker)
}
