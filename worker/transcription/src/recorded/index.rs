//! The recognized words of the recorded speech: computed once, stored beside it, and read line by line.
//!
//! A line holds a recording: its pieces and their words. Any vocabulary can be applied to it, so the recordings are not
//! transcribed or read again.
//!
//! Files in the folder: `index.of` (the source of the index, written first), `index.lines` (each line is on disk before the next
//! recording starts), `index.json` ([`SpeechIndex`], written last). An interrupted run continues after the last complete line.
//! Memory holds the words of one recording, whatever the number of recordings.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::RecordedError;
use crate::piece::{Recognition, TimedWord};
use crate::recognize::pool::RecognizerPool;
use crate::segment::{SegmentLimits, SpokenPiece, segment};
use crate::vocabulary::language::StemmingLanguage;
use undertone_worker_site::folder::{FolderError, create_private, sync_folder, write_durably};
use undertone_worker_site::progress::ProgressReporter;
use undertone_worker_speech::recordings::{Recording, Recordings};

/// Version of the format. In 2, pieces were cut on a grid of 3 s; since 3, they are cut at rests.
pub const FORMAT: u32 = 3;

/// The source of an index. Any difference gives other pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexedSource {
    /// Version of the format, see [`FORMAT`].
    pub format: u32,
    /// Digest of the recordings.
    pub recordings: String,
    /// Their language, by ISO 639-1.
    pub language: String,
    /// The recognizer, see [`RecognizerPool::name`].
    pub recognizer: String,
}

/// A piece of an indexed recording.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexedPiece {
    /// First sample.
    pub start: u64,
    /// Sample after the last.
    pub end: u64,
    /// The words, timed from the beginning of the recording, in order.
    pub words: Vec<TimedWord>,
}

/// An indexed recording.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexLine {
    /// Its number among the recordings.
    pub recording: u32,
    /// Digest of its file.
    pub digest: String,
    /// Its pieces, in order of time.
    pub pieces: Vec<IndexedPiece>,
}

/// A complete index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeechIndex {
    /// The source.
    pub of: IndexedSource,
    /// Number of recordings.
    pub recordings: u64,
    /// Number of pieces.
    pub pieces: u64,
    /// Number of words.
    pub words: u64,
    /// SHA-256 of the lines, hexadecimal.
    pub digest: String,
}

impl IndexedSource {
    /// Describes `recordings` of a language, transcribed by `recognizer`.
    pub fn new(recordings: &Recordings, language: StemmingLanguage, recognizer: &str) -> Self {
        Self {
            format: FORMAT,
            recordings: recordings.meta().digest.clone(),
            language: language.code().to_owned(),
            recognizer: recognizer.to_owned(),
        }
    }

    /// Returns the first difference to the indexed source.
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

fn source_path(folder: &Path) -> PathBuf {
    folder.join("index.of")
}

fn lines_path(folder: &Path) -> PathBuf {
    folder.join("index.lines")
}

fn summary_path(folder: &Path) -> PathBuf {
    folder.join("index.json")
}

/// Transcribes the recordings that are not indexed yet, and reports progress. A complete index of the same source is not
/// changed; an index of another source is rebuilt with `replace`.
///
/// # Errors
/// [`RecordedError::Others`] for an index of another source, and the errors of reading, transcribing and the disk. Recordings
/// already indexed are kept.
pub fn make(
    recordings: &Recordings,
    language: StemmingLanguage,
    recognizer: &RecognizerPool,
    folder: &Path,
    replace: bool,
    progress: &dyn ProgressReporter,
) -> Result<SpeechIndex, RecordedError> {
    create_private(folder)?;
    let of = IndexedSource::new(recordings, language, recognizer.name());
    let before: Option<IndexedSource> = read(&source_path(folder))?;
    match before.as_ref().map(|before| of.differs(before)) {
        Some(None) => {}
        Some(Some(what)) if !replace => return Err(RecordedError::Others(what)),
        // Also removes lines whose source is unknown.
        _ => {
            for path in [summary_path(folder), lines_path(folder)] {
                remove(&path)?;
            }
            write_durably(&source_path(folder), &serialize(&of, &source_path(folder))?)?;
        }
    }
    let mut tally = IndexTally::default();
    let mut writer = IndexWriter::open(folder, recordings, &mut tally)?;
    let all = &recordings.meta().recordings;
    progress.start("Hearing recordings", all.len() as u64);
    progress.resume(tally.recordings);
    for (number, recording) in (0_u32..).zip(all).skip(tally.recordings as usize) {
        let line = IndexLine {
            recording: number,
            digest: recording.digest.clone(),
            pieces: transcribe_pieces(recordings, recording, recognizer)?,
        };
        writer.add(&line, &mut tally)?;
        progress.advance(1);
    }
    progress.finish();
    sync_folder(folder)?;
    let index = tally.index(of);
    write_durably(&summary_path(folder), &serialize(&index, &summary_path(folder))?)?;
    Ok(index)
}

/// Transcribes the pieces of a recording.
fn transcribe_pieces(
    recordings: &Recordings,
    recording: &Recording,
    recognizer: &RecognizerPool,
) -> Result<Vec<IndexedPiece>, RecordedError> {
    let sounds = segment(recordings.stream(recording)?, SegmentLimits::default())?;
    let base = |sound: SpokenPiece, recognition: Recognition| {
        let words = recognition.words.iter().map(|word| word.later(sound.piece.start())).collect();
        IndexedPiece { start: sound.piece.samples.start, end: sound.piece.samples.end, words }
    };
    recognizer.transcribe(sounds.map(|sound| sound.map_err(RecordedError::from)), &|| Ok(()), &base)
}

impl SpeechIndex {
    /// Opens the index in `folder`, and compares it with its source and its digest.
    ///
    /// # Errors
    /// [`RecordedError::Unfinished`] without a complete index, [`RecordedError::Others`] and [`RecordedError::Damaged`].
    pub fn open(folder: &Path, of: &IndexedSource) -> Result<Self, RecordedError> {
        let index = Self::look(folder)?.ok_or(RecordedError::Unfinished)?;
        if let Some(what) = of.differs(&index.of) {
            return Err(RecordedError::Others(what));
        }
        let path = lines_path(folder);
        let mut file = BufReader::new(File::open(&path).map_err(FolderError::io("open", &path))?);
        let mut hash = Sha256::new();
        loop {
            let piece = file.fill_buf().map_err(FolderError::io("read", &path))?;
            if piece.is_empty() {
                break;
            }
            hash.update(piece);
            let length = piece.len();
            file.consume(length);
        }
        if hex::encode(hash.finalize()) == index.digest { Ok(index) } else { Err(RecordedError::Damaged(path)) }
    }

    /// Reads the summary of the index in `folder`; `None` without a complete one. Does not read its lines.
    ///
    /// # Errors
    /// [`RecordedError::Damaged`] when it cannot be parsed.
    pub fn look(folder: &Path) -> Result<Option<Self>, RecordedError> {
        read(&summary_path(folder))
    }

    /// Reads its lines, one in memory at a time.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn lines(
        folder: &Path,
    ) -> Result<impl Iterator<Item = Result<IndexLine, RecordedError>> + use<>, RecordedError> {
        let path = lines_path(folder);
        let file = File::open(&path).map_err(FolderError::io("open", &path))?;
        let lines = BufReader::new(file).split(b'\n');
        Ok(lines.map(move |line| {
            let line = line.map_err(FolderError::io("read", &path))?;
            serde_json::from_slice(&line).map_err(|_| RecordedError::Damaged(path.clone()))
        }))
    }
}

/// Totals of the lines so far.
#[derive(Default)]
struct IndexTally {
    recordings: u64,
    pieces: u64,
    words: u64,
    hash: Sha256,
}

impl IndexTally {
    fn take(&mut self, line: &IndexLine, text: &[u8]) {
        self.recordings += 1;
        self.pieces += line.pieces.len() as u64;
        self.words += line.pieces.iter().map(|piece| piece.words.len() as u64).sum::<u64>();
        self.hash.update(text);
    }

    fn index(self, of: IndexedSource) -> SpeechIndex {
        let Self { recordings, pieces, words, hash } = self;
        SpeechIndex { of, recordings, pieces, words, digest: hex::encode(hash.finalize()) }
    }
}

/// The file of lines, open for appending.
struct IndexWriter {
    file: File,
    path: PathBuf,
}

impl IndexWriter {
    /// Counts the complete lines, and truncates an incomplete one.
    fn open(folder: &Path, recordings: &Recordings, tally: &mut IndexTally) -> Result<Self, RecordedError> {
        let path = lines_path(folder);
        let io = |action| FolderError::io(action, &path);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(io("open"))?;
        let mut reader = BufReader::new(&file);
        let mut text = Vec::new();
        let mut bytes = 0;
        loop {
            text.clear();
            reader.read_until(b'\n', &mut text).map_err(io("read"))?;
            if text.last() != Some(&b'\n') {
                break;
            }
            let expected = recordings.meta().recordings.get(tally.recordings as usize);
            let line: Option<IndexLine> = serde_json::from_slice(&text).ok();
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

    /// Appends a line; it is on disk when this returns.
    fn add(&mut self, line: &IndexLine, tally: &mut IndexTally) -> Result<(), RecordedError> {
        let mut text = serialize(line, &self.path)?;
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

/// Serializes a value; numbers and words always serialize.
fn serialize(value: &impl Serialize, path: &Path) -> Result<Vec<u8>, RecordedError> {
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
