//! The two synthesizers as separate processes: a crash of an engine becomes an error here.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::phones::{self, TimedPhone};
use super::voice::{EngineVoice, SyntheticSpeaker};
use super::{SynthesizeError, warp};
use crate::audio::{self, LONGEST};
use crate::sandbox::Start;

/// The paths of the programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpeechEngines {
    /// flite 2.
    pub flite: PathBuf,
    /// espeak-ng 1.
    pub espeak: PathBuf,
}

impl Default for SpeechEngines {
    /// Returns the installed programs.
    fn default() -> Self {
        Self { flite: "flite".into(), espeak: "espeak-ng".into() }
    }
}

/// The reference for alignment: a diphone voice, so every phone is present and clear.
pub(super) const REFERENCE: EngineVoice = EngineVoice::Flite { voice: "kal16", stretch: 1.0, pitch: 110.0 };

/// Silence on either side of a single word, samples: 60 ms.
const PAUSE: usize = 960;

impl SpeechEngines {
    /// Returns program and version of every engine that these speakers need. flite is always needed, as the reference.
    pub(super) fn versions(&self, speakers: &[SyntheticSpeaker]) -> Result<Vec<String>, SynthesizeError> {
        let espeak = speakers.iter().any(|speaker| matches!(speaker.voice, EngineVoice::Espeak { .. }));
        let engines = [(&self.flite, "flite", true), (&self.espeak, "espeak-ng", espeak)];
        let used = engines.into_iter().filter(|(.., used)| *used);
        let version = |(program, package, _): (&PathBuf, &'static str, bool)| {
            let output = run(Start::new(program).args(["--version"]), program, package)?;
            // flite prints the version on a separate line; espeak-ng appends the path of its data.
            let line = output.lines().find(|line| line.contains("version:") || line.contains("text-to-speech:"));
            let version = line.unwrap_or("version unknown").split("Data at").next().unwrap_or_default();
            Ok(format!("{package}: {}", version.trim()))
        };
        used.map(version).collect()
    }

    /// Speaks `text` and returns samples at 16 kHz with their phones. `scratch` is a WAV file to overwrite.
    pub(super) fn speak(
        &self,
        voice: &EngineVoice,
        text: &str,
        scratch: &Path,
    ) -> Result<(Vec<f32>, Vec<TimedPhone>), SynthesizeError> {
        match voice {
            EngineVoice::Flite { voice, stretch, pitch } => {
                let (stretch, pitch) = (format!("duration_stretch={stretch}"), format!("int_f0_target_mean={pitch}"));
                make(scratch)?;
                let settings = ["--setf", &stretch, "--setf", &pitch, "-voice", voice, "-psdur", "-t", text, "-o"];
                let args = settings.map(OsStr::new).into_iter().chain([scratch.as_os_str()]);
                let output = run(Start::new(&self.flite).args(args).write(scratch), &self.flite, "flite")?;
                let samples = audio::read(scratch, LONGEST)?.samples;
                let segments = phones::parse(&output)
                    .map_err(|reason| SynthesizeError::Engine { program: self.flite.display().to_string(), reason })?;
                Ok((samples, segments))
            }
            EngineVoice::Espeak { .. } => {
                let (mut samples, mut segments) = (Vec::new(), Vec::new());
                for word in text.split_whitespace() {
                    let (sound, phones) = self.word(voice, word, scratch)?;
                    phones::append(&mut segments, samples.len(), &phones);
                    samples.extend(sound);
                }
                Ok((samples, segments))
            }
        }
    }

    /// Speaks one word with an engine that reports no times: a pause, the word, a pause. An error of the alignment
    /// stays within the word.
    fn word(
        &self,
        voice: &EngineVoice,
        word: &str,
        scratch: &Path,
    ) -> Result<(Vec<f32>, Vec<TimedPhone>), SynthesizeError> {
        let EngineVoice::Espeak { variant, rate, pitch } = voice else { return self.speak(voice, word, scratch) };
        let (reference, segments) = self.speak(&REFERENCE, word, scratch)?;
        let (voice, rate, pitch) = (format!("en-us+{variant}"), rate.to_string(), pitch.to_string());
        let settings = ["-z", "-v", &voice, "-s", &rate, "-p", &pitch, "-w"].map(OsStr::new);
        make(scratch)?;
        let args = settings.into_iter().chain([scratch.as_os_str(), OsStr::new(word)]);
        run(Start::new(&self.espeak).args(args).write(scratch), &self.espeak, "espeak-ng")?;
        let mut samples = vec![0.0; PAUSE];
        samples.extend(audio::read(scratch, LONGEST)?.samples);
        samples.resize(samples.len() + PAUSE, 0.0);
        let segments = warp::carry(&reference, &segments, &samples);
        Ok((samples, segments))
    }
}

/// Creates the file that a program writes, because the program may write only this file.
fn make(scratch: &Path) -> Result<(), SynthesizeError> {
    let failed = |error: std::io::Error| SynthesizeError::Engine {
        program: scratch.display().to_string(),
        reason: error.to_string(),
    };
    std::fs::File::create(scratch).map(drop).map_err(failed)
}

/// Runs a program to its end and returns its output.
fn run(start: Start<'_>, program: &Path, package: &'static str) -> Result<String, SynthesizeError> {
    let name = program.display().to_string();
    let output = start.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => SynthesizeError::Missing { program: name.clone(), package },
        _ => SynthesizeError::Engine { program: name.clone(), reason: error.to_string() },
    })?;
    // flite reports its version with an exit status of 1.
    let version = output.status.code() == Some(1) && output.stderr.is_empty() && !output.stdout.is_empty();
    if output.status.success() || version {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let reason = format!("{} {}", output.status, complaint.lines().next().unwrap_or_default());
    Err(SynthesizeError::Engine { program: name, reason: reason.trim().to_owned() })
}
