//! Writes one speaker's recordings, labels and transcripts.

use std::path::Path;

use rand::RngExt;
use rand_chacha::ChaCha20Rng;

use super::voice::{SyntheticSpeaker, generator};
use super::{CorpusConfig, SynthesizeError, phones, text};
use crate::audio::error::AudioError;
use crate::audio::resample::{RATE, resample};
use crate::dataset::DatasetError;
use crate::mfcc;
use undertone_worker_site::progress::ProgressReporter;

/// Peak of the added noise, full scale = 1: real rooms are never digitally silent.
const NOISE: f32 = 5e-4;

/// The result for a speaker.
pub(super) struct SpeakerOutput {
    /// The speaker.
    pub(super) speaker: String,
    /// Lines of the file of alignments.
    pub(super) alignments: String,
    /// Length of the speech in seconds.
    pub(super) seconds: f64,
}

/// Speaks all utterances of a speaker into the corpus in `folder`.
pub(super) fn speaker(
    config: &CorpusConfig,
    speaker: &SyntheticSpeaker,
    folder: &Path,
    progress: &dyn ProgressReporter,
) -> Result<SpeakerOutput, SynthesizeError> {
    let mut rng = generator(config.seed, speaker.number);
    let id = &speaker.id;
    let chapter = folder.join(&speaker.subset).join(id).join("1");
    std::fs::create_dir_all(&chapter).map_err(DatasetError::io("create", &chapter))?;
    let scratch = folder.join(format!(".{id}.wav"));
    let mut output = SpeakerOutput { speaker: id.clone(), alignments: String::new(), seconds: 0.0 };
    let mut transcripts = Vec::new();
    for number in 0..config.utterances {
        let utterance = format!("{id}-1-{number:04}");
        let text = text::phrase(&mut rng);
        let (samples, segments) = config.engines.speak(&speaker.voice, &text, &scratch)?;
        let path = chapter.join(format!("{utterance}.wav"));
        let samples = colour(samples, speaker, &mut rng, &path)?;
        write(&path, &samples)?;
        let labels = phones::labels(&segments, mfcc::frames(samples.len()), speed(speaker.warp));
        output.alignments += &phones::line(&utterance, &labels);
        output.seconds += samples.len() as f64 / f64::from(RATE);
        transcripts.push(format!("{utterance} {}\n", text.to_uppercase()));
        progress.advance(1);
    }
    let path = chapter.join(format!("{id}-1.trans.txt"));
    std::fs::write(&path, transcripts.concat()).map_err(DatasetError::io("write", &path))?;
    std::fs::remove_file(&scratch).map_err(DatasetError::io("remove", &scratch))?;
    Ok(output)
}

/// Returns the assumed rate of the engine's audio, so that it plays `warp` times faster. A multiple of 40 Hz keeps the
/// resampler's blocks small.
fn warped_rate(warp: f64) -> u32 {
    (f64::from(RATE) * warp / 40.0).round() as u32 * 40
}

/// Returns the exact playback speed.
fn speed(warp: f64) -> f64 {
    f64::from(warped_rate(warp)) / f64::from(RATE)
}

/// Applies the speaker's vocal tract, loudness and room noise to the engine's audio.
fn colour(
    samples: Vec<f32>,
    speaker: &SyntheticSpeaker,
    rng: &mut ChaCha20Rng,
    path: &Path,
) -> Result<Vec<f32>, SynthesizeError> {
    let refused = |problem| AudioError { path: path.to_path_buf(), problem };
    let mut samples = resample(samples, warped_rate(speaker.warp)).map_err(refused)?;
    let peak = samples.iter().fold(f32::MIN_POSITIVE, |peak, sample| peak.max(sample.abs()));
    let gain = speaker.gain as f32 / peak;
    for sample in &mut samples {
        *sample = *sample * gain + rng.random_range(-NOISE..NOISE);
    }
    Ok(samples)
}

/// Writes 16-bit mono at [`RATE`].
fn write(path: &Path, samples: &[f32]) -> Result<(), SynthesizeError> {
    let spec =
        hound::WavSpec { channels: 1, sample_rate: RATE, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
    let save = || {
        let mut writer = hound::WavWriter::create(path, spec)?;
        for sample in samples {
            writer.write_sample((sample * 32_767.0).round() as i16)?;
        }
        writer.finalize()
    };
    save().map_err(|error| {
        let source = match error {
            hound::Error::IoError(source) => source,
            other => std::io::Error::other(other),
        };
        DatasetError::io("write", path)(source).into()
    })
}
