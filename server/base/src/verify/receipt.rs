//! The sites' chains of receipts, and the server's countersignatures.

use std::collections::BTreeMap;

use ed25519_dalek::VerifyingKey;
use undertone_api::id::WorkerId;
use undertone_api::log::LogLeaf;
use undertone_api::log::leaf::{KeyEvent, WorkerKeyRecord};
use undertone_api::log::witness::{charges, countersigned};
use undertone_api::signed::{KeyRotation, Receipt, Signed, SiteKeys, public_key};

use super::NOTHING;
use super::account::ReplayedAccount;
use super::manifest::ManifestParties;
use super::report::Finding;

/// Each site's keys and the verified part of its chain.
#[derive(Debug, Default)]
pub(super) struct SiteChains {
    sites: BTreeMap<WorkerId, SiteChain>,
    logged: BTreeMap<WorkerId, Vec<WorkerKeyRecord>>,
}

#[derive(Debug)]
struct SiteChain {
    keys: SiteKeys,
    sequence: u64,
    head: String,
}

impl SiteChains {
    /// Records a site's key, with its rotations.
    pub(super) fn enrol(&mut self, worker: WorkerId, key: &str, rotations: &[KeyRotation]) -> Result<(), String> {
        let key = public_key(key).map_err(|error| error.to_string())?;
        let keys = SiteKeys::leading_to(key, rotations).map_err(|error| error.to_string())?;
        self.sites.insert(worker, SiteChain { keys, sequence: 0, head: NOTHING.to_owned() });
        Ok(())
    }

    /// Adds an event of a worker's key from the log.
    pub(super) fn log_key(&mut self, record: &WorkerKeyRecord) -> Result<(), String> {
        let events = self.logged.entry(WorkerId(record.worker)).or_default();
        let expected = events.len() as i64 + 1;
        events.push(record.clone());
        public_key(&record.public_key).map_err(|error| error.to_string())?;
        if record.number == expected {
            Ok(())
        } else {
            Err(format!("it is event {} where number {expected} follows", record.number))
        }
    }

    /// Returns the workers whose keys differ from the log.
    pub(super) fn list_unlogged_keys(&self) -> Vec<(WorkerId, String)> {
        let mut unlike = Vec::new();
        for (worker, events) in &self.logged {
            let (Some(site), Some(last)) = (self.sites.get(worker), events.last()) else { continue };
            let newest = hex::encode(site.keys.newest().as_bytes());
            let foreign =
                events.iter().find(|record| public_key(&record.public_key).is_ok_and(|key| !site.keys.includes(&key)));
            if last.public_key != newest {
                unlike.push((
                    *worker,
                    format!("its key is {newest}, and the last one in the log is {}", last.public_key),
                ));
            } else if let Some(record) = foreign {
                unlike.push((
                    *worker,
                    format!("the log has the key {}, which no signed change names", record.public_key),
                ));
            }
        }
        unlike
    }

    /// Verifies a receipt that should pay for `leaf` at `position`.
    pub(super) fn take(
        &mut self,
        signed: &Signed,
        countersignature: &Signed,
        server: &VerifyingKey,
        (position, leaf): (u64, &LogLeaf),
        account: Option<&ReplayedAccount>,
        manifests: &ManifestParties,
    ) -> Result<(), Finding> {
        let digest = signed.digest();
        let wrong = |what: String| Finding { place: format!("receipt {digest} (position {position})"), what };
        // The payload names the worker; the next line verifies that this worker's key signed it.
        let claimed: Receipt = serde_json::from_str(&signed.payload)
            .map_err(|error| wrong(format!("it is no receipt that this version can read: {error}")))?;
        let place = format!("receipt {} of worker {} (position {position})", claimed.sequence, claimed.worker);
        let wrong = |what: &str| Finding { place: place.clone(), what: what.to_owned() };
        let logged = self.logged.get(&claimed.worker);
        let site = self.sites.get_mut(&claimed.worker).ok_or_else(|| wrong("the worker's key is not known"))?;
        let key = site.keys.key_of_receipt(claimed.sequence);
        // Workers that enrolled before keys were logged have no such event before their first receipts.
        let enrolled = logged.filter(|events| events.iter().any(|record| record.event == KeyEvent::Enrolled));
        let hex_key = hex::encode(key.as_bytes());
        if enrolled.is_some_and(|events| events.iter().all(|record| record.public_key != hex_key)) {
            return Err(wrong("it is signed by a key that the log does not have of this worker"));
        }
        let receipt: Receipt = signed.open(key).map_err(|error| wrong(&format!("the site's signature: {error}")))?;
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
