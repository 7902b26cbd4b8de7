//! The server's log, observed by the running site: every receipt is proved to be in it, and a log with changes receives
//! nothing more.

use super::*;
use crate::daemon::{peers, witness};
use crate::gateway::fake::log::{TestLog, stranger};
use crate::site::witness::{alarm, counts};

/// Publishes one vector of a round.
fn publish(exchange: &mut SiteExchange, round: u32) -> Result<(), RunError> {
    let clearance = exchange.clear(RoundKey::new("open", round))?;
    let vector = Outgoing::exact(vec![1.0, 2.0], clearance).expect("it was published");
    exchange.send_vector(RoundKey::new("open", round), vector)
}

fn open_problem(site: &Site) -> Option<String> {
    site.store.read(alarm::open).expect("it is open").map(|alarm| alarm.problem)
}

async fn open_all() -> (FakeServer, TestSite, Arc<Site>, SiteExchange) {
    let server = start(false).await;
    let place = TestSite::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.open();
    let exchange = open_exchange(&site, &make_open_job(), Visibility::Open);
    (server, place, site, exchange)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_submission_is_countersigned_and_proved_before_the_next() {
    let (server, _place, site, mut exchange) = open_all().await;
    let state = Arc::clone(&server.state);
    state.lock().expect("no test panicked").log.push(stranger(1));
    let before = Arc::clone(&site);
    run_blocking(move || {
        for round in 1..=3 {
            publish(&mut exchange, round).expect("the server takes it");
            let so_far = u64::from(round);
            assert_eq!(before.store.read(counts).expect("it is open"), (so_far, so_far));
        }
    })
    .await;
    assert_eq!(server.state.lock().expect("no test panicked").log_requests, 3);
    assert_eq!(open_problem(&site), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_log_is_requested_again_with_its_proofs() {
    let (server, _place, site, mut exchange) = open_all().await;
    let state = Arc::clone(&server.state);
    let before = Arc::clone(&site);
    state.lock().expect("no test panicked").hides = true;
    run_blocking(move || {
        publish(&mut exchange, 1).expect("the server takes it");
        assert_eq!(before.store.read(counts).expect("it is open"), (1, 0));
        state.lock().expect("no test panicked").hides = false;
        publish(&mut exchange, 2).expect("the server takes it");
        assert_eq!(before.store.read(counts).expect("it is open"), (2, 2), "the missing proof is there");
    })
    .await;
    assert_eq!(open_problem(&site), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn set_back_server_gets_nothing_until_the_alarm_is_cleared() {
    let (server, _place, site, mut exchange) = open_all().await;
    let state = Arc::clone(&server.state);
    let before = Arc::clone(&site);
    run_blocking(move || {
        publish(&mut exchange, 1).expect("the server takes it");
        let older = state.lock().expect("no test panicked").log.clone();
        publish(&mut exchange, 2).expect("the server takes it");
        // The server continues from an older copy of its database.
        state.lock().expect("no test panicked").log = older;
        publish(&mut exchange, 3).expect("it is on its way before the contradiction is seen");
        let problem = open_problem(&before).expect("two logs of one size");
        assert!(problem.contains("does not begin with the 2 that this site has seen"), "{problem}");

        let assert_refused = |answer: Result<(), RunError>| {
            assert!(
                matches!(&answer, Err(RunError::Refused(reason)) if reason.to_string().contains("alarm")),
                "{answer:?}"
            );
        };
        let receipts = before.ledger.books().expect("it is open").receipts;
        assert_refused(publish(&mut exchange, 4));
        assert_refused(exchange.resend_vector(RoundKey::new("open", 3)));
        assert_refused(exchange.put_file("model", vec![1]));
        assert_eq!(before.ledger.books().expect("it is open").receipts, receipts, "nothing was paid");
        let vectors = state.lock().expect("no test panicked").vectors.len();
        assert_eq!(vectors, 3);

        alarm::clear(&before.store, "restored from a backup", (before.clock)()).expect("it is open");
        publish(&mut exchange, 4).expect("the steward cleared the alarm");
        assert_eq!(open_problem(&before), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_countersignature_stops_the_site_at_once() {
    let (server, _place, site, mut exchange) = open_all().await;
    let state = Arc::clone(&server.state);
    let before = Arc::clone(&site);
    run_blocking(move || {
        publish(&mut exchange, 1).expect("the server takes it");
        {
            // The server answers for the second receipt with its countersignature of the first.
            let mut state = state.lock().expect("no test panicked");
            let first = state.log.countersigned[&1].clone();
            state.log.countersigned.insert(2, first);
        }
        let error = publish(&mut exchange, 2).expect_err("nothing leaves without a valid countersignature");
        assert!(matches!(error, RunError::Refused(_)), "{error}");
        assert_eq!(state.lock().expect("no test panicked").submissions.len(), 1);
        let problem = open_problem(&before).expect("it is for another receipt");
        assert!(problem.contains("for another receipt"), "{problem}");
        assert!(matches!(publish(&mut exchange, 3), Err(RunError::Refused(_))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn site_with_an_alarm_refuses_proposals_after_sign_in() {
    let (server, place, site, mut exchange) = open_all().await;
    run_blocking(move || publish(&mut exchange, 1).expect("the server takes it")).await;
    drop(site);
    {
        let mut state = server.state.lock().expect("no test panicked");
        state.log = TestLog::default();
        let proposal = sign(&honest_manifest(spec(), Visibility::Open));
        let proposal = v1::Proposal { manifest: Some(proposal.into()), dataset_id: OURS.to_string() };
        state.offers.push(Offer::Proposal(proposal));
    }
    run_until(&place, &server, |state| !state.decisions.is_empty()).await;
    let decision = first_decision(&server, &place);
    assert!(!decision.approve && decision.reason.contains("raised an alarm"), "{}", decision.reason);
    let site = place.open();
    assert!(open_problem(&site).expect("its log is empty now").contains("0 entries where it had 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_countersignature_is_requested_at_the_next_sign_in() {
    let (server, place, site, mut exchange) = open_all().await;
    let state = Arc::clone(&server.state);
    run_blocking(move || {
        // The answer to the submission is empty, and the log is not shown, as after a crash in between.
        state.lock().expect("no test panicked").hides = true;
        publish(&mut exchange, 1).expect("the server takes it");
        state.lock().expect("no test panicked").hides = false;
    })
    .await;
    assert_eq!(site.store.read(counts).expect("it is open"), (1, 0));
    drop(site);
    let signed = sign(&honest_manifest(spec(), Visibility::Open));
    offer(&server, Offer::Proposal(v1::Proposal { manifest: Some(signed.into()), dataset_id: OURS.to_string() }));
    run_until(&place, &server, |state| state.log_requests > 0 && !state.offers.iter().any(|_| true)).await;
    let site = place.open();
    assert_eq!(site.store.read(counts).expect("it is open"), (1, 1));
}

/// Makes a peer's observation of a log of `leaves`, relayed by the server.
fn make_peer_head(leaves: std::ops::Range<i64>, own_log: &TestLog) -> v1::PeerHead {
    let key = ed25519_dalek::SigningKey::from_bytes(&[2; 32]);
    let mut log = TestLog::default();
    leaves.for_each(|leaf| log.push(stranger(leaf)));
    let head = log.head().expect("not empty");
    let worker = undertone_api::id::WorkerId(uuid::Uuid::from_u128(77));
    let observed_at = time::OffsetDateTime::UNIX_EPOCH;
    let document = undertone_api::signed::HeadObservation { worker, head: head.clone(), observed_at };
    v1::PeerHead {
        worker: worker.to_string(),
        worker_name: "ward".to_owned(),
        organization_name: "South".to_owned(),
        public_key: hex::encode(key.verifying_key().to_bytes()),
        rotations: Vec::new(),
        observation: Some(Signed::new(&document, &key).expect("it has a JSON form").into()),
        consistency: own_log.answer(Some(&head), &[]).consistency.into_iter().map(|hash| hash.to_vec()).collect(),
        position: None,
        sighting: None,
    }
}

/// Makes a sighting of a position of the site, signed by the peer of [`make_peer_head`].
fn sign_sighting(position: &Signed) -> v1::Signed {
    let key = ed25519_dalek::SigningKey::from_bytes(&[2; 32]);
    let sighting = undertone_api::signed::LedgerSighting {
        observer: undertone_api::id::WorkerId(uuid::Uuid::from_u128(77)),
        subject: crate::fixture::WORKER,
        position: position.clone(),
        observed_at: time::OffsetDateTime::UNIX_EPOCH,
    };
    Signed::new(&sighting, &key).expect("it has a JSON form").into()
}

#[tokio::test(flavor = "multi_thread")]
async fn older_folder_is_detected_through_a_peer() {
    let (server, _place, site, mut exchange) = open_all().await;
    let state = Arc::clone(&server.state);
    (0..5).for_each(|leaf| state.lock().expect("no test panicked").log.push(stranger(leaf)));
    assert!(witness::check_log(&site).await);
    let log = state.lock().expect("no test panicked").log.clone();
    // The server shows no receipt of this site. The peer shows what the site has signed: first its ledger as it is.
    peers::exchange_heads(&site).await;
    let position = state.lock().expect("no test panicked").positions[0].clone();
    let present = v1::PeerHead { sighting: Some(sign_sighting(&position)), ..make_peer_head(0..3, &log) };
    state.lock().expect("no test panicked").peers = vec![present];
    peers::exchange_heads(&site).await;
    site.ledger.check_quiet().expect("the peer has seen the ledger as it is");
    // Then a position that the site signed before its folder was put back.
    let ahead = undertone_api::signed::LedgerPosition {
        worker: crate::fixture::WORKER,
        receipts: 5,
        digest: "ab".repeat(32),
        at: time::OffsetDateTime::UNIX_EPOCH,
    };
    let ahead = site.key.sign(&ahead).expect("it has a JSON form");
    let newer = v1::PeerHead { sighting: Some(sign_sighting(&ahead)), ..make_peer_head(0..3, &log) };
    state.lock().expect("no test panicked").peers = vec![newer];
    peers::exchange_heads(&site).await;
    let error = run_blocking(move || publish(&mut exchange, 1).expect_err("nothing leaves from an older copy")).await;
    assert!(matches!(&error, RunError::Refused(reason) if reason.to_string().contains("older copy")), "{error}");
    assert_eq!(state.lock().expect("no test panicked").vectors.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_shown_to_a_peer_stops_every_release() {
    let (server, _place, site, mut exchange) = open_all().await;
    let state = Arc::clone(&server.state);
    (0..5).for_each(|leaf| state.lock().expect("no test panicked").log.push(stranger(leaf)));
    // Without a verified head there is nothing to compare.
    peers::exchange_heads(&site).await;
    assert!(state.lock().expect("no test panicked").observations.is_empty());
    assert!(witness::check_log(&site).await);
    let log = state.lock().expect("no test panicked").log.clone();
    state.lock().expect("no test panicked").peers = vec![make_peer_head(0..3, &log)];
    peers::exchange_heads(&site).await;
    assert_eq!(open_problem(&site), None, "the peer has seen the beginning of the same log");
    let observations = state.lock().expect("no test panicked").observations.clone();
    let observation: undertone_api::signed::HeadObservation =
        observations[0].open(&site.key.public()).expect("signed by the site's key");
    assert_eq!(Some(observation.head), log.head());

    state.lock().expect("no test panicked").peers = vec![make_peer_head(100..103, &log)];
    peers::exchange_heads(&site).await;
    let problem = open_problem(&site).expect("an alarm");
    assert!(problem.contains("a log of 3 entries that does not agree with the 5 entries shown here"), "{problem}");
    run_blocking(move || publish(&mut exchange, 1).expect_err("nothing leaves while an alarm is open")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_server_gets_its_receipts_back() {
    let (server, _place, site, mut exchange) = open_all().await;
    let state = Arc::clone(&server.state);
    run_blocking(move || {
        publish(&mut exchange, 1).expect("the server takes it");
        let mut older = state.lock().expect("no test panicked").log.clone();
        publish(&mut exchange, 2).expect("the server takes it");
        older.restore("the disk was lost", time::OffsetDateTime::UNIX_EPOCH);
        let mut state = state.lock().expect("no test panicked");
        state.log = older;
        state.must_reconcile = true;
    })
    .await;
    assert!(witness::check_log(&site).await);
    let requests = server.state.lock().expect("no test panicked").reconciled.clone();
    let batches: Vec<(usize, bool)> =
        requests.iter().map(|request| (request.receipts.len(), request.complete)).collect();
    assert_eq!(batches, [(1, false), (0, true)]);
    assert_eq!(open_problem(&site), None);
    assert_eq!(site.store.read(counts).expect("it is open"), (2, 2));
}
