//! Correlated noise, end to end: three private sites train with it, and one of them is killed in the middle.
//! The rounds are one charge, each round has one receipt, and the certificate verifies offline.

use std::num::NonZeroU32;
use std::time::Duration;

use support::scene;
use support::stage::{TestDatabase, TestResult};
use undertone_api::budget::EntryKind;
use undertone_api::job::dp_sgd::BandedNoise;
use undertone_api::job::{JobKind as _, NewJob, Spec};
use undertone_privacy::{Event, SamplingRate};

use crate::masked::certificate_verifies_offline;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 6;
const BANDS: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn three_sites_train_with_correlated_noise_through_a_crash() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let NewJob { title, spec } = scene::small_job(&stage, ROUNDS, 300).await?.job();
    let Spec::DpSgd(mut spec) = spec else { return Err("the job trains".into()) };
    for party in &mut spec.participants {
        if let Some(noise) = &mut party.noise {
            noise.banded = NonZeroU32::new(BANDS).map(|bands| BandedNoise { bands });
            party.sampling_rate = SamplingRate::new(0.25)?;
        }
    }
    let job = NewJob { title, spec: Spec::DpSgd(spec.clone()) };
    let job = stage.sites[0].client.propose(stage.consortium, &job).await?.summary.id;
    scene::approve(&stage, job).await?;
    stage.wait_until(job, JOB, |job| job.summary.rounds_done >= 2).await?;
    stage.sites[1].kill();
    stage.sites[1].start(&[])?;
    stage.finish(job, JOB).await?;

    for (site, name) in scene::private_sites(&stage.sites).zip(scene::PRIVATE) {
        let dataset = stage.dataset(name).await?;
        let charge = spec.cost(&dataset).ok_or("a private dataset is charged")?;
        assert_eq!((charge.releases, charge.event.whole_releases()), (ROUNDS.into(), Some(ROUNDS.into())), "{name}");
        let entries = stage.operator.ledger(dataset.id).await?.items;
        let commits: Vec<_> = entries.iter().filter(|entry| entry.kind == EntryKind::Commit).collect();
        assert_eq!(commits.len(), ROUNDS as usize, "{name}: one receipt a round");
        assert!(commits.iter().all(|entry| matches!(entry.event, Event::BandedGaussian { .. })), "{name}: {commits:?}");
        site.command(&["ledger", "verify"])?;
    }
    certificate_verifies_offline(&stage, job).await
}
