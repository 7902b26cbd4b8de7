#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use undertone_privacy::PrivacyUnit;

use super::{DataParts, GroupDivision, SplitShares, split};
use crate::run::dp_sgd::tune::TuneError;
use crate::run::dp_sgd::tune::public_data::PublicData;
use crate::run::dp_sgd::tune::tests::{row_spec, spec, write_dataset, write_table};
use crate::tables::dataset::TableReader;
use crate::tables::rows::LabelledRows;

fn shares(parties: Vec<u64>) -> SplitShares {
    SplitShares { development: 0.1, warm: 0.5, parties }
}

fn sizes(units: &[u64], parties: Vec<u64>) -> Vec<u64> {
    let order: Vec<usize> = (0..units.len()).collect();
    super::assign(&order, units, &shares(parties)).into_iter().map(|part| part.units).collect()
}

#[test]
fn enough_data_give_every_party_its_real_size() {
    assert_eq!(sizes(&[1; 100], vec![10, 20]), [70, 10, 20]);
}

#[test]
fn scarce_data_shrink_all_parties_alike_but_not_the_lead() {
    assert_eq!(sizes(&[1; 40], vec![1000, 3000]), [20, 5, 15]);
}

#[test]
fn every_party_gets_a_group() {
    let sizes = sizes(&[50, 3, 4], vec![1, 1000]);
    assert!(sizes.iter().all(|units| *units > 0), "{sizes:?}");
}

#[test]
fn each_group_is_in_one_part() {
    let units: Vec<u64> = (1..=40).collect();
    let division = GroupDivision::new(&units, "speakers", &shares(vec![100, 200]), 3).unwrap();
    let parts = division.participants.iter().map(|part| &part.groups).chain([&division.development]);
    let mut groups: Vec<usize> = parts.flatten().copied().collect();
    groups.sort_unstable();
    assert_eq!(groups, (0..40).collect::<Vec<_>>());
    for part in &division.participants {
        assert_eq!(part.units, part.groups.iter().map(|group| units[*group]).sum::<u64>());
    }
    assert_eq!(division, GroupDivision::new(&units, "speakers", &shares(vec![100, 200]), 3).unwrap());
    assert_ne!(division, GroupDivision::new(&units, "speakers", &shares(vec![100, 200]), 4).unwrap());
}

/// Splits the table of the tests, in which two units have no target.
fn split_table(folder: &Path, target: &str, seed: u64) -> DataParts {
    let table = folder.join("public");
    if !table.exists() {
        write_table(&table, 0);
    }
    let data = PublicData::open(&row_spec(), &table).unwrap();
    split(&data, PrivacyUnit::User, &shares(vec![12, 8]), seed, &folder.join(target)).unwrap()
}

#[test]
fn no_unit_of_a_table_is_in_two_parts() {
    let folder = tempfile::tempdir().unwrap();
    let parts = split_table(folder.path(), "data", 5);
    let spec = row_spec();
    let columns = spec.model.rows.as_ref().unwrap();
    let whole = TableReader::open(&folder.path().join("public")).unwrap();
    let mut ids = BTreeSet::new();
    let mut counts = Vec::new();
    for path in parts.participants.iter().map(|(path, _)| path).chain([&parts.development]) {
        let part = TableReader::open(path).unwrap();
        assert_eq!(part.meta().schema, whole.meta().schema, "the declared facts stay");
        let rows = LabelledRows::read(&part, columns, usize::MAX).unwrap();
        assert_eq!(rows.units() as u64, part.meta().units, "each unit can be trained on");
        counts.push(part.meta().units);
        for unit in 0..rows.units() {
            assert!(ids.insert(*rows.id(unit)), "a unit is in two parts");
        }
    }
    let labelled = LabelledRows::read(&whole, columns, usize::MAX).unwrap();
    assert_eq!(ids.len(), labelled.units(), "each unit with a target has a part");
    assert_eq!(ids.len() as u64 + 2, whole.meta().units, "the others have none");
    assert_eq!(counts[..3], parts.participants.iter().map(|(_, units)| *units).collect::<Vec<_>>());
    assert!((counts[1], counts[2]) == (12, 8) && counts[3] > 0, "{counts:?}");
}

#[test]
fn same_seed_gives_a_table_the_same_parts() {
    let folder = tempfile::tempdir().unwrap();
    let digests = |target: &str, seed| {
        let parts = split_table(folder.path(), target, seed);
        let paths = parts.participants.into_iter().map(|(path, _)| path).chain([parts.development]);
        paths.map(|path| TableReader::open(&path).unwrap().meta().digest.clone()).collect::<Vec<_>>()
    };
    let one = digests("one", 5);
    assert_eq!(one, digests("two", 5));
    let other = digests("three", 6);
    assert!(one.iter().zip(&other).all(|(one, other)| one != other), "another seed");
    // A part that is there is not written again.
    std::fs::remove_dir_all(folder.path().join("one/development")).unwrap();
    assert_eq!(one, digests("one", 5));
}

#[test]
fn too_few_units_or_other_content_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (table, speech) = (folder.path().join("table"), folder.path().join("speech"));
    write_table(&table, 0);
    write_dataset(&speech);
    let data = PublicData::open(&row_spec(), &table).unwrap();
    let target = folder.path().join("data");
    let refused = split(&data, PrivacyUnit::User, &shares(vec![1; 80]), 1, &target).unwrap_err();
    assert!(matches!(refused, TuneError::TooFew { needed: 82, .. }), "{refused}");
    assert!(refused.to_string().contains("units with a target") && !target.exists(), "{refused}");
    let refused = PublicData::open(&row_spec(), &speech).err().unwrap().to_string();
    assert!(refused.contains("--dataset") && refused.contains("needs a public table"), "{refused}");
    let refused = PublicData::open(&spec(), &table).err().unwrap().to_string();
    assert!(refused.contains("needs a public dataset of speech"), "{refused}");
}
