//! The transcripts of recordings in LibriSpeech style: a `*.trans.txt` next to the recordings, with a line `id TEXT`
//! for each. Only files in a recording's own folder are read for it, so the folder of another speaker has no effect on
//! it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::scan::ScannedRecording;
use crate::align::lines;
use crate::align::lines::BadLine;

/// The file name ending of transcripts.
const ENDING: &str = ".trans.txt";

/// Returns the transcript of a recording, from the `*.trans.txt` beside it; `None` if it has none.
///
/// # Errors
/// The reader's errors.
pub fn read_transcript(recording: &Path) -> std::io::Result<Option<String>> {
    let folder = match recording.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Some(id) = recording.file_stem().map(|stem| stem.to_string_lossy().into_owned()) else { return Ok(None) };
    let mut transcripts = TranscriptTable::default();
    transcripts.add_folder(folder, folder).map_err(|(_, source)| source)?;
    Ok(transcripts.by_place.remove(&(folder.to_path_buf(), id)).filter(|text| !text.is_empty()))
}

/// Transcripts by folder and utterance id, and the invalid lines, each with its file.
#[derive(Debug, Default)]
pub(super) struct TranscriptTable {
    by_place: BTreeMap<(PathBuf, String), String>,
    pub(super) bad_lines: Vec<BadLine>,
}

impl TranscriptTable {
    /// Reads the transcripts next to `recordings`, which are below `input`.
    ///
    /// # Errors
    /// The file or folder that cannot be read, and the cause.
    pub(super) fn read(input: &Path, recordings: &[ScannedRecording]) -> Result<Self, (PathBuf, std::io::Error)> {
        let folders: BTreeSet<&Path> = recordings.iter().filter_map(|recording| recording.path.parent()).collect();
        let mut transcripts = Self::default();
        for folder in folders {
            transcripts.add_folder(input, folder)?;
        }
        Ok(transcripts)
    }

    /// Reads the transcripts in one folder.
    fn add_folder(&mut self, input: &Path, folder: &Path) -> Result<(), (PathBuf, std::io::Error)> {
        let at = |source| (folder.to_path_buf(), source);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(at)? {
            let path = entry.map_err(at)?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase());
            if name.is_some_and(|name| name.ends_with(ENDING) && !name.starts_with('.')) {
                files.push(path);
            }
        }
        files.sort();
        for file in files {
            self.file(input, &file).map_err(|source| (file, source))?;
        }
        Ok(())
    }

    /// Returns the transcript of a recording; `None` if it is missing or empty.
    pub(super) fn find(&self, recording: &ScannedRecording) -> Option<&str> {
        let folder = recording.path.parent()?.to_path_buf();
        self.by_place.get(&(folder, recording.id.clone())).map(String::as_str).filter(|text| !text.is_empty())
    }

    fn file(&mut self, input: &Path, path: &Path) -> std::io::Result<()> {
        let by_place = &mut self.by_place;
        let folder = path.parent().unwrap_or(path);
        let bad_lines = lines::each(BufReader::new(std::fs::File::open(path)?), |line| {
            let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
            let (id, text) = text.split_once([' ', '\t']).ok_or("no text after the id: a line is `id TEXT`")?;
            match by_place.entry((folder.to_path_buf(), id.to_owned())) {
                Entry::Occupied(known) if known.get() != text.trim() => {
                    Err(format!("another transcript of {id} than before"))
                }
                Entry::Occupied(_) => Ok(()),
                Entry::Vacant(place) => {
                    place.insert(text.trim().to_owned());
                    Ok(())
                }
            }
        })?;
        let name = path.strip_prefix(input).unwrap_or(path).display();
        let with_file = |bad: BadLine| BadLine { reason: format!("{name}: {}", bad.reason), ..bad };
        self.bad_lines.extend(bad_lines.into_iter().map(with_file));
        Ok(())
    }
}
