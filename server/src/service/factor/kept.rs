//! Whether the second factors that are stored can be opened: looked at when a server is made of a backup.

use sea_orm::EntityTrait as _;
use undertone_api::id::MemberId;

use crate::auth::factor;
use crate::db::Db;
use crate::error::Error;
use crate::keys::FactorKey;
use crate::service::entity::second_factor;

/// How many second factors there are, and how many of them this key does not open: without a key none is opened.
///
/// # Errors
/// When the database fails.
pub(crate) async fn locked_out(db: &Db, key: Option<&FactorKey>) -> Result<(usize, usize), Error> {
    let rows = second_factor::Entity::find().all(db.read()).await?;
    let opens = |row: &&second_factor::Model| {
        key.is_some_and(|key| factor::unseal(key, MemberId(row.member_id), &row.secret).is_ok())
    };
    Ok((rows.len(), rows.len() - rows.iter().filter(opens).count()))
}
