//! An account's row and its evidence rows: reads and writes, without decisions. The rules are those of the `privacy`
//! crate.

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, Condition, ConnectionTrait, EntityTrait as _, ExprTrait as _,
    IntoActiveModel as _, JoinType, QueryFilter as _, QueryOrder as _, QuerySelect as _,
};
use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_api::id::{AccountId, LineageId, OrganizationId};
use undertone_api::log::LogLeaf;
use undertone_api::plan::AccountKey;
use undertone_privacy::PrivacyUnit;
use undertone_privacy::ledger::Balance;
use undertone_privacy::mechanism::EVALUATOR_VERSION;
use uuid::Uuid;

use super::chain;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::{ColumnEnum as _, to_json};
use crate::model::{account, ledger_entry, reservation};
use crate::service::log::leaf;

/// The observer class of all accounts: an observer that sees each party's own messages.
const OBSERVER: &str = "insider";

/// An account in memory, while its transaction is the single writer.
#[derive(Debug, Clone)]
pub struct OpenAccount {
    row: account::Model,
    /// Whether it has no row yet.
    new: bool,
    /// The spent and reserved sums.
    pub balance: Balance,
}

/// The content of a new ledger row.
#[derive(Debug, Clone)]
pub struct NewEntry<'a> {
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The job.
    pub job: Uuid,
    /// The dataset.
    pub dataset: Uuid,
    /// Series, round and attempt of a commit.
    pub release: Option<(&'a str, u32, u32)>,
    /// The event as JSON.
    pub event: &'a str,
    /// The number of applications of the event.
    pub count: u64,
    /// Digest of the receipt of a commit.
    pub receipt: Option<&'a str>,
    /// The certificate of a reservation as JSON, under the Gaussian filter.
    pub certificate: Option<String>,
}

impl OpenAccount {
    pub(super) fn from_row(row: account::Model) -> Result<Self, Error> {
        let balance = row.balance()?;
        Ok(Self { row, new: false, balance })
    }

    /// Returns its id.
    pub const fn id(&self) -> Uuid {
        self.row.id
    }

    /// Returns true if it has rows.
    pub(crate) const fn has_entries(&self) -> bool {
        self.row.entries > 0
    }

    /// Counts an exact release, outside the balance.
    pub(crate) const fn count_in_the_clear(&mut self) {
        self.row.in_the_clear += 1;
    }

    /// Inserts a new account's row, so that other rows can refer to it. Returns its leaf for the log.
    ///
    /// # Errors
    /// When the database fails, or a stored value cannot be read.
    pub async fn begin(&mut self, tx: &Tx) -> Result<Option<LogLeaf>, Error> {
        if !self.new {
            return Ok(None);
        }
        self.row = self.row.clone().into_active_model().insert(tx).await?;
        self.new = false;
        Ok(Some(leaf::of_account(&self.row)))
    }

    /// Appends an evidence row. Returns its leaf for the log.
    ///
    /// # Errors
    /// When the database fails, or a stored value cannot be read.
    pub async fn append(&mut self, tx: &Tx, at: OffsetDateTime, line: NewEntry<'_>) -> Result<LogLeaf, Error> {
        let row = self.next_entry(at, line)?;
        let leaf = LogLeaf::Entry(leaf::of_entry(&row));
        ledger_entry::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
        Ok(leaf)
    }

    /// Makes the next evidence row, which continues the chain. The caller inserts it.
    ///
    /// # Errors
    /// When the count is out of range.
    pub(super) fn next_entry(&mut self, at: OffsetDateTime, line: NewEntry<'_>) -> Result<ledger_entry::Model, Error> {
        let mut row = ledger_entry::Model {
            account_id: self.row.id,
            sequence: self.row.entries + 1,
            kind: line.kind.to_text(),
            job_id: line.job,
            dataset_id: line.dataset,
            series: line.release.map(|(series, ..)| series.to_owned()),
            round: line.release.map(|(_, round, _)| round as i32),
            attempt: line.release.map(|(.., attempt)| attempt as i32),
            event: line.event.to_owned(),
            count: i64::try_from(line.count).map_err(|error| Error::internal("storing a count", error))?,
            evaluator: EVALUATOR_VERSION.to_owned(),
            receipt: line.receipt.map(str::to_owned),
            previous: self.row.head.clone(),
            hash: String::new(),
            // Databases keep microseconds, the hash covers milliseconds.
            at: at.replace_millisecond(at.millisecond()).unwrap_or(at),
            certificate: line.certificate,
        };
        row.hash = chain::hash(&row);
        self.row.entries = row.sequence;
        self.row.head.clone_from(&row.hash);
        Ok(row)
    }

    /// Writes the account's row.
    pub(crate) async fn save(self, tx: &Tx) -> Result<account::Model, Error> {
        Ok(self.into_row()?.into_active_model().reset_all().update(tx).await?)
    }

    /// Writes the rows of several accounts that have one, in one statement.
    pub(super) async fn save_all(tx: &Tx, accounts: impl IntoIterator<Item = Self>) -> Result<(), Error> {
        use account::Column;
        let rows: Vec<_> = accounts.into_iter().map(Self::into_row).collect::<Result<_, _>>()?;
        if rows.is_empty() {
            return Ok(());
        }
        // Each row exists, so each is updated.
        let update = OnConflict::column(Column::Id)
            .update_columns([Column::Balance, Column::InTheClear, Column::Entries, Column::Head])
            .to_owned();
        let rows = rows.into_iter().map(account::Model::into_active_model);
        account::Entity::insert_many(rows).on_conflict(update).exec_without_returning(tx).await?;
        Ok(())
    }

    fn into_row(self) -> Result<account::Model, Error> {
        Ok(account::Model { balance: to_json(&self.balance)?, ..self.row })
    }
}

/// Returns the account with this key, if there is one.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub async fn find(connection: &impl ConnectionTrait, key: AccountKey) -> Result<Option<account::Model>, Error> {
    Ok(account::Entity::find().filter(is(key)).one(connection).await?)
}

/// Returns the balances of the existing accounts with these keys, in one query.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub async fn balances(
    connection: &impl ConnectionTrait,
    keys: &BTreeSet<AccountKey>,
) -> Result<BTreeMap<AccountKey, Balance>, Error> {
    let rows = of_lineages(connection, keys.iter().map(|key| key.lineage.0).collect()).await?;
    let mut balances = BTreeMap::new();
    for key in keys {
        let is_it = |row: &&account::Model| {
            (row.organization_id, row.lineage_id) == (key.organization.0, key.lineage.0)
                && row.is_for(key.unit, key.adjacency())
                && row.observer == OBSERVER
        };
        if let Some(row) = rows.iter().find(is_it) {
            balances.insert(*key, row.balance()?);
        }
    }
    Ok(balances)
}

/// Returns the account with this key. If there is none, returns one without a budget, which is not stored before
/// [`OpenAccount::begin`].
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub async fn open(ctx: &Ctx, connection: &impl ConnectionTrait, key: AccountKey) -> Result<OpenAccount, Error> {
    if let Some(found) = find(connection, key).await? {
        return OpenAccount::from_row(found);
    }
    let row = account::Model {
        id: ctx.id::<AccountId>().0,
        organization_id: key.organization.0,
        lineage_id: key.lineage.0,
        unit: key.unit.to_text(),
        adjacency: key.adjacency().to_text(),
        observer: OBSERVER.to_owned(),
        balance: to_json(&Balance::new(None))?,
        in_the_clear: 0,
        entries: 0,
        head: chain::origin(),
        created_at: ctx.now(),
    };
    Ok(OpenAccount { balance: row.balance()?, row, new: true })
}

/// Returns the reservations of a dataset in a job with their accounts, that of the protected unit first.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn reserved(
    tx: &Tx,
    job: Uuid,
    dataset: Uuid,
) -> Result<Vec<(reservation::Model, OpenAccount)>, Error> {
    let rows = reservations(tx, [(job, dataset)]).await?;
    rows.into_iter().map(|(reserved, row)| Ok((reserved, OpenAccount::from_row(row)?))).collect()
}

/// Returns the reservations of datasets in jobs with the accounts' rows; those of the protected units first.
pub(super) async fn reservations(
    connection: &impl ConnectionTrait,
    parts: impl IntoIterator<Item = (Uuid, Uuid)>,
) -> Result<Vec<(reservation::Model, account::Model)>, Error> {
    let on =
        reservation::Entity::belongs_to(account::Entity).from(reservation::Column::AccountId).to(account::Column::Id);
    let of_parts = parts.into_iter().fold(Condition::any(), |any, (job, dataset)| {
        any.add(reservation::Column::JobId.eq(job).and(reservation::Column::DatasetId.eq(dataset)))
    });
    let rows = reservation::Entity::find()
        .filter(of_parts)
        .join(JoinType::LeftJoin, on.into())
        .order_by_desc(reservation::Column::Own)
        .order_by_asc(reservation::Column::AccountId)
        .select_also(account::Entity)
        .all(connection)
        .await?;
    let with_account = |(reserved, row): (reservation::Model, Option<account::Model>)| {
        let row =
            row.ok_or_else(|| Error::internal("reading an account", "a reservation names one that is not there"))?;
        Ok((reserved, row))
    };
    rows.into_iter().map(with_account).collect()
}

/// Returns the limited units of a lineage, with the balances of their accounts, in a stable order.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn limited(
    connection: &impl ConnectionTrait,
    organization: OrganizationId,
    lineage: LineageId,
) -> Result<Vec<(PrivacyUnit, Balance)>, Error> {
    let mut all = limited_of(connection, vec![lineage.0]).await?;
    Ok(all.remove(&(organization, lineage)).unwrap_or_default())
}

/// Returns the limited units of several lineages, in one query.
pub(super) async fn limited_of(
    connection: &impl ConnectionTrait,
    lineages: Vec<Uuid>,
) -> Result<BTreeMap<(OrganizationId, LineageId), Vec<(PrivacyUnit, Balance)>>, Error> {
    let mut limited: BTreeMap<(OrganizationId, LineageId), Vec<(PrivacyUnit, Balance)>> = BTreeMap::new();
    for row in of_lineages(connection, lineages).await? {
        let balance: Balance = row.balance()?;
        if balance.budget().is_some() {
            let line = (row.organization_id.into(), row.lineage_id.into());
            limited.entry(line).or_default().push((row.unit()?, balance));
        }
    }
    Ok(limited)
}

/// Returns the accounts of lineages, in a stable order.
pub(crate) async fn of_lineages(
    connection: &impl ConnectionTrait,
    lineages: Vec<Uuid>,
) -> Result<Vec<account::Model>, Error> {
    let rows = account::Entity::find()
        .filter(account::Column::LineageId.is_in(lineages))
        .order_by_asc(account::Column::Unit)
        .order_by_asc(account::Column::Id);
    Ok(rows.all(connection).await?)
}

fn is(key: AccountKey) -> Condition {
    Condition::all()
        .add(account::Column::OrganizationId.eq(key.organization.0))
        .add(account::Column::LineageId.eq(key.lineage.0))
        .add(account::Column::Unit.eq(key.unit.to_text()))
        .add(account::Column::Adjacency.eq(key.adjacency().to_text()))
        .add(account::Column::Observer.eq(OBSERVER))
}
