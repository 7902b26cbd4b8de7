//! Hostile configuration: a site's files, its enrolment token, its policy. For every content, the error names the
//! problem.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::SigningKey;
use undertone_fuzz::Target;
use uuid::Uuid;

use super::transcription::{MOST_AT_ONCE, RecognizerSettings, TranscriptionSettings};
use super::{CheckedToken, Config, ConfigError, TOKEN_PREFIX, check};
use crate::site::policy::{Policy, PolicyError, TEMPLATE};
use crate::speech::transcribe::provider::settings::MOST as MOST_PROVIDERS;

const WORDS: [&str; 10] = [
    "[compute]\n",
    "[queries]\n",
    "memory_mib = ",
    "device = \"cpu\"\n",
    "threads = ",
    "\"\"\"",
    "= 1979-05-27",
    "nan",
    "inf",
    "{ a = ",
];

fn key() -> String {
    hex::encode(SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes())
}

fn config() -> String {
    let key = key();
    let id = Uuid::from_u128(1);
    let pin = "ab".repeat(32);
    format!(
        "# a comment\nserver = \"https://hub.example:7443\"\ncertificate = \"{pin}\"\nserver_key = \"{key}\"\nworker = \"{id}\"\n\
         worker_name = \"north\"\norganization = \"{id}\"\norganization_name = \"North\"\nconcurrent_runs = 2\nrotate_key_days = 90\n\
         [compute]\ndevice = \"cpu\"\nthreads = 3\n[queries]\nmemory_mib = 64\n"
    )
}

#[test]
fn mistakes_of_hostile_configurations_are_named() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("config.toml");
    assert!(Config::parse(&config(), &path).is_ok(), "a good one is changed");
    Target::new("worker.config", 1_500).seed(config()).words(&WORDS).run(|bytes| {
        std::fs::write(&path, bytes).expect("the folder is writable");
        let Ok(text) = std::str::from_utf8(bytes) else {
            assert!(check::check(&path).is_err(), "it is no text");
            return;
        };
        match Config::parse(text, &path) {
            Ok(config) => assert!(!config.server.address().is_empty()),
            Err(ConfigError::Field { field, problem }) => assert!(!field.is_empty() && !problem.is_empty()),
            Err(error) => assert!(matches!(error, ConfigError::Toml { .. }), "{error}"),
        }
        let report = check::check(&path).expect("a text can be checked");
        let good = Config::parse(text, &path).is_ok();
        assert!(good || !report.mistakes.is_empty(), "it is refused without a reported mistake: {text}");
        for mistake in &report.mistakes {
            assert!(!mistake.problem.is_empty() && mistake.line.is_none_or(|line| line >= 1), "{mistake:?}");
        }
    });
}

fn transcription() -> String {
    let providers = [
        ("one", "deepgram", "https://one.example", "model = \"nova-3\"\nkey_file = \"one.key\"\n"),
        ("two", "google", "https://two.example:8443/", "key_variable = \"KEY\"\nlongest_seconds = 59\nattempts = 3\n"),
        ("three", "openai", "http://127.0.0.1:9", "price = { currency = \"USD\", per_minute = \"0.006\" }\n"),
    ];
    let providers = providers.map(|(name, protocol, url, more)| {
        format!("[[providers]]\nname = \"{name}\"\nprotocol = \"{protocol}\"\nurl = \"{url}\"\n{more}")
    });
    format!(
        "[recognizer]\nkind = \"server\"\nurl = \"http://127.0.0.1:8080\"\nprotocol = \"open_ai\"\nrequests = 4\n\
         [speech]\nkind = \"espeak\"\n[voice]\nkind = \"command\"\ncommand = [\"convert\"]\n[dummies]\ncorpus = \"corpus.txt\"\n\
         [sensitive]\npatterns = [\"[0-9]+\"]\nleast_confidence = 0.25\n{}",
        providers.concat()
    )
}

#[test]
fn hostile_transcription_settings_keep_limits_or_fail() {
    let read = |text: &str| toml::from_str::<TranscriptionSettings>(text).ok();
    assert!(read(&transcription()).is_some_and(|read| read.check().is_ok()), "a good one is changed");
    let words = [
        "[[providers]]\n",
        "kind = \"pocketsphinx\"\ncommand = \"python\"\n",
        "kind = \"mcadams\"\n",
        "kind = \"url\"\nurl = ",
        "concurrency = ",
        "seconds = ",
        "per_minute = ",
        "nan",
        "http://",
        "= 65\n",
    ];
    Target::new("worker.transcription", 1_500).seed(transcription()).words(&words).run(|bytes| {
        let Some(settings) = std::str::from_utf8(bytes).ok().and_then(read) else { return };
        match settings.check() {
            Ok(()) => {
                let at_once = settings.recognizer.as_ref().map_or(1, RecognizerSettings::at_once);
                assert!((1..=MOST_AT_ONCE).contains(&at_once), "{at_once}");
                assert!(settings.providers.len() <= MOST_PROVIDERS);
                assert!(settings.providers.iter().all(|provider| provider.tariff().is_ok()), "{settings:?}");
                let written = toml::to_string(&settings).expect("what was read can be written");
                assert_eq!(read(&written), Some(settings), "{written}");
            }
            Err(ConfigError::Field { field, problem }) => {
                assert!(field.starts_with("transcription.") && !problem.is_empty(), "{field}: {problem}");
            }
            Err(error) => panic!("another error than a field's: {error}"),
        }
    });
}

#[test]
fn hostile_policies_keep_limits_or_fail() {
    let path = Path::new("policy.toml");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("policy.toml");
    let words = [
        "[jobs]\n",
        "[budget.user]\n",
        "epsilon = 1e-300\n",
        "delta = 0.5\n",
        "approval = \"manual\"\n",
        "[datasets.\"x\"]\n",
    ];
    Target::new("worker.policy", 1_500).seed(TEMPLATE).words(&words).run(|bytes| {
        std::fs::write(&file, bytes).expect("the folder is writable");
        match Policy::load(&file) {
            Ok(policy) => {
                let rules = policy.rules("ward-7");
                assert!(rules.least_threshold.get() >= 1, "{rules:?}");
                assert!(policy.dataset_names().all(|name| policy.rules(name).kinds == rules.kinds));
            }
            Err(PolicyError::Budget { field, .. }) => {
                assert!(field.contains("budget"), "{field} of {}", path.display());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}

#[test]
fn hostile_tokens_are_trustworthy_or_fail() {
    let token = |server: &str, certificate: &str| {
        let json = format!(
            "{{\"server\":\"{server}\",\"certificate\":{certificate},\"server_key\":\"{}\",\"secret\":\"{}\"}}",
            key(),
            "00".repeat(32)
        );
        (json.clone(), format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(json)))
    };
    let near = token("http://127.0.0.1:1", "null");
    let far = token("https://hub.example:1", &format!("\"{}\"", "ab".repeat(32)));
    assert!(CheckedToken::parse(&near.1).is_ok() && CheckedToken::parse(&far.1).is_ok(), "good ones are changed");
    Target::new("worker.token", 4_000).seeds([near.0, near.1, far.0, far.1]).run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        // Both the text of a token and its contents are fuzzed: few changes of the text leave a document.
        for text in [text.to_string(), format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))] {
            if let Ok(token) = CheckedToken::parse(&text) {
                let address = token.server.address();
                let safe = address.starts_with("https://") == token.server.certificate().is_some();
                assert!(safe && token.secret.len() >= 32, "{address}");
            }
        }
    });
}
