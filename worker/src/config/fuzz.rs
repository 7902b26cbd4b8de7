//! Hostile configuration: a site's files, the token of its enrolment, its policy. Whatever stands there, what is wrong is
//! named.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::SigningKey;
use undertone_fuzz::Target;
use uuid::Uuid;

use super::{Config, ConfigError, TOKEN_PREFIX, Token, check};
use crate::site::policy::{Policy, PolicyError, TEMPLATE};

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
    let (key, id, pin) = (key(), Uuid::from_u128(1), "ab".repeat(32));
    format!(
        "# a comment\nserver = \"https://hub.example:7443\"\ncertificate = \"{pin}\"\nserver_key = \"{key}\"\nworker = \"{id}\"\n\
         worker_name = \"north\"\norganization = \"{id}\"\norganization_name = \"North\"\nconcurrent_runs = 2\nrotate_key_days = 90\n\
         [compute]\ndevice = \"cpu\"\nthreads = 3\n[queries]\nmemory_mib = 64\n"
    )
}

#[test]
fn whatever_a_configuration_says_its_mistakes_are_named() {
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
        let checked = check::check(&path).expect("a text can be looked at");
        let good = Config::parse(text, &path).is_ok();
        assert!(good || !checked.mistakes.is_empty(), "it is refused and nothing is said: {text}");
        for mistake in &checked.mistakes {
            assert!(!mistake.problem.is_empty() && mistake.line.is_none_or(|line| line >= 1), "{mistake:?}");
        }
    });
}

#[test]
fn no_text_is_a_policy_unless_its_limits_can_be_kept() {
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
                assert!(policy.named().all(|name| policy.rules(name).kinds == rules.kinds));
            }
            Err(PolicyError::Budget { field, .. }) => {
                assert!(field.contains("budget"), "{field} of {}", path.display());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}

#[test]
fn no_text_is_a_token_unless_all_of_it_can_be_trusted() {
    let token = |server: &str, certificate: &str| {
        let json = format!(
            "{{\"server\":\"{server}\",\"certificate\":{certificate},\"server_key\":\"{}\",\"secret\":\"{}\"}}",
            key(),
            "00".repeat(32)
        );
        (json.clone(), format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(json)))
    };
    let (near, far) =
        (token("http://127.0.0.1:1", "null"), token("https://hub.example:1", &format!("\"{}\"", "ab".repeat(32))));
    assert!(Token::parse(&near.1).is_ok() && Token::parse(&far.1).is_ok(), "good ones are changed");
    Target::new("worker.token", 4_000).seeds([near.0, near.1, far.0, far.1]).run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        // The text of a token, and what stands in one: few changes of the first leave a document.
        for text in [text.to_string(), format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))] {
            if let Ok(token) = Token::parse(&text) {
                let address = token.server.address();
                let safe = address.starts_with("https://") == token.server.certificate().is_some();
                assert!(safe && token.secret.len() >= 32, "{address}");
            }
        }
    });
}
