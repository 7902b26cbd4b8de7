//! Operators: the members with responsibility for the server. An operator invites another one, which is announced to
//! all operators. A user at the server's terminal may do the same when no operator can sign in; the audit log records
//! it.

#[cfg(test)]
mod tests;

use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, PaginatorTrait as _, QueryFilter as _, QuerySelect as _,
    Select,
};
use serde_json::json;
use undertone_api::account::PasswordReset;
use undertone_api::id::MemberId;
use undertone_api::member::check_name;
use undertone_api::organization::InvitationPurpose;
use uuid::Uuid;

use crate::auth::Place;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::member;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::AccessNotice;
use crate::service::{invitation, member as members, reset};

/// Returns the ids of the operators whose accounts are not retired.
pub(super) async fn ids(connection: &impl ConnectionTrait) -> Result<Vec<Uuid>, Error> {
    Ok(active().select_only().column(member::Column::Id).into_tuple().all(connection).await?)
}

/// Returns the number of operators whose accounts are not retired.
pub(super) async fn count(connection: &impl ConnectionTrait) -> Result<u64, Error> {
    Ok(active().count(connection).await?)
}

/// Fails when there is only one operator.
///
/// # Errors
/// `wrong_state`.
pub(super) async fn keep_an_operator(tx: &Tx) -> Result<(), Error> {
    if count(tx).await? < 2 {
        return Err(Error::wrong_state("this is the last operator: invite another operator first"));
    }
    Ok(())
}

/// Announces to all operators that a link for another one was made.
pub(super) async fn announce_invitation(ctx: &Ctx, tx: &Tx, invitation: Uuid, by: &str) -> Result<(), Error> {
    let text = format!(
        "{by} made a link by which another operator of this server comes in. Withdraw it if it was not agreed."
    );
    AccessNotice::new(format!("operator_invited:{invitation}"), &text).for_operators().send(ctx, tx).await
}

/// Announces to all operators that there is another one; the first operator receives no notice.
pub(super) async fn announce_arrival(ctx: &Ctx, tx: &Tx, id: MemberId) -> Result<(), Error> {
    if count(tx).await? < 2 {
        return Ok(());
    }
    let name = member::Entity::find_by_id(id.0).one(tx).await?.map(|row| row.name).unwrap_or_default();
    let text = format!("{name} is an operator of this server now.");
    AccessNotice::new(format!("operator_joined:{id}"), &text).for_operators().send(ctx, tx).await
}

/// Makes a link for another operator, for a user at the server's terminal.
///
/// # Errors
/// `validation_failed` for the label.
pub async fn invite_at_terminal(ctx: &Ctx, label: &str) -> Result<String, Error> {
    let mut violations = Vec::new();
    check_name("label", label, &mut violations);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let secret = ctx.random.secret();
    ctx.db
        .write("invite operator at the terminal", async |tx| {
            let row = invitation::insert(ctx, tx, &InvitationPurpose::Operator, label.trim(), None, &secret).await?;
            let act = NewAuditEntry {
                by: AuditAuthor::Operator,
                what: AuditAction::OperatorInvited,
                place: Place::Server,
                subject: Some(("invitation", row.id.to_string())),
                detail: json!({ "at": "terminal" }),
            };
            audit_log::record(ctx, tx, act).await?;
            announce_invitation(ctx, tx, row.id, "A person at the server's terminal").await
        })
        .await?;
    Ok(invitation::link(ctx, &secret))
}

/// Makes a link that resets an operator's password, for a user at the server's terminal.
///
/// # Errors
/// 404 unless the e-mail is an operator's, `wrong_state` when the account is retired.
pub async fn reset_at_terminal(ctx: &Ctx, email: &str, clear_second_factor: bool) -> Result<PasswordReset, Error> {
    let secret = ctx.random.secret();
    let expires_at = ctx
        .db
        .write("reset operator at the terminal", async |tx| {
            let row = members::by_email(tx, email).await?.filter(|row| row.operator);
            let row = row.ok_or_else(|| Error::not_found("operator"))?;
            if row.retired_at.is_some() {
                let remedy = "this operator's account is retired: another operator restores it, or `operator invite` makes a new one";
                return Err(Error::wrong_state(remedy));
            }
            let id = MemberId(row.id);
            // There is no signed-in author: the link names its own member.
            let expires_at = reset::make(ctx, tx, AuditAuthor::Operator, id, id, clear_second_factor, &secret).await?;
            let text = format!("A person at the server's terminal made a link that resets the password of {}.", row.name);
            AccessNotice::new(format!("operator_reset:{}", ctx.id::<Uuid>()), &text).for_operators().send(ctx, tx).await?;
            Ok(expires_at)
        })
        .await?;
    Ok(PasswordReset { link: reset::link(ctx, &secret), expires_at })
}

fn active() -> Select<member::Entity> {
    member::Entity::find().filter(member::Column::Operator.eq(true)).filter(member::Column::RetiredAt.is_null())
}
