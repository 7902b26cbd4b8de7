//! Shared parts of this crate's tests, in addition to those of the site.

pub(crate) use undertone_worker_site::testing::*;

use ed25519_dalek::SigningKey;
use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, LineageId, WorkerId};
use undertone_api::job::Spec;
use undertone_api::job::dp_sgd::{AverageWeights, Party, SecureAggregation};
use undertone_api::signed::{JobLimits, Manifest};
use uuid::Uuid;

use crate::config::queries::Queries;
use crate::config::{Config, ServerEndpoint};
use crate::dp::device::Compute;

/// Returns the configuration of a site with a server on this machine.
pub(crate) fn config() -> Config {
    Config {
        server: ServerEndpoint::new("http://127.0.0.1:8421", None).expect("it is on loopback"),
        server_key: server_key().verifying_key(),
        worker: WORKER,
        worker_name: "north".to_owned(),
        organization: ORGANIZATION,
        organization_name: "North Hospital".to_owned(),
        concurrent_runs: 4,
        rotate_key_days: 365,
        anchor: None,
        compute: Compute::default(),
        queries: Queries::default(),
        transcription: crate::config::transcription::TranscriptionSettings::default(),
        programs: crate::speech::sandbox::Programs::default(),
    }
}

/// Returns the identity key of another site of a group: site 1 or 2.
pub(crate) fn peer_key(site: u8) -> SigningKey {
    SigningKey::from_bytes(&[100 + site; 32])
}

/// Returns the manifest of a job with secure aggregation, whose group has this site, with the `own` key (hex), and two
/// others.
pub(crate) fn masked_manifest(own: &str) -> Manifest {
    let peer = |site: u8| DatasetId(Uuid::from_u128(50 + u128::from(site)));
    let mut spec = dp_sgd();
    spec.model.classes = Some(40);
    let party = spec.participants[1];
    spec.participants.extend([1, 2].map(|site| Party { dataset: peer(site), ..party }));
    spec.weights = AverageWeights::ExpectedBatch;
    spec.secure_aggregation = Some(SecureAggregation::new(2, 0));
    let spec = Spec::DpSgd(spec);
    let charge = spec.cost(&local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER));
    let mut manifest = manifest(spec, charge);
    manifest.participants[1].site_key = Some(own.to_owned());
    let mut member = manifest.participants[1].clone();
    for site in [1, 2] {
        member.dataset = peer(site);
        member.dataset_name = format!("ward-{site}");
        member.lineage = LineageId(Uuid::from_u128(60 + u128::from(site)));
        member.worker = WorkerId(Uuid::from_u128(70 + u128::from(site)));
        member.site_key = Some(hex::encode(peer_key(site).verifying_key().to_bytes()));
        manifest.participants.push(member.clone());
    }
    let limits = JobLimits::from_spec(&manifest.spec, &manifest.participants, manifest.issued_at);
    manifest.limits = Some(limits);
    manifest
}
