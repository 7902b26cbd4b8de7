//! Stored second factors: the check that they can be decrypted, for a restore from a backup, and their encryption under
//! a new key.

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
use crate::model::second_factor;

/// The highest number of second factors encrypted again in one transaction.
const AT_ONCE: u64 = 100;

/// Returns the number of second factors, and the number that these keys do not decrypt; without keys, all of them.
///
/// # Errors
/// When the database fails.
pub async fn count_locked_out(db: &Db, keys: Option<&FactorKeys>) -> Result<(usize, usize), Error> {
    let rows = second_factor::Entity::find().all(db.read()).await?;
    let opens = |row: &&second_factor::Model| {
        keys.is_some_and(|keys| factor::unseal(keys, MemberId(row.member_id), &row.secret).is_ok())
    };
    Ok((rows.len(), rows.len() - rows.iter().filter(opens).count()))
}

/// Encrypts second factors under an older key again, up to a hundred. Returns their number.
///
/// # Errors
/// When the database fails.
pub async fn reseal(ctx: &Ctx) -> Result<usize, Error> {
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

/// Returns the number of second factors under the key of this id. Those without an id count for the first key, marked
/// by `is_first`.
///
/// # Errors
/// When the database fails.
pub async fn count_sealed(db: &Db, id: &str, is_first: bool) -> Result<u64, Error> {
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
