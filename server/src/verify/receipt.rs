//! The sites' chains of receipts, and the server's countersignatures.

use std::collections::BTreeMap;

use ed25519_dalek::VerifyingKey;
use undertone_api::id::WorkerId;
use undertone_api::log::Leaf;
use undertone_api::log::witness::{charges, countersigned};
use undertone_api::signed::{Receipt, Rotation, Signed, SiteKeys, public_key};

use super::NOTHING;
use super::account::Account;
use super::manifest::Manifests;
use super::report::Finding;

/// Each site's keys and how far its chain was followed.
#[derive(Debug, Default)]
pub(super) struct Sites(BTreeMap<WorkerId, Site>);

#[derive(Debug)]
struct Site {
    keys: SiteKeys,
    sequence: u64,
    head: String,
}

impl Sites {
    /// Notes a site's key, and how it came to be that one.
    pub(super) fn enrol(&mut self, worker: WorkerId, key: &str, rotations: &[Rotation]) -> Result<(), String> {
        let key = public_key(key).map_err(|error| error.to_string())?;
        let keys = SiteKeys::leading_to(key, rotations).map_err(|error| error.to_string())?;
        self.0.insert(worker, Site { keys, sequence: 0, head: NOTHING.to_owned() });
        Ok(())
    }

    /// Judges a receipt that should pay for `leaf` at `position`.
    pub(super) fn take(
        &mut self,
        signed: &Signed,
        countersignature: &Signed,
        server: &VerifyingKey,
        (position, leaf): (u64, &Leaf),
        account: Option<&Account>,
        manifests: &Manifests,
    ) -> Result<(), Finding> {
        let digest = signed.digest();
        let wrong = |what: String| Finding { place: format!("receipt {digest} (position {position})"), what };
        // Whose it is stands in the payload; that this worker's key signed it is proved with the next line.
        let claimed: Receipt = serde_json::from_str(&signed.payload)
            .map_err(|error| wrong(format!("it is no receipt that this version can read: {error}")))?;
        let named = format!("receipt {} of worker {} (position {position})", claimed.sequence, claimed.worker);
        let wrong = |what: &str| Finding { place: named.clone(), what: what.to_owned() };
        let site = self.0.get_mut(&claimed.worker).ok_or_else(|| wrong("the worker's key is not known"))?;
        let receipt: Receipt = signed
            .open(site.keys.at(claimed.sequence))
            .map_err(|error| wrong(&format!("the site's signature: {error}")))?;
        let follows = receipt.sequence == site.sequence + 1 && receipt.previous == site.head;
        (site.sequence, site.head) = (receipt.sequence, digest.clone());
        if !follows {
            return Err(wrong("it does not follow the receipt before it in the site's chain"));
        }
        let word =
            countersigned(countersignature, server, &digest, &receipt).map_err(|error| wrong(&error.to_string()))?;
        if word.position != position {
            return Err(wrong(&format!("its countersignature names position {}, not this one", word.position)));
        }
        if !charges(leaf, &digest, &receipt) {
            return Err(wrong("the ledger charges something else than it says"));
        }
        if account.is_some_and(|account| !account.is_for(&receipt)) {
            return Err(wrong("it is charged to the account of another lineage, unit or adjacency"));
        }
        if let Some(party) = manifests.party(receipt.job.0, receipt.dataset.0)
            && (party.manifest != receipt.manifest || party.worker != receipt.worker)
        {
            return Err(wrong("it was made under another manifest, or by another worker than the manifest names"));
        }
        Ok(())
    }
}
