#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::features::{Deltas, Normalization};

fn description() -> Description {
    Description {
        name: "ward".to_owned(),
        inputs: 2,
        classes: 5,
        sample_rate: 16_000,
        features: "two numbers".to_owned(),
        labels: "five classes".to_owned(),
        created: "2026-01-01T00:00:00Z".to_owned(),
        treatment: Treatment::default(),
        preparation: PreparationRecord::default(),
        unit_column: None,
    }
}

/// Writes the same four utterances with three users: one user has two speakers, and no user is a single speaker.
fn write_users(target: &Path, normalization: Normalization) -> Meta {
    let treatment = Treatment { normalization, deltas: Deltas::None };
    let description = Description { treatment, unit_column: Some("visit".to_owned()), ..description() };
    let mut writer = Writer::create(target, description).unwrap();
    let mut push = |id, speaker, user, split, features: &[f32], labels: &[u16]| {
        writer.push_of(id, (speaker, Some(user)), split, features, labels).unwrap();
    };
    push("a-1", "anna", "v1", Split::Train, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[0, 1, 4]);
    push("a-2", "anna", "v2", Split::Test, &[0.5, -0.5], &[2]);
    push("b-1", "ben", "v1", Split::Train, &[7.0, 8.0, 9.0, 10.0], &[3, 3]);
    push("a-3", "anna", "v3", Split::Train, &[-1.0, -2.0], &[1]);
    writer.finish(|_| serde_json::Value::Null).unwrap()
}

/// Writes four utterances of two speakers, of odd and even length, one of them held out.
fn write(target: &Path) -> Meta {
    let mut writer = Writer::create(target, description()).unwrap();
    writer.push("a-1", "anna", Split::Train, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[0, 1, 4]).unwrap();
    writer.push("a-2", "anna", Split::Test, &[0.5, -0.5], &[2]).unwrap();
    writer.push("b-1", "ben", Split::Train, &[7.0, 8.0, 9.0, 10.0], &[3, 3]).unwrap();
    writer.push("a-3", "anna", Split::Train, &[-1.0, -2.0], &[1]).unwrap();
    writer.finish(|meta| serde_json::json!({ "kept": meta.utterances })).unwrap()
}

#[test]
fn written_dataset_reads_back_equal() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    let meta = write(&target);
    let dataset = Dataset::open(&target).unwrap();
    assert_eq!(dataset.meta(), &meta);
    assert_eq!((dataset.len(), meta.frames, meta.speakers), (4, 7, 2));
    assert_eq!(meta.train, SplitCounts { utterances: 3, speakers: 2, frames: 6, users: 0 });
    assert_eq!(meta.test, SplitCounts { utterances: 1, speakers: 1, frames: 1, users: 0 });
    let first = dataset.utterance(0);
    assert_eq!((first.id, first.speaker, first.split), ("a-1", 0, Split::Train));
    assert_eq!((first.features, first.labels), (&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..], &[0, 1, 4][..]));
    let third = dataset.utterance(2);
    assert_eq!((third.features, third.labels), (&[7.0, 8.0, 9.0, 10.0][..], &[3, 3][..]));
    assert_eq!(dataset.speaker_name(third.speaker), Some("ben"));
    assert_eq!(dataset.speaker_name(2), None);
    assert_eq!(dataset.split(Split::Test), [1]);
}

#[test]
fn moments_are_of_one_split() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    write(&target);
    let dataset = Dataset::open(&target).unwrap();
    assert_eq!(dataset.moments(Split::Test), FeatureMoments { mean: vec![0.5, -0.5], deviation: vec![0.0, 0.0] });
    let train = dataset.moments(Split::Train);
    assert!((train.mean[0] - 4.0).abs() < 1e-6 && (train.mean[1] - 28.0 / 6.0).abs() < 1e-6);
    assert!((train.deviation[0] - (70.0_f32 / 6.0).sqrt()).abs() < 1e-5, "{train:?}");
}

#[test]
fn units_partition_a_split() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    write(&target);
    let dataset = Dataset::open(&target).unwrap();
    assert_eq!(dataset.units(PrivacyUnit::Record, Split::Train).unwrap(), [vec![0], vec![2], vec![3]]);
    assert_eq!(dataset.units(PrivacyUnit::Speaker, Split::Train).unwrap(), [vec![0, 3], vec![2]]);
    assert_eq!(dataset.units(PrivacyUnit::Speaker, Split::Test).unwrap(), [vec![1]]);
    let refused = dataset.units(PrivacyUnit::User, Split::Train).unwrap_err().to_string();
    assert!(refused.contains("`ward` has no column of users") && refused.contains("--units"), "{refused}");
    assert_eq!(dataset.groups(PrivacyUnit::User, Split::Train), [vec![0, 3], vec![2]], "public: speakers stand in");
    assert_eq!((dataset.meta().format, dataset.meta().units.clone()), (layout::VERSION, usual_units()));
}

#[test]
fn a_column_of_users_is_a_unit_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    let meta = write_users(&target, Normalization::Utterance);
    let dataset = Dataset::open(&target).unwrap();
    assert_eq!((meta.format, meta.train.users, meta.test.users), (layout::WITH_USERS, 2, 1));
    assert_eq!(meta.units, [PrivacyUnit::Record, PrivacyUnit::Speaker, PrivacyUnit::User]);
    assert_eq!(dataset.units(PrivacyUnit::User, Split::Train).unwrap(), [vec![0, 2], vec![3]]);
    assert_eq!(dataset.units(PrivacyUnit::User, Split::Test).unwrap(), [vec![1]]);
    assert_eq!(dataset.units(PrivacyUnit::Speaker, Split::Train).unwrap(), [vec![0, 3], vec![2]]);
    let user = dataset.utterance(2).user.unwrap();
    assert_eq!((dataset.user_name(user), dataset.user_name(3)), (Some("v1"), None));
    for len in 0..fs::metadata(target.join(DATA_FILE)).unwrap().len() {
        let whole = fs::read(target.join(DATA_FILE)).unwrap();
        fs::write(target.join(DATA_FILE), &whole[..len as usize]).unwrap();
        assert!(Dataset::open(&target).is_err(), "{len} of {} bytes were accepted", whole.len());
        fs::write(target.join(DATA_FILE), whole).unwrap();
    }
}

/// Means over a speaker are those of one user, so users stay separate whether or not they share a speaker. A
/// description of an earlier version, which took the mean over all users of a speaker, does not list them.
#[test]
fn units_follow_from_the_description_alone() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    let meta = write_users(&target, Normalization::Speaker);
    assert_eq!(meta.units, [PrivacyUnit::Speaker, PrivacyUnit::User]);
    let refused = |unit| Dataset::open(&target).unwrap().units(unit, Split::Train).map_err(|error| error.to_string());
    let record = refused(PrivacyUnit::Record).unwrap_err();
    assert!(record.contains("one record") && record.contains("--normalize utterance"), "{record}");
    assert!(refused(PrivacyUnit::Speaker).is_ok() && refused(PrivacyUnit::User).is_ok());
    let earlier = Meta { units: vec![PrivacyUnit::Speaker], preparation: None, ..meta.clone() };
    fs::write(target.join(META_FILE), serde_json::to_vec(&earlier).unwrap()).unwrap();
    assert!(refused(PrivacyUnit::User).unwrap_err().contains("one user"));
    let mixed = PreparationRecord { across_units: vec!["--least-frames".to_owned()], ..PreparationRecord::default() };
    let mixed = Meta { units: Vec::new(), preparation: Some(mixed), ..meta };
    fs::write(target.join(META_FILE), serde_json::to_vec(&mixed).unwrap()).unwrap();
    assert!(refused(PrivacyUnit::Speaker).unwrap_err().contains("--least-frames"));
}

#[test]
fn every_utterance_has_a_user_or_none_has() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(&dir.path().join("ward"), description()).unwrap();
    let refused = writer.push_of("a", ("anna", Some("v1")), Split::Train, &[1.0, 2.0], &[0]).unwrap_err();
    assert!(refused.to_string().contains("every utterance has a user"), "{refused}");
    let with = Description { unit_column: Some("visit".to_owned()), ..description() };
    let mut writer = Writer::create(&dir.path().join("ward"), with).unwrap();
    assert!(writer.push("a", "anna", Split::Train, &[1.0, 2.0], &[0]).is_err());
    assert!(writer.push_of("a", ("anna", Some("")), Split::Train, &[1.0, 2.0], &[0]).is_err());
}

#[test]
fn the_digest_is_of_the_content_alone() {
    let dir = tempfile::tempdir().unwrap();
    let first = write(&dir.path().join("one"));
    let later = Description { created: "2027-01-01T00:00:00Z".to_owned(), ..description() };
    let mut writer = Writer::create(&dir.path().join("two"), later.clone()).unwrap();
    writer.push("a-1", "anna", Split::Train, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[0, 1, 4]).unwrap();
    writer.push("a-2", "anna", Split::Test, &[0.5, -0.5], &[2]).unwrap();
    writer.push("b-1", "ben", Split::Train, &[7.0, 8.0, 9.0, 10.0], &[3, 3]).unwrap();
    writer.push("a-3", "anna", Split::Train, &[-1.0, -2.0], &[1]).unwrap();
    assert_eq!(writer.finish(|_| serde_json::Value::Null).unwrap().digest, first.digest);
    let mut writer = Writer::create(&dir.path().join("three"), later).unwrap();
    writer.push("a-1", "anna", Split::Train, &[1.0, 2.0], &[0]).unwrap();
    assert_ne!(writer.finish(|_| serde_json::Value::Null).unwrap().digest, first.digest);
}

#[test]
fn every_truncation_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    write(&target);
    let path = target.join(DATA_FILE);
    let whole = fs::read(&path).unwrap();
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(Dataset::open(&target).is_err(), "{len} of {} bytes were accepted", whole.len());
    }
    let mut longer = whole.clone();
    longer.push(0);
    fs::write(&path, longer).unwrap();
    assert!(matches!(Dataset::open(&target), Err(DatasetError::Length { .. })));
    fs::write(&path, whole).unwrap();
    Dataset::open(&target).unwrap();
}

#[test]
fn every_changed_byte_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    write(&target);
    let path = target.join(DATA_FILE);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x41;
        fs::write(&path, changed).unwrap();
        assert!(Dataset::open(&target).is_err(), "a change of byte {at} went unseen");
    }
}

/// A file whose digest was adjusted still has to pass the structure checks.
#[test]
fn a_damaged_file_with_a_fitting_digest_never_panics() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    let meta = write(&target);
    let path = target.join(DATA_FILE);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        for value in [0x00, 0x7f, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            let digest = hex::encode(Sha256::digest(&changed));
            fs::write(&path, changed).unwrap();
            fs::write(target.join(META_FILE), serde_json::to_vec(&Meta { digest, ..meta.clone() }).unwrap()).unwrap();
            if let Ok(dataset) = Dataset::open(&target) {
                let labels = (0..dataset.len()).flat_map(|i| dataset.utterance(i).labels.to_vec());
                assert!(labels.into_iter().all(|label| usize::from(label) < meta.classes));
            }
        }
    }
}

#[test]
fn another_version_is_refused_by_number() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    write(&target);
    let path = target.join(DATA_FILE);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 9;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(Dataset::open(&target), Err(DatasetError::Version { found: 9, .. })));
    fs::write(target.join(META_FILE), r#"{"format": 7}"#).unwrap();
    assert!(matches!(Dataset::open(&target), Err(DatasetError::Version { found: 7, .. })));
    fs::write(target.join(META_FILE), "[]").unwrap();
    assert!(matches!(Dataset::open(&target), Err(DatasetError::Foreign { .. })));
}

#[test]
fn an_unfinished_writer_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    let mut writer = Writer::create(&target, description()).unwrap();
    writer.push("a-1", "anna", Split::Train, &[1.0, 2.0], &[0]).unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_existing_target_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    let writer = Writer::create(&target, description()).unwrap();
    let meta = write(&target);
    assert!(matches!(writer.finish(|_| serde_json::Value::Null), Err(DatasetError::Exists(_))));
    assert!(matches!(Writer::create(&target, description()), Err(DatasetError::Exists(_))));
    assert_eq!(Dataset::open(&target).unwrap().meta(), &meta);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn replaced_dataset_stays_readable_while_open() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("ward");
    write(&target);
    let before = Dataset::open(&target).unwrap();
    let mut writer = Writer::replace(&target, description()).unwrap();
    writer.push("new", "anna", Split::Train, &[9.0, 9.0], &[0]).unwrap();
    writer.finish(|_| serde_json::Value::Null).unwrap();
    assert_eq!(before.utterance(0).features[..2], [1.0, 2.0]);
    assert_eq!(Dataset::open(&target).unwrap().utterance(0).id, "new");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the old one is gone");
}

#[test]
fn nothing_but_a_dataset_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("letters");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("dear.txt"), "x").unwrap();
    assert!(matches!(Writer::replace(&target, description()), Err(DatasetError::Foreign { .. })));
    assert!(target.join("dear.txt").exists());
    let fresh = dir.path().join("fresh");
    let mut writer = Writer::replace(&fresh, description()).unwrap();
    writer.push("new", "anna", Split::Train, &[9.0, 9.0], &[0]).unwrap();
    writer.finish(|_| serde_json::Value::Null).unwrap();
    assert_eq!(Dataset::open(&fresh).unwrap().len(), 1);
}

#[test]
fn an_utterance_that_cannot_be_read_back_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(&dir.path().join("ward"), description()).unwrap();
    writer.push("a", "s", Split::Train, &[0.0, 0.0], &[0]).unwrap();
    let mut refused = |id: &str, features: &[f32], labels: &[u16]| {
        writer.push(id, "s", Split::Train, features, labels).unwrap_err().to_string()
    };
    assert!(refused("b", &[], &[]).contains("0 frames"));
    assert!(refused("b", &[0.0], &[0]).contains("1 feature values"));
    assert!(refused("b", &[0.0, 0.0], &[5]).contains("label 5 is not below 5"));
    assert!(refused("b", &[0.0, f32::NAN], &[0]).contains("not a number"));
    assert!(refused("a", &[0.0, 0.0], &[0]).contains("another utterance"));
    assert!(refused("", &[0.0, 0.0], &[0]).contains("empty"));
    assert_eq!(writer.len(), 1);
}
