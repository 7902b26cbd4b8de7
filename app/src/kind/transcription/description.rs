//! Description of a spec in words: for the facts of a proposed job, and for the steward's approval.

use undertone_api::id::DatasetId;
use undertone_api::job::Charge;
use undertone_api::job::transcription::window::{ONE_WORD, SPAN};
use undertone_api::job::transcription::{
    CrowdedPieces, DummyCorpus, NoisePromise, OutputVoice, SiteRecognizer, Spec, Vocabulary, WordWeight,
};

use crate::words;

/// Returns the facts of the job, as pairs of a term and its description.
pub(super) fn list_facts(spec: &Spec) -> Vec<(&'static str, String)> {
    let noise = spec.noise().map_or_else(
        |error| error.to_string(),
        |noise| {
            format!(
                "on average {:.1} dummies of each word, and as many without a word, at each recognizer: rate {} nats per word, shift {}",
                noise.mean(),
                words::number(noise.rate()),
                words::count(noise.shift().into())
            )
        },
    );
    vec![
        ("Protects", describe_protection(spec)),
        ("Counts not hidden", COUNTS_NOT_HIDDEN.to_owned()),
        ("Recognizers", describe_recognizers(spec)),
        ("Colluding recognizers", describe_promises(spec)),
        ("Vocabulary", describe_vocabulary(spec)),
        ("Noise", noise),
        ("Text of dummies", describe_corpus(spec).to_owned()),
        (if spec.voice.tells_speakers() { "Voices" } else { "Voice conversion" }, describe_voice(spec)),
        ("Pieces with several words", describe_crowded(spec).to_owned()),
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
        1 => "each separately".to_owned(),
        many => format!("up to {} that combine their parts", words::count(many.into())),
    }
}

/// Formats a promise in a few words: `2 together ε 1.49 at δ 3e-5`.
pub(super) fn format_promise(promise: &NoisePromise) -> String {
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
        Vocabulary::Selected { choose, epsilon, weight, candidates, .. } => format!(
            "{} of {}, chosen by a first transcript with noise, ε {}: the {}; with {} of a public list",
            words::plural((*choose).into(), "word"),
            words::plural(candidates.len() as u64, "public candidate"),
            words::epsilon(epsilon.get()),
            match weight {
                WordWeight::Frequency => "most frequent",
                WordWeight::TfIdf => "most frequent compared with a public corpus of the site",
            },
            words::count(size)
        ),
        Vocabulary::Data { top_percent, above, most, .. } => format!(
            "from a first transcript: the {} % most frequent words{}, at most {}, with {} of a public list; the \
             list reveals what was said",
            words::number(*top_percent),
            above.map_or_else(String::new, |above| format!(" and those of TF-IDF above {}", words::number(above))),
            words::count((*most).into()),
            words::count(size)
        ),
    }
}

const fn describe_corpus(spec: &Spec) -> &'static str {
    match spec.dummies.corpus {
        DummyCorpus::Bundled => "phrases in the style of a small public English text",
        DummyCorpus::Site => "phrases in the style of the site’s public text",
    }
}

fn describe_voice(spec: &Spec) -> String {
    match spec.voice {
        OutputVoice::Mcadams { alpha, .. } => {
            format!("{}, α {}: the recognizers can identify the speakers", spec.voice.label(), words::number(alpha))
        }
        OutputVoice::Vocoder { detail, varied } => {
            let each = if varied { ", another random voice for each piece" } else { "" };
            format!("{} of {detail} coefficients{each}", spec.voice.label())
        }
        OutputVoice::Command | OutputVoice::Url => spec.voice.label().to_owned(),
        OutputVoice::Cloned => format!("{}: the recognizers can identify the speakers", spec.voice.label()),
    }
}

const fn describe_crowded(spec: &Spec) -> &'static str {
    match spec.crowded {
        CrowdedPieces::Keep => "stay at the site, with the offline transcript",
        CrowdedPieces::Send => "are sent, and recognizable as true pieces",
    }
}

const fn describe_recognizer(spec: &Spec) -> &'static str {
    match spec.recognizer {
        SiteRecognizer::Site => "by the site’s recognizer, at the site",
        SiteRecognizer::Pocketsphinx => "by PocketSphinx, at the site",
        SiteRecognizer::Server => "by a server in the site’s own network",
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
            "Short pieces of your recordings leave, {}, for {}: companies outside this consortium, which hear them \
             in clear speech. Pieces stay if your site detects sensitive content; it does not detect what its \
             recognizer mishears.",
            if spec.voice.tells_speakers() {
                "in the recorded voices, mixed with dummies in imitations of these voices"
            } else {
                "in converted voices, mixed with dummies"
            },
            words::join_names(&names)
        ),
        describe_distance(d),
        format!(
            "Not covered by any ε: information in the sound of a piece, or in the words around a word of the \
             vocabulary. Dummies and {} reduce it; the effect is measured, not guaranteed. There is no guarantee \
             for a whole recording, or for a person, who changes more than {d} counts.",
            if spec.voice.tells_speakers() { "their imitated voices" } else { "the conversion" }
        ),
    ];
    lines.push(describe_dummies(spec.voice).to_owned());
    lines.push(describe_voice_limits(spec.voice).to_owned());
    if let Ok(promises) = spec.promises() {
        let all: Vec<String> = promises.iter().map(format_promise).collect();
        lines.push(match (names.len(), spec.colluding.get()) {
            (1, _) => "The recognizer hears every sent piece.".to_owned(),
            (_, colluding) => format!(
                "You are charged for {}. By the number of recognizers that combine their parts: {}.",
                describe_colluders(colluding),
                all.join("; ")
            ),
        });
    }
    lines.push(describe_choice(spec));
    lines.push(
        "The transcript, and every figure computed from the recordings, stays at your site. This server learns of the charge."
            .to_owned(),
    );
    lines.push("1 release is charged, before anything leaves; the same bytes may be sent again. Another job on the same recordings is another release.".to_owned());
    lines
}

/// Describes the disclosure by the words of the vocabulary.
fn describe_choice(spec: &Spec) -> String {
    match spec.vocabulary.selection_epsilon() {
        None => "The vocabulary is a public list. The recognizers learn it; it reveals nothing of your recordings unless it \
                 was made from them: check that the list existed before."
            .to_owned(),
        Some(epsilon) => format!(
            "The recognizers learn the chosen words: your site chooses them by its first transcript, with noise, from a \
             public list. The choice is charged, ε {} of the whole, and protects the same distance as the counts. The \
             list of candidates reveals nothing unless it was made from your recordings: check that it existed before.",
            words::epsilon(epsilon.get())
        ),
    }
}

/// The limit of a job, whatever its voice: the site chooses the speakers of the dummies.
pub(super) const COUNTS_NOT_HIDDEN: &str = "from recognizers that tell dummies from true pieces by their sound. With dummies of a \
                                            speech engine they can, whatever the voice, and ε does not cover it.";

/// Describes how well dummies are hidden, as measured: `make bench NAME=transcription`.
const fn describe_dummies(voice: OutputVoice) -> &'static str {
    if voice.tells_speakers() { IMITATED } else { SPOKEN }
}

/// The limits of an engine's speech and of public recordings as dummies.
const SPOKEN: &str = "Counts are not hidden from a recognizer that distinguishes dummies from your pieces. \
                      Dummies of a speech engine: an attack that knew the engine distinguished them from pieces of \
                      seven readers in 92 to 98 of 100 cases, for every voice (72 by guessing). Dummies cut from \
                      public recordings of other people, if your site uses them: 52 to 84 of 100 (58 to 60 by \
                      guessing). Dummies were then modelled on your pieces, and are now modelled on public numbers: \
                      your site’s own report has the figure for each job.";

/// The missing measurement for imitations.
const IMITATED: &str = "Counts are not hidden from a recognizer that distinguishes dummies from your pieces. \
                        The quality of the imitations depends on your site’s program; the site’s own report has the \
                        figure for each job.";

/// Describes how well the voice hides the speaker, as measured: `make bench NAME=transcription`.
const fn describe_voice_limits(voice: OutputVoice) -> &'static str {
    match voice {
        OutputVoice::Mcadams { .. } => MCADAMS,
        OutputVoice::Vocoder { varied: false, .. } => VOCODER,
        OutputVoice::Vocoder { varied: true, .. } => VARIED,
        OutputVoice::Command | OutputVoice::Url => "Measure how well your site’s own converter hides the speaker.",
        OutputVoice::Cloned => OWN_VOICES,
    }
}

/// The limits of the McAdams coefficient.
const MCADAMS: &str = "The McAdams coefficient hides the speaker only from attackers who do not know the \
                       conversion: of 91 speakers, an attack that knew recordings of them identified 1.5 %, an \
                       attack that knew recordings converted in the same way 76 %, compared with 80 % for voices as \
                       recorded. Approve this only if every recorded person has agreed to it. Your site refuses it \
                       unless its own policy sets `voices_may_leave`.";

/// The protection of the vocoder and its limits.
const VOCODER: &str = "The vocoder hides the speaker in part: of 91 speakers, an attack that knew recordings \
                       converted in the same way identified 19 to 40 %, depending on the coefficients, compared \
                       with 80 % for voices as recorded and 1 % by guessing. A better attack identifies more.";

/// The protection of the vocoder with random voices, and its cost.
const VARIED: &str = "The vocoder gives each piece another random voice. An attack that knew recordings converted in \
                      the same way identified 7 % of 91 speakers, compared with 32 % for one voice and 1 % by \
                      guessing. Random voices reduce the accuracy of words. A better attack identifies more.";

/// The consequences of unchanged voices.
const OWN_VOICES: &str = "Voices leave unchanged: the recognizers can identify the speakers, and can compare the \
                          voices with other known voices. Made-up sentences leave in imitations of these voices. \
                          Approve this only if every recorded person has agreed to both. Your site refuses it \
                          unless its own policy sets `voices_may_leave`.";

/// Describes the exact protection at distance d.
fn describe_distance(d: u32) -> String {
    let word_limit = match d / ONE_WORD {
        0 => "not even one spoken word".to_owned(),
        1 => "that is, one spoken word".to_owned(),
        many => format!("that is, up to {many} spoken words"),
    };
    format!(
        "The counts of pieces by word of the vocabulary are protected from a reader of these counts only: up to {} \
         more or less in all your recordings together, {word_limit}: one word of up to {SPAN} seconds, inserted, \
         removed or exchanged, changes at most {ONE_WORD}.",
        words::plural(d.into(), "count")
    )
}
