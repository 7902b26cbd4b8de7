//! From a score for every frame to pieces.

use super::quiet::quietest;
use super::{Account, FRAME, Limits, Spoken};
use crate::speech::transcribe::piece::{Piece, sample};

/// How much lower a score may be for speech to go on than for it to begin.
const LENIENCE: f32 = 0.15;

/// Cuts as it goes along; holds the piece that is not over yet and a little before it.
pub(super) struct Segmenter {
    shortest: u64,
    longest: u64,
    pause: u64,
    margin: u64,
    begin: f32,
    held: Vec<f32>,
    /// The number of the first sample that is held.
    base: u64,
    /// Where the last piece ended: the next does not begin before.
    done: u64,
    speech: Option<Speech>,
    account: Account,
}

/// A piece that is not over yet.
#[derive(Clone, Copy)]
struct Speech {
    start: u64,
    /// Where the last frame with voice ended.
    last: u64,
}

impl Segmenter {
    /// By limits that were checked.
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            shortest: sample(limits.shortest),
            longest: sample(limits.longest),
            pause: sample(limits.pause),
            margin: sample(limits.margin),
            begin: limits.threshold,
            held: Vec::new(),
            base: 0,
            done: 0,
            speech: None,
            account: Account::default(),
        }
    }

    pub(super) fn account(&self) -> Account {
        self.account
    }

    /// The number of the sample that comes next.
    fn at(&self) -> u64 {
        self.account.samples
    }

    /// Takes a frame, at most [`FRAME`] samples, with its score (0 no voice, 1 voice); the piece that it ends, if any.
    pub(super) fn frame(&mut self, samples: &[f32], score: f32) -> Option<Spoken> {
        let from = self.at();
        self.held.extend_from_slice(samples);
        self.account.samples += samples.len() as u64;
        self.account.most_held = self.account.most_held.max(self.held.len());
        let at = self.at();
        let least = if self.speech.is_some() { self.begin - LENIENCE } else { self.begin };
        if score >= least {
            let start = from.saturating_sub(self.margin).max(self.done);
            self.speech.get_or_insert(Speech { start, last: at }).last = at;
        }
        let spoken = match self.speech {
            Some(speech) if at - speech.last >= self.pause => Some(self.close(speech)),
            Some(speech) if at + FRAME as u64 > speech.start + self.longest => Some(self.force(speech)),
            _ => None,
        };
        self.forget();
        spoken
    }

    /// The last piece, if the recording ends in speech.
    pub(super) fn finish(&mut self) -> Option<Spoken> {
        self.speech.map(|speech| self.close(speech))
    }

    /// Ends a piece after its last voice.
    fn close(&mut self, speech: Speech) -> Spoken {
        self.speech = None;
        let at = self.at();
        let (mut start, mut end) = (speech.start, (speech.last + self.margin).min(at).min(speech.start + self.longest));
        if end - start < self.shortest {
            end = (start + self.shortest).min(at);
            start = end.saturating_sub(self.shortest).max(self.done);
        }
        self.piece(start, end)
    }

    /// Ends a piece that would get too long: in the pause it is in, or at the quietest place of its second half, and goes on
    /// from there.
    fn force(&mut self, speech: Speech) -> Spoken {
        if speech.last + self.margin < self.at() {
            return self.close(speech);
        }
        let place = |at: u64| (at - self.base) as usize;
        let range = place(speech.start + self.longest / 2)..place(self.at() - self.shortest);
        let cut = self.base + quietest(&self.held, range).0 as u64;
        self.account.forced += 1;
        self.speech = Some(Speech { start: cut, last: speech.last });
        self.piece(speech.start, cut)
    }

    fn piece(&mut self, start: u64, end: u64) -> Spoken {
        let piece = Piece { id: self.account.pieces, samples: start..end };
        let audio = self.held[(start - self.base) as usize..(end - self.base) as usize].to_vec();
        self.account.pieces += 1;
        self.account.spoken += end - start;
        self.done = end;
        Spoken { piece, audio }
    }

    /// Drops what no piece to come can begin with.
    fn forget(&mut self) {
        let begins = self.speech.map_or(self.at(), |speech| speech.start);
        let keep = begins.saturating_sub(self.shortest).max(self.done).max(self.base);
        self.held.drain(..(keep - self.base) as usize);
        self.base = keep;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The limits in samples: shortest, longest.
    fn bounds(limits: &Limits) -> (u64, u64) {
        (sample(limits.shortest), sample(limits.longest))
    }

    /// Every sample is its own number, so that pieces can be held against where they say they lie.
    fn numbered(from: u64, samples: usize) -> Vec<f32> {
        (from..from + samples as u64).map(|number| (number % 65_521) as f32).collect()
    }

    proptest! {
        #[test]
        fn pieces_are_in_order_apart_and_hold_every_voice_once_in_bounded_memory(
            runs in prop::collection::vec((any::<bool>(), 1_usize..120), 0..60),
            rest in 0_usize..FRAME,
            longest in 1.0_f64..8.0,
            shortest in 0.1_f64..0.4,
            pause in 0.5_f64..0.9,
        ) {
            let limits = Limits { shortest, longest, pause, margin: 0.1, ..Limits::default() };
            prop_assert!(limits.check().is_ok());
            let mut segmenter = Segmenter::new(limits);
            let (mut pieces, mut voiced) = (Vec::new(), Vec::new());
            let last = (rest > 0).then_some((true, rest));
            let frames = runs.iter().flat_map(|(voice, frames)| std::iter::repeat_n((*voice, FRAME), *frames));
            for (voice, length) in frames.chain(last) {
                let from = segmenter.at();
                if voice {
                    voiced.push(from..from + length as u64);
                }
                pieces.extend(segmenter.frame(&numbered(from, length), if voice { 0.9 } else { 0.1 }));
            }
            pieces.extend(segmenter.finish());
            let account = segmenter.account();
            prop_assert!(account.most_held <= limits.most_held(), "{} held", account.most_held);
            prop_assert_eq!(account.spoken, pieces.iter().map(|piece| piece.audio.len() as u64).sum::<u64>());
            prop_assert_eq!(account.dropped() + account.spoken, account.samples);
            let (shortest, longest) = bounds(&limits);
            let mut end = 0;
            for (number, Spoken { piece, audio }) in pieces.iter().enumerate() {
                prop_assert_eq!(piece.id as usize, number);
                prop_assert!(piece.samples.start >= end && piece.samples.end <= account.samples);
                end = piece.samples.end;
                let length = end - piece.samples.start;
                prop_assert!(length <= longest, "{length} samples");
                prop_assert!(length >= shortest || end == account.samples, "{length} samples");
                prop_assert_eq!(audio, &numbered(piece.samples.start, length as usize));
            }
            for voice in voiced {
                let covered: u64 = pieces.iter().map(|Spoken { piece: Piece { samples, .. }, .. }| {
                    samples.end.min(voice.end).saturating_sub(samples.start.max(voice.start))
                }).sum();
                prop_assert_eq!(covered, voice.end - voice.start, "a voice is missing, or is there twice");
            }
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_recording() {
        let held = |frames: u64| {
            let mut segmenter = Segmenter::new(Limits::default());
            for number in 0..frames {
                // Speech of all lengths, with pauses of all lengths.
                let score = if (number * number / 700) % 3 == 0 { 0.2 } else { 0.8 };
                segmenter.frame(&[0.25; FRAME], score);
            }
            segmenter.account().most_held
        };
        assert_eq!(held(40_000), held(400_000), "ten minutes and an hour and three quarters");
        assert!(held(40_000) <= Limits::default().most_held());
    }

    #[test]
    fn speech_without_a_pause_is_cut_where_it_is_quietest() {
        let mut segmenter = Segmenter::new(Limits::default());
        let mut pieces = Vec::new();
        for number in 0..600 {
            // 16 ms that are quieter, 4.8 s after the beginning.
            let loud = if number == 300 { 0.01 } else { 0.5 };
            pieces.extend(segmenter.frame(&[loud; FRAME], 0.9));
        }
        pieces.extend(segmenter.finish());
        let quiet = 300 * FRAME as u64;
        assert!((quiet..quiet + FRAME as u64).contains(&pieces[0].piece.samples.end), "{pieces:?}");
        assert_eq!(pieces[1].piece.samples.start, pieces[0].piece.samples.end, "nothing is lost between the two");
        assert_eq!(segmenter.account().forced, 1);
    }
}
