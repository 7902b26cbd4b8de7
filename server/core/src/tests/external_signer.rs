//! Programs and a hardware module that sign for a whole server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::mechanism::Mechanism;
use cryptoki::object::Attribute;
use cryptoki::session::UserType;
use cryptoki::types::AuthPin;
use ed25519_dalek::VerifyingKey;
use undertone_api::problem::Code;
use undertone_api::signed::{KeyPurpose, Manifest, Signed, SignedError};

use crate::config::{SignerConfig, SignerKind};
use crate::keys::{ExternalSigner, write_secret};
use crate::service::world::{self, TestConsortium};
use crate::service::{bundle, pins};
use crate::testing::TestApp;
use crate::testing::signer::TestProgram;
use crate::verify;

const CHALLENGE: &str = "abababababababababababababababababababababababababababababababab";
/// The place of SoftHSM's module where a distribution has it.
const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
/// The name of Ed25519 as a printable string in DER, as SoftHSM takes it.
const ED25519: &[u8] = b"\x13\x0cedwards25519";
const PIN: &str = "0123";

fn open(signer: &SignerConfig) -> ExternalSigner {
    ExternalSigner::open(signer).expect("usable").expect("external")
}

/// Verifies what a server has signed with an external key: a manifest, and the whole log.
async fn check_signatures(app: &TestApp, key: VerifyingKey) {
    assert_eq!(app.ctx.signer.verifying_key(), key);
    let file = std::fs::read_to_string(app.data_dir().join("signing.key")).expect("made");
    assert_eq!(file, format!("public {}", hex::encode(key.as_bytes())), "no private key is in the folder");
    let world = TestConsortium::new(&app.ctx, 1, 8.0).await;
    let job = world.propose(world.spec(2)).await.expect("signed");
    let row = world::row(&app.ctx, job.summary.id).await;
    let manifest = Signed { payload: row.manifest, signature: row.signature };
    manifest.open::<Manifest>(&key).expect("the external key signed it");
    let report = bundle::examine(&app.ctx.db, &key, verify::Pins::default(), app.ctx.now()).await.expect("read");
    assert!(report.holds(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_signs_with_a_program() {
    let program = TestProgram::new();
    let app = TestApp::sqlite_with(|config| config.signer = program.signer()).await;
    check_signatures(&app, program.key()).await;
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_signature_of_a_program_is_refused() {
    let program = TestProgram::new();
    for lines in [
        // The signature of another message, and none at all.
        "printf '%0128d' 0\n",
        "echo no signature\n",
        "exit 1\n",
    ] {
        let signer = open(&program.signer_of(lines));
        let outcome = signer.sign(&program.key(), b"a message", Some(KeyPurpose::Log)).await;
        assert!(matches!(outcome, Err(SignedError::Unavailable(_))), "{lines}: {outcome:?}");
    }
    let another = TestProgram::new();
    let signer = open(&SignerConfig { public_key: another.signer().public_key, ..program.signer() });
    signer.sign(&another.key(), b"a message", None).await.expect_err("the program has another key");
    let signer = open(&program.signer());
    let message = vec![7; 300_000];
    signer.sign(&program.key(), &message, None).await.expect("a message that fills the pipe");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_program_is_answered_with_unavailable() {
    let program = TestProgram::new();
    let slow = SignerConfig { seconds: 1, ..program.signer_of("exec sleep 60\n") };
    let app = TestApp::sqlite_with(|config| config.signer = slow).await;
    let start = Instant::now();
    let refused = pins::pins(&app.ctx, CHALLENGE).await.expect_err("nothing is signed in time");
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    app.close().await;
}

/// Runs the test below in a process of its own, since the place of the tokens stands in the environment.
#[test]
fn server_signs_with_a_hardware_module() {
    let Some(module) = softhsm() else {
        eprintln!("NOT TESTED: no SoftHSM. Run .ci/setup.sh, or name the module in UNDERTONE_SOFTHSM");
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let tokens = dir.path().join("tokens");
    std::fs::create_dir(&tokens).expect("the folder is writable");
    let settings = dir.path().join("softhsm2.conf");
    let text = format!("directories.tokendir = {}\nobjectstore.backend = file\n", tokens.display());
    std::fs::write(&settings, text).expect("the folder is writable");
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "tests::external_signer::token_signs_for_a_server", "--ignored", "--nocapture"])
        .env("SOFTHSM2_CONF", settings)
        .env("UNDERTONE_SOFTHSM", module)
        .output()
        .expect("it starts");
    let output_text = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].join("\n");
    assert!(output.status.success() && output_text.contains("1 passed"), "{}: {output_text}", output.status);
}

#[ignore = "server_signs_with_a_hardware_module runs it with a place for tokens"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_signs_for_a_server() {
    let module = softhsm().expect("named by the caller");
    make_token(&module);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let pin_file = |name: &str, pin: &str| {
        let path = dir.path().join(name);
        write_secret(&path, pin.as_bytes()).expect("the folder is writable");
        Some(path)
    };
    let signer = SignerConfig {
        kind: SignerKind::Pkcs11,
        module: Some(module.clone()),
        token: Some("undertone".to_owned()),
        key: Some("first".to_owned()),
        pin_file: pin_file("pin", PIN),
        ..SignerConfig::default()
    };
    let stranger = open(&SignerConfig { pin_file: pin_file("wrong", "9999"), ..signer.clone() });
    for _ in 0..3 {
        let refused = stranger.public_key().await.expect_err("the wrong PIN").to_string();
        assert!(!refused.contains("9999"), "{refused}");
    }
    let absent = open(&SignerConfig { key: Some("second".to_owned()), ..signer.clone() });
    absent.public_key().await.expect_err("no such key");

    let first = open(&signer);
    let key = first.public_key().await.expect("the token names it");
    let app = TestApp::sqlite_with(|config| config.signer = signer).await;
    check_signatures(&app, key).await;
    // As when the device was gone for a moment.
    Pkcs11::new(&module).and_then(Pkcs11::finalize).expect("the sessions end");
    pins::pins(&app.ctx, CHALLENGE).await.expect("the session is opened again");
    app.close().await;
}

/// Returns SoftHSM's module, when this machine has one.
fn softhsm() -> Option<PathBuf> {
    let path = std::env::var_os("UNDERTONE_SOFTHSM").map(PathBuf::from);
    path.or_else(|| Some(PathBuf::from(SOFTHSM)).filter(|path| path.exists()))
}

/// Makes a token with an Ed25519 key pair.
fn make_token(module: &Path) {
    let officer_pin = AuthPin::from("officer".to_owned());
    let pin = AuthPin::from(PIN.to_owned());
    let module = Pkcs11::new(module).expect("the module is a library");
    module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).expect("initialized");
    let slot = module.get_slots_with_token().expect("slots")[0];
    module.init_token(slot, &officer_pin, "undertone").expect("the slot is free");
    let is_named = |slot| module.get_token_info(slot).is_ok_and(|info| info.label() == "undertone");
    let slots = module.get_slots_with_token().expect("slots");
    let slot = slots.into_iter().find(|slot| is_named(*slot)).expect("the token");
    let session = module.open_rw_session(slot).expect("a session");
    session.login(UserType::So, Some(&officer_pin)).expect("the officer");
    session.init_pin(&pin).expect("the user's PIN");
    session.logout().expect("logged out");
    session.login(UserType::User, Some(&pin)).expect("the user");
    let names = || [Attribute::Token(true), Attribute::Label(b"first".to_vec()), Attribute::Id(vec![1])];
    let mut public = names().to_vec();
    public.extend([Attribute::Verify(true), Attribute::EcParams(ED25519.to_vec())]);
    let mut private = names().to_vec();
    private.extend([Attribute::Private(true), Attribute::Sensitive(true), Attribute::Sign(true)]);
    session.generate_key_pair(&Mechanism::EccEdwardsKeyPairGen, &public, &private).expect("a key pair");
    drop(session);
    module.finalize().expect("finalized");
}
