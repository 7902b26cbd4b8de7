//! The kinds of datasets of this worker, for the site: see [`undertone_worker_site::datasets`].

use std::path::Path;

use serde::Deserialize;
use undertone_api::dataset::{DatasetContent, Visibility};
use undertone_privacy::PrivacyUnit;

use crate::queries::dataset as queries;
use crate::site::folder::Folder;
use crate::site::lineage::FingerprintCollector;
use crate::site::policy::Policy;
use crate::site::store::Store;
use crate::speech::dataset::{self as speech, DatasetError, META_FILE};
use crate::speech::recordings;
use crate::tables::dataset as tables;

mod declared;
mod fingerprints;

pub use declared::LegacyNotice;
pub use undertone_worker_site::datasets::{
    DatasetDescription, DatasetFacts, DatasetsError, LocalDataset, UnusableError, UnusableFolder, dataset_lineages,
    note_registered,
};

use declared::registered_units;

/// Returns every dataset of the site, by name, and the unusable folders.
///
/// # Errors
/// [`DatasetsError`] when folder or database cannot be read.
pub fn scan(
    folder: &Folder,
    store: &Store,
    policy: &Policy,
) -> Result<(Vec<LocalDataset>, Vec<UnusableFolder>), DatasetsError> {
    undertone_worker_site::datasets::scan::<DatasetMeta>(folder, store, policy)
}

/// Returns the notice for a steward about a dataset that an earlier version prepared, if there is one.
pub fn legacy_notice(local: &LocalDataset) -> Option<LegacyNotice> {
    DatasetMeta::read(&local.folder).ok()?.legacy_notice(local.visibility)
}

/// The description of a dataset, of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum DatasetMeta {
    /// A dataset of speech.
    Speech(Box<speech::Meta>),
    /// A query log.
    Queries(Box<queries::Meta>),
    /// A dataset of recordings.
    Recordings(Box<recordings::Meta>),
    /// A table of rows.
    Table(Box<tables::Meta>),
}

impl DatasetMeta {
    /// Reads the description of the dataset in `folder`, without opening or checking the content.
    ///
    /// # Errors
    /// [`DatasetError`] if there is none, or if it is of another version.
    pub fn read(folder: &Path) -> Result<Self, DatasetError> {
        /// The field that identifies the kind; speech has none.
        #[derive(Deserialize)]
        struct ContentKind {
            #[serde(default)]
            content: DatasetContent,
        }
        let path = folder.join(META_FILE);
        let text = std::fs::read(&path).map_err(DatasetError::io("read", &path))?;
        match serde_json::from_slice(&text) {
            Ok(ContentKind { content: DatasetContent::Queries }) => {
                queries::read_meta(folder).map(Box::new).map(Self::Queries)
            }
            Ok(ContentKind { content: DatasetContent::Recordings }) => {
                recordings::read_meta(folder).map(Box::new).map(Self::Recordings)
            }
            Ok(ContentKind { content: DatasetContent::Table }) => {
                tables::read_meta(folder).map(Box::new).map(Self::Table)
            }
            // An unreadable description too: this reader reports the problem.
            _ => speech::read_meta(folder).map(Box::new).map(Self::Speech),
        }
    }

    /// Reads the description as [`DatasetMeta::read`] does, and checks the whole content once.
    ///
    /// # Errors
    /// [`DatasetError`] that names the file and the problem.
    pub fn check(folder: &Path) -> Result<Self, DatasetError> {
        let meta = Self::read(folder)?;
        match meta {
            Self::Speech(_) => drop(speech::Dataset::open(folder)?),
            Self::Queries(_) => drop(queries::Reader::open(folder)?),
            Self::Recordings(_) => drop(recordings::Recordings::check(folder)?),
            Self::Table(_) => drop(tables::TableReader::open(folder)?),
        }
        Ok(meta)
    }
}

impl DatasetMeta {
    /// Returns the digest of its content, hexadecimal.
    pub fn digest(&self) -> &str {
        match self {
            Self::Speech(meta) => &meta.digest,
            Self::Queries(meta) => &meta.digest,
            Self::Recordings(meta) => &meta.digest,
            Self::Table(meta) => &meta.digest,
        }
    }
}

impl DatasetDescription for DatasetMeta {
    fn read(folder: &Path) -> Result<Self, DatasetError> {
        Self::read(folder)
    }

    fn check_visibility(&self, name: &str, visibility: Visibility) -> Result<(), DatasetError> {
        self.check_visibility(name, visibility)
    }

    fn digest(&self) -> &str {
        self.digest()
    }

    fn into_facts(self, visibility: Visibility) -> DatasetFacts {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        match self {
            Self::Speech(meta) => DatasetFacts {
                content: DatasetContent::Speech,
                inputs: count(meta.inputs),
                classes: count(meta.classes),
                records: meta.train.utterances as u64,
                speakers: meta.train.speakers as u64,
                test_records: meta.test.utterances as u64,
                users: meta.unit_column.is_some().then_some(meta.train.users as u64),
                seconds: None,
                table: None,
                units: registered_units(meta.units, DatasetContent::Speech, meta.unit_column.is_some(), visibility),
            },
            Self::Queries(meta) => DatasetFacts {
                content: DatasetContent::Queries,
                inputs: 0,
                // The number of labels that were read from a private log would reveal its content.
                classes: if visibility == Visibility::Public || meta.has_declared_labels() {
                    count(meta.labels.len())
                } else {
                    0
                },
                records: meta.train.occurrences,
                speakers: 0,
                test_records: meta.test.occurrences,
                users: meta.has_users().then_some(meta.train.users),
                seconds: None,
                table: None,
                units: registered_units(meta.units, DatasetContent::Queries, meta.columns.user.is_some(), visibility),
            },
            Self::Recordings(meta) => DatasetFacts {
                content: DatasetContent::Recordings,
                inputs: 0,
                classes: 0,
                records: meta.recordings.len() as u64,
                speakers: 0,
                test_records: 0,
                users: None,
                seconds: Some(meta.seconds()),
                table: None,
                units: vec![PrivacyUnit::Words],
            },
            Self::Table(meta) => DatasetFacts {
                content: DatasetContent::Table,
                inputs: 0,
                classes: 0,
                records: meta.rows,
                speakers: 0,
                test_records: 0,
                users: Some(meta.units),
                seconds: None,
                table: Some(meta.schema),
                units: vec![PrivacyUnit::User],
            },
        }
    }

    fn is_its_source(&self) -> bool {
        matches!(self, Self::Recordings(_))
    }

    fn derive_fingerprints(&self, folder: &Path, collector: &mut FingerprintCollector) {
        fingerprints::derive_fingerprints(folder, self, collector);
    }
}

#[cfg(test)]
mod tests {
    use undertone_api::dataset::{DatasetContent, SizeClass, Visibility};
    use undertone_privacy::PrivacyUnit;

    use super::scan;
    use crate::fixture::local;
    use crate::queries::dataset::fixture::prepared;
    use crate::site::folder::Folder;
    use crate::site::policy::{Policy, declare};
    use crate::site::store::Store;

    /// Makes 480 usable rows of 48 users, with three labels, and unusable rows.
    fn log() -> String {
        let good = |n: usize| format!("Private query {},patient-{},1,label-{}\n", n % 9, n % 48, n % 3);
        let bad = ["no patient,,1,label-0\n", "half a row\n", "odd count,patient-1,seven,label-0\n"];
        let rows = (0..480).map(good).chain(bad.map(str::to_owned));
        std::iter::once("text,user,count,intent\n".to_owned()).chain(rows).collect()
    }

    #[test]
    fn registration_of_a_query_log_contains_only_size_classes() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        std::fs::create_dir_all(folder.datasets()).expect("the folder is writable");
        let unlabelled = |row: &str| row.rsplit_once(',').map_or(row, |(rest, _)| rest).to_owned() + "\n";
        prepared(&folder.datasets(), "ward", &log().lines().map(unlabelled).collect::<String>());
        prepared(&folder.datasets(), "commons", &log());
        declare(&folder.policy(), "commons", Visibility::Public).expect("the policy is new");
        let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
        let policy = Policy::load(&folder.policy()).expect("it was just written");
        let (datasets, unusable) = scan(&folder, &store, &policy).expect("the folder can be read");
        assert!(unusable.is_empty() && datasets.len() == 2, "{unusable:?}");
        let [commons, ward] = [datasets[0].registration(), datasets[1].registration()];
        assert_eq!(
            (ward.content, ward.records, ward.users),
            (DatasetContent::Queries, SizeClass(500), Some(SizeClass(50)))
        );
        assert_eq!((ward.speakers, ward.inputs, ward.test_records), (SizeClass(1), 0, 0));
        assert_eq!(ward.units, [PrivacyUnit::Record, PrivacyUnit::User]);
        assert_eq!((ward.classes, commons.classes), (0, 3), "labels of public data only");
        // The complete registration: the dataset's name, its lineage, and the values above.
        let json = serde_json::to_string(&ward).expect("it has a JSON form");
        let expected = format!(
            r#"{{"name":"ward","lineage":"{}","visibility":"private","content":"queries","inputs":0,"classes":0,"records":500,"speakers":1,"test_records":0,"users":50,"units":["record","user"]}}"#,
            ward.lineage
        );
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(value(&json), value(&expected));
        let report = std::fs::read_to_string(folder.datasets().join("ward/report.json")).expect("it stays there");
        for secret in ["no patient", "half a row", "seven"] {
            assert!(report.contains(secret) && !json.contains(secret));
        }
    }

    /// Its description has no record of its preparation; current registrations are refused, see [`super::declared`].
    #[test]
    fn labelled_log_of_an_earlier_version_registers_no_class() {
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
        let store = Store::create(&dir.path().join("ledger.db")).expect("the folder is writable");
        let policy = Policy::load(&folder.policy()).expect("it was just written");
        let (datasets, _) = scan(&folder, &store, &policy).expect("the folder can be read");
        assert_eq!((datasets[0].facts.classes, datasets[0].registration().classes), (0, 0));
    }

    #[test]
    fn registration_contains_only_size_classes() {
        let registration = local(Visibility::Private).registration();
        assert_eq!(
            (registration.records, registration.speakers, registration.test_records),
            (SizeClass(500), SizeClass(50), 0)
        );
        let json = serde_json::to_string(&registration).expect("it has a JSON form");
        assert!(!json.contains("480") && !json.contains("48,"), "{json}");
    }

    #[test]
    fn query_log_is_no_speech_dataset() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        prepared(dir.path(), "ward", &log());
        let error = crate::speech::dataset::read_meta(&dir.path().join("ward")).expect_err("it is none").to_string();
        assert!(error.contains("it holds queries, not speech"), "{error}");
    }
}
