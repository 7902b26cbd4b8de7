//! The names of organizations.

use std::collections::HashMap;

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _};
use uuid::Uuid;

use crate::error::Error;
use crate::model::organization;

/// Returns the names of organizations.
pub(crate) async fn load_names(
    connection: &impl ConnectionTrait,
    ids: impl IntoIterator<Item = Uuid>,
) -> Result<HashMap<Uuid, String>, Error> {
    let rows = organization::Entity::find().filter(organization::Column::Id.is_in(ids)).all(connection).await?;
    Ok(rows.into_iter().map(|row| (row.id, row.name)).collect())
}
