//! The permissions of manifests: the charge and the owner of each dataset in a job.

use std::collections::BTreeMap;

use ed25519_dalek::VerifyingKey;
use undertone_api::id::WorkerId;
use undertone_api::job::Charge;
use undertone_api::signed::{Manifest, Signed};
use uuid::Uuid;

/// A dataset's part in a job, from the signed manifest.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ManifestParty {
    pub(super) manifest: String,
    pub(super) worker: WorkerId,
    pub(super) organization: Uuid,
    pub(super) lineage: Uuid,
    pub(super) charge: Option<Charge>,
}

/// All manifests.
#[derive(Debug, Default)]
pub(super) struct ManifestParties(BTreeMap<(Uuid, Uuid), ManifestParty>);

impl ManifestParties {
    /// Adds a manifest that the server signed.
    pub(super) fn take(&mut self, signed: &Signed, key: &VerifyingKey) -> Result<(), String> {
        let manifest: Manifest = signed.open(key).map_err(|error| error.to_string())?;
        let digest = signed.digest();
        for party in manifest.participants {
            let place = (manifest.job.0, party.dataset.0);
            let entry = ManifestParty {
                manifest: digest.clone(),
                worker: party.worker,
                organization: party.organization.0,
                lineage: party.lineage.0,
                charge: party.charge,
            };
            if self.0.insert(place, entry).is_some_and(|before| before.manifest != digest) {
                return Err(format!("the server signed two manifests for job {}", manifest.job));
            }
        }
        Ok(())
    }

    /// Returns a dataset's part in a job.
    pub(super) fn party(&self, job: Uuid, dataset: Uuid) -> Option<&ManifestParty> {
        self.0.get(&(job, dataset))
    }
}
