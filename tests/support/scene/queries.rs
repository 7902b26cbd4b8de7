//! A public library with labelled queries, two hospitals with private logs, and their common job.

use std::num::NonZeroU32;

use crate::stage::{LABELS, QueryLog, SiteDataset, TestConsortium, TestDatabase, TestResult, truth};
use undertone_api::budget::NewBudget;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::active_learning::{Acquisition, Aggregation, Classifier, Gate, Label, Party, Spec, TestSet};
use undertone_api::job::{NewJob, Spec as AnySpec};
use undertone_api::question::{Answer, Question};
use undertone_privacy::kanon::Shown;
use undertone_privacy::{Delta, Epsilon, PrivacyUnit, SamplingRate};

/// The private datasets, one at each private site.
pub const PRIVATE: [&str; 2] = ["north", "south"];
/// Rounds of questions.
pub const ROUNDS: u32 = 2;
/// Questions of a round.
pub const BATCH: u32 = 6;
/// The threshold k.
pub const THRESHOLD: u64 = 20;

/// Sets up three organizations with prepared logs; workers are not running yet.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set(database: TestDatabase) -> TestResult<TestConsortium> {
    let mut stage = TestConsortium::set(database, &["Library", "North", "South"]).await?;
    let labelled = ["--label-column", "label", "--subset-column", "subset", "--test-subset", "test"];
    stage.sites[0].prepare_queries(&QueryLog::public(), SiteDataset::new("public", "public", &labelled))?;
    for (site, name) in stage.sites.iter_mut().skip(1).zip(PRIVATE) {
        let holding = SiteDataset::new(name, "private", &["--user-column", "patient"]);
        site.prepare_queries(&QueryLog::generate(name).csv, holding)?;
    }
    for site in &stage.sites {
        site.edit_policy("kinds = [\"dp_sgd\"]", "kinds = [\"dp_sgd\", \"active_learning\"]")?;
    }
    Ok(stage)
}

/// Sets a lifetime budget of `epsilon` for records on every private dataset.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn set_budgets(stage: &TestConsortium, epsilon: f64) -> TestResult<()> {
    let budget = NewBudget {
        unit: PrivacyUnit::Record,
        epsilon: Epsilon::new(epsilon)?,
        delta: Delta::new(1e-6)?,
        filter: None,
    };
    for (site, name) in stage.sites.iter().skip(1).zip(PRIVATE) {
        site.client.set_budget(stage.dataset(name).await?.id, &budget).await?;
    }
    Ok(())
}

/// Returns the gate of a private log: β = 1/4, k = 20, ε = 1; only the set of surviving texts is shown.
///
/// # Errors
/// Never for these numbers.
pub fn gate() -> TestResult<Gate> {
    Ok(Gate {
        sampling_rate: SamplingRate::new(0.25)?,
        threshold: NonZeroU32::try_from(u32::try_from(THRESHOLD)?)?,
        epsilon: Epsilon::new(1.0)?,
        shown: Shown::Set,
        rows_per_unit: NonZeroU32::MIN,
    })
}

/// Returns the spec of a job of `lead` alone, measured on its own held-out part.
///
/// # Errors
/// Never for these numbers.
pub fn spec(lead: DatasetId) -> TestResult<Spec> {
    let label = |name: &str| Label { name: name.to_owned(), key: None, hint: String::new() };
    Ok(Spec {
        unit: PrivacyUnit::Record,
        participants: vec![Party { dataset: lead, gate: None }],
        labels: LABELS.map(label).to_vec(),
        guidelines: "What does the patient want?".to_owned(),
        tests: vec![TestSet { name: "held out".to_owned(), dataset: lead }],
        golden: 12,
        private_lead: None,
        private_test: None,
        rounds: ROUNDS,
        batch: BATCH,
        acquisition: Acquisition::Entropy,
        diversity: true,
        classifier: Classifier {
            buckets: 2048,
            embedding: 16,
            hidden: 16,
            passes: 5,
            epochs: 30,
            batch: 8,
            learning_rate: 0.02,
            ..Classifier::default()
        },
        annotators: 1,
        aggregation: Aggregation::Majority,
        deadline_seconds: 240,
        rehearsal: None,
        seed: 7,
    })
}

/// Returns the job of the public library and both hospitals.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn job(stage: &TestConsortium) -> TestResult<NewJob> {
    let mut spec = spec(stage.dataset("public").await?.id)?;
    for name in PRIVATE {
        spec.participants.push(Party { dataset: stage.dataset(name).await?.id, gate: Some(gate()?) });
    }
    Ok(NewJob { title: "What patients ask".to_owned(), spec: AnySpec::ActiveLearning(spec) })
}

/// Proposes the job, and approves as all stewards.
///
/// # Errors
/// Any step that does not work as documented.
pub async fn propose(stage: &TestConsortium) -> TestResult<JobId> {
    let job = stage.sites[0].client.propose(stage.consortium, &job(stage).await?).await?.summary.id;
    for (site, name) in stage.sites.iter().skip(1).zip(PRIVATE) {
        site.client.approve(job, stage.dataset(name).await?.id).await?;
    }
    Ok(job)
}

/// Returns the answer of an attentive reader.
pub fn answer(question: &Question) -> Answer {
    Answer::Label { label: truth(&question.text).to_owned() }
}
