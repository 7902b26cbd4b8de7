//! A folder of short recordings with their transcripts, as `data spell` and `data prepare` read them.

use std::fmt::Write as _;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{FinishedError, FinishedTranscripts};
use crate::site::folder::{FolderError, create_private};
use crate::speech::recordings::{Recording, RecordingError};
use crate::speech::transcribe::segment::{SegmentLimits, segment};
use crate::speech::transcribe::transcript::TranscriptWord;
use crate::speech::wav;

/// The result of cutting recordings into pieces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CorpusSummary {
    /// Recordings with a piece in the folder.
    pub(crate) recordings: u64,
    /// Pieces with words.
    pub(crate) pieces: u64,
    /// Pieces without a word, which are left out.
    pub(crate) empty: u64,
}

impl FinishedTranscripts {
    /// Cuts every recording into the pieces of the job, and writes those with words below `folder`:
    /// `<speaker>/<recording>/<recording>-<piece>.wav`, with a `.trans.txt` for each recording. The name of a piece depends on its
    /// recording's name alone.
    ///
    /// # Errors
    /// [`FinishedError`] when a recording or its transcript cannot be read, or the disk refuses.
    pub(crate) fn write_corpus(&self, folder: &Path) -> Result<CorpusSummary, FinishedError> {
        let mut summary = CorpusSummary::default();
        for recording in self.recordings() {
            let pieces = self.write_recording(folder, recording, &mut summary)?;
            summary.recordings += u64::from(pieces > 0);
            summary.pieces += pieces;
        }
        Ok(summary)
    }

    fn write_recording(
        &self,
        folder: &Path,
        recording: &Recording,
        summary: &mut CorpusSummary,
    ) -> Result<u64, FinishedError> {
        let words = self.words(recording)?;
        let digest = hex::encode(Sha256::digest(recording.name.as_bytes()));
        let name = digest.get(..16).unwrap_or(&digest);
        let chapter = folder.join(self.speaker(recording)).join(name);
        create_private(&chapter)?;
        let mut transcripts = String::new();
        let mut pieces = 0;
        for sound in segment(self.recordings.stream(recording)?, SegmentLimits::default())? {
            let sound = sound.map_err(RecordingError::Audio)?;
            let text = text_between(&words, sound.piece.start(), sound.piece.end());
            if text.is_empty() {
                summary.empty += 1;
                continue;
            }
            let id = format!("{name}-{:06}", sound.piece.id);
            write(&chapter.join(format!("{id}.wav")), &wav::write(&sound.audio))?;
            // Writing to a string cannot fail.
            let _ = writeln!(transcripts, "{id} {text}");
            pieces += 1;
        }
        write(&chapter.join(format!("{name}.trans.txt")), transcripts.as_bytes())?;
        Ok(pieces)
    }
}

/// Returns the words whose middle is in a span of time, separated by spaces.
fn text_between(words: &[TranscriptWord], start: f64, end: f64) -> String {
    let inside = |word: &&TranscriptWord| (start..end).contains(&f64::midpoint(word.start, word.end));
    let texts = words.iter().filter(inside).flat_map(|word| word.text.split_whitespace());
    texts.collect::<Vec<_>>().join(" ")
}

fn write(path: &Path, content: &[u8]) -> Result<(), FinishedError> {
    std::fs::write(path, content).map_err(FolderError::io("write", path))?;
    Ok(())
}
