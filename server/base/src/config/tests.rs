use super::{Config, Source, TlsMode, keys};

fn environment(pairs: &[(&str, &str)]) -> config::Environment {
    let source = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    config::Environment::with_prefix("UNDERTONE").source(Some(source))
}

#[test]
fn environment_overrides_file_and_file_overrides_built_in() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("server.toml");
    std::fs::write(&file, "http = \"127.0.0.1:1\"\naccess_minutes = 5\n[tls]\nmode = \"on\"\n").expect("written");
    let config =
        Config::default().read_with(Some(&file), &environment(&[("UNDERTONE_HTTP", "127.0.0.1:2")])).expect("read");
    assert_eq!((config.http.port(), config.access_minutes, config.session_days), (2, 5, 30));
    assert_eq!(config.tls.mode, TlsMode::On);
}

#[test]
fn what_is_built_in_for_a_purpose_gives_way_to_what_is_set() {
    let quiet = Config { log: super::LogConfig { filter: "warn".to_owned(), json: false }, ..Config::default() };
    let read = |pairs: &[(&str, &str)]| quiet.read_with(None, &environment(pairs)).expect("read").log.filter;
    assert_eq!(read(&[]), "warn");
    assert_eq!(read(&[("UNDERTONE_LOG__FILTER", "debug")]), "debug");
}

#[test]
fn variables_of_other_programs_are_left_alone() {
    let config =
        Config::default().read_with(None, &environment(&[("UNDERTONE_VECTORS", "x"), ("UNDERTONE_TLS__MODE", "off")]));
    assert_eq!(config.expect("read").tls.mode, TlsMode::Off);
}

#[test]
fn a_misspelt_key_in_the_file_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("server.toml");
    std::fs::write(&file, "htpp = \"127.0.0.1:1\"\n").expect("written");
    assert!(
        Config::default()
            .read_with(Some(&file), &environment(&[]))
            .is_err_and(|error| error.to_string().contains("htpp"))
    );
}

#[test]
fn tls_is_on_as_soon_as_an_address_leaves_the_machine() {
    let mut config = Config::default();
    assert!(!config.speaks_tls());
    config.grpc = ([0, 0, 0, 0], 8421).into();
    assert!(config.speaks_tls());
}

#[test]
fn a_misspelt_key_is_refused_with_the_one_that_was_meant() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("server.toml");
    std::fs::write(&file, "[tls]\nmod = \"on\"\n").expect("written");
    let refused = Config::default().read_with(Some(&file), &environment(&[])).expect_err("no such key").to_string();
    assert!(refused.ends_with("server.toml:2: there is no key `tls.mod`: did you mean `tls.mode`?"), "{refused}");
    for (name, meant) in [("UNDERTONE_HTPP", "UNDERTONE_HTTP"), ("UNDERTONE_TLS__CERT", "UNDERTONE_TLS__CERTIFICATE")] {
        let refused =
            Config::default().read_with(None, &environment(&[(name, "x")])).expect_err("no such key").to_string();
        assert!(refused.contains(name) && refused.contains(meant), "{refused}");
    }
}

#[test]
fn every_value_names_its_source_and_no_secret_is_shown() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("server.toml");
    let text = "session_days = 7\ndatabase_url = \"postgres://u:hidden@db/x\"\n[store]\naccess_key_id = \"id\"\n";
    std::fs::write(&file, text).expect("written");
    let environment = environment(&[
        ("UNDERTONE_STORE__SECRET_ACCESS_KEY", "hidden"),
        ("UNDERTONE_TLS__MODE", "off"),
        ("UNDERTONE_DATABASE_INSECURE", "true"),
    ]);
    let config = Config::default().read_with(Some(&file), &environment).expect("read");
    let all = keys::settings(&config, Some(&file), &environment).expect("read");
    let of = |key: &str| all.iter().find(|setting| setting.key == key).expect("the key").clone();
    assert_eq!((of("session_days").value, of("session_days").source), ("7".to_owned(), Source::File));
    assert_eq!((of("tls.mode").value, of("tls.mode").source), ("\"off\"".to_owned(), Source::Environment));
    assert_eq!(of("http").source, Source::BuiltIn);
    assert_eq!(of("store.secret_access_key").value, "********");
    assert_eq!(of("database_url").value, "\"postgres://u:********@db/x\"");
    assert!(!format!("{all:?}").contains("hidden"));
}

#[test]
fn password_in_an_address_is_masked() {
    for (url, shown) in [
        ("postgres://u@db/x?user=v&password=hidden", "\"postgres://u@db/x?user=v&password=********\""),
        ("postgres://u:hidden@db/x?sslpassword=hidden", "\"postgres://u:********@db/x?sslpassword=********\""),
        // A letter that needed escaping: the end of the password is unknown.
        ("postgres://u:hid#den@db/x", "********"),
        ("postgres://u:hid/den@db/x", "********"),
        ("postgres://u:123/hidden@db/x", "********"),
        ("postgres://u@db/x?sslmode=require", "\"postgres://u@db/x?sslmode=require\""),
    ] {
        let config = Config { database_url: Some(url.to_owned()), ..Config::default() };
        let all = keys::settings(&config, None, &environment(&[])).expect("read");
        let setting = all.iter().find(|setting| setting.key == "database_url").expect("the key");
        assert_eq!(setting.value, shown, "{url}");
    }
}

#[test]
fn every_key_has_its_meaning_in_the_table() {
    let rows: Vec<String> = keys::table().lines().skip(2).map(ToOwned::to_owned).collect();
    assert!(rows.len() > 20, "{rows:?}");
    for row in rows {
        let meaning = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default().trim().to_owned();
        assert!(meaning.len() > 10, "no comment says what this is: {row}");
    }
}

#[test]
fn a_provider_without_tls_is_on_this_machine() {
    for (issuer, here) in [
        ("http://127.0.0.1:9000", true),
        ("http://localhost:9000/realm", true),
        ("http://[::1]:9000", true),
        ("https://login.example", true),
        ("http://login.example", false),
        ("http://127.0.0.1.login.example", false),
        ("http://localhost@login.example", false),
        ("http://localhost:x@login.example", false),
    ] {
        let pairs = [("UNDERTONE_OIDC__ISSUER", issuer), ("UNDERTONE_OIDC__CLIENT_ID", "undertone")];
        let read = Config::default().read_with(None, &environment(&pairs));
        assert_eq!(read.is_ok(), here, "{issuer}: {read:?}");
    }
}

#[test]
fn values_outside_their_range_are_refused_by_name() {
    for (variable, value, key) in [
        ("UNDERTONE_RATES__BY_CALLER", "59", "rates.by_caller"),
        ("UNDERTONE_RATES__BY_ADDRESS", "1000001", "rates.by_address"),
        ("UNDERTONE_RATES__BY_WORKER", "59", "rates.by_worker"),
        ("UNDERTONE_RATES__BY_ORGANIZATION", "59", "rates.by_organization"),
        ("UNDERTONE_TLS__ROTATE_DAYS", "59", "tls.rotate_days"),
        ("UNDERTONE_ACCESS_MINUTES", "0", "access_minutes"),
        ("UNDERTONE_SESSION_DAYS", "91", "session_days"),
        ("UNDERTONE_ANSWER_DAYS", "0", "answer_days"),
        ("UNDERTONE_ANSWER_DAYS", "29", "answer_days"),
        ("UNDERTONE_OIDC__ISSUER", "http://login.example", "oidc.issuer"),
        ("UNDERTONE_OIDC__ISSUER", "https://login.example", "oidc.client_id"),
        ("UNDERTONE_STORE__URL", "gs://bucket", "store.url"),
        ("UNDERTONE_STORE__ENDPOINT", "http://s3.example", "store.endpoint"),
        ("UNDERTONE_STORE__JOB_GIB", "0", "store.job_gib"),
        ("UNDERTONE_STORE__ORGANIZATION_GIB", "1048577", "store.organization_gib"),
        ("UNDERTONE_STORE__UNFINISHED_DAYS", "0", "store.unfinished_days"),
        ("UNDERTONE_DATABASE_URL", "postgres://db.example/x", "database_url"),
        ("UNDERTONE_STORE__ACCESS_KEY_ID", "id", "store.secret_access_key"),
        ("UNDERTONE_TLS__NEXT_CERTIFICATE", "next.pem", "tls.next_certificate"),
    ] {
        let refused = Config::default().read_with(None, &environment(&[(variable, value)])).expect_err("out of range");
        assert!(refused.to_string().contains(key), "{refused}");
    }
}

#[test]
fn unreadable_value_names_its_place_key_and_words() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("server.toml");
    for (text, key, reason) in [
        ("[tls]\nmode = \"maybe\"\n", "`tls.mode`", "`auto`, `on`, `off`"),
        ("http = \"x\"\n", "`http`", "socket address"),
        ("access_minutes = \"soon\"\n", "`access_minutes`", "u32"),
    ] {
        std::fs::write(&file, text).expect("written");
        let refused = Config::default().read_with(Some(&file), &environment(&[])).expect_err("unreadable").to_string();
        assert!(refused.contains("server.toml") && refused.contains(key) && refused.contains(reason), "{refused}");
    }
    let refused = Config::default().read_with(None, &environment(&[("UNDERTONE_TLS__MODE", "maybe")]));
    let refused = refused.expect_err("unreadable").to_string();
    assert!(refused.contains("the environment: `UNDERTONE_TLS__MODE`") && refused.contains("`auto`"), "{refused}");
}

#[test]
fn value_outside_its_range_names_its_place() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("server.toml");
    std::fs::write(&file, "session_days = 91\n").expect("written");
    let refused = Config::default().read_with(Some(&file), &environment(&[])).expect_err("out of range").to_string();
    assert!(refused.contains("server.toml:1: session_days: use 1 to 90"), "{refused}");
    let refused = Config::default().read_with(None, &environment(&[("UNDERTONE_SESSION_DAYS", "91")]));
    let refused = refused.expect_err("out of range").to_string();
    assert!(refused.contains("the environment: session_days"), "{refused}");
}
