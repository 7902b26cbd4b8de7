//! An audited job, end to end: promised over REST, measured at three sites, stated and signed by them, assessed by the
//! server, with its model withheld until then.

use std::time::Duration;

use support::stage::{TestConsortium, TestDatabase, TestResult};
use undertone_api::job::audit::AuditVerdict;
use undertone_api::job::dp_sgd::AuditOptions;
use undertone_api::job::{Job, JobState, Report};
use undertone_api::problem::Code;

use support::scene;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn model_is_released_after_every_site_reports_its_audit() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let audit = AuditOptions { canaries: 200, guesses: 100, recordings: 20 };
    let plan = scene::small_job(&stage, ROUNDS, 300).await?.audit(audit);
    let researcher = stage.sites[0].client.clone();
    let job = researcher.propose(stage.consortium, &plan.job()).await?.summary.id;
    scene::approve(&stage, job).await?;

    let mut withheld = false;
    let over = loop {
        let current = researcher.job(job).await?;
        if current.summary.state.is_over() {
            break current;
        }
        withheld |= current.summary.state == JobState::Running && researcher.artifacts(job).await?.is_empty();
        tokio::time::sleep(Duration::from_millis(250)).await;
    };
    assert_eq!(over.summary.state, JobState::Finished, "{:?}", over.reason);
    assert!(withheld, "while it ran no file was to be seen");

    let audits = researcher.audits(job).await?;
    assert_eq!(audits.len(), 3, "a statement of every private site, and none of the public one");
    for view in &audits {
        let statement = &view.statement;
        assert_eq!(statement.releases, u64::from(ROUNDS), "{statement:?}");
        // Two attacks on the finished model, one on its public initial model.
        assert_eq!((statement.finding.trials.len(), statement.finding.attacks.len()), (2, 3), "{statement:?}");
        // An honest site is blocked less than once in a thousand runs.
        assert_ne!(view.verdict, AuditVerdict::Disproved, "{statement:?}");
        assert!(view.assessment.blocking <= view.assessment.tight && view.assessment.tight <= view.assessment.claim);
        eprintln!("{}: at most {:.3}, at least {:.3}", view.dataset_name, view.assessment.tight, view.assessment.shown);
    }
    let files = researcher.artifacts(job).await?;
    let model = files.iter().find(|file| file.name == "model.safetensors").ok_or("a model")?;
    assert_eq!(researcher.content(model.id).await?.len() as u64, model.size);
    let frozen = researcher.clear_freeze(stage.dataset(scene::PRIVATE[0]).await?.id, "nothing is broken here").await;
    let code = frozen.err().and_then(|error| error.problem().map(|problem| problem.code));
    assert!(
        matches!(code, Some(Code::Forbidden | Code::NotFound)),
        "not for the researcher of another owner: {code:?}"
    );
    it_costs_little(&mut stage, &over).await
}

/// Runs the same job without an audit, for comparison.
async fn it_costs_little(stage: &mut TestConsortium, audited: &Job) -> TestResult<()> {
    let plan = scene::small_job(stage, ROUNDS, 300).await?;
    let plain = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    scene::approve(stage, plain).await?;
    let plain = stage.finish(plain, JOB).await?;
    let cost = |job: &Job| -> Option<(f64, f64)> {
        let Report::DpSgd(report) = job.report.as_ref()? else { return None };
        let private = report.arms.last()?;
        Some((private.seconds / f64::from(ROUNDS), private.tests.first()?.accuracy))
    };
    let (with, without) = (cost(audited).ok_or("a report")?, cost(&plain).ok_or("a report")?);
    eprintln!("a round: {:.3} s with an audit, {:.3} s without", with.0, without.0);
    eprintln!("accuracy: {:.3} with an audit, {:.3} without", with.1, without.1);
    assert!(with.1 > without.1 - 0.1, "{with:?} {without:?}");
    Ok(())
}
