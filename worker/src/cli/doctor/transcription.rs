//! Checks of transcription: the recognizer, the speech engine, the voice and the files exist, the keys can be read, and
//! the providers answer. It sends nothing to a provider: it opens a connection and closes it.

mod recorded;

use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use undertone_api::job::JobKind as _;
use undertone_api::job::transcription::Spec;
use url::Url;

use super::super::format_error;
use super::{CheckResults, DoctorCommand};
use crate::config::Config;
use crate::config::transcription::{RecognizerSettings, TranscriptionSettings};
use crate::site::clock::Clock;
use crate::site::folder::Folder;
use crate::site::policy::Policy;
use crate::site::store::Store;
use crate::speech::transcribe::provider::settings::ProviderSettings;
use crate::speech::transcribe::recognize::SpeechRecognizer as _;
use crate::speech::transcribe::recognize::server::RecognizerServer;
use crate::speech::transcribe::speak::reference::{ReferenceFolder, VoiceReference};
use crate::speech::transcribe::speak::{SpeechEngine, SpeechSynthesizer as _, USUAL_RATE};

const CHECK: &str = "transcription";
/// The test text for a speech engine.
const WORDS: &str = "good morning";
/// The longest wait for a provider's answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks all parts, if transcription is configured.
pub(super) fn check_transcription(
    folder: &Folder,
    config: &Config,
    store: Option<&Store>,
    options: &DoctorCommand,
    clock: &Clock,
    results: &mut CheckResults,
) {
    let settings = &config.transcription;
    if settings.is_default() {
        return;
    }
    check_files(folder, settings, results);
    check_recognizer(folder, settings, results);
    let addresses: Vec<Url> = settings.providers.iter().filter_map(|provider| Url::parse(&provider.url).ok()).collect();
    check_speech(folder, settings, &addresses, results);
    recorded::check_recorded_speech(folder, settings, store, clock, results);
    if let Some(voice) = &settings.voice
        && let Err(error) = voice.start()
    {
        results.fail(CHECK, format_error(&error), "correct [transcription.voice]");
    }
    check_prices(folder, settings, results);
    if settings.providers.is_empty() {
        results.warn(CHECK, "no provider is configured", "add [[transcription.providers]] to config.toml");
    }
    for provider in &settings.providers {
        let line = provider.line(folder.root(), |name| std::env::var_os(name), clock.clone());
        match line {
            Err(error) => results.fail(CHECK, format_error(&error), "correct its table in [[transcription.providers]]"),
            Ok(_) if options.offline => results.ok(CHECK, format!("provider `{}`: its key can be read", provider.name)),
            Ok(_) => check_connection(provider, results),
        }
    }
}

/// Checks that the cost of a job has a limit, and that every provider has a price in a currency of that limit.
fn check_prices(folder: &Folder, settings: &TranscriptionSettings, results: &mut CheckResults) {
    // `check_policy` reports the errors of the policy.
    let Ok(policy) = Policy::load(&folder.policy()) else { return };
    let rules = policy.rules("");
    if !rules.kinds.iter().any(|kind| kind == Spec::NAME) {
        return;
    }
    let Some(most) = &rules.most_cost_per_job else {
        let remedy = "set jobs.most_cost_per_job in policy.toml, as in { USD = \"50.00\" }";
        return results.warn(CHECK, "the cost of a job has no limit", remedy);
    };
    results.ok(CHECK, format!("a job may cost at most {most}"));
    for provider in &settings.providers {
        let name = &provider.name;
        match &provider.price {
            None => {
                let problem = format!("provider `{name}` has no price, so this site refuses jobs that use it");
                let remedy =
                    "set a price in its table in [[transcription.providers]]; per_minute = \"0\" for a free provider";
                results.warn(CHECK, problem, remedy);
            }
            Some(price) if !most.names(&price.currency) => {
                let problem = format!(
                    "provider `{name}` charges {}, a currency without a limit, so this site refuses jobs that use it",
                    price.currency
                );
                let remedy = "set an amount in that currency in jobs.most_cost_per_job of policy.toml";
                results.warn(CHECK, problem, remedy);
            }
            Some(_) => {}
        }
    }
}

/// Checks the files that the configuration names.
fn check_files(folder: &Folder, settings: &TranscriptionSettings, results: &mut CheckResults) {
    let paths: [(&str, &Option<PathBuf>); 4] = [
        ("dummies.corpus", &settings.dummies.corpus),
        ("vocabulary.baseline", &settings.vocabulary.baseline),
        ("sensitive.list", &settings.sensitive.list),
        ("sensitive.language", &settings.sensitive.language),
    ];
    for (key, path) in paths {
        let Some(path) = path else { continue };
        if let Err(error) = std::fs::File::open(folder.root().join(path)) {
            let problem = format!("transcription.{key}: cannot read {}: {error}", path.display());
            results.fail(CHECK, problem, "name a file relative to the site's folder");
        }
    }
}

fn check_recognizer(folder: &Folder, settings: &TranscriptionSettings, results: &mut CheckResults) {
    let Some(configured) = &settings.recognizer else {
        return results.fail(CHECK, "no recognizer is configured", "add [transcription.recognizer] to config.toml");
    };
    let remedy = "correct [transcription.recognizer]";
    if let Some((program, _)) = configured.program() {
        match program.start(1) {
            Ok(running) => results.ok(CHECK, format!("recognizer: {}", running.identity().program)),
            Err(error) => results.fail(CHECK, format_error(&error), remedy),
        }
        return;
    }
    if let Some(model) = configured.model() {
        match model.open(folder.root()) {
            Ok(recognizer) => results.ok(CHECK, format!("recognizer: {}", recognizer.name())),
            Err(error) => results.fail(CHECK, format_error(&error), remedy),
        }
        return;
    }
    match find_server(folder.root(), configured) {
        Ok(message) => results.ok(CHECK, message),
        Err(error) => results.fail(CHECK, error, remedy),
    }
}

/// Checks that a recognizer's server has an address in the site's own network.
fn find_server(root: &Path, configured: &RecognizerSettings) -> Result<String, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let server = configured.server(root, "en").map_err(|error| format_error(&error))?;
    let server = server.ok_or_else(|| "the recognizer is neither a program nor a server".to_owned())?;
    let url = server.url.clone();
    runtime.block_on(RecognizerServer::find(server)).map_err(|error| format_error(&error))?;
    Ok(format!("recognizer: the site's own server at {url}"))
}

/// Checks that the speech engine speaks a word.
fn check_speech(folder: &Folder, settings: &TranscriptionSettings, providers: &[Url], results: &mut CheckResults) {
    let remedy = "install it (`apt install espeak-ng`), or choose another in [transcription.speech]";
    match settings.engine(folder.root(), providers) {
        Err(error) => results.fail(CHECK, format_error(&error), remedy),
        // All dummies are recorded speech.
        Ok(None) => {}
        Ok(Some(engine)) if engine.clones() => check_imitation(folder, &engine, results),
        Ok(Some(engine)) => match engine.speak(WORDS, USUAL_RATE) {
            Ok(_) => results.ok(CHECK, format!("speech: {}", engine.name())),
            Err(error) => results.fail(CHECK, format_error(&error), remedy),
        },
    }
}

/// Checks that an engine that imitates voices imitates espeak-ng's, the only available voice without a person.
fn check_imitation(folder: &Folder, engine: &SpeechEngine, results: &mut CheckResults) {
    let model = SpeechEngine::espeak("en-us", CONNECT_TIMEOUT).and_then(|model| model.speak(WORDS, USUAL_RATE));
    let sound = match model {
        Ok(sound) => sound,
        Err(error) => {
            let problem =
                format!("speech: {} imitates voices, and was not tested: {}", engine.name(), format_error(&error));
            return results.warn(CHECK, problem, "install espeak-ng, whose voice the test imitates");
        }
    };
    match try_imitation(folder, engine, &sound) {
        Ok(()) => results.ok(CHECK, format!("speech, in imitated voices: {}", engine.name())),
        Err(error) => results.fail(CHECK, error, "correct [transcription.speech]"),
    }
}

fn try_imitation(folder: &Folder, engine: &SpeechEngine, voice: &[f32]) -> Result<(), String> {
    let mut reference = VoiceReference::default();
    reference.add(voice);
    let references =
        ReferenceFolder::begin(&folder.root().join(".doctor-voice")).map_err(|error| format_error(&error))?;
    references.keep(0, &reference.sound()).map_err(|error| format_error(&error))?;
    engine.imitating(&references.path(0)).speak(WORDS, USUAL_RATE).map(drop).map_err(|error| format_error(&error))
}

/// Checks that a provider accepts connections.
fn check_connection(provider: &ProviderSettings, results: &mut CheckResults) {
    let name = &provider.name;
    let addresses = Url::parse(&provider.url).ok().and_then(|url| {
        let port = url.port_or_known_default()?;
        (url.host_str()?.trim_matches(['[', ']']), port).to_socket_addrs().ok()
    });
    let is_reachable = addresses.is_some_and(|mut addresses| {
        addresses.any(|address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())
    });
    if is_reachable {
        results.ok(CHECK, format!("provider `{name}`: its key can be read, and its host accepts connections"));
    } else {
        let remedy =
            "check its url and this machine's outbound connections; jobs wait for it, then keep the offline words";
        results.warn(CHECK, format!("provider `{name}`: its host does not answer"), remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::{CheckResults, check_prices};
    use crate::config::transcription::TranscriptionSettings;
    use crate::site::folder::Folder;
    use crate::site::policy::TEMPLATE;

    #[test]
    fn missing_cost_limits_and_prices_are_warnings() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let check = |policy: &str, price: &str| {
            std::fs::write(folder.policy(), policy).expect("the folder is writable");
            let text = format!(
                "[[providers]]\nname = \"one\"\nprotocol = \"deepgram\"\nurl = \"https://one.example\"\n{price}"
            );
            let settings: TranscriptionSettings = toml::from_str(&text).expect("they are settings");
            let mut results = CheckResults::default();
            check_prices(&folder, &settings, &mut results);
            results.checks.into_iter().map(|result| (result.state, result.message)).collect::<Vec<_>>()
        };
        let priced = "price = { currency = \"USD\", per_minute = \"0.006\" }\n";
        assert!(check(TEMPLATE, priced).is_empty(), "no such job may run");
        let runs = TEMPLATE.replacen("kinds = [\"dp_sgd\"]", "kinds = [\"transcription\"]", 1);
        let results = check(&runs, priced);
        assert!(matches!(&results[..], [(CheckState::Warn, message)] if message.contains("no limit")), "{results:?}");
        let limited = runs.replacen("[jobs]\n", "[jobs]\nmost_cost_per_job = { USD = \"50\" }\n", 1);
        let results = check(&limited, priced);
        assert!(matches!(&results[..], [(CheckState::Ok, message)] if message.contains("USD 50.0000")), "{results:?}");
        let results = check(&limited, "");
        assert!(
            matches!(&results[..], [_, (CheckState::Warn, message)] if message.contains("`one` has no price")),
            "{results:?}"
        );
        let euros = "price = { currency = \"EUR\", per_minute = \"0\" }\n";
        let results = check(&limited, euros);
        assert!(
            matches!(&results[..], [_, (CheckState::Warn, message)] if message.contains("`one` charges EUR")),
            "{results:?}"
        );
        let both = runs.replacen("[jobs]\n", "[jobs]\nmost_cost_per_job = { EUR = \"45\", USD = \"50\" }\n", 1);
        let results = check(&both, euros);
        assert!(matches!(&results[..], [(CheckState::Ok, _)]), "{results:?}");
    }
}
