//! What the site's configuration says of each provider, and the line that is made of it.
//!
//! ```toml
//! [[transcription.providers]]
//! name = "one"
//! protocol = "deepgram"
//! url = "https://api.deepgram.com"
//! key_file = "deepgram.key"            # relative to the site's folder, mode 0600; or key_variable
//! model = "nova-3"
//! price = { currency = "USD", per_minute = "0.0077" }
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Provider;
use super::cost::{Price, PriceError, Tariff};
use super::deepgram::Deepgram;
use super::google::Google;
use super::key::{Key, KeyError};
use super::line::{Bounds, Line};
use super::openai::OpenAi;
use crate::site::clock::Clock;
use crate::speech::transcribe::web::{Address, AddressError, WebError};

pub use undertone_api::job::transcription::Protocol;

/// Most providers of a site: as many as a job may name.
pub const MOST: usize = undertone_api::job::transcription::MOST_PROVIDERS;
/// Most requests at a time.
pub const MOST_AT_ONCE: u32 = 64;
/// Most requests a minute.
pub const MOST_A_MINUTE: u32 = 60_000;
/// Most attempts for one sound.
pub const MOST_ATTEMPTS: u32 = 20;
/// Longest that one answer may take, seconds.
pub const MOST_SECONDS: u32 = 600;

/// One provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What the site calls it: 1 to 40 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// How it is asked.
    pub protocol: Protocol,
    /// Where: https, or http on this machine.
    pub url: String,
    /// Which of its models; absent for a usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The language, a BCP 47 tag.
    #[serde(default = "american")]
    pub language: String,
    /// The file that holds the key, relative to the site's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The variable of the worker's environment that holds the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_variable: Option<String>,
    /// Requests at a time, 1 to 64.
    #[serde(default = "four")]
    pub concurrency: u32,
    /// Requests a minute, 1 to 60,000.
    #[serde(default = "hundred")]
    pub requests_per_minute: u32,
    /// How often a request is made before its piece counts as unanswered, 1 to 20.
    #[serde(default = "eight")]
    pub attempts: u32,
    /// Seconds that one answer may take, 1 to 600.
    #[serde(default = "minute")]
    pub seconds: u32,
    /// The longest sound that is sent, seconds; absent for the longest that the protocol takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_seconds: Option<u32>,
    /// What it asks; absent where it asks nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

fn american() -> String {
    "en-US".to_owned()
}

const fn four() -> u32 {
    4
}

const fn hundred() -> u32 {
    100
}

const fn eight() -> u32 {
    8
}

const fn minute() -> u32 {
    60
}

/// What of a provider's settings does not hold.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Too few or too many providers.
    #[error("transcription.providers: 1 to {MOST} providers, not {0}")]
    Count(usize),
    /// Two of one name.
    #[error("transcription.providers: two are called `{0}`; to be two that do not collude, they must be two")]
    Twice(String),
    /// Two at one place.
    #[error(
        "transcription.providers: `{first}` and `{second}` are asked at the same host and port: they are one party, which hears \
         the parts of both; name another, or leave one out"
    )]
    Place {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// One field.
    #[error("transcription.providers `{name}`: {problem}")]
    Field {
        /// The provider.
        name: String,
        /// What is wrong with which of its fields, and what would be right.
        problem: Problem,
    },
}

/// What is wrong with a field.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A name that is none.
    #[error("name: 1 to 40 letters, digits, `-`, `_` and `.`")]
    Name,
    /// Not an address.
    #[error("url: {0}")]
    Address(#[from] AddressError),
    /// Not a language or a model.
    #[error("{0}: 1 to 64 letters, digits, `-`, `_`, `.`, `:` and `/`")]
    Word(&'static str),
    /// A number out of range.
    #[error("{field}: 1 to {most}, not {found}")]
    Number {
        /// The field.
        field: &'static str,
        /// Its greatest value.
        most: u32,
        /// What it says.
        found: u32,
    },
    /// No price.
    #[error(transparent)]
    Price(#[from] PriceError),
    /// No key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No connections.
    #[error(transparent)]
    Web(#[from] WebError),
}

/// Checks all providers of a site, without their keys.
///
/// # Errors
/// [`SettingsError`] with the first thing that does not hold.
pub fn check(providers: &[Settings]) -> Result<(), SettingsError> {
    if !(1..=MOST).contains(&providers.len()) {
        return Err(SettingsError::Count(providers.len()));
    }
    for (place, provider) in providers.iter().enumerate() {
        provider.check()?;
        for before in &providers[..place] {
            if before.name == provider.name {
                return Err(SettingsError::Twice(provider.name.clone()));
            }
            // How much a partition hides is counted over parties.
            if before.place() == provider.place() {
                return Err(SettingsError::Place { first: before.name.clone(), second: provider.name.clone() });
            }
        }
    }
    Ok(())
}

impl Settings {
    /// Checks what the types cannot say; touches no file.
    ///
    /// # Errors
    /// [`SettingsError::Field`] that names the field and what would be right.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.parts().map(drop).map_err(|problem| self.error(problem))
    }

    /// What it asks, where it asks something.
    ///
    /// # Errors
    /// As [`Settings::check`].
    pub fn tariff(&self) -> Result<Option<Tariff>, SettingsError> {
        let tariff = self.price.as_ref().map(Price::tariff).transpose();
        tariff.map_err(|problem| self.error(problem.into()))
    }

    /// The line to the provider, with its key from the site's folder `site` or from `environment`.
    ///
    /// # Errors
    /// [`SettingsError::Field`] when a field does not hold, or the key is not there.
    pub fn line(
        &self,
        site: &Path,
        environment: impl Fn(&str) -> Option<OsString>,
        clock: Clock,
    ) -> Result<Line, SettingsError> {
        let made = || -> Result<Line, Problem> {
            let (address, bounds) = self.parts()?;
            let key = self.key(site, environment)?;
            let provider = self.provider(&address, key.as_ref())?;
            Ok(Line::new(&self.name, provider, &address, bounds, clock)?)
        };
        made().map_err(|problem| self.error(problem))
    }

    fn parts(&self) -> Result<(Address, Bounds), Problem> {
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !(1..=40).contains(&self.name.len()) || !self.name.chars().all(named) {
            return Err(Problem::Name);
        }
        let address = Address::parse(&self.url)?;
        word("language", &self.language)?;
        self.model.as_deref().map_or(Ok(()), |model| word("model", model))?;
        self.price.as_ref().map(Price::tariff).transpose()?;
        if self.key_file.is_some() && self.key_variable.is_some() {
            return Err(KeyError::Both.into());
        }
        let longest = self.protocol.longest();
        let bounds = Bounds {
            concurrency: number("concurrency", self.concurrency, MOST_AT_ONCE)?,
            requests_per_minute: number("requests_per_minute", self.requests_per_minute, MOST_A_MINUTE)?,
            attempts: number("attempts", self.attempts, MOST_ATTEMPTS)?,
            limit: Duration::from_secs(number("seconds", self.seconds, MOST_SECONDS)?.into()),
            longest: number("longest_seconds", self.longest_seconds.unwrap_or(longest), longest)?,
        };
        Ok((address, bounds))
    }

    /// Host and port; none for an address that is none.
    fn place(&self) -> Option<(String, Option<u16>)> {
        let url = Address::parse(&self.url).ok()?.url();
        Some((url.host_str()?.trim_end_matches('.').to_owned(), url.port_or_known_default()))
    }

    fn key(&self, site: &Path, environment: impl Fn(&str) -> Option<OsString>) -> Result<Option<Key>, KeyError> {
        match (&self.key_file, &self.key_variable) {
            (None, None) => Ok(None),
            (Some(file), None) => Key::from_file(&site.join(file)).map(Some),
            (None, Some(variable)) => Key::from_variable(variable, environment).map(Some),
            (Some(_), Some(_)) => Err(KeyError::Both),
        }
    }

    fn provider(&self, address: &Address, key: Option<&Key>) -> Result<Box<dyn Provider>, KeyError> {
        let model = self.model.as_deref();
        Ok(match self.protocol {
            Protocol::Openai => Box::new(OpenAi::new(address, key, model.unwrap_or("whisper-1"), &self.language)?),
            Protocol::Google => Box::new(Google::new(address, key, model, &self.language)?),
            Protocol::Deepgram => Box::new(Deepgram::new(address, key, model.unwrap_or("nova-3"), &self.language)?),
        })
    }

    fn error(&self, problem: Problem) -> SettingsError {
        SettingsError::Field { name: self.name.clone(), problem }
    }
}

fn word(field: &'static str, text: &str) -> Result<(), Problem> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
    if (1..=64).contains(&text.len()) && text.chars().all(plain) { Ok(()) } else { Err(Problem::Word(field)) }
}

fn number(field: &'static str, found: u32, most: u32) -> Result<u32, Problem> {
    if (1..=most).contains(&found) { Ok(found) } else { Err(Problem::Number { field, most, found }) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::ffi::OsString;
    use std::path::Path;

    use super::{MOST_A_MINUTE, MOST_AT_ONCE, MOST_ATTEMPTS, MOST_SECONDS};
    use super::{Protocol, Settings, SettingsError, check};
    use crate::site::clock::system;

    const LEAST: &str = "name = \"one\"\nprotocol = \"openai\"\nurl = \"http://127.0.0.1:9\"\n";

    fn read(text: &str) -> Result<Settings, String> {
        let settings: Settings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.check().map_err(|error| error.to_string())?;
        Ok(settings)
    }

    #[test]
    fn name_protocol_and_address_are_enough() {
        let settings = read(LEAST).unwrap();
        assert_eq!((settings.concurrency, settings.requests_per_minute, settings.attempts), (4, 100, 8));
        assert!(settings.line(Path::new("."), |_| None, system()).is_ok() && settings.tariff().unwrap().is_none());
    }

    #[test]
    fn each_mistake_names_its_field() {
        for (text, named) in [
            ("concurrency = 0", "concurrency"),
            ("concurrency = 65", "concurrency"),
            ("requests_per_minute = 0", "requests_per_minute"),
            ("attempts = 21", "attempts"),
            ("seconds = 601", "seconds"),
            ("longest_seconds = 781", "longest_seconds"),
            ("language = \"english please\"", "language"),
            ("model = \"a&b\"", "model"),
            ("key_file = \"a\"\nkey_variable = \"B\"", "key_file and key_variable"),
            ("key = \"sk-0\"", "key"),
            ("price = { currency = \"USD\", per_minute = \"free\" }", "per_minute"),
        ] {
            let error = read(&format!("{LEAST}{text}")).expect_err(text);
            assert!(error.contains(named), "{text}: {error}");
        }
        assert!(read(&LEAST.replace("127.0.0.1:9", "speech.example")).unwrap_err().contains("url"));
        assert!(read(&LEAST.replace("one", "a b")).unwrap_err().contains("name"));
    }

    #[test]
    fn each_number_holds_at_its_limit_and_not_beyond() {
        for (field, most) in [
            ("concurrency", MOST_AT_ONCE),
            ("requests_per_minute", MOST_A_MINUTE),
            ("attempts", MOST_ATTEMPTS),
            ("seconds", MOST_SECONDS),
            ("longest_seconds", Protocol::Openai.longest()),
        ] {
            let with = |value: u32| read(&format!("{LEAST}{field} = {value}\n"));
            assert!(with(1).is_ok() && with(most).is_ok(), "{field}: {:?}", with(most));
            for wrong in [0, most + 1] {
                assert!(with(wrong).is_err_and(|error| error.contains(field)), "{field} = {wrong}");
            }
        }
        let named = |length: usize| read(&LEAST.replace("\"one\"", &format!("\"{}\"", "n".repeat(length))));
        assert!(named(40).is_ok() && named(41).is_err_and(|error| error.contains("name")));
        for field in ["model", "language"] {
            let with = |length: usize| read(&format!("{LEAST}{field} = \"{}\"\n", "m".repeat(length)));
            assert!(with(64).is_ok() && with(65).is_err_and(|error| error.contains(field)), "{field}");
        }
    }

    #[test]
    fn a_key_comes_from_its_store_and_is_in_no_error() {
        let settings = read(&format!("{LEAST}key_variable = \"SPEECH_KEY\"")).unwrap();
        let error = settings.line(Path::new("."), |_| None, system()).unwrap_err();
        assert!(error.to_string().contains("SPEECH_KEY"), "{error}");
        let broken = settings.line(Path::new("."), |_| Some(OsString::from("two secret-words")), system()).unwrap_err();
        assert!(!format!("{broken} {broken:?}").contains("secret-words"));
        let line = settings.line(Path::new("."), |_| Some(OsString::from("a-secret-key")), system()).unwrap();
        assert!(!format!("{line:?}").contains("secret"));
    }

    #[test]
    fn a_site_has_at_least_one_provider_and_none_twice() {
        let one = read(LEAST).unwrap();
        assert!(matches!(check(&[]), Err(SettingsError::Count(0))));
        assert!(matches!(check(&[one.clone(), one.clone()]), Err(SettingsError::Twice(name)) if name == "one"));
        let elsewhere = |n: u32| format!("http://127.0.0.1:{}", 9 + n);
        let many: Vec<_> =
            (0..17).map(|n| Settings { name: format!("p{n}"), url: elsewhere(n), ..one.clone() }).collect();
        assert!(check(&many[..16]).is_ok() && matches!(check(&many), Err(SettingsError::Count(17))));
    }

    #[test]
    fn one_party_under_two_names_is_no_partition() {
        let one = read(LEAST).unwrap();
        let at = |url: &str| Settings { name: "two".to_owned(), url: url.to_owned(), ..one.clone() };
        let refused = check(&[one.clone(), at("http://127.0.0.1:9/another/")]).unwrap_err().to_string();
        assert!(refused.contains("`one` and `two`"), "{refused}");
        assert!(check(&[one.clone(), at("http://127.0.0.1:10")]).is_ok());
        let named = |name: &str, url: &str| Settings { name: name.to_owned(), ..at(url) };
        let twins = [named("a", "https://speech.example"), named("b", "https://Speech.Example.:443/v2")];
        assert!(matches!(check(&twins), Err(SettingsError::Place { .. })));
    }
}
