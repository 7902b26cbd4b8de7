//! Labels of characters from the transcripts beside recordings, for training with CTC. No aligner is needed: CTC uses
//! the order of the labels, not their times.
//!
//! Letters, digits and apostrophes are kept, in lower case; everything else separates words. The labels are run lengths
//! as [`crate::align`] reads them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::scan::{self, ScanError};
use super::transcripts::TranscriptTable;
use crate::audio;
use crate::decode::{CharacterSet, InputError};
use crate::mfcc;

/// The file of labels.
pub const LABELS_FILE: &str = "labels.jsonl";
/// The file of the characters.
pub const CHARACTERS_FILE: &str = "characters.json";

/// The inputs of a spelling.
#[derive(Debug, Clone, PartialEq)]
pub struct SpellOptions {
    /// The folder of recordings, with their transcripts.
    pub input: PathBuf,
    /// The folder of the results.
    pub output: PathBuf,
    /// The characters; `None` for those of the transcripts.
    pub characters: Option<PathBuf>,
    /// Maximum length of a recording, seconds.
    pub longest: f64,
}

/// The result of a spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpellReport {
    /// The characters.
    pub characters: CharacterSet,
    /// The number of recordings with labels.
    pub spelled: usize,
    /// The ids of recordings without labels, with the reasons.
    pub left: BTreeMap<String, String>,
}

/// The reason why no labels were written.
#[derive(Debug, thiserror::Error)]
pub enum SpellError {
    /// The folder of recordings is invalid.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The characters are invalid.
    #[error(transparent)]
    Characters(#[from] InputError),
    /// The transcripts have no characters.
    #[error("no transcript in {input} has a character: put a `*.trans.txt` with lines `ID TEXT` beside the recordings")]
    NoText {
        /// The folder.
        input: PathBuf,
    },
    /// The transcripts have too many characters.
    #[error("the transcripts: {0}")]
    Alphabet(String),
    /// No recording has labels.
    #[error("none of the {found} recordings in {input} can be labelled ({first})")]
    Nothing {
        /// The folder.
        input: PathBuf,
        /// The number of recordings.
        found: usize,
        /// The first reason.
        first: String,
    },
    /// A file of the result cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// A line of run lengths.
#[derive(Serialize)]
struct RunsLine<'a> {
    u: &'a str,
    frames: usize,
    runs: Vec<(u16, u32)>,
}

/// Writes labels and characters of all recordings with a transcript.
///
/// # Errors
/// [`SpellError`] with the folder or file.
pub fn spell(options: &SpellOptions) -> Result<SpellReport, SpellError> {
    let content = scan::scan(&options.input)?;
    let transcripts = TranscriptTable::read(&options.input, &content.recordings)
        .map_err(|(path, source)| ScanError::Io { path, source })?;
    let texts: Vec<Option<String>> =
        content.recordings.iter().map(|recording| transcripts.find(recording).map(plain_text)).collect();
    let characters = match &options.characters {
        Some(path) => CharacterSet::read(path)?,
        None if texts.iter().flatten().all(String::is_empty) => {
            return Err(SpellError::NoText { input: options.input.clone() });
        }
        None => CharacterSet::from_texts(texts.iter().flatten().map(String::as_str)).map_err(SpellError::Alphabet)?,
    };
    let mut labels = Vec::new();
    let mut report = SpellReport { characters, spelled: 0, left: BTreeMap::new() };
    for (recording, text) in content.recordings.iter().zip(texts) {
        let result = match text {
            None => Err("no transcript beside it".to_owned()),
            Some(text) => spell_recording(&report.characters, &recording.path, &text, options.longest),
        };
        match result {
            Ok(path) => {
                let line = RunsLine { u: &recording.id, frames: path.len(), runs: to_runs(&path) };
                // Strings and integers always serialize.
                labels.extend(serde_json::to_vec(&line).unwrap_or_default());
                labels.push(b'\n');
                report.spelled += 1;
            }
            Err(reason) => {
                report.left.insert(recording.id.clone(), reason);
            }
        }
    }
    if report.spelled == 0 {
        let first = report.left.iter().next().map(|(id, reason)| format!("{id}: {reason}")).unwrap_or_default();
        return Err(SpellError::Nothing { input: options.input.clone(), found: content.recordings.len(), first });
    }
    std::fs::create_dir_all(&options.output)
        .map_err(|source| SpellError::Write { path: options.output.clone(), source })?;
    write(&options.output.join(LABELS_FILE), &labels)?;
    let characters = serde_json::to_vec(&report.characters).unwrap_or_default();
    write(&options.output.join(CHARACTERS_FILE), &characters)?;
    Ok(report)
}

fn write(path: &Path, content: &[u8]) -> Result<(), SpellError> {
    let create = || std::fs::File::create(path)?.write_all(content);
    create().map_err(|source| SpellError::Write { path: path.to_path_buf(), source })
}

fn spell_recording(set: &CharacterSet, path: &Path, text: &str, longest: f64) -> Result<Vec<u16>, String> {
    let samples = audio::read(path, longest).map_err(|error| error.problem.to_string())?.samples;
    set.spell(text, mfcc::frames(samples.len())).map_err(|error| error.to_string())
}

/// Returns the words of a text in lower case, separated by single spaces.
fn plain_text(text: &str) -> String {
    let lower = text.chars().flat_map(char::to_lowercase);
    let plain: String = lower.map(|c| if c.is_alphanumeric() || c == '\'' { c } else { ' ' }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn to_runs(path: &[u16]) -> Vec<(u16, u32)> {
    path.chunk_by(|one, next| one == next).map(|run| (run[0], run.len() as u32)).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use super::{SpellOptions, plain_text, spell};
    use crate::align;
    use crate::decode::CharacterSet;
    use crate::wav;

    fn options(dir: &Path) -> SpellOptions {
        SpellOptions {
            input: dir.join("recordings"),
            output: dir.join("labels"),
            characters: None,
            longest: crate::audio::LONGEST,
        }
    }

    fn recordings(dir: &Path) {
        let chapter = dir.join("recordings/some/anna/1");
        std::fs::create_dir_all(&chapter).unwrap();
        for (id, samples) in [("a", 16_000), ("b", 16_000), ("short", 800), ("mute", 16_000)] {
            std::fs::write(chapter.join(format!("{id}.wav")), wav::write(&vec![0.1; samples])).unwrap();
        }
        std::fs::write(chapter.join("x.trans.txt"), "a GO ON\nb No, \u{2014} on!\nshort GO ON AND ON\n").unwrap();
    }

    #[test]
    fn labels_of_transcripts_are_read_as_alignments() {
        let dir = tempfile::tempdir().unwrap();
        recordings(dir.path());
        let report = spell(&options(dir.path())).unwrap();
        assert_eq!(report.spelled, 2);
        assert_eq!(report.left["mute"], "no transcript beside it");
        assert_eq!(report.left["short"], "3 frames, and its transcript needs 12");
        let set = CharacterSet::read(&dir.path().join("labels/characters.json")).unwrap();
        assert_eq!(set, report.characters);
        let labels = align::read(&dir.path().join("labels/labels.jsonl"), &align::LabelOptions::default()).unwrap();
        let text = |id: &str| {
            let runs = labels.alignments.by_id[id].runs();
            runs.iter().filter_map(|(class, _)| set.character(usize::from(*class))).collect::<String>()
        };
        assert_eq!((text("a"), text("b")), ("go on".to_owned(), "no on".to_owned()));
        assert_eq!(labels.alignments.by_id["a"].frames(), 98);
        assert_eq!(plain_text("  It's 20:15 \u{2014} NOW "), "it's 20 15 now");
    }

    #[test]
    fn unusable_transcripts_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        recordings(dir.path());
        let fixed = dir.path().join("few.json");
        std::fs::write(&fixed, r#"{"characters":"go"}"#).unwrap();
        let error = spell(&SpellOptions { characters: Some(fixed), ..options(dir.path()) }).unwrap_err().to_string();
        assert!(
            error.contains("none of the 4 recordings") && error.contains("a: the character set has no ` `"),
            "{error}"
        );
        std::fs::remove_file(dir.path().join("recordings/some/anna/1/x.trans.txt")).unwrap();
        assert!(spell(&options(dir.path())).unwrap_err().to_string().contains("no transcript in"));
        assert!(!dir.path().join("labels").exists());
    }
}
