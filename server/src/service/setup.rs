//! The first start: while the server has no operator, each start makes a one-time link for one and deletes the previous
//! link. Only its hash is stored, so the link appears only on the terminal.

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use serde_json::json;
use undertone_api::organization::Purpose;

use crate::auth::Place;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::audit_log::{self, Act, By, What};
use crate::service::entity::invitation;
use crate::service::{invitation as invitations, operator};

/// Returns the link for the first operator; `None` when there is an operator.
///
/// # Errors
/// When the database fails.
pub async fn operator_link(ctx: &Ctx) -> Result<Option<String>, Error> {
    let secret = ctx.random.secret();
    let made = ctx
        .db
        .write("operator link", async |tx| {
            if operator::count(tx).await? > 0 {
                return Ok(false);
            }
            invitation::Entity::delete_many()
                .filter(invitation::Column::Purpose.eq("operator"))
                .filter(invitation::Column::UsedAt.is_null())
                .exec(tx)
                .await?;
            let row = invitations::insert(ctx, tx, &Purpose::Operator, "operator", None, &secret).await?;
            let act = Act {
                by: By::Operator,
                what: What::OperatorInvited,
                place: Place::Server,
                subject: Some(("invitation", row.id.to_string())),
                detail: json!({ "purpose": "operator" }),
            };
            audit_log::record(ctx, tx, act).await?;
            Ok(true)
        })
        .await?;
    Ok(made.then(|| invitations::link(ctx, &secret)))
}
