//! No attack gains anything. `make bench NAME=attacks` prints the same attacks beside what they gained before.

use support::attack::GROUPS;
use support::stage::Staged;

/// Plays the attacks of a group.
async fn nothing_is_gained(name: &str) -> Staged<()> {
    let group = GROUPS.iter().find(|group| group.name == name).ok_or("a group of attacks")?;
    for attacked in group.play().await? {
        assert_eq!(attacked.gained, 0, "{}: {}", attacked.attack, attacked.what);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_ledger_of_a_training_job_gains_nothing() -> Staged<()> {
    nothing_is_gained("restored update").await
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_ledger_of_a_query_pool_gains_nothing() -> Staged<()> {
    nothing_is_gained("restored pool").await
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_transcription_on_a_new_machine_gains_nothing() -> Staged<()> {
    nothing_is_gained("restored transcription").await
}

#[tokio::test(flavor = "multi_thread")]
async fn server_s_word_alone_gains_nothing() -> Staged<()> {
    nothing_is_gained("consent").await
}

#[tokio::test(flavor = "multi_thread")]
async fn choice_of_jobs_gains_nothing() -> Staged<()> {
    nothing_is_gained("accounts").await
}

#[tokio::test(flavor = "multi_thread")]
async fn preparation_gains_nothing() -> Staged<()> {
    nothing_is_gained("data").await
}

/// A group that is not played by a test above would be an attack that nobody looks at.
#[test]
fn all_groups_are_tested() {
    let played = include_str!("attacks.rs").matches("nothing_is_gained(\"").count();
    assert_eq!(played, GROUPS.len());
}
