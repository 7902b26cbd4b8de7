//! The sound of pieces of recorded speech, recording by recording.

use std::collections::HashMap;

use super::RecordedError;
use super::offer::Offer;
use crate::speech::recordings::{Recording, Recordings};
use crate::speech::transcribe::piece::Piece;
use crate::speech::transcribe::segment::cut::cut;

/// The order in which pieces are read: by recording, then by time.
pub fn in_order<T>(pieces: &mut [(T, Offer)]) {
    pieces.sort_by_key(|(_, offer)| (offer.recording, offer.start));
}

/// The sounds of `pieces`, which are [`in_order`], one after the other; their recordings are numbers in the list of `digests`. Each
/// recording is read once for pieces that lie next to each other, and held against its digest. After an error it is over.
///
/// # Errors
/// [`RecordedError::Gone`] where one of the recordings is not there any more.
pub fn sounds<'a, T>(
    recordings: &'a Recordings,
    digests: &[String],
    pieces: &'a [(T, Offer)],
) -> Result<impl Iterator<Item = Result<Vec<f32>, RecordedError>> + use<'a, T>, RecordedError> {
    let known: HashMap<&str, &Recording> =
        recordings.meta().recordings.iter().map(|recording| (recording.digest.as_str(), recording)).collect();
    let of = |digest: &String| known.get(digest.as_str()).copied();
    let of: Vec<Option<&'a Recording>> = digests.iter().map(of).collect();
    let mut runs = Vec::new();
    for run in pieces.chunk_by(|(_, one), (_, next)| one.recording == next.recording) {
        let recording = run.first().and_then(|(_, offer)| of.get(offer.recording as usize).copied().flatten());
        runs.push((recording.ok_or(RecordedError::Gone)?, run));
    }
    Ok(runs.into_iter().flat_map(move |(recording, run)| read(recordings, recording, run)))
}

/// The sounds of some pieces of one recording.
fn read<'a, T>(
    recordings: &Recordings,
    recording: &Recording,
    run: &'a [(T, Offer)],
) -> Box<dyn Iterator<Item = Result<Vec<f32>, RecordedError>> + 'a> {
    let stream = match recordings.stream(recording) {
        Ok(stream) => stream,
        Err(error) => return Box::new(std::iter::once(Err::<Vec<f32>, _>(RecordedError::from(error)))),
    };
    let pieces = (0_u32..).zip(run).map(|(id, (_, offer))| Piece { id, samples: offer.start..offer.end });
    Box::new(cut(stream, pieces).map(|sound| sound.map(|sound| sound.audio).map_err(RecordedError::from)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::speech::recordings::{Options, add};
    use crate::speech::transcribe::dummy::Length;
    use crate::speech::transcribe::wav;

    fn offer(recording: u32, start: u64, end: u64) -> Offer {
        Offer { recording, start, end, word: None, length: Length { words: 1, content: 1 } }
    }

    /// Two recordings, of which every sample tells where it is.
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
    fn each_piece_has_its_own_sound_in_the_order_in_which_they_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = recordings(folder.path());
        let mut digests: Vec<String> = recordings.meta().recordings.iter().map(|one| one.digest.clone()).collect();
        digests.reverse();
        // The list has the second recording first.
        let mut pieces =
            vec![("last", offer(1, 500, 600)), ("second", offer(0, 700, 800)), ("first", offer(0, 0, 100))];
        in_order(&mut pieces);
        assert_eq!(pieces.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["first", "second", "last"]);
        let heard: Vec<Vec<f32>> = sounds(&recordings, &digests, &pieces).unwrap().map(Result::unwrap).collect();
        let begins: Vec<f32> = heard.iter().map(|sound| (sound[50] * 8_192.0).round()).collect();
        assert_eq!(begins, [-50.0, -750.0, 550.0]);
        assert!(heard.iter().all(|sound| sound.len() == 100));
    }

    #[test]
    fn a_recording_that_is_gone_or_was_changed_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = recordings(folder.path());
        let digests: Vec<String> = recordings.meta().recordings.iter().map(|one| one.digest.clone()).collect();
        let pieces = [((), offer(0, 0, 100))];
        assert!(matches!(sounds(&recordings, &["gone".to_owned()], &pieces).err(), Some(RecordedError::Gone)));
        let file = folder.path().join("speech/audio").join(&recordings.meta().recordings[0].file);
        std::fs::write(file, wav::write(&vec![0.5; 8_000])).unwrap();
        let mut heard = sounds(&recordings, &digests, &pieces).unwrap();
        assert!(matches!(heard.next(), Some(Err(RecordedError::Recording(_)))));
    }
}
