//! The site's datasets: what lies under `data/`, under which line of versions, and how much of it may be told.
//!
//! What is told of private data are facts that were declared before they were looked at (name, inputs, classes, units) and sizes.
//! A dataset that was prepared as only public data may be is not used under a policy that says otherwise.
//!
//! A lineage is for life, as is its budget: see [`lineage`](super::lineage). Preparing a dataset anew under the same name continues it,
//! because it may hold the same people.

use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use undertone_api::dataset::{Content, Dataset, Registration, SizeClass, Visibility};
use undertone_api::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use undertone_privacy::PrivacyUnit;

use super::folder::{Folder, FolderError, check_name};
use super::lineage::{FingerprintCollector, LineageError, in_order, registered, settle};
use super::policy::Policy;
use super::store::{Store, StoreError};
use crate::dataset_meta::DatasetError;

pub use super::lineage::{lines, note_registered};

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
    /// What it is of.
    pub content: Content,
    /// Where it lies.
    pub folder: PathBuf,
    /// Coefficients in a frame; 0 for queries.
    pub inputs: u32,
    /// Classes of its labels, as declared where it is not public; of queries, which nobody but their owner has read, 0 unless
    /// they are public.
    pub classes: u32,
    /// Training records, exactly: utterances, or occurrences of queries.
    pub records: u64,
    /// Training speakers, exactly; 0 for queries.
    pub speakers: u64,
    /// Test records, exactly.
    pub test_records: u64,
    /// Training users, exactly; absent where there is no column of users.
    pub users: Option<u64>,
    /// Seconds of audio, exactly, rounded up; of recordings only.
    pub seconds: Option<u64>,
    /// The units that its data keep apart, ascending.
    pub units: Vec<PrivacyUnit>,
}

impl Local {
    /// What the server is told of it: sizes only roughly.
    pub fn registration(&self) -> Registration {
        Registration {
            name: self.name.clone(),
            lineage: self.lineage,
            visibility: self.visibility,
            content: self.content,
            inputs: self.inputs,
            classes: self.classes,
            records: SizeClass::of(self.records),
            speakers: SizeClass::of(self.speakers),
            test_records: if self.test_records == 0 { 0 } else { SizeClass::of(self.test_records).0 },
            users: self.users.map(SizeClass::of),
            seconds: self.seconds.map(SizeClass::of),
            units: self.units.clone(),
            approval: None,
        }
    }

    /// The same with the sizes of what lies in its folder now, which may have been replaced since it was found.
    ///
    /// # Errors
    /// [`DatasetError`] where no dataset lies there any more, or one that may not be used under the policy.
    pub fn as_it_lies<D: DatasetDescription>(&self) -> Result<Self, DatasetError> {
        let described = D::read(&self.folder)?;
        described.check_visibility(&self.name, self.visibility)?;
        let Facts { content, inputs, classes, records, speakers, test_records, users, seconds, units } =
            described.into_facts(self.visibility);
        let sizes =
            Self { content, inputs, classes, records, speakers, test_records, users, seconds, units, ..self.clone() };
        Ok(sizes)
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
            content: told.content,
            inputs: told.inputs,
            classes: told.classes,
            records: told.records,
            speakers: told.speakers,
            test_records: told.test_records,
            users: told.users,
            seconds: told.seconds,
            units: told.units,
            approval: None,
            accounts: Vec::new(),
            created_at: OffsetDateTime::UNIX_EPOCH,
        }
    }
}

/// The description of a dataset, of any kind. Which kinds there are is known above this crate.
pub trait DatasetDescription: Sized {
    /// Reads the description of the dataset in `folder`, without opening or checking the content.
    ///
    /// # Errors
    /// [`DatasetError`] if there is none, or if it is of another version.
    fn read(folder: &Path) -> Result<Self, DatasetError>;

    /// Checks that the dataset `name` may be used under the site's policy.
    ///
    /// # Errors
    /// [`DatasetError::PublicOnly`] where it is not public and was prepared as only public data may be.
    fn check_visibility(&self, name: &str, visibility: Visibility) -> Result<(), DatasetError>;

    /// Returns the digest of its content, hexadecimal.
    fn digest(&self) -> &str;

    /// Returns the numbers that a site goes by.
    fn into_facts(self, visibility: Visibility) -> Facts;

    /// Whether the dataset is the source that it was made of.
    fn is_its_source(&self) -> bool;

    /// Takes the fingerprints of sources and people that the dataset in `folder` tells by itself.
    fn derive_fingerprints(&self, folder: &Path, collector: &mut FingerprintCollector);
}

/// The numbers of a description that a site goes by: see the fields of [`Local`].
#[derive(Debug)]
pub struct Facts {
    /// What it is of.
    pub content: Content,
    /// Coefficients in a frame.
    pub inputs: u32,
    /// Classes of its labels.
    pub classes: u32,
    /// Training records.
    pub records: u64,
    /// Training speakers.
    pub speakers: u64,
    /// Test records.
    pub test_records: u64,
    /// Training users.
    pub users: Option<u64>,
    /// Seconds of audio.
    pub seconds: Option<u64>,
    /// The units that its data keep apart, ascending.
    pub units: Vec<PrivacyUnit>,
}

/// A folder under `data/` that is no usable dataset.
#[derive(Debug)]
pub struct Unusable {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub error: UnusableError,
}

/// Why a folder under `data/` is no usable dataset.
#[derive(Debug, thiserror::Error)]
pub enum UnusableError {
    /// It cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Its data may not be charged to accounts of their own.
    #[error(transparent)]
    Lineage(Box<LineageError>),
}

/// Every dataset of the site, by name, and what else lies there.
///
/// # Errors
/// [`DatasetsError`] when folder or database cannot be read.
pub fn scan<D: DatasetDescription>(
    folder: &Folder,
    store: &Store,
    policy: &Policy,
) -> Result<(Vec<Local>, Vec<Unusable>), DatasetsError> {
    let (mut found, mut unusable) = (Vec::new(), Vec::new());
    let mut names = names(&folder.datasets())?;
    // The oldest first: where two have the same data, the one that had them first keeps them.
    let order = store.read(in_order)?;
    names.sort_by_key(|name| order.iter().position(|known| known == name).unwrap_or(usize::MAX));
    for name in names {
        let at = folder.dataset(&name)?;
        let described = match D::read(&at) {
            Ok(described) => described,
            Err(error) => {
                unusable.push(Unusable { name, error: error.into() });
                continue;
            }
        };
        let visibility = policy.rules(&name).visibility;
        if let Err(error) = described.check_visibility(&name, visibility) {
            unusable.push(Unusable { name, error: error.into() });
            continue;
        }
        let lineage = match settle(store, policy, &name, &at, &described) {
            Ok(lineage) => lineage,
            Err(LineageError::Store(error)) => return Err(error.into()),
            Err(LineageError::Entropy(error)) => return Err(DatasetsError::Entropy(error)),
            Err(error) => {
                unusable.push(Unusable { name, error: UnusableError::Lineage(Box::new(error)) });
                continue;
            }
        };
        let Facts { content, inputs, classes, records, speakers, test_records, users, seconds, units } =
            described.into_facts(visibility);
        found.push(Local {
            lineage,
            id: registered(store, &name)?,
            visibility,
            content,
            folder: at,
            inputs,
            classes,
            records,
            speakers,
            test_records,
            users,
            seconds,
            units,
            name,
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
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
