use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::SigningKey;
use undertone_api::id::{OrganizationId, WorkerId};
use undertone_api::worker::EnrolmentToken;
use uuid::Uuid;

use super::queries::Queries;
use super::{CheckedToken, Config, ConfigError, ServerEndpoint, TOKEN_PREFIX, parse_proxy};
use crate::dp::device::{Compute, Processor};
use crate::site::folder::Folder;

fn token(server: &str, certificate: Option<&str>) -> String {
    let token = EnrolmentToken {
        server: server.to_owned(),
        certificate: certificate.map(str::to_owned),
        server_key: hex::encode(SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes()),
        server_root: None,
        secret: "00".repeat(32),
    };
    format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a token has a JSON form")))
}

#[test]
fn token_contains_server_pin_key_and_secret() {
    let pin = "ab".repeat(32);
    let parsed =
        CheckedToken::parse(&format!("  {}\n", token("https://hub.example:7443/", Some(&pin)))).expect("a good token");
    assert_eq!(parsed.server.address(), "https://hub.example:7443");
    assert_eq!(parsed.server.certificate(), Some([0xab; 32]));
    assert_eq!(parsed.server_key, SigningKey::from_bytes(&[1; 32]).verifying_key());
    assert_eq!(parsed.secret, "00".repeat(32));
}

#[test]
fn damaged_token_is_refused() {
    let good = token("http://127.0.0.1:7443", None);
    for bad in ["", "hello", "ute1.", "ute1.!!!", good.trim_start_matches("ute1."), &good[..good.len() / 2]] {
        let error = CheckedToken::parse(bad).expect_err("not a whole token");
        assert!(matches!(error, ConfigError::Token(_)), "{bad:?}: {error}");
    }
}

#[test]
fn plain_http_never_leaves_the_machine() {
    for address in ["http://127.0.0.1:7443", "http://localhost:1", "http://[::1]:7443", "http://127.8.9.1"] {
        assert!(ServerEndpoint::new(address, None).is_ok(), "{address}");
    }
    for address in [
        "http://hub.example:7443",
        "http://10.0.0.1:7443",
        "http://0.0.0.0:7443",
        "http://localhost.example:7443",
        "http://localhost@hub.example",
        "http://[::2]:7443",
        "ftp://localhost",
        "localhost:7443",
        "http://",
        "http://localhost:99999",
        "http://localhost/path",
    ] {
        assert!(ServerEndpoint::new(address, None).is_err(), "{address}");
    }
}

#[test]
fn tls_needs_a_pin_and_a_pin_needs_tls() {
    let pin = "cd".repeat(32);
    assert!(ServerEndpoint::new("https://hub.example", Some(&pin)).is_ok());
    assert!(ServerEndpoint::new("https://hub.example", None).is_err());
    assert!(ServerEndpoint::new("https://hub.example", Some("cd")).is_err());
    assert!(ServerEndpoint::new("http://localhost:1", Some(&pin)).is_err());
}

#[test]
fn written_configuration_is_read_back() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    assert!(matches!(Config::load(&folder), Err(ConfigError::NotEnrolled(_))));
    let written = Config {
        server: ServerEndpoint::new("https://hub.example:7443", Some(&"ef".repeat(32)))
            .expect("a good address")
            .with_proxy(
                parse_proxy(Some("https://ward:secret@proxy.example:3128"), Some("/etc/proxy.pem".into()))
                    .expect("a proxy"),
            ),
        server_key: SigningKey::from_bytes(&[1; 32]).verifying_key(),
        worker: WorkerId(Uuid::from_u128(1)),
        worker_name: "north".to_owned(),
        organization: OrganizationId(Uuid::from_u128(2)),
        organization_name: "North \"Hospital\"".to_owned(),
        concurrent_runs: 2,
        rotate_key_days: 90,
        anchor: Some("/mnt/other/anchor".into()),
        compute: Compute { device: Processor::Wgpu(1), threads: 3 },
        queries: Queries { memory_mib: 64, shared: Some("/mnt/shared".into()), ..Queries::default() },
        transcription: crate::config::transcription::TranscriptionSettings::default(),
        programs: crate::speech::sandbox::Programs::default(),
    };
    written.store(&folder).expect("the folder is writable");
    let read = Config::load(&folder).expect("it was just written");
    assert_eq!(read.server, written.server);
    assert_eq!(read.anchor, written.anchor);
    assert_eq!(
        (
            read.server_key,
            read.worker,
            read.worker_name,
            read.organization,
            read.organization_name,
            read.concurrent_runs,
            read.compute,
            read.queries
        ),
        (
            written.server_key,
            written.worker,
            written.worker_name,
            written.organization,
            written.organization_name,
            written.concurrent_runs,
            written.compute,
            written.queries
        )
    );
}

#[test]
fn older_configuration_uses_the_cpu() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let config = |end: &str| {
        let key = hex::encode(SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes());
        let id = Uuid::from_u128(1);
        let text = format!(
            "server = \"http://127.0.0.1:1\"\nserver_key = \"{key}\"\nworker = \"{id}\"\nworker_name = \"north\"\n\
             organization = \"{id}\"\norganization_name = \"North\"\n{end}"
        );
        std::fs::write(folder.config(), text).expect("the folder is writable");
        Config::load(&folder)
    };
    assert_eq!(config("").expect("all that is needed").compute, Compute::default());
    assert_eq!(config("").expect("all that is needed").queries, Queries::default());
    let error = config("[queries]\nmemory_mib = 0\n").expect_err("too little");
    assert!(error.to_string().starts_with("queries.memory_mib"), "{error}");
    let cuda = config("[compute]\ndevice = \"cuda:1\"\n").expect("a device").compute;
    assert_eq!(cuda, Compute { device: Processor::Cuda(1), threads: 0 });
    let error = config("[compute]\ndevice = \"tpu\"\n").expect_err("no device");
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert!(source.is_some_and(|text| text.contains("`tpu` is no device")));
}
