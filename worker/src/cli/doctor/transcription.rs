//! Checks of transcription: the recognizer, the speech engine, the voice and the files exist, the keys can be read, and
//! the providers answer. It sends nothing to a provider: it opens a connection and closes it.

mod recorded;

use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use undertone_api::job::JobKind as _;
use undertone_api::job::transcription::Spec;
use url::Url;

use super::super::chain;
use super::{Doctor, Findings};
use crate::config::Config;
use crate::config::transcription::{Recognizer, Transcription};
use crate::site::clock::Clock;
use crate::site::folder::Folder;
use crate::site::policy::Policy;
use crate::site::store::Store;
use crate::speech::transcribe::provider::settings::ProviderSettings;
use crate::speech::transcribe::recognize::server::RecognizerServer;
use crate::speech::transcribe::speak::reference::{ReferenceFolder, VoiceReference};
use crate::speech::transcribe::speak::{SpeechEngine, SpeechSynthesizer as _, USUAL_RATE};

const CHECK: &str = "transcription";
/// The test text for a speech engine.
const WORDS: &str = "good morning";
/// The longest wait for a provider's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks all parts, if transcription is configured.
pub(super) fn look(
    folder: &Folder,
    config: &Config,
    store: Option<&Store>,
    asked: &Doctor,
    clock: &Clock,
    found: &mut Findings,
) {
    let settings = &config.transcription;
    if settings.is_default() {
        return;
    }
    files(folder, settings, found);
    recognizer(folder, settings, found);
    let addresses: Vec<Url> = settings.providers.iter().filter_map(|known| Url::parse(&known.url).ok()).collect();
    speech(folder, settings, &addresses, found);
    recorded::look(folder, settings, store, clock, found);
    if let Some(voice) = &settings.voice
        && let Err(error) = voice.start()
    {
        found.fail(CHECK, chain(&error), "correct [transcription.voice]");
    }
    money(folder, settings, found);
    if settings.providers.is_empty() {
        found.warn(CHECK, "no provider is configured", "add [[transcription.providers]] to config.toml");
    }
    for provider in &settings.providers {
        let line = provider.line(folder.root(), |name| std::env::var_os(name), clock.clone());
        match line {
            Err(error) => found.fail(CHECK, chain(&error), "correct its table in [[transcription.providers]]"),
            Ok(_) if asked.offline => found.ok(CHECK, format!("provider `{}`: its key can be read", provider.name)),
            Ok(_) => reach(provider, found),
        }
    }
}

/// Checks that the cost of a job has a limit, and that every provider has a price in a currency of that limit.
fn money(folder: &Folder, settings: &Transcription, found: &mut Findings) {
    // The check of the policy reports its own errors.
    let Ok(policy) = Policy::load(&folder.policy()) else { return };
    let rules = policy.rules("");
    if !rules.kinds.iter().any(|kind| kind == Spec::NAME) {
        return;
    }
    let Some(most) = &rules.most_cost_per_job else {
        let remedy = "set jobs.most_cost_per_job in policy.toml, as in { USD = \"50.00\" }";
        return found.warn(CHECK, "a job may cost any sum of money", remedy);
    };
    found.ok(CHECK, format!("a job may cost at most {most}"));
    for provider in &settings.providers {
        let name = &provider.name;
        match &provider.price {
            None => {
                let said = format!("provider `{name}` has no price, so jobs that ask it are refused");
                let remedy =
                    "give its table in [[transcription.providers]] a price; per_minute = \"0\" where it asks nothing";
                found.warn(CHECK, said, remedy);
            }
            Some(price) if !most.names(&price.currency) => {
                let said = format!(
                    "provider `{name}` asks {}, in which a job may cost nothing, so jobs that ask it are refused",
                    price.currency
                );
                let remedy = "give jobs.most_cost_per_job in policy.toml a sum in that currency";
                found.warn(CHECK, said, remedy);
            }
            Some(_) => {}
        }
    }
}

/// Checks the files that the configuration names.
fn files(folder: &Folder, settings: &Transcription, found: &mut Findings) {
    let named: [(&str, &Option<PathBuf>); 4] = [
        ("dummies.corpus", &settings.dummies.corpus),
        ("vocabulary.baseline", &settings.vocabulary.baseline),
        ("sensitive.list", &settings.sensitive.list),
        ("sensitive.language", &settings.sensitive.language),
    ];
    for (key, path) in named {
        let Some(path) = path else { continue };
        if let Err(error) = std::fs::File::open(folder.root().join(path)) {
            let said = format!("transcription.{key}: {} cannot be read: {error}", path.display());
            found.fail(CHECK, said, "name a file relative to the site's folder");
        }
    }
}

fn recognizer(folder: &Folder, settings: &Transcription, found: &mut Findings) {
    let Some(configured) = &settings.recognizer else {
        return found.fail(
            CHECK,
            "no recognizer hears recordings here",
            "add [transcription.recognizer] to config.toml",
        );
    };
    let remedy = "correct [transcription.recognizer]";
    if let Some((program, _)) = configured.program() {
        match program.start(1) {
            Ok(running) => found.ok(CHECK, format!("recognizer: {}", running.identity().program)),
            Err(error) => found.fail(CHECK, chain(&error), remedy),
        }
        return;
    }
    let found_it = server(folder.root(), configured);
    match found_it {
        Ok(said) => found.ok(CHECK, said),
        Err(error) => found.fail(CHECK, error, remedy),
    }
}

/// Checks that a recognizer's server has an address in the site's own network.
fn server(root: &Path, configured: &Recognizer) -> Result<String, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let server = configured.server(root, "en").map_err(|error| chain(&error))?;
    let server = server.ok_or_else(|| "the recognizer is neither program nor server".to_owned())?;
    let at = server.url.clone();
    runtime.block_on(RecognizerServer::find(server)).map_err(|error| chain(&error))?;
    Ok(format!("recognizer: a server of the site's own at {at}"))
}

/// Checks that the speech engine speaks a word.
fn speech(folder: &Folder, settings: &Transcription, providers: &[Url], found: &mut Findings) {
    let remedy = "install it (`apt install espeak-ng`), or choose another in [transcription.speech]";
    match settings.engine(folder.root(), providers) {
        Err(error) => found.fail(CHECK, chain(&error), remedy),
        // All dummies are recorded speech.
        Ok(None) => {}
        Ok(Some(engine)) if engine.clones() => imitation(folder, &engine, found),
        Ok(Some(engine)) => match engine.speak(WORDS, USUAL_RATE) {
            Ok(_) => found.ok(CHECK, format!("speech: {}", engine.name())),
            Err(error) => found.fail(CHECK, chain(&error), remedy),
        },
    }
}

/// Checks that an engine that imitates voices imitates espeak-ng's, the only available voice without a person.
fn imitation(folder: &Folder, engine: &SpeechEngine, found: &mut Findings) {
    let model = SpeechEngine::espeak("en-us", PATIENCE).and_then(|model| model.speak(WORDS, USUAL_RATE));
    let sound = match model {
        Ok(sound) => sound,
        Err(error) => {
            let said = format!("speech: {} imitates voices, and was not tried: {}", engine.name(), chain(&error));
            return found.warn(CHECK, said, "install espeak-ng, whose voice it is tried with");
        }
    };
    match imitated(folder, engine, &sound) {
        Ok(()) => found.ok(CHECK, format!("speech, in imitated voices: {}", engine.name())),
        Err(error) => found.fail(CHECK, error, "correct [transcription.speech]"),
    }
}

fn imitated(folder: &Folder, engine: &SpeechEngine, voice: &[f32]) -> Result<(), String> {
    let mut reference = VoiceReference::default();
    reference.add(voice);
    let references = ReferenceFolder::begin(&folder.root().join(".doctor-voice")).map_err(|error| chain(&error))?;
    references.keep(0, &reference.sound()).map_err(|error| chain(&error))?;
    engine.imitating(&references.path(0)).speak(WORDS, USUAL_RATE).map(drop).map_err(|error| chain(&error))
}

/// Checks that a provider accepts connections.
fn reach(provider: &ProviderSettings, found: &mut Findings) {
    let name = &provider.name;
    let places = Url::parse(&provider.url).ok().and_then(|url| {
        let port = url.port_or_known_default()?;
        (url.host_str()?.trim_matches(['[', ']']), port).to_socket_addrs().ok()
    });
    let reached = places.is_some_and(|mut places| places.any(|at| TcpStream::connect_timeout(&at, PATIENCE).is_ok()));
    if reached {
        found.ok(CHECK, format!("provider `{name}`: its key can be read, and its machine answers"));
    } else {
        let remedy = "check its url and this machine's way out; jobs wait for it and then keep the offline words";
        found.warn(CHECK, format!("provider `{name}`: its machine does not answer"), remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::{Findings, money};
    use crate::config::transcription::Transcription;
    use crate::site::folder::Folder;
    use crate::site::policy::TEMPLATE;

    #[test]
    fn a_site_whose_jobs_may_cost_anything_is_told_and_so_is_one_that_could_not_tell() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let look = |policy: &str, price: &str| {
            std::fs::write(folder.policy(), policy).expect("the folder is writable");
            let text = format!(
                "[[providers]]\nname = \"one\"\nprotocol = \"deepgram\"\nurl = \"https://one.example\"\n{price}"
            );
            let settings: Transcription = toml::from_str(&text).expect("they are settings");
            let mut found = Findings::default();
            money(&folder, &settings, &mut found);
            found.checks.into_iter().map(|finding| (finding.state, finding.said)).collect::<Vec<_>>()
        };
        let priced = "price = { currency = \"USD\", per_minute = \"0.006\" }\n";
        assert!(look(TEMPLATE, priced).is_empty(), "no such job may run");
        let runs = TEMPLATE.replacen("kinds = [\"dp_sgd\"]", "kinds = [\"transcription\"]", 1);
        let found = look(&runs, priced);
        assert!(matches!(&found[..], [(State::Warn, said)] if said.contains("any sum")), "{found:?}");
        let limited = runs.replacen("[jobs]\n", "[jobs]\nmost_cost_per_job = { USD = \"50\" }\n", 1);
        let found = look(&limited, priced);
        assert!(matches!(&found[..], [(State::Ok, said)] if said.contains("USD 50.0000")), "{found:?}");
        let found = look(&limited, "");
        assert!(matches!(&found[..], [_, (State::Warn, said)] if said.contains("`one` has no price")), "{found:?}");
        let euros = "price = { currency = \"EUR\", per_minute = \"0\" }\n";
        let found = look(&limited, euros);
        assert!(matches!(&found[..], [_, (State::Warn, said)] if said.contains("`one` asks EUR")), "{found:?}");
        let both = runs.replacen("[jobs]\n", "[jobs]\nmost_cost_per_job = { EUR = \"45\", USD = \"50\" }\n", 1);
        let found = look(&both, euros);
        assert!(matches!(&found[..], [(State::Ok, _)]), "{found:?}");
    }
}
