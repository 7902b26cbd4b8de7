//! Password resets: a one-time link that an operator makes and hands over by another channel. The operator never learns
//! the password. A second factor is still required, unless the link removes it, which is recorded. Where several
//! operators could make the link, one that removes a second factor works only beside the link of another operator: one
//! operator, or a thief of an operator's session, takes over no account that has a second factor.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, Condition, ConnectionTrait, EntityTrait as _, IntoActiveModel as _,
    PaginatorTrait as _, QueryFilter as _,
};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use undertone_api::account::{NewPassword, NewReset, PasswordReset, ResetPreview};
use undertone_api::id::MemberId;
use undertone_api::problem::Code;
use uuid::Uuid;

use crate::auth::{Actor, Door, Operation, Place, policy};
use crate::ctx::{Ctx, fingerprint};
use crate::db::Tx;
use crate::error::Error;
use crate::model::{member, reset};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::credential::{self, CredentialChange};
use crate::service::{api_key, attempt, factor, member as members, password, sessions};

/// The validity of a link.
pub const LIFETIME: Duration = Duration::hours(24);

/// Makes a link for the member with an e-mail address; an earlier link for them is withdrawn.
///
/// # Errors
/// 403 for all but operators, 404 when no member has the e-mail address.
pub async fn create(ctx: &Ctx, actor: &Actor, new: &NewReset) -> Result<PasswordReset, Error> {
    policy::check(actor, Operation::ResetPassword, Place::Server)?;
    policy::check_fresh(actor)?;
    let secret = ctx.random.secret();
    let expires_at = ctx
        .db
        .write("make a link that resets a password", async |tx| {
            let row = members::by_email(tx, &new.email).await?;
            let member = row.ok_or_else(|| Error::not_found("member"))?;
            let id = MemberId(member.id);
            make(ctx, tx, AuditAuthor::from(actor), actor.id(), id, new.clear_second_factor, &secret).await
        })
        .await?;
    Ok(PasswordReset { link: link(ctx, &secret), expires_at })
}

/// Stores a link for a member, and withdraws the earlier ones, except those of other operators where all of them remove
/// the second factor: two operators together remove it. The caller has checked the policy. Returns the expiry.
pub(super) async fn make(
    ctx: &Ctx,
    tx: &Tx,
    by: AuditAuthor,
    created_by: MemberId,
    member: MemberId,
    clears_second_factor: bool,
    secret: &str,
) -> Result<OffsetDateTime, Error> {
    let mut withdrawn = reset::Entity::delete_many()
        .filter(reset::Column::MemberId.eq(member.0))
        .filter(reset::Column::UsedAt.is_null());
    if clears_second_factor {
        let is_withdrawn = Condition::any()
            .add(reset::Column::CreatedBy.eq(created_by.0))
            .add(reset::Column::ClearsFactor.eq(false))
            .add(reset::Column::ExpiresAt.lte(ctx.now()));
        withdrawn = withdrawn.filter(is_withdrawn);
    }
    withdrawn.exec(tx).await?;
    let row = reset::Model {
        id: ctx.id::<Uuid>(),
        member_id: member.0,
        secret_hash: fingerprint(secret),
        clears_factor: clears_second_factor,
        created_by: created_by.0,
        created_at: ctx.now(),
        expires_at: ctx.now() + LIFETIME,
        used_at: None,
    };
    let row = row.into_active_model().insert(tx).await?;
    let act = NewAuditEntry {
        by,
        what: AuditAction::ResetLinkMade,
        place: Place::Server,
        subject: Some(("member", member.to_string())),
        detail: json!({ "clears_second_factor": clears_second_factor }),
    };
    audit_log::record(ctx, tx, act).await?;
    credential::announce(ctx, tx, member, CredentialChange::ResetLinkMade { clears_second_factor }).await?;
    Ok(row.expires_at)
}

/// Returns the address of a link in the dashboard.
pub(super) fn link(ctx: &Ctx, secret: &str) -> String {
    format!("{}/reset/{secret}", ctx.addresses.http)
}

/// Returns the effects of a link, for its holder.
///
/// # Errors
/// `link_spent` when it was used, has expired, or never existed, without distinction; `rate_limited` after 50 of those.
pub async fn preview(ctx: &Ctx, from: IpAddr, secret: &str) -> Result<ResetPreview, Error> {
    let row = tried(ctx, from, secret).await?;
    Ok(ResetPreview { clears_second_factor: row.clears_factor, expires_at: row.expires_at })
}

/// Sets a new password with a link. Every session of the member ends, their API keys are revoked, and no session
/// begins: an attacker may have access to the account.
///
/// # Errors
/// As [`preview`], `validation_failed` for the password, and `wrong_state` when the link of a second operator is
/// missing.
pub async fn redeem(ctx: &Ctx, from: IpAddr, secret: &str, new: &NewPassword) -> Result<(), Error> {
    let row = tried(ctx, from, secret).await?;
    let member = member::Entity::find_by_id(row.member_id).one(ctx.db.read()).await?;
    let member = member.ok_or_else(|| Error::not_found("member"))?;
    let violations = password::check_choice("password", &new.password, &[&member.name, &member.email]);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let hash = ctx.passwords.hash(&new.password, ctx.random.bytes()).await?;
    let id = MemberId(member.id);
    ctx.db
        .write("reset password", async |tx| {
            // Checked again: another request may have been faster.
            let row = open(ctx, tx, secret).await?;
            let clears = row.clears_factor && factor::in_force(tx, id).await?;
            if clears {
                check_second_operator(ctx, tx, &row).await?;
            }
            password::set(tx, id, &hash).await?;
            let ended = sessions::end_all(ctx, tx, id, None).await?;
            let revoked = api_key::revoke_all(ctx, tx, id).await?;
            if row.clears_factor {
                factor::clear(tx, id).await?;
            }
            attempt::forgive(tx, &[Door::Email(member.email.clone())]).await?;
            attempt::reopen(tx, &Door::of_codes(id)).await?;
            let by = row.created_by;
            reset::Entity::delete_many()
                .filter(reset::Column::MemberId.eq(id.0))
                .filter(reset::Column::UsedAt.is_null())
                .filter(reset::Column::Id.ne(row.id))
                .exec(tx)
                .await?;
            reset::Model { used_at: Some(ctx.now()), ..row }.into_active_model().reset_all().update(tx).await?;
            let act = NewAuditEntry {
                by: AuditAuthor::Nobody,
                what: AuditAction::PasswordReset,
                place: Place::Server,
                subject: Some(("member", id.to_string())),
                detail: json!({
                    "link_by": by,
                    "sessions_ended": ended,
                    "keys_revoked": revoked,
                    "second_factor_cleared": clears,
                }),
            };
            audit_log::record(ctx, tx, act.clone()).await?;
            if clears {
                audit_log::record(ctx, tx, NewAuditEntry { what: AuditAction::SecondFactorOff, ..act }).await?;
            }
            let change = CredentialChange::PasswordReset { clears_second_factor: clears };
            credential::announce(ctx, tx, id, change).await
        })
        .await?;
    ctx.changes().notify_standings();
    tracing::info!(member.id = %id, "a password was reset by a link");
    Ok(())
}

/// Rejects a link that removes a second factor without the valid link of another operator, if at least two operators
/// besides the member could make one. A link from the server's terminal names its own member, and needs no other.
async fn check_second_operator(ctx: &Ctx, tx: &Tx, row: &reset::Model) -> Result<(), Error> {
    let operators = || {
        member::Entity::find()
            .filter(member::Column::Operator.eq(true))
            .filter(member::Column::RetiredAt.is_null())
            .filter(member::Column::Id.ne(row.member_id))
    };
    if row.created_by == row.member_id || operators().count(tx).await? < 2 {
        return Ok(());
    }
    let others = reset::Entity::find()
        .filter(reset::Column::MemberId.eq(row.member_id))
        .filter(reset::Column::ClearsFactor.eq(true))
        .filter(reset::Column::UsedAt.is_null())
        .filter(reset::Column::ExpiresAt.gt(ctx.now()))
        .filter(reset::Column::CreatedBy.ne(row.created_by))
        .all(tx)
        .await?;
    let creators = others.iter().map(|other| other.created_by);
    if operators().filter(member::Column::Id.is_in(creators)).count(tx).await? > 0 {
        return Ok(());
    }
    Err(Error::wrong_state(
        "two operators remove a second factor: ask another operator of this server to make such a link as well, and use \
         this link again while both are valid",
    ))
}

/// Returns the row of a link; an invalid link counts against the address.
async fn tried(ctx: &Ctx, from: IpAddr, secret: &str) -> Result<reset::Model, Error> {
    let door = Door::of_address(from);
    attempt::enter(ctx, &door).await?;
    let row = open(ctx, ctx.db.read(), secret).await?;
    ctx.db.write("forgive an attempt", async |tx| attempt::forgive(tx, &door).await).await?;
    Ok(row)
}

async fn open(ctx: &Ctx, connection: &impl ConnectionTrait, secret: &str) -> Result<reset::Model, Error> {
    let row = reset::Entity::find().filter(reset::Column::SecretHash.eq(fingerprint(secret))).one(connection).await?;
    row.filter(|row| row.used_at.is_none() && row.expires_at > ctx.now())
        .ok_or_else(|| Error::problem(Code::LinkSpent, "ask the server's operator for a new link"))
}
