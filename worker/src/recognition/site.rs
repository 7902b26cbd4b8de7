//! A trained model as the recognizer of a site: it transcribes recordings before anything leaves.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{ModelRecognizer, RecognizedWord};
use crate::speech::transcribe::piece::{Recognition, TimedWord};
use crate::speech::transcribe::recognize::{RecognizerError, SpeechRecognizer, check_length, check_times};

/// A recognizer of one model. It takes one sound at a time: a pass uses the threads of the configured device.
pub struct TrainedRecognizer {
    name: String,
    recognizer: Arc<Mutex<ModelRecognizer>>,
}

impl TrainedRecognizer {
    /// Wraps an open model. Its name in reports has the whole digest of the model's file.
    pub fn new(recognizer: ModelRecognizer) -> Self {
        let name = format!("model {} ({})", recognizer.digest(), recognizer.system());
        Self { name, recognizer: Arc::new(Mutex::new(recognizer)) }
    }
}

#[async_trait]
impl SpeechRecognizer for TrainedRecognizer {
    fn name(&self) -> &str {
        &self.name
    }

    async fn transcribe(&self, audio: &[f32]) -> Result<Recognition, RecognizerError> {
        let seconds = check_length(audio)?;
        let (samples, recognizer) = (audio.to_vec(), Arc::clone(&self.recognizer));
        let recognize = move || {
            let mut recognizer = recognizer.lock().unwrap_or_else(PoisonError::into_inner);
            // A sound shorter than a frame has no words.
            recognizer.recognize_samples(&samples).map(|(words, _)| words).unwrap_or_default()
        };
        let words = tokio::task::spawn_blocking(recognize).await;
        let words = words.map_err(|_| RecognizerError::Failed("the recognizer was stopped".to_owned()))?;
        check_times(Recognition { words: words.into_iter().map(timed).collect() }, seconds)
    }
}

fn timed(word: RecognizedWord) -> TimedWord {
    TimedWord { text: word.word, start: word.start, end: word.end, confidence: Some(word.confidence) }
}
