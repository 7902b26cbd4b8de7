//! The second job of the demo: queries to the assistants of two clinics, released only if many people ask them. The
//! users of the demo label them.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use undertone_api::dataset::Dataset;
use undertone_api::id::JobId;
use undertone_api::job::active_learning::{
    Acquisition, Aggregation, Classifier, Gate, Label, Party, Rehearsal, Spec as ActiveLearning, TestSet,
};
use undertone_api::job::{NewJob, Spec};
use undertone_privacy::kanon::Shown;
use undertone_privacy::{Epsilon, PrivacyUnit, SamplingRate, UnitError};
use undertone_server_core::ctx::{Ctx, JobChannels};
use undertone_server_core::service::{dataset, job, question};

use crate::consortium::DemoConsortium;
use crate::job::{approve, find};
use crate::process::WorkerProgram;
use crate::{DemoError, explain_refusal};

/// A query log, which one of the recipe's parties synthesizes.
struct QueryLog {
    /// The index of the party in the recipe.
    party: usize,
    name: &'static str,
    rows: u64,
    seed: u64,
}

/// The first log is public and labelled, and its party leads.
const LOGS: [QueryLog; 3] = [
    QueryLog { party: 0, name: "public-queries", rows: 4000, seed: 1 },
    QueryLog { party: 1, name: "north-queries", rows: 100_000, seed: 2 },
    QueryLog { party: 2, name: "south-queries", rows: 100_000, seed: 3 },
];
/// The number of datasets of query logs.
pub(super) const DATASETS: usize = LOGS.len();
/// The labels of the synthesized logs, with the key of each on the page.
const LABELS: [(&str, char, &str); 12] = [
    ("appointment", 'a', "a time with somebody"),
    ("call_staff", 'c', "somebody is to come now"),
    ("complaint", 'o', "something is wrong"),
    ("directions", 'd', "where something is"),
    ("discharge", 'g', "going home"),
    ("equipment", 'e', "a thing is to be brought"),
    ("meal", 'm', "food or drink"),
    ("medication", 'i', "drugs"),
    ("payment", 'p', "bills and insurance"),
    ("results", 'r', "what a test said"),
    ("smalltalk", 't', "nothing is wanted"),
    ("visitors", 'v', "who may come"),
];
/// β of both clinics: the probability that a row is kept.
const RATE: f64 = 0.1;
/// k: the number of kept rows that a query needs for its release.
const THRESHOLD: NonZeroU32 = NonZeroU32::new(20).expect("20 is not 0");
/// The ε of each pool.
const EPSILON: f64 = 1.0;
/// The polling interval for questions.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Synthesizes the logs and prepares them at the sites in `folders`, in the recipe's order.
pub(super) async fn prepare(program: &WorkerProgram, folders: &[PathBuf]) -> Result<(), DemoError> {
    for log in &LOGS {
        let site =
            folders.get(log.party).ok_or_else(|| DemoError::Job("has a log and nobody to keep it".to_owned()))?;
        let file = site.join(format!("{}.csv", log.name)).display().to_string();
        let public = log.party == 0;
        let mut synthesize = words(&["data", "synthesize", "--queries", "--output", &file]);
        synthesize.extend(words(&["--rows", &log.rows.to_string(), "--seed", &log.seed.to_string()]));
        let mut prepare =
            words(&["data", "prepare", "--queries", &file, "--name", log.name, "--user-column", "session"]);
        if public {
            synthesize.extend(words(&["--test-share", "0.3"]));
            prepare.extend(words(&["--visibility", "public", "--label-column", "intent"]));
            prepare.extend(words(&["--subset-column", "split", "--test-subset", "test"]));
        } else {
            prepare.extend(words(&["--visibility", "private"]));
        }
        program.run(site, &synthesize).await?;
        program.run(site, &prepare).await?;
    }
    Ok(())
}

/// Proposes the job and approves it as both clinics' stewards.
pub(super) async fn launch(ctx: &Ctx, consortium: &DemoConsortium) -> Result<JobId, DemoError> {
    let proposer = &consortium.people[0].actor;
    let datasets =
        dataset::list(ctx, proposer, consortium.id).await.map_err(explain_refusal("listing the datasets"))?;
    let new = NewJob { title: "What people ask".to_owned(), spec: Spec::ActiveLearning(spec(&datasets)?) };
    let proposed =
        job::propose(ctx, proposer, consortium.id, new).await.map_err(explain_refusal("proposing the questions"))?;
    approve(ctx, consortium, &proposed).await?;
    Ok(proposed.summary.id)
}

fn spec(datasets: &[Dataset]) -> Result<ActiveLearning, DemoError> {
    let out_of_range = |error: UnitError| DemoError::Job(format!("'s parameters are wrong: {error}"));
    let gate = Gate {
        sampling_rate: SamplingRate::new(RATE).map_err(out_of_range)?,
        threshold: THRESHOLD,
        epsilon: Epsilon::new(EPSILON).map_err(out_of_range)?,
        shown: Shown::Set,
        rows_per_unit: NonZeroU32::MIN,
    };
    let mut participants = Vec::new();
    for log in &LOGS {
        participants.push(Party { dataset: find(datasets, log.name)?, gate: (log.party > 0).then_some(gate) });
    }
    let label =
        |(name, key, hint): (&str, char, &str)| Label { name: name.to_owned(), key: Some(key), hint: hint.to_owned() };
    Ok(ActiveLearning {
        unit: PrivacyUnit::Record,
        tests: vec![TestSet { name: "held out".to_owned(), dataset: participants[0].dataset }],
        participants,
        labels: LABELS.map(label).to_vec(),
        guidelines: "What does the person want done? When two things are asked for, the first counts.".to_owned(),
        golden: 24,
        private_lead: None,
        private_test: None,
        rounds: 3,
        batch: 8,
        acquisition: Acquisition::Entropy,
        diversity: true,
        classifier: Classifier { buckets: 4096, embedding: 32, hidden: 64, passes: 10, ..Classifier::default() },
        annotators: 1,
        aggregation: Aggregation::Majority,
        deadline_seconds: 7 * 24 * 3600,
        // It runs at the end: no question waits for it.
        rehearsal: Some(Rehearsal {
            rates: vec![RATE, 0.3],
            thresholds: vec![5, THRESHOLD.get()],
            questions: 24,
            repeats: 2,
            annotator_accuracy: 0.9,
            annotator_deviation: 0.05,
        }),
        seed: 1,
    })
}

/// Prints the address of the first questions when they are ready, or the reason if the job ended without any.
pub(super) async fn announce(ctx: &Ctx, consortium: &DemoConsortium, id: JobId, began: Instant) {
    let actor = &consortium.people[0].actor;
    let mut waiter = ctx.changes().subscribe_to_display();
    loop {
        // If the questions cannot be read, the demo continues without this line; the page shows the reason.
        let Ok(jobs) = question::asking(ctx, actor, consortium.id).await else { return };
        let Some(asking) = jobs.into_iter().find(|job| job.summary.id == id) else { return };
        let waiting = asking.asking.asked.saturating_sub(asking.asking.answered);
        let state = asking.summary.state;
        if state.is_over() {
            let reason = job::get(ctx, actor, id).await.ok().and_then(|job| job.reason).unwrap_or_default();
            println!("[{:>4} s] the job that asks people is {}: {reason}", began.elapsed().as_secs(), state.label());
            return;
        }
        if waiting > 0 {
            println!(
                "[{:>4} s] {waiting} questions wait for an answer: {}/c/{}/questions/{id}",
                began.elapsed().as_secs(),
                ctx.addresses.http,
                consortium.id
            );
            return;
        }
        tokio::select! {
            () = waiter.wait(JobChannels::ALL, LOOK_AGAIN) => {}
            () = ctx.shutdown.cancelled() => return,
        }
    }
}

fn words(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
