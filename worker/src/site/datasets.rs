//! The site's datasets: what lies under `data/`, under which line of versions, and how much of it may be told.
//!
//! What is told of private data are facts that were declared before they were looked at (name, inputs, classes, units) and sizes.
//! A dataset that was prepared as only public data may be is not used under a policy that says otherwise.
//!
//! A lineage is for life, as is its budget: see [`lineage`](super::lineage). Preparing a dataset anew under the same name continues it,
//! because it may hold the same people.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use time::OffsetDateTime;
use undertone_api::dataset::{Content, Dataset, Registration, SizeClass, Visibility};
use undertone_api::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use undertone_privacy::PrivacyUnit;

use super::folder::{Folder, FolderError, check_name};
use super::lineage::{LineageError, in_order, registered, settle};
use super::policy::Policy;
use super::store::{Store, StoreError};
use crate::queries::dataset as queries;
use crate::speech::dataset::{self as speech, DatasetError, META_FILE};
use crate::speech::recordings;

mod declared;

pub use super::lineage::{lines, note_registered};
pub use declared::LegacyNotice;

use declared::told_units;

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
    pub fn as_it_lies(&self) -> Result<Self, DatasetError> {
        let described = Described::read(&self.folder)?;
        described.check_visibility(&self.name, self.visibility)?;
        let Facts { content, inputs, classes, records, speakers, test_records, users, seconds, units } =
            Facts::of(described, self.visibility);
        let sizes =
            Self { content, inputs, classes, records, speakers, test_records, users, seconds, units, ..self.clone() };
        Ok(sizes)
    }

    /// Returns what a steward should know of what lies in its folder, where an earlier version prepared it.
    pub fn legacy_notice(&self) -> Option<LegacyNotice> {
        Described::read(&self.folder).ok()?.legacy_notice(self.visibility)
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

/// The description of a dataset, of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Described {
    /// Of speech.
    Speech(Box<speech::Meta>),
    /// Of queries.
    Queries(Box<queries::Meta>),
    /// Of recordings.
    Recordings(Box<recordings::Meta>),
}

impl Described {
    /// Reads the description of the dataset in `folder`, without opening or checking the content.
    ///
    /// # Errors
    /// [`DatasetError`] if there is none, or if it is of another version.
    pub fn read(folder: &Path) -> Result<Self, DatasetError> {
        /// The one field that tells; speech has none.
        #[derive(Deserialize)]
        struct Kind {
            #[serde(default)]
            content: Content,
        }
        let path = folder.join(META_FILE);
        let text = std::fs::read(&path).map_err(DatasetError::io("read", &path))?;
        match serde_json::from_slice(&text) {
            Ok(Kind { content: Content::Queries }) => queries::read_meta(folder).map(Box::new).map(Self::Queries),
            Ok(Kind { content: Content::Recordings }) => {
                recordings::read_meta(folder).map(Box::new).map(Self::Recordings)
            }
            // Also what cannot be read: it is said of it what is wrong.
            _ => speech::read_meta(folder).map(Box::new).map(Self::Speech),
        }
    }

    /// As [`Described::read`], and reads the content once to see that it is whole.
    ///
    /// # Errors
    /// [`DatasetError`] that names the file and what is wrong with it.
    pub fn check(folder: &Path) -> Result<Self, DatasetError> {
        let described = Self::read(folder)?;
        match described {
            Self::Speech(_) => drop(speech::Dataset::open(folder)?),
            Self::Queries(_) => drop(queries::Reader::open(folder)?),
            Self::Recordings(_) => drop(recordings::Recordings::check(folder)?),
        }
        Ok(described)
    }
}

impl Described {
    /// Returns the digest of its content, hexadecimal.
    pub fn digest(&self) -> &str {
        match self {
            Self::Speech(meta) => &meta.digest,
            Self::Queries(meta) => &meta.digest,
            Self::Recordings(meta) => &meta.digest,
        }
    }
}

/// The numbers of a description that a site goes by.
struct Facts {
    content: Content,
    inputs: u32,
    classes: u32,
    records: u64,
    speakers: u64,
    test_records: u64,
    users: Option<u64>,
    seconds: Option<u64>,
    units: Vec<PrivacyUnit>,
}

impl Facts {
    fn of(described: Described, visibility: Visibility) -> Self {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        match described {
            Described::Speech(meta) => Self {
                content: Content::Speech,
                inputs: count(meta.inputs),
                classes: count(meta.classes),
                records: meta.train.utterances as u64,
                speakers: meta.train.speakers as u64,
                test_records: meta.test.utterances as u64,
                users: meta.unit_column.is_some().then_some(meta.train.users as u64),
                seconds: None,
                units: told_units(meta.units, Content::Speech, meta.unit_column.is_some(), visibility),
            },
            Described::Queries(meta) => Self {
                content: Content::Queries,
                inputs: 0,
                // How many labels a private log has would be a number of its content.
                classes: if visibility == Visibility::Public { count(meta.labels.len()) } else { 0 },
                records: meta.train.occurrences,
                speakers: 0,
                test_records: meta.test.occurrences,
                users: meta.has_users().then_some(meta.train.users),
                seconds: None,
                units: told_units(meta.units, Content::Queries, meta.columns.user.is_some(), visibility),
            },
            Described::Recordings(meta) => Self {
                content: Content::Recordings,
                inputs: 0,
                classes: 0,
                records: meta.recordings.len() as u64,
                speakers: 0,
                test_records: 0,
                users: None,
                seconds: Some(meta.seconds()),
                units: vec![PrivacyUnit::Words],
            },
        }
    }
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
pub fn scan(folder: &Folder, store: &Store, policy: &Policy) -> Result<(Vec<Local>, Vec<Unusable>), DatasetsError> {
    let (mut found, mut unusable) = (Vec::new(), Vec::new());
    let mut names = names(&folder.datasets())?;
    // The oldest first: where two have the same data, the one that had them first keeps them.
    let order = store.read(in_order)?;
    names.sort_by_key(|name| order.iter().position(|known| known == name).unwrap_or(usize::MAX));
    for name in names {
        let at = folder.dataset(&name)?;
        let described = match Described::read(&at) {
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
            Facts::of(described, visibility);
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

#[cfg(test)]
mod tests {
    use undertone_api::dataset::{Content, SizeClass, Visibility};
    use undertone_privacy::PrivacyUnit;

    use super::scan;
    use crate::fixture::local;
    use crate::queries::dataset::fixture::prepared;
    use crate::site::folder::Folder;
    use crate::site::policy::{Policy, declare};
    use crate::site::store::Store;

    /// 480 rows of 48 users that can be used, three labels, and rows that cannot.
    fn log() -> String {
        let good = |n: usize| format!("Private query {},patient-{},1,label-{}\n", n % 9, n % 48, n % 3);
        let bad = ["no patient,,1,label-0\n", "half a row\n", "odd count,patient-1,seven,label-0\n"];
        let rows = (0..480).map(good).chain(bad.map(str::to_owned));
        std::iter::once("text,user,count,intent\n".to_owned()).chain(rows).collect()
    }

    #[test]
    fn of_a_query_log_only_rough_sizes_are_told_and_of_its_rows_nothing() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        std::fs::create_dir_all(folder.datasets()).expect("the folder is writable");
        let unlabelled = |row: &str| row.rsplit_once(',').map_or(row, |(rest, _)| rest).to_owned() + "\n";
        prepared(&folder.datasets(), "ward", &log().lines().map(unlabelled).collect::<String>());
        prepared(&folder.datasets(), "commons", &log());
        declare(&folder.policy(), "commons", Visibility::Public).expect("the policy is new");
        let store = Store::open(&dir.path().join("ledger.db")).expect("the folder is writable");
        let policy = Policy::load(&folder.policy()).expect("it was just written");
        let (found, unusable) = scan(&folder, &store, &policy).expect("the folder can be read");
        assert!(unusable.is_empty() && found.len() == 2, "{unusable:?}");
        let [commons, ward] = [found[0].registration(), found[1].registration()];
        assert_eq!((ward.content, ward.records, ward.users), (Content::Queries, SizeClass(500), Some(SizeClass(50))));
        assert_eq!((ward.speakers, ward.inputs, ward.test_records), (SizeClass(1), 0, 0));
        assert_eq!(ward.units, [PrivacyUnit::Record, PrivacyUnit::User]);
        assert_eq!((ward.classes, commons.classes), (0, 3), "labels of public data only");
        // The whole of what is told: the dataset's name, its line, and the above.
        let json = serde_json::to_string(&ward).expect("it has a JSON form");
        let told = format!(
            r#"{{"name":"ward","lineage":"{}","visibility":"private","content":"queries","inputs":0,"classes":0,"records":500,"speakers":1,"test_records":0,"users":50,"units":["record","user"]}}"#,
            ward.lineage
        );
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(value(&json), value(&told));
        let report = std::fs::read_to_string(folder.datasets().join("ward/report.json")).expect("it stays there");
        for secret in ["no patient", "half a row", "seven"] {
            assert!(report.contains(secret) && !json.contains(secret));
        }
    }

    /// Its description says nothing of how it was prepared; what is told now is refused, see [`super::declared`].
    #[test]
    fn a_labelled_log_of_an_earlier_version_tells_no_label() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        std::fs::create_dir_all(folder.datasets()).expect("the folder is writable");
        let reader = prepared(&folder.datasets(), "ward", &log());
        assert_eq!(reader.meta().labels.len(), 3);
        let mut earlier = serde_json::to_value(reader.meta()).expect("it has a JSON form");
        earlier.as_object_mut().expect("an object").remove("preparation");
        let path = folder.datasets().join("ward/meta.json");
        std::fs::write(path, earlier.to_string()).expect("the folder is writable");
        declare(&folder.policy(), "ward", Visibility::Open).expect("the policy is new");
        let store = Store::open(&dir.path().join("ledger.db")).expect("the folder is writable");
        let policy = Policy::load(&folder.policy()).expect("it was just written");
        let (found, _) = scan(&folder, &store, &policy).expect("the folder can be read");
        assert_eq!((found[0].classes, found[0].registration().classes), (0, 0));
    }

    #[test]
    fn only_rough_sizes_are_told() {
        let told = local(Visibility::Private).registration();
        assert_eq!((told.records, told.speakers, told.test_records), (SizeClass(500), SizeClass(50), 0));
        let json = serde_json::to_string(&told).expect("it has a JSON form");
        assert!(!json.contains("480") && !json.contains("48,"), "{json}");
    }
}
