//! A server under attack. Honest browsers and workers use it as in the load measurement, while one attack after another
//! runs against it from other addresses of this machine. One attack comes from the honest address as well. Everything
//! is on loopback, has a fixed number of connections and a fixed time, and ends by itself.
//!
//! The report has a line for each attack: the 99th percentile of the honest requests, the number of failed ones, the
//! server's peak memory, and the time after the attack until a new connection is answered within a second. The server
//! has the packaged unit's limit of open files where the machine permits it; its other limits are the defaults.
//!
//! `UNDERTONE_HOSTILE_DIVISOR` (1) divides every number of callers, `UNDERTONE_HOSTILE_SECONDS` (15) is the time of an
//! attack.

mod attack;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use support::stage::{Database, PASSWORD, Staged};
use tokio::task::JoinSet;

use self::attack::{Attack, Target};
use super::progress::Progress;
use super::record::{Record, Summary};
use super::{Ground, LONGEST_SET_UP, Sizes, one, set_up, tell, usage};
use crate::report::{Outcome, Report};

/// The number of honest browsers, and of honest workers.
const HONEST: usize = 50;
/// The least number of honest callers: a job has four participants.
const FEWEST: usize = 4;
/// The packaged unit's limit of the server's open files.
const FILES: u64 = 65_536;
/// The limit of the honest requests' 99th percentile.
const MOST_P99: Duration = Duration::from_secs(1);
/// The limit of the server's memory, MiB.
const MOST_MEMORY: u64 = 1024;
/// The limit of the time until a new connection is answered again.
const MOST_RECOVERY: Duration = Duration::from_secs(10);
/// The interval between two samples of the server, and between two new honest connections.
const EVERY: Duration = Duration::from_millis(250);
/// The time limit of an answer on a new connection.
const PROBE: Duration = Duration::from_secs(1);

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(report)).map_err(|error| -> Box<dyn std::error::Error> { error })
}

async fn measure(report: &mut Report) -> Staged<()> {
    let divisor: usize = one("UNDERTONE_HOSTILE_DIVISOR", 1)?;
    let divisor = divisor.max(1);
    let time = Duration::from_secs(one("UNDERTONE_HOSTILE_SECONDS", 15)?);
    let honest = (HONEST / divisor).max(FEWEST);
    let attacks = Attack::ALL.len() as u32;
    let seconds = attacks * (time + MOST_RECOVERY).as_secs() as u32;
    let sizes = Sizes { workers: honest, browsers: honest, seconds };
    let progress = Progress::of("hostile");
    // The server's own rates are in force: the attacks meet them too.
    let ground = Ground::lay(Database::Sqlite, 1, &[]).await?;
    let process = ground.stage.server()?.id();
    let files = allow_files(process);
    let record = Record::default();
    let mut everybody = JoinSet::new();
    let coming = set_up(&ground, sizes, &mut everybody, &record, progress);
    tokio::time::timeout(LONGEST_SET_UP, coming).await.map_err(|_| "the scene was not set up in time")??;
    let target = Target::new(&ground.stage, &token(&ground).await?)?;
    everybody.spawn(probe_again_and_again(target.health(), record.clone()));
    tell(
        report,
        json!({ "what": "honest callers", "browsers": honest, "workers": honest, "files": files, "divisor": divisor }),
    )?;
    for attack in Attack::ALL {
        progress.say(format!("{}: {} s", attack.name(), time.as_secs()));
        let line = one_attack(attack, &target, divisor, time, process, &record).await?;
        tell(report, line)?;
    }
    everybody.shutdown().await;
    Ok(())
}

/// Runs one attack, and returns its line.
async fn one_attack(
    attack: Attack,
    target: &Target,
    divisor: usize,
    time: Duration,
    process: u32,
    record: &Record,
) -> Staged<serde_json::Value> {
    record.begin();
    let mut attackers = attack.begin(target, divisor);
    let (ends, mut memory) = (Instant::now() + time, 0);
    while Instant::now() < ends {
        memory = memory.max(usage::Memory::of(process)?.resident_mib());
        tokio::time::sleep(EVERY).await;
    }
    let summary = record.end();
    attackers.shutdown().await;
    let recovery = recovery(&target.health()).await;
    memory = memory.max(usage::Memory::of(process)?.resident_mib());
    let p99 = honest_p99(&summary);
    let errors = honest_errors(&summary);
    let is_fast = p99.is_some_and(|p99| p99 <= MOST_P99.as_secs_f64());
    let is_recovered = recovery.is_some_and(|recovery| recovery <= MOST_RECOVERY);
    Ok(json!({
        "attack": attack.name(), "callers": attack.callers(divisor),
        "honest_requests": summary.requests(), "honest_p99_seconds": p99, "honest_errors": errors,
        "first_errors": summary.first_errors(), "memory_mib": memory,
        "recovery_seconds": recovery.map(|recovery| recovery.as_secs_f64()),
        "passed": is_fast && errors == 0 && memory <= MOST_MEMORY && is_recovered,
    }))
}

/// Returns the 99th percentile of all honest requests, in seconds.
fn honest_p99(summary: &Summary) -> Option<f64> {
    Some(summary.latencies()["all"]["p99"].as_f64()? / 1e3)
}

fn honest_errors(summary: &Summary) -> u64 {
    summary.errors().as_object().map_or(0, |kinds| kinds.values().filter_map(serde_json::Value::as_u64).sum())
}

/// Opens honest connections repeatedly: existing connections would not show that new ones are impossible.
async fn probe_again_and_again(health: String, record: Record) {
    loop {
        let _ = record.request("new connection", probe(&health)).await;
        tokio::time::sleep(EVERY).await;
    }
}

async fn probe(health: &str) -> Result<(), reqwest::Error> {
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).timeout(PROBE).build()?;
    client.get(health).send().await?.error_for_status().map(drop)
}

/// Returns the time until a new connection is answered; `None` when that exceeds twice the limit.
async fn recovery(health: &str) -> Option<Duration> {
    let began = Instant::now();
    while began.elapsed() < 2 * MOST_RECOVERY {
        let asked = began.elapsed();
        if probe(health).await.is_ok() {
            return Some(asked);
        }
        tokio::time::sleep(EVERY).await;
    }
    None
}

/// Sets the server's limit of open files to that of the packaged unit; returns `None` where it is unchanged.
fn allow_files(process: u32) -> Option<u64> {
    let files = format!("--nofile={FILES}:{FILES}");
    let status = Command::new("prlimit").args([&format!("--pid={process}"), &files]).status();
    status.ok().filter(std::process::ExitStatus::success).map(|_| FILES)
}

/// Returns an access token of the consortium's founder.
async fn token(ground: &Ground) -> Staged<String> {
    let body = json!({ "email": "operator@example.org", "password": PASSWORD });
    let answer = reqwest::Client::new().post(format!("{}/api/v1/session", ground.stage.address())).json(&body).send();
    let session: serde_json::Value = answer.await?.error_for_status()?.json().await?;
    let token = session["access_token"].as_str().ok_or("a session has an access token")?;
    Ok(token.to_owned())
}
