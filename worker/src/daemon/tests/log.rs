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

fn alarm_of(site: &Site) -> Option<String> {
    site.store.read(alarm::open).expect("it is open").map(|alarm| alarm.problem)
}

async fn opened() -> (Running, Place, Arc<Site>, SiteExchange) {
    let server = start(false).await;
    let place = Place::new(&server, &format!("{TEMPLATE}{OPEN}"));
    let site = place.site();
    let exchange = exchange(&site, &open_job(), Visibility::Open);
    (server, place, site, exchange)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_submission_is_countersigned_and_proved_before_the_next() {
    let (server, _place, site, mut exchange) = opened().await;
    let state = Arc::clone(&server.state);
    state.lock().expect("nobody panicked").log.push(stranger(1));
    let before = Arc::clone(&site);
    beside(move || {
        for round in 1..=3 {
            publish(&mut exchange, round).expect("the server takes it");
            let so_far = u64::from(round);
            assert_eq!(before.store.read(counts).expect("it is open"), (so_far, so_far));
        }
    })
    .await;
    assert_eq!(server.state.lock().expect("nobody panicked").asked, 3);
    assert_eq!(alarm_of(&site), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_show_its_log_is_asked_again_and_owes_the_proofs() {
    let (server, _place, site, mut exchange) = opened().await;
    let (state, before) = (Arc::clone(&server.state), Arc::clone(&site));
    state.lock().expect("nobody panicked").hides = true;
    beside(move || {
        publish(&mut exchange, 1).expect("the server takes it");
        assert_eq!(before.store.read(counts).expect("it is open"), (1, 0));
        state.lock().expect("nobody panicked").hides = false;
        publish(&mut exchange, 2).expect("the server takes it");
        assert_eq!(before.store.read(counts).expect("it is open"), (2, 2), "what it owed is proved");
    })
    .await;
    assert_eq!(alarm_of(&site), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_set_back_gets_nothing_more_until_a_steward_says_so() {
    let (server, _place, site, mut exchange) = opened().await;
    let (state, before) = (Arc::clone(&server.state), Arc::clone(&site));
    beside(move || {
        publish(&mut exchange, 1).expect("the server takes it");
        let older = state.lock().expect("nobody panicked").log.clone();
        publish(&mut exchange, 2).expect("the server takes it");
        // The server continues from an older copy of its database.
        state.lock().expect("nobody panicked").log = older;
        publish(&mut exchange, 3).expect("it is on its way before the contradiction is seen");
        let problem = alarm_of(&before).expect("two logs of one size");
        assert!(problem.contains("does not begin with the 2 that this site has seen"), "{problem}");

        let refused = |answer: Result<(), RunError>| {
            assert!(
                matches!(&answer, Err(RunError::Refused(reason)) if reason.to_string().contains("alarm")),
                "{answer:?}"
            );
        };
        let paid = before.ledger.books().expect("it is open").receipts;
        refused(publish(&mut exchange, 4));
        refused(exchange.resend_vector(RoundKey::new("open", 3)));
        refused(exchange.put_file("model", vec![1]));
        assert_eq!(before.ledger.books().expect("it is open").receipts, paid, "nothing was paid");
        let vectors = state.lock().expect("nobody panicked").vectors.len();
        assert_eq!(vectors, 3);

        alarm::clear(&before.store, "restored from a backup", (before.clock)()).expect("it is open");
        publish(&mut exchange, 4).expect("the steward said so");
        assert_eq!(alarm_of(&before), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_countersignature_stops_the_site_at_once() {
    let (server, _place, site, mut exchange) = opened().await;
    let (state, before) = (Arc::clone(&server.state), Arc::clone(&site));
    beside(move || {
        publish(&mut exchange, 1).expect("the server takes it");
        {
            // The server answers for the second receipt with its countersignature of the first.
            let mut state = state.lock().expect("nobody panicked");
            let first = state.log.countersigned[&1].clone();
            state.log.countersigned.insert(2, first);
        }
        let refused = publish(&mut exchange, 2).expect_err("nothing leaves without a countersignature that holds");
        assert!(matches!(refused, RunError::Refused(_)), "{refused}");
        assert_eq!(state.lock().expect("nobody panicked").sent.len(), 1);
        let problem = alarm_of(&before).expect("it is for another receipt");
        assert!(problem.contains("for another receipt"), "{problem}");
        assert!(matches!(publish(&mut exchange, 3), Err(RunError::Refused(_))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_asked_for_at_sign_in_and_a_site_with_an_alarm_refuses_what_is_proposed() {
    let (server, place, site, mut exchange) = opened().await;
    beside(move || publish(&mut exchange, 1).expect("the server takes it")).await;
    drop(site);
    {
        let mut state = server.state.lock().expect("nobody panicked");
        state.log = TestLog::default();
        let proposal = sign(&honest(spec(), Visibility::Open));
        let proposal = v1::Proposal { manifest: Some(proposal.into()), dataset_id: OURS.to_string() };
        state.offers.push(Offer::Proposal(proposal));
    }
    run_until(&place, &server, |state| !state.decisions.is_empty()).await;
    let told = decided(&server, &place);
    assert!(!told.approve && told.reason.contains("raised an alarm"), "{}", told.reason);
    let site = place.site();
    assert!(alarm_of(&site).expect("its log is empty now").contains("0 entries where it had 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_whose_countersignature_was_lost_in_a_crash_is_asked_for_at_the_next_sign_in() {
    let (server, place, site, mut exchange) = opened().await;
    let state = Arc::clone(&server.state);
    beside(move || {
        // The answer to the submission is empty, and the log is not shown, as after a crash in between.
        state.lock().expect("nobody panicked").hides = true;
        publish(&mut exchange, 1).expect("the server takes it");
        state.lock().expect("nobody panicked").hides = false;
    })
    .await;
    assert_eq!(site.store.read(counts).expect("it is open"), (1, 0));
    drop(site);
    let signed = sign(&honest(spec(), Visibility::Open));
    offer(&server, Offer::Proposal(v1::Proposal { manifest: Some(signed.into()), dataset_id: OURS.to_string() }));
    run_until(&place, &server, |state| state.asked > 0 && !state.offers.iter().any(|_| true)).await;
    let site = place.site();
    assert_eq!(site.store.read(counts).expect("it is open"), (1, 1));
}

/// Makes a peer's observation of a log of `leaves`, relayed by the server.
fn relayed_peer(leaves: std::ops::Range<i64>, shown: &TestLog) -> v1::PeerHead {
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
        consistency: shown.answer(Some(&head), &[]).consistency.into_iter().map(|hash| hash.to_vec()).collect(),
        position: None,
        sighting: None,
    }
}

/// The sighting of a position of the site, signed by the peer of [`relayed_peer`].
fn sighting_of(position: &Signed) -> v1::Signed {
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
async fn folder_put_back_is_detected_through_a_peer_though_the_server_hides_receipts() {
    let (server, _place, site, mut exchange) = opened().await;
    let state = Arc::clone(&server.state);
    (0..5).for_each(|leaf| state.lock().expect("nobody panicked").log.push(stranger(leaf)));
    assert!(witness::ask(&site).await);
    let shown = state.lock().expect("nobody panicked").log.clone();
    // The server shows no receipt of this site. The peer shows what the site has signed: first its ledger as it is.
    peers::exchange_heads(&site).await;
    let handed = state.lock().expect("nobody panicked").positions[0].clone();
    let present = v1::PeerHead { sighting: Some(sighting_of(&handed)), ..relayed_peer(0..3, &shown) };
    state.lock().expect("nobody panicked").peers = vec![present];
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
    let newer = v1::PeerHead { sighting: Some(sighting_of(&ahead)), ..relayed_peer(0..3, &shown) };
    state.lock().expect("nobody panicked").peers = vec![newer];
    peers::exchange_heads(&site).await;
    let refused = beside(move || publish(&mut exchange, 1).expect_err("nothing leaves from an older copy")).await;
    assert!(matches!(&refused, RunError::Refused(reason) if reason.to_string().contains("older copy")), "{refused}");
    assert_eq!(state.lock().expect("nobody panicked").vectors.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fork_shown_to_a_peer_stops_every_release() {
    let (server, _place, site, mut exchange) = opened().await;
    let state = Arc::clone(&server.state);
    (0..5).for_each(|leaf| state.lock().expect("nobody panicked").log.push(stranger(leaf)));
    // Without a verified head there is nothing to compare.
    peers::exchange_heads(&site).await;
    assert!(state.lock().expect("nobody panicked").observations.is_empty());
    assert!(witness::ask(&site).await);
    let shown = state.lock().expect("nobody panicked").log.clone();
    state.lock().expect("nobody panicked").peers = vec![relayed_peer(0..3, &shown)];
    peers::exchange_heads(&site).await;
    assert_eq!(alarm_of(&site), None, "the peer has seen the beginning of the same log");
    let handed = state.lock().expect("nobody panicked").observations.clone();
    let observation: undertone_api::signed::HeadObservation =
        handed[0].open(&site.key.public()).expect("signed by the site's key");
    assert_eq!(Some(observation.head), shown.head());

    state.lock().expect("nobody panicked").peers = vec![relayed_peer(100..103, &shown)];
    peers::exchange_heads(&site).await;
    let problem = alarm_of(&site).expect("an alarm");
    assert!(problem.contains("a log of 3 entries that does not agree with the 5 entries shown here"), "{problem}");
    beside(move || publish(&mut exchange, 1).expect_err("nothing leaves while an alarm is open")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_server_gets_its_receipts_back() {
    let (server, _place, site, mut exchange) = opened().await;
    let state = Arc::clone(&server.state);
    beside(move || {
        publish(&mut exchange, 1).expect("the server takes it");
        let mut older = state.lock().expect("nobody panicked").log.clone();
        publish(&mut exchange, 2).expect("the server takes it");
        older.restore("the disk was lost", time::OffsetDateTime::UNIX_EPOCH);
        let mut state = state.lock().expect("nobody panicked");
        state.log = older;
        state.must_reconcile = true;
    })
    .await;
    assert!(witness::ask(&site).await);
    let requests = server.state.lock().expect("nobody panicked").reconciled.clone();
    let sent: Vec<(usize, bool)> = requests.iter().map(|request| (request.receipts.len(), request.complete)).collect();
    assert_eq!(sent, [(1, false), (0, true)]);
    assert_eq!(alarm_of(&site), None);
    assert_eq!(site.store.read(counts).expect("it is open"), (2, 2));
}
