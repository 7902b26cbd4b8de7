//! Description of a spec in words: for the facts of a proposed job, and for the steward's approval.

use undertone_api::id::DatasetId;
use undertone_api::job::Charge;
use undertone_api::job::transcription::window::{ONE_WORD, SPAN};
use undertone_api::job::transcription::{Corpus, Crowded, Promise, Recognizer, Spec, Vocabulary, Voice};

use crate::words;

/// Returns the facts of the job, as pairs of a term and its description.
pub(super) fn list_facts(spec: &Spec) -> Vec<(&'static str, String)> {
    let noise = spec.noise().map_or_else(
        |error| error.to_string(),
        |noise| {
            format!(
                "{:.1} dummies of each word at each recognizer on average, and as many without any: rate {} nats per word, shift {}",
                noise.mean(),
                words::number(noise.rate()),
                words::count(noise.shift().into())
            )
        },
    );
    vec![
        ("Protects", describe_protection(spec)),
        ("Recognizers", describe_recognizers(spec)),
        ("Together", describe_promises(spec)),
        ("Vocabulary", describe_vocabulary(spec)),
        ("Noise", noise),
        ("Dummies say", describe_corpus(spec).to_owned()),
        (if spec.voice.tells_speakers() { "Voices" } else { "One voice" }, describe_voice(spec)),
        ("Several words in a piece", describe_crowded(spec).to_owned()),
        ("First transcript", describe_recognizer(spec).to_owned()),
    ]
}

fn describe_protection(spec: &Spec) -> String {
    let d = spec.participant.distance.get();
    format!(
        "{} of pieces by word, added and removed together; one spoken word changes at most {ONE_WORD}",
        words::plural(d.into(), "count")
    )
}

fn describe_recognizers(spec: &Spec) -> String {
    let names: Vec<String> =
        spec.providers.iter().map(|provider| format!("{} ({})", provider.name, provider.protocol.label())).collect();
    words::join_names(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn describe_promises(spec: &Spec) -> String {
    let all: Vec<String> = spec.promises().unwrap_or_default().iter().map(format_promise).collect();
    format!("charged for {}: {}", describe_colluders(spec.colluding.get()), all.join("; "))
}

fn describe_colluders(colluding: u32) -> String {
    match colluding {
        1 => "each by itself".to_owned(),
        many => format!("{} that put their parts together", words::count(many.into())),
    }
}

/// Formats a promise in a few words: `2 together ε 1.49 at δ 3e-5`.
pub(super) fn format_promise(promise: &Promise) -> String {
    let colluders = match promise.colluding.get() {
        1 => "one".to_owned(),
        many => format!("{} together", words::count(many.into())),
    };
    format!("{colluders} ε {} at δ {}", words::epsilon(promise.epsilon), words::delta(promise.delta))
}

fn describe_vocabulary(spec: &Spec) -> String {
    let size = spec.vocabulary.listed().len() as u64;
    match &spec.vocabulary {
        Vocabulary::Public { words: list } => {
            let first: Vec<&str> = list.iter().take(8).map(String::as_str).collect();
            let more = size.saturating_sub(8);
            let examples = if more == 0 {
                words::join_names(&first)
            } else {
                format!("{} and {} more", first.join(", "), words::count(more))
            };
            format!("a public list of {} ({}): {examples}", words::plural(size, "word"), spec.language)
        }
        Vocabulary::Data { top_percent, above, most, .. } => format!(
            "from a first transcript: the {} % most frequent words{}, at most {}, with {} of a public list; which words these are tells \
             what was said",
            words::number(*top_percent),
            above.map_or_else(String::new, |above| format!(" and those of TF-IDF above {}", words::number(above))),
            words::count((*most).into()),
            words::count(size)
        ),
    }
}

const fn describe_corpus(spec: &Spec) -> &'static str {
    match spec.dummies.corpus {
        Corpus::Bundled => "phrases after a little public-domain English",
        Corpus::Site => "phrases after the public text that the site has chosen",
    }
}

fn describe_voice(spec: &Spec) -> String {
    match spec.voice {
        Voice::Mcadams { alpha } => format!("{}, α {}", spec.voice.label(), words::number(alpha)),
        Voice::Vocoder { detail } => format!("{} of {detail} coefficients", spec.voice.label()),
        Voice::Command | Voice::Url => spec.voice.label().to_owned(),
        Voice::Cloned => format!("{}: the recognizers can tell who speaks", spec.voice.label()),
    }
}

const fn describe_crowded(spec: &Spec) -> &'static str {
    match spec.crowded {
        Crowded::Keep => "stay at the site and keep the offline text",
        Crowded::Send => "are sent, and known for true ones",
    }
}

const fn describe_recognizer(spec: &Spec) -> &'static str {
    match spec.recognizer {
        Recognizer::Site => "by the recognizer that the site has chosen, at the site",
        Recognizer::Pocketsphinx => "by PocketSphinx, at the site",
        Recognizer::Server => "by a server in the site’s own network",
    }
}

/// Returns the effects of an approval by the recordings' owner, sentence by sentence: the release, its recipients, its
/// protected and unprotected parts, and its cost. Empty for public recordings, which have no charge.
pub(super) fn describe_consent(spec: &Spec, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
    if charge.is_none() || dataset != spec.participant.dataset {
        return Vec::new();
    }
    let d = spec.participant.distance.get();
    let names: Vec<&str> = spec.providers.iter().map(|provider| provider.name.as_str()).collect();
    let mut lines = vec![
        format!(
            "Short pieces of your recordings leave, {}, for {}: companies outside this consortium, which hear them in clear \
             speech. Pieces in which your site finds something sensitive stay; what its recognizer mishears it does not find.",
            if spec.voice.tells_speakers() {
                "in the voices in which they were recorded, mixed with made-up ones in imitations of these voices"
            } else {
                "in one voice, mixed with made-up ones"
            },
            words::join_names(&names)
        ),
        describe_distance(d),
        format!(
            "Not covered by any ε: what the sound of a piece, or the words around one of the vocabulary, tell whoever listens. \
             Made-up pieces and {} work against that; how well is measured, not promised. Nothing is promised about a \
             whole recording, or about a person, who says more than changes {d} counts.",
            if spec.voice.tells_speakers() { "their imitated voices" } else { "the one voice" }
        ),
    ];
    lines.push(describe_dummies(spec.voice).to_owned());
    lines.push(describe_voice_limits(spec.voice).to_owned());
    if let Ok(promises) = spec.promises() {
        let all: Vec<String> = promises.iter().map(format_promise).collect();
        lines.push(match (names.len(), spec.colluding.get()) {
            (1, _) => "It hears everything that is sent.".to_owned(),
            (_, colluding) => format!(
                "You pay for {}. By how many put their parts together: {}.",
                describe_colluders(colluding),
                all.join("; ")
            ),
        });
    }
    lines.push(
        "The vocabulary is a public list, which the recognizers learn and which tells nothing of you. A list that was made from \
         your recordings would: look whether it is one that was there before."
            .to_owned(),
    );
    lines.push(
        "The transcript, and every figure computed of the recordings, stays at your site. This server learns that it was paid."
            .to_owned(),
    );
    lines.push("1 release is paid, before anything leaves; the same bits may be sent again. Another job on the same recordings is another release.".to_owned());
    lines
}

/// Describes how well dummies are hidden, as measured: `make bench NAME=transcription`.
const fn describe_dummies(voice: Voice) -> &'static str {
    if voice.tells_speakers() { IMITATED } else { SPOKEN }
}

/// The limits of an engine's speech and of public recordings as dummies.
const SPOKEN: &str = "Counts are hidden only from those who cannot tell made-up pieces from yours. Where a speech engine says them, one who \
                      knew it told them from pieces of seven readers in 92 to 98 of 100 cases, whatever the voice; guessing is right in 72. \
                      Where they are cut from public recordings of other people, which your site may have set up, it was 52 to 84 where \
                      guessing is right in 58 to 60. Dummies were then made after your pieces, and are now made after public numbers: your site’s own \
                      report has the figure for each job.";

/// The missing measurement for imitations.
const IMITATED: &str = "Counts are hidden only from those who cannot tell made-up pieces from yours. How well imitations pass depends on your \
                        site’s program; its own report has the figure for each job.";

/// Describes how well the voice hides the speaker, as measured: `make bench NAME=transcription`.
const fn describe_voice_limits(voice: Voice) -> &'static str {
    match voice {
        Voice::Mcadams { .. } => MCADAMS,
        Voice::Vocoder { .. } => VOCODER,
        Voice::Command | Voice::Url => {
            "How well your site’s own converter hides who speaks has to be measured with it."
        }
        Voice::Cloned => OWN_VOICES,
    }
}

/// The limits of the McAdams coefficient.
const MCADAMS: &str = "The McAdams coefficient hides who speaks only from those who do not know how pieces were changed: of 91 speakers, \
                       an attack that knew recordings of them named 1.5 %, one that knew recordings changed in the same way 76 %, \
                       against 80 % of voices as recorded.";

/// The protection of the vocoder and its limits.
const VOCODER: &str = "The vocoder hides who speaks in part: of 91 speakers, an attack that knew recordings changed in the same way \
                       named 15 to 19 %, by its coefficients, against 80 % of voices as recorded and 1 % by guessing. A better attack names more.";

/// The consequences of unchanged voices.
const OWN_VOICES: &str = "Voices leave as they are: the recognizers can tell who speaks, and can compare the voices with others that \
                          they know. Sentences that nobody said leave in imitations of these voices. Approve this only if everybody \
                          who is heard has agreed to both. Your site refuses it unless its own policy says `voices_may_leave`.";

/// Describes the exact protection at distance d.
fn describe_distance(d: u32) -> String {
    let word_limit = match d / ONE_WORD {
        0 => "not even one spoken word".to_owned(),
        1 => "so one spoken word".to_owned(),
        many => format!("so up to {many} spoken words"),
    };
    format!(
        "Protected are counts of pieces by word of the vocabulary, from a reader who has these counts and nothing else: up to {} \
         more or less in all your recordings together, {word_limit}: what is said in {SPAN} seconds changes at most {ONE_WORD}.",
        words::plural(d.into(), "count")
    )
}
