//! A server with many workers and browsers: the duration of requests, the server's memory, and rounds that close
//! without a present participant. Once on SQLite, once with two replicas on one PostgreSQL.
//!
//! The servers are the product's programs. Each simulated worker is an enrolled identity with a disk of its own: it
//! makes the daemon's calls at the daemon's times, through the daemon's gateway. Most wait for work. The others take
//! part in jobs of four, and answer, reserve, pay, store and send with the daemon's own modules; only the training is
//! replaced by a stated pause. Each browser has signed in by the form. It keeps one tab on a job's page, which requests
//! changes when it is notified, and visits one page after another in a second tab. A program over REST follows each job
//! as well, up to ten of them.
//!
//! Both scenes use the same balancer, so that only the servers differ. The load generator runs on the same machine; its
//! share of the processors is in the report. Deliberate waits (for work, for a mean) are not requests: they are
//! reported under `waits`. The times of the servers' writing transactions are reported under `transactions`, from their
//! `/metrics`.
//!
//! Environment variables set the sizes, so that a smoke run is small: `UNDERTONE_LOAD_WORKERS` (200, at least 4),
//! `UNDERTONE_LOAD_BROWSERS` (50), `UNDERTONE_LOAD_SECONDS` (60). There is a job for every twenty workers, at least
//! one. Progress is printed on standard error; a scene whose setup takes more than five minutes is abandoned.

mod browser;
pub(crate) mod fairness;
mod follower;
pub(crate) mod hostile;
mod job;
mod part;
mod progress;
mod record;
mod turns;
mod usage;
mod worker;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use support::balancer::TestBalancer;
use support::client::TestClient;
use support::port;
use support::stage::{PASSWORD, ServerLaunch, ServerReplica, TestConsortium, TestDatabase, TestResult, TestSite};
use tokio::task::JoinSet;
use undertone_api::id::{JobId, OrganizationId};
use undertone_api::member::{NewMember, Role};
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_worker::config::ServerEndpoint;

use crate::report::{Outcome, Report};
use browser::SimulatedBrowser;
use follower::{EventFollower, MOST_FOLLOWERS};
use job::{JobTeam, PARTIES};
use progress::SceneProgress;
use record::{RecordSummary, RequestLatency, RequestRecord};
use turns::WriterTurns;
use worker::SimulatedWorker;

/// Workers for each job.
const WORKERS_A_JOB: usize = 20;
/// The workers' organizations.
const ORGANIZATIONS: [&str; 5] = ["North", "South", "East", "West", "Middle"];
/// The changed settings: without rates, because all callers have one address here.
const SET: [(&str, &str); 3] =
    [("UNDERTONE_RATES__BY_ADDRESS", "0"), ("UNDERTONE_RATES__BY_CALLER", "0"), ("UNDERTONE_RATES__BY_WORKER", "0")];

/// Workers, accounts or jobs that are set up concurrently.
const AT_ONCE: usize = 8;
/// The number of workers between two progress messages.
const TOLD: usize = 25;
/// The time limit of a scene's setup.
const LONGEST_SET_UP: Duration = Duration::from_mins(5);

/// The requested sizes.
#[derive(Debug, Clone, Copy)]
struct LoadSizes {
    workers: usize,
    browsers: usize,
    seconds: u32,
}

impl LoadSizes {
    fn from_environment() -> TestResult<Self> {
        let workers: usize = one("UNDERTONE_LOAD_WORKERS", 200)?;
        if workers < PARTIES {
            return Err(
                format!("UNDERTONE_LOAD_WORKERS: a job has {PARTIES} participants; give at least as many").into()
            );
        }
        let (browsers, seconds) = (one("UNDERTONE_LOAD_BROWSERS", 50)?, one("UNDERTONE_LOAD_SECONDS", 60)?);
        Ok(Self { workers, browsers, seconds })
    }

    /// Returns the number of concurrent jobs.
    fn jobs(self) -> usize {
        (self.workers / WORKERS_A_JOB).max(1)
    }
}

fn one<T: FromStr<Err: std::fmt::Display>>(name: &str, usual: T) -> TestResult<T> {
    let Ok(text) = std::env::var(name) else { return Ok(usual) };
    text.parse().map_err(|error| format!("{name}: `{text}`: {error}").into())
}

/// Returns the program of the server that the variable `name` of the environment names.
fn measured_program(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|program| !program.is_empty()).map(Into::into)
}

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(report)).map_err(|error| -> Box<dyn std::error::Error> { error })
}

async fn measure(report: &mut Report) -> TestResult<()> {
    let sizes = LoadSizes::from_environment()?;
    let postgres = TestDatabase::postgres()?
        .ok_or("there is no PostgreSQL: set UNDERTONE_TEST_DATABASE_URL, as .ci/with-postgres.sh does")?;
    eprintln!(
        "load: 2 scenes of {} s each with {} workers, {} browsers and {} jobs; before each everybody comes, which takes at most {} s",
        sizes.seconds,
        sizes.workers,
        sizes.browsers,
        sizes.jobs(),
        LONGEST_SET_UP.as_secs(),
    );
    let one = scene(report, "sqlite", TestDatabase::Sqlite, 1, sizes).await?;
    let two = scene(report, "postgres", postgres, 2, sizes).await?;
    tell(report, json!({ "what": "two replicas on PostgreSQL over one server on SQLite", "ratio": one.ratio(&two) }))
}

fn tell(report: &mut Report, line: Value) -> TestResult<()> {
    report.line(line).map_err(|error| error.to_string().into())
}

/// A consortium behind its balancers.
struct LoadedConsortium {
    stage: TestConsortium,
    /// Kept running until the end of the scene.
    replicas: Vec<ServerReplica>,
    /// The balancer of REST and dashboard.
    http: TestBalancer,
    /// The balancer of the workers' gateways.
    grpc: TestBalancer,
    /// The ports of each server's `/metrics`.
    metrics: Vec<u16>,
}

impl LoadedConsortium {
    async fn lay(
        launch: ServerLaunch,
        database: TestDatabase,
        servers: usize,
        set: &[(&str, &str)],
    ) -> TestResult<Self> {
        let mut metrics = vec![port::free()?];
        let address = format!("127.0.0.1:{}", metrics[0]);
        let set: Vec<_> = set.iter().copied().chain([("UNDERTONE_METRICS", &*address)]).collect();
        let stage = TestConsortium::set_by(launch, database, &ORGANIZATIONS, &set).await?;
        let replicas = (1..servers).map(|_| stage.replica()).collect::<TestResult<Vec<_>>>()?;
        let mut http = vec![port_of(&stage.address())?];
        let mut grpc = vec![stage.gateway().port()];
        for replica in &replicas {
            http.push(port_of(&replica.address)?);
            grpc.push(replica.grpc);
            metrics.push(replica.metrics);
        }
        let (http, grpc) = (TestBalancer::start(&http).await?, TestBalancer::start(&grpc).await?);
        Ok(Self { stage, replicas, http, grpc, metrics })
    }

    /// Returns the process of each server.
    fn processes(&self) -> TestResult<Vec<u32>> {
        let first = self.stage.server()?.id();
        Ok(std::iter::once(first).chain(self.replicas.iter().map(|replica| replica.process.id())).collect())
    }

    /// Returns the address for browsers and programs.
    fn address(&self) -> String {
        format!("http://{}", self.http.address)
    }

    /// Returns the address for workers.
    fn server(&self) -> TestResult<ServerEndpoint> {
        Ok(ServerEndpoint::new(&format!("http://{}", self.grpc.address), None)?)
    }
}

fn port_of(address: &str) -> TestResult<u16> {
    let port = url::Url::parse(address)?.port();
    port.ok_or_else(|| format!("{address} has no port").into())
}

/// Runs one scene: sets everything up, begins all jobs, and then measures for a while.
async fn scene(
    report: &mut Report,
    database: &'static str,
    under: TestDatabase,
    servers: usize,
    sizes: LoadSizes,
) -> TestResult<RecordSummary> {
    let progress = SceneProgress::begin(database);
    let ground = LoadedConsortium::lay(ServerLaunch::default(), under, servers, &SET).await?;
    progress.say(format!("{servers} of the server's programs run"));
    let record = RequestRecord::default();
    // Dropping the set stops all its tasks.
    let mut everybody = JoinSet::new();
    let coming = set_up(&ground, sizes, &mut everybody, &record, progress);
    let jobs = tokio::time::timeout(LONGEST_SET_UP, coming).await.map_err(|_| {
        format!(
            "the scene on {database} was not set up within {} s: give fewer workers or browsers",
            LONGEST_SET_UP.as_secs()
        )
    })??;
    let set_up = progress.seconds();
    progress.say(format!("everybody is there: measuring for {} s", sizes.seconds));

    let processes = ground.processes()?;
    let (before, turns) = (usage::ProcessorTime::now(&processes)?, WriterTurns::now(&ground.metrics).await?);
    let rounds = job::rounds_done(&ground.stage, &jobs).await?;
    record.begin();
    tokio::time::sleep(Duration::from_secs(u64::from(sizes.seconds))).await;
    let summary = record.end();
    let spent = usage::ProcessorTime::now(&processes)?.since(&before);
    let turns = WriterTurns::now(&ground.metrics).await?.since(&turns);
    let rounds = job::rounds_done(&ground.stage, &jobs).await? - rounds;
    let memory =
        processes.iter().map(|process| usage::ProcessMemory::read(*process)).collect::<TestResult<Vec<_>>>()?;
    let missed = job::deadlines(&ground.stage, &jobs).await?;
    everybody.shutdown().await;
    progress.say(format!("{} requests, {rounds} rounds", summary.requests()));

    tell(
        report,
        json!({
            "what": "a scene", "database": database, "servers": servers,
            "workers": sizes.workers, "workers_in_jobs": jobs.len() * PARTIES, "jobs": jobs.len(),
            "browsers": sizes.browsers, "programs": jobs.len().min(MOST_FOLLOWERS), "seconds": summary.seconds, "set_up_seconds": set_up,
            "set": SET.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(),
            "cadence": {
                "worker_waits_for_work_seconds": worker::WAIT.as_secs(), "training_milliseconds": part::TRAINING.as_millis(),
                "vector_numbers": job::parameters(), "deadline_seconds": job::DEADLINE_SECONDS, "quorum": job::QUORUM,
                "browser_thinks_seconds": [browser::LEAST_THOUGHT.as_secs(), browser::MOST_THOUGHT.as_secs()],
                "program_asks_every_seconds": follower::EVERY.as_secs(),
            },
            "requests": summary.requests(), "requests_per_second": summary.per_second(), "errors": summary.errors(),
            "first_errors": summary.first_errors(),
            "latency_milliseconds": summary.latencies(), "waits_milliseconds": summary.waits(),
            "transactions": turns.figures(summary.seconds),
            "rounds_while_measured": rounds, "rounds_in_all": missed.rounds, "missed_deadlines": missed.missed,
            "connections_taken": { "http": ground.http.connection_counts(), "grpc": ground.grpc.connection_counts() },
            "server_memory": memory.iter().map(usage::ProcessMemory::figures).collect::<Vec<_>>(),
            "processors": spent.figures(summary.seconds),
        }),
    )?;
    Ok(summary)
}

/// Sets up workers, jobs, browsers and programs; returns the jobs once each has closed a round.
async fn set_up(
    ground: &LoadedConsortium,
    sizes: LoadSizes,
    everybody: &mut JoinSet<()>,
    record: &RequestRecord,
    progress: SceneProgress,
) -> TestResult<Vec<JobId>> {
    let workers = hire(ground, sizes, everybody, record, progress).await?;
    let teams = JobTeam::split_workers(&workers, sizes.jobs());
    let launches = stream::iter(teams.iter().enumerate())
        .map(|(number, team)| job::launch(&ground.stage, number, team, sizes.seconds));
    let jobs: Vec<JobId> = launches.buffered(AT_ONCE).try_collect().await?;
    progress.say(format!("{} jobs are queued", jobs.len()));
    job::have_begun(&ground.stage, &jobs).await?;
    progress.say("every job has closed a round");

    let accounts = accounts(ground, sizes.browsers).await?;
    progress.say(format!("{} accounts are made", accounts.len()));
    let address = ground.address();
    let browsers: Vec<SimulatedBrowser> = stream::iter(&accounts)
        .map(|(email, _)| SimulatedBrowser::open(&address, email, record.clone()))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    for (number, (browser, (_, organization))) in browsers.into_iter().zip(&accounts).enumerate() {
        let walk = browser::PageWalk {
            consortium: ground.stage.consortium,
            organization: *organization,
            job: jobs[number % jobs.len()],
            dataset: workers[number % workers.len()].dataset(),
            number,
        };
        everybody.spawn(browser.use_dashboard(walk));
    }
    for job in jobs.iter().take(MOST_FOLLOWERS) {
        everybody.spawn(EventFollower::open(&address, *job, record.clone()).await?.follow());
    }
    Ok(jobs)
}

/// Enrols the workers: the stage's own sites first, then the further ones, in the same organizations. Each begins to
/// wait for work immediately, so that their requests are spread over time.
async fn hire(
    ground: &LoadedConsortium,
    sizes: LoadSizes,
    everybody: &mut JoinSet<()>,
    record: &RequestRecord,
    progress: SceneProgress,
) -> TestResult<Vec<Arc<SimulatedWorker>>> {
    let (server, mut workers) = (ground.server()?, Vec::new());
    let mut coming =
        stream::iter(0..sizes.workers).map(|number| come(ground, &server, sizes, number)).buffered(AT_ONCE);
    while let Some(worker) = coming.try_next().await? {
        let worker = Arc::new(worker);
        everybody.spawn(Arc::clone(&worker).live(record.clone()));
        workers.push(worker);
        if workers.len().is_multiple_of(TOLD) || workers.len() == sizes.workers {
            progress.say(format!("{} of {} workers are enrolled", workers.len(), sizes.workers));
        }
    }
    Ok(workers)
}

/// Returns the worker with this number.
async fn come(
    ground: &LoadedConsortium,
    server: &ServerEndpoint,
    sizes: LoadSizes,
    number: usize,
) -> TestResult<SimulatedWorker> {
    let site = &ground.stage.sites[number % ground.stage.sites.len()];
    let folder = if number < ground.stage.sites.len() {
        site.folder().to_owned()
    } else {
        let folder = site.folder().with_file_name(format!("site-{number}"));
        let token = site.client.enrolment(site.organization, &format!("worker {number}")).await?.token;
        worker::enrol(&folder, &token).await?;
        folder
    };
    // A lead is public.
    let public = job::leads(number, sizes.jobs());
    SimulatedWorker::open(&folder, server, site.client.clone(), &format!("set-{number:04}"), public).await
}

/// Creates the browsers' accounts, each with its organization. They sign in once, in their own browsers.
async fn accounts(ground: &LoadedConsortium, count: usize) -> TestResult<Vec<(String, OrganizationId)>> {
    let stranger = TestClient::new(ground.address());
    let roles = [Role::Researcher, Role::Auditor, Role::DataSteward];
    let one = |number: usize| {
        let site = &ground.stage.sites[number % ground.stage.sites.len()];
        account(&stranger, site, format!("member-{number}"), &roles)
    };
    stream::iter(0..count).map(one).buffered(AT_ONCE).try_collect().await
}

/// Makes the account of a member of a site's organization: its e-mail and its organization.
async fn account(
    stranger: &TestClient,
    site: &TestSite,
    name: String,
    roles: &[Role],
) -> TestResult<(String, OrganizationId)> {
    let purpose = InvitationPurpose::Member { organization: site.organization, roles: roles.to_vec() };
    let invitation = NewInvitation { purpose, label: name.clone() };
    let link = site.client.invite(&invitation).await?.link.ok_or("a new invitation shows its link")?;
    let email = format!("{name}@example.org");
    let member = NewMember { name, email: email.clone(), password: PASSWORD.to_owned(), organization: None };
    let secret = link.rsplit('/').next().unwrap_or_default();
    let _: Value = stranger.post(&format!("/invitations/{secret}/accept"), &member).await?;
    Ok((email, site.organization))
}

impl RecordSummary {
    /// Returns the ratios of another scene to this one, for each kind of request that both have, and for all requests.
    fn ratio(&self, other: &Self) -> Value {
        let of = |one: &RequestLatency, two: &RequestLatency| json!({ "median": two.median / one.median, "p99": two.p99 / one.p99 });
        let kinds: serde_json::Map<String, Value> =
            self.kinds().filter_map(|(kind, one)| Some((kind.to_owned(), of(&one, &other.latency(kind)?)))).collect();
        json!({ "requests_per_second": other.per_second() / self.per_second(), "latency": kinds })
    }
}
