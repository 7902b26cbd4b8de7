//! What the recognizers of a finished job received, for the owner of the site: counts of words, and a few of the sounds.
//!
//! `sounds/` of the job's results holds, for each recognizer, up to [`EACH`] answered true pieces and as many dummies, to
//! the bit as they were sent; `sounds.json` lists them. They derive from recordings, so they stay in the site's folder
//! for its owner alone, as the transcripts do, and no page of the server has them.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_api::job::transcription::{Report, Spec};

use super::TranscriptionError;
use super::finished::FinishedError;
use super::outcome::{HISTOGRAM_FILE, read_planned};
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
const LIST: &str = "sounds.json";

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

/// The counts of one word at one recognizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordCount {
    /// The word.
    pub(crate) word: String,
    /// The recognizer.
    pub(crate) provider: String,
    /// Occurrences in true pieces.
    pub(crate) said: u64,
    /// Occurrences in true pieces and dummies: the count that the recognizer could make.
    pub(crate) heard: u64,
}

/// What the recognizers of a job received.
#[derive(Debug)]
pub(crate) struct ReceivedReport {
    /// The plan with its promises.
    pub(crate) planned: Report,
    /// The counts, by recognizer and word.
    pub(crate) counts: Vec<WordCount>,
    /// The kept sounds.
    pub(crate) sounds: Vec<KeptSound>,
    results: PathBuf,
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
        write_private(&path(results, number), &wav::write(&samples)).map_err(TranscriptionError::WriteTranscript)?;
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

/// Reads what the recognizers of the job with these results received; `None` before the job is finished.
///
/// # Errors
/// [`FinishedError`] when a file cannot be read. Jobs of earlier versions have no sounds.
pub(crate) fn read_received(results: &Path) -> Result<Option<ReceivedReport>, FinishedError> {
    let Some(planned) = read_planned(results)? else { return Ok(None) };
    let read = |name: &str| {
        let path = results.join(name);
        std::fs::read_to_string(&path).map_err(|source| FinishedError::Read { path, source })
    };
    let counts = read(HISTOGRAM_FILE)?.lines().skip(1).filter_map(parse_count).collect();
    let path = results.join(LIST);
    let sounds = if path.exists() {
        let text = read(LIST)?;
        serde_json::from_str(&text)
            .map_err(|source| RunError::from(TranscriptionError::ForeignReport { path, source }))?
    } else {
        Vec::new()
    };
    Ok(Some(ReceivedReport { planned, counts, sounds, results: results.to_owned() }))
}

impl ReceivedReport {
    /// Reads the WAV file of a kept sound; `None` if there is no such number.
    ///
    /// # Errors
    /// [`FinishedError::Read`] when the file cannot be read.
    pub(crate) fn read_sound(&self, number: u32) -> Result<Option<Vec<u8>>, FinishedError> {
        if !self.sounds.iter().any(|sound| sound.number == number) {
            return Ok(None);
        }
        let path = path(&self.results, number);
        std::fs::read(&path).map(Some).map_err(|source| FinishedError::Read { path, source })
    }
}

fn path(results: &Path, number: u32) -> PathBuf {
    results.join(SOUNDS).join(format!("{number}.wav"))
}

/// Reads a line of the histogram: word, recognizer, said and heard.
fn parse_count(line: &str) -> Option<WordCount> {
    let mut cells = line.split('\t');
    let (word, provider) = (cells.next()?.to_owned(), cells.next()?.to_owned());
    let said = cells.next()?.parse().ok()?;
    Some(WordCount { word, provider, said, heard: cells.next()?.parse().ok()? })
}
