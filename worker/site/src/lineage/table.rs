//! The database tables of lineages: names, keys, fingerprints.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use time::OffsetDateTime;
use undertone_api::id::{DatasetId, LineageId};
use uuid::Uuid;

use super::error::LineageError;
use super::fingerprint::{FingerprintCollector, FingerprintKind, KEY_LENGTH, OrganizationKey};
use super::sketch::{FingerprintSketch, from_bytes};
use crate::clock::{self, format_time};
use crate::store::{Store, StoreError};

fn lineage_id(text: &str) -> Result<LineageId, StoreError> {
    Uuid::parse_str(text).map(LineageId).map_err(StoreError::row)
}

/// Returns the lineage of the dataset called `name`, if it has one.
pub(super) fn of_name(db: &Connection, name: &str) -> Result<Option<LineageId>, StoreError> {
    let sql = "SELECT lineage FROM lineage_join WHERE name = ?1 UNION ALL SELECT lineage FROM lineage WHERE name = ?1";
    let text: Option<String> =
        db.query_row(sql, [name], |row| row.get(0)).optional().map_err(StoreError::sqlite("read a lineage"))?;
    text.as_deref().map(lineage_id).transpose()
}

/// Returns the lineage that `name` denotes in `--continues`: of this site's dataset, otherwise of another worker's.
pub(super) fn find_lineage(db: &Connection, name: &str) -> Result<Option<LineageId>, StoreError> {
    if let Some(own) = of_name(db, name)? {
        return Ok(Some(own));
    }
    let sql = "SELECT lineage FROM lineage_elsewhere WHERE name = ?1 ORDER BY rowid LIMIT 1";
    let text: Option<String> =
        db.query_row(sql, [name], |row| row.get(0)).optional().map_err(StoreError::sqlite("read a lineage"))?;
    text.as_deref().map(lineage_id).transpose()
}

/// Returns every dataset of the site with its lineage. Among several of one lineage, the one that founded it comes
/// last.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn dataset_lineages(store: &Store) -> Result<Vec<(LineageId, String)>, StoreError> {
    store.read(|db| {
        let joined = pairs(db, "SELECT lineage, name FROM lineage_join ORDER BY name")?;
        let founders = pairs(db, "SELECT lineage, name FROM lineage ORDER BY name")?;
        joined.into_iter().chain(founders).map(|(lineage, name)| Ok((lineage_id(&lineage)?, name))).collect()
    })
}

/// Returns the names of the site's datasets: first those that founded a lineage, then those that joined one, each
/// oldest first.
pub(crate) fn in_order(db: &Connection) -> Result<Vec<String>, StoreError> {
    let founders = pairs(db, "SELECT lineage, name FROM lineage ORDER BY rowid")?;
    let joined = pairs(db, "SELECT lineage, name FROM lineage_join ORDER BY rowid")?;
    Ok(founders.into_iter().chain(joined).map(|(_, name)| name).collect())
}

/// Returns the datasets of other workers that a steward imported: lineage, then name and worker.
pub(super) fn other_lineages(db: &Connection) -> Result<BTreeMap<LineageId, (String, String)>, StoreError> {
    let mut statement = db
        .prepare("SELECT lineage, name, worker FROM lineage_elsewhere ORDER BY rowid DESC")
        .map_err(StoreError::sqlite("read lineages"))?;
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)))
        .map_err(StoreError::sqlite("read lineages"))?;
    rows.map(|row| {
        let (lineage, name, worker) = row.map_err(StoreError::sqlite("read lineages"))?;
        Ok((lineage_id(&lineage)?, (name, worker)))
    })
    .collect()
}

fn pairs(db: &Connection, sql: &str) -> Result<Vec<(String, String)>, StoreError> {
    let mut statement = db.prepare(sql).map_err(StoreError::sqlite("read lineages"))?;
    let rows =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(StoreError::sqlite("read lineages"))?;
    rows.collect::<Result<_, _>>().map_err(StoreError::sqlite("read lineages"))
}

/// Begins a lineage with the dataset called `name`.
pub(super) fn begin(tx: &Transaction<'_>, name: &str, lineage: LineageId) -> Result<(), StoreError> {
    tx.execute("INSERT INTO lineage (name, lineage) VALUES (?1, ?2)", params![name, lineage.to_string()])
        .map(drop)
        .map_err(StoreError::sqlite("begin a lineage"))
}

/// Returns whether a dataset of this site founded the lineage.
pub(super) fn is_founded(db: &Connection, lineage: LineageId) -> Result<bool, StoreError> {
    db.query_row("SELECT EXISTS (SELECT 1 FROM lineage WHERE lineage = ?1)", [lineage.to_string()], |row| row.get(0))
        .map_err(StoreError::sqlite("read a lineage"))
}

/// Joins the dataset called `name` to a lineage.
pub(super) fn join(
    tx: &Transaction<'_>,
    name: &str,
    lineage: LineageId,
    continues: &str,
    at: OffsetDateTime,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO lineage_join (name, lineage, continues, at) VALUES (?1, ?2, ?3, ?4)",
        params![name, lineage.to_string(), continues, format_time(at)],
    )
    .map(drop)
    .map_err(StoreError::sqlite("join a lineage"))
}

/// Records a dataset of another worker. Returns false when it is known.
pub(super) fn note_elsewhere(
    tx: &Transaction<'_>,
    lineage: LineageId,
    name: &str,
    worker: &str,
    at: OffsetDateTime,
) -> Result<bool, StoreError> {
    tx.execute(
        "INSERT INTO lineage_elsewhere (lineage, name, worker, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        params![lineage.to_string(), name, worker, format_time(at)],
    )
    .map(|rows| rows > 0)
    .map_err(StoreError::sqlite("note a lineage of another worker"))
}

/// Returns the organization's keys, the oldest first.
pub(super) fn keys(db: &Connection) -> Result<Vec<OrganizationKey>, StoreError> {
    let mut statement =
        db.prepare("SELECT secret FROM organization_key ORDER BY rowid").map_err(StoreError::sqlite("read keys"))?;
    let rows = statement.query_map([], |row| row.get::<_, Vec<u8>>(0)).map_err(StoreError::sqlite("read keys"))?;
    rows.map(|row| {
        let secret = zeroize::Zeroizing::new(row.map_err(StoreError::sqlite("read keys"))?);
        OrganizationKey::from_slice(&secret).ok_or_else(|| StoreError::row("an organization's key is not of 32 bytes"))
    })
    .collect()
}

/// Stores a key. Returns false when it is known.
pub(super) fn add_key(tx: &Transaction<'_>, key: &OrganizationKey, at: OffsetDateTime) -> Result<bool, StoreError> {
    tx.execute(
        "INSERT INTO organization_key (id, secret, at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        params![key.id(), key.as_bytes().as_slice(), format_time(at)],
    )
    .map(|rows| rows > 0)
    .map_err(StoreError::sqlite("keep a key"))
}

/// A row of fingerprints.
#[derive(Debug, Clone)]
pub(super) struct FingerprintRow {
    pub(super) lineage: LineageId,
    pub(super) key: String,
    pub(super) kind: FingerprintKind,
    pub(super) items: Vec<u128>,
}

/// Passes every row of fingerprints to `take`, one at a time, because together they may be large.
pub(super) fn each_fingerprint(
    db: &Connection,
    mut take: impl FnMut(FingerprintRow) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let failed = || StoreError::sqlite("read fingerprints");
    let mut statement = db.prepare("SELECT lineage, key, kind, items FROM fingerprint").map_err(failed())?;
    let mut rows = statement.query([]).map_err(failed())?;
    while let Some(row) = rows.next().map_err(failed())? {
        let [lineage, key, kind]: [String; 3] =
            [row.get(0).map_err(failed())?, row.get(1).map_err(failed())?, row.get(2).map_err(failed())?];
        let bytes: Vec<u8> = row.get(3).map_err(failed())?;
        take(FingerprintRow {
            lineage: lineage_id(&lineage)?,
            key,
            kind: FingerprintKind::parse(&kind)
                .ok_or_else(|| StoreError::row(format!("`{kind}` is no fingerprint")))?,
            items: from_bytes(&bytes).ok_or_else(|| StoreError::row("fingerprints are out of order"))?,
        })?;
    }
    Ok(())
}

/// Returns a number that changes whenever fingerprints or lineages do, because both only grow.
pub(super) fn extent(db: &Connection) -> Result<i64, StoreError> {
    let sql = "SELECT (SELECT COUNT(*) + COALESCE(SUM(LENGTH(items)), 0) FROM fingerprint)
                    + (SELECT COUNT(*) FROM lineage) + (SELECT COUNT(*) FROM lineage_join)";
    db.query_row(sql, [], |row| row.get(0)).map_err(StoreError::sqlite("read fingerprints"))
}

/// Returns whether any fingerprints of the lineage are stored.
pub(super) fn has_fingerprints(db: &Connection, lineage: LineageId) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM fingerprint WHERE lineage = ?1)";
    db.query_row(sql, [lineage.to_string()], |row| row.get(0)).map_err(StoreError::sqlite("read fingerprints"))
}

/// Merges fingerprints into those of a lineage.
pub(super) fn merge(tx: &Transaction<'_>, row: &FingerprintRow) -> Result<(), StoreError> {
    if row.items.is_empty() {
        return Ok(());
    }
    let place = params![row.lineage.to_string(), row.key, row.kind.word()];
    let bytes: Option<Vec<u8>> = tx
        .query_row("SELECT items FROM fingerprint WHERE lineage = ?1 AND key = ?2 AND kind = ?3", place, |row| {
            row.get(0)
        })
        .optional()
        .map_err(StoreError::sqlite("read fingerprints"))?;
    let items = bytes.map(|bytes| from_bytes(&bytes).ok_or_else(|| StoreError::row("fingerprints are out of order")));
    let mut sketch = FingerprintSketch::new(row.kind.most());
    sketch.merge(&items.transpose()?.unwrap_or_default());
    if !sketch.merge(&row.items) {
        return Ok(());
    }
    tx.execute(
        "INSERT INTO fingerprint (lineage, key, kind, items) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (lineage, key, kind) DO UPDATE SET items = excluded.items",
        params![row.lineage.to_string(), row.key, row.kind.word(), sketch.encode()],
    )
    .map(drop)
    .map_err(StoreError::sqlite("keep fingerprints"))
}

/// Merges a collector's fingerprints into those of a lineage.
pub(super) fn merge_all(
    tx: &Transaction<'_>,
    lineage: LineageId,
    collector: &mut FingerprintCollector,
) -> Result<(), StoreError> {
    for of in collector.keyed() {
        let key = of.key.clone();
        for kind in FingerprintKind::ALL {
            let items = of.sketch(kind).items().to_vec();
            merge(tx, &FingerprintRow { lineage, key: key.clone(), kind, items })?;
        }
    }
    Ok(())
}

/// Returns `Some` if the fingerprints of this version of a dataset are stored, with true if its sources are included.
pub(super) fn fingerprint_state(db: &Connection, name: &str, digest: &str) -> Result<Option<bool>, StoreError> {
    db.query_row("SELECT sources FROM fingerprinted WHERE name = ?1 AND digest = ?2", [name, digest], |row| row.get(0))
        .optional()
        .map_err(StoreError::sqlite("read what is fingerprinted"))
}

/// Records that the fingerprints of this version of a dataset are stored.
pub(super) fn note_fingerprinted(
    tx: &Transaction<'_>,
    name: &str,
    digest: &str,
    sources: bool,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO fingerprinted (name, digest, sources) VALUES (?1, ?2, ?3)
         ON CONFLICT (name, digest) DO UPDATE SET sources = MAX(sources, excluded.sources)",
        params![name, digest, sources],
    )
    .map(drop)
    .map_err(StoreError::sqlite("note what is fingerprinted"))
}

/// Returns the server's id of a dataset, once it has one.
pub(crate) fn registration_id(store: &Store, name: &str) -> Result<Option<DatasetId>, StoreError> {
    let text: Option<String> = store.read(|db| {
        db.query_row("SELECT dataset FROM registered_dataset WHERE name = ?1", [name], |row| row.get(0))
            .optional()
            .map_err(StoreError::sqlite("read a registration"))
    })?;
    text.map(|text| text.parse().map_err(StoreError::row)).transpose()
}

/// Records the server's id of a dataset.
///
/// # Errors
/// [`StoreError`] when the database fails, or the id already belongs to another dataset.
pub fn note_registered(store: &Store, name: &str, id: DatasetId) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute(
            "INSERT INTO registered_dataset (name, dataset) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET dataset = excluded.dataset WHERE dataset <> excluded.dataset",
            params![name, id.to_string()],
        )
        .map(drop)
        .map_err(StoreError::sqlite("note a registration"))
    })
}

/// Returns the site's keys and whether one was created because there was none.
pub(super) fn load_keys(store: &Store, now: OffsetDateTime) -> Result<(Vec<OrganizationKey>, bool), LineageError> {
    let existing = store.read(keys)?;
    if !existing.is_empty() {
        return Ok((existing, false));
    }
    let key = OrganizationKey::new(clock::entropy::<KEY_LENGTH>().map_err(LineageError::Entropy)?);
    store.write(|tx| {
        // Another process may have created a key first.
        let stored = keys(tx)?;
        if stored.is_empty() {
            add_key(tx, &key, now)?;
            Ok((vec![key], true))
        } else {
            Ok((stored, false))
        }
    })
}
