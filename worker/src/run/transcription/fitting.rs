//! Dummies that are no longer than pieces are. A longer sound would be known for a dummy, and it would cost more than the most that a
//! job is said to cost ([`PIECES`]).
//!
//! Words, rate and silences of a dummy are those of different pieces, so together they may be too long. Then it is spoken faster, and
//! where that is not enough its silences are shorter. Nothing is cut off: the word that is counted could be in it. What does not fit even
//! so ends the run before anything is paid. Recorded dummies are pieces themselves, and nothing is done to make them fit: that they do is
//! looked at (`recorded.rs`).

use undertone_api::job::transcription::worst::PIECES;

use crate::speech::audio::RATE;
use crate::speech::transcribe::speak::likeness::{Manner, length};
use crate::speech::transcribe::speak::{RATES, SpeakError};

/// Most samples of a dummy: those of the longest piece.
pub(super) const MOST: usize = (PIECES[1] * RATE as f64) as usize;
/// How often a dummy that is too long is spoken again.
const TRIES: usize = 2;
/// How much faster than is needed: engines keep to a rate roughly.
const HASTE: f64 = 1.05;

/// The manner at a rate at which so many words should fit, as nearly as rates allow.
pub(super) fn hurried(manner: Manner, words: usize) -> Manner {
    let minutes = room(&manner) as f64 / f64::from(RATE) / 60.0;
    Manner { rate: manner.rate.max(words as f64 / minutes).min(*RATES.end()), ..manner }
}

/// What is said in this manner: `speak` says it at a rate, and faster as long as it is too long.
///
/// # Errors
/// What `speak` says.
pub(super) fn say(
    manner: &Manner,
    speak: impl Fn(f64) -> Result<Vec<f32>, SpeakError>,
) -> Result<Vec<f32>, SpeakError> {
    let (room, mut rate) = (room(manner), manner.rate);
    let mut said = speak(rate)?;
    for _ in 0..TRIES {
        let words = length(&said);
        if words <= room || rate >= *RATES.end() {
            break;
        }
        rate = (rate * HASTE * words as f64 / room as f64).min(*RATES.end());
        said = speak(rate)?;
    }
    Ok(said)
}

/// The manner with silences so short that they fit around so many samples of words; none where there is no room for any.
pub(super) fn fitted(manner: Manner, words: usize) -> Manner {
    let (room, silences) = (MOST.saturating_sub(words), manner.before as usize + manner.after as usize);
    if silences <= room {
        return manner;
    }
    let share = |silence: u32| (silence as usize * room / silences) as u32;
    Manner { before: share(manner.before), after: share(manner.after), ..manner }
}

/// Samples for the words between the silences.
fn room(manner: &Manner) -> usize {
    MOST.saturating_sub(manner.before as usize + manner.after as usize).max(1)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;
    use crate::speech::transcribe::dummy::MOST_WORDS;
    use crate::speech::transcribe::speak::{Engine, Speaker as _};

    fn manner(silence: u32, rate: f64) -> Manner {
        Manner { before: silence, after: silence, loudness: 0.05, floor: 0.000_5, rate }
    }

    /// So many words at a rate.
    fn words(count: usize, rate: f64) -> Vec<f32> {
        let minutes = count as f64 / rate;
        vec![0.25; (minutes * 60.0 * f64::from(RATE)) as usize]
    }

    #[test]
    fn a_dummy_is_as_long_as_the_longest_piece_and_no_longer() {
        assert_eq!(MOST, 96_000);
        // Six words at 80 a minute are 4.5 s: they fit between silences of 0.75 s, and not between longer ones.
        for (silence, rates) in [(12_000, 1), (12_001, 2)] {
            let (manner, asked) = (manner(silence, 80.0), RefCell::new(Vec::new()));
            let said = say(&manner, |rate| {
                asked.borrow_mut().push(rate);
                Ok(words(6, rate))
            });
            let fitted = fitted(manner, said.as_ref().unwrap().len());
            assert_eq!(fitted, manner, "silences stay where speaking faster is enough");
            assert!(said.unwrap().len() + 2 * silence as usize <= MOST);
            assert_eq!(asked.into_inner().len(), rates);
        }
    }

    #[test]
    fn who_speaks_slower_than_is_asked_is_asked_again_twice_and_then_silences_are_shorter() {
        let (manner, asked) = (manner(16_000, 100.0), RefCell::new(Vec::new()));
        let said = say(&manner, |rate| {
            asked.borrow_mut().push(rate);
            Ok(words(10, 120.0))
        });
        let said = said.unwrap().len();
        let asked = asked.into_inner();
        assert_eq!(asked.len(), 1 + TRIES);
        assert!(asked.is_sorted() && asked.iter().all(|rate| RATES.contains(rate)), "{asked:?}");
        let fitted = fitted(manner, said);
        assert_eq!((said, fitted.before, fitted.after), (80_000, 8_000, 8_000));
        // More than all of it leaves no silence, and is refused by who makes the batch.
        let none = super::fitted(manner, MOST + 1);
        assert_eq!((none.before, none.after), (0, 0));
    }

    #[test]
    fn a_text_is_given_a_rate_at_which_it_should_fit() {
        let rate = |count| hurried(manner(16_000, 100.0), count).rate;
        assert_eq!(rate(6).to_bits(), 100.0_f64.to_bits());
        assert!((rate(10) - 150.0).abs() < 1e-9, "ten words in four seconds");
        assert_eq!(rate(200).to_bits(), RATES.end().to_bits());
    }

    /// Needs espeak-ng; passes without.
    #[test]
    fn the_longest_text_in_the_slowest_manner_fits_when_it_is_really_spoken() {
        if std::process::Command::new("espeak-ng").arg("--version").output().is_err() {
            return;
        }
        let engine = Engine::espeak("en-us", Duration::from_mins(1)).unwrap();
        let text = ["the", "patient", "was", "given", "insulin", "before", "surgery", "again"].repeat(3).join(" ");
        assert_eq!(text.split(' ').count() as u32, MOST_WORDS);
        let slow = manner(16_000, *RATES.start());
        let usual = length(&engine.speak(&text, slow.rate).unwrap());
        assert!(usual > MOST, "{usual}: it would be too long");
        let said = length(&say(&slow, |rate| engine.speak(&text, rate)).unwrap());
        let fitted = fitted(slow, said);
        assert!(said + (fitted.before + fitted.after) as usize <= MOST, "{said}");
    }
}
