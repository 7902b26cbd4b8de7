//! The table that matters, on real speech: public data only, with private data in the clear, with private data by DP-SGD.
//!
//! Public are 20 AN4 speakers, private 1 and 2 are 27 others each, private 3 is one LibriSpeech reader unlike the rest (six
//! utterances to train, the rest to test). The whole product runs: server, four workers, two ledgers.

use std::time::{Duration, Instant};

use serde_json::json;
use support::stage::{Corpus, Database, Holding, Plan, Rounds, Stage, Staged};
use undertone_api::budget::NewBudget;
use undertone_api::id::JobId;
use undertone_api::job::{Job, Report as JobReport};
use undertone_privacy::ledger::{GridKind, Headroom};
use undertone_privacy::{Adjacency, Delta, Epsilon, PrivacyUnit, SamplingRate, calibrate};

use crate::report::{Outcome, Report};

/// Senones of the labels' acoustic model.
const CLASSES: &str = "5126";
const OUTLIER: &str = "3331";
const HIDDEN: u32 = 200;
const WARM_EPOCHS: u32 = 12;
const OPEN: Rounds = Rounds { rounds: 30, learning_rate: 4e-3, evaluate_every: 10, deadline_seconds: 3600, quorum: 4 };
const PRIVATE: Rounds =
    Rounds { rounds: 20, learning_rate: 1e-3, evaluate_every: 10, deadline_seconds: 3600, quorum: 4 };
const CLIP: f64 = 1.0;
/// q of every party.
const RATE: f64 = 0.15;
/// Longest that one job may take.
const PATIENCE: Duration = Duration::from_hours(1);

/// The unit that is protected, ε of each party for the private arm, δ.
const RUNS: [(PrivacyUnit, f64, f64); 2] = [(PrivacyUnit::Record, 10.0, 1e-5), (PrivacyUnit::Speaker, 10.0, 1e-3)];

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(report)).map_err(|error| -> Box<dyn std::error::Error> { error })
}

async fn measure(report: &mut Report) -> Staged<()> {
    let Some(corpus) = Corpus::real() else {
        return Err("the speech data are not there: set UNDERTONE_DATA to the folder that holds `speech/`".into());
    };
    let started = Instant::now();
    let mut stage = set(&corpus).await?;
    report.line(json!({ "step": "prepared", "seconds": started.elapsed().as_secs() })).map_err(|e| e.to_string())?;
    for (unit, epsilon, delta) in RUNS {
        // The comparison with open pooling once; the warm start is the same in both.
        let open = unit == PrivacyUnit::Record;
        let started = Instant::now();
        let z = noise(epsilon, delta)?;
        let job = launch(&mut stage, unit, z, delta, open).await?;
        let job = stage.finish(job, PATIENCE).await?;
        tell(report, &job, unit, z, started.elapsed()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The sites, their data and a policy that lets a measurement run.
async fn set(corpus: &Corpus) -> Staged<Stage> {
    let mut stage = Stage::set(Database::Sqlite, &["Public library", "Private 1", "Private 2", "Private 3"]).await?;
    let an4 = |name: &str, visibility, range: &str| {
        Holding::new(name, visibility, &["--subset", "an4-train", "--speaker-range", range, "--classes", CLASSES])
    };
    let reader = |name: &str, visibility, more: &[&str]| {
        let mut holding = Holding::new(
            name,
            visibility,
            &["--subset", "librispeech-test-other", "--speakers", OUTLIER, "--classes", CLASSES],
        );
        holding.choice.extend(more.iter().map(|word| (*word).to_owned()));
        holding
    };
    let test = Holding::new("an4-test", "public", &["--subset", "an4-test", "--hold-out", "1", "--classes", CLASSES]);
    let plans = [
        vec![
            an4("public", "public", "0..20"),
            test,
            reader("outlier-test", "public", &["--skip", "6", "--hold-out", "1"]),
        ],
        vec![an4("private-1", "open", "20..47")],
        vec![an4("private-2", "open", "47..74")],
        vec![reader("private-3", "open", &["--first", "6"])],
    ];
    for (site, holdings) in stage.sites.iter_mut().zip(plans) {
        for holding in holdings {
            site.prepare(corpus, holding)?;
        }
        for (from, to) in [
            ("most_epsilon_per_job = 4.0", "most_epsilon_per_job = 100.0"),
            ("least_noise_multiplier = 0.5", "least_noise_multiplier = 0.1"),
            ("[budget.record]\nepsilon = 8.0\ndelta = 1e-6", "[budget.record]\nepsilon = 100.0\ndelta = 1e-5"),
            ("[budget.speaker]\nepsilon = 8.0\ndelta = 1e-6", "[budget.speaker]\nepsilon = 100.0\ndelta = 1e-3"),
        ] {
            site.edit_policy(from, to)?;
        }
    }
    stage.open().await?;
    Ok(stage)
}

/// The least noise with which all rounds of the private arm cost `epsilon`.
fn noise(epsilon: f64, delta: f64) -> Staged<f64> {
    let headroom = Headroom::of_guarantee(Epsilon::new(epsilon)?, Delta::new(delta)?, &GridKind::Standard.orders());
    let rate = SamplingRate::new(RATE)?;
    Ok(calibrate::noise_for(&headroom, rate, u64::from(PRIVATE.rounds), Adjacency::AddRemove)?.get())
}

async fn launch(stage: &mut Stage, unit: PrivacyUnit, z: f64, delta: f64, open: bool) -> Staged<JobId> {
    let private = [("private-1", 1), ("private-2", 2), ("private-3", 3)];
    for (name, site) in private {
        let budget = NewBudget { unit, epsilon: Epsilon::new(100.0)?, delta: Delta::new(delta)? };
        stage.sites[site].client.set_budget(stage.dataset(name).await?.id, &budget).await?;
    }
    let mut plan = Plan::new("Table 2", unit, HIDDEN, &stage.dataset("public").await?, WARM_EPOCHS)?
        .lead_rate(RATE)?
        .test("an4-test", stage.dataset("an4-test").await?.id)
        .test("outlier", stage.dataset("outlier-test").await?.id)
        .private(PRIVATE);
    for (name, _) in private {
        plan = plan.party(stage.dataset(name).await?.id, RATE, z, CLIP)?;
    }
    if open {
        plan = plan.open(OPEN);
    }
    let job = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    for (name, site) in private {
        stage.sites[site].client.approve(job, stage.dataset(name).await?.id).await?;
    }
    Ok(job)
}

fn tell(report: &mut Report, job: &Job, unit: PrivacyUnit, z: f64, took: Duration) -> Outcome {
    let Some(JobReport::DpSgd(result)) = &job.report else { return Err("the job has no report".into()) };
    for arm in &result.arms {
        for test in &arm.tests {
            report.line(json!({
                "unit": unit, "arm": arm.arm, "rounds": arm.rounds, "test": test.test, "frames": test.frames,
                "accuracy_percent": (test.accuracy * 1e4).round() / 100.0, "loss": test.loss, "seconds": arm.seconds,
            }))?;
        }
    }
    for party in job.participants.iter().filter(|party| party.charge.is_some()) {
        report.line(json!({
            "unit": unit, "party": party.dataset_name, "sampling_rate": RATE, "noise_multiplier": z, "clip": CLIP,
            "releases": party.releases, "epsilon": party.epsilon_spent, "delta": party.delta,
        }))?;
    }
    report.line(json!({ "unit": unit, "minutes": took.as_secs_f64() / 60.0, "parameters": result.parameters }))
}
