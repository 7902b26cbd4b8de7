//! The sounds that are kept of a finished job.
//!
//! `sounds/` of the job's results holds, for each recognizer, up to [`EACH`] answered true pieces and as many dummies, to
//! the bit as they were sent; `sounds.json` lists them.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_api::job::transcription::Spec;

use super::TranscriptionError;
use crate::run::RunError;
use crate::site::folder::{create_private, write_durably};
use crate::speech::transcribe::outbound::SealedSounds;
use crate::speech::transcribe::plan::{BatchItem, Plan};
use crate::speech::wav;

/// The largest number of true pieces, and of dummies, that are kept of each recognizer: at 4.5 s and 16 recognizers, some
/// 24 MB.
pub(crate) const EACH: usize = 5;
/// The folder of the sounds, and their list.
const SOUNDS: &str = "sounds";
pub(super) const LIST: &str = "sounds.json";

/// A sound that a recognizer received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptSound {
    /// Its number in the job, from 1.
    pub(crate) number: u32,
    /// The recognizer.
    pub(crate) provider: String,
    /// Whether it is a dummy.
    pub(crate) is_dummy: bool,
    /// The recognizer's answer.
    pub(crate) answer: String,
}

/// Keeps the first answered true pieces and dummies of each recognizer; the order of a batch is random.
///
/// # Errors
/// [`RunError`] when the disk refuses. A damaged sound is left out.
pub(super) fn keep_sounds(spec: &Spec, plan: &Plan, sealed: &SealedSounds, results: &Path) -> Result<(), RunError> {
    let folder = results.join(SOUNDS);
    create_private(&folder)?;
    let mut kept: Vec<KeptSound> = Vec::new();
    let mut counts: BTreeMap<(u32, bool), usize> = BTreeMap::new();
    for (provider, place, recognition) in sealed.answers() {
        let Some(name) = spec.providers.get(provider as usize).map(|provider| provider.name.clone()) else { continue };
        let is_dummy = matches!(plan.batch(provider).get(place as usize), Some(BatchItem::Dummy(_)));
        let count = counts.entry((provider, is_dummy)).or_default();
        if *count == EACH {
            continue;
        }
        let Ok(samples) = sealed.samples(provider, place) else {
            tracing::warn!(provider, place, "a sound is damaged, and is not kept for the site's owner");
            continue;
        };
        *count += 1;
        let number = kept.len() as u32 + 1;
        write_private(&sound_path(results, number), &wav::write(&samples))
            .map_err(TranscriptionError::WriteTranscript)?;
        kept.push(KeptSound { number, provider: name, is_dummy, answer: recognition.text() });
    }
    Ok(write_durably(&results.join(LIST), &serde_json::to_vec_pretty(&kept)?)?)
}

/// Writes a file for its owner alone, in place of an earlier one.
fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(content)
}

pub(super) fn sound_path(results: &Path, number: u32) -> PathBuf {
    results.join(SOUNDS).join(format!("{number}.wav"))
}
