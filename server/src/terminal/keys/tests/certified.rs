//! Keys that a root certifies, from the request to the signature that a site verifies, on two servers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use time::Duration;
use undertone_api::log::witness::WitnessError;
use undertone_api::problem::Code;
use undertone_api::signed::{
    CertificatePins, Countersignature, KeyPurpose, LogHead, Receipt, SignatureScope, Signed, SignedError,
    SigningAuthority, TrustedServer, key_id,
};

use super::{command, copy, execute, replica};
use crate::App;
use crate::terminal::keys::{InstallOptions, KeysCommand, KeysError, RequestOptions, RootFile, SignOptions};
use crate::testing::signer::TestProgram;
use crate::testing::{TestApp, on_both, tamper};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::keys::ceremony::CeremonyError;
use undertone_server_core::keys::online::ONLINE_FILE;
use undertone_server_core::service::world::TestConsortium;
use undertone_server_core::service::{bundle, log, pins, receipt as receipts, witness};
use undertone_server_core::verify;

const CHALLENGE: &str = "abababababababababababababababababababababababababababababababab";

/// The folder of the root's holder.
struct OfflineMachine {
    dir: tempfile::TempDir,
    root: String,
}

impl OfflineMachine {
    /// Makes a root.
    async fn new(app: &TestApp) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join("passphrase"), "a long enough passphrase\n").expect("writable");
        let mut machine = Self { dir, root: String::new() };
        let text = command(app, KeysCommand::CreateRoot(machine.root_file())).await.expect("made");
        let key = text.strip_prefix("The root's public key is ").expect("it is shown");
        machine.root = key[..64].to_owned();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn root_file(&self) -> RootFile {
        RootFile { root_file: self.path("root.age"), passphrase_file: self.path("passphrase") }
    }

    /// Makes a request at the server.
    async fn request(&self, app: &TestApp) {
        let options = RequestOptions { file: self.path("request.json"), root: Some(self.root.clone()) };
        command(app, KeysCommand::Request(options)).await.expect("requested");
    }

    /// Signs the request, for keys that are valid in an hour.
    async fn sign(&self, app: &TestApp, serial: Option<u64>, revoke: bool) -> Result<String, KeysError> {
        command(app, KeysCommand::Sign(SignOptions { serial, revoke, ..self.sign_options(60) })).await
    }

    /// Returns the options to sign the request, for keys that are valid after so many minutes.
    fn sign_options(&self, after: u32) -> SignOptions {
        SignOptions {
            request: self.path("request.json"),
            output: self.path("grant.json"),
            root: self.root_file(),
            days: 90,
            after,
            serial: None,
            revoke: false,
        }
    }

    /// Installs the certificates.
    async fn install(&self, app: &TestApp) -> Result<String, KeysError> {
        command(app, KeysCommand::Install(InstallOptions { file: self.path("grant.json") })).await
    }

    /// Performs all steps, and lets the server read the new keys.
    async fn certify(&self, app: &TestApp, revoke: bool) {
        self.request(app).await;
        self.sign(app, None, revoke).await.expect("signed");
        self.install(app).await.expect("installed");
        app.ctx.signer.reload(app.clock.now());
    }
}

/// A site that follows the server's keys.
struct FollowingSite(Mutex<TrustedServer>);

impl FollowingSite {
    fn new(ctx: &Ctx) -> Self {
        Self(Mutex::new(TrustedServer::new(&ctx.signer.verifying_key())))
    }

    fn state(&self) -> TrustedServer {
        self.0.lock().expect("no other thread").clone()
    }
}

impl SigningAuthority for FollowingSite {
    fn verify_message(&self, message: &[u8], signature: &str, scope: SignatureScope) -> Result<(), SignedError> {
        let mut state = self.0.lock().expect("no other thread");
        if let Some(next) = state.examine(message, signature, scope)? {
            *state = next;
        }
        Ok(())
    }

    fn log_id(&self) -> String {
        self.state().first().map(|key| key_id(&key)).unwrap_or_default()
    }
}

/// Requests a server's certified keys.
async fn ask(ctx: &Ctx) -> Signed {
    pins::pins(ctx, CHALLENGE).await.expect("signed")
}

/// Sets a budget, and returns the head of the log that contains it.
async fn newest_head(app: &TestApp, world: &TestConsortium, epsilon: f64) -> Signed {
    world.set_budget(&world.sites[1], epsilon).await.expect("another limit");
    log::newest_of(&app.ctx.db).await.expect("read").expect("a budget was set")
}

on_both! {
    async fn site_follows_certified_keys_over_two_servers(app: &TestApp) {
        let site = FollowingSite::new(&app.ctx);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let second = replica(app, &folder).await;
        let before = ask(&app.ctx).await;
        before.open::<CertificatePins>(&site).expect("the first key signs");

        let machine = OfflineMachine::new(app).await;
        machine.certify(app, false).await;
        copy(app, &folder, ONLINE_FILE);
        second.signer.reload(app.clock.now());
        ask(&second).await.open::<CertificatePins>(&site).expect("the first key still signs");
        assert_eq!(site.state().root(), None, "no certificate is in force yet");
        app.clock.advance(Duration::hours(1));
        for ctx in [&app.ctx, &second] {
            ask(ctx).await.open::<CertificatePins>(&site).expect("a certified key signs");
        }
        assert_eq!(site.state().root(), Some(&*machine.root));
        assert_eq!(site.state().newest(KeyPurpose::Connection).map(|seen| seen.serial), Some(1));
        ask(&second).await.open::<CertificatePins>(&app.ctx.signer.verifying_key()).expect("by the first key alone");

        app.clock.advance(Duration::days(60));
        machine.certify(app, false).await;
        app.clock.advance(Duration::hours(1));
        ask(&app.ctx).await.open::<CertificatePins>(&site).expect("the next key signs");
        let behind = ask(&second).await.open::<CertificatePins>(&site);
        assert!(matches!(behind, Err(SignedError::Chain(_))), "a server without the new key: {behind:?}");
        copy(app, &folder, ONLINE_FILE);
        second.signer.reload(app.clock.now());
        ask(&second).await.open::<CertificatePins>(&site).expect("it has the new key now");
        before.open::<CertificatePins>(&site).expect("old signatures hold");
        second.db.clone().close().await.expect("closed");
    }

    async fn log_of_certified_keys_verifies_as_one(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 8.0).await;
        let machine = OfflineMachine::new(app).await;
        machine.certify(app, false).await;
        app.clock.advance(Duration::hours(1));
        world.set_budget(&world.sites[1], 9.0).await.expect("a higher limit");
        let key = app.ctx.signer.verifying_key();
        let report = bundle::examine(&app.ctx.db, &key, verify::Pins::default(), app.ctx.now()).await.expect("read");
        assert!(report.holds(), "{report}");
    }

    async fn head_after_an_installation_has_the_new_key(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 8.0).await;
        let site = FollowingSite::new(&app.ctx);
        let machine = OfflineMachine::new(app).await;
        for serial in 1..=2_u32 {
            machine.request(app).await;
            command(app, KeysCommand::Sign(machine.sign_options(0))).await.expect("signed");
            // The operator carries the file to the server, which continues to sign.
            app.clock.advance(Duration::minutes(3));
            let older = newest_head(app, &world, 8.0 + f64::from(serial) / 4.0).await;
            machine.install(app).await.expect("installed");
            app.clock.advance(Duration::SECOND);
            let newer = newest_head(app, &world, 8.1 + f64::from(serial) / 4.0).await;
            newer.open::<LogHead>(&site).expect("the new key signs");
            let seen = site.state().newest(KeyPurpose::Log).map(|seen| seen.serial);
            assert_eq!(seen, Some(u64::from(serial)), "the server has not waited for its next round of tasks");
            older.open::<LogHead>(&site).expect("the new key was not installed yet");
        }
    }

    async fn revoked_keys_are_refused_by_sites_that_saw_the_revocation(app: &TestApp) {
        let site = FollowingSite::new(&app.ctx);
        let of_first_key = ask(&app.ctx).await;
        let machine = OfflineMachine::new(app).await;
        machine.certify(app, false).await;
        app.clock.advance(Duration::hours(1));
        let stolen = ask(&app.ctx).await;
        stolen.open::<CertificatePins>(&site).expect("not stolen yet");
        machine.certify(app, true).await;
        ask(&app.ctx).await.open::<CertificatePins>(&app.ctx.signer).expect("the next key is not in force yet");
        app.clock.advance(Duration::hours(1));
        app.ctx.signer.reload(app.clock.now());
        ask(&app.ctx).await.open::<CertificatePins>(&site).expect("the cure");
        for (document, name) in [(stolen, "the stolen key"), (of_first_key, "the first key")] {
            let refused = document.open::<CertificatePins>(&site);
            assert!(matches!(refused, Err(SignedError::Chain(_))), "{name}: {refused:?}");
            assert!(document.open::<CertificatePins>(&app.ctx.signer).is_err(), "{name}, by the server itself");
        }
    }

    async fn log_of_a_stolen_key_is_signed_anew_for_sites(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        let site = FollowingSite::new(&app.ctx);
        let machine = OfflineMachine::new(app).await;
        machine.certify(app, false).await;
        app.clock.advance(Duration::hours(1));
        let job = world.queued(2).await;
        let worker = world.sites[1].worker;
        let lease = world.lease(1).await;
        let receipt = world.sites[1].receipt(&job, 1, 1);
        let countersign = async || receipts::countersign(&app.ctx, worker, &lease, std::slice::from_ref(&receipt)).await;
        let [stolen_countersignature] = &countersign().await.expect("at work")[..] else { panic!("one receipt") };
        let stolen_head = log::newest_of(&app.ctx.db).await.expect("read").expect("a charge");
        let before = app.clock.now();
        app.clock.advance(Duration::SECOND);

        machine.request(app).await;
        command(app, KeysCommand::Sign(SignOptions { revoke: true, ..machine.sign_options(0) })).await.expect("signed");
        machine.install(app).await.expect("installed");
        app.clock.advance(Duration::SECOND);
        ask(&app.ctx).await.open::<CertificatePins>(&site).expect("the site learns of the revocation");
        assert!(stolen_head.open::<LogHead>(&site).is_err(), "the stolen key signed it");
        assert!(stolen_countersignature.open::<Countersignature>(&site).is_err(), "this one as well");

        let key = world.sites[1].key.verifying_key();
        let document: Receipt = receipt.open(&key).expect("it is signed");
        let receipts = BTreeMap::from([(1, (receipt.digest(), document))]);
        let answer = witness::witness(&app.ctx, worker, None, &[1], None).await.expect("answered");
        let verified = answer.check(&site, None, &receipts).expect("the server signs anew what the stolen key had signed");
        assert_eq!(verified.receipts.len(), 1);
        let [again] = &countersign().await.expect("at work")[..] else { panic!("one receipt") };
        again.open::<Countersignature>(&site).expect("a repeated receipt as well");
        assert_eq!(log::newest_of(&app.ctx.db).await.expect("read"), Some(stolen_head.clone()), "the stored one stays");

        // The thief puts another head into the database, signed with the stolen key.
        let head: LogHead = stolen_head.open(&app.ctx.signer.verifying_key()).expect("its certificate was valid");
        let forged = LogHead { root: "ab".repeat(32), at: before, ..head };
        let Signed { payload, signature } = Signed::new(&forged, &app.ctx.signer).expect("it has a JSON form");
        let change = format!("UPDATE log_head SET payload = '{payload}', signature = '{signature}' WHERE size = {}", forged.size);
        tamper(&app.ctx, "log_head", &change).await;
        let answer = witness::witness(&app.ctx, worker, None, &[], None).await.expect("answered");
        let refused = answer.check(&site, None, &BTreeMap::new());
        assert!(matches!(refused, Err(WitnessError::Signed { .. })), "it gets no other signature: {refused:?}");
    }

    async fn nothing_is_signed_after_the_last_certificate_ended(app: &TestApp) {
        let machine = OfflineMachine::new(app).await;
        machine.certify(app, false).await;
        app.clock.advance(Duration::hours(1) + Duration::days(90) - Duration::SECOND);
        ask(&app.ctx).await;
        app.clock.advance(Duration::SECOND);
        pins::pins(&app.ctx, CHALLENGE).await.expect_err("the first key does not step in");
        machine.certify(app, false).await;
        app.clock.advance(Duration::hours(1));
        ask(&app.ctx).await;
    }

    async fn end_of_certificates_is_a_metric(app: &TestApp) {
        let name = "\nundertone_signing_certificate_days ";
        let days = async || {
            let text = undertone_server_core::metrics_text::render(&app.ctx).await.expect("text");
            text.split_once(name).and_then(|(_, rest)| rest.lines().next()).map(str::to_owned)
        };
        assert_eq!(days().await, None, "the first key signs");
        let machine = OfflineMachine::new(app).await;
        machine.certify(app, false).await;
        app.clock.advance(Duration::hours(1));
        assert_eq!(days().await.as_deref(), Some("90"));
        app.clock.advance(Duration::days(80));
        assert_eq!(days().await.as_deref(), Some("10"));
        machine.certify(app, false).await;
        assert_eq!(days().await.as_deref(), Some("90"), "the next ones are installed");
        app.clock.advance(Duration::days(365));
        assert_eq!(days().await.as_deref(), Some("0"));
    }

    async fn certificates_go_forward_under_one_root(app: &TestApp) {
        let machine = OfflineMachine::new(app).await;
        machine.request(app).await;
        machine.sign(app, Some(5), false).await.expect("signed");
        machine.install(app).await.expect("installed");
        let again = machine.install(app).await.expect_err("it is installed");
        assert!(matches!(again, KeysError::Ceremony(CeremonyError::Serial { serial: 5, greatest: 5 })), "{again}");
        machine.request(app).await;
        let back = machine.sign(app, Some(5), false).await.expect_err("the server has 5");
        assert!(matches!(back, KeysError::Ceremony(CeremonyError::Serial { .. })), "{back}");

        let other = OfflineMachine::new(app).await;
        let options = RequestOptions { file: other.path("request.json"), root: Some(other.root.clone()) };
        let refused = command(app, KeysCommand::Request(options)).await.expect_err("sites follow one root");
        assert!(matches!(refused, KeysError::Ceremony(CeremonyError::OtherRoot(_))), "{refused}");
        std::fs::copy(machine.path("request.json"), other.path("request.json")).expect("writable");
        let refused = other.sign(app, None, false).await.expect_err("the request is for the first root");
        assert!(matches!(refused, KeysError::Ceremony(CeremonyError::Root(_))), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_of_a_program_is_certified_and_signs() {
    let program = TestProgram::new();
    let app = TestApp::sqlite().await;
    let site = FollowingSite::new(&app.ctx);
    let mut config = app.ctx.config.clone();
    config.database_url = Some(config.database());
    config.signer = program.signer();
    let App { ctx, .. } = app.restarted_with(config.clone()).await;
    ask(&ctx).await.open::<CertificatePins>(&site).expect("the first key still signs");

    let machine = OfflineMachine::new(&app).await;
    let options = RequestOptions { file: machine.path("request.json"), root: Some(machine.root.clone()) };
    let request = KeysCommand::Request(options);
    execute(&config, &request, &app.clock.clock(), &app.ctx.random).await.expect("requested");
    let text = std::fs::read_to_string(app.data_dir().join(ONLINE_FILE)).expect("made");
    assert!(!text.contains("secret") && text.contains(&hex::encode(program.key().as_bytes())), "{text}");
    machine.sign(&app, None, false).await.expect("signed");
    machine.install(&app).await.expect("installed");
    ctx.signer.reload(app.clock.now());
    app.clock.advance(Duration::hours(1));
    let document = ask(&ctx).await;
    document.open::<CertificatePins>(&site).expect("the program's key signs");
    assert_eq!(site.state().newest(KeyPurpose::Connection).map(|seen| seen.serial), Some(1));
    assert_eq!(ctx.signer.probe(ctx.now()).await.expect("it signs"), [hex::encode(program.key().as_bytes())]);

    app.ctx.signer.reload(app.clock.now());
    let refused = pins::pins(&app.ctx, CHALLENGE).await.expect_err("this server has no signer");
    assert_eq!(refused.code(), Code::Unavailable);
    ctx.db.clone().close().await.expect("closed");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn root_opens_with_its_passphrase_only() {
    let app = TestApp::sqlite().await;
    let machine = OfflineMachine::new(&app).await;
    machine.request(&app).await;
    let again = command(&app, KeysCommand::CreateRoot(machine.root_file())).await.expect_err("it is there");
    assert!(again.to_string().contains("exists"), "{again}");
    std::fs::write(machine.path("passphrase"), "another long passphrase\n").expect("writable");
    let refused = machine.sign(&app, None, false).await.expect_err("the wrong passphrase");
    assert!(matches!(refused, KeysError::Ceremony(CeremonyError::Sealed(_))), "{refused}");
    std::fs::write(machine.path("passphrase"), "short\n").expect("writable");
    let refused = machine.sign(&app, None, false).await.expect_err("the passphrase is short");
    assert!(refused.to_string().contains("at least 12"), "{refused}");
    app.close().await;
}
