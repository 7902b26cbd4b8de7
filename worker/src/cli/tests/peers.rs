//! The keys of other sites: pinned at the terminal, and required for the approval of a group.

use undertone_api::signed::key_id;

use super::*;
use crate::fixture::{masked_manifest, peer_key};

#[test]
fn terminal_pins_and_unpins_the_key_of_another_site() {
    let (_dir, folder) = site();
    let own = key_id(&SiteKey::load(&folder.key()).expect("it was made").public());
    let list = run(&folder, &["peers", "list"]).expect("it can be shown");
    assert!(list.contains(&own) && list.contains("no key of another site"), "{list}");
    let other = key_id(&peer_key(1).verifying_key());
    let report = run(&folder, &["peers", "pin", &other, "--label", "South"]).expect("a fingerprint");
    assert!(report.contains("Pinned."), "{report}");
    let list = run(&folder, &["peers", "list"]).expect("it can be shown");
    assert!(list.contains(&other) && list.contains("pinned") && list.contains("South"), "{list}");
    for (text, reason) in [(&own[..], "this site's own key"), (&other[..32], "64 hex digits")] {
        let (_, message) = run(&folder, &["peers", "pin", text]).expect_err("it is not another site's key");
        assert!(message.contains(reason), "{message}");
    }
    run(&folder, &["peers", "unpin", &other]).expect("it is pinned");
    let (_, message) = run(&folder, &["peers", "unpin", &other]).expect_err("it is not pinned");
    assert!(message.contains("peers list"), "{message}");
}

#[test]
fn approval_names_the_key_that_is_not_pinned() {
    let (_dir, folder) = site();
    let text = TEMPLATE.replacen("[jobs]", "[jobs]\nsecure_aggregation = { allowed = true }", 1);
    std::fs::write(folder.policy(), text).expect("the folder is writable");
    let own = SiteKey::load(&folder.key()).expect("it was made").public_hex();
    let signed = Signed::new(&masked_manifest(&own), &server_key()).expect("it has a JSON form");
    let store = Store::create(&folder.ledger()).expect("the folder is writable");
    jobs::remember(&store, JOB, OURS, &signed, OffsetDateTime::UNIX_EPOCH).expect("it is open");
    let job = JOB.to_string();
    for site in [1, 2] {
        let fingerprint = key_id(&peer_key(site).verifying_key());
        let shown = run(&folder, &["jobs", &job]).expect("it is there");
        assert!(shown.contains("NOT PINNED") && shown.contains(&fingerprint), "{shown}");
        let (_, message) = run(&folder, &["approve", &job]).expect_err("a key is not pinned");
        assert!(message.contains(&format!("undertone-worker peers pin {fingerprint}")), "{message}");
        assert!(jobs::decision(&store, JOB, OURS, &signed.digest()).expect("it is open").is_none());
        run(&folder, &["peers", "pin", &fingerprint]).expect("a fingerprint");
    }
    let report = run(&folder, &["approve", &job]).expect("the keys are pinned");
    assert!(report.contains("Against the server with all other sites") && report.contains("approved"), "{report}");
    // A refusal needs no pin.
    run(&folder, &["peers", "unpin", &key_id(&peer_key(2).verifying_key())]).expect("it is pinned");
    run(&folder, &["refuse", &job, "--reason", "not this month"]).expect("it is there");
}
