//! The sound of pieces of recorded speech, recording by recording.

use std::collections::HashMap;

use super::RecordedError;
use super::offer::PieceOffer;
use crate::piece::Piece;
use crate::segment::cut::extract_pieces;
use undertone_worker_speech::recordings::{Recording, Recordings};

/// Sorts pieces into reading order: by recording, then by time.
pub fn in_order<T>(pieces: &mut [(T, PieceOffer)]) {
    pieces.sort_by_key(|(_, offer)| (offer.recording, offer.start));
}

/// Reads the sounds of `pieces`, which are sorted by [`in_order`]; their recordings are indices into `digests`. Each recording
/// is read once for consecutive pieces, and compared with its digest. The iterator ends after an error.
///
/// # Errors
/// [`RecordedError::Gone`] when a recording is missing.
pub fn sounds<'a, T>(
    recordings: &'a Recordings,
    digests: &[String],
    pieces: &'a [(T, PieceOffer)],
) -> Result<impl Iterator<Item = Result<Vec<f32>, RecordedError>> + use<'a, T>, RecordedError> {
    let by_digest: HashMap<&str, &Recording> =
        recordings.meta().recordings.iter().map(|recording| (recording.digest.as_str(), recording)).collect();
    let of = |digest: &String| by_digest.get(digest.as_str()).copied();
    let of: Vec<Option<&'a Recording>> = digests.iter().map(of).collect();
    let mut runs = Vec::new();
    for run in pieces.chunk_by(|(_, one), (_, next)| one.recording == next.recording) {
        let recording = run.first().and_then(|(_, offer)| of.get(offer.recording as usize).copied().flatten());
        runs.push((recording.ok_or(RecordedError::Gone)?, run));
    }
    Ok(runs.into_iter().flat_map(move |(recording, run)| read(recordings, recording, run)))
}

/// Reads the sounds of some pieces of one recording.
fn read<'a, T>(
    recordings: &Recordings,
    recording: &Recording,
    run: &'a [(T, PieceOffer)],
) -> Box<dyn Iterator<Item = Result<Vec<f32>, RecordedError>> + 'a> {
    let stream = match recordings.stream(recording) {
        Ok(stream) => stream,
        Err(error) => return Box::new(std::iter::once(Err::<Vec<f32>, _>(RecordedError::from(error)))),
    };
    let pieces = (0_u32..).zip(run).map(|(id, (_, offer))| Piece { id, samples: offer.start..offer.end });
    Box::new(extract_pieces(stream, pieces).map(|sound| sound.map(|sound| sound.audio).map_err(RecordedError::from)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::dummy::PhraseLength;
    use crate::wav;
    use undertone_worker_speech::recordings::{Options, add};

    fn offer(recording: u32, start: u64, end: u64) -> PieceOffer {
        PieceOffer { recording, start, end, word: None, length: PhraseLength { words: 1, content: 1 } }
    }

    /// Two recordings; every sample encodes its position.
    fn recordings(folder: &std::path::Path) -> Recordings {
        let input = folder.join("in");
        std::fs::create_dir(&input).unwrap();
        for (name, sign) in [("a", 1.0_f32), ("b", -1.0)] {
            let samples: Vec<f32> = (0..8_000_u16).map(|n| sign * f32::from(n) / 8_192.0).collect();
            std::fs::write(input.join(format!("{name}.wav")), wav::write(&samples)).unwrap();
        }
        let output = folder.join("speech");
        let options = Options {
            input,
            output: output.clone(),
            name: "speech".to_owned(),
            replace: false,
            created: String::new(),
        };
        add(&options).unwrap();
        Recordings::open(&output).unwrap()
    }

    #[test]
    fn sounds_are_read_in_piece_order() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = recordings(folder.path());
        let mut digests: Vec<String> = recordings.meta().recordings.iter().map(|one| one.digest.clone()).collect();
        digests.reverse();
        // The list has the second recording first.
        let mut pieces =
            vec![("last", offer(1, 500, 600)), ("second", offer(0, 700, 800)), ("first", offer(0, 0, 100))];
        in_order(&mut pieces);
        assert_eq!(pieces.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["first", "second", "last"]);
        let sounds_read: Vec<Vec<f32>> = sounds(&recordings, &digests, &pieces).unwrap().map(Result::unwrap).collect();
        let begins: Vec<f32> = sounds_read.iter().map(|sound| (sound[50] * 8_192.0).round()).collect();
        assert_eq!(begins, [-50.0, -750.0, 550.0]);
        assert!(sounds_read.iter().all(|sound| sound.len() == 100));
    }

    #[test]
    fn missing_or_changed_recording_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = recordings(folder.path());
        let digests: Vec<String> = recordings.meta().recordings.iter().map(|one| one.digest.clone()).collect();
        let pieces = [((), offer(0, 0, 100))];
        assert!(matches!(sounds(&recordings, &["gone".to_owned()], &pieces).err(), Some(RecordedError::Gone)));
        let file = folder.path().join("speech/audio").join(&recordings.meta().recordings[0].file);
        std::fs::write(file, wav::write(&vec![0.5; 8_000])).unwrap();
        let mut sounds_read = sounds(&recordings, &digests, &pieces).unwrap();
        assert!(matches!(sounds_read.next(), Some(Err(RecordedError::Recording(_)))));
    }
}
