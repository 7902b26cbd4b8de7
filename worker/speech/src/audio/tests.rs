#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::f64::consts::TAU;
use std::fs;

use super::*;

/// Returns a tone of `hertz` at half scale.
fn tone(hertz: f64, rate: u32, seconds: f64) -> Vec<f32> {
    let len = (f64::from(rate) * seconds) as usize;
    (0..len).map(|i| (0.5 * (TAU * hertz * i as f64 / f64::from(rate)).sin()) as f32).collect()
}

fn write(path: &Path, rate: u32, channels: &[&[f32]]) {
    let spec = hound::WavSpec {
        channels: channels.len() as u16,
        sample_rate: rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(path, spec).unwrap();
    for i in 0..channels[0].len() {
        for channel in channels {
            writer.write_sample((channel[i] * 32_767.0).round() as i16).unwrap();
        }
    }
    writer.finalize().unwrap();
}

/// Returns the maximum difference from the expected tone, without the edges (filter ringing).
fn error(samples: &[f32], expected: &[f32]) -> f32 {
    let inner = 800..expected.len() - 800;
    samples[inner.clone()].iter().zip(&expected[inner]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn every_rate_becomes_sixteen_kilohertz() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tone.wav");
    for rate in [8_000, 11_025, 16_000, 22_050, 44_100, 48_000] {
        write(&path, rate, &[&tone(440.0, rate, 1.0)]);
        let audio = read(&path, LONGEST).unwrap();
        assert_eq!((audio.source_rate, audio.channels, audio.samples.len()), (rate, 1, 16_000), "{rate} Hz");
        let error = error(&audio.samples, &tone(440.0, RATE, 1.0));
        assert!(error < 2e-4, "{rate} Hz is off by {error}");
    }
}

#[test]
fn sixteen_kilohertz_is_kept_to_the_sample() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tone.wav");
    let samples = [0.0, 1.0, -1.0, 0.25];
    write(&path, RATE, &[&samples]);
    let expected = samples.map(|sample: f32| (sample * 32_767.0).round() / 32_768.0);
    assert_eq!(read(&path, LONGEST).unwrap().samples, expected);
}

#[test]
fn frequencies_above_8_khz_are_filtered_not_aliased() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tone.wav");
    write(&path, 44_100, &[&tone(12_000.0, 44_100, 1.0)]);
    let samples = read(&path, LONGEST).unwrap().samples;
    let residue = error(&samples, &vec![0.0; samples.len()]);
    assert!(residue < 1e-4, "a 12 kHz tone came back as another of {residue}");
}

#[test]
fn channels_are_averaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stereo.wav");
    write(&path, RATE, &[&[0.5; 100], &[-0.25; 100]]);
    let audio = read(&path, LONGEST).unwrap();
    assert_eq!((audio.channels, audio.samples.len()), (2, 100));
    assert!(audio.samples.iter().all(|sample| (sample - 0.125).abs() < 1e-4));
}

#[test]
fn a_cut_file_is_broken_wherever_it_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tone.wav");
    write(&path, RATE, &[&tone(440.0, RATE, 0.1)]);
    let whole = fs::read(&path).unwrap();
    for len in (1..whole.len()).step_by(97).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..len]).unwrap();
        let error = read(&path, LONGEST).unwrap_err();
        assert!(error.to_string().contains("tone.wav"), "{error}");
        assert!(matches!(error.problem, Problem::Broken(_) | Problem::Format(_)), "{error}");
    }
}

#[test]
fn missing_empty_and_foreign_files_have_distinct_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.wav");
    assert!(matches!(read(&path, LONGEST).unwrap_err().problem, Problem::Open(_)));
    fs::write(&path, []).unwrap();
    assert!(matches!(read(&path, LONGEST).unwrap_err().problem, Problem::Empty));
    fs::write(&path, "Dear diary, this is no sound at all. ".repeat(1_000)).unwrap();
    assert!(matches!(read(&path, LONGEST).unwrap_err().problem, Problem::Format(_)));
    write(&path, RATE, &[&[]]);
    assert!(matches!(read(&path, LONGEST).unwrap_err().problem, Problem::Empty));
    assert!(matches!(read(dir.path(), LONGEST).unwrap_err().problem, Problem::Format(_) | Problem::Open(_)));
}

#[test]
fn recording_above_the_limit_is_refused_with_both_lengths() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("long.wav");
    write(&path, 8_000, &[&vec![0.1; 24_000]]);
    let error = read(&path, 2.5).unwrap_err().to_string();
    assert!(error.contains("3.0 s") && error.contains("2.5 s"), "{error}");
    assert_eq!(read(&path, 3.0).unwrap().samples.len(), 48_000);
}

#[test]
fn an_unbelievable_rate_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow.wav");
    write(&path, 100, &[&[0.1; 100]]);
    assert!(matches!(read(&path, LONGEST).unwrap_err().problem, Problem::Rate(100)));
}

/// Returns the end of a FLAC file's metadata: blocks of a flag and type, three bytes of length, and content.
fn first_frame(flac: &[u8]) -> usize {
    let mut at = 4;
    loop {
        let header = &flac[at..at + 4];
        at += 4 + u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
        if header[0] & 0x80 != 0 {
            return at;
        }
    }
}

/// Needs the speech data (`UNDERTONE_DATA`); passes without it.
#[test]
fn a_flac_with_one_wrong_byte_is_broken() {
    let Some(data) = undertone_worker_site::testing::fixture::data("speech_tiny") else { return };
    let original = data.join("an4-train/fash/1/fash-1-0251.flac");
    assert_eq!(read(&original, LONGEST).unwrap().samples.len(), 16_000);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("copy.flac");
    let whole = fs::read(original).unwrap();
    let frames = first_frame(&whole);
    for at in (frames..whole.len()).step_by((whole.len() - frames) / 20) {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        fs::write(&path, changed).unwrap();
        assert!(matches!(read(&path, LONGEST).unwrap_err().problem, Problem::Broken(_)), "byte {at}");
    }
    for len in (0..whole.len()).step_by(whole.len() / 20) {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(read(&path, LONGEST).is_err(), "{len} bytes");
    }
}

/// Compares rubato's output for a whole recording with the output in blocks.
#[test]
fn stream_blocks_equal_the_whole_resampled_recording() {
    use rubato::audioadapter_buffers::direct::InterleavedSlice;
    use rubato::{Fft, FixedSync, Resampler as _};

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tone.wav");
    for (rate, chunk) in [(8_000, 1_024), (11_025, 1_764), (44_100, 1_764), (48_000, 1_026)] {
        let samples = tone(440.0, rate, 3.0);
        write(&path, rate, &[&samples]);
        let mono: Vec<f32> = samples.iter().map(|sample| (sample * 32_767.0).round() / 32_768.0).collect();
        let mut fft = Fft::<f32>::new(rate as usize, 16_000, chunk, 1, FixedSync::Both).unwrap();
        let whole = fft.process_all(&InterleavedSlice::new(&mono, 1, mono.len()).unwrap(), mono.len(), None).unwrap();
        let blocks: Vec<Vec<f32>> = Stream::open(&path, LONGEST).unwrap().map(Result::unwrap).collect();
        assert!(blocks.len() > 5 && blocks.iter().all(|block| (1..=16_000).contains(&block.len())), "{rate} Hz");
        assert!(blocks.concat() == whole.take_data(), "{rate} Hz: blocks are not what the whole is");
    }
}

#[test]
fn a_stream_that_ends_in_an_error_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tone.wav");
    write(&path, RATE, &[&tone(440.0, RATE, 1.0)]);
    let blocks: Vec<_> = Stream::open(&path, 0.5).into_iter().flatten().collect();
    assert!(blocks.is_empty(), "its header says that it is too long");
    let mut stream = Stream::open(&path, 1.0).unwrap();
    assert_eq!(stream.by_ref().map(|block| block.unwrap().len()).sum::<usize>(), 16_000);
    assert!(stream.next().is_none());
    assert_eq!((stream.source_rate(), stream.channels()), (RATE, 1));
}

#[test]
fn sample_far_beyond_full_scale_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("loud.wav");
    let spec = |sample_rate| hound::WavSpec {
        channels: 1,
        sample_rate,
        bits_per_sample: 32,
        sample_format: hound::SampleFormat::Float,
    };
    for (rate, sample, read_well) in [(8_000, 2.0e9_f32, true), (8_000, 1e38, false), (RATE, -1e30, false)] {
        let mut writer = hound::WavWriter::create(&path, spec(rate)).unwrap();
        (0..600).for_each(|at| writer.write_sample(if at % 7 == 0 { sample } else { 0.0 }).unwrap());
        writer.finalize().unwrap();
        match read(&path, LONGEST) {
            Ok(audio) => assert!(read_well && audio.samples.iter().all(|sample| sample.is_finite()), "{sample}"),
            Err(error) => assert!(!read_well && error.to_string().contains("beyond full scale"), "{error}"),
        }
    }
}
