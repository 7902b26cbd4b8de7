//! The scene of most scenarios: a public library and three sites with private speech.

pub mod queries;
pub mod recordings;

use std::time::Duration;

use crate::stage::{
    ArmRounds, JobPlan, SiteDataset, SpeechCorpus, TestConsortium, TestDatabase, TestResult, TestSite, wait_until_so,
};
use undertone_api::budget::NewBudget;
use undertone_api::id::JobId;
use undertone_api::job::dp_sgd::{self, RehearsedSetting};
use undertone_api::job::{JobState, NewJob, Spec};
use undertone_api::plan::{NewPlan, Plan};
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

/// The private datasets, one at each private site.
pub const PRIVATE: [&str; 3] = ["one", "two", "odd"];
/// The time limit of a small job.
const JOB: Duration = Duration::from_secs(400);
/// The time for which a round of a small job waits for all sites, seconds.
const DEADLINE_SECONDS: u32 = 300;

/// Returns the sites with private data.
pub fn private_sites(sites: &[TestSite]) -> impl Iterator<Item = &TestSite> {
    sites.iter().skip(1)
}

/// Sets up four organizations with prepared datasets of the small corpus; workers are not running yet.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set(database: TestDatabase) -> TestResult<TestConsortium> {
    set_with(database, &[]).await
}

/// Sets up the same scene with variables of the server's environment.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set_with(database: TestDatabase, environment: &[(&str, &str)]) -> TestResult<TestConsortium> {
    let corpus = SpeechCorpus::small()?;
    let mut stage = TestConsortium::set_with(database, &["Library", "One", "Two", "Odd"], environment).await?;
    for holding in [
        SiteDataset::new("public", "public", &["--subset", "public"]),
        SiteDataset::new("test", "public", &["--subset", "test", "--hold-out", "1"]),
    ] {
        stage.sites[0].prepare(&corpus, with_classes(holding))?;
    }
    for (site, name) in stage.sites.iter_mut().skip(1).zip(PRIVATE) {
        site.prepare(&corpus, with_classes(SiteDataset::new(name, "private", &["--subset", name])))?;
        site.edit_policy("most_epsilon_per_job = 4.0", "most_epsilon_per_job = 60.0")?;
        site.edit_policy("[budget.record]\nepsilon = 8.0", "[budget.record]\nepsilon = 60.0")?;
    }
    Ok(stage)
}

/// Returns the fingerprint that a site shows to its operator.
fn fingerprint(text: &str) -> TestResult<String> {
    let line = text.lines().map(str::trim).find(|line| line.len() == 64 && line.chars().all(|c| c.is_ascii_hexdigit()));
    Ok(line.ok_or("`peers list` shows the site's own fingerprint")?.to_owned())
}

/// Pins the keys of sites at each other, as their operators do at their terminals. `labels` has a label for each site, in
/// order.
///
/// # Errors
/// When a site does not show its key or refuses another one.
pub fn pin_peers(sites: &[TestSite], labels: &[&str]) -> TestResult<()> {
    let fingerprints = sites.iter().map(|site| fingerprint(&site.command(&["peers", "list"])?));
    let fingerprints = fingerprints.collect::<TestResult<Vec<_>>>()?;
    for (own, site) in sites.iter().enumerate() {
        for (other, (print, label)) in fingerprints.iter().zip(labels).enumerate() {
            if other != own {
                site.command(&["peers", "pin", print, "--label", label])?;
            }
        }
    }
    Ok(())
}

/// Sets a lifetime budget of `epsilon` for records on every private dataset.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set_budgets(stage: &TestConsortium, epsilon: f64) -> TestResult<()> {
    set_budgets_of(stage, PrivacyUnit::Record, epsilon).await
}

/// Sets a lifetime budget of `epsilon` for each `unit` on every private dataset.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set_budgets_of(stage: &TestConsortium, unit: PrivacyUnit, epsilon: f64) -> TestResult<()> {
    let budget = NewBudget { unit, epsilon: Epsilon::new(epsilon)?, delta: Delta::new(1e-6)?, filter: None };
    for (site, name) in private_sites(&stage.sites).zip(PRIVATE) {
        site.client.set_budget(stage.dataset(name).await?.id, &budget).await?;
    }
    Ok(())
}

/// Plans a small private job of all sites: `rounds` rounds that wait at most `deadline_seconds` for all four sites.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn small_job(stage: &TestConsortium, rounds: u32, deadline_seconds: u32) -> TestResult<JobPlan> {
    small_job_of(stage, PrivacyUnit::Record, rounds, deadline_seconds).await
}

/// Plans the same job with another protected `unit`.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn small_job_of(
    stage: &TestConsortium,
    unit: PrivacyUnit,
    rounds: u32,
    deadline_seconds: u32,
) -> TestResult<JobPlan> {
    let lead = stage.dataset("public").await?;
    let mut plan = JobPlan::new("Small", unit, 16, &lead, 2)?.test("common", stage.dataset("test").await?.id);
    for name in PRIVATE {
        plan = plan.party(stage.dataset(name).await?.id, 0.25, 2.0, 1.0)?;
    }
    Ok(plan.private(ArmRounds { rounds, learning_rate: 1e-3, evaluate_every: 2, deadline_seconds, quorum: 4 }))
}

/// Rehearses the setting of a job once on the lead's public data, without any other site, and returns its result from the
/// plan of the job.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn rehearse(stage: &TestConsortium, spec: dp_sgd::Spec) -> TestResult<RehearsedSetting> {
    let mut rehearsal = spec.to_rehearsal(5).map_err(|violations| format!("{violations:?}"))?;
    let own = rehearsal.rehearsal.as_mut().ok_or("a rehearsal")?;
    own.clip_factors.clear();
    own.rate_factors.clear();
    own.repeats = 1;
    let client = &stage.sites[0].client;
    let new = NewJob { title: "Rehearsal".to_owned(), spec: Spec::DpSgd(rehearsal) };
    let proposed = client.propose(stage.consortium, &new).await?;
    if proposed.summary.state == JobState::Proposed {
        return Err("an owner of private data is asked about a rehearsal".into());
    }
    let done = stage.finish(proposed.summary.id, JOB).await?;
    if done.participants.iter().any(|party| party.charge.is_some() || party.releases > 0) {
        return Err(format!("a rehearsal is charged: {done:?}").into());
    }
    let job = NewJob { title: "Rehearsed".to_owned(), spec: Spec::DpSgd(spec) };
    let plan: Plan = client.post("/plans", &NewPlan { consortium: stage.consortium, job }).await?;
    let rehearsal = plan.rehearsals.into_iter().next().ok_or("the plan has its rehearsal")?;
    Ok(rehearsal.own.ok_or("a result")?)
}

/// Approves as all stewards.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn approve(stage: &TestConsortium, job: JobId) -> TestResult<()> {
    for (site, name) in private_sites(&stage.sites).zip(PRIVATE) {
        site.client.approve(job, stage.dataset(name).await?.id).await?;
    }
    Ok(())
}

/// Proposes a small job of all sites, and approves it as all stewards.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn start_small_job(stage: &TestConsortium, rounds: u32) -> TestResult<JobId> {
    let plan = small_job(stage, rounds, DEADLINE_SECONDS).await?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    approve(stage, job).await?;
    Ok(job)
}

/// Runs a small job of all sites, from its proposal to its end.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn run_small_job(stage: &TestConsortium, rounds: u32) -> TestResult<JobId> {
    let job = start_small_job(stage, rounds).await?;
    stage.finish(job, JOB).await?;
    Ok(job)
}

/// Waits until every private site has the proofs of so many receipts. A site requests the last ones after it has
/// reported the end of its part.
///
/// # Errors
/// When a site does not have them in time.
pub async fn wait_for_proofs(stage: &TestConsortium, receipts: u32) -> TestResult<()> {
    let all = format!("has countersigned {receipts} of {receipts} receipts; its log provably contains {receipts};");
    for site in private_sites(&stage.sites) {
        wait_until_so(&format!("{} has every proof", site.name), || {
            site.command(&["ledger", "verify"]).is_ok_and(|printed| printed.contains(&all))
        })
        .await?;
    }
    Ok(())
}

/// Adds the number of the synthesizer's classes, which is the same for every dataset.
fn with_classes(mut holding: SiteDataset) -> SiteDataset {
    let classes = undertone_worker::speech::synthesize::CLASSES;
    holding.choice.extend(["--classes".to_owned(), classes.to_string()]);
    holding
}
