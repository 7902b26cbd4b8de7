//! Dummies that are no longer than the public length of every sound.
//!
//! Words, rate and silence of a dummy are drawn, so together they may be too long. Then it is spoken faster, and if
//! that is not enough its silence is shortened. Nothing is cut off: the counted word could be in it. A dummy that still
//! does not fit ends the run before any payment. Recorded dummies are pieces themselves, and are not fitted:
//! `recorded.rs` checks their length.

use crate::speech::audio::RATE;
use crate::speech::transcribe::speak::likeness::{SAMPLES, SpeakingManner, length};
use crate::speech::transcribe::speak::{RATES, SpeakError};

/// The number of times that a too long dummy is spoken again.
const TRIES: usize = 2;
/// The factor beyond the required rate: engines keep to a rate only roughly.
const HASTE: f64 = 1.05;

/// Returns the manner at a rate at which this number of words should fit, as nearly as rates allow.
pub(super) fn raise_rate(manner: SpeakingManner, words: usize) -> SpeakingManner {
    let minutes = sample_limit(&manner) as f64 / f64::from(RATE) / 60.0;
    SpeakingManner { rate: manner.rate.max(words as f64 / minutes).min(*RATES.end()), ..manner }
}

/// Returns the speech in this manner: `speak` is called at a rate, and at faster ones while the result is too long.
///
/// # Errors
/// Any error of `speak`.
pub(super) fn speak_within_limit(
    manner: &SpeakingManner,
    speak: impl Fn(f64) -> Result<Vec<f32>, SpeakError>,
) -> Result<Vec<f32>, SpeakError> {
    let limit = sample_limit(manner);
    let mut rate = manner.rate;
    let mut sound = speak(rate)?;
    for _ in 0..TRIES {
        let samples = length(&sound);
        if samples <= limit || rate >= *RATES.end() {
            break;
        }
        rate = (rate * HASTE * samples as f64 / limit as f64).min(*RATES.end());
        sound = speak(rate)?;
    }
    Ok(sound)
}

/// Returns the silence that fits ahead of `words` samples of words; 0 if there is none.
pub(super) fn fitted_lead(manner: SpeakingManner, words: usize) -> u32 {
    manner.lead.min(SAMPLES.saturating_sub(words) as u32)
}

/// Returns the number of samples for the words behind the silence.
fn sample_limit(manner: &SpeakingManner) -> usize {
    SAMPLES.saturating_sub(manner.lead as usize).max(1)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;
    use crate::speech::transcribe::dummy::MOST_WORDS;
    use crate::speech::transcribe::speak::{SpeechEngine, SpeechSynthesizer as _};

    fn manner(lead: u32, rate: f64) -> SpeakingManner {
        SpeakingManner { lead, rate }
    }

    /// Returns a sound of `count` words at a rate.
    fn words(count: usize, rate: f64) -> Vec<f32> {
        let minutes = count as f64 / rate;
        vec![0.25; (minutes * 60.0 * f64::from(RATE)) as usize]
    }

    #[test]
    fn dummy_is_at_most_as_long_as_every_sound() {
        // Five words at 80 a minute are 3.75 s: they fit behind 0.75 s, and not behind more.
        for (lead, attempts) in [(12_000, 1), (12_001, 2)] {
            let manner = manner(lead, 80.0);
            let rates = RefCell::new(Vec::new());
            let sound = speak_within_limit(&manner, |rate| {
                rates.borrow_mut().push(rate);
                Ok(words(5, rate))
            });
            let samples = sound.unwrap().len();
            assert_eq!(fitted_lead(manner, samples), lead, "silence stays where speaking faster is enough");
            assert!(samples + lead as usize <= SAMPLES);
            assert_eq!(rates.into_inner().len(), attempts);
        }
    }

    #[test]
    fn slow_engine_speaks_twice_more_before_silence_is_cut() {
        let manner = manner(4_800, 100.0);
        let rates = RefCell::new(Vec::new());
        let sound = speak_within_limit(&manner, |rate| {
            rates.borrow_mut().push(rate);
            Ok(words(9, 122.0))
        });
        let samples = sound.unwrap().len();
        let rates = rates.into_inner();
        assert_eq!(rates.len(), 1 + TRIES);
        assert!(rates.is_sorted() && rates.iter().all(|rate| RATES.contains(rate)), "{rates:?}");
        assert_eq!((samples, fitted_lead(manner, samples)), (70_819, 1_181));
        // Words longer than the whole length leave no silence; the maker of the batch refuses them.
        assert_eq!(fitted_lead(manner, SAMPLES + 1), 0);
    }

    #[test]
    fn rate_is_raised_until_the_text_should_fit() {
        let rate = |count| raise_rate(manner(8_000, 100.0), count).rate;
        assert_eq!(rate(6).to_bits(), 100.0_f64.to_bits());
        assert!((rate(10) - 150.0).abs() < 1e-9, "ten words in four seconds");
        assert_eq!(rate(200).to_bits(), RATES.end().to_bits());
    }

    /// Needs espeak-ng; passes without.
    #[test]
    fn longest_text_of_a_real_engine_fits() {
        if std::process::Command::new("espeak-ng").arg("--version").output().is_err() {
            return;
        }
        let engine = SpeechEngine::espeak("en-us", Duration::from_mins(1)).unwrap();
        let text = ["the", "patient", "was", "given", "insulin", "before"].repeat(2).join(" ");
        assert!(text.split(' ').count() <= MOST_WORDS as usize);
        let slow = manner(4_800, *RATES.start());
        let usual = length(&engine.speak(&text, slow.rate).unwrap());
        assert!(usual > SAMPLES, "{usual}: it would be too long");
        let samples = length(&speak_within_limit(&slow, |rate| engine.speak(&text, rate)).unwrap());
        assert!(samples + fitted_lead(slow, samples) as usize <= SAMPLES, "{samples}");
    }
}
