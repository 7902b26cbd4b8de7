//! What was heard in the recorded speech: made once, kept beside it, and read line by line.
//!
//! A line is a recording: its pieces and the words in them. That is all that any vocabulary needs, so the recordings are not heard,
//! nor even read, again.
//!
//! In the folder: `index.of` (of what it is, written first), `index.lines` (a line is on disk before the next recording is begun),
//! `index.json` ([`Index`], written last). A run that is killed goes on after the last whole line. In memory is one recording's
//! words, whatever their number.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::RecordedError;
use crate::site::folder::{FolderError, create_private, sync_folder, write_durably};
use crate::speech::progress::Progress;
use crate::speech::recordings::{Recording, Recordings};
use crate::speech::transcribe::piece::{Heard, Word};
use crate::speech::transcribe::recognize::ears::Ears;
use crate::speech::transcribe::segment::{Limits, Spoken, segment};
use crate::speech::transcribe::vocabulary::language::Language;

/// Version of the form. Since 2, pieces are cut on the public grid.
pub const FORMAT: u32 = 2;

/// Of what an index is. Any difference makes other pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Of {
    /// Version of the form, see [`FORMAT`].
    pub format: u32,
    /// Digest of the recordings.
    pub recordings: String,
    /// What is spoken in them, by ISO 639-1.
    pub language: String,
    /// Who heard them, see [`Ears::name`].
    pub recognizer: String,
}

/// A piece.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// Its first sample.
    pub start: u64,
    /// The sample after its last.
    pub end: u64,
    /// What was heard in it, timed from the beginning of the recording, in order.
    pub words: Vec<Word>,
}

/// A recording.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Its number among the recordings.
    pub recording: u32,
    /// Digest of its file.
    pub digest: String,
    /// Its pieces, in order of time.
    pub pieces: Vec<Base>,
}

/// A whole index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Of what.
    pub of: Of,
    /// How many recordings.
    pub recordings: u64,
    /// Their pieces.
    pub pieces: u64,
    /// Words that were heard.
    pub words: u64,
    /// SHA-256 of the lines, hexadecimal.
    pub digest: String,
}

impl Of {
    /// These recordings, of a language, heard by `recognizer`.
    pub fn these(recordings: &Recordings, language: Language, recognizer: &str) -> Self {
        Self {
            format: FORMAT,
            recordings: recordings.meta().digest.clone(),
            language: language.code().to_owned(),
            recognizer: recognizer.to_owned(),
        }
    }

    /// What differs first from what was indexed.
    fn differs(&self, indexed: &Self) -> Option<&'static str> {
        [
            ("form", self.format == indexed.format),
            ("recordings", self.recordings == indexed.recordings),
            ("language", self.language == indexed.language),
            ("recognizer", self.recognizer == indexed.recognizer),
        ]
        .into_iter()
        .find_map(|(what, same)| (!same).then_some(what))
    }
}

fn begun(folder: &Path) -> PathBuf {
    folder.join("index.of")
}

fn lines(folder: &Path) -> PathBuf {
    folder.join("index.lines")
}

fn whole(folder: &Path) -> PathBuf {
    folder.join("index.json")
}

/// Hears what was not heard yet, and tells how far it is. An index of the same that is whole is left as it is; one of something else
/// is made anew with `replace`.
///
/// # Errors
/// [`RecordedError::Others`] for an index of something else, and what reading, hearing and the disk have. What was heard before is
/// kept.
pub fn make(
    recordings: &Recordings,
    language: Language,
    ears: &Ears,
    folder: &Path,
    replace: bool,
    progress: &dyn Progress,
) -> Result<Index, RecordedError> {
    create_private(folder)?;
    let of = Of::these(recordings, language, ears.name());
    let before: Option<Of> = read(&begun(folder))?;
    match before.as_ref().map(|before| of.differs(before)) {
        Some(None) => {}
        Some(Some(what)) if !replace => return Err(RecordedError::Others(what)),
        // Also lines of which nobody knows what they are of.
        _ => {
            for path in [whole(folder), lines(folder)] {
                remove(&path)?;
            }
            write_durably(&begun(folder), &written(&of, &begun(folder))?)?;
        }
    }
    let mut tally = Tally::default();
    let mut growing = Growing::open(folder, recordings, &mut tally)?;
    let all = &recordings.meta().recordings;
    progress.start("Hearing recordings", all.len() as u64);
    progress.resume(tally.recordings);
    for (number, recording) in (0_u32..).zip(all).skip(tally.recordings as usize) {
        let line =
            Line { recording: number, digest: recording.digest.clone(), pieces: hear(recordings, recording, ears)? };
        growing.add(&line, &mut tally)?;
        progress.advance(1);
    }
    progress.finish();
    sync_folder(folder)?;
    let index = tally.index(of);
    write_durably(&whole(folder), &written(&index, &whole(folder))?)?;
    Ok(index)
}

/// The pieces of a recording.
fn hear(recordings: &Recordings, recording: &Recording, ears: &Ears) -> Result<Vec<Base>, RecordedError> {
    let sounds = segment(recordings.stream(recording)?, Limits::default())?;
    let base = |sound: Spoken, heard: Heard| {
        let words = heard.words.iter().map(|word| word.later(sound.piece.start())).collect();
        Base { start: sound.piece.samples.start, end: sound.piece.samples.end, words }
    };
    ears.hear(sounds.map(|sound| sound.map_err(RecordedError::from)), &|| Ok(()), &base)
}

impl Index {
    /// The index in `folder`, held against what it is to be of and against its digest.
    ///
    /// # Errors
    /// [`RecordedError::Unfinished`] where none is whole, [`RecordedError::Others`] and [`RecordedError::Damaged`].
    pub fn open(folder: &Path, of: &Of) -> Result<Self, RecordedError> {
        let index = Self::look(folder)?.ok_or(RecordedError::Unfinished)?;
        if let Some(what) = of.differs(&index.of) {
            return Err(RecordedError::Others(what));
        }
        let path = lines(folder);
        let mut file = BufReader::new(File::open(&path).map_err(FolderError::io("open", &path))?);
        let mut hash = Sha256::new();
        loop {
            let piece = file.fill_buf().map_err(FolderError::io("read", &path))?;
            if piece.is_empty() {
                break;
            }
            hash.update(piece);
            let taken = piece.len();
            file.consume(taken);
        }
        if hex::encode(hash.finalize()) == index.digest { Ok(index) } else { Err(RecordedError::Damaged(path)) }
    }

    /// What is said of the index in `folder`; nothing where none is whole. Its lines are not looked at.
    ///
    /// # Errors
    /// [`RecordedError::Damaged`] when it cannot be read.
    pub fn look(folder: &Path) -> Result<Option<Self>, RecordedError> {
        read(&whole(folder))
    }

    /// Its lines, one in memory at a time.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn lines(folder: &Path) -> Result<impl Iterator<Item = Result<Line, RecordedError>> + use<>, RecordedError> {
        let path = lines(folder);
        let file = File::open(&path).map_err(FolderError::io("open", &path))?;
        let lines = BufReader::new(file).split(b'\n');
        Ok(lines.map(move |line| {
            let line = line.map_err(FolderError::io("read", &path))?;
            serde_json::from_slice(&line).map_err(|_| RecordedError::Damaged(path.clone()))
        }))
    }
}

/// What was counted of the lines so far.
#[derive(Default)]
struct Tally {
    recordings: u64,
    pieces: u64,
    words: u64,
    hash: Sha256,
}

impl Tally {
    fn take(&mut self, line: &Line, text: &[u8]) {
        self.recordings += 1;
        self.pieces += line.pieces.len() as u64;
        self.words += line.pieces.iter().map(|piece| piece.words.len() as u64).sum::<u64>();
        self.hash.update(text);
    }

    fn index(self, of: Of) -> Index {
        let Self { recordings, pieces, words, hash } = self;
        Index { of, recordings, pieces, words, digest: hex::encode(hash.finalize()) }
    }
}

/// The lines, open for more.
struct Growing {
    file: File,
    path: PathBuf,
}

impl Growing {
    /// Takes what is whole of the lines into account, and cuts off what is not.
    fn open(folder: &Path, recordings: &Recordings, tally: &mut Tally) -> Result<Self, RecordedError> {
        let path = lines(folder);
        let io = |action| FolderError::io(action, &path);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(io("open"))?;
        let mut reader = BufReader::new(&file);
        let (mut text, mut bytes) = (Vec::new(), 0);
        loop {
            text.clear();
            reader.read_until(b'\n', &mut text).map_err(io("read"))?;
            if text.last() != Some(&b'\n') {
                break;
            }
            let expected = recordings.meta().recordings.get(tally.recordings as usize);
            let line: Option<Line> = serde_json::from_slice(&text).ok();
            let fits = line.filter(|line| {
                u64::from(line.recording) == tally.recordings && expected.is_some_and(|of| of.digest == line.digest)
            });
            let line = fits.ok_or_else(|| RecordedError::Damaged(path.clone()))?;
            tally.take(&line, &text);
            bytes += text.len() as u64;
        }
        drop(reader);
        file.set_len(bytes).map_err(io("cut"))?;
        file.seek(SeekFrom::Start(bytes)).map_err(io("read"))?;
        Ok(Self { file, path })
    }

    /// Adds a line; it is on disk when this returns.
    fn add(&mut self, line: &Line, tally: &mut Tally) -> Result<(), RecordedError> {
        let mut text = written(line, &self.path)?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(FolderError::io("write", &self.path))?;
        self.file.sync_data().map_err(FolderError::io("sync", &self.path))?;
        tally.take(line, &text);
        Ok(())
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, RecordedError> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|_| RecordedError::Damaged(path.to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FolderError::io("read", path)(error).into()),
    }
}

/// Numbers and words have a JSON form.
fn written(value: &impl Serialize, path: &Path) -> Result<Vec<u8>, RecordedError> {
    serde_json::to_vec(value).map_err(|error| FolderError::io("write", path)(std::io::Error::other(error)).into())
}

fn remove(path: &Path) -> Result<(), FolderError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(FolderError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
