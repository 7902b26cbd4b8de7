//! The site's datasets: the content of `data/`, the lineage of each dataset, and the facts that may be disclosed.
//!
//! For private data, the disclosed facts are sizes and facts declared before the data were read (name, inputs, classes,
//! units). A dataset prepared with options for public data is not used under another policy.
//!
//! A lineage and its budget never end: see [`lineage`](super::lineage). A new preparation under the same name continues
//! the lineage, because it may contain the same people.

use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use undertone_api::dataset::{Dataset, DatasetRegistration, SizeClass, Visibility};
use undertone_api::id::{DatasetId, LineageId, OrganizationId, WorkerId};

use super::folder::{Folder, FolderError, check_name};
use super::lineage::error::LineageError;
use super::lineage::settle::settle;
use super::lineage::table::{in_order, registration_id};
use super::policy::Policy;
use super::store::{Store, StoreError};
use crate::dataset_meta::DatasetError;

pub use super::lineage::table::{dataset_lineages, note_registered};
pub use crate::dataset_meta::description::{DatasetDescription, DatasetFacts};

/// Reasons why the datasets of a site cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum DatasetsError {
    /// The folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The database cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system returned no randomness for an id.
    #[error("the operating system gave no randomness for an id")]
    Entropy(#[source] std::io::Error),
}

impl From<DatasetsError> for LineageError {
    fn from(error: DatasetsError) -> Self {
        match error {
            DatasetsError::Folder(error) => Self::Folder(error),
            DatasetsError::Store(error) => Self::Store(error),
            DatasetsError::Entropy(error) => Self::Entropy(error),
        }
    }
}

/// A dataset at this site. Exact counts stay here; only [`LocalDataset::registration`] is disclosed.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalDataset {
    /// The name of the dataset and of its folder.
    pub name: String,
    /// The lineage.
    pub lineage: LineageId,
    /// The server's id; `None` until the dataset is registered.
    pub id: Option<DatasetId>,
    /// The visibility by the site's policy.
    pub visibility: Visibility,
    /// The folder.
    pub folder: PathBuf,
    /// The content and its exact sizes.
    pub facts: DatasetFacts,
}

impl LocalDataset {
    /// Returns the facts disclosed to the server: sizes only as size classes.
    pub fn registration(&self) -> DatasetRegistration {
        let facts = &self.facts;
        DatasetRegistration {
            name: self.name.clone(),
            lineage: self.lineage,
            visibility: self.visibility,
            content: facts.content,
            inputs: facts.inputs,
            classes: facts.classes,
            records: SizeClass::from_count(facts.records),
            speakers: SizeClass::from_count(facts.speakers),
            test_records: if facts.test_records == 0 { 0 } else { SizeClass::from_count(facts.test_records).0 },
            users: facts.users.map(SizeClass::from_count),
            seconds: facts.seconds.map(SizeClass::from_count),
            table: facts.table.clone(),
            units: facts.units.clone(),
            approval: None,
        }
    }

    /// Returns the dataset with the sizes of its folder's present content, which may have been replaced since the scan.
    ///
    /// # Errors
    /// [`DatasetError`] if the folder no longer contains a dataset, or contains one that the policy does not allow.
    pub fn rescan<D: DatasetDescription>(&self) -> Result<Self, DatasetError> {
        let described = D::read(&self.folder)?;
        described.check_visibility(&self.name, self.visibility)?;
        Ok(Self { facts: described.into_facts(self.visibility), ..self.clone() })
    }

    /// Returns the dataset in the form of the contract, from this site's own facts, with the id `id`.
    pub fn to_dataset(&self, id: DatasetId, organization: OrganizationId, worker: WorkerId) -> Dataset {
        let registration = self.registration();
        Dataset {
            id,
            lineage: registration.lineage,
            organization,
            organization_name: String::new(),
            worker,
            name: registration.name,
            visibility: registration.visibility,
            content: registration.content,
            inputs: registration.inputs,
            classes: registration.classes,
            records: registration.records,
            speakers: registration.speakers,
            test_records: registration.test_records,
            users: registration.users,
            seconds: registration.seconds,
            table: registration.table,
            units: registration.units,
            approval: None,
            accounts: Vec::new(),
            created_at: OffsetDateTime::UNIX_EPOCH,
        }
    }
}

/// A folder under `data/` that is not a usable dataset.
#[derive(Debug)]
pub struct UnusableFolder {
    /// The folder's name.
    pub name: String,
    /// The problem.
    pub error: UnusableError,
}

/// Reasons why a folder under `data/` is not a usable dataset.
#[derive(Debug, thiserror::Error)]
pub enum UnusableError {
    /// The dataset cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Accounts of their own are not permitted for the data.
    #[error(transparent)]
    Lineage(Box<LineageError>),
}

/// Returns every dataset of the site, by name, and the unusable folders.
///
/// # Errors
/// [`DatasetsError`] when folder or database cannot be read.
pub fn scan<D: DatasetDescription>(
    folder: &Folder,
    store: &Store,
    policy: &Policy,
) -> Result<(Vec<LocalDataset>, Vec<UnusableFolder>), DatasetsError> {
    let (mut found, mut unusable) = (Vec::new(), Vec::new());
    let mut names = names(&folder.datasets())?;
    // Oldest first: if two datasets have the same data, the older one keeps them.
    let order = store.read(in_order)?;
    names.sort_by_key(|name| order.iter().position(|known| known == name).unwrap_or(usize::MAX));
    for name in names {
        let at = folder.dataset(&name)?;
        let described = match D::read(&at) {
            Ok(described) => described,
            Err(error) => {
                unusable.push(UnusableFolder { name, error: error.into() });
                continue;
            }
        };
        let visibility = policy.rules(&name).visibility;
        if let Err(error) = described.check_visibility(&name, visibility) {
            unusable.push(UnusableFolder { name, error: error.into() });
            continue;
        }
        let lineage = match settle(store, policy, &name, &at, &described) {
            Ok(lineage) => lineage,
            Err(LineageError::Store(error)) => return Err(error.into()),
            Err(LineageError::Entropy(error)) => return Err(DatasetsError::Entropy(error)),
            Err(error) => {
                unusable.push(UnusableFolder { name, error: UnusableError::Lineage(Box::new(error)) });
                continue;
            }
        };
        let id = registration_id(store, &name)?;
        let facts = described.into_facts(visibility);
        found.push(LocalDataset { name, lineage, id, visibility, folder: at, facts });
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
