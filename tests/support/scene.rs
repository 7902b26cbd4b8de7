//! The scene of most scenarios: a public library and three sites with private speech.

pub mod queries;
pub mod recordings;

use crate::stage::{Corpus, Database, Holding, Plan, Rounds, Stage, Staged};
use undertone_api::budget::NewBudget;
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

/// The private datasets, one at each private site.
pub const PRIVATE: [&str; 3] = ["one", "two", "odd"];

/// Sets up four organizations with prepared datasets of the small corpus; workers are not running yet.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set(database: Database) -> Staged<Stage> {
    set_with(database, &[]).await
}

/// Sets up the same scene with variables of the server's environment.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set_with(database: Database, environment: &[(&str, &str)]) -> Staged<Stage> {
    let corpus = Corpus::small()?;
    let mut stage = Stage::set_with(database, &["Library", "One", "Two", "Odd"], environment).await?;
    for holding in [
        Holding::new("public", "public", &["--subset", "public"]),
        Holding::new("test", "public", &["--subset", "test", "--hold-out", "1"]),
    ] {
        stage.sites[0].prepare(&corpus, with_classes(holding))?;
    }
    for (site, name) in stage.sites.iter_mut().skip(1).zip(PRIVATE) {
        site.prepare(&corpus, with_classes(Holding::new(name, "private", &["--subset", name])))?;
        site.edit_policy("most_epsilon_per_job = 4.0", "most_epsilon_per_job = 60.0")?;
        site.edit_policy("[budget.record]\nepsilon = 8.0", "[budget.record]\nepsilon = 60.0")?;
    }
    Ok(stage)
}

/// Sets a lifetime budget of `epsilon` for records on every private dataset.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set_budgets(stage: &Stage, epsilon: f64) -> Staged<()> {
    set_budgets_of(stage, PrivacyUnit::Record, epsilon).await
}

/// Sets a lifetime budget of `epsilon` for each `unit` on every private dataset.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set_budgets_of(stage: &Stage, unit: PrivacyUnit, epsilon: f64) -> Staged<()> {
    let budget = NewBudget { unit, epsilon: Epsilon::new(epsilon)?, delta: Delta::new(1e-6)? };
    for (site, name) in stage.sites.iter().skip(1).zip(PRIVATE) {
        site.client.set_budget(stage.dataset(name).await?.id, &budget).await?;
    }
    Ok(())
}

/// Plans a small private job of all sites: `rounds` rounds that wait at most `deadline_seconds` for all four sites.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn small_job(stage: &Stage, rounds: u32, deadline_seconds: u32) -> Staged<Plan> {
    small_job_of(stage, PrivacyUnit::Record, rounds, deadline_seconds).await
}

/// Plans the same job with another protected `unit`.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn small_job_of(stage: &Stage, unit: PrivacyUnit, rounds: u32, deadline_seconds: u32) -> Staged<Plan> {
    let lead = stage.dataset("public").await?;
    let mut plan = Plan::new("Small", unit, 16, &lead, 2)?.test("common", stage.dataset("test").await?.id);
    for name in PRIVATE {
        plan = plan.party(stage.dataset(name).await?.id, 0.25, 2.0, 1.0)?;
    }
    Ok(plan.private(Rounds { rounds, learning_rate: 1e-3, evaluate_every: 2, deadline_seconds, quorum: 4 }))
}

/// Approves as all stewards.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn approve(stage: &Stage, job: undertone_api::id::JobId) -> Staged<()> {
    for (site, name) in stage.sites.iter().skip(1).zip(PRIVATE) {
        site.client.approve(job, stage.dataset(name).await?.id).await?;
    }
    Ok(())
}

/// Adds the number of the synthesizer's classes, which is the same for every dataset.
fn with_classes(mut holding: Holding) -> Holding {
    let classes = undertone_worker::speech::synthesize::CLASSES;
    holding.choice.extend(["--classes".to_owned(), classes.to_string()]);
    holding
}
