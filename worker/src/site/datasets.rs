//! The site's datasets: what lies under `data/`, under which line of versions, and how much of it may be told.
//!
//! A line begins when a dataset is first seen under its name and is never made again: its budget is for life. Preparing
//! a dataset anew under the same name continues the line, because it may hold the same people.

use std::path::{Path, PathBuf};

use rusqlite::{OptionalExtension, params};
use time::OffsetDateTime;
use undertone_api::dataset::{Dataset, Registration, SizeClass, Visibility};
use undertone_api::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use uuid::Uuid;

use super::clock;
use super::folder::{Folder, FolderError, check_name};
use super::policy::Policy;
use super::store::{Store, StoreError};
use crate::speech::dataset::{DatasetError, read_meta};

/// Why the datasets of a site cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum DatasetsError {
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The database cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No randomness for an id.
    #[error("the operating system gave no randomness for an id")]
    Entropy(#[source] std::io::Error),
}

/// A dataset at this site. Exact counts stay here; only [`Local::registration`] is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Its name, and that of its folder.
    pub name: String,
    /// Its line of versions.
    pub lineage: LineageId,
    /// The server's id; absent until it is registered.
    pub id: Option<DatasetId>,
    /// Who may learn what, by the site's policy.
    pub visibility: Visibility,
    /// Where it lies.
    pub folder: PathBuf,
    /// Coefficients in a frame.
    pub inputs: u32,
    /// Classes of its labels.
    pub classes: u32,
    /// Training records, exactly.
    pub records: u64,
    /// Training speakers, exactly.
    pub speakers: u64,
    /// Test records, exactly.
    pub test_records: u64,
}

impl Local {
    /// What the server is told of it: sizes only roughly.
    pub fn registration(&self) -> Registration {
        Registration {
            name: self.name.clone(),
            lineage: self.lineage,
            visibility: self.visibility,
            inputs: self.inputs,
            classes: self.classes,
            records: SizeClass::of(self.records),
            speakers: SizeClass::of(self.speakers),
            test_records: if self.test_records == 0 { 0 } else { SizeClass::of(self.test_records).0 },
        }
    }

    /// The dataset as the contract sees it, from this site's own facts, under the id `id`.
    pub fn as_seen(&self, id: DatasetId, organization: OrganizationId, worker: WorkerId) -> Dataset {
        let told = self.registration();
        Dataset {
            id,
            lineage: told.lineage,
            organization,
            organization_name: String::new(),
            worker,
            name: told.name,
            visibility: told.visibility,
            inputs: told.inputs,
            classes: told.classes,
            records: told.records,
            speakers: told.speakers,
            test_records: told.test_records,
            accounts: Vec::new(),
            created_at: OffsetDateTime::UNIX_EPOCH,
        }
    }
}

/// A folder under `data/` that is no usable dataset.
#[derive(Debug)]
pub struct Unusable {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub error: DatasetError,
}

/// Every dataset of the site, by name, and what else lies there.
///
/// # Errors
/// [`DatasetsError`] when folder or database cannot be read.
pub fn scan(folder: &Folder, store: &Store, policy: &Policy) -> Result<(Vec<Local>, Vec<Unusable>), DatasetsError> {
    let (mut found, mut unusable) = (Vec::new(), Vec::new());
    for name in names(&folder.datasets())? {
        let at = folder.dataset(&name)?;
        let meta = match read_meta(&at) {
            Ok(meta) => meta,
            Err(error) => {
                unusable.push(Unusable { name, error });
                continue;
            }
        };
        let lineage = lineage(store, &name)?;
        found.push(Local {
            lineage,
            id: registered(store, lineage)?,
            visibility: policy.rules(&name).visibility,
            folder: at,
            inputs: u32::try_from(meta.inputs).unwrap_or(u32::MAX),
            classes: u32::try_from(meta.classes).unwrap_or(u32::MAX),
            records: meta.train.utterances as u64,
            speakers: meta.train.speakers as u64,
            test_records: meta.test.utterances as u64,
            name,
        });
    }
    Ok((found, unusable))
}

fn names(data: &Path) -> Result<Vec<String>, DatasetsError> {
    if !data.exists() {
        return Ok(Vec::new());
    }
    let read = |error| FolderError::io("read", data)(error);
    let mut names = Vec::new();
    for item in std::fs::read_dir(data).map_err(read)? {
        let item = item.map_err(read)?;
        let name = item.file_name().to_string_lossy().into_owned();
        // Half-written datasets are hidden folders.
        if item.path().is_dir() && check_name(&name).is_ok() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The line of the dataset called `name`; it begins now if it never did.
fn lineage(store: &Store, name: &str) -> Result<LineageId, DatasetsError> {
    let bytes = clock::entropy().map_err(DatasetsError::Entropy)?;
    let new = uuid::Builder::from_random_bytes(bytes).into_uuid();
    let text: String = store.write(|tx| {
        tx.execute(
            "INSERT INTO lineage (name, lineage) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
            params![name, new.to_string()],
        )
        .and_then(|_| tx.query_row("SELECT lineage FROM lineage WHERE name = ?1", [name], |row| row.get(0)))
        .map_err(StoreError::sqlite("begin a line of versions"))
    })?;
    Ok(LineageId(Uuid::parse_str(&text).map_err(StoreError::row)?))
}

/// The names of all lines, for tables.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn lines(store: &Store) -> Result<Vec<(LineageId, String)>, StoreError> {
    store.read(|db| {
        let mut statement =
            db.prepare("SELECT lineage, name FROM lineage ORDER BY name").map_err(StoreError::sqlite("read lines"))?;
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
            .map_err(StoreError::sqlite("read lines"))?;
        rows.map(|row| {
            let (lineage, name) = row.map_err(StoreError::sqlite("read lines"))?;
            Ok((LineageId(Uuid::parse_str(&lineage).map_err(StoreError::row)?), name))
        })
        .collect()
    })
}

/// The server's id of a line, once it has one.
fn registered(store: &Store, lineage: LineageId) -> Result<Option<DatasetId>, StoreError> {
    let text: Option<String> = store.read(|db| {
        db.query_row("SELECT dataset FROM registered WHERE lineage = ?1", [lineage.to_string()], |row| row.get(0))
            .optional()
            .map_err(StoreError::sqlite("read a registration"))
    })?;
    text.map(|text| text.parse().map_err(StoreError::row)).transpose()
}

/// Notes the server's id of a line.
///
/// # Errors
/// [`StoreError`] when the database fails, or the id stands for another line already.
pub fn note_registered(store: &Store, lineage: LineageId, id: DatasetId) -> Result<(), StoreError> {
    store.write(|tx| {
        tx.execute(
            "INSERT INTO registered (lineage, dataset) VALUES (?1, ?2)
             ON CONFLICT (lineage) DO UPDATE SET dataset = excluded.dataset WHERE dataset <> excluded.dataset",
            params![lineage.to_string(), id.to_string()],
        )
        .map(|_| ())
        .map_err(StoreError::sqlite("note a registration"))
    })
}

#[cfg(test)]
mod tests {
    use undertone_api::dataset::{SizeClass, Visibility};
    use undertone_api::id::DatasetId;
    use uuid::Uuid;

    use super::{lineage, lines, note_registered, registered};
    use crate::fixture::local;
    use crate::site::store::Store;

    #[test]
    fn only_rough_sizes_are_told() {
        let told = local(Visibility::Private).registration();
        assert_eq!((told.records, told.speakers, told.test_records), (SizeClass(500), SizeClass(50), 0));
        let json = serde_json::to_string(&told).expect("it has a JSON form");
        assert!(!json.contains("480") && !json.contains("48,"), "{json}");
    }

    #[test]
    fn a_line_begins_once_and_is_found_again() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("ledger.db");
        let first = lineage(&Store::open(&path).expect("the folder is writable"), "ward-7").expect("it begins");
        let store = Store::open(&path).expect("it was just made");
        assert_eq!(lineage(&store, "ward-7").expect("it is there"), first);
        assert_ne!(lineage(&store, "ward-8").expect("it begins"), first);
        assert_eq!(lines(&store).expect("it is there").len(), 2);
    }

    #[test]
    fn one_id_never_stands_for_two_lines() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let store = Store::open(&dir.path().join("ledger.db")).expect("the folder is writable");
        let (one, two) = (lineage(&store, "one").expect("it begins"), lineage(&store, "two").expect("it begins"));
        let id = DatasetId(Uuid::from_u128(1));
        note_registered(&store, one, id).expect("it is free");
        note_registered(&store, one, id).expect("it is the same");
        assert!(note_registered(&store, two, id).is_err());
        assert_eq!(registered(&store, one).expect("it is there"), Some(id));
        assert_eq!(registered(&store, two).expect("it is not"), None);
    }
}
