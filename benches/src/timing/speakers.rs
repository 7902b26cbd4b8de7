//! The speakers: eleven small ones and one that is much larger than all others.

use std::path::Path;

use undertone_privacy::PrivacyUnit;
use undertone_worker::speech::dataset::{Dataset, Description, PreparationRecord, Split, Writer};
use undertone_worker::speech::features::Treatment;

/// The number of coefficients in a frame.
pub(super) const INPUTS: usize = 13;
/// The number of classes of the labels.
pub(super) const CLASSES: usize = 40;
/// The number of speakers.
pub(super) const SPEAKERS: usize = 12;
/// Seconds of speech of the largest: the public length that the site declares.
pub(super) const LONGEST_SECONDS: f64 = 60.0;
/// The number of frames of an utterance.
const FRAMES: usize = 240;
/// Utterances of the largest speaker; the others have one.
const UTTERANCES: usize = 25;

/// Writes the dataset; returns the number of the largest speaker among its units.
pub(super) fn write(folder: &Path) -> Result<usize, Box<dyn std::error::Error>> {
    let description = Description {
        name: "speakers".to_owned(),
        inputs: INPUTS,
        classes: CLASSES,
        sample_rate: 16_000,
        features: "made up".to_owned(),
        treatment: Treatment::default(),
        preparation: PreparationRecord::default(),
        unit_column: None,
        labels: "made up".to_owned(),
        created: "2026-01-01T00:00:00Z".to_owned(),
    };
    let mut writer = Writer::create(folder, description)?;
    let mut state = 7_u64;
    for speaker in 0..SPEAKERS {
        let utterances = if speaker == SPEAKERS / 2 { UTTERANCES } else { 1 };
        for utterance in 0..utterances {
            let features: Vec<f32> = (0..FRAMES * INPUTS).map(|_| uniform(&mut state)).collect();
            let labels: Vec<u16> = (0..FRAMES).map(|frame| ((frame / 6 + speaker) % CLASSES) as u16).collect();
            let (id, name) = (format!("{speaker}-{utterance}"), format!("speaker-{speaker:02}"));
            writer.push(&id, &name, Split::Train, &features, &labels)?;
        }
    }
    writer.finish(|_| serde_json::Value::Null)?;
    let units = Dataset::open(folder)?.units(PrivacyUnit::Speaker, Split::Train)?;
    let largest = units.iter().enumerate().max_by_key(|(_, utterances)| utterances.len());
    Ok(largest.ok_or("a dataset has units")?.0)
}

/// Draws a number between -1 and 1 (SplitMix64).
fn uniform(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
}
