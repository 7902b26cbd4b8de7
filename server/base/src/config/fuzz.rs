//! Hostile configuration files: for any content, the server refuses to start with an error that names the wrong part,
//! or starts within its limits.

use undertone_fuzz::Target;

use super::{Config, ConfigError};

const GOOD: &str = "# a comment\nhttp = \"127.0.0.1:8420\"\ngrpc = \"127.0.0.1:8421\"\naccess_minutes = 15\nsession_days = 30\n\
                    require_two_factor = false\n[tls]\nmode = \"off\"\nrotate_days = 365\n[oidc]\nname = \"the provider\"\n\
                    [store]\nurl = \"s3://bucket/prefix\"\n[rates]\nby_caller = 6000\nby_address = 0\n[log]\nfilter = \"info\"\njson = true\n";

#[test]
fn no_file_is_a_configuration_unless_its_values_are_in_range() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("server.toml");
    let nothing = config::Environment::with_prefix("UNDERTONE").source(Some(config::Map::new()));
    let words = [
        "[tls]\n",
        "[oidc]\n",
        "issuer = \"http://\"\n",
        "= 1979-05-27",
        "nan",
        "\"\"\"",
        "a.b.c = ",
        "[[log]]\n",
        "{ x = ",
    ];
    Target::new("server.config", 1_200).seed(GOOD).words(&words).run(|bytes| {
        std::fs::write(&path, bytes).expect("the folder is writable");
        match Config::default().read_with(Some(&path), &nothing) {
            Ok(config) => {
                assert!((1..=60).contains(&config.access_minutes) && (1..=90).contains(&config.session_days));
                let rates = [config.rates.by_caller, config.rates.by_address];
                assert!(rates.iter().all(|rate| *rate == 0 || (60..=1_000_000).contains(rate)), "{rates:?}");
                let _ = (config.database(), config.speaks_tls());
            }
            Err(ConfigError::Placed { place, key, remedy }) => {
                assert!(
                    place.contains("server.toml") && !key.is_empty() && !remedy.is_empty(),
                    "{place}: {key}: {remedy}"
                );
            }
            Err(ConfigError::Wrong { place, key, reason }) => {
                assert!(
                    place.contains("server.toml") && !key.is_empty() && !reason.is_empty(),
                    "{place}: {key}: {reason}"
                );
            }
            Err(error @ ConfigError::Value { .. }) => panic!("built-in values are in range: {error}"),
            Err(ConfigError::Unknown { place, unknown }) => {
                assert!(place.contains("server.toml") && unknown.to_string().contains('`'), "{place}: {unknown}");
            }
            Err(ConfigError::Read(error)) => assert!(!error.to_string().is_empty()),
        }
    });
}

#[test]
fn the_file_that_is_changed_is_a_good_one() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("server.toml");
    std::fs::write(&path, GOOD).expect("the folder is writable");
    let nothing = config::Environment::with_prefix("UNDERTONE").source(Some(config::Map::new()));
    let read = Config::default().read_with(Some(&path), &nothing).expect("a good file");
    assert_eq!((read.access_minutes, read.log.json), (15, true));
}
