//! The requirements on a `transcription` spec, checked before approval is requested.

use std::collections::HashSet;

use undertone_privacy::{Adjacency, PrivacyUnit, mechanism};

use super::vocabulary::{LANGUAGES, LONGEST_WORD, MOST_WORDS};
use super::window::{ONE_WORD, SPAN};
use super::{CrowdedPieces, MOST_DUMMIES, OutputVoice, Spec, Vocabulary};
use crate::dataset::{Dataset, DatasetContent, Visibility};
use crate::job::check::check_range;
use crate::problem::Violation;

/// The least ε of a choice of words with noise, and the least ε that it leaves for the counts.
const LEAST_SHARE: f64 = 0.01;

/// The most providers, equal to the most in a site's configuration.
pub const MOST_PROVIDERS: usize = 16;

pub(super) fn check(spec: &Spec, datasets: &[Dataset]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |field: &str, message: String| violations.push(Violation::new(format!("spec.{field}"), message));
    let dataset = datasets.iter().find(|dataset| dataset.id == spec.participant.dataset);
    check_dataset(dataset, &mut say);
    let before = check_providers(spec, &mut say) & check_promise(spec, &mut say);
    let words = check_vocabulary(spec, &mut say);
    check_sound(spec, &mut say);
    if let Some(private) = dataset.filter(|dataset| dataset.visibility != Visibility::Public) {
        check_private(spec, private, &mut say);
    }
    if before && words {
        check_noise(spec, &mut say);
    }
    violations
}

fn check_dataset(dataset: Option<&Dataset>, say: &mut impl FnMut(&str, String)) {
    let Some(dataset) = dataset else {
        say("participant.dataset", "no such dataset in this consortium".to_owned());
        return;
    };
    let name = &dataset.name;
    let of = dataset.content;
    if of != DatasetContent::Recordings {
        say(
            "participant.dataset",
            format!(
                "`{name}` contains {}; recordings are transcribed: register them as a dataset of recordings",
                of.noun()
            ),
        );
    } else if dataset.visibility != Visibility::Public && !dataset.keeps_apart(PrivacyUnit::Words) {
        say(
            "participant.dataset",
            format!("the words of `{name}` are not kept apart; ask its owner to register them so"),
        );
    }
}

/// Checks providers and colluders; returns whether noise can be computed for their numbers.
fn check_providers(spec: &Spec, say: &mut impl FnMut(&str, String)) -> bool {
    let count = spec.providers.len();
    let fits = (1..=MOST_PROVIDERS).contains(&count);
    if !fits {
        say("providers", format!("name 1 to {MOST_PROVIDERS} recognizers, not {count}"));
    }
    let mut names = HashSet::new();
    for (index, provider) in spec.providers.iter().enumerate() {
        let at = |field: &str| format!("providers.{index}.{field}");
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !(1..=40).contains(&provider.name.len()) || !provider.name.chars().all(plain) {
            say(
                &at("name"),
                "1 to 40 letters, digits, `-`, `_` and `.`, as the site's configuration has it".to_owned(),
            );
        } else if !names.insert(&provider.name) {
            let one = "the same recognizer again; two that do not put their parts together must be two";
            say(&at("name"), one.to_owned());
        }
        if let Some(Err(error)) = provider.price.as_ref().map(super::Price::tariff) {
            let (field, message) = split(&error.to_string());
            say(&at(&field), message);
        }
    }
    let colluding = spec.colluding.get();
    if fits && colluding as usize > count {
        say("colluding", format!("from 1 to {count}, as many as there are providers, not {colluding}"));
    }
    fits && colluding as usize <= count
}

/// Splits a message that begins with its field into the field and the rest.
fn split(message: &str) -> (String, String) {
    message
        .split_once(": ")
        .map_or_else(|| ("price".to_owned(), message.to_owned()), |(field, rest)| (field.to_owned(), rest.to_owned()))
}

/// Checks ε, δ and d; returns whether noise can be computed for them.
fn check_promise(spec: &Spec, say: &mut impl FnMut(&str, String)) -> bool {
    let of = spec.participant;
    let mut fits = true;
    let mut say = |field: &str, message: String| {
        fits = false;
        say(field, message);
    };
    check_range(&mut say, "participant.epsilon", of.epsilon.get(), 0.01, 50.0);
    if !(of.delta.get() > 0.0 && of.delta.get() <= 0.01) {
        let delta = of.delta.get();
        let needs = format!("above 0 and at most 0.01, not {delta}: truncated noise always has a mass of its own");
        say("participant.delta", needs);
    }
    check_range(&mut say, "participant.distance", f64::from(of.distance.get()), 1.0, 10_000.0);
    fits
}

/// Checks the vocabulary; returns whether dummies can be counted for its number of words.
fn check_vocabulary(spec: &Spec, say: &mut impl FnMut(&str, String)) -> bool {
    if !LANGUAGES.contains(&spec.language.as_str()) {
        say("language", format!("one of {}, not {:?}", LANGUAGES.join(", "), spec.language));
    }
    let words = spec.vocabulary.listed();
    let least = usize::from(matches!(spec.vocabulary, Vocabulary::Public { .. }));
    let mut fits = (least..=MOST_WORDS).contains(&words.len());
    if !fits {
        let count = words.len();
        say(
            "vocabulary.words",
            format!("{least} to {MOST_WORDS} words, not {count}: each costs dummies at every provider"),
        );
    }
    check_words("words", words, say);
    if let Vocabulary::Data { top_percent, above, most, .. } = spec.vocabulary {
        check_range(say, "vocabulary.top_percent", top_percent, 0.0, 100.0);
        if let Some(above) = above {
            check_range(say, "vocabulary.above", above, 0.0, 100.0);
        }
        check_range(say, "vocabulary.most", f64::from(most), 1.0, MOST_WORDS as f64);
    }
    fits &= check_selection(spec, say);
    fits
}

/// Checks the words of a list.
fn check_words(list: &str, words: &[String], say: &mut impl FnMut(&str, String)) {
    let mut distinct = HashSet::new();
    for (index, word) in words.iter().enumerate().take(MOST_WORDS) {
        let at = || format!("vocabulary.{list}.{index}");
        let one = word.chars().any(char::is_alphanumeric) && !word.chars().any(|c| c.is_whitespace() || c.is_control());
        if !one || word.chars().count() > LONGEST_WORD {
            say(&at(), format!("one word of 1 to {LONGEST_WORD} characters, without blanks, with a letter or digit"));
        } else if !distinct.insert(word.to_lowercase()) {
            say(&at(), "the word is listed before; leave it out".to_owned());
        }
    }
}

/// Checks a choice with noise; returns whether it leaves an ε for the counts, and a number of words.
fn check_selection(spec: &Spec, say: &mut impl FnMut(&str, String)) -> bool {
    let Vocabulary::Selected { choose, epsilon, candidates, words, .. } = &spec.vocabulary else { return true };
    let mut fits = true;
    let mut refuse = |field: &str, message: String| {
        fits = false;
        say(field, message);
    };
    let all = spec.participant.epsilon.get();
    let most = all - LEAST_SHARE;
    if !(LEAST_SHARE..=most).contains(&epsilon.get()) {
        let given = epsilon.get();
        let needs = format!(
            "from {LEAST_SHARE}, and at least {LEAST_SHARE} below participant.epsilon ({all}), which covers the choice and the \
             counts together; not {given}"
        );
        refuse("vocabulary.epsilon", needs);
    }
    let count = candidates.len();
    if count < 2 || count.saturating_add(words.len()) > MOST_WORDS {
        let needs = format!("2 to {MOST_WORDS} words, together with vocabulary.words; not {count}");
        refuse("vocabulary.candidates", needs);
    } else if !(1..count).contains(&(*choose as usize)) {
        let needs = format!("from 1 to {}, fewer words than candidates; not {choose}", count - 1);
        refuse("vocabulary.choose", needs);
    }
    check_words("candidates", candidates, say);
    fits
}

fn check_sound(spec: &Spec, say: &mut impl FnMut(&str, String)) {
    if let OutputVoice::Mcadams { alpha, .. } = spec.voice {
        if !(0.5..=1.5).contains(&alpha) {
            say("voice.alpha", format!("from 0.5 to 1.5, not {alpha}; 0.8 is usual"));
        } else if alpha > 0.95 && alpha < 1.05 {
            say(
                "voice.alpha",
                format!("{alpha} leaves voices as they are: at most 0.95 or at least 1.05, 0.8 is usual"),
            );
        }
    }
    if let OutputVoice::Vocoder { detail, .. } = spec.voice
        && !(8..=20).contains(&detail)
    {
        say("voice.detail", format!("from 8 to 20 coefficients, not {detail}; 13 is usual"));
    }
}

/// Rejects options that only public recordings may use.
fn check_private(spec: &Spec, dataset: &Dataset, say: &mut impl FnMut(&str, String)) {
    let name = &dataset.name;
    let distance = spec.participant.distance.get();
    if distance < ONE_WORD {
        let message = format!(
            "`{name}` is not public, and one word of up to {SPAN} seconds changes up to {ONE_WORD} counts of pieces: \
             {distance} hides less than that; ask for {ONE_WORD} or more"
        );
        say("participant.distance", message);
    }
    let colluding = spec.colluding.get() as usize;
    let providers = spec.providers.len();
    if spec.voice.tells_speakers() && colluding < providers {
        let message = format!(
            "dummies imitate the speakers of `{name}`, so each recognizer hears voices of pieces that others were sent: charge for \
             all {providers} together, or choose one voice"
        );
        say("colluding", message);
    }
    if let OutputVoice::Mcadams { speakers_identifiable: false, .. } = spec.voice {
        let message = format!(
            "`{name}` is not public, and recognizers that know the McAdams coefficient identify most of its speakers: set this to \
             true to accept that, or use `vocoder`"
        );
        say("voice.speakers_identifiable", message);
    }
    if spec.vocabulary.depends_on_data() {
        let message = format!(
            "`{name}` is not public: which words were chosen from it would tell that somebody said them, and no noise covers \
             that; give a public list (`from`: `public`), or have words chosen with noise (`from`: `selected`)"
        );
        say("vocabulary.from", message);
    }
    if spec.crowded == CrowdedPieces::Send {
        let message = format!(
            "`{name}` is not public: no dummy has two words of the vocabulary, so such a piece would be known for a true one; \
             use `keep`"
        );
        say("crowded", message);
    }
}

/// Checks that the noise exists, has a guarantee, and needs no more dummies than can be made.
fn check_noise(spec: &Spec, say: &mut impl FnMut(&str, String)) {
    let words = spec.vocabulary.most();
    let priced = match spec.event() {
        Ok(event) => mechanism::guarantee(&event, Adjacency::ZeroOut).map(drop).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match (priced, spec.expected_dummies(words)) {
        (Err(error), _) => say("participant.epsilon", error),
        (_, Err(error)) => say("participant.epsilon", error.to_string()),
        (Ok(()), Ok(expected)) if expected.is_nan() || expected > MOST_DUMMIES => {
            let many = format!(
                "{expected:.0} dummies are to be expected, at most {MOST_DUMMIES:.0}: raise epsilon or delta, or lower the \
                 distance, the vocabulary or the number of providers"
            );
            say("participant.epsilon", many);
        }
        (Ok(()), Ok(_)) => {}
    }
}

#[cfg(test)]
mod tests;
