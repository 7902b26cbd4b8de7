//! Lineages: which datasets share privacy accounts, however they are called, wherever they lie, and whatever was made of them.
//!
//! A lifetime budget belongs to people and their records, not to the name of a folder. So a lineage keeps fingerprints of all data that it
//! ever had (`fingerprint`), and a dataset that shares data or people with another lineage is refused until it joins that lineage by
//! `--continues`. `intake` decides this for data that are being prepared, `settle` for folders that are found under `data/`, `exchange`
//! carries lineages between an organization's workers, sealed, by the hands of a steward. The server learns a lineage's id and nothing else.
//!
//! What no fingerprint finds: sound that was coded with loss, cut or resampled before it came here; a query log in another order or with
//! most rows edited; people under other ids; the data of another organization, or of a worker whose lineages were never imported.
//!
//! Two lineages never become one: each may have spent, and neither account counts the other's part.
//!
//! To add a kind of data: what it is recognized by in `fingerprint`, taken where it is prepared by a method of [`LineageIntake`].

mod exchange;
mod fingerprint;
mod intake;
mod settle;
mod sketch;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use rusqlite::Connection;
use time::OffsetDateTime;
use undertone_api::dataset::Visibility;
use undertone_api::id::LineageId;

use super::datasets::{DatasetDescription, scan};
use super::folder::{Folder, FolderError};
use super::policy::{Policy, PolicyError};
use super::store::{Store, StoreError};
use fingerprint::{FingerprintKind, KEY_LENGTH, OrganizationKey};
use sketch::count_common;

pub use exchange::{
    ExchangeError, ImportedLineages, LineageOwner, LineageSummary, SharedLineages, export, import, summarize, warnings,
};
pub use fingerprint::FingerprintCollector;
pub use intake::{COMPARED, LineageIntake};
pub(super) use settle::settle;
pub use settle::{LineageMarker, has_sources};
pub(super) use table::{in_order, registered};
pub use table::{lines, note_registered};

/// Why a dataset cannot have the lineage that was asked for, or any.
#[derive(Debug, thiserror::Error)]
pub enum LineageError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The site's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// No randomness.
    #[error("the operating system gave no randomness for a key or an id")]
    Entropy(#[source] std::io::Error),
    /// The same data have a budget already.
    #[error(
        "{overlap} of these data are in {other} too, whose budget is for life: prepare them with `--continues {}`, so that both are \
         charged to the same accounts, or leave them out{}",
        other.name,
        overlap.hint()
    )]
    Undeclared {
        /// What is the same.
        overlap: Overlap,
        /// Where.
        other: KnownDataset,
    },
    /// The name has accounts of its own.
    #[error(
        "{overlap} of these data are in {other} too, and `{name}` has accounts of its own already, which no other can join: leave these \
         data out, or prepare them under a new --name with `--continues {}`{}",
        other.name,
        overlap.hint()
    )]
    Apart {
        /// The dataset.
        name: String,
        /// What is the same.
        overlap: Overlap,
        /// Where.
        other: KnownDataset,
    },
    /// The data have several budgets already.
    #[error(
        "these data are partly in {first} and partly in {second}, which have accounts of their own: accounts cannot be joined. Prepare \
         the parts separately, each with the --continues of its own"
    )]
    Several {
        /// One.
        first: KnownDataset,
        /// Another.
        second: KnownDataset,
    },
    /// What is private would be declared public.
    #[error(
        "{overlap} of these data are in {other} too, which is not public: the same data cannot be both. Leave them out, or change the \
         policy if they are published"
    )]
    Public {
        /// What is the same.
        overlap: Overlap,
        /// Where.
        other: KnownDataset,
    },
    /// A lineage would be protected less under another name.
    #[error(
        "`{name}` would be {asked}, and `{other}`, which it continues, is {found}: data of one lineage are protected alike; prepare them \
         with --visibility {found}"
    )]
    Visibility {
        /// The dataset.
        name: String,
        /// Its visibility.
        asked: &'static str,
        /// A dataset of the lineage.
        other: String,
        /// Its visibility.
        found: &'static str,
    },
    /// No such lineage.
    #[error(
        "--continues {0}: neither this site nor an imported lineage has a dataset of this name; `undertone-worker lineage show` lists them"
    )]
    Unknown(String),
    /// The name would leave its lineage.
    #[error(
        "--continues {continues}: `{name}` has accounts of its own already, and what was spent on them stays spent. A dataset never leaves \
         its lineage: choose a new --name, or leave --continues out"
    )]
    Split {
        /// The dataset.
        name: String,
        /// What it was to continue.
        continues: String,
    },
    /// The folder is of another lineage than its name.
    #[error(
        "the data in {path} are of {other}, and `{name}` has accounts of its own: move them to a folder of another name, or prepare `{name}` again"
    )]
    Moved {
        /// The folder.
        path: PathBuf,
        /// The dataset's name.
        name: String,
        /// Whose lineage the folder has.
        other: KnownDataset,
    },
}

/// A dataset that an error names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDataset {
    /// Its name.
    pub name: String,
    /// The worker that has it, where it is not this one.
    pub worker: Option<String>,
}

impl fmt::Display for KnownDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.worker {
            None => write!(f, "the dataset `{}`", self.name),
            Some(worker) => write!(f, "the dataset `{}` of the worker `{worker}`", self.name),
        }
    }
}

/// What two datasets have in common: at least so many, as far as fingerprints tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overlap {
    /// Recordings.
    pub recordings: usize,
    /// Speakers and users, by id.
    pub people: usize,
    /// Runs of eight rows of a query log.
    pub rows: usize,
    /// Whole datasets.
    pub datasets: usize,
}

impl Overlap {
    fn is_empty(self) -> bool {
        self == Self::default()
    }

    fn add(&mut self, kind: FingerprintKind, count: usize) {
        let place = match kind {
            // A recording has one of each; it is one recording.
            FingerprintKind::File | FingerprintKind::Audio => &mut self.recordings,
            FingerprintKind::Person => &mut self.people,
            FingerprintKind::Rows => &mut self.rows,
            FingerprintKind::Dataset => &mut self.datasets,
        };
        *place = count.max(*place);
    }

    /// Ids may be the same by chance; contents are not.
    const fn hint(self) -> &'static str {
        if self.people > 0 && self.recordings == 0 && self.rows == 0 && self.datasets == 0 {
            ". Where the same ids name other people, give these ids of their own"
        } else {
            ""
        }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |count: usize, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {many}")),
        };
        let parts = [
            counted(self.recordings, "recording", "recordings"),
            counted(self.people, "speaker or user", "speakers or users"),
            counted(self.rows, "passage of rows", "passages of rows"),
            counted(self.datasets.min(1), "whole dataset", "whole datasets"),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" and "))
    }
}

/// A lineage as the checks see it.
#[derive(Debug, Clone)]
struct KnownLineage {
    dataset: KnownDataset,
    /// The visibilities of its datasets at this site; empty for one of another worker.
    names: Vec<(String, Visibility)>,
}

impl KnownLineage {
    /// Public data have no account: whether they are somewhere else too does not matter.
    fn is_public(&self) -> bool {
        !self.names.is_empty() && self.names.iter().all(|(_, visibility)| *visibility == Visibility::Public)
    }
}

/// Every lineage that is known here.
fn known(
    db: &Connection,
    store: &[(LineageId, String)],
    policy: &Policy,
) -> Result<BTreeMap<LineageId, KnownLineage>, StoreError> {
    let mut all: BTreeMap<LineageId, KnownLineage> = table::elsewhere(db)?
        .into_iter()
        .map(|(lineage, (name, worker))| {
            (lineage, KnownLineage { dataset: KnownDataset { name, worker: Some(worker) }, names: Vec::new() })
        })
        .collect();
    for (lineage, name) in store {
        let named = (name.clone(), policy.rules(name).visibility);
        let dataset = KnownDataset { name: name.clone(), worker: None };
        let of = all.entry(*lineage).or_insert_with(|| KnownLineage { dataset: dataset.clone(), names: Vec::new() });
        of.dataset = dataset;
        of.names.push(named);
    }
    Ok(all)
}

/// Returns what a collector shares with each lineage but `own`.
fn overlaps(
    db: &Connection,
    collector: &mut FingerprintCollector,
    own: Option<LineageId>,
) -> Result<BTreeMap<LineageId, Overlap>, StoreError> {
    let mut found: BTreeMap<LineageId, Overlap> = BTreeMap::new();
    table::each_fingerprint(db, |row| {
        if Some(row.lineage) != own
            && let Some(of) = collector.keyed().iter_mut().find(|of| of.key == row.key)
        {
            let count = count_common(of.sketch(row.kind).items(), &row.items);
            found.entry(row.lineage).or_default().add(row.kind, count);
        }
        Ok(())
    })?;
    found.retain(|_, overlap| !overlap.is_empty());
    Ok(found)
}

/// Whether data that are to be of lineage `line` may be, by what they share with others.
fn judge(
    name: &str,
    visibility: Visibility,
    (own, line): (Option<LineageId>, Option<LineageId>),
    found: &BTreeMap<LineageId, Overlap>,
    known: &BTreeMap<LineageId, KnownLineage>,
) -> Result<(), LineageError> {
    let nameless = || KnownDataset { name: "(unknown)".to_owned(), worker: None };
    let dataset = |lineage: &LineageId| known.get(lineage).map_or_else(nameless, |of| of.dataset.clone());
    let others: Vec<(&LineageId, &Overlap)> =
        found.iter().filter(|(lineage, _)| !known.get(lineage).is_some_and(KnownLineage::is_public)).collect();
    let shared: BTreeSet<LineageId> = others.iter().map(|(lineage, _)| **lineage).chain(line).collect();
    let mut shared = shared.iter();
    match others.first() {
        None => Ok(()),
        Some((other, overlap)) if visibility == Visibility::Public => {
            Err(LineageError::Public { overlap: **overlap, other: dataset(other) })
        }
        Some((other, overlap)) if own.is_some() => {
            Err(LineageError::Apart { name: name.to_owned(), overlap: **overlap, other: dataset(other) })
        }
        Some((other, overlap)) => match (shared.next(), shared.next()) {
            (Some(first), Some(second)) => {
                Err(LineageError::Several { first: dataset(first), second: dataset(second) })
            }
            _ => Err(LineageError::Undeclared { overlap: **overlap, other: dataset(other) }),
        },
    }
}

/// Finds sound files, by the hexadecimal digests of their bytes, in a lineage that is not public: its first dataset, and how many.
///
/// # Errors
/// [`LineageError`] when the site's database or folder fails.
pub fn find_recordings<'a, D: DatasetDescription>(
    folder: &Folder,
    policy: &Policy,
    digests: impl Iterator<Item = &'a str>,
) -> Result<Option<(KnownDataset, usize)>, LineageError> {
    let store = Store::open_or_begin(folder)?;
    scan::<D>(folder, &store, policy).map_err(settle::from_scan)?;
    let mut collector = FingerprintCollector::new(&store.read(table::keys)?);
    digests.filter_map(|digest| hex::decode(digest).ok()).for_each(|digest| collector.add_file(&digest));
    let names = lines(&store)?;
    let known = store.read(|db| known(db, &names, policy))?;
    let found = store.read(|db| overlaps(db, &mut collector, None))?;
    let somebodys = found.into_iter().filter_map(|(lineage, overlap)| Some((known.get(&lineage)?, overlap.recordings)));
    Ok(somebodys.filter(|(of, _)| !of.is_public()).map(|(of, count)| (of.dataset.clone(), count)).next())
}

/// Returns the site's keys, after making one where there is none, and whether it did.
fn load_keys(store: &Store, now: OffsetDateTime) -> Result<(Vec<OrganizationKey>, bool), LineageError> {
    let keys = store.read(table::keys)?;
    if !keys.is_empty() {
        return Ok((keys, false));
    }
    let key = OrganizationKey::new(super::clock::entropy::<KEY_LENGTH>().map_err(LineageError::Entropy)?);
    store.write(|tx| {
        // Another process may have been here first.
        let known = table::keys(tx)?;
        if known.is_empty() {
            table::add_key(tx, &key, now)?;
            Ok((vec![key], true))
        } else {
            Ok((known, false))
        }
    })
}

/// Draws the id of a new lineage.
fn new_lineage() -> Result<LineageId, LineageError> {
    let bytes = super::clock::entropy().map_err(LineageError::Entropy)?;
    Ok(LineageId(uuid::Builder::from_random_bytes(bytes).into_uuid()))
}
