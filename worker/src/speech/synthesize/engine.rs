//! The two synthesizers, as programs of their own: a crash of theirs is an error of ours.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::phones::{self, Segment};
use super::voice::{Speaker, Voice};
use super::{SynthesizeError, warp};
use crate::speech::audio::{self, LONGEST};

/// Where the programs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engines {
    /// flite 2.
    pub flite: PathBuf,
    /// espeak-ng 1.
    pub espeak: PathBuf,
}

impl Default for Engines {
    /// As installed.
    fn default() -> Self {
        Self { flite: "flite".into(), espeak: "espeak-ng".into() }
    }
}

/// The reading that others are aligned to: diphones, so every phone is there and clear.
pub(super) const REFERENCE: Voice = Voice::Flite { voice: "kal16", stretch: 1.0, pitch: 110.0 };

/// Silence on either side of a word spoken alone, samples: 60 ms.
const PAUSE: usize = 960;

impl Engines {
    /// Program and version of every engine that these speakers need. flite is always needed, as the reference.
    pub(super) fn versions(&self, speakers: &[Speaker]) -> Result<Vec<String>, SynthesizeError> {
        let espeak = speakers.iter().any(|speaker| matches!(speaker.voice, Voice::Espeak { .. }));
        let asked = [(&self.flite, "flite", true), (&self.espeak, "espeak-ng", espeak)];
        let used = asked.into_iter().filter(|(.., used)| *used);
        let version = |(program, package, _): (&PathBuf, &'static str, bool)| {
            let said = run(program, package, ["--version"])?;
            // flite says it on a line of its own; espeak-ng goes on to tell where its data are.
            let line = said.lines().find(|line| line.contains("version:") || line.contains("text-to-speech:"));
            let said = line.unwrap_or("version unknown").split("Data at").next().unwrap_or_default();
            Ok(format!("{package}: {}", said.trim()))
        };
        used.map(version).collect()
    }

    /// Speaks `text`: samples at 16 kHz and the phones in them. `scratch` is a WAV file to overwrite.
    pub(super) fn speak(
        &self,
        voice: &Voice,
        text: &str,
        scratch: &Path,
    ) -> Result<(Vec<f32>, Vec<Segment>), SynthesizeError> {
        match voice {
            Voice::Flite { voice, stretch, pitch } => {
                let (stretch, pitch) = (format!("duration_stretch={stretch}"), format!("int_f0_target_mean={pitch}"));
                let settings = ["--setf", &stretch, "--setf", &pitch, "-voice", voice, "-psdur", "-t", text, "-o"];
                let args = settings.map(OsStr::new).into_iter().chain([scratch.as_os_str()]);
                let said = run(&self.flite, "flite", args)?;
                let samples = audio::read(scratch, LONGEST)?.samples;
                let segments = phones::parse(&said)
                    .map_err(|reason| SynthesizeError::Engine { program: self.flite.display().to_string(), reason })?;
                Ok((samples, segments))
            }
            Voice::Espeak { .. } => {
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

    /// Speaks one word with an engine that tells no times: a pause, the word, a pause. Word by word, an error of the
    /// alignment cannot reach further than the word.
    fn word(&self, voice: &Voice, word: &str, scratch: &Path) -> Result<(Vec<f32>, Vec<Segment>), SynthesizeError> {
        let Voice::Espeak { variant, rate, pitch } = voice else { return self.speak(voice, word, scratch) };
        let (reference, segments) = self.speak(&REFERENCE, word, scratch)?;
        let (voice, rate, pitch) = (format!("en-us+{variant}"), rate.to_string(), pitch.to_string());
        let settings = ["-z", "-v", &voice, "-s", &rate, "-p", &pitch, "-w"].map(OsStr::new);
        run(&self.espeak, "espeak-ng", settings.into_iter().chain([scratch.as_os_str(), OsStr::new(word)]))?;
        let mut samples = vec![0.0; PAUSE];
        samples.extend(audio::read(scratch, LONGEST)?.samples);
        samples.resize(samples.len() + PAUSE, 0.0);
        let segments = warp::carry(&reference, &segments, &samples);
        Ok((samples, segments))
    }
}

/// Runs a program to its end and returns what it printed.
fn run<A: AsRef<OsStr>>(
    program: &Path,
    package: &'static str,
    args: impl IntoIterator<Item = A>,
) -> Result<String, SynthesizeError> {
    let name = program.display().to_string();
    let output = Command::new(program).args(args).output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => SynthesizeError::Missing { program: name.clone(), package },
        _ => SynthesizeError::Engine { program: name.clone(), reason: error.to_string() },
    })?;
    // flite reports no version without an exit status of 1.
    let version = output.status.code() == Some(1) && output.stderr.is_empty() && !output.stdout.is_empty();
    if output.status.success() || version {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = format!("{} {}", output.status, said.lines().next().unwrap_or_default());
    Err(SynthesizeError::Engine { program: name, reason: reason.trim().to_owned() })
}
