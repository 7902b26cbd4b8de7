//! Tests on real sound, with the code that cuts it, that one spoken word changes at most the stated number of piece counts.
//!
//! Recordings are composed of read speech, with and without pauses, and of noise. Each test replaces a span of at most the
//! stated length by another, so the rest of the recording may move. A function of a piece's sound replaces the site's recognizer. Its words change whenever any sample changes,
//! so the words around those of the span change in every possible way.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use undertone_api::job::transcription::window::{ONE_WORD, SPAN, hidden_span};

use super::{SegmentLimits, SpokenPiece, segment};
use crate::parts::parts;
use crate::piece::{Piece, Recognition, TimedWord, sample};
use crate::sensitive::SensitiveFinder;
use crate::sensitive::language::SensitiveLexicon;
use crate::sensitive::settings::SensitiveSettings;
use crate::vocabulary::language::StemmingLanguage;
use crate::vocabulary::{PieceWords, Vocabulary, WordList, public};
use undertone_worker_site::testing::fixture;
use undertone_worker_speech::audio::{LONGEST, read};

/// Possible words of a piece: vocabulary words, other words, names after a title, numbers, nothing.
const PHRASES: [&str; 12] = [
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

struct TestSite {
    vocabulary: Vocabulary,
    finder: SensitiveFinder,
    /// Read speech without pauses.
    speech: Vec<f32>,
}

static SITE: LazyLock<Option<TestSite>> = LazyLock::new(|| {
    let folder = fixture::data("speech_tiny")?.join("an4-test/fcaw/1");
    let mut speech = Vec::new();
    for name in ["fcaw-1-0406.flac", "fcaw-1-0407.flac", "fcaw-1-0408.flac"] {
        let samples = read(&folder.join(name), LONGEST).unwrap().samples;
        let loud = |frame: &&[f32]| frame.iter().any(|sample| sample.abs() > 0.03);
        speech.extend(samples.chunks(160).filter(loud).flatten());
    }
    let list = WordList::parse("medicine\nwindow\nbreathing\n").unwrap();
    Some(TestSite {
        vocabulary: public(StemmingLanguage::new("en").unwrap(), &list).unwrap(),
        finder: SensitiveFinder::new(SensitiveLexicon::bundled("en").unwrap(), &SensitiveSettings::default()).unwrap(),
        speech,
    })
});

/// One part of a recording.
#[derive(Debug, Clone, Copy)]
enum SoundStretch {
    /// Speech, from an offset.
    Speech { from: usize, samples: usize },
    /// Room noise.
    Room { samples: usize },
}

impl TestSite {
    fn sound(&self, stretch: SoundStretch) -> Vec<f32> {
        match stretch {
            SoundStretch::Speech { from, samples } => {
                self.speech.iter().copied().cycle().skip(from % self.speech.len()).take(samples).collect()
            }
            SoundStretch::Room { samples } => {
                (0..samples as u32).map(|n| 2e-4 * f32::from((n * 7_919 % 201) as i16 - 100) / 100.0).collect()
            }
        }
    }

    /// Counts the pieces that may leave, by word and for no word.
    fn counts(&self, recording: &[f32]) -> BTreeMap<Option<u32>, i64> {
        let blocks = recording.chunks(4_096).map(|block| Ok(block.to_vec()));
        let pieces =
            segment(blocks, SegmentLimits::default()).unwrap().map(|sound| recognize(&sound.unwrap())).collect();
        let mut counts = BTreeMap::new();
        for part in parts(pieces, &self.finder).iter().filter(|part| part.stays.is_none()) {
            match self.vocabulary.classify(&part.offline.words) {
                PieceWords::Nothing => *counts.entry(None).or_default() += 1,
                PieceWords::One(word) => *counts.entry(Some(word)).or_default() += 1,
                PieceWords::Several => {}
            }
        }
        counts
    }
}

/// Returns the piece with words that depend on each sample of its sound.
fn recognize(sound: &SpokenPiece) -> (Piece, Recognition) {
    let mix = |state: u64, sample: &f32| (state ^ u64::from(sample.to_bits())).wrapping_mul(0x0000_0100_0000_01b3);
    let state = sound.audio.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    let texts: Vec<&str> = PHRASES[(state >> 32) as usize % PHRASES.len()].split_whitespace().collect();
    let start = sound.piece.start();
    let each = sound.piece.seconds() / texts.len().max(1) as f64;
    let word = |(text, place): (&&str, u32)| {
        let start = start + f64::from(place) * each;
        TimedWord { text: (*text).to_owned(), start, end: start + each, confidence: None }
    };
    (sound.piece.clone(), Recognition { words: texts.iter().zip(0..).map(word).collect() })
}

fn distance(one: &BTreeMap<Option<u32>, i64>, other: &BTreeMap<Option<u32>, i64>) -> i64 {
    let words: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let count = |of: &BTreeMap<Option<u32>, i64>, word| of.get(word).copied().unwrap_or(0);
    words.into_iter().map(|word| (count(one, word) - count(other, word)).abs()).sum()
}

fn stretch() -> impl Strategy<Value = SoundStretch> {
    let speech =
        (any::<usize>(), 4_000_usize..160_000).prop_map(|(from, samples)| SoundStretch::Speech { from, samples });
    let room = (100_usize..40_000).prop_map(|samples| SoundStretch::Room { samples });
    prop_oneof![3 => speech, 1 => room]
}

/// Replaces `span` samples of a recording from `start` by other samples; either may be empty.
fn replace(recording: &[f32], start: usize, span: usize, other: &[f32]) -> Vec<f32> {
    let end = (start + span).min(recording.len());
    [&recording[..start], other, &recording[end..]].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Needs the speech sample; passes without it.
    #[test]
    fn replaced_span_changes_at_most_the_stated_counts(
        stretches in prop::collection::vec(stretch(), 1..5),
        at in 0.0_f64..1.0,
        removed in prop_oneof![Just(0_usize), 1_usize..=19_200],
        inserted in prop_oneof![Just(0_usize), 1_usize..=19_200],
        other in stretch(),
    ) {
        let Some(site) = SITE.as_ref() else { return Ok(()) };
        assert_eq!(sample(SPAN), 19_200);
        let before: Vec<f32> = stretches.iter().flat_map(|stretch| site.sound(*stretch)).collect();
        let start = (at * before.len() as f64) as usize;
        let other: Vec<f32> = site.sound(other).into_iter().cycle().take(inserted).collect();
        let after = replace(&before, start, removed, &other);
        let (before, after) = (site.counts(&before), site.counts(&after));
        let distance = distance(&before, &after);
        prop_assert!(distance <= i64::from(ONE_WORD), "{distance} counts: {before:?} became {after:?}");
    }
}

/// A word is inserted into speech without pauses, removed from it, and exchanged for another; no length is a multiple of
/// another. Needs the speech sample; passes without it.
#[test]
fn inserted_removed_or_exchanged_word_changes_few_counts() {
    let Some(site) = SITE.as_ref() else { return };
    let before = site.sound(SoundStretch::Speech { from: 0, samples: 40 * 16_000 });
    let word = &site.sound(SoundStretch::Speech { from: 7_001, samples: 9_973 })[..];
    let counts = site.counts(&before);
    let mut most = 0;
    for start in (0..before.len() - 20_000).step_by(60_013) {
        for (removed, inserted) in [(0, word), (11_003, &[][..]), (13_007, word), (19_200, &word[..1])] {
            let after = replace(&before, start, removed, inserted);
            let distance = distance(&counts, &site.counts(&after));
            assert!(distance <= i64::from(ONE_WORD), "{distance} counts at {start}, {removed} removed");
            most = most.max(distance);
        }
    }
    assert!(most >= 2, "a word changes something: {most}");
}

/// A stretch of speech is inserted, removed and exchanged; the guidance for d names the longest hidden one. Needs the speech
/// sample; passes without it.
#[test]
fn replaced_stretch_changes_at_most_the_distance_that_hides_it() {
    let Some(site) = SITE.as_ref() else { return };
    let before = site.sound(SoundStretch::Speech { from: 0, samples: 60 * 16_000 });
    let counts = site.counts(&before);
    for hidden in [20, 50] {
        let most = (hidden_span(hidden) * 16_000.0) as usize;
        let other = &site.sound(SoundStretch::Speech { from: 7_001, samples: most })[..];
        for start in [0, 160_111, 320_003] {
            for (removed, inserted) in [(0, other), (most, &[][..]), (most, other), (most / 2, other)] {
                let after = replace(&before, start, removed, inserted);
                let distance = distance(&counts, &site.counts(&after));
                assert!(distance <= i64::from(hidden), "{distance} counts at {start}, {removed} removed: d = {hidden}");
            }
        }
    }
}
