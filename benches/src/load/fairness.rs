//! Twenty organizations, of which one is greedy: it makes hundreds of calls of one kind at a time, one kind after
//! another. The other nineteen register datasets, plan jobs, upload files, ask and answer questions, and watch their
//! consortium, at their own pace. Once with the default rate of writes, and once without it, so that only the order of
//! turns has an effect.
//!
//! The report has a line for each kind of greedy call. It contains for each kind of honest request the median and the
//! 99th percentile alone and under the greedy load, in seconds, their ratio, and the number of failed honest requests.
//! Everything is on loopback. All callers have one address, so the rates by caller and by address are off, and the
//! limit of connections from one address is raised. The greedy organization has its own runtime: with one for all, its calls
//! also delay the other callers within this process.
//!
//! `UNDERTONE_FAIRNESS_CALLERS` (200) is the number of concurrent greedy calls, `UNDERTONE_FAIRNESS_SECONDS` (15) the
//! time of each measurement. `UNDERTONE_FAIRNESS_SERVER` names another program of the server.

mod led_job;

use std::sync::Arc;
use std::time::Duration;

use reqwest::header;
use serde_json::{Value, json};
use support::client::TestClient;
use support::stage::{ArmRounds, JobPlan, PASSWORD, ServerLaunch, TestConsortium, TestDatabase, TestResult};
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinSet;
use undertone_api::budget::NewBudget;
use undertone_api::dataset::{Dataset, DatasetContent, DatasetRegistration, SizeClass, Visibility, usual_units};
use undertone_api::id::{ConsortiumId, LineageId};
use undertone_api::plan::NewPlan;
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};
use undertone_worker::config::ServerEndpoint;
use uuid::Uuid;

use self::led_job::LedJob;
use super::progress::SceneProgress;
use super::record::{RecordSummary, RequestRecord};
use super::worker::SimulatedWorker;
use super::{measured_program, one, tell};
use crate::report::{Outcome, Report};

/// The number of organizations, including the greedy one.
const ORGANIZATIONS: usize = 20;
/// The number of the greedy organization. The first one leads the plans.
const GREEDY: usize = 1;
/// The pause of an honest caller between two requests.
const PAUSE: Duration = Duration::from_millis(250);
/// The time limit of an honest request.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause of a greedy caller after a refusal.
const AFTER_REFUSAL: Duration = Duration::from_millis(10);
/// The connections that the server accepts from the one address of all callers.
const CONNECTIONS: &str = "4096";

/// The kinds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallKind {
    /// A worker registers a dataset with changed facts: a writing transaction.
    Register,
    /// A researcher plans a job.
    Plan,
    /// A lead stores a file of its job.
    Upload,
    /// A lead sends its pool of questions, and a member answers one of them.
    Question,
    /// A member watches the consortium until the first event.
    Watch,
}

impl CallKind {
    const ALL: [Self; 5] = [Self::Register, Self::Plan, Self::Upload, Self::Question, Self::Watch];

    const fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Plan => "plan",
            Self::Upload => "upload",
            Self::Question => "question",
            Self::Watch => "watch",
        }
    }
}

/// One of the concurrent callers of an organization.
struct ConcurrentCaller {
    number: usize,
    /// The name of its dataset and of its file.
    name: String,
    /// The lineage of its dataset.
    lineage: LineageId,
}

impl ConcurrentCaller {
    fn new(number: usize, name: String) -> Self {
        Self { number, name, lineage: LineageId(Uuid::now_v7()) }
    }
}

/// A member and a worker of an organization.
struct FairnessParty {
    worker: SimulatedWorker,
    client: TestClient,
    http: reqwest::Client,
    events: String,
    token: String,
    consortium: ConsortiumId,
    lead: Dataset,
    own: Dataset,
    /// The job that the organization leads alone.
    led: LedJob,
}

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = Runtime::new()?;
    let greedy_runtime = Runtime::new()?;
    let measured = runtime.block_on(measure(report, greedy_runtime.handle()));
    measured.map_err(|error| -> Box<dyn std::error::Error> { error })
}

async fn measure(report: &mut Report, greedy_runtime: &Handle) -> TestResult<()> {
    let callers: usize = one("UNDERTONE_FAIRNESS_CALLERS", 200)?;
    let time = Duration::from_secs(one("UNDERTONE_FAIRNESS_SECONDS", 15)?);
    for writes_a_minute in ["6000", "0"] {
        Box::pin(scene(report, greedy_runtime, writes_a_minute, callers, time)).await?;
    }
    Ok(())
}

/// Measures the honest organizations alone, and under each kind of greedy load.
async fn scene(
    report: &mut Report,
    greedy_runtime: &Handle,
    writes_a_minute: &str,
    callers: usize,
    time: Duration,
) -> TestResult<()> {
    let progress = SceneProgress::begin("fairness");
    let set = [
        ("UNDERTONE_RATES__BY_ADDRESS", "0"),
        ("UNDERTONE_RATES__BY_CALLER", "0"),
        ("UNDERTONE_RATES__BY_ORGANIZATION", writes_a_minute),
        ("UNDERTONE_CONNECTIONS__BY_ADDRESS", CONNECTIONS),
    ];
    let names: Vec<String> = (0..ORGANIZATIONS).map(|number| format!("Party {number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let launch = ServerLaunch { program: measured_program("UNDERTONE_FAIRNESS_SERVER"), ..ServerLaunch::default() };
    let server = launch.path()?;
    let stage = TestConsortium::set_by(launch, TestDatabase::Sqlite, &names, &set).await?;
    let parties = Box::pin(come(&stage, greedy_runtime)).await?;
    progress.say(format!("{} organizations are there", parties.len()));
    let record = RequestRecord::default();
    let mut renewals = JoinSet::new();
    for party in &parties {
        let party = Arc::clone(party);
        renewals.spawn(async move { party.led.keep_lease(&party.worker).await });
    }
    let mut honest = JoinSet::new();
    for (number, party) in parties.iter().enumerate().filter(|(number, _)| *number != GREEDY) {
        for kind in CallKind::ALL {
            honest.spawn(call_honestly(Arc::clone(party), kind, number, record.clone()));
        }
    }
    let alone = summary_of(&record, time).await;
    for greedy in CallKind::ALL {
        progress.say(format!("{} by {callers} callers: {} s", greedy.name(), time.as_secs()));
        let mut greed = JoinSet::new();
        for number in 0..callers {
            greed.spawn_on(call_greedily(Arc::clone(&parties[GREEDY]), greedy, number), greedy_runtime);
        }
        let beside = summary_of(&record, time).await;
        greed.shutdown().await;
        tell(
            report,
            json!({
                "what": "honest organizations beside a greedy one", "organizations": ORGANIZATIONS, "server": server,
                "greedy_calls": greedy.name(), "greedy_callers": callers, "seconds": beside.seconds,
                "writes_a_minute_of_an_organization": writes_a_minute,
                "honest": compare(&alone, &beside),
                "honest_errors": beside.errors(), "first_errors": beside.first_errors(),
            }),
        )?;
    }
    honest.shutdown().await;
    renewals.shutdown().await;
    Ok(())
}

async fn summary_of(record: &RequestRecord, time: Duration) -> RecordSummary {
    record.begin();
    tokio::time::sleep(time).await;
    record.end()
}

/// Returns the figures of each kind of honest request, in seconds.
fn compare(alone: &RecordSummary, beside: &RecordSummary) -> Value {
    let figures = CallKind::ALL.into_iter().map(|kind| {
        let seconds =
            |summary: &RecordSummary| summary.latency(kind.name()).map(|took| (took.median / 1e3, took.p99 / 1e3));
        let (alone, beside) = (seconds(alone), seconds(beside));
        let ratio =
            alone.zip(beside).map(|(alone, beside)| json!({ "p50": beside.0 / alone.0, "p99": beside.1 / alone.1 }));
        let line =
            |figures: Option<(f64, f64)>| figures.map(|(p50, p99)| json!({ "p50_seconds": p50, "p99_seconds": p99 }));
        (kind.name().to_owned(), json!({ "alone": line(alone), "beside": line(beside), "ratio": ratio }))
    });
    Value::Object(figures.collect())
}

/// Registers every organization's dataset by its worker, sets the budgets of the private ones, and starts the job that
/// each organization leads.
async fn come(stage: &TestConsortium, greedy_runtime: &Handle) -> TestResult<Vec<Arc<FairnessParty>>> {
    let server = ServerEndpoint::new(&format!("http://{}", stage.gateway()), None)?;
    let mut workers = Vec::new();
    for (number, site) in stage.sites.iter().enumerate() {
        let runtime = if number == GREEDY { greedy_runtime.clone() } else { Handle::current() };
        let (folder, client, server) = (site.folder().to_owned(), site.client.clone(), server.clone());
        // A worker's connection lives on the runtime that opens it.
        let worker = runtime.spawn(async move {
            SimulatedWorker::open(&folder, &server, client, &dataset_name(number), number == 0).await
        });
        workers.push(worker.await??);
    }
    let budget =
        NewBudget { unit: PrivacyUnit::Record, epsilon: Epsilon::new(8.0)?, delta: Delta::new(1e-6)?, filter: None };
    let lead = stage.dataset(&dataset_name(0)).await?;
    let mut parties = Vec::new();
    for ((number, site), worker) in stage.sites.iter().enumerate().zip(workers) {
        let own = stage.dataset(&dataset_name(number)).await?;
        if number > 0 {
            site.client.set_budget(own.id, &budget).await?;
        }
        let name = format!("questions-{number:02}");
        let led = Box::pin(LedJob::start(stage.consortium, &worker, &site.client, &name)).await?;
        let email = if number == 0 { "operator".to_owned() } else { site.name.to_lowercase().replace(' ', "-") };
        parties.push(Arc::new(FairnessParty {
            worker,
            client: site.client.clone(),
            http: reqwest::Client::new(),
            events: format!("{}/api/v1/consortia/{}/events", stage.address(), stage.consortium),
            token: sign_in(stage, &format!("{email}@example.org")).await?,
            consortium: stage.consortium,
            lead: lead.clone(),
            own,
            led,
        }));
    }
    Ok(parties)
}

fn dataset_name(number: usize) -> String {
    format!("fairness-{number:02}")
}

/// Returns an access token of a member.
async fn sign_in(stage: &TestConsortium, email: &str) -> TestResult<String> {
    let body = json!({ "email": email, "password": PASSWORD });
    let answer = reqwest::Client::new().post(format!("{}/api/v1/session", stage.address())).json(&body).send();
    let session: Value = answer.await?.error_for_status()?.json().await?;
    let token = session["access_token"].as_str().ok_or("a session has an access token")?;
    Ok(token.to_owned())
}

/// Makes calls repeatedly with pauses, and records their durations.
async fn call_honestly(party: Arc<FairnessParty>, kind: CallKind, number: usize, record: RequestRecord) {
    let caller = ConcurrentCaller::new(number, "honest".to_owned());
    for turn in number.. {
        let call = async {
            tokio::time::timeout(PATIENCE, Box::pin(party.call(kind, &caller, turn)))
                .await
                .unwrap_or_else(|_| Err("no answer within 30 s".into()))
        };
        // A failure is counted.
        let _ = record.request(kind.name(), call).await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Makes calls repeatedly without a pause, until dropped.
async fn call_greedily(party: Arc<FairnessParty>, kind: CallKind, number: usize) {
    let caller = ConcurrentCaller::new(number, format!("greedy-{number}"));
    for turn in 0.. {
        if Box::pin(party.call(kind, &caller, turn)).await.is_err() {
            tokio::time::sleep(AFTER_REFUSAL).await;
        }
    }
}

impl FairnessParty {
    async fn call(&self, kind: CallKind, caller: &ConcurrentCaller, turn: usize) -> TestResult<()> {
        match kind {
            CallKind::Register => {
                // Changed facts each time.
                let records = SizeClass(if turn.is_multiple_of(2) { 1000 } else { 2000 });
                self.worker.gateway().register(&registration(caller, records)).await?;
            }
            CallKind::Plan => {
                let _: Value = self.client.post("/plans", &self.plan(turn)?).await?;
            }
            CallKind::Upload => self.led.upload(&self.worker, &caller.name, turn).await?,
            CallKind::Question => self.led.ask_and_answer(&self.worker, &self.client, caller.number).await?,
            CallKind::Watch => {
                let request = self.http.get(&self.events).bearer_auth(&self.token);
                let mut stream =
                    request.header(header::ACCEPT, "text/event-stream").send().await?.error_for_status()?;
                while let Some(bytes) = stream.chunk().await? {
                    if String::from_utf8_lossy(&bytes).contains("data:") {
                        return Ok(());
                    }
                }
                return Err("the stream ended without an event".into());
            }
        }
        Ok(())
    }

    /// Returns a plan of the party's own dataset; it changes each turn, so that no result is cached.
    fn plan(&self, turn: usize) -> TestResult<NewPlan> {
        let rounds =
            ArmRounds { rounds: 100, learning_rate: 1e-3, evaluate_every: 10, deadline_seconds: 60, quorum: 1 };
        let noise = 1.0 + (turn % 10_000) as f64 / 1e4;
        let mut plan = JobPlan::new("fairness", PrivacyUnit::Record, 8, &self.lead, 1)?;
        if self.own.id != self.lead.id {
            plan = plan.party(self.own.id, 0.05, noise, 1.0)?;
        }
        let job = plan.test("held out", self.lead.id).private(rounds).job();
        Ok(NewPlan { consortium: self.consortium, job })
    }
}

fn registration(caller: &ConcurrentCaller, records: SizeClass) -> DatasetRegistration {
    DatasetRegistration {
        name: caller.name.clone(),
        lineage: caller.lineage,
        visibility: Visibility::Private,
        content: DatasetContent::Speech,
        inputs: super::job::INPUTS,
        classes: super::job::CLASSES,
        records,
        speakers: SizeClass(50),
        test_records: 0,
        seconds: None,
        users: None,
        table: None,
        units: usual_units(),
        approval: None,
    }
}
