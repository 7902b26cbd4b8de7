//! The first start: while nobody runs the server, each start makes a one-time link for its operator and withdraws the one
//! before. Only its hash is in the tables; where the server has no terminal, the link stands in a file of the data folder until it is
//! used.

use std::io;
use std::path::Path;

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use serde_json::json;
use undertone_api::organization::InvitationPurpose;

use crate::auth::Place;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::invitation;
use crate::model::invitation::LinkPurpose;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::{invitation as invitations, operator};

/// The file in the data folder that holds the first operator's link.
pub const LINK_FILE: &str = "operator-link";

/// The link by which the operator comes in; `None` when there is an operator, and then no file holds a link.
///
/// # Errors
/// When the database fails.
pub async fn operator_link(ctx: &Ctx) -> Result<Option<String>, Error> {
    let secret = ctx.random.secret();
    let is_new = ctx
        .db
        .write("operator link", async |tx| {
            if operator::count(tx).await? > 0 {
                return Ok(false);
            }
            invitation::Entity::delete_many()
                .filter(invitation::Column::Purpose.eq(LinkPurpose::Operator.to_text()))
                .filter(invitation::Column::UsedAt.is_null())
                .exec(tx)
                .await?;
            let row = invitations::insert(ctx, tx, &InvitationPurpose::Operator, "operator", None, &secret).await?;
            let act = NewAuditEntry {
                by: AuditAuthor::Operator,
                what: AuditAction::OperatorInvited,
                place: Place::Server,
                subject: Some(("invitation", row.id.to_string())),
                detail: json!({ "purpose": "operator" }),
            };
            audit_log::record(ctx, tx, act).await?;
            Ok(true)
        })
        .await?;
    if !is_new {
        discard_link_file(&ctx.config.data_dir, "");
    }
    Ok(is_new.then(|| invitations::link(ctx, &secret)))
}

/// Removes the file of the first operator's link, when it holds this secret.
pub(super) fn discard_link_file(data_dir: &Path, secret: &str) {
    let path = data_dir.join(LINK_FILE);
    let removed = match std::fs::read_to_string(&path) {
        Ok(link) if link.contains(secret) => std::fs::remove_file(&path),
        Ok(_) => return,
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(file = %path.display(), %error, "the file of a link that was used cannot be removed");
        }
        _ => {}
    }
}
