//! Active learning with private questions, end to end: a public library leads, two hospitals send questions, people
//! answer over REST.

mod classifier;
mod wire;

use std::time::Duration;

use support::annotator::TestAnnotator;
use support::stage::{TestConsortium, TestDatabase, TestResult};
use undertone_api::budget::EntryKind;
use undertone_api::job::active_learning::Report;
use undertone_api::job::{Job, JobState, Report as AnyReport};
use undertone_api::problem::Code;

use support::scene::queries::{self as scene, BATCH, PRIVATE, ROUNDS};

const JOB: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "multi_thread")]
async fn two_private_logs_teach_a_public_lead_on_sqlite() -> TestResult<()> {
    teach(TestDatabase::Sqlite).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_private_logs_teach_a_public_lead_on_postgresql() -> TestResult<()> {
    let Some(database) = TestDatabase::postgres()? else {
        eprintln!("no PostgreSQL: set UNDERTONE_TEST_DATABASE_URL, or run `make test`");
        return Ok(());
    };
    teach(database).await
}

async fn teach(database: TestDatabase) -> TestResult<()> {
    let mut stage = scene::set(database).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 2.5).await?;
    let job = scene::propose(&stage).await?;
    let person = TestAnnotator::start(stage.annotator("reader").await?, job, scene::answer);
    let job = stage.finish(job, JOB).await?;

    let total = u64::from(ROUNDS * BATCH);
    assert_eq!(person.answer_count(), total, "every question that was chosen was answered");
    the_report_tells_it_all(&stage, &job).await?;
    the_files_can_be_taken_away(&stage, &job).await?;
    classifier::is_recorded_and_labels_queries(&stage, &job).await?;
    for (number, site) in stage.sites.iter().skip(1).enumerate() {
        let entries = stage.operator.ledger(stage.dataset(PRIVATE[number]).await?.id).await?.items;
        let count = |kind| entries.iter().filter(|entry| entry.kind == kind).map(|entry| entry.count).sum::<u64>();
        assert_eq!((count(EntryKind::Reserve), count(EntryKind::Commit), count(EntryKind::Settle)), (1, 1, 0));
        site.command(&["ledger", "verify"])?;
        let ledger_text = site.command(&["ledger", "show"])?;
        assert!(ledger_text.contains(PRIVATE[number]), "{ledger_text}");
    }
    a_second_release_is_charged_again_and_a_third_does_not_fit(&stage).await
}

async fn the_report_tells_it_all(stage: &TestConsortium, job: &Job) -> TestResult<()> {
    let Some(AnyReport::ActiveLearning(report)) = &job.report else {
        return Err("a finished job has its report".into());
    };
    let Report { pools, learning, uncertainty, annotators, contents, .. } = report;
    for (pool, name) in pools.iter().zip(PRIVATE) {
        assert_eq!(pool.dataset, stage.dataset(name).await?.id);
        assert_eq!(pool.queries, 36, "what is asked often passes, what is asked rarely does not");
        assert!(pool.epsilon == Some(1.0) && pool.delta.is_some_and(|delta| delta > 0.0 && delta < 1e-6), "{pool:?}");
    }
    let rounds: Vec<_> = learning.iter().map(|point| (point.round, point.asked, point.labelled)).collect();
    assert_eq!(rounds, (0..=ROUNDS).map(|n| (n, u64::from(n * BATCH), u64::from(n * BATCH))).collect::<Vec<_>>());
    let accuracy = |point: usize| learning[point].tests[0].accuracy;
    assert!(accuracy(ROUNDS as usize) > 0.6, "of three labels: {learning:?}");
    assert_eq!((uncertainty.len(), annotators.len(), contents.len()), (ROUNDS as usize, 1, 1));
    assert_eq!(annotators[0].annotations, u64::from(ROUNDS * BATCH));
    Ok(())
}

async fn the_files_can_be_taken_away(stage: &TestConsortium, job: &Job) -> TestResult<()> {
    let researcher = &stage.sites[0].client;
    let files = researcher.artifacts(job.summary.id).await?;
    let content = async |name: &str| -> TestResult<Vec<u8>> {
        let file = files.iter().find(|file| file.name == name).ok_or("a file of the job")?;
        Ok(researcher.content(file.id).await?)
    };
    let labels = String::from_utf8(content("labels.jsonl").await?)?;
    assert_eq!(labels.lines().count(), (ROUNDS * BATCH) as usize);
    for line in labels.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        let text = line["text"].as_str().ok_or("a text")?;
        assert_eq!(line["label"], support::stage::truth(text), "the reader is always right");
    }
    assert_eq!(String::from_utf8(content("pool.jsonl").await?)?.lines().count(), 2 * 36);
    let classifier = content("classifier.safetensors").await?;
    assert!(!safetensors::SafeTensors::deserialize(&classifier)?.is_empty());
    Ok(())
}

/// Releases repeatedly at ε = 1 each, with a lifetime limit of 2.5.
async fn a_second_release_is_charged_again_and_a_third_does_not_fit(stage: &TestConsortium) -> TestResult<()> {
    let spent = async || -> TestResult<Vec<f64>> {
        let mut spent = Vec::new();
        for name in PRIVATE {
            let accounts = stage.dataset(name).await?.accounts;
            assert_eq!(accounts.len(), 1, "one account of the log, whatever the job");
            spent.push(accounts[0].spent);
        }
        Ok(spent)
    };
    let first = spent().await?;
    assert!(first.iter().all(|spent| (0.9..1.2).contains(spent)), "{first:?}");
    let job = scene::propose(stage).await?;
    let _person = TestAnnotator::start(stage.annotator("second-reader").await?, job, scene::answer);
    stage.finish(job, JOB).await?;
    let second = spent().await?;
    assert!(second.iter().all(|spent| (1.8..2.5).contains(spent)), "the same log again costs again: {second:?}");

    let refused = stage.sites[0].client.propose(stage.consortium, &scene::job(stage).await?).await;
    let error = refused.err().ok_or("a third pool does not fit into 2.5")?;
    assert_eq!(error.problem().ok_or("a problem")?.code, Code::BudgetExceeded);
    assert_eq!(spent().await?, second, "a refusal changes nothing");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn crashed_workers_and_server_keep_pools_and_questions() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 2.5).await?;
    // One site crashes when its pool is stored but not sent, the other when the server has it and the site has not
    // recorded that.
    for (number, point) in [(1, "after-store"), (2, "after-send")] {
        stage.sites[number].stop()?;
        stage.sites[number].start(&[("UNDERTONE_FAULT", point)])?;
    }
    let job = scene::propose(&stage).await?;
    for number in [1, 2] {
        stage.sites[number].wait_for_end(JOB)?;
        stage.sites[number].start(&[])?;
    }
    let questions = async || -> TestResult<Vec<undertone_api::question::Question>> {
        let page: undertone_api::page::Page<_> =
            stage.sites[0].client.get(&format!("/jobs/{job}/questions?round=1&limit=200")).await?;
        Ok(page.items)
    };
    // The first round is open when the lead and the server crash.
    let deadline = std::time::Instant::now() + JOB;
    let before = loop {
        let open = questions().await?;
        if !open.is_empty() {
            break open;
        }
        if std::time::Instant::now() > deadline {
            return Err("no question was chosen".into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    stage.sites[0].kill();
    stage.kill_server();
    stage.start_server()?;
    stage.sites[0].start(&[])?;
    let _person = TestAnnotator::start(stage.annotator("reader").await?, job, scene::answer);
    let job = stage.finish(job, JOB).await?;
    let Some(AnyReport::ActiveLearning(report)) = &job.report else {
        return Err("a finished job has its report".into());
    };
    assert!(report.pools.iter().all(|pool| pool.queries == 36), "{:?}", report.pools);
    let page: undertone_api::page::Page<undertone_api::question::Question> =
        stage.sites[0].client.get(&format!("/jobs/{}/questions?round=1&limit=200", job.summary.id)).await?;
    let texts = |of: &[undertone_api::question::Question]| -> std::collections::BTreeSet<String> {
        of.iter().map(|question| question.text.clone()).collect()
    };
    assert_eq!(texts(&page.items), texts(&before), "what was chosen stays chosen");
    for (site, name) in stage.sites.iter().skip(1).zip(PRIVATE) {
        let entries = stage.operator.ledger(stage.dataset(name).await?.id).await?.items;
        let commits = entries.iter().filter(|entry| entry.kind == EntryKind::Commit).count();
        assert_eq!(commits, 1, "{name}: a death costs no second charge");
        site.command(&["ledger", "verify"])?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn site_without_query_release_refuses_a_query_job() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.sites[2].edit_policy("least_threshold = 10", "least_threshold = 50")?;
    stage.open().await?;
    scene::set_budgets(&stage, 2.5).await?;
    let job = stage.sites[0].client.propose(stage.consortium, &scene::job(&stage).await?).await?.summary.id;
    let refused = stage.wait_until(job, support::stage::PATIENCE, |job| job.summary.state == JobState::Refused).await?;
    assert!(refused.reason.unwrap_or_default().contains("least_threshold"), "the reason names what to change");
    for name in PRIVATE {
        assert!(
            stage.operator.ledger(stage.dataset(name).await?.id).await?.items.is_empty(),
            "{name}: nothing was paid"
        );
    }
    Ok(())
}
