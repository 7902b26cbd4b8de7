//! Masks and shares as `benches/peers/secure_aggregation.py` computes them, without a library of ours.

use serde::Deserialize;

use super::*;
use crate::agreement::{RoundSecrets, commit, mask_key, public_key};
use crate::sharing::restore;

#[derive(Deserialize)]
struct VectorFile {
    cases: Vec<VectorCase>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum VectorCase {
    Shares { threshold: u8, secret: String, shares: Vec<String> },
    Round(Box<RoundCase>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundCase {
    manifest: String,
    smallest_group: u8,
    colluding: u8,
    identities: Vec<String>,
    series: String,
    number: u32,
    bits: u8,
    length: u64,
    slot: String,
    context: String,
    secrets: Vec<String>,
    mask_keys: Vec<String>,
    channel_keys: Vec<String>,
    commitments: Vec<String>,
    members: Vec<SiteIndex>,
    pairwise_keys: Vec<PairwiseKey>,
    vectors: Vec<Vec<i32>>,
    masked: Vec<Option<String>>,
    sum: Vec<i32>,
}

#[derive(Deserialize)]
struct PairwiseKey {
    pair: [SiteIndex; 2],
    key: String,
}

fn bytes(text: &str) -> [u8; 32] {
    hex::decode(text).unwrap().try_into().unwrap()
}

#[test]
fn fixed_vectors_of_shares_and_masks_hold() {
    let text = include_str!("../../../tests/vectors/secure_aggregation.json");
    let file: VectorFile = serde_json::from_str(text).unwrap();
    assert_eq!(file.cases.len(), 6);
    for case in file.cases {
        match case {
            VectorCase::Shares { threshold, secret, shares } => check_shares(threshold, &bytes(&secret), &shares),
            VectorCase::Round(case) => check_round(&case),
        }
    }
}

/// Checks that the first shares, the last ones and others between restore the secret.
fn check_shares(threshold: u8, secret: &[u8; 32], shares: &[String]) {
    let shares: Vec<[u8; 32]> = shares.iter().map(|share| bytes(share)).collect();
    for start in 0..=shares.len() - usize::from(threshold) {
        let chosen = (start..shares.len()).map(|site| (site as SiteIndex, &shares[site]));
        assert_eq!(restore(threshold, chosen.rev()).map(|restored| *restored), Some(*secret), "{threshold} {start}");
    }
}

fn check_round(case: &RoundCase) {
    let identities = case.identities.iter().map(|seed| SigningKey::from_bytes(&bytes(seed))).collect();
    let terms = GroupTerms { smallest_group: case.smallest_group, colluding: case.colluding };
    let modulus = Modulus::new(case.bits).unwrap();
    let group = TestGroup::with(bytes(&case.manifest), identities, terms, modulus, case.length);
    let context = RoundContext::new(&group.roster, &case.series, case.number, case.length, modulus).unwrap();
    assert_eq!(hex::encode(context.slot()), case.slot);
    assert_eq!(hex::encode(context.digest()), case.context);
    let secrets: Vec<RoundSecrets> =
        case.secrets.iter().map(|secret| RoundSecrets::derive(&context, &bytes(secret))).collect();
    for (site, secrets) in secrets.iter().enumerate() {
        assert_eq!(hex::encode(public_key(secrets.mask())), case.mask_keys[site]);
        assert_eq!(hex::encode(public_key(secrets.channel())), case.channel_keys[site]);
        assert_eq!(hex::encode(commit(&context, site as SiteIndex, secrets.seed())), case.commitments[site]);
    }
    for PairwiseKey { pair, key } in &case.pairwise_keys {
        let [low, high] = pair.map(usize::from);
        let public = public_key(secrets[low].mask());
        // From the other end: the peer computes the same.
        let derived = mask_key(&context, secrets[high].mask(), &public, [pair[1], pair[0]]).unwrap();
        assert_eq!(hex::encode(*derived), *key);
    }
    let mut sites: Vec<TestSiteRound<'_>> = Vec::new();
    for (site, secret) in case.secrets.iter().enumerate() {
        let record = RoundRecord::new(*context.digest(), bytes(secret));
        group.disks[site].clone().store(context.slot(), &record).unwrap();
        sites.push(group.enter(site, case.number));
    }
    let list: Vec<Advertisement> = sites.iter().map(SiteRound::advertisement).collect();
    let members = set(case.members.iter().copied());
    let shares: Vec<SealedShares> =
        members.iter().flat_map(|site| sites[usize::from(site)].share(list.clone()).unwrap()).collect();
    for site in members.iter() {
        let place = usize::from(site);
        let own = shares.iter().filter(|sealed| sealed.to == site).cloned().collect();
        let masked = sites[place].mask(own, &case.vectors[place]).unwrap();
        assert_eq!((masked.members, Some(hex::encode(masked.bytes))), (members, case.masked[place].clone()));
    }
    let mut sum = vec![0; case.sum.len()];
    for site in members.iter() {
        sum.iter_mut().zip(&case.vectors[usize::from(site)]).for_each(|(total, value)| *total += value);
    }
    assert_eq!(sum, case.sum);
}
