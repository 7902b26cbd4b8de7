//! Transfers lineages between an organization's workers in one sealed file, which a steward carries.
//!
//! The file contains the organization's keys and, for every lineage that is not public, its id, the names of its
//! datasets and its fingerprints. It never passes through the server, which could infer from equal fingerprints which
//! datasets share people. It is sealed with a passphrase in the `age` format. A person who opens it can test ids of
//! people against it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_api::dataset::Visibility;
use undertone_api::id::{LineageId, OrganizationId};

use super::error::LineageError;
use super::fingerprint::{FingerprintKind, OrganizationKey};
use super::known_lineage::{KnownLineage, load_lineages};
use super::overlap::{DataOverlap, KnownDataset};
use super::sketch::{FingerprintSketch, count_common, from_bytes};
use super::table::{self, FingerprintRow, dataset_lineages, load_keys};
use crate::config::ConfigError;
use crate::dataset_meta::description::DatasetDescription;
use crate::datasets::scan;
use crate::folder::{Folder, FolderError, sync_folder};
use crate::passphrase::seal_with;
use crate::policy::{Policy, PolicyError};
use crate::store::{Store, StoreError};

/// The name of the format.
const FORMAT: &str = "undertone/lineages/1";
/// The largest unsealed size of a file, bytes.
const LARGEST: u64 = 1 << 30;
/// The highest number of keys of an organization: one for each of its workers that began on its own.
pub(super) const MOST_KEYS: usize = 8;

/// Reasons why lineages are not exported or imported.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The lineages of this site failed.
    #[error(transparent)]
    Lineage(#[from] LineageError),
    /// The configuration failed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file already exists.
    #[error("{0} is there already: name a file that is not")]
    Exists(PathBuf),
    /// The passphrase does not open the file, or it is another kind of file.
    #[error("{path} is no file of lineages that this passphrase opens: {problem}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The file belongs to another organization.
    #[error(
        "{path} holds the lineages of another organization: fingerprints are compared within one organization only"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The site would have too many keys.
    #[error(
        "with {path} this site would have {found} keys of the organization, at most {MOST_KEYS}: export from a worker that has them all"
    )]
    Keys {
        /// The file.
        path: PathBuf,
        /// The number of keys.
        found: usize,
    },
}

impl From<StoreError> for ExchangeError {
    fn from(error: StoreError) -> Self {
        Self::Lineage(error.into())
    }
}

impl From<FolderError> for ExchangeError {
    fn from(error: FolderError) -> Self {
        Self::Lineage(error.into())
    }
}

impl From<PolicyError> for ExchangeError {
    fn from(error: PolicyError) -> Self {
        Self::Lineage(error.into())
    }
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineageFile {
    format: String,
    organization: OrganizationId,
    keys: Vec<String>,
    lineages: Vec<FileLineage>,
}

/// A lineage in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLineage {
    id: LineageId,
    /// Its datasets, each with its worker.
    datasets: Vec<(String, String)>,
    /// Key, kind, and fingerprints in base64.
    fingerprints: Vec<(String, FingerprintKind, String)>,
}

/// The result of an import, in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportedLineages {
    /// The number of lineages in the file.
    pub lineages: usize,
    /// The number of keys that are new here.
    pub keys: usize,
    /// The number of datasets that were unknown here.
    pub datasets: usize,
    /// Lineages of this site and of others that share data although each has its own accounts.
    pub shared: SharedLineages,
}

/// The worker that exports or imports lineages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineageOwner {
    /// The worker's name.
    pub worker: String,
    /// Its organization.
    pub organization: OrganizationId,
}

/// Writes the organization's keys and the lineages that are not public to `file`, sealed. Returns the number of
/// lineages.
///
/// # Errors
/// [`ExchangeError`]. In that case no new file exists.
pub fn export<D: DatasetDescription>(
    owner: &LineageOwner,
    folder: &Folder,
    file: &Path,
    passphrase: SecretString,
    now: OffsetDateTime,
) -> Result<usize, ExchangeError> {
    if file.exists() {
        return Err(ExchangeError::Exists(file.to_owned()));
    }
    let (store, policy) = (Store::open_or_begin(folder)?, Policy::load(&folder.policy())?);
    let (keys, _) = load_keys(&store, now)?;
    scan::<D>(folder, &store, &policy).map_err(LineageError::from)?;
    let mut all: BTreeMap<LineageId, FileLineage> = BTreeMap::new();
    let of = |id| FileLineage { id, datasets: Vec::new(), fingerprints: Vec::new() };
    for (lineage, (name, worker)) in store.read(table::other_lineages)? {
        all.entry(lineage).or_insert_with(|| of(lineage)).datasets.push((name, worker));
    }
    for (lineage, name) in dataset_lineages(&store)? {
        if policy.rules(&name).visibility != Visibility::Public {
            all.entry(lineage).or_insert_with(|| of(lineage)).datasets.push((name, owner.worker.clone()));
        }
    }
    store.read(|db| {
        table::each_fingerprint(db, |row| {
            if let Some(lineage) = all.get_mut(&row.lineage) {
                let bytes: Vec<u8> = row.items.iter().flat_map(|item| item.to_be_bytes()).collect();
                lineage.fingerprints.push((row.key, row.kind, STANDARD.encode(bytes)));
            }
            Ok(())
        })
    })?;
    let lineages = all.len();
    let content = LineageFile {
        format: FORMAT.to_owned(),
        organization: owner.organization,
        keys: keys.iter().map(|key| hex::encode(key.as_bytes())).collect(),
        lineages: all.into_values().collect(),
    };
    let text = serde_json::to_vec(&content).map_err(|error| StoreError::row(error.to_string()))?;
    seal(file, &text, passphrase)?;
    Ok(lineages)
}

fn seal(file: &Path, text: &[u8], passphrase: SecretString) -> Result<(), ExchangeError> {
    let part = file.with_file_name(format!(".{}.part", file.file_name().unwrap_or_default().to_string_lossy()));
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let out = options.open(&part).map_err(FolderError::io("create", &part))?;
    let written = seal_with(passphrase)
        .and_then(|sealing| sealing.wrap_output(&out))
        .and_then(|mut sealed| sealed.write_all(text).map(|()| sealed))
        .and_then(age::stream::StreamWriter::finish)
        .and_then(|_| out.sync_all());
    written.map_err(FolderError::io("write", &part))?;
    fs::rename(&part, file).map_err(FolderError::io("rename", &part))?;
    Ok(sync_folder(file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))?)
}

/// Imports the lineages of another worker of the organization.
///
/// # Errors
/// [`ExchangeError`]. In that case nothing was imported.
pub fn import<D: DatasetDescription>(
    owner: &LineageOwner,
    folder: &Folder,
    file: &Path,
    passphrase: SecretString,
    now: OffsetDateTime,
) -> Result<ImportedLineages, ExchangeError> {
    let content = open(file, passphrase)?;
    if content.organization != owner.organization {
        return Err(ExchangeError::Foreign { path: file.to_owned() });
    }
    let broken = |problem: &str| ExchangeError::Broken { path: file.to_owned(), problem: problem.to_owned() };
    let mut keys = Vec::new();
    for text in &content.keys {
        let key = hex::decode(text).ok().and_then(|bytes| OrganizationKey::from_slice(&bytes));
        keys.push(key.ok_or_else(|| broken("a key is not of 32 bytes"))?);
    }
    let mut rows = Vec::new();
    for lineage in &content.lineages {
        for (key, kind, text) in &lineage.fingerprints {
            let items = STANDARD.decode(text).ok().and_then(|bytes| from_bytes(&bytes));
            let items = items.ok_or_else(|| broken("fingerprints are out of order"))?;
            rows.push(FingerprintRow { lineage: lineage.id, key: key.clone(), kind: *kind, items });
        }
    }
    let (store, policy) = (Store::open_or_begin(folder)?, Policy::load(&folder.policy())?);
    // The site's datasets receive their lineages before any is imported.
    scan::<D>(folder, &store, &policy).map_err(LineageError::from)?;
    let mut imported = ImportedLineages { lineages: content.lineages.len(), ..ImportedLineages::default() };
    store.write(|tx| {
        for key in &keys {
            imported.keys += usize::from(table::add_key(tx, key, now)?);
        }
        let count = table::keys(tx)?.len();
        if count > MOST_KEYS {
            return Err(ExchangeError::Keys { path: file.to_owned(), found: count });
        }
        for lineage in &content.lineages {
            for (name, worker) in &lineage.datasets {
                let own = *worker == owner.worker && table::of_name(tx, name)? == Some(lineage.id);
                if !own {
                    let new = table::note_elsewhere(tx, lineage.id, name, worker, now)?;
                    imported.datasets += usize::from(new);
                }
            }
        }
        rows.iter().try_for_each(|row| Ok::<_, ExchangeError>(table::merge(tx, row)?))
    })?;
    imported.shared = shared(&store, &policy)?;
    Ok(imported)
}

fn open(file: &Path, passphrase: SecretString) -> Result<LineageFile, ExchangeError> {
    let broken = |problem: String| ExchangeError::Broken { path: file.to_owned(), problem };
    let whole = BufReader::new(fs::File::open(file).map_err(FolderError::io("read", file))?);
    let sealed = age::Decryptor::new_buffered(whole).map_err(|error| broken(error.to_string()))?;
    let identity = age::scrypt::Identity::new(passphrase);
    let plain =
        sealed.decrypt(std::iter::once(&identity as &dyn age::Identity)).map_err(|error| broken(error.to_string()))?;
    let content: LineageFile =
        serde_json::from_reader(BufReader::new(plain.take(LARGEST))).map_err(|error| broken(error.to_string()))?;
    if content.format == FORMAT {
        Ok(content)
    } else {
        Err(broken(format!("it is of the form `{}`, this worker reads `{FORMAT}`", content.format)))
    }
}

/// Pairs of lineages that share data although each has accounts of its own.
pub type SharedLineages = Vec<(KnownDataset, KnownDataset, DataOverlap)>;

/// Returns the pairs of lineages that share data although each has accounts of its own, and the number of the
/// organization's keys here.
///
/// # Errors
/// [`LineageError`] when the database fails.
pub fn warnings(store: &Store, policy: &Policy) -> Result<(SharedLineages, usize), LineageError> {
    Ok((shared(store, policy)?, store.read(table::keys)?.len()))
}

/// Returns pairs of lineages that share data although each has accounts of its own, neither of them public.
fn shared(store: &Store, policy: &Policy) -> Result<SharedLineages, LineageError> {
    let names = dataset_lineages(store)?;
    let lineages = store.read(|db| load_lineages(db, &names, policy))?;
    let is_public = |lineage: &LineageId| lineages.get(lineage).is_some_and(KnownLineage::is_public);
    let mut all: Vec<FingerprintRow> = Vec::new();
    let mut overlaps: BTreeMap<(LineageId, LineageId), DataOverlap> = BTreeMap::new();
    store.read(|db| {
        table::each_fingerprint(db, |row| {
            if is_public(&row.lineage) {
                return Ok(());
            }
            let same = |other: &&FingerprintRow| {
                other.lineage != row.lineage && other.kind == row.kind && other.key == row.key
            };
            for other in all.iter().filter(same) {
                let pair = (row.lineage.min(other.lineage), row.lineage.max(other.lineage));
                overlaps.entry(pair).or_default().add(row.kind, count_common(&row.items, &other.items));
            }
            all.push(row);
            Ok(())
        })
    })?;
    let dataset = |lineage: &LineageId| lineages.get(lineage).map(|of| of.dataset.clone());
    Ok(overlaps
        .into_iter()
        .filter(|(_, overlap)| !overlap.is_empty())
        .filter_map(|((one, other), overlap)| Some((dataset(&one)?, dataset(&other)?, overlap)))
        .collect())
}

/// A lineage, for display at the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineageSummary {
    /// Its id, as known to the server.
    pub id: LineageId,
    /// Its datasets, beginning with the one that founded it.
    pub datasets: Vec<KnownDataset>,
    /// The numbers of known recordings, people and runs of rows; lower bounds where `is_sample`.
    pub counts: DataOverlap,
    /// Whether it had more fingerprints of one kind than are stored.
    pub is_sample: bool,
}

/// Returns the lineages that the site knows, and the ids of its organization's keys.
///
/// # Errors
/// [`StoreError`] when the database fails.
pub fn summarize(store: &Store) -> Result<(Vec<LineageSummary>, Vec<String>), StoreError> {
    let keys: Vec<String> = store.read(table::keys)?.iter().map(OrganizationKey::id).collect();
    let mut all: BTreeMap<LineageId, LineageSummary> = BTreeMap::new();
    let of = |id| LineageSummary { id, datasets: Vec::new(), counts: DataOverlap::default(), is_sample: false };
    for (lineage, name) in dataset_lineages(store)?.into_iter().rev() {
        let dataset = KnownDataset { name, worker: None };
        all.entry(lineage).or_insert_with(|| of(lineage)).datasets.push(dataset);
    }
    for (lineage, (name, worker)) in store.read(table::other_lineages)? {
        let dataset = KnownDataset { name, worker: Some(worker) };
        all.entry(lineage).or_insert_with(|| of(lineage)).datasets.push(dataset);
    }
    store.read(|db| {
        table::each_fingerprint(db, |row| {
            if let Some(lineage) = all.get_mut(&row.lineage) {
                lineage.counts.add(row.kind, row.items.len());
                let mut sketch = FingerprintSketch::new(row.kind.most());
                sketch.merge(&row.items);
                lineage.is_sample |= sketch.is_full();
            }
            Ok(())
        })
    })?;
    Ok((all.into_values().collect(), keys))
}
