#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;

use super::*;
use crate::recognize::{RecognizerError, SpeechRecognizer};
use crate::wav;
use undertone_worker_site::progress::SilentProgress;
use undertone_worker_speech::recordings::{Options, add};
use undertone_worker_speech::synthesize::synthesize_text;

/// Recognizes one word in every sound; after a number of sounds it is gone.
struct FakeRecognizer {
    name: &'static str,
    left: AtomicU32,
}

#[async_trait]
impl SpeechRecognizer for FakeRecognizer {
    fn name(&self) -> &str {
        self.name
    }

    async fn transcribe(&self, audio: &[f32]) -> Result<Recognition, RecognizerError> {
        let remaining = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if remaining.is_err() {
            return Err(RecognizerError::Status { status: 410, remedy: "it is gone" });
        }
        let seconds = audio.len() as f64 / 16_000.0;
        let word = |text: String, start, end| TimedWord { text, start, end, confidence: Some(0.1 + 0.2) };
        let words = vec![
            word(format!("w{}", audio.len()), 0.1 * seconds, 0.4 * seconds),
            word("garden".to_owned(), 0.6 * seconds, 0.9 * seconds),
        ];
        Ok(Recognition { words })
    }
}

fn recognizer_pool(name: &'static str, left: u32) -> RecognizerPool {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    RecognizerPool::new(runtime, Box::new(FakeRecognizer { name, left: AtomicU32::new(left) }), 1)
}

fn english() -> StemmingLanguage {
    StemmingLanguage::new("en").unwrap()
}

/// Three recordings, each a phrase spoken twice; `None` without flite.
fn recordings(folder: &Path, phrases: [&str; 3]) -> Option<Recordings> {
    let input = folder.join(format!("in-{}", phrases[0].len()));
    fs::create_dir(&input).unwrap();
    for (number, phrase) in phrases.into_iter().enumerate() {
        let speech = synthesize_text(phrase)?;
        let mut sound = vec![0.000_1; 8_000];
        for _ in 0..2 {
            sound.extend(&speech);
            sound.extend(vec![0.000_1; 16_000]);
        }
        fs::write(input.join(format!("{number}.wav")), wav::write(&sound)).unwrap();
    }
    let output = folder.join("recordings");
    let options =
        Options { input, output: output.clone(), name: "recordings".to_owned(), replace: true, created: String::new() };
    add(&options).unwrap();
    Some(Recordings::open(&output).unwrap())
}

const PHRASES: [&str; 3] = ["the patient will visit the ward", "nobody came back from the mountains", "so it goes"];

fn build_index(
    recordings: &Recordings,
    folder: &Path,
    recognizer_pool: &RecognizerPool,
    replace: bool,
) -> Result<SpeechIndex, RecordedError> {
    make(recordings, english(), recognizer_pool, folder, replace, &SilentProgress)
}

/// Needs flite; passes without it.
#[test]
fn interrupted_index_resumes_with_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    let Some(recordings) = recordings(folder.path(), PHRASES) else { return };
    let at_once =
        build_index(&recordings, &folder.path().join("at-once"), &recognizer_pool("hearer", 1_000), false).unwrap();
    assert_eq!(at_once.recordings, 3);
    assert!(at_once.pieces >= 5 && at_once.words == 2 * at_once.pieces, "{at_once:?}");
    let parts = folder.path().join("parts");
    let mut runs = 0;
    let mut index = None;
    while index.is_none() {
        runs += 1;
        index = match build_index(&recordings, &parts, &recognizer_pool("hearer", 3), false) {
            Ok(index) => Some(index),
            Err(RecordedError::Recognizer(_)) => None,
            Err(other) => panic!("{other}"),
        };
        assert!(index.is_some() || matches!(SpeechIndex::look(&parts), Ok(None)), "it is not whole before its end");
        // Half a line, as after a crash.
        let partial = OpenOptions::new().append(true).open(lines_path(&parts)).unwrap().write_all(b"{\"recording\":");
        assert!(partial.is_ok() && runs < 20);
    }
    assert!(runs > 1, "{runs}");
    assert_eq!(index, Some(at_once.clone()));
    // The next run truncates it, and transcribes nothing twice.
    assert_eq!(build_index(&recordings, &parts, &recognizer_pool("hearer", 0), false).unwrap(), at_once);
    let of = IndexedSource::new(&recordings, english(), "hearer");
    assert_eq!(SpeechIndex::open(&parts, &of).unwrap(), at_once);
    let read: Vec<IndexLine> = SpeechIndex::lines(&parts).unwrap().map(Result::unwrap).collect();
    assert_eq!(read.len(), 3);
    for line in &read {
        assert!(line.pieces.iter().all(|piece| piece.words.len() == 2));
        assert_eq!(line.digest, recordings.meta().recordings[line.recording as usize].digest);
    }
}

/// Needs flite; passes without it.
#[test]
fn index_of_another_source_is_not_used_or_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(first) = recordings(folder.path(), PHRASES) else { return };
    let at = folder.path().join("index");
    let of = IndexedSource::new(&first, english(), "hearer");
    assert!(matches!(SpeechIndex::open(&at, &of), Err(RecordedError::Unfinished)));
    let index = build_index(&first, &at, &recognizer_pool("hearer", 1_000), false).unwrap();
    let german = IndexedSource { language: "de".to_owned(), ..of.clone() };
    assert!(matches!(SpeechIndex::open(&at, &german), Err(RecordedError::Others("language"))));
    let other = build_index(&first, &at, &recognizer_pool("other", 1_000), false);
    assert!(matches!(other, Err(RecordedError::Others("recognizer"))));
    assert_eq!(SpeechIndex::open(&at, &of).unwrap(), index, "it is left as it is");
    let second = recordings(folder.path(), ["open the door", "turn left", "what a day it was"]).unwrap();
    assert!(matches!(
        build_index(&second, &at, &recognizer_pool("hearer", 9), false),
        Err(RecordedError::Others("recordings"))
    ));
    let anew = build_index(&second, &at, &recognizer_pool("hearer", 1_000), true).unwrap();
    assert_ne!(anew.digest, index.digest);
    // Changed content is not read.
    let text = fs::read_to_string(lines_path(&at)).unwrap();
    fs::write(lines_path(&at), text.replacen("garden", "window", 1)).unwrap();
    let of = IndexedSource::new(&second, english(), "hearer");
    assert!(matches!(SpeechIndex::open(&at, &of), Err(RecordedError::Damaged(_))));
}
