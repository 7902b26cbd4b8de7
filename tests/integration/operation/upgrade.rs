//! Two servers on one PostgreSQL are replaced one after the other while a job runs and a client calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::balancer::Balancer;
use support::stage::{Database, Staged};
use undertone_api::job::State;

use super::private;
use support::scene;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 8;
/// The grace period of a stopping server, and time to end.
const GRACE: Duration = Duration::from_secs(20);
/// The number of times that a client repeats a request after a lost connection.
const REPEATS: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_replaced_one_by_one_without_a_failed_call() -> Staged<()> {
    let Some(database) = Database::postgres()? else {
        eprintln!("no PostgreSQL: set UNDERTONE_TEST_DATABASE_URL, or run `make test`");
        return Ok(());
    };
    let mut stage = scene::set(database).await?;
    let mut replica = stage.replica()?;
    let workers = Balancer::before(&[stage.gateway().port(), replica.grpc]).await?;
    let ports = [stage.address(), replica.address.clone()];
    let ports: Vec<u16> = ports.iter().filter_map(|address| address.rsplit(':').next()?.parse().ok()).collect();
    let people = Balancer::before(&ports).await?;
    for site in &stage.sites {
        site.connect_to(workers.address)?;
    }
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let plan = scene::small_job(&stage, ROUNDS, 120).await?;
    let job = stage.operator.propose(stage.consortium, &plan.job()).await?.summary.id;
    scene::approve(&stage, job).await?;
    stage.operator = stage.operator.at(&format!("http://{}", people.address));
    stage.wait_until(job, JOB, |job| job.summary.rounds_done >= 1).await?;

    let client = stage.operator.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&is_over);
    let calling = tokio::spawn(async move {
        let (mut calls, mut repeated, mut failed) = (0_u32, 0_u32, Vec::new());
        while !watched.load(Ordering::SeqCst) {
            calls += 1;
            for attempt in 0..=REPEATS {
                match client.job(job).await {
                    Ok(_) => break,
                    Err(error) if attempt == REPEATS => failed.push(error.to_string()),
                    Err(_) => repeated += 1,
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        (calls, repeated, failed)
    });

    let status = stage.stop_server(GRACE)?;
    assert!(status.success(), "{status:?}");
    stage.start_server()?;
    let status = stage.replace_replica(&mut replica, GRACE)?;
    assert!(status.success(), "{status:?}");
    // The client calls through the balancer, not a single server.
    let deadline = Instant::now() + JOB;
    let finished = loop {
        match stage.finish(job, JOB).await {
            Ok(finished) => break finished,
            Err(error) if Instant::now() > deadline || error.to_string().contains("the job is") => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    };
    assert_eq!(finished.summary.state, State::Finished);
    is_over.store(true, Ordering::SeqCst);
    let (calls, repeated, failed) = calling.await?;
    assert_eq!(failed, [""; 0], "{calls} calls, {repeated} repeated");
    assert!(calls > 10, "{calls} calls");

    for (site, name) in private(&stage.sites).zip(scene::PRIVATE) {
        let dataset = stage.dataset(name).await?;
        let part = finished.participants.iter().find(|part| part.dataset == dataset.id).ok_or("a participant")?;
        assert!(part.releases >= 1 && dataset.accounts[0].reserved_fraction.abs() < 1e-9, "{name}: {part:?}");
        site.command(&["ledger", "verify"])?;
    }
    Ok(())
}
