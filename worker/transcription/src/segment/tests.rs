#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use undertone_worker_speech::audio::{LONGEST, RATE, Stream};
use undertone_worker_speech::synthesize::synthesize_text;

/// Level of room noise: no room has digital silence.
const ROOM: f32 = 2e-4;

fn room(length: f64) -> Vec<f32> {
    // A congruential generator is sufficient, and the same on every machine.
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

fn pieces(samples: &[f32], block: usize) -> (Vec<SpokenPiece>, SegmentAccount) {
    let mut segments = segment(blocks(samples, block), SegmentLimits::default()).unwrap();
    let pieces = segments.by_ref().map(Result::unwrap).collect();
    (pieces, segments.account())
}

/// Needs flite; passes without it.
#[test]
fn sentences_lie_in_pieces_for_any_block_size() {
    let mut samples = room(1.0);
    let mut sentences = Vec::new();
    for text in ["go forward ten meters", "the patient will visit the hospital", "turn left"] {
        let Some(voice) = synthesize_text(text) else { return };
        // The synthesizer's own silence around the sentence is no speech.
        let loud = |sample: &f32| sample.abs() > 0.02;
        let first = voice.iter().position(loud).unwrap();
        let last = voice.iter().rposition(loud).unwrap();
        sentences.push((samples.len() + first) as u64..(samples.len() + last) as u64);
        samples.extend(voice.iter().zip(room(60.0)).map(|(voice, noise)| voice + noise));
        samples.extend(room(1.0));
    }
    samples.extend(room(6.0));
    let (spoken_pieces, account) = pieces(&samples, 1_000);
    assert!(spoken_pieces.len() < account.windows as usize, "a window without voice has no piece: {spoken_pieces:?}");
    for sentence in &sentences {
        let covered: u64 = spoken_pieces
            .iter()
            .map(|SpokenPiece { piece, .. }| {
                piece.samples.end.min(sentence.end).saturating_sub(piece.samples.start.max(sentence.start))
            })
            .sum();
        assert!(covered * 100 >= (sentence.end - sentence.start) * 97, "{covered} of {sentence:?}");
    }
    let limits = SegmentLimits::default();
    let mut end = 0;
    for (number, SpokenPiece { piece, audio }) in spoken_pieces.iter().enumerate() {
        assert_eq!(piece.id as usize, number);
        assert!(piece.samples.start >= end && audio.len() <= limits.most_held());
        end = piece.samples.end;
        assert_eq!(audio, &samples[piece.samples.start as usize..piece.samples.end as usize]);
    }
    assert_eq!(account.samples, samples.len() as u64);
    assert!(account.dropped() > sample(3.0), "silence is dropped: {account:?}");
    assert!(account.most_held <= limits.most_held(), "{account:?}");
    assert_eq!(pieces(&samples, 77).0, spoken_pieces);
    assert_eq!(pieces(&samples, 1_000_000).0, spoken_pieces);
}

/// Returns the ends of the windows.
fn cuts(samples: &[f32]) -> Vec<u64> {
    let mut segments = segment(blocks(samples, 4_096), SegmentLimits::default()).unwrap();
    std::iter::from_fn(|| segments.window().unwrap().map(|_| segments.base)).collect()
}

#[test]
fn cuts_lie_at_rests() {
    let mut samples = vec![0.5; 160_000];
    // Quieter intervals of 60 ms. The second is near a quieter one, and the last is near the end.
    for (at, level) in [(30_000, 0.01), (60_000, 0.02), (70_000, 0.0), (100_000, 0.02), (150_000, 0.0)] {
        samples[at..at + 960].fill(level);
    }
    let expected = [30_480, 70_480, 100_480, 160_000];
    assert_eq!(cuts(&samples), expected);
    samples.splice(20_000..20_000, vec![0.5; 777]);
    assert_eq!(cuts(&samples), expected.map(|cut| cut + 777), "cuts move with the sound");
}

#[test]
fn window_without_rest_is_divided_after_twenty_seconds() {
    // 20 s are one window, and any longer window has parts of 10 to 20 s.
    for (samples, expected) in [
        (1, vec![1]),
        (320_000, vec![320_000]),
        (320_001, vec![160_000, 320_001]),
        (500_000, vec![160_000, 320_000, 500_000]),
    ] {
        assert_eq!(cuts(&vec![0.1; samples]), expected, "{samples}");
    }
}

#[test]
fn recording_without_voice_has_no_pieces() {
    let (spoken_pieces, account) = pieces(&room(5.0), 4_096);
    assert!(spoken_pieces.is_empty(), "{spoken_pieces:?}");
    assert_eq!((account.samples, account.dropped()), (80_000, 80_000));
    let (spoken_pieces, account) = pieces(&[], 1);
    assert!(spoken_pieces.is_empty() && account == SegmentAccount::default());
}

#[test]
fn broken_recording_ends_with_the_error() {
    let broken = || AudioError {
        path: "a.flac".into(),
        problem: undertone_worker_speech::audio::Problem::Broken("cut".to_owned()),
    };
    let blocks = blocks(&room(0.5), 1_000).chain([Err(broken()), Ok(room(0.5))]);
    let all: Vec<_> = segment(blocks, SegmentLimits::default()).unwrap().collect();
    assert!(matches!(&all[..], [Err(AudioError { .. })]), "{all:?}");
}

#[test]
fn limits_out_of_range_are_refused_by_field() {
    let usual = SegmentLimits::default();
    assert_eq!(usual.check(), Ok(()));
    let wrong = [
        (SegmentLimits { rest: 0.4, ..usual }, "rest = 0.4: choose it between 0.5 and 8"),
        (SegmentLimits { rest: 8.1, ..usual }, "rest = 8.1"),
        (SegmentLimits { margin: 1.1, ..usual }, "margin = 1.1: choose it between 0 and 1"),
        (SegmentLimits { threshold: 1.0, ..usual }, "threshold = 1"),
        (SegmentLimits { rest: f64::NAN, ..usual }, "rest = NaN"),
    ];
    for (limits, expected) in wrong {
        let message = segment(blocks(&[], 1), limits).err().unwrap().to_string();
        assert!(message.starts_with(expected), "{message}");
    }
    let least = SegmentLimits { rest: 0.5, margin: 0.0, threshold: 0.2 };
    let most = SegmentLimits { rest: 8.0, margin: 1.0, threshold: 0.9 };
    assert_eq!((least.check(), most.check()), (Ok(()), Ok(())));
}

/// Needs the speech data (`UNDERTONE_DATA`); passes without it.
#[test]
fn real_recordings_keep_nearly_all_their_loud_samples() {
    let Some(data) = undertone_worker_site::testing::fixture::data("speech_tiny") else { return };
    let path = data.join("an4-train/fash/1/fash-1-0251.flac");
    let stream = Stream::open(&path, LONGEST).unwrap();
    let samples = undertone_worker_speech::audio::read(&path, LONGEST).unwrap().samples;
    let mut segments = segment(stream, SegmentLimits::default()).unwrap();
    let spoken_pieces: Vec<SpokenPiece> = segments.by_ref().map(Result::unwrap).collect();
    let power = |samples: &[f32]| samples.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>();
    let power_in_pieces: f64 = spoken_pieces.iter().map(|spoken| power(&spoken.audio)).sum();
    assert!(power_in_pieces > 0.95 * power(&samples), "{power_in_pieces} of {}", power(&samples));
    assert_eq!(segments.account().samples, u64::from(RATE));
}
