//! Requests with an idempotency key are performed once: a repetition, after a lost response, returns the first
//! response.
//!
//! Responses are stored in the database for 24 hours, so that all replicas agree. Responses with one-time content (a
//! link, a token, a key) are never stored: REST rejects an idempotency key there. The others are encrypted under a key
//! derived from the server's and the caller's, so that they cannot be read from the tables. A failed request changed
//! nothing and is deleted. A request whose response never came stays and is not performed again.

#[cfg(test)]
mod tests;

use chacha20poly1305::aead::{Aead as _, KeyInit as _};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, PaginatorTrait as _,
    QueryFilter as _,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::Duration;
use undertone_api::id::MemberId;
use undertone_api::problem::{Code, Violation};

use crate::auth::Actor;
use crate::ctx::{Ctx, fingerprint};
use crate::error::Error;
use crate::keys::ring::RingKey;
use crate::model::idempotency;

/// The time for which a response is kept.
const KEPT: Duration = Duration::hours(24);
/// The time after which a request without a response counts as lost: none takes that long.
const LOST: Duration = Duration::minutes(2);
/// The length limit of a key, in characters.
const LONGEST: usize = 255;
/// The highest number of keys of one member within 24 hours.
pub(crate) const MOST: u64 = 10_000;
const NONCE: usize = 12;

/// A response as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers of the response itself.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

/// A started request: it ends with [`keep`] or [`forget`].
#[derive(Debug, Clone)]
pub struct PendingRequest {
    member: MemberId,
    key: String,
}

/// The state of a key.
#[derive(Debug)]
pub enum KeyState {
    /// The key is new: perform the request.
    Never(PendingRequest),
    /// The request was performed, with this response.
    Before(StoredResponse),
}

/// Begins a caller's request with a key. Keys of different credentials are independent. `request` is the complete
/// identity of the request.
///
/// # Errors
/// `validation_failed` for an invalid key, and for one that another request used; `in_progress` while the first is
/// running, or when its response was lost; `rate_limited` for too many keys.
pub async fn begin(ctx: &Ctx, who: &Actor, key: &str, request: &[u8]) -> Result<KeyState, Error> {
    if !(1..=LONGEST).contains(&key.len()) || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let detail = format!("give 1 to {LONGEST} visible ASCII characters, best a random UUID");
        return Err(Error::validation(vec![Violation::new("Idempotency-Key", detail)]));
    }
    let means = who.key().map_or_else(|| "session".to_owned(), |id| id.to_string());
    let (member, key) = (who.id(), format!("{means} {key}"));
    let (stored, request) = (fingerprint(&key), hex::encode(Sha256::digest(request)));
    let row = ctx
        .db
        .write("begin a request", async |tx| {
            let old = idempotency::Column::At.lte(ctx.now() - KEPT);
            idempotency::Entity::delete_many().filter(old).exec(tx).await?;
            let row = idempotency::Entity::find_by_id((member.0, stored.clone())).one(tx).await?;
            if row.is_none() {
                let own = idempotency::Entity::find().filter(idempotency::Column::MemberId.eq(member.0));
                if own.count(tx).await? >= MOST {
                    let detail = format!("use at most {MOST} idempotency keys in 24 hours");
                    return Err(Error::problem(Code::RateLimited, detail));
                }
                let row = idempotency::Model {
                    member_id: member.0,
                    key: stored.clone(),
                    request: request.clone(),
                    answer: None,
                    at: ctx.now(),
                };
                row.into_active_model().insert(tx).await?;
            }
            Ok(row)
        })
        .await?;
    let Some(row) = row else { return Ok(KeyState::Never(PendingRequest { member, key })) };
    if row.request != request {
        let detail = "this key was borne by another request within 24 hours: use a new one for each";
        return Err(Error::validation(vec![Violation::new("Idempotency-Key", detail)]));
    }
    match row.answer {
        Some(sealed) => Ok(KeyState::Before(open(ctx, member, &key, &sealed)?)),
        None if ctx.now() - row.at < LOST => {
            Err(Error::problem(Code::InProgress, "the first request with this key is still under way: ask again"))
        }
        None => Err(Error::problem(
            Code::InProgress,
            "the first request with this key never got its answer: look whether it was done, then use another key",
        )),
    }
}

/// Stores the response of a performed request.
///
/// # Errors
/// When the database fails.
pub async fn keep(ctx: &Ctx, begun: &PendingRequest, answer: &StoredResponse) -> Result<(), Error> {
    let sealed = seal(ctx, begun.member, &begun.key, answer)?;
    ctx.db
        .write("keep an answer", async |tx| {
            if let Some(row) = idempotency::Entity::find_by_id(begun.id()).one(tx).await? {
                let row = idempotency::Model { answer: Some(sealed.clone()), ..row };
                row.into_active_model().reset_all().update(tx).await?;
            }
            Ok(())
        })
        .await
}

/// Deletes a request that changed nothing: its key may be used again.
///
/// # Errors
/// When the database fails.
pub async fn forget(ctx: &Ctx, begun: &PendingRequest) -> Result<(), Error> {
    ctx.db
        .write("forget a request", async |tx| {
            idempotency::Entity::delete_by_id(begun.id()).exec(tx).await?;
            Ok(())
        })
        .await
}

impl PendingRequest {
    fn id(&self) -> (uuid::Uuid, String) {
        (self.member.0, fingerprint(&self.key))
    }
}

/// Returns the cipher for one key of one member. The server's own key is hashed first, so that a guessed idempotency
/// key decrypts nothing.
fn cipher(own: &RingKey, member: MemberId, key: &str) -> ChaCha20Poly1305 {
    let mut digest = Sha256::new();
    digest.update(b"undertone/idempotency/1");
    digest.update(own.secret());
    digest.update(member.0.as_bytes());
    digest.update(key.as_bytes());
    let key: [u8; 32] = digest.finalize().into();
    ChaCha20Poly1305::new(&key.into())
}

fn seal(ctx: &Ctx, member: MemberId, key: &str, answer: &StoredResponse) -> Result<Vec<u8>, Error> {
    let plain = serde_json::to_vec(answer).map_err(|error| Error::internal("writing an answer", error))?;
    let nonce: [u8; NONCE] = ctx.random.bytes();
    let sealed = cipher(ctx.keys.token().current(ctx.now()), member, key)
        .encrypt(&Nonce::from(nonce), plain.as_slice())
        .map_err(|error| Error::internal("sealing an answer", error.to_string()))?;
    Ok([nonce.as_slice(), &sealed].concat())
}

fn open(ctx: &Ctx, member: MemberId, key: &str, sealed: &[u8]) -> Result<StoredResponse, Error> {
    let broken = |error: String| Error::internal("opening an answer that was kept", error);
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE>().ok_or_else(|| broken("it is too short".to_owned()))?;
    let keys = ctx.keys.token();
    let opened = |own| cipher(own, member, key).decrypt(&Nonce::from(*nonce), sealed).ok();
    let plain = keys.usable(ctx.now(), KEPT).find_map(opened);
    let plain = plain.ok_or_else(|| broken("no key in `token.key` opens it".to_owned()))?;
    serde_json::from_slice(&plain).map_err(|error| broken(error.to_string()))
}

/// Returns the stored responses.
///
/// # Panics
/// When the database fails, or a permit is missing: it is for tests.
#[cfg(any(test, feature = "testing"))]
pub async fn list_responses(ctx: &Ctx) -> Vec<Vec<u8>> {
    let rows = <idempotency::Entity as sea_orm::EntityTrait>::find().all(ctx.db.read()).await.expect("read");
    rows.into_iter().filter_map(|row| row.answer).collect()
}
