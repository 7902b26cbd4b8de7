//! Conversion of a spec into its plan, so that a draft can be edited in the planner. A plan lacks options without a
//! field in the planner: the code that opens a draft compares the plan's spec with it, and reports the differences.

use undertone_api::job::transcription::{OutputVoice, Provider, Spec, Vocabulary};

use super::{ROWS, RecognizerRow, TranscriptionPlan};

impl TranscriptionPlan {
    /// Converts a spec into a plan; `first` is the plan of the datasets, which provides all values that the spec lacks.
    pub(in crate::kind::transcription) fn from_spec(title: &str, spec: &Spec, first: Self) -> Self {
        let empty = RecognizerRow { name: String::new(), ..convert_provider(None, &first.providers) };
        let mut providers: Vec<RecognizerRow> =
            spec.providers.iter().map(|provider| convert_provider(Some(provider), &first.providers)).collect();
        providers.resize(providers.len().max(ROWS), empty);
        let (from, top, above, most) = match &spec.vocabulary {
            Vocabulary::Public { .. } => ("public", first.top, first.above, first.most),
            Vocabulary::Selected { .. } => ("selected", first.top, first.above, first.most),
            Vocabulary::Data { top_percent, above, most, .. } => {
                ("data", *top_percent, above.map_or_else(String::new, |above| above.to_string()), *most)
            }
        };
        let (choose, choice, weight) = match &spec.vocabulary {
            Vocabulary::Selected { choose, epsilon, weight, .. } => (*choose, epsilon.get(), *weight),
            Vocabulary::Public { .. } | Vocabulary::Data { .. } => (first.choose, first.choice, first.weight),
        };
        Self {
            title: title.to_owned(),
            dataset: spec.participant.dataset,
            epsilon: spec.participant.epsilon.get(),
            delta: spec.participant.delta.get(),
            distance: spec.participant.distance.get(),
            providers,
            colluding: spec.colluding.get(),
            language: spec.language.clone(),
            from: from.to_owned(),
            words: spec.vocabulary.listed().join("\n"),
            size: first.size,
            top,
            above,
            most,
            candidates: spec.vocabulary.candidates().join("\n"),
            choose,
            choice,
            weight,
            corpus: spec.dummies.corpus,
            voice: match spec.voice {
                OutputVoice::Vocoder { varied: true, .. } => "varied".to_owned(),
                voice => voice.word().to_owned(),
            },
            alpha: if let OutputVoice::Mcadams { alpha, .. } = spec.voice { alpha } else { first.alpha },
            detail: if let OutputVoice::Vocoder { detail, .. } = spec.voice { detail } else { first.detail },
            crowded: spec.crowded,
            recognizer: spec.recognizer,
        }
    }
}

/// Converts a recognizer into a row of the form. Without a price, or without a recognizer, the values come from the
/// first row.
fn convert_provider(provider: Option<&Provider>, first: &[RecognizerRow]) -> RecognizerRow {
    let usual = RecognizerRow {
        name: String::new(),
        protocol: undertone_api::job::transcription::ProviderProtocol::Openai,
        currency: "USD".to_owned(),
        per_minute: String::new(),
        step: 1,
        least: 0,
    };
    let usual = first.first().map_or(usual, |row| RecognizerRow {
        name: String::new(),
        per_minute: String::new(),
        ..row.clone()
    });
    let Some(provider) = provider else { return usual };
    let row = RecognizerRow { name: provider.name.clone(), protocol: provider.protocol, ..usual };
    match &provider.price {
        None => row,
        Some(price) => RecognizerRow {
            currency: price.currency.clone(),
            per_minute: price.per_minute.clone(),
            step: price.step_seconds,
            least: price.least_seconds,
            ..row
        },
    }
}
