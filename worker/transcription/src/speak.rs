//! The speech of dummies: a speech engine speaks their texts, and the result gets the length, the loudness and the mean
//! spectrum that every sound gets.
//!
//! | engine | description | requirement |
//! |---|---|---|
//! | [`SpeechEngine::espeak`] | espeak-ng | Debian's `espeak-ng` |
//! | [`SpeechEngine::flite`] | flite | Debian's `flite` |
//! | [`SpeechEngine::command`] | any program that writes WAV | a command |
//! | the same with `{reference}` | a program that speaks in the voice of a sample | a command, and a [`reference`](mod@reference) |
//! | [`SpeechEngine::http`] | `POST /v1/audio/speech`, as in OpenAI's API | a server of the site's own |
//!
//! An engine knows which texts are dummies; together with a provider's batch, that reveals the true counts. So it must be the
//! site's own: [`SpeechEngine::http`] accepts an address on this machine or in a private network, and no provider's address.
//!
//! Synthetic speech differs from human speech in more than [`likeness`] corrects. The one voice removes part of the
//! difference; a classifier measures how much, and nothing promises it. To add an engine: add a constructor here and a row.

mod http;
pub mod likeness;
mod program;
pub mod reference;

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use url::Url;
use zeroize::Zeroizing;

use super::wav::WavError;
use super::web::{AddressError, WebError};
use http::HttpEngine;
use program::ProgramEngine;

/// Usual speaking rate, in words a minute; other rates are relative to it.
pub const USUAL_RATE: f64 = 175.0;
/// Permitted speaking rates, in words a minute.
pub const RATES: std::ops::RangeInclusive<f64> = 80.0..=400.0;
/// Largest accepted sound of an engine, in bytes.
pub const MOST_BYTES: usize = 64 << 20;
/// Placeholder in a command's arguments for the path of a voice to imitate.
pub const REFERENCE: &str = "{reference}";
/// Largest number of texts that are spoken at a time.
pub const MOST_AT_ONCE: usize = 64;

/// Synthesizes speech. Calls block, so they must not run on the runtime's threads.
pub trait SpeechSynthesizer: Send + Sync {
    /// Returns the name with its settings, for the report.
    fn name(&self) -> String;

    /// Speaks `text` at about `rate` words a minute: mono at 16 kHz, full scale = 1, all samples finite.
    ///
    /// # Errors
    /// [`SpeakError`] when there is no sound, or silence only.
    fn speak(&self, text: &str, rate: f64) -> Result<Vec<f32>, SpeakError>;
}

/// Reasons that there is no speech.
#[derive(Debug, thiserror::Error)]
pub enum SpeakError {
    /// A setting is out of range.
    #[error("{field}: {reason}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// The permitted values.
        reason: &'static str,
    },
    /// The address is invalid.
    #[error("url: {0}")]
    Address(#[from] AddressError),
    /// The program is missing, or cannot be started.
    #[error("{program} does not run: install it, or check the command")]
    Program {
        /// The program.
        program: String,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The engine exceeded its time limit.
    #[error("the speech engine did not finish within {0} s and was stopped")]
    Late(u64),
    /// The server does not answer.
    #[error("cannot reach the speech engine: check its url")]
    Web(#[from] WebError),
    /// The server refuses the request.
    #[error("the speech engine answered with status {0}")]
    Refused(u16),
    /// The answer is no sound.
    #[error("cannot read the speech engine's answer: it must be a WAV file")]
    Sound(#[from] WavError),
    /// The answer is silent.
    #[error("the speech engine returned silence: check that its voice supports the language")]
    Silent,
}

/// A speech engine.
pub struct SpeechEngine(EngineKind);

enum EngineKind {
    Program(ProgramEngine),
    Http(HttpEngine),
}

impl SpeechEngine {
    /// Returns espeak-ng with one of its voices, such as `en-us`; `limit` applies to each text.
    ///
    /// # Errors
    /// [`SpeakError::Setting`] for an invalid voice name.
    pub fn espeak(voice: &str, limit: Duration) -> Result<Self, SpeakError> {
        let voice = check_voice(voice)?;
        Self::command(&["espeak-ng", "-z", "-b", "1", "-v", voice, "-s", "{rate}", "--stdin", "--stdout"], limit)
    }

    /// Returns flite with one of its voices, such as `slt`; `limit` applies to each text. flite reads no text from its input, so
    /// other users of this machine may see the text among its arguments.
    ///
    /// # Errors
    /// [`SpeakError::Setting`] for an invalid voice name.
    pub fn flite(voice: &str, limit: Duration) -> Result<Self, SpeakError> {
        let stretch = "duration_stretch={stretch}";
        let voice = check_voice(voice)?;
        Self::command(&["flite", "--setf", stretch, "-voice", voice, "-t", "{text}", "-o", "/dev/stdout"], limit)
    }

    /// Returns a program with its arguments, which runs once for each text, without a shell. In arguments, `{text}` stands for
    /// the text, `{rate}` for whole words a minute and `{stretch}` for 175 divided by the rate. Without `{text}`, the program
    /// reads the text from its input. It writes a WAV file to its output, within `limit`. `{reference}` stands for the path of a
    /// WAV file, mono at 16 kHz, of 6 to 30 s, with the voice to imitate, see [`SpeechEngine::imitating`].
    ///
    /// # Errors
    /// [`SpeakError::Setting`] when no program is named or the limit is out of range.
    pub fn command(command: &[&str], limit: Duration) -> Result<Self, SpeakError> {
        ProgramEngine::new(command, check_limit(limit)?).map(EngineKind::Program).map(Self)
    }

    /// Returns whether the engine speaks in the voice of a reference, and in no other: a command with `{reference}` does. Servers
    /// receive no reference, because there is no common protocol for it.
    pub fn clones(&self) -> bool {
        matches!(&self.0, EngineKind::Program(program) if program.clones())
    }

    /// Returns the engine in the voice of the WAV file at `reference`; an engine that does not clone keeps its own voice.
    pub const fn imitating<'a>(&'a self, reference: &'a Path) -> VoiceImitation<'a> {
        VoiceImitation { engine: self, reference }
    }

    fn synthesize(&self, text: &str, rate: f64, reference: Option<&Path>) -> Result<Vec<f32>, SpeakError> {
        if !RATES.contains(&rate) {
            return Err(SpeakError::Setting { field: "rate", reason: "80 to 400 words a minute" });
        }
        let samples = match &self.0 {
            EngineKind::Program(program) => program.speak(text, rate, reference),
            EngineKind::Http(http) => http.speak(text, rate),
        }?;
        if samples.iter().all(|sample| *sample == 0.0) { Err(SpeakError::Silent) } else { Ok(samples) }
    }

    /// Returns the server at `url` with OpenAI's protocol: `POST {url}/v1/audio/speech`. `providers` are the addresses that will
    /// receive the dummies.
    ///
    /// # Errors
    /// [`SpeakError`] when the address is invalid, outside the site's own network, or a provider's.
    pub fn http(
        url: &str,
        model: &str,
        voice: &str,
        key: Option<Zeroizing<String>>,
        providers: &[Url],
        limit: Duration,
    ) -> Result<Self, SpeakError> {
        HttpEngine::new(url, model, voice, key, providers, check_limit(limit)?).map(EngineKind::Http).map(Self)
    }
}

impl SpeechSynthesizer for SpeechEngine {
    fn name(&self) -> String {
        match &self.0 {
            EngineKind::Program(program) => program.name(),
            EngineKind::Http(http) => http.name(),
        }
    }

    fn speak(&self, text: &str, rate: f64) -> Result<Vec<f32>, SpeakError> {
        self.synthesize(text, rate, None)
    }
}

/// A speech engine that imitates the voice of a reference.
#[derive(Clone, Copy)]
pub struct VoiceImitation<'a> {
    engine: &'a SpeechEngine,
    reference: &'a Path,
}

impl SpeechSynthesizer for VoiceImitation<'_> {
    fn name(&self) -> String {
        self.engine.name()
    }

    fn speak(&self, text: &str, rate: f64) -> Result<Vec<f32>, SpeakError> {
        self.engine.synthesize(text, rate, Some(self.reference))
    }
}

/// Speaks `texts`, each at its rate, `at_once` at a time, and passes each sound with its index to `receive`, in no fixed order.
/// The first failure, of the engine or of `receive`, ends the call. At most `at_once` sounds are in memory.
///
/// # Errors
/// The first failure; [`SpeakError::Setting`] unless `at_once` is 1 to 64.
pub fn all<E: From<SpeakError> + Send>(
    speaker: &dyn SpeechSynthesizer,
    texts: &[(String, f64)],
    at_once: usize,
    receive: &(dyn Fn(usize, Vec<f32>) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let say = |place: usize| {
        let (text, rate) = &texts[place];
        speaker.speak(text, *rate)
    };
    each(texts.len(), at_once, &say, receive)
}

/// Does the same as [`all`] for `count` places; `say` speaks each of them.
///
/// # Errors
/// As [`all`].
pub fn each<E: From<SpeakError> + Send>(
    count: usize,
    at_once: usize,
    say: &(dyn Fn(usize) -> Result<Vec<f32>, SpeakError> + Sync),
    receive: &(dyn Fn(usize, Vec<f32>) -> Result<(), E> + Sync),
) -> Result<(), E> {
    if !(1..=MOST_AT_ONCE).contains(&at_once) {
        return Err(SpeakError::Setting { field: "at_once", reason: "1 to 64" }.into());
    }
    let next = Mutex::new(Ok(0..count));
    let locked = || next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let work = || {
        loop {
            let Some(place) = locked().as_mut().ok().and_then(Iterator::next) else { return };
            if let Err(error) = say(place).map_err(E::from).and_then(|sound| receive(place, sound)) {
                let mut state = locked();
                if state.is_ok() {
                    *state = Err(error);
                }
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(count) {
            scope.spawn(work);
        }
    });
    next.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map(drop)
}

/// Checks the name of a voice: it becomes an argument and must not be read as an option.
fn check_voice(voice: &str) -> Result<&str, SpeakError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_+.".contains(&byte);
    let name = !voice.is_empty() && voice.len() <= 64 && !voice.starts_with('-') && voice.bytes().all(plain);
    let refused = SpeakError::Setting { field: "voice", reason: "a name of letters, digits, `-`, `_`, `+` and `.`" };
    if name { Ok(voice) } else { Err(refused) }
}

fn check_limit(limit: Duration) -> Result<Duration, SpeakError> {
    let fits = (Duration::from_millis(10)..=Duration::from_mins(10)).contains(&limit);
    if fits { Ok(limit) } else { Err(SpeakError::Setting { field: "seconds", reason: "at most 600 for one text" }) }
}

#[cfg(test)]
mod tests;
