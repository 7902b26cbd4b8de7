//! Public data split by speaker, or by unit of a table: parts for the lead, for each party, and for measurement only. No
//! speaker or unit is in two of the parts, as none of the real parties' is in the lead's data.

use std::path::{Path, PathBuf};

use undertone_privacy::PrivacyUnit;

use super::error::TuneError;
use super::public_data::PublicData;
use super::setting::shuffle;
use crate::speech::dataset::{Dataset, Description, Split, Writer};
use crate::tables::rows::list_labelled;
use crate::tables::subset::write_subset;

/// The proportions of the split.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SplitShares {
    /// The fraction of the groups for measurement only.
    pub(super) development: f64,
    /// The lead's lowest fraction of the other units.
    pub(super) warm: f64,
    /// Units of each other participant, as the real ones have them.
    pub(super) parties: Vec<u64>,
}

/// The parts, as datasets on disk.
#[derive(Debug)]
pub(super) struct DataParts {
    /// The lead's, then each other participant's: its path, and its number of units.
    pub(super) participants: Vec<(PathBuf, u64)>,
    /// The part for measurement.
    pub(super) development: PathBuf,
}

/// The groups of one participant, by their numbers in the data, and their units together.
#[derive(Debug, Clone, Default, PartialEq)]
struct GroupPart {
    groups: Vec<usize>,
    units: u64,
}

/// The groups of each part. A group, such as all utterances of a speaker, is in one of them.
#[derive(Debug, PartialEq)]
struct GroupDivision {
    /// The lead's, then each other participant's.
    participants: Vec<GroupPart>,
    development: Vec<usize>,
}

/// Splits the training data, and writes the parts into `folder` unless they are there. The result is the same for the
/// same seed. Memory: a few numbers for each group, and that of the writer of one part.
///
/// # Errors
/// [`TuneError::TooFew`] when there are not enough groups, [`TuneError::Table`] when a table declares a column otherwise
/// than the spec, or the disk's error.
pub(super) fn split(
    data: &PublicData,
    unit: PrivacyUnit,
    shares: &SplitShares,
    seed: u64,
    folder: &Path,
) -> Result<DataParts, TuneError> {
    match data {
        PublicData::Speech(dataset) => {
            let speakers = dataset.groups(PrivacyUnit::Speaker, Split::Train);
            let count = |utterances: &Vec<usize>| if unit == PrivacyUnit::Record { utterances.len() as u64 } else { 1 };
            let units: Vec<u64> = speakers.iter().map(count).collect();
            let division = GroupDivision::new(&units, "speakers", shares, seed)?;
            division.write(folder, |groups, split, target| {
                write_speech(dataset, groups.iter().flat_map(|speaker| &speakers[*speaker]), split, target)
            })
        }
        PublicData::Table(table, columns) => {
            let labelled = list_labelled(table, columns)?;
            let division = GroupDivision::new(&vec![1; labelled.len()], "units with a target", shares, seed)?;
            division.write(folder, |groups, _, target| {
                let mut numbers: Vec<usize> = groups.iter().map(|group| labelled[*group]).collect();
                numbers.sort_unstable();
                Ok(write_subset(table, &part_name(target), target, &numbers)?)
            })
        }
    }
}

impl GroupDivision {
    /// Divides groups of these numbers of units; `noun` is what a group is.
    fn new(units: &[u64], noun: &'static str, shares: &SplitShares, seed: u64) -> Result<Self, TuneError> {
        let needed = shares.parties.len() + 2;
        if units.len() < needed {
            return Err(TuneError::TooFew { groups: units.len(), noun, needed });
        }
        let mut order: Vec<usize> = (0..units.len()).collect();
        shuffle(&mut order, seed);
        let most = order.len() - shares.parties.len() - 1;
        let held_out = ((order.len() as f64 * shares.development).round() as usize).clamp(1, most);
        let development = order.split_off(order.len() - held_out);
        Ok(Self { participants: assign(&order, units, shares), development })
    }

    /// Writes each part into `folder` by `write`, unless it is there.
    fn write(
        &self,
        folder: &Path,
        write: impl Fn(&[usize], Split, &Path) -> Result<(), TuneError>,
    ) -> Result<DataParts, TuneError> {
        let place = |name: &str, groups: &[usize], split| {
            let target = folder.join(name);
            if !target.exists() {
                write(groups, split, &target)?;
            }
            Ok::<_, TuneError>(target)
        };
        let mut participants = Vec::new();
        for (index, part) in self.participants.iter().enumerate() {
            participants.push((place(&format!("part-{index}"), &part.groups, Split::Train)?, part.units));
        }
        Ok(DataParts { participants, development: place("development", &self.development, Split::Test)? })
    }
}

/// Assigns each group of `order` to the participant with the largest relative lack of units. The lead's target is its
/// least share. The others' targets are their real numbers, or as much as the rest of the data allows, all shrunk alike.
/// The remainder goes to the lead.
fn assign(order: &[usize], units: &[u64], shares: &SplitShares) -> Vec<GroupPart> {
    let all: u64 = order.iter().map(|group| units[*group]).sum();
    let stated: u64 = shares.parties.iter().sum();
    let rest = all as f64 * (1.0 - shares.warm);
    let shrink = (rest / stated.max(1) as f64).min(1.0);
    let mut targets = vec![all as f64 - stated as f64 * shrink];
    targets.extend(shares.parties.iter().map(|units| *units as f64 * shrink));
    let mut parts = vec![GroupPart::default(); targets.len()];
    for (index, group) in order.iter().enumerate() {
        let remaining = order.len() - index;
        let empty = parts.iter().filter(|part| part.groups.is_empty()).count();
        let lack = |part: usize| {
            // Every participant gets a group.
            if remaining <= empty && !parts[part].groups.is_empty() {
                f64::NEG_INFINITY
            } else {
                1.0 - parts[part].units as f64 / targets[part]
            }
        };
        let most = (0..targets.len()).max_by(|a, b| lack(*a).total_cmp(&lack(*b))).unwrap_or(0);
        parts[most].units += units[*group];
        parts[most].groups.push(*group);
    }
    parts
}

/// Returns the name of a part's dataset: that of its folder.
fn part_name(target: &Path) -> String {
    target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Writes some utterances as a separate dataset.
fn write_speech<'a>(
    dataset: &Dataset,
    utterances: impl Iterator<Item = &'a usize>,
    split: Split,
    target: &Path,
) -> Result<(), TuneError> {
    let meta = dataset.meta();
    let mut writer = Writer::create(
        target,
        Description {
            name: part_name(target),
            inputs: meta.inputs,
            classes: meta.classes,
            sample_rate: meta.sample_rate,
            features: meta.features.clone(),
            treatment: meta.treatment.unwrap_or_default(),
            unit_column: None,
            preparation: meta.preparation.clone().unwrap_or_default(),
            labels: meta.labels.clone(),
            created: meta.created.clone(),
        },
    )?;
    for index in utterances {
        let utterance = dataset.utterance(*index);
        let speaker = dataset.speaker_name(utterance.speaker).unwrap_or_default();
        writer.push(utterance.id, speaker, split, utterance.features, utterance.labels)?;
    }
    writer.finish(|_| serde_json::Value::Null)?;
    Ok(())
}

#[cfg(test)]
mod tests;
