//! Leaves, proofs and signed heads of the server's log, from a hostile server.

use std::collections::BTreeMap;

use ed25519_dalek::SigningKey;
use serde_json::json;
use time::OffsetDateTime;
use undertone_fuzz::Target;

use crate::log::TreeHash;
use crate::log::leaf::LogLeaf;
use crate::log::proof::{verify_consistency, verify_inclusion};
use crate::log::witness::WitnessAnswer;
use crate::signed::{LogHead, Signed, key_id};

const ID: &str = "0193493b-5c00-7000-8000-000000000001";

#[test]
fn a_leaf_has_one_form() {
    let entry = json!({
        "previous": "ab", "account": ID, "sequence": 1, "kind": "commit", "job": ID, "dataset": ID, "series": "private",
        "round": 1, "attempt": 1, "event": "{\"event\":\"gaussian\",\"noise_multiplier\":1.5}", "count": 1,
        "evaluator": "rdp-1", "receipt": "cd", "at_unix_milliseconds": 1_763_640_000_000_i64,
    });
    let entry: crate::log::leaf::EntryRecord = serde_json::from_value(entry).expect("an entry");
    let seed = entry.content();
    assert!(LogLeaf::parse(&seed).is_ok(), "a leaf");
    Target::new("api.leaf", 4_000).seed(seed).run(|bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        if let Ok(leaf) = LogLeaf::parse(text) {
            assert_eq!(leaf.content(), text);
            let _ = leaf.account();
        }
    });
}

/// Reads two numbers and then hashes from the input. No input causes a panic, and no forged inclusion proof is
/// accepted.
#[test]
fn no_numbers_break_a_proof() {
    let seed = [&7_u64.to_le_bytes()[..], &20_u64.to_le_bytes(), &[9; 32 * 5]].concat();
    Target::new("api.proof", 4_000).seed(seed).run(|bytes| {
        let number =
            |at: usize| bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes);
        let (first, second) = (number(0), number(8));
        let rest = bytes.get(16..).unwrap_or_default();
        let hashes: Vec<TreeHash> = rest.chunks_exact(32).filter_map(|hash| hash.try_into().ok()).collect();
        let root = [1; 32];
        for proof in [&hashes[..], &hashes[..hashes.len().min(4)], &[]] {
            assert!(verify_inclusion(b"a leaf", first, second, &root, proof).is_err());
            let _ = verify_consistency(first, &root, second, &[2; 32], proof);
        }
    });
}

#[test]
fn signed_heads_of_any_content_are_judged() {
    let signer = SigningKey::from_bytes(&[1; 32]);
    let server = key_id(&signer.verifying_key());
    let old_head = LogHead { size: 5, root: "ab".repeat(32), at: OffsetDateTime::UNIX_EPOCH, server };
    Target::new("api.witness", 1_500).seed(serde_json::to_vec(&old_head).expect("JSON")).run(|bytes| {
        let Ok(head) = serde_json::from_slice::<LogHead>(bytes) else { return };
        let signed = Signed::new(&head, &signer).expect("JSON");
        let answer = WitnessAnswer { head: Some(signed), consistency: vec![[3; 32]; 4], ..WitnessAnswer::default() };
        let _ = answer.check(&signer.verifying_key(), None, &BTreeMap::new());
        let result = answer.check(&signer.verifying_key(), Some(&old_head), &BTreeMap::new());
        assert!(result.is_err(), "no proof of it was given: {result:?}");
    });
}
