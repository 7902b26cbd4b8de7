//! Jobs that all sites finished.

use object_store::ObjectStoreExt as _;
use sha2::{Digest as _, Sha256};
use undertone_api::job::dp_sgd::Report as DpSgdReport;
use undertone_api::job::{INITIAL_MODEL, Job, Report, dp_sgd};
use undertone_certificate::TrustedInputs;

use super::TestConsortium;
use crate::service::finish::{PartOutcome, finish};
use crate::service::model;

/// The content of the model.
pub const MODEL: &[u8] = b"what was learned";

/// Returns the lead's report on the training.
pub fn report() -> Report {
    Report::DpSgd(DpSgdReport { parameters: 7, ..DpSgdReport::default() })
}

/// Runs `rounds` rounds of two private sites and a public one; the lead stores a model, and no site has ended its part.
pub async fn at_the_end(world: &mut TestConsortium, rounds: u32) -> (Job, [String; 3]) {
    let job = world.queued(rounds).await;
    let leases = submitted(world, &job, rounds).await;
    (job, leases)
}

/// Submits every site's vectors for `rounds` rounds of a queued job; the lead stores a model.
pub async fn submitted(world: &mut TestConsortium, job: &Job, rounds: u32) -> [String; 3] {
    let leases = [world.lease(0).await, world.lease(1).await, world.lease(2).await];
    for round in 1..=rounds {
        for (site, lease) in leases.iter().enumerate() {
            world.submit(job, site, lease, round, &[1.0]).await.unwrap();
        }
    }
    store_file(world, &leases[0], "model.safetensors", MODEL).await;
    leases
}

/// Stores a file of the lead's job.
pub async fn store_file(world: &TestConsortium, lease: &str, name: &str, content: &[u8]) {
    let header = model::ArtifactHeader {
        lease: lease.to_owned(),
        name: name.to_owned(),
        size: content.len() as u64,
        digest: hex::encode(Sha256::digest(content)),
    };
    let mut incoming = model::begin(&world.ctx, world.sites[0].worker, header).await.unwrap();
    incoming.write(content).await.unwrap();
    incoming.accept(&world.ctx).await.unwrap();
}

/// Runs a job of one round that begins with the model of an earlier one, whose content is `content`. Its lead stores
/// [`MODEL`] as `model.safetensors`, and `result` as its private model.
pub async fn continued(world: &mut TestConsortium, content: &[u8], result: &[u8]) -> Job {
    let digest = hex::encode(Sha256::digest(content));
    let spec = dp_sgd::Spec { initial_model: Some(digest.clone()), ..world.spec(1) };
    let job = world.propose(spec).await.unwrap();
    let job = world.approved(job).await;
    let leases = submitted(world, &job, 1).await;
    for (site, lease) in leases.iter().enumerate() {
        let worker = world.sites[site].worker;
        let file = model::fetch(&world.ctx, worker, lease, INITIAL_MODEL, 0).await.unwrap();
        let file = file.expect("the server serves it");
        assert_eq!(file.artifact.digest, digest);
        let bytes = world.ctx.store.get(&file.object).await.unwrap().bytes().await.unwrap();
        assert_eq!(&bytes[..], content);
    }
    store_file(world, &leases[0], "model-private.safetensors", result).await;
    for site in [1, 2, 0] {
        end(world, site, &leases[site]).await;
    }
    world.job(job.summary.id).await
}

/// Runs `rounds` rounds of a queued job and ends every site's part.
pub async fn played(world: &mut TestConsortium, job: &Job, rounds: u32) {
    let leases = submitted(world, job, rounds).await;
    for site in [1, 2, 0] {
        end(world, site, &leases[site]).await;
    }
}

/// Ends a site's part of a job; the lead reports on the training.
pub async fn end(world: &TestConsortium, site: usize, lease: &str) {
    let outcome = PartOutcome::Done((site == 0).then(report));
    finish(&world.ctx, world.sites[site].worker, lease, &outcome, &[]).await.unwrap();
}

/// Runs the same job, and all sites have ended their parts.
pub async fn finished(world: &mut TestConsortium, rounds: u32) -> Job {
    let (job, leases) = Box::pin(at_the_end(world, rounds)).await;
    for site in [1, 2, 0] {
        Box::pin(end(world, site, &leases[site])).await;
    }
    world.job(job.summary.id).await
}

/// Returns the keys by which a certificate of this consortium is verified.
pub fn verification_keys(world: &TestConsortium) -> TrustedInputs {
    TrustedInputs {
        server_key: Some(world.ctx.signer.verifying_key()),
        site_keys: world.sites.iter().map(|site| hex::encode(site.key.verifying_key().to_bytes())).collect(),
        model: Some((MODEL.len() as u64, hex::encode(Sha256::digest(MODEL)))),
    }
}
