//! The permitted uses of a dataset under the site's policy, by the record of its preparation.

use undertone_api::dataset::{DatasetContent, Visibility, usual_units};
use undertone_privacy::PrivacyUnit;

use super::DatasetMeta;
use crate::speech::dataset::{DatasetError, PreparationRecord};

impl DatasetMeta {
    /// Returns the record of its preparation; `None` for recordings and tables, and for datasets that earlier versions prepared.
    fn preparation(&self) -> Option<&PreparationRecord> {
        match self {
            Self::Speech(meta) => meta.preparation.as_ref(),
            Self::Queries(meta) => meta.preparation.as_ref(),
            Self::Recordings(_) | Self::Table(_) => None,
        }
    }

    /// Checks that the dataset `name` may be used under the site's policy.
    ///
    /// # Errors
    /// [`DatasetError::PublicOnly`] if it is not public and was prepared by rules for public data only.
    pub fn check_visibility(&self, name: &str, visibility: Visibility) -> Result<(), DatasetError> {
        let conflict = self.preparation().and_then(|record| record.conflict_with(visibility));
        conflict.map_or(Ok(()), |cause| Err(DatasetError::PublicOnly { name: name.to_owned(), cause }))
    }

    /// Returns the notice for a steward about a dataset that an earlier version prepared; `None` without one.
    ///
    /// The dataset stays in use: its number of classes is already registered, and is sent again only if it changes.
    pub fn legacy_notice(&self, visibility: Visibility) -> Option<LegacyNotice> {
        match self {
            Self::Speech(meta) if visibility != Visibility::Public && meta.preparation.is_none() => {
                Some(LegacyNotice { classes: meta.classes })
            }
            _ => None,
        }
    }
}

/// The notice about private speech from before preparations recorded their computations across units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "was prepared by an earlier version, which counted undeclared classes in the labels and did not record --least-frames, \
     --phone-frames, --first, --skip and --speaker-range: the server knows its {classes} classes, and if the command had one of \
     these options, one recording may have changed others"
)]
pub struct LegacyNotice {
    /// Its number of classes.
    pub classes: usize,
}

impl LegacyNotice {
    /// Returns the remedy.
    pub fn remedy(&self) -> String {
        format!("prepare it again: `data prepare --replace --classes {}` with its other options", self.classes)
    }
}

/// Returns the registered units of a dataset: those that its description distinguishes. Public data need no protection
/// and may distinguish none; their own units are registered then.
pub(super) fn registered_units(
    units: Vec<PrivacyUnit>,
    content: DatasetContent,
    has_users: bool,
    visibility: Visibility,
) -> Vec<PrivacyUnit> {
    if visibility != Visibility::Public || !units.is_empty() {
        return units;
    }
    let usual = if content == DatasetContent::Queries { vec![PrivacyUnit::Record] } else { usual_units() };
    usual.into_iter().chain(has_users.then_some(PrivacyUnit::User)).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use undertone_api::dataset::{Visibility, usual_units};
    use undertone_privacy::PrivacyUnit;

    use super::*;
    use crate::queries::dataset::fixture::prepared;
    use crate::site::datasets::scan;
    use crate::site::folder::Folder;
    use crate::site::policy::{Policy, declare};
    use crate::site::store::Store;
    use crate::speech::dataset::{ClassSource, Description, META_FILE, Meta, Split, Writer};
    use crate::speech::features::Treatment;

    /// Writes a dataset of one utterance with this preparation.
    fn write(folder: &Folder, name: &str, preparation: PreparationRecord) -> Meta {
        let description = Description {
            name: name.to_owned(),
            inputs: 1,
            classes: 7,
            sample_rate: 16_000,
            features: "one number".to_owned(),
            treatment: Treatment::default(),
            unit_column: None,
            preparation,
            labels: "seven classes".to_owned(),
            created: String::new(),
        };
        let mut writer = Writer::create(&folder.dataset(name).unwrap(), description).unwrap();
        writer.push("a-1", "anna", Split::Train, &[0.5], &[6]).unwrap();
        writer.finish(|_| serde_json::Value::Null).unwrap()
    }

    fn site(dir: &Path) -> Folder {
        let folder = Folder::new(dir);
        std::fs::create_dir_all(folder.datasets()).unwrap();
        folder
    }

    /// Returns the names of usable datasets, each with its units, and the problems of the others.
    fn scan_units(folder: &Folder) -> (Vec<(String, Vec<PrivacyUnit>)>, Vec<String>) {
        let store = Store::create(&folder.ledger()).unwrap();
        let (datasets, unusable) = scan(folder, &store, &Policy::load(&folder.policy()).unwrap()).unwrap();
        let units = datasets.into_iter().map(|local| (local.name.clone(), local.registration().units)).collect();
        (units, unusable.into_iter().map(|unusable| unusable.error.to_string()).collect())
    }

    #[test]
    fn private_data_prepared_as_public_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = site(dir.path());
        let across = |option: &str| PreparationRecord { across_units: vec![option.to_owned()], ..Default::default() };
        write(&folder, "declared", PreparationRecord::default());
        write(&folder, "frequent", across("--least-frames"));
        write(&folder, "labels", PreparationRecord { class_source: ClassSource::Labels, ..Default::default() });
        prepared(&folder.datasets(), "log", "text,intent\nhello,greeting\n");
        for name in ["declared", "frequent", "labels", "log"] {
            declare(&folder.policy(), name, Visibility::Public).unwrap();
        }
        let (public, complaints) = scan_units(&folder);
        assert_eq!(complaints, [""; 0]);
        assert_eq!(
            public.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["declared", "frequent", "labels", "log"]
        );
        // The units of public data are those present in the data; none is protected.
        assert_eq!((&public[1].1, &public[3].1), (&usual_units(), &vec![PrivacyUnit::Record]));
        for visibility in ["private", "open"] {
            let policy =
                std::fs::read_to_string(folder.policy()).unwrap().replace("\"public\"", &format!("{visibility:?}"));
            let elsewhere = tempfile::tempdir().unwrap();
            let other = site(elsewhere.path());
            std::fs::write(other.policy(), policy).unwrap();
            write(&other, "declared", PreparationRecord::default());
            write(&other, "frequent", across("--least-frames"));
            write(&other, "labels", PreparationRecord { class_source: ClassSource::Labels, ..Default::default() });
            prepared(&other.datasets(), "log", "text,intent\nhello,greeting\n");
            let (usable, complaints) = scan_units(&other);
            assert_eq!(usable, [("declared".to_owned(), usual_units())]);
            assert_eq!(complaints.len(), 3, "{complaints:?}");
            for (complaint, cause) in
                complaints.iter().zip(["--least-frames", "counted in the labels", "--label-column"])
            {
                assert!(complaint.contains(cause) && complaint.contains("--replace"), "{complaint}");
            }
        }
    }

    #[test]
    fn datasets_of_earlier_versions_keep_running_with_a_notice() {
        let dir = tempfile::tempdir().unwrap();
        let folder = site(dir.path());
        let meta = write(&folder, "ward", PreparationRecord::default());
        let path = folder.dataset("ward").unwrap();
        assert_eq!(DatasetMeta::read(&path).unwrap().legacy_notice(Visibility::Private), None);
        let mut earlier = serde_json::to_value(&meta).unwrap();
        earlier.as_object_mut().unwrap().remove("preparation");
        std::fs::write(path.join(META_FILE), earlier.to_string()).unwrap();
        std::fs::write(folder.policy(), crate::site::policy::TEMPLATE).unwrap();
        assert_eq!(scan_units(&folder), (vec![("ward".to_owned(), usual_units())], Vec::new()));
        let dataset = DatasetMeta::read(&path).unwrap();
        let notice = dataset.legacy_notice(Visibility::Private).unwrap();
        assert!(
            notice.to_string().contains("7 classes") && notice.remedy().contains("--replace --classes 7"),
            "{notice}"
        );
        assert_eq!(dataset.legacy_notice(Visibility::Public), None);
    }

    /// A record of a later version contains an unknown field.
    #[test]
    fn unknown_preparation_record_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = site(dir.path());
        let meta = write(&folder, "ward", PreparationRecord::default());
        let mut later = serde_json::to_value(&meta).unwrap();
        later["preparation"]["across_sites"] = serde_json::json!(["--average"]);
        std::fs::write(folder.dataset("ward").unwrap().join(META_FILE), later.to_string()).unwrap();
        std::fs::write(folder.policy(), crate::site::policy::TEMPLATE).unwrap();
        let (usable, complaints) = scan_units(&folder);
        assert!(usable.is_empty() && complaints[0].contains("across_sites"), "{complaints:?}");
    }
}
