//! Conversion of a plan into its spec.

use std::num::NonZeroU32;

use undertone_api::job::transcription::{DummyOptions, OutputVoice, Party, Price, Provider, Spec, Vocabulary};
use undertone_api::problem::Violation;
use undertone_privacy::{Delta, Epsilon};

use super::{RecognizerRow, TranscriptionPlan};

impl TranscriptionPlan {
    /// Converts the plan into a spec.
    ///
    /// # Errors
    /// Every invalid number, by its path in the spec.
    pub(in crate::kind::transcription) fn spec(&self) -> Result<Spec, Vec<Violation>> {
        let mut violations = Vec::new();
        let mut say = |field: &str, message: String| violations.push(Violation::new(format!("spec.{field}"), message));
        let epsilon = Epsilon::new(self.epsilon).map_err(|error| say("participant.epsilon", error.to_string())).ok();
        let delta = Delta::new(self.delta).map_err(|error| say("participant.delta", error.to_string())).ok();
        let distance = NonZeroU32::new(self.distance);
        if distance.is_none() {
            say("participant.distance", "at least 1, not 0".to_owned());
        }
        let colluding = NonZeroU32::new(self.colluding);
        if colluding.is_none() {
            say("colluding", "at least 1: each recognizer hears its own part".to_owned());
        }
        let voice = match self.voice.as_str() {
            // The form states the consequence beside the choice.
            "mcadams" => OutputVoice::Mcadams { alpha: self.alpha, speakers_identifiable: true },
            "command" => OutputVoice::Command,
            "url" => OutputVoice::Url,
            "cloned" => OutputVoice::Cloned,
            "vocoder" => OutputVoice::Vocoder { detail: self.detail, varied: false },
            _ => OutputVoice::Vocoder { detail: self.detail, varied: true },
        };
        let words = parse_words(&self.words);
        let vocabulary = if self.from == "data" {
            let above = self.above.trim();
            let above = (!above.is_empty()).then(|| above.parse::<f64>());
            if above.as_ref().is_some_and(Result::is_err) {
                say("vocabulary.above", "enter a number such as 0.01, or leave it empty".to_owned());
            }
            Vocabulary::Data { top_percent: self.top, above: above.and_then(Result::ok), most: self.most, words }
        } else if self.from == "selected" {
            let epsilon = Epsilon::new(self.choice).map_err(|error| say("vocabulary.epsilon", error.to_string()));
            let candidates = parse_words(&self.candidates);
            let (choose, weight) = (self.choose, self.weight);
            match epsilon {
                Ok(epsilon) => Vocabulary::Selected { choose, epsilon, weight, candidates, words },
                Err(()) => Vocabulary::Public { words },
            }
        } else {
            Vocabulary::Public { words }
        };
        let (Some(epsilon), Some(delta), Some(distance), Some(colluding), true) =
            (epsilon, delta, distance, colluding, violations.is_empty())
        else {
            return Err(violations);
        };
        Ok(Spec {
            participant: Party { dataset: self.dataset, epsilon, delta, distance },
            providers: self.providers.iter().filter(|row| !row.name.trim().is_empty()).map(parse_provider).collect(),
            colluding,
            language: self.language.trim().to_owned(),
            vocabulary,
            dummies: DummyOptions { corpus: self.corpus },
            voice,
            crowded: self.crowded,
            recognizer: self.recognizer,
        })
    }
}

fn parse_provider(row: &RecognizerRow) -> Provider {
    let per_minute = row.per_minute.trim();
    let price = (!per_minute.is_empty()).then(|| Price {
        currency: row.currency.trim().to_owned(),
        per_minute: per_minute.to_owned(),
        step_seconds: row.step,
        least_seconds: row.least,
    });
    Provider { name: row.name.trim().to_owned(), protocol: row.protocol, price }
}

/// Parses words separated by blanks, commas or line ends.
fn parse_words(text: &str) -> Vec<String> {
    text.split(|sign: char| sign.is_whitespace() || sign == ',')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}
