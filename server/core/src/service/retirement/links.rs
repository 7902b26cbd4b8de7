//! The links and tokens of a retired member: with an open one, they or an accomplice could return.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use undertone_api::id::{MemberId, OrganizationId};

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::invitation::LinkPurpose;
use crate::model::{enrolment, invitation, reset};

/// Withdraws the open invitations, enrolment tokens and reset links of a member: those into one organization, or all.
/// Returns their number.
///
/// # Errors
/// When the database fails.
pub(crate) async fn withdraw_links(
    ctx: &Ctx,
    tx: &Tx,
    member: MemberId,
    organization: Option<OrganizationId>,
) -> Result<u64, Error> {
    let now = ctx.now();
    let mut invitations = invitation::Entity::update_many()
        .col_expr(invitation::Column::WithdrawnAt, Expr::value(now))
        .filter(invitation::Column::InvitedBy.eq(member.0))
        .filter(invitation::Column::UsedAt.is_null())
        .filter(invitation::Column::WithdrawnAt.is_null())
        .filter(invitation::Column::ExpiresAt.gt(now));
    let mut tokens = enrolment::Entity::update_many()
        .col_expr(enrolment::Column::ExpiresAt, Expr::value(now))
        .filter(enrolment::Column::CreatedBy.eq(member.0))
        .filter(enrolment::Column::UsedAt.is_null())
        .filter(enrolment::Column::ExpiresAt.gt(now));
    if let Some(organization) = organization {
        invitations = invitations
            .filter(invitation::Column::Purpose.eq(LinkPurpose::Member.to_text()))
            .filter(invitation::Column::ScopeId.eq(organization.0));
        tokens = tokens.filter(enrolment::Column::OrganizationId.eq(organization.0));
    }
    let mut withdrawn = invitations.exec(tx).await?.rows_affected + tokens.exec(tx).await?.rows_affected;
    if organization.is_none() {
        let resets = reset::Entity::update_many()
            .col_expr(reset::Column::ExpiresAt, Expr::value(now))
            .filter(reset::Column::CreatedBy.eq(member.0))
            .filter(reset::Column::UsedAt.is_null())
            .filter(reset::Column::ExpiresAt.gt(now));
        withdrawn += resets.exec(tx).await?.rows_affected;
    }
    Ok(withdrawn)
}
