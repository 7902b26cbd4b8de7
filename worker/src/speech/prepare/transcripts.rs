//! What was said in each recording, by LibriSpeech-style transcripts: a `*.trans.txt` beside the recordings, a line
//! `id TEXT` for each. Only what lies in a recording's own folder is read for it: the folder of another speaker says nothing
//! of it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::scan::Recording;
use crate::speech::align::{BadLine, lines};

/// The ending of a file of transcripts.
const ENDING: &str = ".trans.txt";

/// Transcripts by folder and utterance id, and the lines that do not hold, each with its file.
#[derive(Debug, Default)]
pub(super) struct Transcripts {
    by_place: BTreeMap<(PathBuf, String), String>,
    pub(super) bad_lines: Vec<BadLine>,
}

impl Transcripts {
    /// Reads those beside `recordings`, which lie below `input`.
    ///
    /// # Errors
    /// The file or folder that cannot be read, and why.
    pub(super) fn read(input: &Path, recordings: &[Recording]) -> Result<Self, (PathBuf, std::io::Error)> {
        let folders: BTreeSet<&Path> = recordings.iter().filter_map(|recording| recording.path.parent()).collect();
        let mut transcripts = Self::default();
        for folder in folders {
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
                transcripts.file(input, &file).map_err(|source| (file, source))?;
            }
        }
        Ok(transcripts)
    }

    /// Returns what was said in a recording; `None` where nothing stands there.
    pub(super) fn find(&self, recording: &Recording) -> Option<&str> {
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
        let named = |bad: BadLine| BadLine { reason: format!("{name}: {}", bad.reason), ..bad };
        self.bad_lines.extend(bad_lines.into_iter().map(named));
        Ok(())
    }
}
