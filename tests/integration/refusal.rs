//! Refusals of both ledgers, which change nothing.

use support::stage::{TestDatabase, TestResult};
use undertone_api::job::JobState;
use undertone_api::problem::Code;

use support::scene;

#[tokio::test(flavor = "multi_thread")]
async fn job_over_budget_is_refused_with_figures_and_no_changes() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 1.0).await?;
    let before = stage.dataset("one").await?.accounts;
    let plan = scene::small_job(&stage, 2000, 300).await?;
    let refused = stage.sites[0].client.propose(stage.consortium, &plan.job()).await;
    let error = refused.expect_err("2,000 rounds do not fit into epsilon 1");
    let problem = error.problem().ok_or("a problem")?;
    assert_eq!(problem.code, Code::BudgetExceeded);
    let refusal = problem.refusals.first().ok_or("the figures")?;
    assert!(refusal.asked > Some(refusal.limit) && refusal.releases_that_fit < 2000, "{refusal:?}");
    assert_eq!(stage.dataset("one").await?.accounts, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn site_refuses_a_job_that_its_own_policy_forbids() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    // The server's budget admits the job and the steward approves it; the policy file on the site's disk does not.
    stage.sites[2].edit_policy("least_noise_multiplier = 0.5", "least_noise_multiplier = 5.0")?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let plan = scene::small_job(&stage, 3, 300).await?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    let refused = stage.wait_until(job, support::stage::PATIENCE, |job| job.summary.state == JobState::Refused).await?;
    assert!(refused.reason.unwrap_or_default().contains("noise"), "the reason names what to change");
    assert!(stage.operator.ledger(stage.dataset("two").await?.id).await?.items.is_empty());
    Ok(())
}
