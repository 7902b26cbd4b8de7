//! Datasets: the coarse facts that their sites register, visible to every member of a consortium with the owner.
//!
//! A dataset is one name at one organization. A new registration keeps its id. Its lineage determines the charged
//! accounts, so a new version of the same people continues the accounts, and so does another name for them.

mod list;
mod register;
#[cfg(test)]
mod tests;

use sea_orm::sea_query::Query;
use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _};
use undertone_api::dataset::{Dataset, SizeClass, usual_units};
use undertone_api::id::{ConsortiumId, DatasetId};
use undertone_privacy::PrivacyUnit;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::{JsonColumn, parse_word};
use crate::model::{dataset, membership};
use crate::service::budget::usage::load_accounts;
use crate::service::organization::names::load_names;

pub use list::{DatasetFilter, search};
pub use register::MOST_DATASETS;
pub use register::{find_registered, register};

/// Returns the datasets of a consortium, by organization and name.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn list(ctx: &Ctx, actor: &Actor, consortium: ConsortiumId) -> Result<Vec<Dataset>, Error> {
    policy::check(actor, Operation::ReadDataset, Place::Consortium(consortium))?;
    in_consortium(ctx.db.read(), consortium).await
}

/// Returns one dataset.
///
/// # Errors
/// 404 when the caller may not know it.
pub async fn get(ctx: &Ctx, actor: &Actor, id: DatasetId) -> Result<Dataset, Error> {
    let row = dataset::Entity::find_by_id(id.0).one(ctx.db.read()).await?;
    let row = row.ok_or_else(|| Error::not_found("dataset"))?;
    let place = Place::Organization(row.organization_id.into());
    // The existence of a dataset is as secret as that of its organization.
    policy::check(actor, Operation::ReadDataset, place).map_err(|_| Error::not_found("dataset"))?;
    to_datasets(ctx.db.read(), vec![row]).await?.pop().ok_or_else(|| Error::not_found("dataset"))
}

/// Returns the datasets of a consortium. The caller has checked the policy.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn in_consortium(
    connection: &impl ConnectionTrait,
    consortium: ConsortiumId,
) -> Result<Vec<Dataset>, Error> {
    to_datasets(connection, rows(connection, consortium).await?).await
}

/// Returns the rows of a consortium's datasets, by organization and name. The caller has checked the policy.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn rows(
    connection: &impl ConnectionTrait,
    consortium: ConsortiumId,
) -> Result<Vec<dataset::Model>, Error> {
    let owners = Query::select()
        .column(membership::Column::OrganizationId)
        .from(membership::Entity)
        .and_where(membership::Column::ConsortiumId.eq(consortium.0))
        .take();
    Ok(dataset::Entity::find()
        .filter(dataset::Column::OrganizationId.in_subquery(owners))
        .order_by_asc(dataset::Column::OrganizationId)
        .order_by_asc(dataset::Column::Name)
        .all(connection)
        .await?)
}

pub(super) async fn to_datasets(
    connection: &impl ConnectionTrait,
    rows: Vec<dataset::Model>,
) -> Result<Vec<Dataset>, Error> {
    let names = load_names(connection, rows.iter().map(|row| row.organization_id)).await?;
    let accounts = load_accounts(connection, rows.iter().map(|row| row.lineage_id.into()).collect()).await?;
    let mut datasets = Vec::with_capacity(rows.len());
    for row in rows {
        let key = (row.organization_id.into(), row.lineage_id.into());
        datasets.push(Dataset {
            id: row.id.into(),
            lineage: row.lineage_id.into(),
            organization: row.organization_id.into(),
            organization_name: names.get(&row.organization_id).cloned().unwrap_or_default(),
            worker: row.worker_id.into(),
            name: row.name,
            visibility: *row.visibility,
            content: *row.content,
            inputs: count(row.inputs)?,
            classes: count(row.classes)?,
            records: SizeClass(count(row.records)?),
            speakers: SizeClass(count(row.speakers)?),
            test_records: count(row.test_records)?,
            users: row.users.map(count).transpose()?.map(SizeClass),
            table: row.table_schema.map(JsonColumn::into_value),
            seconds: row.seconds.map(count).transpose()?.map(SizeClass),
            units: row.units.as_deref().map_or_else(|| Ok(usual_units()), units)?,
            approval: row.approval.as_deref().map(|site| site.rule),
            accounts: accounts.get(&key).cloned().unwrap_or_default(),
            created_at: row.created_at,
        });
    }
    Ok(datasets)
}

/// Parses the units of a row: their words, separated by blanks.
fn units(stored: &str) -> Result<Vec<PrivacyUnit>, Error> {
    stored.split(' ').map(|word| parse_word("reading the column dataset.units", word)).collect()
}

fn count<S, T: TryFrom<S>>(stored: S) -> Result<T, Error>
where
    T::Error: std::error::Error + Send + Sync + 'static,
{
    T::try_from(stored).map_err(|error| Error::internal("reading a count", error))
}
