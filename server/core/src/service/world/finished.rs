//! Jobs that all sites finished.

use sha2::{Digest as _, Sha256};
use undertone_api::job::dp_sgd::Report as DpSgdReport;
use undertone_api::job::{Job, Report};

use super::TestConsortium;
use crate::service::certificate::verify::Known;
use crate::service::finish::{Outcome, finish};
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
    let header = model::ArtifactHeader {
        lease: leases[0].clone(),
        name: "model.safetensors".to_owned(),
        size: MODEL.len() as u64,
        digest: hex::encode(Sha256::digest(MODEL)),
    };
    let mut incoming = model::begin(&world.ctx, world.sites[0].worker, header).await.unwrap();
    incoming.write(MODEL).await.unwrap();
    incoming.accept(&world.ctx).await.unwrap();
    leases
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
    let outcome = Outcome::Done((site == 0).then(report));
    finish(&world.ctx, world.sites[site].worker, lease, &outcome, &[]).await.unwrap();
}

/// Runs the same job, and all sites have ended their parts.
pub async fn finished(world: &mut TestConsortium, rounds: u32) -> Job {
    let (job, leases) = at_the_end(world, rounds).await;
    for site in [1, 2, 0] {
        end(world, site, &leases[site]).await;
    }
    world.job(job.summary.id).await
}

/// Returns the keys by which a certificate of this consortium is verified.
pub fn verification_keys(world: &TestConsortium) -> Known {
    Known {
        server_key: Some(world.ctx.signer.verifying_key()),
        site_keys: world.sites.iter().map(|site| hex::encode(site.key.verifying_key().to_bytes())).collect(),
        model: Some((MODEL.len() as u64, hex::encode(Sha256::digest(MODEL)))),
    }
}
