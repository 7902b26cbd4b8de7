//! An attacker chooses jobs so that releases count less than they cost: stops jobs, protects another unit, has a limit
//! raised, or measures times.

use std::time::Duration;

use undertone_api::budget::NewBudget;
use undertone_api::job::NewJob;
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

use super::AttackOutcome;
use crate::scene;
use crate::stage::{ArmRounds, JobPlan, TestConsortium, TestDatabase, TestResult};

const JOB: Duration = Duration::from_mins(5);
/// The rounds of the stopped job.
const ROUNDS: u32 = 6;
/// A period that is long enough for a round on a busy machine.
const PERIOD: &str = "release_period_seconds = { dp_sgd = 5.0,";

pub(super) async fn play() -> TestResult<Vec<AttackOutcome>> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.sites[1].edit_policy("release_period_seconds = { dp_sgd = 0.05,", PERIOD)?;
    stage.open().await?;
    set_budget(&stage, PrivacyUnit::Record).await?;
    let mut all = stop_a_job(&stage).await?;
    all.push(raise_a_budget(&stage)?);
    all.push(records_beside_speakers(&mut stage).await?);
    all.push(speakers_beside_records(&mut stage).await?);
    Ok(all)
}

/// Stops a job after a release. The price must be that of all planned releases, because the attacker has seen the first
/// one.
async fn stop_a_job(stage: &TestConsortium) -> TestResult<Vec<AttackOutcome>> {
    let job = job(stage, PrivacyUnit::Record, ROUNDS).await?;
    let id = stage.sites[0].client.propose(stage.consortium, &job).await?.summary.id;
    stage.sites[1].client.approve(id, stage.dataset(scene::PRIVATE[0]).await?.id).await?;
    stage.wait_until(id, JOB, |job| job.summary.rounds_done >= 1).await?;
    stage.operator.cancel(id).await?;
    let deadline = std::time::Instant::now() + JOB;
    let file = loop {
        match stage.operator.certificate(id).await {
            Ok(file) => break file,
            Err(error) if std::time::Instant::now() > deadline => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    };
    let certificate: undertone_api::signed::Certificate = serde_json::from_str(&file.payload)?;
    let charges = certificate.parties.iter().find_map(|party| party.charged.as_ref()).ok_or("a private party paid")?;
    if charges.releases.committed == 0 || charges.releases.committed >= u64::from(ROUNDS) {
        return Err(format!("the job was not stopped on its way: {:?}", charges.releases).into());
    }
    let clock = charges.clock.ok_or("the receipts name their ticks")?;
    let stopped = AttackOutcome {
        attack: "stopped_job",
        gained: u64::from(ROUNDS).saturating_sub(charges.releases.counted),
        gained_before: u64::from(ROUNDS) - charges.releases.committed,
        what: "planned releases that the certificate does not price",
    };
    let timed = AttackOutcome {
        attack: "time_of_a_vector",
        gained: clock.late,
        gained_before: clock.releases,
        what: "releases whose time depended on the batch",
    };
    Ok(vec![stopped, timed])
}

/// Raises the limit after a release: the sum of two promises holds, and the site must report it.
fn raise_a_budget(stage: &TestConsortium) -> TestResult<AttackOutcome> {
    stage.sites[1].edit_policy("[budget.record]\nepsilon = 60.0", "[budget.record]\nepsilon = 70.0")?;
    let text = stage.sites[1].command(&["policy", "show"])?;
    let is_reported = text.contains("60") && text.contains("70") && text.contains("130");
    Ok(AttackOutcome {
        attack: "raised_budget",
        gained: u64::from(!is_reported),
        gained_before: 1,
        what: "raised limits that are stated as one promise",
    })
}

/// Proposes a job that protects records under a limit that protects speakers, which it must not bypass.
async fn records_beside_speakers(stage: &mut TestConsortium) -> TestResult<AttackOutcome> {
    stage.sites[1]
        .edit_policy("[budget.record]", "[budget.speaker]\nepsilon = 60.0\ndelta = 1e-6\n\n[budget.record]")?;
    stage.sites[1].stop()?;
    stage.sites[1].start(&[])?;
    set_budget(stage, PrivacyUnit::Speaker).await?;
    let before = receipts(stage)?;
    let job = job(stage, PrivacyUnit::Record, 2).await?;
    // Refused at the proposal, or by the site.
    let reason = match stage.sites[0].client.propose(stage.consortium, &job).await {
        Ok(proposed) => {
            let id = proposed.summary.id;
            let dataset = stage.dataset(scene::PRIVATE[0]).await?.id;
            let _ = stage.sites[1].client.approve(id, dataset).await;
            format!("{:?}", stage.wait_until(id, JOB, |job| job.summary.state.is_over()).await?.reason)
        }
        Err(error) => format!("{error:?}"),
    };
    if receipts(stage)? == before && !reason.contains("speaker") {
        return Err(format!("the job was refused for another reason: {reason}").into());
    }
    Ok(AttackOutcome {
        attack: "record_job_beside_a_speaker_limit",
        gained: receipts(stage)? - before,
        gained_before: 2,
        what: "releases that the limit of the speakers does not count",
    })
}

/// Sets limits for both units; a job that protects speakers must be charged to the records as well.
async fn speakers_beside_records(stage: &mut TestConsortium) -> TestResult<AttackOutcome> {
    let spent = async |stage: &TestConsortium| -> TestResult<f64> {
        let accounts = stage.dataset(scene::PRIVATE[0]).await?.accounts;
        Ok(accounts.iter().find(|account| account.unit == PrivacyUnit::Record).map_or(0.0, |account| account.spent))
    };
    let before = spent(stage).await?;
    let job = job(stage, PrivacyUnit::Speaker, 2).await?;
    let id = stage.sites[0].client.propose(stage.consortium, &job).await?.summary.id;
    stage.sites[1].client.approve(id, stage.dataset(scene::PRIVATE[0]).await?.id).await?;
    stage.finish(id, JOB).await?;
    stage.sites[1].command(&["ledger", "verify"])?;
    let gained = if spent(stage).await? > before { 0 } else { 2 };
    Ok(AttackOutcome {
        attack: "speaker_job_beside_a_record_limit",
        gained,
        gained_before: 2,
        what: "releases that the limit of the records does not count",
    })
}

/// Returns a job of the library and one private site.
async fn job(stage: &TestConsortium, unit: PrivacyUnit, rounds: u32) -> TestResult<NewJob> {
    let lead = stage.dataset("public").await?;
    let rounds = ArmRounds { rounds, learning_rate: 1e-3, evaluate_every: 2, deadline_seconds: 300, quorum: 2 };
    let private = stage.dataset(scene::PRIVATE[0]).await?.id;
    let plan = JobPlan::new("Attacked", unit, 16, &lead, 1)?.test("common", stage.dataset("test").await?.id);
    Ok(plan.party(private, 0.25, 2.0, 1.0)?.private(rounds).job())
}

async fn set_budget(stage: &TestConsortium, unit: PrivacyUnit) -> TestResult<()> {
    let budget = NewBudget { unit, epsilon: Epsilon::new(60.0)?, delta: Delta::new(1e-6)?, filter: None };
    stage.sites[1].client.set_budget(stage.dataset(scene::PRIVATE[0]).await?.id, &budget).await?;
    Ok(())
}

/// Returns the number of receipts in the site's own ledger.
fn receipts(stage: &TestConsortium) -> TestResult<u64> {
    let store = undertone_worker::site::folder::Folder::new(stage.sites[1].folder()).ledger();
    let connection = rusqlite::Connection::open_with_flags(store, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    Ok(connection.query_row("SELECT count(*) FROM receipt", [], |row| row.get::<_, i64>(0))? as u64)
}
