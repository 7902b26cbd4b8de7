#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde::Deserialize;

use super::*;
use crate::audio;
use undertone_worker_site::testing::fixture;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MfccVectors {
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "tolerance")]
    _tolerance: String,
    cases: Vec<MfccCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MfccCase {
    file: String,
    samples: usize,
    frames: usize,
    mfcc_first_20: Vec<[f32; COEFFICIENTS]>,
    mean: [f32; COEFFICIENTS],
    std: [f32; COEFFICIENTS],
}

/// Needs the vectors (`UNDERTONE_VECTORS`), and the recordings that they describe (`UNDERTONE_DATA`); skipped without recordings.
#[test]
fn features_are_kaldis() {
    let vectors: MfccVectors = serde_json::from_value(fixture::vectors("mfcc")).unwrap();
    let folders: Vec<_> = ["speech_tiny", "speech"].into_iter().filter_map(fixture::data).collect();
    if folders.is_empty() {
        return;
    }
    let mut mfcc = Mfcc::new();
    for case in vectors.cases {
        let path = folders.iter().map(|folder| folder.join(&case.file)).find(|path| path.exists()).unwrap();
        let samples = audio::read(&path, audio::LONGEST).unwrap().samples;
        assert_eq!((samples.len(), frames(samples.len())), (case.samples, case.frames), "{}", case.file);
        let features = mfcc.compute(&samples);
        assert_eq!(features.len(), case.frames * COEFFICIENTS);
        for (frame, expected) in features.chunks(COEFFICIENTS).zip(&case.mfcc_first_20) {
            for (value, expected) in frame.iter().zip(expected) {
                assert!((value - expected).abs() <= 0.02, "{}: {value} is not {expected}", case.file);
            }
        }
        for k in 0..COEFFICIENTS {
            let column = || features.iter().skip(k).step_by(COEFFICIENTS).map(|value| f64::from(*value));
            let mean = column().sum::<f64>() / case.frames as f64;
            let std = (column().map(|value| (value - mean).powi(2)).sum::<f64>() / case.frames as f64).sqrt();
            assert!((mean - f64::from(case.mean[k])).abs() <= 0.02, "{} mean {k}: {mean}", case.file);
            assert!((std - f64::from(case.std[k])).abs() <= 0.02, "{} deviation {k}: {std}", case.file);
        }
    }
}

#[test]
fn only_whole_frames_count() {
    assert_eq!([0, 399, 400, 559, 560, 16_000].map(frames), [0, 0, 1, 1, 2, 98]);
    let mut mfcc = Mfcc::new();
    for samples in [0, 399, 400, 559, 560, 1_000] {
        assert_eq!(mfcc.compute(&vec![0.1; samples]).len(), frames(samples) * COEFFICIENTS);
    }
}

#[test]
fn digital_silence_is_finite() {
    let features = Mfcc::new().compute(&[0.0; 800]);
    assert!(features.iter().all(|value| value.is_finite()));
}

#[test]
fn the_same_samples_give_the_same_bits_whatever_came_before() {
    let samples: Vec<f32> = (0..2_000).map(|i| ((i * i) as f32 * 0.001).sin()).collect();
    let mut used = Mfcc::new();
    used.compute(&vec![0.7; 5_000]);
    assert_eq!(used.compute(&samples), Mfcc::new().compute(&samples));
}
