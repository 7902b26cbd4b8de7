//! Dummies from recorded people, against the same adversary: every other reader is transcribed, and the remaining
//! readers are the public speech for dummies; then with exchanged roles. No piece has both roles, and none is used for
//! two dummies.
//!
//! The public speech passes the same steps as the transcribed documents: the same cuts, the same recognizer, the same
//! words, without sensitive pieces. There is too little of it for a plan, so the number of dummies equals that of the
//! pieces, of any word. With `UNDERTONE_TRANSCRIPTION_CORPUS`, it includes speakers of another corpus, from other rooms
//! and microphones.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use serde_json::json;
use support::stage::TestResult;
use undertone_worker::site::clock::entropy;
use undertone_worker::speech::transcribe::dummy::{PhraseLength, PhraseLengths};
use undertone_worker::speech::transcribe::piece::TimedWord;
use undertone_worker::speech::transcribe::recorded::choice::PiecePool;
use undertone_worker::speech::transcribe::vocabulary::PieceWords;

use super::dummy::{DocumentSounds, leaving, tell};
use super::site::{self, PreparedRecording, SiteTools};
use super::sizes::TranscriptionSizes;
use super::stages::StageTimes;
use super::{document, say};
use crate::report::Report;

/// A piece of public speech, with its recognized words.
struct PublicPiece<'a> {
    audio: &'a [f32],
    words: &'a [TimedWord],
}

/// # Errors
/// When a module fails.
pub(super) async fn measure(
    report: &mut Report,
    sizes: &TranscriptionSizes,
    tools: &SiteTools,
    readers: &[PreparedRecording],
    stages: &mut StageTimes,
) -> TestResult<()> {
    let mut others = Vec::new();
    for document in document::corpus(sizes)? {
        others.push(site::prepare(tools, &document, stages).await?);
    }
    for (half, name) in [(0, "every other reader"), (1, "the others")] {
        let (transcribed, public): (Vec<_>, Vec<_>) =
            readers.iter().enumerate().partition(|(number, _)| number % 2 == half);
        let transcribed: Vec<&PreparedRecording> = transcribed.into_iter().map(|(_, reader)| reader).collect();
        let mut corpus = Vec::new();
        for reader in public.into_iter().map(|(_, reader)| reader).chain(&others) {
            corpus.extend(pieces(reader)?);
        }
        if transcribed.is_empty() || corpus.len() < transcribed.len() {
            let row = json!({ "attack": "true or dummy", "transcribed": name, "recorded pieces": corpus.len(),
                               "left out": "too few readers to be public speech for each other" });
            say(report, row)?;
            continue;
        }
        let sounds = make(sizes, tools, &transcribed, &corpus)?;
        tell(report, sizes, tools, &sounds, &format!("recorded; {name} transcribed"), stages).await?;
    }
    Ok(())
}

/// Returns the pieces of a reader that may be dummies.
fn pieces(reader: &PreparedRecording) -> TestResult<Vec<PublicPiece<'_>>> {
    let fits = reader.candidates.iter().filter(|(_, held)| *held != PieceWords::Several);
    fits.map(|(id, _)| {
        let part = reader.parts.get(*id as usize).ok_or("a piece without a part")?;
        Ok(PublicPiece { audio: &reader.piece(*id)?.audio, words: &part.offline.words })
    })
    .collect()
}

/// Returns the sounds of each reader: true pieces, and a share of the public ones.
fn make(
    sizes: &TranscriptionSizes,
    tools: &SiteTools,
    transcribed: &[&PreparedRecording],
    corpus: &[PublicPiece<'_>],
) -> TestResult<Vec<DocumentSounds>> {
    let language = tools.vocabulary.language();
    let stops = language.stop_words();
    let lengths: Vec<PhraseLength> = corpus.iter().map(|piece| PhraseLength::from_words(piece.words, &stops)).collect();
    let mut pool = PiecePool::new(&lengths, (0..corpus.len() as u32).collect());
    let mut rng = ChaCha20Rng::from_seed(entropy()?);
    let each = sizes.sounds.div_ceil(transcribed.len());
    let share = (corpus.len() / transcribed.len()).min(each);
    let mut sounds = Vec::new();
    for reader in transcribed {
        let mut dummies = Vec::new();
        for _ in 0..share {
            let piece = pool.take(&PhraseLengths::public(), &mut rng).and_then(|number| corpus.get(number as usize));
            let piece = piece.ok_or("more dummies than pieces")?;
            dummies.push(piece.audio.to_vec());
        }
        sounds.push(DocumentSounds { pieces: leaving(reader, each)?, dummies, imitations: Vec::new() });
    }
    Ok(sounds)
}
