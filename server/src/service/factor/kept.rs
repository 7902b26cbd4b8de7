//! Second factors as they are stored: whether they can be opened, which is looked at when a server is made of a backup, and their re-sealing
//! under a new key.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, Condition, EntityTrait as _, IntoActiveModel as _, PaginatorTrait as _,
    QueryFilter as _, QuerySelect as _,
};
use undertone_api::id::MemberId;

use crate::auth::factor;
use crate::ctx::Ctx;
use crate::db::Db;
use crate::error::Error;
use crate::keys::FactorKeys;
use crate::service::entity::second_factor;

/// Most second factors that are sealed again in one transaction.
const AT_ONCE: u64 = 100;

/// How many second factors there are, and how many of them these keys do not open: without keys none is opened.
///
/// # Errors
/// When the database fails.
pub(crate) async fn locked_out(db: &Db, keys: Option<&FactorKeys>) -> Result<(usize, usize), Error> {
    let rows = second_factor::Entity::find().all(db.read()).await?;
    let opens = |row: &&second_factor::Model| {
        keys.is_some_and(|keys| factor::unseal(keys, MemberId(row.member_id), &row.secret).is_ok())
    };
    Ok((rows.len(), rows.len() - rows.iter().filter(opens).count()))
}

/// Seals again what another key than the one in force has sealed, up to a hundred second factors. Returns how many there were.
///
/// # Errors
/// When the database fails.
pub(crate) async fn reseal(ctx: &Ctx) -> Result<usize, Error> {
    let keys = ctx.keys.factor();
    if keys.keys().len() == 1 {
        return Ok(0);
    }
    let current = keys.current(ctx.now());
    let other = second_factor::Entity::find().filter(second_factor::Column::Secret.not_like(pattern(current.id())));
    if other.clone().limit(1).one(ctx.db.read()).await?.is_none() {
        return Ok(0);
    }
    ctx.db
        .write("seal second factors again", async |tx| {
            let mut count = 0;
            for row in other.clone().limit(AT_ONCE).all(tx).await? {
                let member = MemberId(row.member_id);
                let Ok(secret) = factor::unseal(&keys, member, &row.secret) else {
                    tracing::error!(member.id = %member, "no key in `factor.key` opens the second factor of this member");
                    continue;
                };
                let secret = factor::seal(current, member, &secret, ctx.random.bytes())?;
                second_factor::Model { secret, ..row }.into_active_model().reset_all().update(tx).await?;
                count += 1;
            }
            Ok(count)
        })
        .await
}

/// Returns how many second factors the key of this id has sealed; those without an id count for the first key, whose id is to be
/// given with `is_first`.
///
/// # Errors
/// When the database fails.
pub(crate) async fn sealed_by(db: &Db, id: &str, is_first: bool) -> Result<u64, Error> {
    let sealed = second_factor::Column::Secret.like(pattern(id));
    let unnamed = second_factor::Column::Secret.not_like(format!("%{}%", factor::MARK));
    let mut condition = Condition::any().add(sealed);
    if is_first {
        condition = condition.add(unnamed);
    }
    Ok(second_factor::Entity::find().filter(condition).count(db.read()).await?)
}

fn pattern(id: &str) -> String {
    format!("{id}{}%", factor::MARK)
}
