#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::f64::consts::{PI, TAU};

use super::{OneVoice as _, VocoderVoice, VoiceError, excitation};
use crate::voice::lpc;
use undertone_worker_speech::mfcc::{COEFFICIENTS, Mfcc};

/// A speaker of vowels with breath noise between them, 2 s: at a pitch, with the formants of a vocal tract of this scale.
fn speaker(pitch: f64, scale: f64) -> Vec<f32> {
    const VOWELS: [[f64; 3]; 5] = [
        [730.0, 1_090.0, 2_440.0],
        [270.0, 2_290.0, 3_010.0],
        [300.0, 870.0, 2_240.0],
        [530.0, 1_840.0, 2_480.0],
        [570.0, 840.0, 2_410.0],
    ];
    let mut sound = Vec::new();
    let (mut phase, mut state) = (0.0, 1_u32);
    for vowel in VOWELS {
        let excited = (0..6_400).map(|n| {
            phase += pitch / 16_000.0;
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = 0.02 * (f64::from(state) / f64::from(u32::MAX) - 0.5);
            let pulse = if phase >= 1.0 { 1.0 } else { 0.0 };
            phase -= pulse;
            noise + pulse * (0.3 + 0.7 * (PI * f64::from(n) / 6_400.0).sin())
        });
        let mut part: Vec<f64> = excited.collect();
        for (formant, bandwidth) in vowel.iter().zip([80.0, 100.0, 150.0]) {
            let radius = (-PI * bandwidth * scale / 16_000.0).exp();
            part = lpc::resynthesis(
                &part,
                &[1.0, -2.0 * radius * (TAU * formant * scale / 16_000.0).cos(), radius * radius],
            );
        }
        sound.extend(part);
    }
    let loudest = sound.iter().fold(0.0_f64, |most, sample| most.max(sample.abs()));
    sound.iter().map(|sample| (0.5 * sample / loudest) as f32).collect()
}

fn wide(sound: &[f32]) -> Vec<f64> {
    sound.iter().map(|sample| f64::from(*sample)).collect()
}

/// Returns the mean spectrum of the audible frames: the mean of each of 12 MFCC, without the level.
fn spectrum(sound: &[f32]) -> Vec<f64> {
    let values = Mfcc::new().compute(sound);
    let rows: Vec<&[f32]> = values.chunks_exact(COEFFICIENTS).collect();
    let loudest = rows.iter().fold(f32::NEG_INFINITY, |most, row| most.max(row[0]));
    let audible: Vec<_> = rows.into_iter().filter(|row| row[0] > loudest - 45.0).collect();
    (1..COEFFICIENTS).map(|k| audible.iter().map(|row| f64::from(row[k])).sum::<f64>() / audible.len() as f64).collect()
}

/// Returns the pitch of the middle half, in Hz: the lag from 60 to 400 Hz with the largest autocorrelation.
fn pitch(sound: &[f32]) -> f64 {
    let middle = &wide(sound)[sound.len() / 4..sound.len() * 3 / 4];
    let alike = |lag: usize| middle.iter().zip(&middle[lag..]).map(|(one, later)| one * later).sum::<f64>();
    let best = (40..=266).max_by(|one, other| alike(*one).total_cmp(&alike(*other))).unwrap();
    16_000.0 / best as f64
}

/// Returns the root mean square difference.
fn distance(one: &[f64], other: &[f64]) -> f64 {
    (one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / one.len() as f64).sqrt()
}

#[test]
fn converted_speakers_share_pitch_and_mean_spectrum() {
    let voice = VocoderVoice::new(13).unwrap();
    let low = speaker(100.0, 1.0);
    let high = speaker(200.0, 1.18);
    let one = voice.convert(&low).unwrap();
    let other = voice.convert(&high).unwrap();
    assert!((pitch(&low) - 100.0).abs() < 2.0 && (pitch(&high) - 200.0).abs() < 3.0);
    for sound in [&one, &other] {
        assert!((pitch(sound) - excitation::PITCH).abs() < 2.0, "{} Hz", pitch(sound));
    }
    let before = distance(&spectrum(&low), &spectrum(&high));
    let after = distance(&spectrum(&one), &spectrum(&other));
    assert!(before > 8.0 && after < 0.25 * before, "{after} of {before}");
}

#[test]
fn converted_sounds_share_loudness_and_keep_length() {
    let voice = VocoderVoice::new(13).unwrap();
    let sound = speaker(120.0, 1.0);
    let quiet: Vec<f32> = sound.iter().map(|sample| sample * 0.03).collect();
    let power = |sound: &[f32]| sound.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>();
    let (one, other) = (power(&voice.convert(&sound).unwrap()), power(&voice.convert(&quiet).unwrap()));
    assert!((one / other - 1.0).abs() < 0.1, "{one} {other}");
    for length in [0, 1, 79, 80, 81, 400, 1_000, 16_001] {
        assert_eq!(voice.convert(&sound[..length]).unwrap().len(), length);
    }
}

#[test]
fn silence_stays_silent_and_output_is_finite() {
    let voice = VocoderVoice::new(20).unwrap();
    assert!(voice.convert(&[0.0; 4_000]).unwrap().iter().all(|sample| *sample == 0.0));
    assert!(voice.convert(&[f32::MIN_POSITIVE; 4_000]).unwrap().iter().all(|sample| *sample == 0.0));
    let clipped: Vec<f32> = (0..4_000).map(|n| if n / 40 % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let tone: Vec<f32> = (0..4_000).map(|n| (n as f32 * 0.2).sin()).collect();
    let broken = [f32::NAN, f32::INFINITY, 0.5, -0.5].repeat(1_000);
    let huge = vec![f32::MAX; 4_000];
    for input in [vec![0.7; 4_000], clipped, tone, broken, huge, vec![1.0]] {
        let output = voice.convert(&input).unwrap();
        assert_eq!(output.len(), input.len());
        assert!(output.iter().all(|sample| sample.is_finite() && sample.abs() <= 1.0), "{:?}", input.first());
    }
}

#[test]
fn speech_keeps_its_position() {
    // Half a second of silence, then a speaker.
    let mut sound = vec![0.0; 8_000];
    sound.extend(speaker(120.0, 1.0));
    let converted = VocoderVoice::new(13).unwrap().convert(&sound).unwrap();
    let power = |part: &[f32]| part.iter().map(|sample| sample * sample).sum::<f32>() / part.len() as f32;
    assert!(power(&converted[..7_000]) == 0.0 && power(&converted[9_000..39_000]) > 1e-4);
}

#[test]
fn conversion_is_deterministic_to_the_bit() {
    let sound = speaker(120.0, 1.0);
    let (one, other) = (VocoderVoice::new(13).unwrap(), VocoderVoice::new(13).unwrap());
    one.convert(&sound[..1_000]).unwrap();
    let bits = |sound: Vec<f32>| sound.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(one.convert(&sound).unwrap()), bits(other.convert(&sound).unwrap()));
    assert_ne!(VocoderVoice::new(8).unwrap().convert(&sound).unwrap(), one.convert(&sound).unwrap());
}

#[test]
fn varied_voice_differs_by_piece_and_repeats_to_the_bit() {
    let plain = VocoderVoice::new(13).unwrap();
    let sound = speaker(120.0, 1.0);
    // The same speech at half the level is another piece.
    let other: Vec<f32> = sound.iter().map(|sample| sample * 0.5).collect();
    let varied = plain.varied().convert(&sound).unwrap();
    assert_eq!(varied, plain.varied().convert(&sound).unwrap());
    assert!(varied.len() == sound.len() && varied.iter().all(|sample| sample.is_finite() && sample.abs() <= 1.0));
    let spectrum_of = |voice: VocoderVoice, sound: &[f32]| spectrum(&voice.convert(sound).unwrap());
    let one_voice = distance(&spectrum_of(plain, &sound), &spectrum_of(plain, &other));
    let two_voices = distance(&spectrum_of(plain.varied(), &sound), &spectrum_of(plain.varied(), &other));
    assert!(two_voices > 5.0 * one_voice && two_voices > 1.0, "{two_voices} and {one_voice}");
}

#[test]
fn detail_out_of_range_is_refused() {
    for detail in [0, 7, 21, u32::MAX] {
        assert!(matches!(VocoderVoice::new(detail), Err(VoiceError::Detail(_))), "{detail}");
    }
}
