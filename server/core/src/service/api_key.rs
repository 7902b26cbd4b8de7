//! API keys, with which programs act for a member. A key permits the operations that its owner is permitted at that
//! moment, within its scopes (see [`policy`]). It never reaches accounts, roles, invitations, enrolment of workers,
//! retirement, keys and second factors, so that a leaked key cannot create a lasting identity.
//!
//! A key is `udk_<id>_<secret>`. Scanners recognize a leaked key by the prefix; the id names the row; the secret has
//! 256 random bits, of which only the SHA-256 is stored. To open an operation to keys: `in <scope>` in its row of the
//! policy table.

#[cfg(test)]
mod tests;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, PaginatorTrait as _,
    QueryFilter as _, QueryOrder as _,
};
use serde_json::json;
use subtle::ConstantTimeEq as _;
use time::Duration;
use undertone_api::api_key::{ApiKey, MOST_KEYS, NewApiKey, PREFIX};
use undertone_api::id::{ApiKeyId, MemberId};
use undertone_api::problem::{Code, Violation};
use uuid::Uuid;

use crate::auth::{Actor, Means, Operation, Place, policy};
use crate::ctx::{Ctx, fingerprint};
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::JsonColumn;
use crate::model::{api_key, member};
use crate::service::audit_log::{self, AuditAction, NewAuditEntry};
use crate::service::member as members;
use crate::service::notification::{self, MemberNotice};

/// The precision of a key's time of last use.
const PRECISION: Duration = Duration::minutes(1);

/// Makes a key of the caller. Only the response contains the secret.
///
/// # Errors
/// `forbidden` for a caller with an API key; `validation_failed` with every violation, also when there are 20 keys
/// already.
pub async fn create(ctx: &Ctx, actor: &Actor, new: &NewApiKey) -> Result<ApiKey, Error> {
    policy::check(actor, Operation::ManageKeys, Place::Server)?;
    policy::check_fresh(actor)?;
    let violations = new.check();
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let (id, secret, now) = (ctx.id::<ApiKeyId>(), ctx.random.secret(), ctx.now());
    let mut scopes = new.scopes.clone();
    scopes.sort_unstable();
    let row = api_key::Model {
        id: id.0,
        member_id: actor.id().0,
        name: new.name.trim().to_owned(),
        scopes: JsonColumn::new(scopes.clone())?,
        secret_hash: fingerprint(&secret),
        created_at: now,
        expires_at: now + Duration::days(i64::from(new.days)),
        last_used_at: None,
        revoked_at: None,
    };
    ctx.db
        .write("make api key", async |tx| {
            let living = api_key::Entity::find()
                .filter(api_key::Column::MemberId.eq(actor.id().0))
                .filter(api_key::Column::RevokedAt.is_null())
                .filter(api_key::Column::ExpiresAt.gt(now))
                .count(tx)
                .await?;
            if living >= MOST_KEYS {
                let remedy = format!("you have {living} keys, and {MOST_KEYS} are the most: revoke one first");
                return Err(Error::validation(vec![Violation::new("name", remedy)]));
            }
            row.clone().into_active_model().insert(tx).await?;
            let notice = MemberNotice::KeyMade { key: id.0, member: actor.id().0, name: &row.name };
            notification::tell(ctx, tx, notice).await?;
            let detail = json!({ "scopes": &scopes, "days": new.days });
            audit_log::record(ctx, tx, act(actor, AuditAction::KeyMade, id, detail)).await
        })
        .await?;
    let secret = format!("{PREFIX}{}_{secret}", id.0.simple());
    Ok(ApiKey { secret: Some(secret), ..ApiKey::from(row) })
}

/// Returns the caller's own keys, newest first, including those that no longer work.
///
/// # Errors
/// `forbidden` for a caller with an API key.
pub async fn list(ctx: &Ctx, actor: &Actor) -> Result<Vec<ApiKey>, Error> {
    policy::check(actor, Operation::ManageKeys, Place::Server)?;
    let rows = api_key::Entity::find()
        .filter(api_key::Column::MemberId.eq(actor.id().0))
        .order_by_desc(api_key::Column::Id)
        .all(ctx.db.read())
        .await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Revokes a key of the caller with immediate effect. Revoking it again changes nothing.
///
/// # Errors
/// `forbidden` for a caller with an API key; 404 for a key of another member.
pub async fn revoke(ctx: &Ctx, actor: &Actor, id: ApiKeyId) -> Result<(), Error> {
    policy::check(actor, Operation::ManageKeys, Place::Server)?;
    ctx.db
        .write("revoke api key", async |tx| {
            let row = api_key::Entity::find_by_id(id.0).one(tx).await?;
            let row = row.filter(|row| row.member_id == actor.id().0).ok_or_else(|| Error::not_found("key"))?;
            if row.revoked_at.is_some() {
                return Ok(());
            }
            let row = api_key::Model { revoked_at: Some(ctx.now()), ..row };
            row.into_active_model().reset_all().update(tx).await?;
            audit_log::record(ctx, tx, act(actor, AuditAction::KeyRevoked, id, json!({}))).await
        })
        .await?;
    ctx.changes().notify_standings();
    Ok(())
}

/// Revokes every valid key of a member and returns their number. The caller records the reason.
pub(super) async fn revoke_all(ctx: &Ctx, tx: &Tx, member: MemberId) -> Result<u64, Error> {
    let revoked = api_key::Entity::update_many()
        .col_expr(api_key::Column::RevokedAt, sea_orm::sea_query::Expr::value(ctx.now()))
        .filter(api_key::Column::MemberId.eq(member.0))
        .filter(api_key::Column::RevokedAt.is_null())
        .filter(api_key::Column::ExpiresAt.gt(ctx.now()))
        .exec(tx)
        .await?;
    Ok(revoked.rows_affected)
}

/// Returns whether a token has the prefix of an API key.
pub(crate) fn is_key(token: &str) -> bool {
    token.starts_with(PREFIX)
}

/// Returns the actor of an API key, with the current grants of the key's owner.
///
/// # Errors
/// `unauthenticated` when the key is not valid. Unknown, changed, expired and revoked keys are not distinguished.
pub async fn authenticate(ctx: &Ctx, token: &str) -> Result<Actor, Error> {
    let (id, secret) = parts(token).ok_or_else(invalid_key)?;
    let row = api_key::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    let right = row.as_ref().is_some_and(|row| {
        let (stored, used) = (row.secret_hash.as_bytes(), fingerprint(secret));
        stored.ct_eq(used.as_bytes()).into()
    });
    let now = ctx.now();
    let row = row.filter(|row| right && row.revoked_at.is_none() && row.expires_at > now).ok_or_else(invalid_key)?;
    if row.last_used_at.is_none_or(|last| now - last >= PRECISION) {
        note_use(ctx, id).await;
    }
    let member = member::Entity::find_by_id(row.member_id).one(ctx.db.read()).await?;
    let member = member.filter(|member| member.retired_at.is_none()).ok_or_else(invalid_key)?;
    let member = members::with_grants(ctx.db.read(), member).await?;
    let standing = members::standing_of(ctx.db.read(), &member.grants).await?;
    Ok(Actor::new(member, Means::Key(id, row.scopes.into_value()), standing, false))
}

/// Stores the time of use. A failure is only logged: a full disk must not refuse requests that only read.
async fn note_use(ctx: &Ctx, id: ApiKeyId) {
    let noted = ctx
        .db
        .write_concurrent("use api key", async |tx| {
            api_key::Entity::update_many()
                .col_expr(api_key::Column::LastUsedAt, sea_orm::sea_query::Expr::value(ctx.now()))
                .filter(api_key::Column::Id.eq(id.0))
                .exec(tx)
                .await?;
            Ok(())
        })
        .await;
    if let Err(error) = noted {
        tracing::warn!(key.id = %id, error = &error as &dyn std::error::Error, "cannot note the last use of an API key");
    }
}

/// Returns the id and the secret of a key.
fn parts(token: &str) -> Option<(ApiKeyId, &str)> {
    let (id, secret) = token.strip_prefix(PREFIX)?.split_once('_')?;
    // Accepts only the issued spelling: 32 and 64 hex digits.
    let digits = |text: &str, most| text.len() == most && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (digits(id, 32) && digits(secret, 64)).then_some(())?;
    Some((ApiKeyId(Uuid::parse_str(id).ok()?), secret))
}

fn invalid_key() -> Error {
    Error::problem(Code::Unauthenticated, "the key does not hold: make another under Settings, API keys")
}

fn act(actor: &Actor, what: AuditAction, id: ApiKeyId, detail: serde_json::Value) -> NewAuditEntry<'static> {
    NewAuditEntry { by: actor.into(), what, place: Place::Server, subject: Some(("api_key", id.to_string())), detail }
}
