#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::speech::audio::{LONGEST, RATE, Stream};
use crate::speech::synthesize::spoken;

/// Digital silence is what no room has.
const ROOM: f32 = 2e-4;

fn room(length: f64) -> Vec<f32> {
    // A congruential generator is noise enough, and the same on every machine.
    let mut state: u32 = 1;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ROOM * (f64::from(state) / f64::from(u32::MAX) * 2.0 - 1.0) as f32
    };
    (0..sample(length)).map(|_| noise()).collect()
}

fn blocks(samples: &[f32], block: usize) -> impl Iterator<Item = Result<Vec<f32>, AudioError>> + use<> {
    samples.chunks(block).map(|block| Ok(block.to_vec())).collect::<Vec<_>>().into_iter()
}

fn pieces(samples: &[f32], block: usize) -> (Vec<Spoken>, Account) {
    let mut segments = segment(blocks(samples, block), Limits::default()).unwrap();
    let pieces = segments.by_ref().map(Result::unwrap).collect();
    (pieces, segments.account())
}

/// Needs flite; passes without.
#[test]
fn sentences_with_pauses_become_pieces_that_hold_them() {
    let mut samples = room(1.0);
    let mut said = Vec::new();
    for text in ["go forward ten meters", "the patient will visit the hospital", "turn left"] {
        let Some(voice) = spoken(text) else { return };
        // The synthesizer's own silence around the sentence is no speech.
        let loud = |sample: &f32| sample.abs() > 0.02;
        let (first, last) = (voice.iter().position(loud).unwrap(), voice.iter().rposition(loud).unwrap());
        said.push((samples.len() + first) as u64..(samples.len() + last) as u64);
        samples.extend(voice.iter().zip(room(60.0)).map(|(voice, noise)| voice + noise));
        samples.extend(room(1.0));
    }
    let (found, account) = pieces(&samples, 1_000);
    assert_eq!(found.len(), 3, "{found:?}");
    for (Spoken { piece, audio }, said) in found.iter().zip(&said) {
        assert!(piece.samples.start <= said.start && said.end <= piece.samples.end, "{piece:?} lacks some of {said:?}");
        let slack = piece.seconds() - seconds(said.end - said.start);
        assert!(slack < 0.5, "{piece:?} has {slack} s of silence");
        assert_eq!(audio, &samples[piece.samples.start as usize..piece.samples.end as usize]);
    }
    assert_eq!(account.samples, samples.len() as u64);
    assert!(account.dropped() > sample(3.0), "silence is dropped: {account:?}");
    assert_eq!(pieces(&samples, 77).0, found, "it does not matter how a recording is read");
}

#[test]
fn a_room_without_a_voice_has_no_pieces_and_is_accounted_for() {
    let (found, account) = pieces(&room(5.0), 4_096);
    assert!(found.is_empty(), "{found:?}");
    assert_eq!((account.samples, account.dropped()), (80_000, 80_000));
    let (found, account) = pieces(&[], 1);
    assert!(found.is_empty() && account == Account::default());
}

#[test]
fn a_recording_that_breaks_ends_with_the_error() {
    let broken =
        || AudioError { path: "a.flac".into(), problem: crate::speech::audio::Problem::Broken("cut".to_owned()) };
    let blocks = blocks(&room(0.5), 1_000).chain([Err(broken()), Ok(room(0.5))]);
    let all: Vec<_> = segment(blocks, Limits::default()).unwrap().collect();
    assert!(matches!(&all[..], [Err(AudioError { .. })]), "{all:?}");
}

#[test]
fn limits_that_cannot_be_are_refused_by_field_with_what_can() {
    let usual = Limits::default();
    assert_eq!(usual.check(), Ok(()));
    let wrong = [
        (Limits { shortest: 0.05, ..usual }, "shortest = 0.05: choose it between 0.1 and 0.4"),
        (Limits { longest: 31.0, ..usual }, "longest = 31: choose it between 1 and 30"),
        (Limits { margin: 0.3, ..usual }, "margin = 0.3: choose it between 0 and 0.2"),
        (Limits { pause: 0.25, ..usual }, "pause = 0.25"),
        (Limits { threshold: 1.0, ..usual }, "threshold = 1"),
        (Limits { gap: 0.0, ..usual }, "gap = 0"),
        (Limits { quiet: 3.0, ..usual }, "quiet = 3"),
        (Limits { longest: f64::NAN, ..usual }, "longest = NaN"),
    ];
    for (limits, expected) in wrong {
        let said = segment(blocks(&[], 1), limits).err().unwrap().to_string();
        assert!(said.starts_with(expected), "{said}");
    }
    let least =
        Limits { shortest: 0.1, longest: 1.0, margin: 0.0, pause: 0.1, threshold: 0.2, gap: 0.01, quiet: -60.0 };
    let most = Limits { shortest: 0.4, longest: 30.0, margin: 0.4, pause: 2.0, threshold: 0.9, gap: 1.0, quiet: -6.0 };
    assert_eq!((least.check(), most.check()), (Ok(()), Ok(())));
}

/// Needs the speech data (`UNDERTONE_DATA`); passes without it.
#[test]
fn real_recordings_keep_nearly_all_their_loud_samples() {
    let Some(data) = crate::speech::fixture::data("speech_tiny") else { return };
    let path = data.join("an4-train/fash/1/fash-1-0251.flac");
    let stream = Stream::open(&path, LONGEST).unwrap();
    let samples = crate::speech::audio::read(&path, LONGEST).unwrap().samples;
    let mut segments = segment(stream, Limits::default()).unwrap();
    let found: Vec<Spoken> = segments.by_ref().map(Result::unwrap).collect();
    let power = |samples: &[f32]| samples.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>();
    let kept: f64 = found.iter().map(|spoken| power(&spoken.audio)).sum();
    assert!(kept > 0.95 * power(&samples), "{kept} of {}", power(&samples));
    assert_eq!(segments.account().samples, u64::from(RATE));
}
