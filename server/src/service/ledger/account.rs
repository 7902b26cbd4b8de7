//! An account's row and its rows of evidence: found and written; never decided about. The rules are `privacy`'s.

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, JoinType,
    QueryFilter as _, QueryOrder as _, QuerySelect as _,
};
use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_api::id::{AccountId, LineageId, OrganizationId};
use undertone_api::log::Leaf;
use undertone_privacy::ledger::Balance;
use undertone_privacy::mechanism::EVALUATOR_VERSION;
use undertone_privacy::{Adjacency, PrivacyUnit};
use uuid::Uuid;

use super::chain;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::service::code::{from_json, from_word, to_json, word};
use crate::service::entity::{account, ledger_entry, reservation};
use crate::service::log::leaf;

/// Who sees each party's own messages: the class of observers that all accounts are kept against.
const OBSERVER: &str = "insider";

/// What an account is kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The party.
    pub(crate) organization: OrganizationId,
    /// The line of versions.
    pub(crate) lineage: LineageId,
    /// Who is protected.
    pub(crate) unit: PrivacyUnit,
    /// The relation under whose name the account is kept: always [`Adjacency::account`] of what was charged.
    adjacency: Adjacency,
}

impl Key {
    /// Returns the account to which charges under `adjacency` go.
    pub(crate) const fn new(
        organization: OrganizationId,
        lineage: LineageId,
        unit: PrivacyUnit,
        adjacency: Adjacency,
    ) -> Self {
        Self { organization, lineage, unit, adjacency: adjacency.account() }
    }
}

/// An account in memory, while its transaction is the one writer.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    row: account::Model,
    /// Whether it has no row yet.
    new: bool,
    /// What is spent and reserved.
    pub(crate) balance: Balance,
}

/// What a new row of the ledger says.
#[derive(Debug, Clone)]
pub(crate) struct Line<'a> {
    pub(crate) kind: EntryKind,
    pub(crate) job: Uuid,
    pub(crate) dataset: Uuid,
    /// Series, round and attempt of a commit.
    pub(crate) release: Option<(&'a str, u32, u32)>,
    /// The event as JSON.
    pub(crate) event: &'a str,
    pub(crate) count: u64,
    /// Digest of the receipt of a commit.
    pub(crate) receipt: Option<&'a str>,
}

impl Held {
    fn of(row: account::Model) -> Result<Self, Error> {
        let balance = from_json(&row.balance)?;
        Ok(Self { row, new: false, balance })
    }

    /// Its id.
    pub(crate) const fn id(&self) -> Uuid {
        self.row.id
    }

    /// Counts a release that left in the clear, outside the balance.
    pub(crate) const fn count_in_the_clear(&mut self) {
        self.row.in_the_clear += 1;
    }

    /// Writes a new account's row, so that others can refer to it. Gives what the log must say of that.
    pub(crate) async fn begin(&mut self, tx: &Tx) -> Result<Option<Leaf>, Error> {
        if !self.new {
            return Ok(None);
        }
        self.row = self.row.clone().into_active_model().insert(tx).await?;
        self.new = false;
        Ok(Some(leaf::of_account(&self.row)))
    }

    /// Appends a row of evidence. Gives what the log must say of it.
    pub(crate) async fn append(&mut self, tx: &Tx, at: OffsetDateTime, line: Line<'_>) -> Result<Leaf, Error> {
        let mut row = ledger_entry::Model {
            account_id: self.row.id,
            sequence: self.row.entries + 1,
            kind: word(&line.kind)?,
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
        };
        row.hash = chain::hash(&row);
        self.row.entries = row.sequence;
        self.row.head.clone_from(&row.hash);
        let leaf = Leaf::Entry(leaf::of_entry(&row));
        ledger_entry::Entity::insert(row.into_active_model()).exec_without_returning(tx).await?;
        Ok(leaf)
    }

    /// Writes the projection back.
    pub(crate) async fn save(self, tx: &Tx) -> Result<account::Model, Error> {
        let balance = to_json(&self.balance)?;
        let row = account::Model { balance, ..self.row };
        Ok(row.into_active_model().reset_all().update(tx).await?)
    }
}

/// The account of this key, when there is one.
pub(crate) async fn find(connection: &impl ConnectionTrait, key: Key) -> Result<Option<account::Model>, Error> {
    Ok(account::Entity::find().filter(is(key)?).one(connection).await?)
}

/// The balances of those of these accounts that there are, all at once.
pub(crate) async fn balances(
    connection: &impl ConnectionTrait,
    keys: &BTreeSet<Key>,
) -> Result<BTreeMap<Key, Balance>, Error> {
    let rows = of_lineages(connection, keys.iter().map(|key| key.lineage.0).collect()).await?;
    let mut found = BTreeMap::new();
    for key in keys {
        let (unit, adjacency) = (word(&key.unit)?, word(&key.adjacency)?);
        let is_it = |row: &&account::Model| {
            (row.organization_id, row.lineage_id) == (key.organization.0, key.lineage.0)
                && row.unit == unit
                && row.adjacency == adjacency
                && row.observer == OBSERVER
        };
        if let Some(row) = rows.iter().find(is_it) {
            found.insert(*key, from_json(&row.balance)?);
        }
    }
    Ok(found)
}

/// The account of this key; when there is none, one without a budget, of which nothing is written before [`Held::begin`].
pub(crate) async fn open(ctx: &Ctx, connection: &impl ConnectionTrait, key: Key) -> Result<Held, Error> {
    if let Some(found) = find(connection, key).await? {
        return Held::of(found);
    }
    let row = account::Model {
        id: ctx.id::<AccountId>().0,
        organization_id: key.organization.0,
        lineage_id: key.lineage.0,
        unit: word(&key.unit)?,
        adjacency: word(&key.adjacency)?,
        observer: OBSERVER.to_owned(),
        balance: to_json(&Balance::new(None))?,
        in_the_clear: 0,
        entries: 0,
        head: chain::origin(),
        created_at: ctx.now(),
    };
    Ok(Held { balance: from_json(&row.balance)?, row, new: true })
}

/// The reservations of a dataset in a job with their accounts: that of the unit which the job protects first.
pub(crate) async fn reserved(tx: &Tx, job: Uuid, dataset: Uuid) -> Result<Vec<(reservation::Model, Held)>, Error> {
    let rows = reservations(tx, job, dataset).await?;
    rows.into_iter().map(|(reserved, row)| Ok((reserved, Held::of(row)?))).collect()
}

/// The same with the accounts' rows.
pub(super) async fn reservations(
    connection: &impl ConnectionTrait,
    job: Uuid,
    dataset: Uuid,
) -> Result<Vec<(reservation::Model, account::Model)>, Error> {
    let on =
        reservation::Entity::belongs_to(account::Entity).from(reservation::Column::AccountId).to(account::Column::Id);
    let found = reservation::Entity::find()
        .filter(reservation::Column::JobId.eq(job))
        .filter(reservation::Column::DatasetId.eq(dataset))
        .join(JoinType::LeftJoin, on.into())
        .order_by_desc(reservation::Column::Own)
        .order_by_asc(reservation::Column::AccountId)
        .select_also(account::Entity)
        .all(connection)
        .await?;
    let known = |(reserved, row): (reservation::Model, Option<account::Model>)| {
        let row =
            row.ok_or_else(|| Error::internal("reading an account", "a reservation names one that is not there"))?;
        Ok((reserved, row))
    };
    found.into_iter().map(known).collect()
}

/// The units of a lineage that have a limit, with the balances of their accounts, in a lasting order.
pub(crate) async fn limited(
    connection: &impl ConnectionTrait,
    organization: OrganizationId,
    lineage: LineageId,
) -> Result<Vec<(PrivacyUnit, Balance)>, Error> {
    let mut all = limited_of(connection, vec![lineage.0]).await?;
    Ok(all.remove(&(organization, lineage)).unwrap_or_default())
}

/// The same of several lineages at once.
pub(super) async fn limited_of(
    connection: &impl ConnectionTrait,
    lineages: Vec<Uuid>,
) -> Result<BTreeMap<(OrganizationId, LineageId), Vec<(PrivacyUnit, Balance)>>, Error> {
    let mut limited: BTreeMap<(OrganizationId, LineageId), Vec<(PrivacyUnit, Balance)>> = BTreeMap::new();
    for row in of_lineages(connection, lineages).await? {
        let balance: Balance = from_json(&row.balance)?;
        if balance.budget().is_some() {
            let line = (row.organization_id.into(), row.lineage_id.into());
            limited.entry(line).or_default().push((from_word(&row.unit)?, balance));
        }
    }
    Ok(limited)
}

/// The accounts of lines of versions, in a lasting order.
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

fn is(key: Key) -> Result<sea_orm::sea_query::Condition, Error> {
    Ok(sea_orm::Condition::all()
        .add(account::Column::OrganizationId.eq(key.organization.0))
        .add(account::Column::LineageId.eq(key.lineage.0))
        .add(account::Column::Unit.eq(word(&key.unit)?))
        .add(account::Column::Adjacency.eq(word(&key.adjacency)?))
        .add(account::Column::Observer.eq(OBSERVER)))
}
