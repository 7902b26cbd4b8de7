//! Crashes at every step of a release, in a separate process that really aborts; then the site is opened again.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use undertone_api::dataset::Visibility;
use undertone_privacy::SamplingRate;
use undertone_privacy::ledger::Reservation;

use super::{TestSite, honest_manifest, open_exchange, run_blocking};
use crate::config::Config;
use crate::daemon::Site;
use crate::daemon::exchange::SiteExchange;
use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::Outgoing;
use crate::dp::sampler::Sampler;
use crate::fault;
use crate::fixture::{spec, z};
use crate::gateway::fake::start;
use crate::run::{Averaging as _, RoundKey, RoundProgress, RunContext as _, RunError};
use crate::site::folder::Folder;
use crate::site::policy::TEMPLATE;

/// The variable that names the site's folder to the process that is to crash there.
pub(super) const SITE: &str = "UNDERTONE_TEST_SITE";
/// The signal of an aborted process.
const ABORTED: i32 = 6;

/// Makes a release as the run does: cleared, then hidden by noise.
pub(super) fn release(exchange: &mut SiteExchange, round: u32) -> Outgoing {
    let batch = Sampler::new(48, SamplingRate::new(0.125).expect("a probability")).draw_fresh();
    let sum = ClippedSum::begin(&batch, Clip::new(1.0, z(4.0)).expect("in range"), 3);
    let clearance = exchange.clear(RoundKey::new("private", round)).expect("it is reserved");
    let release = sum.release(6.0, clearance, &Randomness::from_os(Purpose::Noise));
    release.expect("it was granted").into()
}

/// Runs one round at the site in `folder`, in the process that crashes.
async fn run_round(folder: &Path) {
    let folder = Folder::new(folder);
    let config = Config::load(&folder).expect("it was stored");
    let site = Arc::new(Site::open(folder, &config, crate::site::clock::system()).expect("no other process has it"));
    let mut exchange = open_exchange(&site, &honest_manifest(spec(), Visibility::Private), Visibility::Private);
    run_blocking(move || {
        let vector = release(&mut exchange, 1);
        exchange.send_vector(RoundKey::new("private", 1), vector).expect("the server takes it");
    })
    .await;
}

/// Starts this test binary to run a round at the place, in the test `name` of `module`, and to crash at `point`.
pub(super) async fn run_until_crash(place: &TestSite, module: &str, name: &str, point: &str) {
    let module = module.split_once("::").map_or("", |(_, module)| module);
    let mut command = Command::new(std::env::current_exe().expect("it is running"));
    command.args(["--exact", &format!("{module}::{name}")]).env(SITE, place.dir.path()).env(fault::VARIABLE, point);
    let output = run_blocking(move || command.output().expect("the test binary can be run")).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(ABORTED), "{text}");
}

/// Returns the number of paid releases in the site's ledger.
pub(super) fn count_paid(site: &Site) -> u64 {
    let books = site.ledger.books().expect("it is open");
    books.accounts.values().flat_map(|book| book.account.reservations()).map(Reservation::committed).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn crashed_process_sends_one_vector_for_one_payment() {
    if let Some(folder) = std::env::var_os(SITE) {
        return run_round(Path::new(&folder)).await;
    }
    let name = "crashed_process_sends_one_vector_for_one_payment";
    for (point, past, payments) in [
        (fault::BEFORE_STORE, RoundProgress::Untouched, 0),
        (fault::AFTER_STORE, RoundProgress::Stored, 0),
        (fault::BEFORE_COMMIT, RoundProgress::Stored, 0),
        (fault::AFTER_COMMIT, RoundProgress::Stored, 1),
        (fault::AFTER_COUNTERSIGN, RoundProgress::Stored, 1),
        (fault::AFTER_SEND, RoundProgress::Stored, 1),
    ] {
        let server = start(false).await;
        let place = TestSite::new(&server, TEMPLATE);
        run_until_crash(&place, module_path!(), name, point).await;
        let before = server.state.lock().expect("no test panicked").submissions.clone();
        assert_eq!(before.len(), usize::from(point == fault::AFTER_SEND), "{point}");
        let site = place.open();
        assert_eq!(count_paid(&site), payments, "{point}");
        let mut again = open_exchange(&site, &honest_manifest(spec(), Visibility::Private), Visibility::Private);
        run_blocking(move || {
            assert_eq!(again.round_progress(RoundKey::new("private", 1)).expect("the disk works"), past, "{point}");
            if past == RoundProgress::Stored {
                again.resend_vector(RoundKey::new("private", 1)).expect("the server takes it");
            } else {
                let vector = release(&mut again, 1);
                again.send_vector(RoundKey::new("private", 1), vector).expect("the server takes it");
            }
        })
        .await;
        assert_eq!(count_paid(&site), 1, "{point}");
        let state = server.state.lock().expect("no test panicked");
        assert!(state.submissions.starts_with(&before), "{point}");
        assert!(state.submissions.iter().all(|submission| *submission == state.submissions[0]), "{point}: to the bit");
        assert_eq!(state.receipts.iter().map(|receipt| receipt.attempt).collect::<Vec<_>>(), [1], "{point}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_countersignature_gets_no_byte() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    let site = place.open();
    let mut first = open_exchange(&site, &honest_manifest(spec(), Visibility::Private), Visibility::Private);
    server.state.lock().expect("no test panicked").forgets = true;
    let mut first = run_blocking(move || {
        let vector = release(&mut first, 1);
        let error = first.send_vector(RoundKey::new("private", 1), vector).expect_err("the server has other receipts");
        assert!(matches!(&error, RunError::Refused(reason) if reason.to_string().contains("countersign")), "{error}");
        first
    })
    .await;
    assert!(server.state.lock().expect("no test panicked").submissions.is_empty());
    assert_eq!(count_paid(&site), 1);
    // The part waits while the server is unreachable, and sends when it answers.
    server.state.lock().expect("no test panicked").outage = 2;
    run_blocking(move || first.resend_vector(RoundKey::new("private", 1)).expect("the server takes it")).await;
    assert_eq!(server.state.lock().expect("no test panicked").submissions.len(), 1);
}
