#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;

use super::*;
use crate::speech::progress::Silent;
use crate::speech::recordings::{Options, add};
use crate::speech::synthesize::spoken;
use crate::speech::transcribe::recognize::{Recognizer, RecognizerError};
use crate::speech::transcribe::wav;

/// Hears one word in every sound, and is gone after so many.
struct Hearer {
    name: &'static str,
    left: AtomicU32,
}

#[async_trait]
impl Recognizer for Hearer {
    fn name(&self) -> &str {
        self.name
    }

    async fn hear(&self, audio: &[f32]) -> Result<Heard, RecognizerError> {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_err() {
            return Err(RecognizerError::Status { status: 410, remedy: "it is gone" });
        }
        let seconds = audio.len() as f64 / 16_000.0;
        let word = |text: String, start, end| Word { text, start, end, confidence: Some(0.1 + 0.2) };
        let words = vec![
            word(format!("w{}", audio.len()), 0.1 * seconds, 0.4 * seconds),
            word("garden".to_owned(), 0.6 * seconds, 0.9 * seconds),
        ];
        Ok(Heard { words })
    }
}

fn ears(name: &'static str, left: u32) -> Ears {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    Ears::new(runtime, Box::new(Hearer { name, left: AtomicU32::new(left) }), 1)
}

fn english() -> Language {
    Language::new("en").unwrap()
}

/// Three recordings, each a phrase said twice; nothing without flite.
fn recordings(folder: &Path, phrases: [&str; 3]) -> Option<Recordings> {
    let input = folder.join(format!("in-{}", phrases[0].len()));
    fs::create_dir(&input).unwrap();
    for (number, phrase) in phrases.into_iter().enumerate() {
        let said = spoken(phrase)?;
        let mut sound = vec![0.000_1; 8_000];
        for _ in 0..2 {
            sound.extend(&said);
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

fn made(recordings: &Recordings, folder: &Path, ears: &Ears, replace: bool) -> Result<Index, RecordedError> {
    make(recordings, english(), ears, folder, replace, &Silent)
}

/// Needs flite; passes without.
#[test]
fn an_index_that_was_interrupted_goes_on_and_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let Some(recordings) = recordings(folder.path(), PHRASES) else { return };
    let at_once = made(&recordings, &folder.path().join("at-once"), &ears("hearer", 1_000), false).unwrap();
    assert_eq!(at_once.recordings, 3);
    assert!(at_once.pieces >= 5 && at_once.words == 2 * at_once.pieces, "{at_once:?}");
    let parts = folder.path().join("parts");
    let (mut lives, mut index) = (0, None);
    while index.is_none() {
        lives += 1;
        index = match made(&recordings, &parts, &ears("hearer", 3), false) {
            Ok(index) => Some(index),
            Err(RecordedError::Recognizer(_)) => None,
            Err(other) => panic!("{other}"),
        };
        assert!(index.is_some() || matches!(Index::look(&parts), Ok(None)), "it is not whole before its end");
        // Half a line, as a crash leaves it.
        let cut = OpenOptions::new().append(true).open(lines(&parts)).unwrap().write_all(b"{\"recording\":");
        assert!(cut.is_ok() && lives < 20);
    }
    assert!(lives > 1, "{lives}");
    assert_eq!(index, Some(at_once.clone()));
    // Cut off again by whoever makes it, and nobody hears anything twice.
    assert_eq!(made(&recordings, &parts, &ears("hearer", 0), false).unwrap(), at_once);
    let of = Of::these(&recordings, english(), "hearer");
    assert_eq!(Index::open(&parts, &of).unwrap(), at_once);
    let read: Vec<Line> = Index::lines(&parts).unwrap().map(Result::unwrap).collect();
    assert_eq!(read.len(), 3);
    for line in &read {
        assert!(line.pieces.iter().all(|piece| piece.words.len() == 2));
        assert_eq!(line.digest, recordings.meta().recordings[line.recording as usize].digest);
    }
}

/// Needs flite; passes without.
#[test]
fn an_index_of_something_else_is_neither_used_nor_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let Some(first) = recordings(folder.path(), PHRASES) else { return };
    let at = folder.path().join("index");
    let of = Of::these(&first, english(), "hearer");
    assert!(matches!(Index::open(&at, &of), Err(RecordedError::Unfinished)));
    let index = made(&first, &at, &ears("hearer", 1_000), false).unwrap();
    let german = Of { language: "de".to_owned(), ..of.clone() };
    assert!(matches!(Index::open(&at, &german), Err(RecordedError::Others("language"))));
    let other = made(&first, &at, &ears("other", 1_000), false);
    assert!(matches!(other, Err(RecordedError::Others("recognizer"))));
    assert_eq!(Index::open(&at, &of).unwrap(), index, "it is left as it is");
    let second = recordings(folder.path(), ["open the door", "turn left", "what a day it was"]).unwrap();
    assert!(matches!(made(&second, &at, &ears("hearer", 9), false), Err(RecordedError::Others("recordings"))));
    let anew = made(&second, &at, &ears("hearer", 1_000), true).unwrap();
    assert_ne!(anew.digest, index.digest);
    // What was changed since is not read.
    let text = fs::read_to_string(lines(&at)).unwrap();
    fs::write(lines(&at), text.replacen("garden", "window", 1)).unwrap();
    let of = Of::these(&second, english(), "hearer");
    assert!(matches!(Index::open(&at, &of), Err(RecordedError::Damaged(_))));
}
