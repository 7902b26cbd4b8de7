//! The recognizer at the site at work: as many sounds at a time as it takes, their words in the order of the sounds.
//!
//! Whoever has recordings heard waits here, on a thread that may. A sound over which the recognizer fails has no words, and what has
//! no words stays at the site; that the recognizer is gone ends it.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::runtime::Runtime;

use super::{Recognizer, RecognizerError};
use crate::speech::transcribe::piece::Heard;
use crate::speech::transcribe::segment::Spoken;

/// A recognizer that was started.
pub struct Ears {
    runtime: Runtime,
    recognizer: Box<dyn Recognizer>,
    at_once: usize,
}

impl Ears {
    /// A recognizer that hears so many sounds at a time; `runtime` is the one in which it was started.
    pub fn new(runtime: Runtime, recognizer: Box<dyn Recognizer>, at_once: usize) -> Self {
        Self { runtime, recognizer, at_once: at_once.max(1) }
    }

    /// What it is, see [`Recognizer::name`].
    pub fn name(&self) -> &str {
        self.recognizer.name()
    }

    /// What `take` makes of each sound and of what was heard in it, timed from its beginning; in the order of the sounds. As many are
    /// in memory as are heard at a time.
    ///
    /// # Errors
    /// What reading a sound or `go_on` says, and [`RecognizerError`] when the recognizer is gone.
    pub fn hear<T, E: From<RecognizerError>>(
        &self,
        sounds: impl Iterator<Item = Result<Spoken, E>>,
        go_on: &dyn Fn() -> Result<(), E>,
        take: &dyn Fn(Spoken, Heard) -> T,
    ) -> Result<Vec<T>, E> {
        let recognizer = self.recognizer.as_ref();
        let hearing = stream::iter(sounds).map(move |sound| async move {
            let sound = sound?;
            go_on()?;
            let heard = match recognizer.hear(&sound.audio).await {
                Ok(heard) => heard,
                Err(error @ RecognizerError::Failed(_)) => {
                    tracing::warn!(error = %error, "nothing was heard in a piece; it stays here");
                    Heard::default()
                }
                Err(error) => return Err(E::from(error)),
            };
            Ok(take(sound, heard))
        });
        self.runtime.block_on(hearing.buffered(self.at_once).try_collect())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use async_trait::async_trait;

    use super::*;
    use crate::speech::transcribe::piece::{Piece, Word};

    /// Hears how long a sound is; of one sample nothing, and of two it is gone.
    struct Ruler;

    #[async_trait]
    impl Recognizer for Ruler {
        fn name(&self) -> &'static str {
            "ruler"
        }

        async fn hear(&self, audio: &[f32]) -> Result<Heard, RecognizerError> {
            // The longer it is, the later it answers.
            for _ in 0..audio.len() {
                tokio::task::yield_now().await;
            }
            match audio.len() {
                1 => Err(RecognizerError::Failed("too short".to_owned())),
                2 => Err(RecognizerError::Status { status: 410, remedy: "it is gone" }),
                length => {
                    let word = Word { text: length.to_string(), start: 0.0, end: 0.1, confidence: None };
                    Ok(Heard { words: vec![word] })
                }
            }
        }
    }

    fn heard(lengths: &[usize]) -> Result<Vec<String>, RecognizerError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ears = Ears::new(runtime, Box::new(Ruler), 3);
        let sounds = lengths.iter().map(|length| {
            let piece = Piece { id: 0, samples: 0..*length as u64 };
            Ok(Spoken { piece, audio: vec![0.0; *length] })
        });
        ears.hear(sounds, &|| Ok(()), &|_, heard| heard.text())
    }

    #[test]
    fn words_come_in_the_order_of_the_sounds_and_a_failure_costs_one_of_them() {
        assert_eq!(heard(&[9, 3, 1, 5, 4]).unwrap(), ["9", "3", "", "5", "4"]);
    }

    #[test]
    fn a_recognizer_that_is_gone_ends_it() {
        assert!(matches!(heard(&[4, 2, 5]), Err(RecognizerError::Status { status: 410, .. })));
    }
}
