//! A provider's section of the site's configuration, and the line built from it.
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
use undertone_api::job::transcription::{Price, PriceError, Tariff};

use super::SpeechProvider;
use super::deepgram::DeepgramProvider;
use super::google::GoogleProvider;
use super::key::{KeyError, ProviderKey};
use super::line::{LineBounds, ProviderLine};
use super::openai::OpenAiProvider;
use crate::web::{AddressError, WebAddress, WebError};
use undertone_worker_site::clock::Clock;

pub use undertone_api::job::transcription::ProviderProtocol;

/// Largest number of providers of a site: as many as a job may name.
pub const MOST: usize = undertone_api::job::transcription::MOST_PROVIDERS;
/// Largest number of concurrent requests.
pub const MOST_AT_ONCE: u32 = 64;
/// Largest number of requests a minute.
pub const MOST_A_MINUTE: u32 = 60_000;
/// Largest number of attempts for one sound.
pub const MOST_ATTEMPTS: u32 = 20;
/// Longest time limit of one answer, in seconds.
pub const MOST_SECONDS: u32 = 600;

/// Configuration of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    /// The site's name for it: 1 to 40 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The protocol.
    pub protocol: ProviderProtocol,
    /// The address: https, or http on this machine.
    pub url: String,
    /// The model; the protocol's default if absent.
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
    /// Concurrent requests, 1 to 64.
    #[serde(default = "four")]
    pub concurrency: u32,
    /// Requests a minute, 1 to 60,000.
    #[serde(default = "hundred")]
    pub requests_per_minute: u32,
    /// Attempts before a piece counts as unanswered, 1 to 20.
    #[serde(default = "eight")]
    pub attempts: u32,
    /// Time limit of one answer, in seconds, 1 to 600.
    #[serde(default = "minute")]
    pub seconds: u32,
    /// Longest sound that is sent, in seconds; the protocol's limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_seconds: Option<u32>,
    /// The price; absent if the provider is free.
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

/// Mistakes in the providers' settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Too few or too many providers.
    #[error("transcription.providers: 1 to {MOST} providers, not {0}")]
    Count(usize),
    /// Two providers have the same name.
    #[error("transcription.providers: two are called `{0}`: give each provider its own name")]
    Twice(String),
    /// Two providers have the same host and port.
    #[error(
        "transcription.providers: `{first}` and `{second}` have the same host and port: they are one party, which receives \
         the parts of both; name another, or leave one out"
    )]
    Place {
        /// One provider.
        first: String,
        /// The other provider.
        second: String,
    },
    /// A field is wrong.
    #[error("transcription.providers `{name}`: {problem}")]
    Field {
        /// The provider.
        name: String,
        /// The mistake and the permitted values.
        problem: SettingsProblem,
    },
}

/// Mistakes in one field.
#[derive(Debug, thiserror::Error)]
pub enum SettingsProblem {
    /// The name is invalid.
    #[error("name: 1 to 40 letters, digits, `-`, `_` and `.`")]
    Name,
    /// The address is invalid.
    #[error("url: {0}")]
    Address(#[from] AddressError),
    /// The language or model is invalid.
    #[error("{0}: 1 to 64 letters, digits, `-`, `_`, `.`, `:` and `/`")]
    Word(&'static str),
    /// A number is out of range.
    #[error("{field}: 1 to {most}, not {found}")]
    Number {
        /// The field.
        field: &'static str,
        /// Largest permitted value.
        most: u32,
        /// Configured value.
        found: u32,
    },
    /// The price is invalid.
    #[error(transparent)]
    Price(#[from] PriceError),
    /// The key is missing or invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// This machine cannot make connections.
    #[error(transparent)]
    Web(#[from] WebError),
}

/// Checks all providers of a site, without their keys.
///
/// # Errors
/// [`SettingsError`] with the first mistake.
pub fn check(providers: &[ProviderSettings]) -> Result<(), SettingsError> {
    if !(1..=MOST).contains(&providers.len()) {
        return Err(SettingsError::Count(providers.len()));
    }
    for (place, provider) in providers.iter().enumerate() {
        provider.check()?;
        for before in &providers[..place] {
            if before.name == provider.name {
                return Err(SettingsError::Twice(provider.name.clone()));
            }
            // The guarantee of a partition counts parties.
            if before.place() == provider.place() {
                return Err(SettingsError::Place { first: before.name.clone(), second: provider.name.clone() });
            }
        }
    }
    Ok(())
}

impl ProviderSettings {
    /// Checks the rules that the types do not express; reads no file.
    ///
    /// # Errors
    /// [`SettingsError::Field`] with the field and its permitted values.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.parts().map(drop).map_err(|problem| self.error(problem))
    }

    /// Returns the price, if the provider has one.
    ///
    /// # Errors
    /// As [`ProviderSettings::check`].
    pub fn tariff(&self) -> Result<Option<Tariff>, SettingsError> {
        let tariff = self.price.as_ref().map(Price::tariff).transpose();
        tariff.map_err(|problem| self.error(problem.into()))
    }

    /// Creates the line to the provider, with its key from the site's folder `site` or from `environment`.
    ///
    /// # Errors
    /// [`SettingsError::Field`] when a field is wrong, or the key is missing.
    pub fn line(
        &self,
        site: &Path,
        environment: impl Fn(&str) -> Option<OsString>,
        clock: Clock,
    ) -> Result<ProviderLine, SettingsError> {
        let create = || -> Result<ProviderLine, SettingsProblem> {
            let (address, bounds) = self.parts()?;
            let key = self.key(site, environment)?;
            let provider = self.provider(&address, key.as_ref())?;
            Ok(ProviderLine::new(&self.name, provider, &address, bounds, clock)?)
        };
        create().map_err(|problem| self.error(problem))
    }

    fn parts(&self) -> Result<(WebAddress, LineBounds), SettingsProblem> {
        let permitted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !(1..=40).contains(&self.name.len()) || !self.name.chars().all(permitted) {
            return Err(SettingsProblem::Name);
        }
        let address = WebAddress::parse(&self.url)?;
        word("language", &self.language)?;
        self.model.as_deref().map_or(Ok(()), |model| word("model", model))?;
        self.price.as_ref().map(Price::tariff).transpose()?;
        if self.key_file.is_some() && self.key_variable.is_some() {
            return Err(KeyError::Both.into());
        }
        let longest = self.protocol.longest();
        let bounds = LineBounds {
            concurrency: number("concurrency", self.concurrency, MOST_AT_ONCE)?,
            requests_per_minute: number("requests_per_minute", self.requests_per_minute, MOST_A_MINUTE)?,
            attempts: number("attempts", self.attempts, MOST_ATTEMPTS)?,
            limit: Duration::from_secs(number("seconds", self.seconds, MOST_SECONDS)?.into()),
            longest: number("longest_seconds", self.longest_seconds.unwrap_or(longest), longest)?,
        };
        Ok((address, bounds))
    }

    /// Returns host and port; `None` for an invalid address.
    fn place(&self) -> Option<(String, Option<u16>)> {
        let url = WebAddress::parse(&self.url).ok()?.url();
        Some((url.host_str()?.trim_end_matches('.').to_owned(), url.port_or_known_default()))
    }

    fn key(
        &self,
        site: &Path,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<ProviderKey>, KeyError> {
        match (&self.key_file, &self.key_variable) {
            (None, None) => Ok(None),
            (Some(file), None) => ProviderKey::from_file(&site.join(file)).map(Some),
            (None, Some(variable)) => ProviderKey::from_variable(variable, environment).map(Some),
            (Some(_), Some(_)) => Err(KeyError::Both),
        }
    }

    fn provider(&self, address: &WebAddress, key: Option<&ProviderKey>) -> Result<Box<dyn SpeechProvider>, KeyError> {
        let model = self.model.as_deref();
        Ok(match self.protocol {
            ProviderProtocol::Openai => {
                Box::new(OpenAiProvider::new(address, key, model.unwrap_or("whisper-1"), &self.language)?)
            }
            ProviderProtocol::Google => Box::new(GoogleProvider::new(address, key, model, &self.language)?),
            ProviderProtocol::Deepgram => {
                Box::new(DeepgramProvider::new(address, key, model.unwrap_or("nova-3"), &self.language)?)
            }
        })
    }

    fn error(&self, problem: SettingsProblem) -> SettingsError {
        SettingsError::Field { name: self.name.clone(), problem }
    }
}

fn word(field: &'static str, text: &str) -> Result<(), SettingsProblem> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
    if (1..=64).contains(&text.len()) && text.chars().all(plain) { Ok(()) } else { Err(SettingsProblem::Word(field)) }
}

fn number(field: &'static str, found: u32, most: u32) -> Result<u32, SettingsProblem> {
    if (1..=most).contains(&found) { Ok(found) } else { Err(SettingsProblem::Number { field, most, found }) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::ffi::OsString;
    use std::path::Path;

    use super::{MOST_A_MINUTE, MOST_AT_ONCE, MOST_ATTEMPTS, MOST_SECONDS};
    use super::{ProviderProtocol, ProviderSettings, SettingsError, check};
    use undertone_worker_site::clock::system;

    const LEAST: &str = "name = \"one\"\nprotocol = \"openai\"\nurl = \"http://127.0.0.1:9\"\n";

    fn read(text: &str) -> Result<ProviderSettings, String> {
        let settings: ProviderSettings = toml::from_str(text).map_err(|error| error.to_string())?;
        settings.check().map_err(|error| error.to_string())?;
        Ok(settings)
    }

    #[test]
    fn name_protocol_and_address_suffice() {
        let settings = read(LEAST).unwrap();
        assert_eq!((settings.concurrency, settings.requests_per_minute, settings.attempts), (4, 100, 8));
        assert!(settings.line(Path::new("."), |_| None, system()).is_ok() && settings.tariff().unwrap().is_none());
    }

    #[test]
    fn mistakes_name_their_field() {
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
    fn numbers_beyond_their_limits_are_refused() {
        for (field, most) in [
            ("concurrency", MOST_AT_ONCE),
            ("requests_per_minute", MOST_A_MINUTE),
            ("attempts", MOST_ATTEMPTS),
            ("seconds", MOST_SECONDS),
            ("longest_seconds", ProviderProtocol::Openai.longest()),
        ] {
            let with = |value: u32| read(&format!("{LEAST}{field} = {value}\n"));
            assert!(with(1).is_ok() && with(most).is_ok(), "{field}: {:?}", with(most));
            for wrong in [0, most + 1] {
                assert!(with(wrong).is_err_and(|error| error.contains(field)), "{field} = {wrong}");
            }
        }
        let renamed = |length: usize| read(&LEAST.replace("\"one\"", &format!("\"{}\"", "n".repeat(length))));
        assert!(renamed(40).is_ok() && renamed(41).is_err_and(|error| error.contains("name")));
        for field in ["model", "language"] {
            let with = |length: usize| read(&format!("{LEAST}{field} = \"{}\"\n", "m".repeat(length)));
            assert!(with(64).is_ok() && with(65).is_err_and(|error| error.contains(field)), "{field}");
        }
    }

    #[test]
    fn key_comes_from_its_store_and_is_in_no_error() {
        let settings = read(&format!("{LEAST}key_variable = \"SPEECH_KEY\"")).unwrap();
        let error = settings.line(Path::new("."), |_| None, system()).unwrap_err();
        assert!(error.to_string().contains("SPEECH_KEY"), "{error}");
        let broken = settings.line(Path::new("."), |_| Some(OsString::from("two secret-words")), system()).unwrap_err();
        assert!(!format!("{broken} {broken:?}").contains("secret-words"));
        let line = settings.line(Path::new("."), |_| Some(OsString::from("a-secret-key")), system()).unwrap();
        assert!(!format!("{line:?}").contains("secret"));
    }

    #[test]
    fn empty_or_duplicate_providers_are_refused() {
        let one = read(LEAST).unwrap();
        assert!(matches!(check(&[]), Err(SettingsError::Count(0))));
        assert!(matches!(check(&[one.clone(), one.clone()]), Err(SettingsError::Twice(name)) if name == "one"));
        let elsewhere = |n: u32| format!("http://127.0.0.1:{}", 9 + n);
        let many: Vec<_> =
            (0..17).map(|n| ProviderSettings { name: format!("p{n}"), url: elsewhere(n), ..one.clone() }).collect();
        assert!(check(&many[..16]).is_ok() && matches!(check(&many), Err(SettingsError::Count(17))));
    }

    #[test]
    fn one_party_under_two_names_is_refused() {
        let one = read(LEAST).unwrap();
        let at = |url: &str| ProviderSettings { name: "two".to_owned(), url: url.to_owned(), ..one.clone() };
        let refused = check(&[one.clone(), at("http://127.0.0.1:9/another/")]).unwrap_err().to_string();
        assert!(refused.contains("`one` and `two`"), "{refused}");
        assert!(check(&[one.clone(), at("http://127.0.0.1:10")]).is_ok());
        let provider = |name: &str, url: &str| ProviderSettings { name: name.to_owned(), ..at(url) };
        let twins = [provider("a", "https://speech.example"), provider("b", "https://Speech.Example.:443/v2")];
        assert!(matches!(check(&twins), Err(SettingsError::Place { .. })));
    }
}
