//! Cuts pieces again, by word: afterwards a piece has at most one word of the vocabulary, where there is a place to cut.
//!
//! A place is a silence between two words: one that the transcript's times have (recognizers that give every moment to a
//! word have few), or one in the sound itself, where it falls far below the loudness of the piece. Cutting elsewhere would
//! cut words in two, and recognizers could not hear them. Pieces that keep more than one word of the vocabulary are named
//! ([`Splitter::crowded`]): what is proved of one word a piece is proved for them by their number only.
//!
//! Where a piece could be cut depends on its sound alone, and where it is cut on the vocabulary. So whoever keeps the places
//! ([`Splitter::gaps`]) can cut for any vocabulary without the sound ([`Splitter::again`]).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::quiet::{power, quietest};
use super::{LimitError, Limits, Spoken};
use crate::speech::transcribe::piece::{Piece, Word, sample};

/// How far the times of a recognizer may be off, samples: 40 ms.
const SLACK: u64 = 640;

/// A place between two words in which there is silence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// The sample, counted from the beginning of the recording.
    pub at: u64,
    /// Mean square of the sound around it, full scale = 1.
    pub power: f64,
}

/// Numbers the pieces of one recording anew while it cuts them.
pub struct Splitter {
    shortest: u64,
    gap: f64,
    /// The part of a piece's power below which is silence.
    quiet: f64,
    pieces: u32,
    cuts: u32,
    crowded: Vec<u32>,
}

impl Splitter {
    /// By limits.
    ///
    /// # Errors
    /// [`LimitError`] if a limit cannot be.
    pub fn new(limits: &Limits) -> Result<Self, LimitError> {
        limits.check()?;
        let quiet = 10_f64.powf(limits.quiet / 10.0);
        Ok(Self { shortest: sample(limits.shortest), gap: limits.gap, quiet, pieces: 0, cuts: 0, crowded: Vec::new() })
    }

    /// Cuts one piece; the parts touch and hold all of it. `words` are the recording's, or the piece's, in order and timed
    /// from the beginning of the recording; `listed` says which are of the vocabulary. Call it in order of time.
    pub fn split(&mut self, spoken: Spoken, words: &[Word], listed: impl Fn(&Word) -> bool) -> Vec<Spoken> {
        let inside: Vec<&Word> = words.iter().filter(|word| spoken.piece.holds(word)).collect();
        let marked: Vec<usize> = (0..inside.len()).filter(|at| listed(inside[*at])).collect();
        let cuts = self.between(&spoken.piece, &marked, |at| self.place(&spoken, inside[at], inside[at + 1]));
        self.cuts += cuts.len() as u32;
        let parts = self.parts(spoken, &cuts);
        let crowded =
            |part: &&Spoken| inside.iter().filter(|word| part.piece.holds(word) && listed(word)).nth(1).is_some();
        self.crowded.extend(parts.iter().filter(crowded).map(|part| part.piece.id));
        parts
    }

    /// Where a piece could be cut after each of its words but the last, whatever will be listed. `words` as in
    /// [`Splitter::split`].
    pub fn gaps(&self, spoken: &Spoken, words: &[Word]) -> Vec<Option<Gap>> {
        let inside: Vec<&Word> = words.iter().filter(|word| spoken.piece.holds(word)).collect();
        inside.windows(2).map(|pair| self.place(spoken, pair[0], pair[1])).collect()
    }

    /// The samples of the parts into which [`Splitter::split`] cuts a piece of which these are the [`Splitter::gaps`]. Counts
    /// nothing.
    pub fn again(
        &self,
        piece: &Piece,
        words: &[Word],
        gaps: &[Option<Gap>],
        listed: impl Fn(&Word) -> bool,
    ) -> Vec<Range<u64>> {
        let inside = words.iter().filter(|word| piece.holds(word));
        let marked: Vec<usize> = inside.enumerate().filter(|(_, word)| listed(word)).map(|(at, _)| at).collect();
        let cuts = self.between(piece, &marked, |at| gaps.get(at).copied().flatten());
        let starts = std::iter::once(piece.samples.start).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([piece.samples.end]);
        starts.zip(ends).map(|(start, end)| start..end).collect()
    }

    /// Pieces so far.
    pub fn pieces(&self) -> u32 {
        self.pieces
    }

    /// Cuts so far.
    pub fn cuts(&self) -> u32 {
        self.cuts
    }

    /// The pieces that hold more than one word of the vocabulary, because there was no place to cut.
    pub fn crowded(&self) -> &[u32] {
        &self.crowded
    }

    /// Where a piece is cut so that the `marked` of its words are apart: between each two of them at the quietest of the places
    /// after the words from the first to the second, as far as no part gets too short.
    fn between(&self, piece: &Piece, marked: &[usize], place: impl Fn(usize) -> Option<Gap>) -> Vec<u64> {
        let mut cuts = Vec::new();
        let mut last = piece.samples.start;
        for pair in marked.windows(2) {
            let places = (pair[0]..pair[1]).filter_map(&place);
            let apart = |at: u64| at >= last + self.shortest && at + self.shortest <= piece.samples.end;
            let best = places.filter(|gap| apart(gap.at)).min_by(|a, b| a.power.total_cmp(&b.power));
            if let Some(Gap { at, .. }) = best {
                cuts.push(at);
                last = at;
            }
        }
        cuts
    }

    /// Where to cut between two words, and the power there; `None` where there is no silence.
    fn place(&self, spoken: &Spoken, before: &Word, after: &Word) -> Option<Gap> {
        let Piece { samples, .. } = &spoken.piece;
        let silence = after.start - before.end;
        let stated = silence >= self.gap;
        let slack = if stated { 0 } else { SLACK };
        // Not beyond the middle of either, so that each stays in its own part.
        let from = sample(before.end.min(after.start)).saturating_sub(slack).max(sample(before.middle()) + 1);
        let to = (sample(before.end.max(after.start)) + slack).min(sample(after.middle()));
        let (from, to) = (from.max(samples.start + 1), to.min(samples.end.saturating_sub(1)));
        if from >= to {
            return None;
        }
        let range = (from - samples.start) as usize..(to - samples.start) as usize;
        let (at, least) = quietest(&spoken.audio, range);
        let silent = stated || least <= self.quiet * power(&spoken.audio);
        silent.then_some(Gap { at: samples.start + at as u64, power: least })
    }

    fn parts(&mut self, spoken: Spoken, cuts: &[u64]) -> Vec<Spoken> {
        let Spoken { piece: Piece { samples, .. }, mut audio } = spoken;
        let mut parts = Vec::with_capacity(cuts.len() + 1);
        let mut start = samples.start;
        for end in cuts.iter().copied().chain([samples.end]) {
            let rest = audio.split_off((end - start) as usize);
            parts.push(Spoken { piece: Piece { id: self.pieces, samples: start..end }, audio });
            self.pieces += 1;
            (audio, start) = (rest, end);
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use proptest::prelude::*;

    use super::*;
    use crate::speech::transcribe::piece::seconds;

    /// Words of 0.4 s from `start` on, each `silence` after the one before.
    fn words(start: f64, count: usize, silence: f64) -> Vec<Word> {
        let word = |number: usize| {
            let start = start + number as f64 * (0.4 + silence);
            Word { text: format!("w{number}"), start, end: start + 0.4, confidence: None }
        };
        (0..count).map(word).collect()
    }

    /// A tone where there are words, and nothing between.
    fn spoken(range: std::ops::Range<u64>, words: &[Word]) -> Spoken {
        let voice = |at: u64| words.iter().any(|word| (word.start..word.end).contains(&seconds(at)));
        let audio = range.clone().map(|at| if voice(at) { 0.5 * (at as f32 * 0.3).sin() } else { 0.0 }).collect();
        Spoken { piece: Piece { id: 7, samples: range }, audio }
    }

    #[test]
    fn every_listed_word_gets_a_piece_of_its_own_where_words_are_apart() {
        let words = words(10.1, 6, 0.1);
        let mut splitter = Splitter::new(&Limits::default()).unwrap();
        let listed = |word: &Word| ["w0", "w2", "w3"].contains(&word.text.as_str());
        let parts = splitter.split(spoken(160_000..216_000, &words), &words, listed);
        let of: Vec<usize> = parts
            .iter()
            .map(|part| words.iter().filter(|word| part.piece.holds(word) && listed(word)).count())
            .collect();
        assert_eq!(of, [1, 1, 1]);
        assert_eq!((splitter.pieces(), splitter.cuts(), splitter.crowded()), (3, 2, &[][..]));
        let cut = parts[1].piece.end();
        assert!(words[2].end < cut && cut < words[3].start, "cut at {cut} s, between the two");
        assert!((cut - f64::midpoint(words[2].end, words[3].start)).abs() < 0.01, "in the middle of equal silence");
    }

    #[test]
    fn a_silence_that_only_the_sound_has_is_found() {
        let said = words(0.0, 2, 0.08);
        // The recognizer gave the silence to the words.
        let heard = [Word { end: 0.44, ..said[0].clone() }, Word { start: 0.44, ..said[1].clone() }];
        let mut splitter = Splitter::new(&Limits::default()).unwrap();
        let parts = splitter.split(spoken(0..14_080, &said), &heard, |_| true);
        assert_eq!(parts.len(), 2);
        assert!((0.4..0.48).contains(&parts[0].piece.end()), "{parts:?}");
    }

    #[test]
    fn words_that_run_together_stay_together_and_are_named() {
        let words = words(0.0, 3, 0.0);
        let mut splitter = Splitter::new(&Limits::default()).unwrap();
        let first = splitter.split(spoken(0..19_200, &words), &words, |_| true);
        assert_eq!((first.len(), splitter.crowded()), (1, &[0][..]));
        let later: Vec<Word> = words.iter().map(|word| word.later(2.0)).collect();
        splitter.split(spoken(32_000..51_200, &later), &later, |word| word.text == "w1");
        assert_eq!((splitter.pieces(), splitter.crowded()), (2, &[0][..]), "one listed word is no crowd");
    }

    #[test]
    fn no_part_is_shorter_than_the_shortest() {
        let quick: Vec<Word> = (0..5)
            .map(|number| {
                let start = f64::from(number) * 0.12;
                Word { text: "a".to_owned(), start, end: start + 0.06, confidence: None }
            })
            .collect();
        let mut splitter = Splitter::new(&Limits::default()).unwrap();
        let parts = splitter.split(spoken(0..9_600, &quick), &quick, |_| true);
        assert!(parts.len() > 1 && parts.iter().all(|part| part.audio.len() >= 3_200), "{parts:?}");
        assert!(!splitter.crowded().is_empty());
    }

    proptest! {
        #[test]
        fn parts_touch_and_hold_every_word_and_every_sample_once(
            lengths in prop::collection::vec((0.02_f64..0.5, 0.0_f64..0.2, any::<bool>()), 0..20),
            start in 0_u64..1_000_000,
        ) {
            let (mut at, mut words) = (seconds(start), Vec::new());
            for (length, silence, listed) in lengths {
                let text = if listed { "listed" } else { "other" }.to_owned();
                words.push(Word { text, start: at, end: at + length, confidence: None });
                at += length + silence;
            }
            let range = start..sample(at).max(start) + 4_000;
            let whole = spoken(range.clone(), &words);
            let mut splitter = Splitter::new(&Limits::default()).unwrap();
            let listed = |word: &Word| word.text == "listed";
            let gaps = splitter.gaps(&whole, &words);
            let again = splitter.again(&whole.piece, &words, &gaps, listed);
            let parts = splitter.split(whole.clone(), &words, listed);
            let samples: Vec<std::ops::Range<u64>> = parts.iter().map(|part| part.piece.samples.clone()).collect();
            prop_assert_eq!(again, samples, "without the sound as with it");
            let joined: Vec<f32> = parts.iter().flat_map(|part| part.audio.iter().copied()).collect();
            prop_assert_eq!(joined, whole.audio);
            let mut end = range.start;
            for (number, part) in parts.iter().enumerate() {
                prop_assert_eq!((part.piece.id as usize, part.piece.samples.start), (number, end));
                prop_assert_eq!(part.audio.len() as u64, part.piece.samples.end - end);
                end = part.piece.samples.end;
                let count = words.iter().filter(|word| part.piece.holds(word) && listed(word)).count();
                prop_assert_eq!(count > 1, splitter.crowded().contains(&part.piece.id));
            }
            prop_assert_eq!(end, range.end);
            for word in &words {
                prop_assert_eq!(parts.iter().filter(|part| part.piece.holds(word)).count(), 1);
            }
        }
    }
}
