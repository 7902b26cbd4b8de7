//! The owner of the server claims that a steward approved. They can change its database at will; the site pins the
//! steward's key.

use std::time::Duration;

use ed25519_dalek::SigningKey;
use undertone_api::budget::EntryKind;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::JobState;

use super::AttackOutcome;
use crate::scene;
use crate::stage::{TestConsortium, TestDatabase, TestResult};

const JOB: Duration = Duration::from_mins(5);
/// The site's approval rule in the honest server's database.
const RULE: &str = "SELECT approval FROM dataset WHERE id = ?1";

pub(super) async fn play() -> TestResult<Vec<AttackOutcome>> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    Ok(vec![approve_unsigned(&stage).await?, with_another_key(&stage).await?])
}

/// Deletes the server's record that the site verifies signatures, and approves without one.
async fn approve_unsigned(stage: &TestConsortium) -> TestResult<AttackOutcome> {
    let dataset = stage.dataset(scene::PRIVATE[0]).await?.id;
    let database = ServerDatabase::open(stage)?;
    let rule = database.rule(dataset)?;
    database.set_rule(dataset, None)?;
    let job = proposed(stage).await?;
    let bare = stage.sites[1].client.with_address(stage.address()).without_approval_key();
    bare.approve(job, dataset).await?;
    let gained = outcome(stage, job, dataset, "brought no signature").await?;
    database.set_rule(dataset, Some(&rule))?;
    Ok(AttackOutcome {
        attack: "approval_without_signature",
        gained,
        gained_before: 1,
        what: "jobs that ran because the server said so",
    })
}

/// Replaces the steward's key at the server by the attacker's, and signs with it.
async fn with_another_key(stage: &TestConsortium) -> TestResult<AttackOutcome> {
    let dataset = stage.dataset(scene::PRIVATE[0]).await?.id;
    let database = ServerDatabase::open(stage)?;
    let truth = database.rule(dataset)?;
    let attacker = stage.sites[1].client.clone().with_approval_key(SigningKey::from_bytes(&[7; 32]));
    let (Some(theirs), Some(own)) = (stage.sites[1].client.approval_key(), attacker.approval_key()) else {
        return Err("both have a key".into());
    };
    let key = |key: &undertone_api::signed::ApprovalKey| -> TestResult<String> {
        let text = serde_json::to_value(key)?;
        Ok(text["public_key"].as_str().ok_or("an Ed25519 key")?.to_owned())
    };
    let (theirs, own) = (key(&theirs)?, key(&own)?);
    if !truth.contains(&theirs) {
        return Err(format!("the site stated another key: {truth}").into());
    }
    database.set_rule(dataset, Some(&truth.replace(&theirs, &own)))?;
    let job = proposed(stage).await?;
    attacker.approve(job, dataset).await?;
    let gained = outcome(stage, job, dataset, "none of the keys").await?;
    database.set_rule(dataset, Some(&truth))?;
    Ok(AttackOutcome {
        attack: "approval_by_another_key",
        gained,
        gained_before: 1,
        what: "jobs that ran because the server said so",
    })
}

/// Returns a job that all stewards except the attacked site's approve.
async fn proposed(stage: &TestConsortium) -> TestResult<JobId> {
    let plan = scene::small_job(stage, 2, 300).await?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    for (site, name) in stage.sites.iter().zip(["public", "one", "two", "odd"]).skip(2) {
        site.client.approve(job, stage.dataset(name).await?.id).await?;
    }
    Ok(job)
}

/// Waits until the site refuses or holds the job for this reason, or pays for it; returns 1 if it paid.
async fn outcome(stage: &TestConsortium, job: JobId, dataset: DatasetId, reason: &str) -> TestResult<u64> {
    let before = commits(stage, dataset).await?;
    let over = |state: JobState| state.is_over() || state == JobState::Paused;
    let current = stage.wait_until(job, JOB, |job| over(job.summary.state) || job.summary.rounds_done > 0).await?;
    let is_charged = commits(stage, dataset).await? > before;
    let reasons = format!("{:?} {:?}", current.reason, current.holds);
    if !is_charged && !reasons.contains(reason) {
        return Err(format!("the site did not run the job for another reason: {reasons}").into());
    }
    if !stage.operator.job(job).await?.summary.state.is_over() {
        stage.operator.cancel(job).await?;
    }
    Ok(u64::from(is_charged))
}

async fn commits(stage: &TestConsortium, dataset: DatasetId) -> TestResult<usize> {
    let entries = stage.operator.ledger(dataset).await?.items;
    Ok(entries.iter().filter(|entry| entry.kind == EntryKind::Commit).count())
}

/// The running server's database, changed by its owner.
struct ServerDatabase(rusqlite::Connection);

impl ServerDatabase {
    fn open(stage: &TestConsortium) -> TestResult<Self> {
        let connection = rusqlite::Connection::open(stage.server_folder().join("undertone.sqlite"))?;
        connection.busy_timeout(Duration::from_secs(10))?;
        Ok(Self(connection))
    }

    fn rule(&self, dataset: DatasetId) -> TestResult<String> {
        Ok(self.0.query_row(RULE, [dataset.0.as_bytes().as_slice()], |row| row.get(0))?)
    }

    fn set_rule(&self, dataset: DatasetId, rule: Option<&str>) -> TestResult<()> {
        let changed = self.0.execute(
            "UPDATE dataset SET approval = ?2 WHERE id = ?1",
            rusqlite::params![dataset.0.as_bytes().as_slice(), rule],
        )?;
        if changed == 1 { Ok(()) } else { Err("no dataset was changed".into()) }
    }
}
