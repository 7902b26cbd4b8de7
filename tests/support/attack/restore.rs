//! The site's disk is restored to an older copy after a release left: one payment must not permit a second release.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use undertone_api::budget::EntryKind;
use undertone_api::id::DatasetId;
use undertone_api::job::{NewJob, Spec as AnySpec};
use undertone_worker::site::folder::Folder;

use super::AttackOutcome;
use crate::scene::{self, queries, recordings};
use crate::stage::{TestConsortium, TestDatabase, TestResult};

const JOB: Duration = Duration::from_mins(20);

/// Restores a backup with the reservation of a training job, after the first vector left.
pub(super) async fn update() -> TestResult<Vec<AttackOutcome>> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let dataset = stage.dataset(scene::PRIVATE[0]).await?.id;
    stage.sites[1].stop()?;
    stage.sites[1].start(&[("UNDERTONE_FAULT", "before-commit")])?;
    let plan = scene::small_job(&stage, 3, 300).await?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    scene::approve(&stage, job).await?;
    stage.sites[1].wait_for_end(JOB)?;
    let backup = back_up(&stage, 1)?;
    let mut vectors = BTreeSet::new();
    for life in ["first", "restored"] {
        if life == "restored" {
            stage.sites[1].command(&["restore", &backup, "--replace"])?;
        }
        stage.sites[1].start(&[("UNDERTONE_FAULT", "after-send")])?;
        stage.sites[1].wait_for_end(JOB)?;
        let work = Folder::new(stage.sites[1].folder()).work(job, dataset);
        recordings::each_file(&work, &mut |path, content| {
            if path.extension().is_some_and(|kind| kind == "vector") {
                vectors.insert(content.to_vec());
            }
        })?;
    }
    let receipts = commits(&stage, dataset).await?;
    stage.sites[1].command(&["ledger", "verify"])?;
    if vectors.len() < 2 {
        return Err("the restored site left no vector: nothing was tried".into());
    }
    Ok(vec![AttackOutcome {
        attack: "restored_update",
        gained: (vectors.len() as u64).saturating_sub(receipts),
        gained_before: 0,
        what: "vectors without a receipt",
    }])
}

/// Restores a backup with the reservation of an active learning job, after the pool was paid and accepted.
pub(super) async fn pool() -> TestResult<Vec<AttackOutcome>> {
    let mut stage = queries::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    queries::set_budgets(&stage, 2.5).await?;
    stage.sites[1].stop()?;
    stage.sites[1].start(&[("UNDERTONE_FAULT", "before-commit")])?;
    let job = queries::propose(&stage).await?;
    stage.sites[1].wait_for_end(JOB)?;
    let backup = back_up(&stage, 1)?;
    stage.sites[1].start(&[("UNDERTONE_FAULT", "after-send")])?;
    stage.sites[1].wait_for_end(JOB)?;
    let dataset = stage.dataset(queries::PRIVATE[0]).await?.id;
    let stored = Folder::new(stage.sites[1].folder()).work(job, dataset).join("outbox/pool-1.vector");
    let first = fs::read(&stored)?;

    stage.sites[1].command(&["restore", &backup, "--replace"])?;
    stage.sites[1].start(&[])?;
    let deadline = Instant::now() + JOB;
    let sent_again = loop {
        let output = stage.sites[1].output();
        if output.contains("the worker has sent a pool") {
            break true;
        }
        if output.contains("a second sample is never drawn") {
            break fs::read(&stored).is_ok_and(|stored| stored != first);
        }
        if Instant::now() > deadline {
            return Err(format!("the site neither sends nor refuses:\n{output}").into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    if commits(&stage, dataset).await? != 1 {
        return Err("the server knows another number of receipts than one".into());
    }
    stage.sites[1].command(&["ledger", "verify"])?;
    Ok(vec![AttackOutcome {
        attack: "restored_pool",
        gained: u64::from(sent_again),
        gained_before: 1,
        what: "second samples for one receipt",
    }])
}

/// Restores a backup with the reservation of a transcription on a new machine, after some sounds were sent. Also
/// proposes a job with a distance below the change of one spoken word.
pub(super) async fn transcription() -> TestResult<Vec<AttackOutcome>> {
    let Some(recordings::RecordingScenario { mut stage, clouds, .. }) = recordings::set().await? else {
        return Ok(Vec::new());
    };
    let job = recordings::job(&stage, &recordings::PROVIDERS).await?;
    let short = ask_for_less_than_a_word(&stage, &job).await?;
    let site = recordings::CLINIC;
    let dataset = stage.dataset(recordings::DATASET).await?.id;
    stage.sites[site].stop()?;
    stage.sites[site].start(&[("UNDERTONE_FAULT", "before-commit")])?;
    let id = stage.sites[0].client.propose(stage.consortium, &job).await?.summary.id;
    stage.sites[site].client.approve(id, dataset).await?;
    stage.sites[site].wait_for_end(JOB)?;
    let backup = back_up(&stage, site)?;
    stage.sites[site].start(&[("UNDERTONE_FAULT", "before-send:4")])?;
    stage.sites[site].wait_for_end(JOB)?;
    let sounds = clouds.distinct();
    if sounds.iter().all(BTreeSet::is_empty) {
        return Err("no recognizer heard anything: nothing was tried".into());
    }

    fs::remove_dir_all(stage.sites[site].folder().join("work"))?;
    stage.sites[site].command(&["restore", &backup, "--replace"])?;
    stage.sites[site].start(&[])?;
    stage.wait_until(id, JOB, |job| job.summary.state.is_over()).await?;
    let others: usize = sounds.iter().zip(clouds.distinct()).map(|(before, now)| now.difference(before).count()).sum();
    if commits(&stage, dataset).await? != 1 {
        return Err("the server knows another number of receipts than one".into());
    }
    stage.sites[site].command(&["ledger", "verify"])?;
    let restored = AttackOutcome {
        attack: "restored_transcription",
        gained: others as u64,
        gained_before: 75,
        what: "other sounds for one receipt",
    };
    Ok(vec![short, restored])
}

async fn ask_for_less_than_a_word(stage: &TestConsortium, job: &NewJob) -> TestResult<AttackOutcome> {
    let NewJob { title, spec: AnySpec::Transcription(spec) } = job else { return Err("a transcription".into()) };
    let mut spec = spec.clone();
    spec.participant.distance = std::num::NonZeroU32::MIN;
    let job = NewJob { title: title.clone(), spec: AnySpec::Transcription(spec) };
    let refused = match stage.sites[0].client.propose(stage.consortium, &job).await {
        Ok(_) => false,
        Err(error) if format!("{error:?}").contains("participant.distance") => true,
        Err(error) => return Err(error.into()),
    };
    Ok(AttackOutcome {
        attack: "distance_below_a_spoken_word",
        gained: u64::from(!refused),
        gained_before: 1,
        what: "jobs that protect less than one spoken word",
    })
}

fn back_up(stage: &TestConsortium, site: usize) -> TestResult<String> {
    let backup = stage.sites[site].folder().with_extension("backup").to_string_lossy().into_owned();
    stage.sites[site].command(&["backup", &backup, "--unsealed"])?;
    Ok(backup)
}

async fn commits(stage: &TestConsortium, dataset: DatasetId) -> TestResult<u64> {
    let entries = stage.operator.ledger(dataset).await?.items;
    Ok(entries.iter().filter(|entry| entry.kind == EntryKind::Commit).map(|entry| entry.count).sum())
}
