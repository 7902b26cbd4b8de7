//! Public data split by speaker: parts for the lead, for each party, and for measurement only. No speaker is in two of
//! the parts, as no speaker of the real parties is in the lead's data.

use std::path::{Path, PathBuf};

use undertone_privacy::PrivacyUnit;

use super::error::TuneError;
use super::setting::shuffle;
use crate::speech::dataset::{Dataset, Description, Split, Writer};

/// The proportions of the split.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SplitShares {
    /// The fraction of the speakers for measurement only.
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

/// A speaker: its training utterances, and its units.
struct SpeakerUnits {
    utterances: Vec<usize>,
    units: u64,
}

/// Splits the training data of `dataset`, and writes the parts into `folder` unless they are there. The result is the
/// same for the same seed.
///
/// # Errors
/// [`TuneError::TooFew`] when there are not enough speakers, or the disk's error.
pub(super) fn split(
    dataset: &Dataset,
    unit: PrivacyUnit,
    shares: &SplitShares,
    seed: u64,
    folder: &Path,
) -> Result<DataParts, TuneError> {
    let mut speakers = list_speakers(dataset, unit);
    let needed = shares.parties.len() + 2;
    if speakers.len() < needed {
        return Err(TuneError::TooFew { speakers: speakers.len(), needed });
    }
    shuffle(&mut speakers, seed);
    let most = speakers.len() - shares.parties.len() - 1;
    let held_out = ((speakers.len() as f64 * shares.development).round() as usize).clamp(1, most);
    let development = speakers.split_off(speakers.len() - held_out);
    let parts = assign(&speakers, shares);

    let place = |name: String| folder.join(name);
    let mut participants = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let target = place(format!("part-{index}"));
        write_part(dataset, part, Split::Train, &target)?;
        participants.push((target, part.iter().map(|speaker| speaker.units).sum()));
    }
    let target = place("development".to_owned());
    write_part(dataset, &development.iter().collect::<Vec<_>>(), Split::Test, &target)?;
    Ok(DataParts { participants, development: target })
}

/// Returns the speakers of the training data, in the dataset's order.
fn list_speakers(dataset: &Dataset, unit: PrivacyUnit) -> Vec<SpeakerUnits> {
    let speaker = |utterances: Vec<usize>| {
        let units = if unit == PrivacyUnit::Record { utterances.len() as u64 } else { 1 };
        SpeakerUnits { utterances, units }
    };
    dataset.groups(PrivacyUnit::Speaker, Split::Train).into_iter().map(speaker).collect()
}

/// Assigns each speaker to the participant with the largest relative lack. The lead's target is its least share. The
/// others' targets are their real numbers, or as much as the rest of the data allows, all shrunk alike. The remainder
/// goes to the lead.
fn assign<'a>(speakers: &'a [SpeakerUnits], shares: &SplitShares) -> Vec<Vec<&'a SpeakerUnits>> {
    let all: u64 = speakers.iter().map(|speaker| speaker.units).sum();
    let stated: u64 = shares.parties.iter().sum();
    let rest = all as f64 * (1.0 - shares.warm);
    let shrink = (rest / stated.max(1) as f64).min(1.0);
    let mut targets = vec![all as f64 - stated as f64 * shrink];
    targets.extend(shares.parties.iter().map(|units| *units as f64 * shrink));
    let mut parts: Vec<Vec<&SpeakerUnits>> = vec![Vec::new(); targets.len()];
    let mut units = vec![0.0; targets.len()];
    for (index, speaker) in speakers.iter().enumerate() {
        let remaining = speakers.len() - index;
        let empty = parts.iter().filter(|part| part.is_empty()).count();
        let lack = |part: usize| {
            // Every participant gets a speaker.
            if remaining <= empty && !parts[part].is_empty() {
                f64::NEG_INFINITY
            } else {
                1.0 - units[part] / targets[part]
            }
        };
        let most = (0..targets.len()).max_by(|a, b| lack(*a).total_cmp(&lack(*b))).unwrap_or(0);
        units[most] += speaker.units as f64;
        parts[most].push(speaker);
    }
    parts
}

/// Writes some speakers as a separate dataset.
fn write_part(dataset: &Dataset, speakers: &[&SpeakerUnits], split: Split, target: &Path) -> Result<(), TuneError> {
    if target.exists() {
        return Ok(());
    }
    let meta = dataset.meta();
    let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut writer = Writer::create(
        target,
        Description {
            name,
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
    for speaker in speakers {
        for index in &speaker.utterances {
            let utterance = dataset.utterance(*index);
            let speaker = dataset.speaker_name(utterance.speaker).unwrap_or_default();
            writer.push(utterance.id, speaker, split, utterance.features, utterance.labels)?;
        }
    }
    writer.finish(|_| serde_json::Value::Null)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{SpeakerUnits, SplitShares, assign};

    fn speakers(units: &[u64]) -> Vec<SpeakerUnits> {
        units.iter().map(|units| SpeakerUnits { utterances: Vec::new(), units: *units }).collect()
    }

    fn sizes(speakers: &[SpeakerUnits], parties: Vec<u64>) -> Vec<u64> {
        let parts = assign(speakers, &SplitShares { development: 0.1, warm: 0.5, parties });
        parts.iter().map(|part| part.iter().map(|speaker| speaker.units).sum()).collect()
    }

    #[test]
    fn enough_data_give_every_party_its_real_size() {
        assert_eq!(sizes(&speakers(&[1; 100]), vec![10, 20]), [70, 10, 20]);
    }

    #[test]
    fn scarce_data_shrink_all_parties_alike_but_not_the_lead() {
        assert_eq!(sizes(&speakers(&[1; 40]), vec![1000, 3000]), [20, 5, 15]);
    }

    #[test]
    fn every_party_gets_a_speaker() {
        let sizes = sizes(&speakers(&[50, 3, 4]), vec![1, 1000]);
        assert!(sizes.iter().all(|units| *units > 0), "{sizes:?}");
    }
}
