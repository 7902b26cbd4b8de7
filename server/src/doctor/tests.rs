use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use time::macros::datetime;
use time::{Duration as Span, OffsetDateTime};

use super::report::{CheckState, Examination};
use super::{certificate, database, examine, folder, ledger, notice, provider, run, signer};
use crate::testing::{TestApp, on_both, tamper};
use undertone_server_core::config::{Config, MailConfig, MailTls, ProviderConfig, TlsMode, WebhookConfig};
use undertone_server_core::ctx::{Clock, Random};
use undertone_server_core::db::ServerFacts;
use undertone_server_core::service::alarm::AlarmCounts;
use undertone_server_core::service::world::TestConsortium;

const NOW: OffsetDateTime = datetime!(2026-11-20 12:00 UTC);

/// Returns the worst state among the results of one check; `None` if the check was not made.
fn state(report: &Examination, check: &str) -> Option<CheckState> {
    report.results().iter().filter(|result| result.check == check).map(|result| result.state).max()
}

fn detail(report: &Examination, check: &str) -> String {
    let of_check = report.results().iter().filter(|result| result.check == check);
    let lines =
        of_check.map(|result| [&result.detail, " -> ", result.remedy.as_deref().unwrap_or_default(), "\n"].concat());
    lines.collect()
}

/// Checks a configuration by this machine's clock, which the database shares.
async fn look(config: &Config) -> Examination {
    examine(config, &Clock::system()).await
}

/// Returns the state of one judgement.
fn judged(judge: impl FnOnce(&mut Examination)) -> CheckState {
    let mut report = Examination::default();
    judge(&mut report);
    report.results().iter().map(|result| result.state).max().expect("a result")
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("readable").flatten();
    // SQLite creates and removes these files with its connections.
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm")).collect()
}

on_both! {
    async fn healthy_server_has_no_fault_and_is_left_as_it_was(app: &TestApp) {
        TestConsortium::new(&app.ctx, 1, 8.0).await;
        let before = (names(app.data_dir()), names(&app.data_dir().join("objects")));
        let report = look(&app.ctx.config).await;
        assert!(report.holds(), "{report}");
        for check in ["configuration", "data folder", "keys", "database", "migrations", "writer", "log", "store", "clock"] {
            assert!(state(&report, check).is_some(), "{check}: {report}");
        }
        for check in ["keys", "migrations", "log", "store", "clock"] {
            assert_eq!(state(&report, check), Some(CheckState::Ok), "{check}: {report}");
        }
        assert_eq!((names(app.data_dir()), names(&app.data_dir().join("objects"))), before);
    }

    async fn tables_of_a_later_program_are_pointed_out(app: &TestApp) {
        let later = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m99991231_000000_later', 1)";
        tamper(&app.ctx, "seaql_migrations", later).await;
        let report = look(&app.ctx.config).await;
        assert_eq!(state(&report, "migrations"), Some(CheckState::Warn), "{report}");
        assert!(detail(&report, "migrations").contains("m99991231_000000_later"), "{report}");
        assert_eq!(state(&report, "log"), None, "tables of another program are not read");
    }

    async fn another_signing_key_fails_the_log(app: &TestApp) {
        TestConsortium::new(&app.ctx, 1, 8.0).await;
        std::fs::remove_file(app.data_dir().join("signing.key")).expect("it is there");
        let report = look(&app.ctx.config).await;
        assert_eq!(state(&report, "keys"), Some(CheckState::Fail), "{report}");
        assert!(detail(&report, "keys").contains("signing.key is missing"), "{report}");
        undertone_server_core::keys::signing_key(app.data_dir(), &Random::seeded(9)).expect("made");
        let report = look(&app.ctx.config).await;
        assert_eq!((state(&report, "keys"), state(&report, "log")), (Some(CheckState::Ok), Some(CheckState::Fail)), "{report}");
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_and_missing_objects_are_found_with_remedies() {
    use std::os::unix::fs::PermissionsExt as _;

    let app = TestApp::sqlite().await;
    let config = app.ctx.config.clone();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    mode(&config.data_dir, 0o755);
    let report = look(&config).await;
    assert_eq!(state(&report, "data folder"), Some(CheckState::Warn), "{report}");
    assert!(detail(&report, "data folder").contains("chmod 700"), "{report}");
    mode(&config.data_dir, 0o700);
    mode(&config.data_dir.join("token.key"), 0o644);
    let report = look(&config).await;
    assert_eq!(state(&report, "keys"), Some(CheckState::Fail), "{report}");
    assert!(detail(&report, "keys").contains("chmod 600"), "{report}");
    mode(&config.data_dir.join("token.key"), 0o600);
    std::fs::remove_dir_all(config.data_dir.join("objects")).expect("it is there");
    assert_eq!(state(&look(&config).await, "store"), Some(CheckState::Fail));
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_folder_is_no_fault_but_an_unreachable_database_is() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let data_dir = dir.path().join("data");
    let mut config = Config { data_dir: data_dir.clone(), ..Config::default() };
    config.http.set_port(0);
    let report = look(&config).await;
    assert_eq!(state(&report, "database"), Some(CheckState::Warn), "{report}");
    assert_eq!(state(&report, "keys"), Some(CheckState::Warn), "{report}");
    assert!(report.holds(), "{report}");
    assert!(!data_dir.exists(), "nothing is made");

    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    config.database_url = Some(format!("postgres://u:hidden@{free}/x"));
    config.oidc.issuer = Some(format!("http://{free}"));
    config.oidc.client_id = "undertone".to_owned();
    let report = look(&config).await;
    assert_eq!(state(&report, "database"), Some(CheckState::Fail), "{report}");
    assert!(detail(&report, "database").contains(&free.to_string()), "{report}");
    assert_eq!(state(&report, "provider"), Some(CheckState::Fail), "{report}");
    assert!(!report.to_string().contains("hidden"), "{report}");
}

#[tokio::test]
async fn mistake_in_the_configuration_is_a_failed_check() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("server.toml");
    std::fs::write(&file, "answer_days = 99\n").expect("written");
    let report = run(Some(&file), &Clock::system()).await;
    assert!(!report.holds());
    assert_eq!(state(&report, "configuration"), Some(CheckState::Fail));
    assert!(detail(&report, "configuration").contains("answer_days"), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_server_is_asked_and_a_stopped_one_is_missed() {
    let free = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("bound")
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut config = Config { data_dir: dir.path().join("data"), ..Config::default() };
    config.http = free();
    config.grpc = free();
    config.metrics = Some(free());
    config.tls.mode = TlsMode::On;
    let app = crate::build(config.clone(), Clock::system(), Random::seeded(1)).await.expect("the server starts");
    let ctx = app.ctx.clone();
    let serving = tokio::spawn(app.serve());
    let report = look(&config).await;
    for check in ["server", "workers", "metrics", "certificate"] {
        assert_eq!(state(&report, check), Some(CheckState::Ok), "{check}: {report}");
    }
    assert!(detail(&report, "certificate").contains("shows the one of its files"), "{report}");

    ctx.shutdown.cancel();
    serving.await.expect("no panic").expect("it ends in order");
    let report = look(&config).await;
    assert_eq!(state(&report, "server"), Some(CheckState::Warn), "{report}");
    assert_eq!(state(&report, "metrics"), None, "what does not run has no metrics");
    ctx.db.clone().close().await.expect("closed");
}

#[test]
fn own_certificate_is_judged_by_its_dates() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut config = Config::default();
    config.tls.mode = TlsMode::On;
    let mut params = CertificateParams::new(vec!["undertone.example".to_owned()]).expect("a name");
    params.not_before = NOW;
    params.not_after = NOW + Span::days(100);
    let key = KeyPair::generate().expect("made");
    let certificate = params.self_signed(&key).expect("made").pem();
    let path = dir.path().join("own.pem");
    let key_path = dir.path().join("own.key");
    std::fs::write(&path, certificate).expect("written");
    std::fs::write(&key_path, key.serialize_pem()).expect("written");
    config.tls.certificate = Some(path.clone());
    config.tls.key = Some(key_path.clone());
    for (days, wanted) in [
        (-1, CheckState::Fail),
        (1, CheckState::Ok),
        (69, CheckState::Ok),
        (71, CheckState::Warn),
        (101, CheckState::Fail),
    ] {
        let found = judged(|report| certificate::check(&config, NOW + Span::days(days), report));
        assert_eq!(found, wanted, "day {days}");
    }
    config.tls.next_certificate = Some(path);
    let found = judged(|report| certificate::check(&config, NOW + Span::days(71), report));
    assert_eq!(found, CheckState::Ok, "the next one is named");
    let other = KeyPair::generate().expect("made");
    std::fs::write(&key_path, other.serialize_pem()).expect("written");
    let found = judged(|report| certificate::check(&config, NOW + Span::days(1), report));
    assert_eq!(found, CheckState::Fail, "the key is another's");
}

#[tokio::test]
async fn further_providers_and_the_ways_of_notices_are_examined() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let open = listener.local_addr().expect("bound");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let further = ProviderConfig {
        id: "clinic".to_owned(),
        issuer: format!("http://{closed}"),
        client_id: "undertone".to_owned(),
        client_secret_file: None,
        name: "the clinic".to_owned(),
        scopes: "openid".to_owned(),
        allow_signup: false,
        domains: String::new(),
    };
    let mail = MailConfig {
        server: Some(closed.to_string()),
        tls: MailTls::None,
        from: "Undertone <undertone@example.org>".to_owned(),
        ..MailConfig::default()
    };
    let webhook = WebhookConfig {
        url: Some(format!("http://{open}/")),
        secret: Some("0123456789abcdef0123456789abcdef".to_owned()),
        private_network: true,
    };
    let mut config = Config { providers: vec![further], mail, webhook, ..Config::default() };
    let mut report = Examination::default();
    provider::check(&config, &mut report).await;
    notice::check(&config, &mut report).await;
    assert_eq!(state(&report, "provider"), Some(CheckState::Fail), "{report}");
    assert_eq!(state(&report, "mail"), Some(CheckState::Fail), "{report}");
    assert_eq!(state(&report, "webhook"), Some(CheckState::Ok), "{report}");
    config.webhook.private_network = false;
    let mut report = Examination::default();
    notice::check(&config, &mut report).await;
    assert_eq!(state(&report, "webhook"), Some(CheckState::Fail), "a private address: {report}");
}

#[test]
fn certificates_of_signing_keys_are_judged_by_their_end() {
    for (left, wanted) in [
        (signer::NOTICE, CheckState::Ok),
        (signer::NOTICE - Span::SECOND, CheckState::Warn),
        (Span::SECOND, CheckState::Warn),
        (Span::ZERO, CheckState::Fail),
    ] {
        assert_eq!(judged(|report| signer::judge_end(NOW + left, NOW, report)), wanted, "{left}");
    }
}

#[test]
fn plain_listeners_beyond_the_machine_are_a_warning() {
    let mut config = Config { http: ([0, 0, 0, 0], 8420).into(), ..Config::default() };
    config.tls.mode = TlsMode::Off;
    assert_eq!(judged(|report| certificate::check(&config, NOW, report)), CheckState::Warn);
    assert_eq!(judged(|report| certificate::check(&Config::default(), NOW, report)), CheckState::Ok);
}

#[test]
fn room_clock_and_turn_are_judged_at_their_limits() {
    for (free, wanted) in [
        (folder::LEAST_MIB - 1, CheckState::Fail),
        (folder::LEAST_MIB, CheckState::Warn),
        (folder::FEW_MIB, CheckState::Ok),
    ] {
        assert_eq!(judged(|report| folder::judge_room(free, "data", report)), wanted, "{free} MiB");
    }
    for (seconds, wanted) in [
        (0, CheckState::Ok),
        (-database::SKEW, CheckState::Ok),
        (database::SKEW + 1, CheckState::Warn),
        (-database::FAR, CheckState::Warn),
        (database::FAR + 1, CheckState::Fail),
    ] {
        let found = judged(|report| database::judge_skew(NOW + Span::seconds(seconds), NOW, report));
        assert_eq!(found, wanted, "{seconds} s");
    }
    let instant = Duration::from_millis(1);
    assert_eq!(judged(|report| database::judge_turn(database::SLOW_TURN, report)), CheckState::Ok);
    assert_eq!(judged(|report| database::judge_turn(database::SLOW_TURN + instant, report)), CheckState::Warn);
}

#[test]
fn crowded_database_server_and_old_transactions_are_warnings() {
    let quiet = ServerFacts {
        now: NOW,
        used_connections: 10,
        most_connections: 100,
        waiting_writers: 0,
        oldest_transaction: Duration::ZERO,
    };
    let judge = |server: &ServerFacts| judged(|report| database::judge_server(server, report));
    assert_eq!(judge(&quiet), CheckState::Ok);
    assert_eq!(judge(&ServerFacts { used_connections: 95, ..quiet.clone() }), CheckState::Warn);
    assert_eq!(judge(&ServerFacts { oldest_transaction: Duration::from_hours(1), ..quiet }), CheckState::Warn);
}

#[test]
fn waiting_migrations_are_named() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut report = Examination::default();
    assert!(!database::judge_migrations(&names(&["a"]), &names(&["a", "b", "c"]), &mut report));
    assert!(detail(&report, "migrations").contains("2 wait, the first is b"), "{report}");
    assert!(database::judge_migrations(&names(&["a"]), &names(&["a"]), &mut Examination::default()));
}

#[test]
fn alarms_are_judged_by_their_weight() {
    let judge = |counts: AlarmCounts| {
        let mut report = Examination::default();
        ledger::judge_alarms(&counts, NOW, &mut report);
        (state(&report, "alarms"), state(&report, "backup"))
    };
    let quiet = AlarmCounts { operators: 2, newest_backup: Some(NOW - ledger::BACKUP_AGE), ..AlarmCounts::default() };
    assert_eq!(judge(quiet.clone()), (Some(CheckState::Ok), Some(CheckState::Ok)));
    for counts in [
        AlarmCounts { frozen_lineages: 1, ..quiet.clone() },
        AlarmCounts { late_rounds: 1, ..quiet.clone() },
        AlarmCounts { operators: 1, ..quiet.clone() },
    ] {
        assert_eq!(judge(counts.clone()).0, Some(CheckState::Warn), "{counts:?}");
    }
    assert_eq!(judge(AlarmCounts { later_heads: 1, ..quiet.clone() }).0, Some(CheckState::Fail));
    let old = Some(NOW - ledger::BACKUP_AGE - Span::seconds(1));
    assert_eq!(judge(AlarmCounts { newest_backup: old, ..quiet.clone() }).1, Some(CheckState::Warn));
    assert_eq!(judge(AlarmCounts { newest_backup: None, ..quiet }).1, Some(CheckState::Warn));
}
