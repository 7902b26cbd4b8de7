//! The speech of dummies: an engine says them, and what it says is made to sound as long, as loud and as coloured as the true
//! pieces.
//!
//! | engine | what it is | what it needs |
//! |---|---|---|
//! | [`Engine::espeak`] | espeak-ng | Debian's `espeak-ng` |
//! | [`Engine::flite`] | flite | Debian's `flite` |
//! | [`Engine::command`] | any program that writes WAV | a command |
//! | the same with `{reference}` | a program that speaks in a voice that it hears | a command, and a [`reference`](mod@reference) |
//! | [`Engine::http`] | `POST /v1/audio/speech`, as OpenAI has it | a server of the site's own |
//!
//! An engine knows a dummy for what it is, and with what a provider receives that is the truth. So it must be the site's own:
//! [`Engine::http`] takes an address on this machine or in a private network, and none of a provider's.
//!
//! What an engine makes differs from people in more than [`likeness`] mends; how much of that the one voice takes away is
//! measured by a classifier, not promised. To add an engine: a constructor here, a row.

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
use http::Http;
use program::Program;

/// Words a minute that are usual, and that rates are relative to.
pub const USUAL_RATE: f64 = 175.0;
/// The rates that are asked for, words a minute.
pub const RATES: std::ops::RangeInclusive<f64> = 80.0..=400.0;
/// Largest sound that an engine may answer, bytes.
pub(crate) const MOST_BYTES: usize = 64 << 20;
/// What stands in a command's arguments for the path of a voice to imitate.
pub const REFERENCE: &str = "{reference}";
/// Most dummies that are spoken at the same time.
pub const MOST_AT_ONCE: usize = 64;

/// Something that speaks. Blocks for as long as it takes: not for the runtime's threads.
pub trait Speaker: Send + Sync {
    /// What it is and what it is set to, for the report.
    fn name(&self) -> String;

    /// Somebody says `text`, at so many words a minute as nearly as it can: mono at 16 kHz, full scale = 1, all finite.
    ///
    /// # Errors
    /// [`SpeakError`] when nothing, or no sound, was said.
    fn speak(&self, text: &str, rate: f64) -> Result<Vec<f32>, SpeakError>;
}

/// Why nothing was said.
#[derive(Debug, thiserror::Error)]
pub enum SpeakError {
    /// A setting out of range.
    #[error("{field}: {reason}")]
    Setting {
        /// The setting.
        field: &'static str,
        /// What it must be.
        reason: &'static str,
    },
    /// Not an address.
    #[error("url: {0}")]
    Address(#[from] AddressError),
    /// A program that is not there, or cannot be started.
    #[error("{program} does not run: install it, or check the command")]
    Program {
        /// The program.
        program: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It took too long.
    #[error("the speech engine said nothing whole within {0} s, and was stopped")]
    Late(u64),
    /// A server that does not answer.
    #[error("the speech engine cannot be asked")]
    Web(#[from] WebError),
    /// A server that refuses.
    #[error("the speech engine answered {0}")]
    Refused(u16),
    /// What was said is no sound.
    #[error("what the speech engine said is of no use")]
    Sound(#[from] WavError),
    /// Silence.
    #[error("the speech engine said nothing; check that its voice knows the language")]
    Silent,
}

/// An engine.
pub struct Engine(Kind);

enum Kind {
    Program(Program),
    Http(Http),
}

impl Engine {
    /// espeak-ng with one of its voices, such as `en-us`; `limit` for a text.
    ///
    /// # Errors
    /// [`SpeakError::Setting`] for a voice that is no name.
    pub fn espeak(voice: &str, limit: Duration) -> Result<Self, SpeakError> {
        let voice = named(voice)?;
        Self::command(&["espeak-ng", "-z", "-b", "1", "-v", voice, "-s", "{rate}", "--stdin", "--stdout"], limit)
    }

    /// flite with one of its voices, such as `slt`; `limit` for a text. It reads no text from its input: others on this machine
    /// may see what it says among its arguments.
    ///
    /// # Errors
    /// [`SpeakError::Setting`] for a voice that is no name.
    pub fn flite(voice: &str, limit: Duration) -> Result<Self, SpeakError> {
        let stretch = "duration_stretch={stretch}";
        let voice = named(voice)?;
        Self::command(&["flite", "--setf", stretch, "-voice", voice, "-t", "{text}", "-o", "/dev/stdout"], limit)
    }

    /// A program with its arguments, once for each text; no shell reads them. In arguments, `{text}` stands for the text,
    /// `{rate}` for whole words a minute and `{stretch}` for 175 by the rate. Without `{text}` it is on the program's input. On
    /// its output it writes a WAV file, within `limit`. `{reference}` stands for the path of a WAV file, mono at 16 kHz, of 6 to 30 s:
    /// whose voice it is to speak in, see [`Engine::imitating`].
    ///
    /// # Errors
    /// [`SpeakError::Setting`] when no program is named or the limit is out of range.
    pub fn command(command: &[&str], limit: Duration) -> Result<Self, SpeakError> {
        Program::new(command, limited(limit)?).map(Kind::Program).map(Self)
    }

    /// Whether it speaks in the voice of a reference, and only so: a command with `{reference}` does. Servers are not given one, as
    /// there is no common way to ask.
    pub fn clones(&self) -> bool {
        matches!(&self.0, Kind::Program(program) if program.clones())
    }

    /// It, speaking in the voice of the WAV file at `reference`; an engine that does not clone speaks as it always does.
    pub const fn imitating<'a>(&'a self, reference: &'a Path) -> Imitation<'a> {
        Imitation { engine: self, reference }
    }

    fn said(&self, text: &str, rate: f64, reference: Option<&Path>) -> Result<Vec<f32>, SpeakError> {
        if !RATES.contains(&rate) {
            return Err(SpeakError::Setting { field: "rate", reason: "80 to 400 words a minute" });
        }
        let samples = match &self.0 {
            Kind::Program(program) => program.speak(text, rate, reference),
            Kind::Http(http) => http.speak(text, rate),
        }?;
        if samples.iter().all(|sample| *sample == 0.0) { Err(SpeakError::Silent) } else { Ok(samples) }
    }

    /// The server at `url`, asked as OpenAI's: `POST {url}/v1/audio/speech`. `providers` are those that will hear the dummies.
    ///
    /// # Errors
    /// [`SpeakError`] when the address is none, not of the site's own network, or a provider's.
    pub fn http(
        url: &str,
        model: &str,
        voice: &str,
        key: Option<Zeroizing<String>>,
        providers: &[Url],
        limit: Duration,
    ) -> Result<Self, SpeakError> {
        Http::new(url, model, voice, key, providers, limited(limit)?).map(Kind::Http).map(Self)
    }
}

impl Speaker for Engine {
    fn name(&self) -> String {
        match &self.0 {
            Kind::Program(program) => program.name(),
            Kind::Http(http) => http.name(),
        }
    }

    fn speak(&self, text: &str, rate: f64) -> Result<Vec<f32>, SpeakError> {
        self.said(text, rate, None)
    }
}

/// An engine in the voice of a reference.
#[derive(Clone, Copy)]
pub struct Imitation<'a> {
    engine: &'a Engine,
    reference: &'a Path,
}

impl Speaker for Imitation<'_> {
    fn name(&self) -> String {
        self.engine.name()
    }

    fn speak(&self, text: &str, rate: f64) -> Result<Vec<f32>, SpeakError> {
        self.engine.said(text, rate, Some(self.reference))
    }
}

/// Says texts, each at its rate, `at_once` of them at a time, and hands each with its place to `heard`, in no order. The first
/// failure, of the engine or of `heard`, ends it; at most `at_once` sounds are in memory.
///
/// # Errors
/// What failed first; [`SpeakError::Setting`] unless `at_once` is 1 to 64.
pub fn all<E: From<SpeakError> + Send>(
    speaker: &dyn Speaker,
    texts: &[(String, f64)],
    at_once: usize,
    heard: &(dyn Fn(usize, Vec<f32>) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let say = |place: usize| {
        let (text, rate) = &texts[place];
        speaker.speak(text, *rate)
    };
    each(texts.len(), at_once, &say, heard)
}

/// As [`all`], for `count` places of which `say` says each in its own way.
///
/// # Errors
/// As [`all`].
pub fn each<E: From<SpeakError> + Send>(
    count: usize,
    at_once: usize,
    say: &(dyn Fn(usize) -> Result<Vec<f32>, SpeakError> + Sync),
    heard: &(dyn Fn(usize, Vec<f32>) -> Result<(), E> + Sync),
) -> Result<(), E> {
    if !(1..=MOST_AT_ONCE).contains(&at_once) {
        return Err(SpeakError::Setting { field: "at_once", reason: "1 to 64" }.into());
    }
    let next = Mutex::new(Ok(0..count));
    let locked = || next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let work = || {
        loop {
            let Some(place) = locked().as_mut().ok().and_then(Iterator::next) else { return };
            if let Err(error) = say(place).map_err(E::from).and_then(|said| heard(place, said)) {
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

/// The name of a voice, which is an argument and must not be read as another one.
fn named(voice: &str) -> Result<&str, SpeakError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_+.".contains(&byte);
    let name = !voice.is_empty() && voice.len() <= 64 && !voice.starts_with('-') && voice.bytes().all(plain);
    let refused = SpeakError::Setting { field: "voice", reason: "a name of letters, digits, `-`, `_`, `+` and `.`" };
    if name { Ok(voice) } else { Err(refused) }
}

fn limited(limit: Duration) -> Result<Duration, SpeakError> {
    let fits = (Duration::from_millis(10)..=Duration::from_mins(10)).contains(&limit);
    if fits { Ok(limit) } else { Err(SpeakError::Setting { field: "seconds", reason: "at most 600 for one text" }) }
}

#[cfg(test)]
mod tests;
