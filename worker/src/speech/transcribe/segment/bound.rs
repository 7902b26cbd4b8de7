//! That one spoken word changes at most as many counts of pieces as is said: on real sound, by the code that cuts it.
//!
//! Recordings are put together of people who read, without a pause anywhere or with some, and of noise. Then a span is replaced that
//! is as long as is promised or shorter. The recognizer at the site is played by a function of a piece's sound that changes
//! altogether where a sample does: so the words beside those of the span change in every way there is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use undertone_api::job::transcription::window::{ONE_WORD, SPAN};

use super::{Limits, Spoken, segment};
use crate::speech::audio::{LONGEST, read};
use crate::speech::fixture;
use crate::speech::transcribe::parts::parts;
use crate::speech::transcribe::piece::{Heard, Piece, Word, sample};
use crate::speech::transcribe::sensitive::language::Language as Sensitive;
use crate::speech::transcribe::sensitive::{Finder, Settings};
use crate::speech::transcribe::vocabulary::language::Language;
use crate::speech::transcribe::vocabulary::{Held, List, Vocabulary, public};

/// What may be heard in a piece: words of the vocabulary, others, names that stay behind a title, numbers, nothing.
const HEARD: [&str; 12] = [
    "medicine",
    "window",
    "the medicine was",
    "breathing garden",
    "garden",
    "nobody came",
    "medicine window",
    "twenty",
    "and the doctor",
    "okonkwo spoke",
    "street lamps and",
    "",
];

struct Site {
    vocabulary: Vocabulary,
    finder: Finder,
    /// People who read, without pauses.
    speech: Vec<f32>,
}

static SITE: LazyLock<Option<Site>> = LazyLock::new(|| {
    let folder = fixture::data("speech_tiny")?.join("an4-test/fcaw/1");
    let mut speech = Vec::new();
    for name in ["fcaw-1-0406.flac", "fcaw-1-0407.flac", "fcaw-1-0408.flac"] {
        let samples = read(&folder.join(name), LONGEST).unwrap().samples;
        let loud = |frame: &&[f32]| frame.iter().any(|sample| sample.abs() > 0.03);
        speech.extend(samples.chunks(160).filter(loud).flatten());
    }
    let list = List::parse("medicine\nwindow\nbreathing\n").unwrap();
    Some(Site {
        vocabulary: public(Language::new("en").unwrap(), &list).unwrap(),
        finder: Finder::new(Sensitive::known("en").unwrap(), &Settings::default()).unwrap(),
        speech,
    })
});

/// What is in a recording, one behind the other.
#[derive(Debug, Clone, Copy)]
enum Stretch {
    /// Speech from a place on.
    Speech { from: usize, samples: usize },
    /// Noise of a room.
    Room { samples: usize },
}

impl Site {
    fn sound(&self, stretch: Stretch) -> Vec<f32> {
        match stretch {
            Stretch::Speech { from, samples } => {
                self.speech.iter().copied().cycle().skip(from % self.speech.len()).take(samples).collect()
            }
            Stretch::Room { samples } => {
                (0..samples as u32).map(|n| 2e-4 * f32::from((n * 7_919 % 201) as i16 - 100) / 100.0).collect()
            }
        }
    }

    /// The counts of the pieces that may leave, by word and for none.
    fn counts(&self, recording: &[f32]) -> BTreeMap<Option<u32>, i64> {
        let blocks = recording.chunks(4_096).map(|block| Ok(block.to_vec()));
        let pieces = segment(blocks, Limits::default()).unwrap().map(|sound| heard(&sound.unwrap())).collect();
        let mut counts = BTreeMap::new();
        for part in parts(pieces, &self.finder).iter().filter(|part| part.stays.is_none()) {
            match self.vocabulary.held(&part.offline.words) {
                Held::Nothing => *counts.entry(None).or_default() += 1,
                Held::One(word) => *counts.entry(Some(word)).or_default() += 1,
                Held::Several => {}
            }
        }
        counts
    }
}

/// The piece with words that depend on each sample of its sound.
fn heard(sound: &Spoken) -> (Piece, Heard) {
    let mix = |state: u64, sample: &f32| (state ^ u64::from(sample.to_bits())).wrapping_mul(0x0000_0100_0000_01b3);
    let state = sound.audio.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    let texts: Vec<&str> = HEARD[(state >> 32) as usize % HEARD.len()].split_whitespace().collect();
    let (start, each) = (sound.piece.start(), sound.piece.seconds() / texts.len().max(1) as f64);
    let word = |(text, place): (&&str, u32)| {
        let start = start + f64::from(place) * each;
        Word { text: (*text).to_owned(), start, end: start + each, confidence: None }
    };
    (sound.piece.clone(), Heard { words: texts.iter().zip(0..).map(word).collect() })
}

fn apart(one: &BTreeMap<Option<u32>, i64>, other: &BTreeMap<Option<u32>, i64>) -> i64 {
    let words: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let count = |of: &BTreeMap<Option<u32>, i64>, word| of.get(word).copied().unwrap_or(0);
    words.into_iter().map(|word| (count(one, word) - count(other, word)).abs()).sum()
}

fn stretch() -> impl Strategy<Value = Stretch> {
    let speech = (any::<usize>(), 4_000_usize..160_000).prop_map(|(from, samples)| Stretch::Speech { from, samples });
    let room = (100_usize..40_000).prop_map(|samples| Stretch::Room { samples });
    prop_oneof![3 => speech, 1 => room]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Needs the sample of speech; passes without.
    #[test]
    fn what_is_said_in_a_span_changes_six_counts_at_most(
        stretches in prop::collection::vec(stretch(), 1..5),
        at in 0.0_f64..1.0,
        span in 1_usize..=24_000,
        other in stretch(),
    ) {
        let Some(site) = SITE.as_ref() else { return Ok(()) };
        assert_eq!(sample(SPAN), 24_000);
        let before: Vec<f32> = stretches.iter().flat_map(|stretch| site.sound(*stretch)).collect();
        let mut after = before.clone();
        let start = (at * before.len() as f64) as usize;
        let replaced = site.sound(other).into_iter().cycle();
        after[start..].iter_mut().take(span).zip(replaced).for_each(|(sample, other)| *sample = other);
        let (before, after) = (site.counts(&before), site.counts(&after));
        let apart = apart(&before, &after);
        prop_assert!(apart <= i64::from(ONE_WORD), "{apart} counts: {before:?} became {after:?}");
    }
}

/// Needs the sample of speech; passes without.
#[test]
fn every_word_of_speech_without_a_pause_changes_six_counts_at_most() {
    let Some(site) = SITE.as_ref() else { return };
    let before = site.sound(Stretch::Speech { from: 0, samples: 30 * 16_000 });
    let counts = site.counts(&before);
    let mut most = 0;
    for start in (0..before.len() - 24_000).step_by(20_011) {
        let mut after = before.clone();
        after[start..start + 24_000].fill(0.0);
        let apart = apart(&counts, &site.counts(&after));
        assert!(apart <= i64::from(ONE_WORD), "{apart} counts at {start}");
        most = most.max(apart);
    }
    assert!(most >= 2, "a span that holds a word changes something: {most}");
}
