//! Active learning of one custodian: its private golden set leads and trains by DP-SGD, its other private log asks, and a
//! public test set and a private one measure. All three private datasets are charged in both ledgers.

use std::time::Duration;

use support::annotator::TestAnnotator;
use support::scene::queries as scene;
use support::stage::{LABELS, QueryLog, SiteDataset, TestConsortium, TestDatabase, TestResult};
use undertone_api::budget::{EntryKind, NewBudget};
use undertone_api::job::active_learning::{Party, PrivateTest, PrivateTraining, TestSet};
use undertone_api::job::{Job, JobState, NewJob, Report as AnyReport, Spec as AnySpec};
use undertone_api::problem::Code;
use undertone_privacy::{Delta, Epsilon, NoiseMultiplier, PrivacyUnit, SamplingRate};

const JOB: Duration = Duration::from_mins(5);
/// The private golden set.
const GOLDEN: &str = "golden";
/// The private log that asks.
const LOG: &str = "north";
/// The public test set.
const EXAM: &str = "exam";
/// The private test set: golden rows that were kept apart.
const KEPT: &str = "golden-test";
/// The measured classifiers: before the questions, and the last one.
const MEASUREMENTS: u32 = 2;
/// Rows of the golden set and of the private test set.
const ROWS: usize = 500;
/// Rows of the public test set: the first ones of the private test set's author.
const PUBLIC_ROWS: usize = 90;

#[tokio::test(flavor = "multi_thread")]
async fn private_golden_set_leads_and_pays_for_each_training() -> TestResult<()> {
    let mut stage = TestConsortium::set(TestDatabase::Sqlite, &["Hospital"]).await?;
    let site = &mut stage.sites[0];
    let labelled = ["--label-column", "label", "--subset-column", "subset", "--test-subset", "test"];
    site.prepare_queries(&QueryLog::public(), SiteDataset::new(EXAM, "public", &labelled))?;
    let golden = QueryLog::labelled("gold", ROWS);
    let declared = ["--label-column", "label", "--labels", &LABELS.join(",")];
    site.prepare_queries(&golden, SiteDataset::new(GOLDEN, "private", &declared))?;
    let kept = QueryLog::labelled("somebody", ROWS);
    site.prepare_queries(&kept, SiteDataset::new(KEPT, "private", &declared))?;
    let log = QueryLog::generate(LOG);
    site.prepare_queries(&log.csv, SiteDataset::new(LOG, "private", &["--user-column", "patient"]))?;
    site.edit_policy("kinds = [\"dp_sgd\"]", "kinds = [\"dp_sgd\", \"active_learning\"]")?;
    stage.open().await?;

    let job = job(&stage).await?;
    let client = &stage.sites[0].client;
    let refused = client.propose(stage.consortium, &job).await.err().ok_or("there is no budget yet")?;
    assert_eq!(refused.problem().ok_or("a problem")?.code, Code::BudgetMissing, "{refused}");
    for name in [GOLDEN, LOG, KEPT] {
        let (epsilon, delta) = (Epsilon::new(4.0)?, Delta::new(1e-6)?);
        let budget = NewBudget { unit: PrivacyUnit::Record, epsilon, delta, filter: None };
        client.set_budget(stage.dataset(name).await?.id, &budget).await?;
    }
    let id = client.propose(stage.consortium, &job).await?.summary.id;
    for name in [GOLDEN, LOG, KEPT] {
        client.approve(id, stage.dataset(name).await?.id).await?;
    }
    let _person = TestAnnotator::start(stage.annotator("reader").await?, id, scene::answer);
    let job = stage.finish(id, JOB).await?;
    assert_eq!(job.summary.state, JobState::Finished, "{:?}", job.reason);

    check_report(&job)?;
    let releases = u64::from(scene::ROUNDS) + 1;
    for (name, expected) in [(GOLDEN, releases), (LOG, 1), (KEPT, u64::from(MEASUREMENTS))] {
        let entries = stage.operator.ledger(stage.dataset(name).await?.id).await?.items;
        let count = |kind| entries.iter().filter(|entry| entry.kind == kind).map(|entry| entry.count).sum::<u64>();
        assert_eq!((count(EntryKind::Reserve), count(EntryKind::Commit)), (expected, expected), "{name}");
    }
    stage.sites[0].command(&["ledger", "verify"])?;
    check_files(&stage, &job, &log).await
}

/// Returns the job: the scene's, led by the golden set.
async fn job(stage: &TestConsortium) -> TestResult<NewJob> {
    let [golden, log, exam] = [stage.dataset(GOLDEN).await?, stage.dataset(LOG).await?, stage.dataset(EXAM).await?];
    let kept = stage.dataset(KEPT).await?;
    let mut spec = scene::spec(exam.id)?;
    let gate = scene::gate()?;
    spec.participants = vec![Party { dataset: golden.id, gate: None }, Party { dataset: log.id, gate: Some(gate) }];
    spec.tests = vec![TestSet { name: "exam".to_owned(), dataset: exam.id }];
    spec.golden = u32::try_from(golden.records.0)?;
    spec.private_lead = Some(PrivateTraining {
        sampling_rate: SamplingRate::new(0.2)?,
        noise_multiplier: NoiseMultiplier::new(3.0)?,
        clip: 1.0,
        steps: 20,
        learning_rate: 0.1,
    });
    let noise_multiplier = NoiseMultiplier::new(8.0)?;
    spec.private_test = Some(PrivateTest { dataset: kept.id, noise_multiplier, measurements: MEASUREMENTS });
    Ok(NewJob { title: "What our own patients ask".to_owned(), spec: AnySpec::ActiveLearning(spec) })
}

fn check_report(job: &Job) -> TestResult<()> {
    let Some(AnyReport::ActiveLearning(report)) = &job.report else {
        return Err("a finished job has its report".into());
    };
    assert_eq!((report.pools.len(), report.learning.len()), (1, scene::ROUNDS as usize + 1));
    let best = report.learning.iter().map(|point| point.tests[0].accuracy).fold(0.0, f64::max);
    assert!(best > 0.5, "of three labels: {:?}", report.learning);
    assert_eq!((report.contents.len(), report.rehearsal.len()), (1, 0), "of the public test set");
    let is_measured: Vec<bool> = report.learning.iter().map(|point| point.private_test.is_some()).collect();
    assert_eq!(is_measured, [true, false, true], "before the questions, and the last classifier");
    let last = report.learning.last().ok_or("a last round")?;
    let accuracy = last.released_accuracy().ok_or("enough units for the noise")?;
    assert!(accuracy.noise > 0.0 && accuracy.low < accuracy.high, "{accuracy:?}");
    // Both test sets ask alike, about the same nine words. Their texts have other numbers, and passes over the public one have dropout.
    let public = &last.tests[0];
    assert_eq!(public.examples, PUBLIC_ROWS as u64);
    let deviation = (0.25 / PUBLIC_ROWS as f64).sqrt().hypot(accuracy.noise);
    assert!((accuracy.value - public.accuracy).abs() < 5.0 * deviation + 0.1, "{accuracy:?} and {}", public.accuracy);
    Ok(())
}

/// Checks that no text of the golden set and no rare text of the log is in a file of the job.
async fn check_files(stage: &TestConsortium, job: &Job, log: &QueryLog) -> TestResult<()> {
    let client = &stage.sites[0].client;
    let files = client.artifacts(job.summary.id).await?;
    assert_eq!(files.len(), 3 + 1 + MEASUREMENTS as usize, "with the measured classifiers and their rounds: {files:?}");
    for file in files {
        let content = client.content(file.id).await?;
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains("gold asks"), "{} has a text of the golden set", file.name);
        let has_kept = (PUBLIC_ROWS..ROWS).any(|number| text.contains(&format!("somebody asks {number} ")));
        assert!(!has_kept, "{} has a text of the private test set", file.name);
        assert!(log.secret.iter().all(|secret| !text.contains(secret)), "{} has a rare text", file.name);
    }
    Ok(())
}
