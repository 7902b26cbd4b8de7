//! Runs the site's recognizer on several sounds at a time and returns the results in the order of the sounds.
//!
//! Callers block on a thread outside the runtime. A sound on which the recognizer fails has no words, and a sound without
//! words stays at the site. If the recognizer is gone, the run ends.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::runtime::Runtime;

use super::{RecognizerError, SpeechRecognizer};
use crate::piece::Recognition;
use crate::segment::SpokenPiece;

/// A started recognizer with its runtime.
pub struct RecognizerPool {
    runtime: Runtime,
    recognizer: Box<dyn SpeechRecognizer>,
    at_once: usize,
}

impl RecognizerPool {
    /// Wraps a recognizer that handles `at_once` sounds at a time. `runtime` is the one in which it was started.
    pub fn new(runtime: Runtime, recognizer: Box<dyn SpeechRecognizer>, at_once: usize) -> Self {
        Self { runtime, recognizer, at_once: at_once.max(1) }
    }

    /// Returns the recognizer's name, see [`SpeechRecognizer::name`].
    pub fn name(&self) -> &str {
        self.recognizer.name()
    }

    /// Transcribes `sounds` and calls `take` with each sound and its words, timed from the sound's beginning, in the order of the
    /// sounds. Memory holds as many sounds as are transcribed at a time.
    ///
    /// # Errors
    /// The errors of reading a sound and of `go_on`, and [`RecognizerError`] when the recognizer is gone.
    pub fn transcribe<T, E: From<RecognizerError>>(
        &self,
        sounds: impl Iterator<Item = Result<SpokenPiece, E>>,
        go_on: &dyn Fn() -> Result<(), E>,
        take: &dyn Fn(SpokenPiece, Recognition) -> T,
    ) -> Result<Vec<T>, E> {
        let recognizer = self.recognizer.as_ref();
        let hearing = stream::iter(sounds).map(move |sound| async move {
            let sound = sound?;
            go_on()?;
            let recognition = match recognizer.transcribe(&sound.audio).await {
                Ok(recognition) => recognition,
                Err(error @ RecognizerError::Failed(_)) => {
                    tracing::warn!(error = %error, "no words recognized in a piece; it stays at the site");
                    Recognition::default()
                }
                Err(error) => return Err(E::from(error)),
            };
            Ok(take(sound, recognition))
        });
        self.runtime.block_on(hearing.buffered(self.at_once).try_collect())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use async_trait::async_trait;

    use super::*;
    use crate::piece::{Piece, TimedWord};

    /// Answers with the length of a sound. A sound of one sample fails; at two samples the recognizer is gone.
    struct LengthRecognizer;

    #[async_trait]
    impl SpeechRecognizer for LengthRecognizer {
        fn name(&self) -> &'static str {
            "ruler"
        }

        async fn transcribe(&self, audio: &[f32]) -> Result<Recognition, RecognizerError> {
            // The longer the sound, the later the answer.
            for _ in 0..audio.len() {
                tokio::task::yield_now().await;
            }
            match audio.len() {
                1 => Err(RecognizerError::Failed("too short".to_owned())),
                2 => Err(RecognizerError::Status { status: 410, remedy: "it is gone" }),
                length => {
                    let word = TimedWord { text: length.to_string(), start: 0.0, end: 0.1, confidence: None };
                    Ok(Recognition { words: vec![word] })
                }
            }
        }
    }

    fn recognition(lengths: &[usize]) -> Result<Vec<String>, RecognizerError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let recognizer = RecognizerPool::new(runtime, Box::new(LengthRecognizer), 3);
        let sounds = lengths.iter().map(|length| {
            let piece = Piece { id: 0, samples: 0..*length as u64 };
            Ok(SpokenPiece { piece, audio: vec![0.0; *length] })
        });
        recognizer.transcribe(sounds, &|| Ok(()), &|_, recognition| recognition.text())
    }

    #[test]
    fn results_keep_the_order_and_a_failure_has_no_words() {
        assert_eq!(recognition(&[9, 3, 1, 5, 4]).unwrap(), ["9", "3", "", "5", "4"]);
    }

    #[test]
    fn missing_recognizer_ends_the_run() {
        assert!(matches!(recognition(&[4, 2, 5]), Err(RecognizerError::Status { status: 410, .. })));
    }
}
