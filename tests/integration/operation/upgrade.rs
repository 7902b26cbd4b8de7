//! Two servers on one PostgreSQL are replaced one after the other, and the first new one brings the tables up to date, while a job runs
//! and clients read, write and listen.
//!
//! There is one program in a build. So two tables that this scenario does not use are dropped, with the steps that create them: the
//! servers that run then are the old program to these tables, and the first one that starts again is the new program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use support::balancer::TestBalancer;
use support::client::{Called, TestClient};
use support::stage::{PATIENCE, TestDatabase, TestResult};
use undertone_api::event::JobEvent;
use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::{JobDraft, JobState, NewDraft};
use undertone_api::page::Page;

use support::scene;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 8;
/// The grace period of a stopping server, and time to end.
const GRACE: Duration = Duration::from_secs(20);
/// The number of times that a client repeats a request after a lost connection.
const REPEATS: u32 = 5;
/// The pause before a repetition, and between calls.
const PAUSE: Duration = Duration::from_millis(200);
/// Most drafts that the writing client makes: fewer than an organization may have, and than a page shows.
const MOST_DRAFTS: u32 = 150;
/// Puts the tables back to those of an older program.
const OLDER_TABLES: &str = "BEGIN; DROP TABLE notice_delivery; DROP TABLE passkey_answer; DELETE FROM seaql_migrations \
     WHERE version IN ('create_notice_delivery', 'create_passkey_answer'); COMMIT";

/// The calls of a client, and those that failed after all repetitions.
#[derive(Debug, Default)]
struct CallRecord {
    calls: u32,
    repeated: u32,
    failed: Vec<String>,
}

impl CallRecord {
    /// Makes a call, and repeats it as the documentation asks of clients.
    async fn call<T, F: Future<Output = Called<T>>>(&mut self, call: impl Fn() -> F) {
        self.calls += 1;
        for attempt in 0..=REPEATS {
            match call().await {
                Ok(_) => return,
                Err(error) if attempt == REPEATS => self.failed.push(error.to_string()),
                Err(_) => self.repeated += 1,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Reads the job until the scenario is over, and counts the finished calls.
async fn read(client: TestClient, job: JobId, calls: Arc<AtomicU32>, is_over: Arc<AtomicBool>) -> CallRecord {
    let mut record = CallRecord::default();
    while !is_over.load(Ordering::SeqCst) {
        record.call(|| client.job(job)).await;
        calls.store(record.calls, Ordering::SeqCst);
        tokio::time::sleep(PAUSE).await;
    }
    record
}

/// Waits until the reading client has begun and finished a call, so that each phase of the scenario has one.
async fn wait_for_a_call(calls: &AtomicU32) -> TestResult<()> {
    // The first call that ends may have begun before.
    let enough = calls.load(Ordering::SeqCst) + 2;
    let deadline = Instant::now() + PATIENCE;
    while calls.load(Ordering::SeqCst) < enough {
        if Instant::now() > deadline {
            return Err("the reading client does not finish its calls".into());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

fn title(number: u32) -> String {
    format!("draft {number}")
}

/// Makes drafts, each by a request with a key of its own, until the scenario is over.
async fn write(client: TestClient, consortium: ConsortiumId, is_over: Arc<AtomicBool>) -> CallRecord {
    let mut record = CallRecord::default();
    let path = format!("/consortia/{consortium}/drafts");
    while !is_over.load(Ordering::SeqCst) && record.calls < MOST_DRAFTS {
        let (key, title) = (format!("draft-{}", record.calls), title(record.calls));
        let draft = NewDraft { title, kind: "dp_sgd".to_owned(), spec: serde_json::json!({}) };
        record.call(|| client.post_once::<JobDraft>(&path, &key, &draft)).await;
        tokio::time::sleep(PAUSE * 3).await;
    }
    record
}

/// The events of the job that a client has received.
#[derive(Debug, Default)]
struct EventRecord {
    connections: u32,
    rounds: Vec<u32>,
    last: Option<String>,
    is_finished: bool,
}

impl EventRecord {
    /// Takes what has arrived; returns the part of an event that is not complete.
    fn take(&mut self, text: &str) -> TestResult<String> {
        let mut rest = text;
        while let Some((event, after)) = rest.split_once("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
            if let (Some(id), Some(data)) = (field("id:"), field("data:")) {
                let event: JobEvent = serde_json::from_str(data)?;
                self.last = Some(id.to_owned());
                self.rounds.push(event.job.rounds_done);
                self.is_finished = event.job.state == JobState::Finished;
            }
            rest = after;
        }
        Ok(rest.to_owned())
    }
}

/// Listens to the job until it has finished, and comes back with `Last-Event-ID` whenever the stream ends.
async fn listen(client: TestClient, job: JobId) -> TestResult<EventRecord> {
    let mut record = EventRecord::default();
    let path = format!("/jobs/{job}/events");
    let deadline = Instant::now() + JOB * 2;
    while !record.is_finished {
        if Instant::now() > deadline {
            return Err(format!("the job's end was not told: {record:?}").into());
        }
        let opened = client.events(&path, record.last.as_deref()).await;
        if let Ok(mut stream) = opened {
            record.connections += 1;
            let mut text = String::new();
            while let Ok(Some(bytes)) = stream.chunk().await {
                text.push_str(&String::from_utf8_lossy(&bytes));
                text = record.take(&text)?;
                if record.is_finished {
                    break;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(record)
}

/// Waits until a server is ready, as an administrator does before the next one is stopped.
async fn wait_until_ready(address: &str) -> TestResult<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = reqwest::get(format!("{address}/health/ready")).await;
        if answer.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{address} is not ready").into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_replaced_one_by_one_without_a_failed_call() -> TestResult<()> {
    let Some(database) = TestDatabase::postgres()? else {
        eprintln!("no PostgreSQL: set UNDERTONE_TEST_DATABASE_URL, or run `make test`");
        return Ok(());
    };
    let mut stage = scene::set(database).await?;
    let mut replica = stage.replica()?;
    let workers = TestBalancer::start(&[stage.gateway().port(), replica.grpc]).await?;
    let addresses = [stage.address(), replica.address.clone()];
    let ports: Vec<u16> = addresses.iter().filter_map(|address| address.rsplit(':').next()?.parse().ok()).collect();
    let people = TestBalancer::start(&ports).await?;
    for site in &stage.sites {
        site.connect_to(workers.address)?;
    }
    stage.database().execute(OLDER_TABLES)?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let plan = scene::small_job(&stage, ROUNDS, 120).await?;
    let job = stage.operator.propose(stage.consortium, &plan.job()).await?.summary.id;
    scene::approve(&stage, job).await?;
    stage.operator = stage.operator.with_address(format!("http://{}", people.address));
    stage.wait_until(job, JOB, |job| job.summary.rounds_done >= 1).await?;

    let is_over = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicU32::new(0));
    let reader = tokio::spawn(read(stage.operator.clone(), job, Arc::clone(&calls), Arc::clone(&is_over)));
    let writer = tokio::spawn(write(stage.operator.clone(), stage.consortium, Arc::clone(&is_over)));
    let listener = tokio::spawn(listen(stage.operator.clone(), job));

    wait_for_a_call(&calls).await?;
    stage.database().execute("SELECT 1 FROM notice_delivery").expect_err("the tables are older");
    let status = stage.stop_server(GRACE)?;
    assert!(status.success(), "{status:?}");
    wait_for_a_call(&calls).await?;
    stage.start_server()?;
    wait_until_ready(&addresses[0]).await?;
    stage.database().execute("SELECT 1 FROM notice_delivery")?;
    wait_for_a_call(&calls).await?;
    let status = stage.replace_replica(&mut replica, GRACE)?;
    assert!(status.success(), "{status:?}");
    wait_until_ready(&addresses[1]).await?;
    wait_for_a_call(&calls).await?;
    // The client calls through the balancer, not a single server.
    let deadline = Instant::now() + JOB;
    let finished = loop {
        match stage.finish(job, JOB).await {
            Ok(finished) => break finished,
            Err(error) if Instant::now() > deadline || error.to_string().contains("the job is") => return Err(error),
            Err(_) => tokio::time::sleep(PAUSE * 2).await,
        }
    };
    assert_eq!(finished.summary.state, JobState::Finished);
    is_over.store(true, Ordering::SeqCst);

    let reads = reader.await?;
    assert_eq!(reads.failed, [""; 0], "{} calls, {} repeated", reads.calls, reads.repeated);
    let writes = writer.await?;
    assert_eq!(writes.failed, [""; 0], "{} calls, {} repeated", writes.calls, writes.repeated);
    let drafts: Page<JobDraft> =
        stage.operator.get(&format!("/consortia/{}/drafts?limit=200", stage.consortium)).await?;
    let mut titles: Vec<String> = drafts.items.into_iter().map(|draft| draft.content.title).collect();
    titles.sort();
    let mut expected: Vec<String> = (0..writes.calls).map(title).collect();
    expected.sort();
    assert_eq!(titles, expected, "each request was carried out once");
    let events = listener.await??;
    assert!(events.connections >= 2, "{} connections", events.connections);
    assert!(events.rounds.is_sorted(), "no event goes back: {:?}", events.rounds);

    for (site, name) in scene::private_sites(&stage.sites).zip(scene::PRIVATE) {
        let dataset = stage.dataset(name).await?;
        let part = finished.participants.iter().find(|part| part.dataset == dataset.id).ok_or("a participant")?;
        assert!(part.releases >= 1 && dataset.accounts[0].reserved_fraction.abs() < 1e-9, "{name}: {part:?}");
        site.command(&["ledger", "verify"])?;
    }
    Ok(())
}
