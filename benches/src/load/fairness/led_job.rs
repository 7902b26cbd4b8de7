//! The job of one organization: active learning on a public query log, which the organization leads alone and which never
//! ends by itself. Its worker stores files of the job and sends its pool of questions; its member answers them. Public
//! data are not charged, so that neither budgets nor stewards limit the number of calls.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use support::client::TestClient;
use support::stage::TestResult;
use undertone_api::dataset::{DatasetContent, DatasetRegistration, SizeClass, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId, JobId, LineageId, QuestionId};
use undertone_api::job::active_learning::{
    Acquisition, Aggregation, Classifier, Gate, Label, POOL, Party, Spec, TestSet,
};
use undertone_api::job::{NewJob, Spec as AnySpec};
use undertone_api::question::{Annotation, Answer, NewAnnotation};
use undertone_privacy::kanon::Shown;
use undertone_privacy::{Epsilon, PrivacyUnit, SamplingRate};
use undertone_proto::question::{self, QuestionLine};
use undertone_worker::gateway::{Download, ServerOffer};
use undertone_worker::site::outbox::StoredVector;
use uuid::Uuid;

use super::super::worker::{SimulatedWorker, WAIT};

/// The number of questions in a pool. Concurrent callers answer different ones, up to this number of callers.
const QUESTIONS: u32 = 1_000;
/// The number of answers that close a question: more than the one member gives, so that the round stays open.
const ANNOTATORS: u32 = 2;
/// The time for which pools and rounds stay open, seconds: longer than any measurement.
const DEADLINE_SECONDS: u32 = 86_400;
/// The size of an uploaded file, bytes.
const FILE_BYTES: usize = 64 << 10;
/// The labels of the queries.
const LABELS: [&str; 2] = ["billing", "appointment"];
/// The interval of renewals, well below the duration of a lease.
const RENEWAL: Duration = Duration::from_secs(15);

/// A running job with an open round of questions.
pub(super) struct LedJob {
    job: JobId,
    dataset: DatasetId,
    lease: String,
    pool: StoredVector,
}

impl LedJob {
    /// Registers a query log of `worker`, starts its job, sends the pool, and opens a round with all its questions.
    ///
    /// # Errors
    /// When the server rejects a call.
    pub(super) async fn start(
        consortium: ConsortiumId,
        worker: &SimulatedWorker,
        researcher: &TestClient,
        name: &str,
    ) -> TestResult<Self> {
        let dataset = worker.gateway().register(&registration(name)).await?;
        let proposal = NewJob { title: name.to_owned(), spec: AnySpec::ActiveLearning(spec(dataset)?) };
        let job = researcher.propose(consortium, &proposal).await?.summary.id;
        let ServerOffer::Work(work) = worker.gateway().next_offer(WAIT, &[], &[]).await? else {
            return Err(format!("no work is offered for {name}").into());
        };
        let led = Self { job, dataset, lease: work.lease, pool: pool()? };
        led.send_pool(worker).await?;
        let pools = worker.gateway().fetch_pools(&led.lease, WAIT, &Download::default()).await?;
        if pools.is_none_or(|pools| pools.pools.is_empty()) {
            return Err(format!("the pool of {name} is not accepted").into());
        }
        let selection: Vec<(QuestionId, f64)> = (0..QUESTIONS).map(|number| (led.question(number), 0.5)).collect();
        worker.gateway().choose(&led.lease, 1, &selection).await?;
        Ok(led)
    }

    /// Renews the lease until dropped. A lost lease makes the calls under it fail, where it is recorded.
    pub(super) async fn keep_lease(&self, worker: &SimulatedWorker) {
        loop {
            tokio::time::sleep(RENEWAL).await;
            let _ = worker.gateway().renew(&self.lease).await;
        }
    }

    /// Stores a file of the job; the content differs by name and turn.
    ///
    /// # Errors
    /// When the server rejects it.
    pub(super) async fn upload(&self, worker: &SimulatedWorker, name: &str, turn: usize) -> TestResult<()> {
        let mut content = format!("{name} {turn}\n").into_bytes();
        content.resize(FILE_BYTES, b'.');
        Ok(worker.gateway().put(&self.lease, name, &content).await?)
    }

    /// Sends the pool again, which the server reads completely; then answers the question with this number, and
    /// withdraws the answer, so that the question can be answered again.
    ///
    /// # Errors
    /// When the server rejects a call.
    pub(super) async fn ask_and_answer(
        &self,
        worker: &SimulatedWorker,
        annotator: &TestClient,
        number: usize,
    ) -> TestResult<()> {
        self.send_pool(worker).await?;
        let question = self.question(u32::try_from(number)? % QUESTIONS);
        let answer = NewAnnotation { answer: Answer::Label { label: LABELS[0].to_owned() } };
        let _: Annotation = annotator.post(&format!("/questions/{question}/annotations"), &answer).await?;
        let _: Value = annotator.post(&format!("/questions/{question}/annotations/undo"), &json!({})).await?;
        Ok(())
    }

    async fn send_pool(&self, worker: &SimulatedWorker) -> TestResult<()> {
        worker.gateway().submit_pool(&self.lease, POOL, 1, &self.pool, &[]).await?;
        Ok(())
    }

    /// Returns the id of the question with this number.
    fn question(&self, number: u32) -> QuestionId {
        question::id(self.job, self.dataset, &text(number))
    }
}

fn text(number: u32) -> String {
    format!("what does appointment {number:04} cost")
}

fn pool() -> TestResult<StoredVector> {
    let bytes =
        question::write((0..QUESTIONS).map(|number| QuestionLine { text: text(number), count: None }).collect())?;
    let digest = hex::encode(Sha256::digest(&bytes));
    Ok(StoredVector { bytes, length: u64::from(QUESTIONS), digest, receipt: None })
}

fn registration(name: &str) -> DatasetRegistration {
    DatasetRegistration {
        name: name.to_owned(),
        lineage: LineageId(Uuid::now_v7()),
        visibility: Visibility::Public,
        content: DatasetContent::Queries,
        inputs: 0,
        classes: LABELS.len() as u32,
        records: SizeClass(10_000),
        speakers: SizeClass(1),
        test_records: 500,
        seconds: None,
        users: None,
        table: None,
        units: vec![PrivacyUnit::Record],
        approval: None,
    }
}

fn spec(dataset: DatasetId) -> TestResult<Spec> {
    let gate = Gate {
        sampling_rate: SamplingRate::new(0.5)?,
        threshold: NonZeroU32::MIN,
        epsilon: Epsilon::new(1.0)?,
        shown: Shown::Set,
        rows_per_unit: NonZeroU32::MIN,
    };
    let label = |name: &str| Label { name: name.to_owned(), key: None, hint: String::new() };
    Ok(Spec {
        unit: PrivacyUnit::Record,
        participants: vec![Party { dataset, gate: Some(gate) }],
        labels: LABELS.map(label).to_vec(),
        guidelines: String::new(),
        tests: vec![TestSet { name: "held out".to_owned(), dataset }],
        golden: 100,
        private_lead: None,
        private_test: None,
        rounds: 1,
        batch: QUESTIONS,
        acquisition: Acquisition::Entropy,
        diversity: false,
        classifier: Classifier::default(),
        annotators: ANNOTATORS,
        aggregation: Aggregation::Majority,
        deadline_seconds: DEADLINE_SECONDS,
        rehearsal: None,
        seed: 7,
    })
}
