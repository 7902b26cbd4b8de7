//! Announces a sign-in from a network or with a browser that the member had not used before.

use sea_orm::{ColumnTrait as _, EntityTrait as _, PaginatorTrait as _, QueryFilter as _};
use undertone_api::id::{MemberId, SessionId};

use crate::auth::Origin;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::session;
use crate::service::notification::{MemberNotice, tell};

/// Announces the session `id` to its member when no earlier session of theirs began at the same network with the same
/// browser. The first session of a member is not announced.
pub(super) async fn announce_new(
    ctx: &Ctx,
    tx: &Tx,
    member: MemberId,
    id: SessionId,
    from: &Origin,
) -> Result<(), Error> {
    let earlier = || session::Entity::find().filter(session::Column::MemberId.eq(member.0));
    if earlier().count(tx).await? == 0 {
        return Ok(());
    }
    let network = from.network();
    let agent = from.agent();
    let same = earlier()
        .filter(session::Column::Network.eq(&network))
        .filter(session::Column::Agent.eq(&agent))
        .count(tx)
        .await?;
    if same > 0 {
        return Ok(());
    }
    let notice = MemberNotice::SignInNew { session: id.0, member: member.0, network: &network, agent: &agent };
    tell(ctx, tx, notice).await
}
