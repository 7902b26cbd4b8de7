//! Tests that no attack gains anything. `make bench NAME=attacks` prints the same attacks with their former gains.

use support::attack::GROUPS;
use support::stage::TestResult;

/// Runs the attacks of a group.
async fn nothing_is_gained(name: &str) -> TestResult<()> {
    let group = GROUPS.iter().find(|group| group.name == name).ok_or("a group of attacks")?;
    for attacked in group.play().await? {
        assert_eq!(attacked.gained, 0, "{}: {}", attacked.attack, attacked.what);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_ledger_of_a_training_job_gains_nothing() -> TestResult<()> {
    nothing_is_gained("restored update").await
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_ledger_of_a_query_pool_gains_nothing() -> TestResult<()> {
    nothing_is_gained("restored pool").await
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_transcription_on_a_new_machine_gains_nothing() -> TestResult<()> {
    nothing_is_gained("restored transcription").await
}

#[tokio::test(flavor = "multi_thread")]
async fn server_s_word_alone_gains_nothing() -> TestResult<()> {
    nothing_is_gained("consent").await
}

#[tokio::test(flavor = "multi_thread")]
async fn choice_of_jobs_gains_nothing() -> TestResult<()> {
    nothing_is_gained("accounts").await
}

#[tokio::test(flavor = "multi_thread")]
async fn preparation_gains_nothing() -> TestResult<()> {
    nothing_is_gained("data").await
}

/// Checks that a test above runs every group.
#[test]
fn all_groups_are_tested() {
    let played = include_str!("attacks.rs").matches("nothing_is_gained(\"").count();
    assert_eq!(played, GROUPS.len());
}
