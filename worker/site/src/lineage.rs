//! Lineages: the datasets that share privacy accounts, whatever their names, locations and preparations.
//!
//! A lifetime budget belongs to people and their records, not to the name of a folder. So a lineage keeps fingerprints
//! of all data that it ever had (`fingerprint`). A dataset that shares data or people with another lineage is rejected
//! until it joins that lineage with `--continues`. `intake` decides this during a preparation, `settle` for folders
//! found under `data/`. `exchange` transfers lineages between an organization's workers in a sealed file, which a
//! steward carries. The server learns a lineage's id and nothing else.
//!
//! Fingerprints do not detect: sound that was lossily coded, cut or resampled before it came here; a query log in
//! another order or with most rows edited; people under other ids; the data of another organization, or of a worker
//! whose lineages were never imported.
//!
//! Two lineages are never merged: both may have spent, and neither account includes the other's spending.
//!
//! To add a kind of data: define its fingerprint in `fingerprint`, and collect it during preparation with a method of
//! [`LineageIntake`].

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
pub use table::{dataset_lineages, note_registered};
pub(super) use table::{in_order, registration_id};

/// Reasons why a dataset cannot have the requested lineage, or any.
#[derive(Debug, thiserror::Error)]
pub enum LineageError {
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The site's folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The policy cannot be read.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The operating system returned no randomness.
    #[error("the operating system gave no randomness for a key or an id")]
    Entropy(#[source] std::io::Error),
    /// The same data already have a budget.
    #[error(
        "{overlap} of these data are in {other} too, whose budget is for life: prepare them with `--continues {}`, so that both are \
         charged to the same accounts, or leave them out{}",
        other.name,
        overlap.hint()
    )]
    Undeclared {
        /// The common data.
        overlap: DataOverlap,
        /// The dataset that has them.
        other: KnownDataset,
    },
    /// The name already has accounts of its own.
    #[error(
        "{overlap} of these data are in {other} too, and `{name}` has accounts of its own already, which no other can join: leave these \
         data out, or prepare them under a new --name with `--continues {}`{}",
        other.name,
        overlap.hint()
    )]
    Apart {
        /// The dataset.
        name: String,
        /// The common data.
        overlap: DataOverlap,
        /// The dataset that has them.
        other: KnownDataset,
    },
    /// The data already have several budgets.
    #[error(
        "these data are partly in {first} and partly in {second}, which have accounts of their own: accounts cannot be joined. Prepare \
         the parts separately, each with the --continues of its own"
    )]
    Several {
        /// The first dataset.
        first: KnownDataset,
        /// The second dataset.
        second: KnownDataset,
    },
    /// Private data would be declared public.
    #[error(
        "{overlap} of these data are in {other} too, which is not public: the same data cannot be both. Leave them out, or change the \
         policy if they are published"
    )]
    Public {
        /// The common data.
        overlap: DataOverlap,
        /// The dataset that has them.
        other: KnownDataset,
    },
    /// The visibility would protect the lineage less under the new name.
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
        /// The visibility of `other`.
        found: &'static str,
    },
    /// The lineage to continue does not exist.
    #[error(
        "--continues {0}: neither this site nor an imported lineage has a dataset of this name; `undertone-worker lineage show` lists them"
    )]
    Unknown(String),
    /// The dataset would leave its lineage.
    #[error(
        "--continues {continues}: `{name}` has accounts of its own already, and what was spent on them stays spent. A dataset never leaves \
         its lineage: choose a new --name, or leave --continues out"
    )]
    Split {
        /// The dataset.
        name: String,
        /// The dataset that it was to continue.
        continues: String,
    },
    /// The folder's lineage differs from that of its name.
    #[error(
        "the data in {path} are of {other}, and `{name}` has accounts of its own: move them to a folder of another name, or prepare `{name}` again"
    )]
    Moved {
        /// The folder.
        path: PathBuf,
        /// The dataset's name.
        name: String,
        /// A dataset of the folder's lineage.
        other: KnownDataset,
    },
}

/// A dataset named in an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDataset {
    /// The dataset's name.
    pub name: String,
    /// The worker that has it; `None` for this worker.
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

/// The common data of two datasets: lower bounds, from fingerprints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataOverlap {
    /// The number of recordings.
    pub recordings: usize,
    /// The number of speakers and users, by id.
    pub people: usize,
    /// The number of runs of eight rows of a query log.
    pub rows: usize,
    /// The number of whole datasets.
    pub datasets: usize,
}

impl DataOverlap {
    fn is_empty(self) -> bool {
        self == Self::default()
    }

    fn add(&mut self, kind: FingerprintKind, count: usize) {
        let place = match kind {
            // A recording has one fingerprint of each kind, but is one recording.
            FingerprintKind::File | FingerprintKind::Audio => &mut self.recordings,
            FingerprintKind::Person => &mut self.people,
            FingerprintKind::Rows => &mut self.rows,
            FingerprintKind::Dataset => &mut self.datasets,
        };
        *place = count.max(*place);
    }

    /// Returns a hint for common ids alone: ids may coincide by chance, contents do not.
    const fn hint(self) -> &'static str {
        if self.people > 0 && self.recordings == 0 && self.rows == 0 && self.datasets == 0 {
            ". Where the same ids name other people, give these ids of their own"
        } else {
            ""
        }
    }
}

impl fmt::Display for DataOverlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phrase = |count: usize, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {many}")),
        };
        let parts = [
            phrase(self.recordings, "recording", "recordings"),
            phrase(self.people, "speaker or user", "speakers or users"),
            phrase(self.rows, "passage of rows", "passages of rows"),
            phrase(self.datasets.min(1), "whole dataset", "whole datasets"),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" and "))
    }
}

/// A lineage as used by the checks.
#[derive(Debug, Clone)]
struct KnownLineage {
    dataset: KnownDataset,
    /// The names and visibilities of its datasets at this site; empty for a lineage of another worker.
    names: Vec<(String, Visibility)>,
}

impl KnownLineage {
    /// Returns whether all datasets are public. Public data have no account, so they may occur in other lineages too.
    fn is_public(&self) -> bool {
        !self.names.is_empty() && self.names.iter().all(|(_, visibility)| *visibility == Visibility::Public)
    }
}

/// Returns every lineage known here.
fn load_lineages(
    db: &Connection,
    store: &[(LineageId, String)],
    policy: &Policy,
) -> Result<BTreeMap<LineageId, KnownLineage>, StoreError> {
    let mut all: BTreeMap<LineageId, KnownLineage> = table::other_lineages(db)?
        .into_iter()
        .map(|(lineage, (name, worker))| {
            (lineage, KnownLineage { dataset: KnownDataset { name, worker: Some(worker) }, names: Vec::new() })
        })
        .collect();
    for (lineage, name) in store {
        let entry = (name.clone(), policy.rules(name).visibility);
        let dataset = KnownDataset { name: name.clone(), worker: None };
        let of = all.entry(*lineage).or_insert_with(|| KnownLineage { dataset: dataset.clone(), names: Vec::new() });
        of.dataset = dataset;
        of.names.push(entry);
    }
    Ok(all)
}

/// Returns the data that a collector shares with each lineage except `own`.
fn overlaps(
    db: &Connection,
    collector: &mut FingerprintCollector,
    own: Option<LineageId>,
) -> Result<BTreeMap<LineageId, DataOverlap>, StoreError> {
    let mut overlaps: BTreeMap<LineageId, DataOverlap> = BTreeMap::new();
    table::each_fingerprint(db, |row| {
        if Some(row.lineage) != own
            && let Some(of) = collector.keyed().iter_mut().find(|of| of.key == row.key)
        {
            let count = count_common(of.sketch(row.kind).items(), &row.items);
            overlaps.entry(row.lineage).or_default().add(row.kind, count);
        }
        Ok(())
    })?;
    overlaps.retain(|_, overlap| !overlap.is_empty());
    Ok(overlaps)
}

/// Decides whether data may have the lineage `line`, from their overlaps with others.
fn judge(
    name: &str,
    visibility: Visibility,
    (own, line): (Option<LineageId>, Option<LineageId>),
    found: &BTreeMap<LineageId, DataOverlap>,
    known: &BTreeMap<LineageId, KnownLineage>,
) -> Result<(), LineageError> {
    let nameless = || KnownDataset { name: "(unknown)".to_owned(), worker: None };
    let dataset = |lineage: &LineageId| known.get(lineage).map_or_else(nameless, |of| of.dataset.clone());
    let others: Vec<(&LineageId, &DataOverlap)> =
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

/// Finds sound files in lineages that are not public, by the hexadecimal digests of their bytes. Returns the first such
/// dataset and the number of files.
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
    let names = dataset_lineages(&store)?;
    let lineages = store.read(|db| load_lineages(db, &names, policy))?;
    let overlaps = store.read(|db| overlaps(db, &mut collector, None))?;
    let somebodys =
        overlaps.into_iter().filter_map(|(lineage, overlap)| Some((lineages.get(&lineage)?, overlap.recordings)));
    Ok(somebodys.filter(|(of, _)| !of.is_public()).map(|(of, count)| (of.dataset.clone(), count)).next())
}

/// Returns the site's keys and whether one was created because there was none.
fn load_keys(store: &Store, now: OffsetDateTime) -> Result<(Vec<OrganizationKey>, bool), LineageError> {
    let keys = store.read(table::keys)?;
    if !keys.is_empty() {
        return Ok((keys, false));
    }
    let key = OrganizationKey::new(super::clock::entropy::<KEY_LENGTH>().map_err(LineageError::Entropy)?);
    store.write(|tx| {
        // Another process may have created a key first.
        let stored = table::keys(tx)?;
        if stored.is_empty() {
            table::add_key(tx, &key, now)?;
            Ok((vec![key], true))
        } else {
            Ok((stored, false))
        }
    })
}

/// Draws the id of a new lineage.
fn new_lineage() -> Result<LineageId, LineageError> {
    let bytes = super::clock::entropy().map_err(LineageError::Entropy)?;
    Ok(LineageId(uuid::Builder::from_random_bytes(bytes).into_uuid()))
}
