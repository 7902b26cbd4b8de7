//! A server under attack: honest browsers and workers use it as in the load measurement, while one attack after another runs against it
//! from other addresses of this machine, and one from the honest address as well. Everything is on loopback, has a fixed number of
//! callers and a fixed time, and ends by itself. Attackers whose connection was closed come again until the attack ends. They have
//! threads of their own, so that an honest request does not wait behind them before it is sent. These threads have a low priority:
//! attackers elsewhere would not take the processors of the server and of honest callers.
//!
//! The first line tells what is measured: the program, the profile that it was built by, and the limits of the packaged unit, as far as
//! this machine lets a process have them. The second line has the same figures without an attack. Then a line an attack: the 99th
//! percentile of the honest requests, how many of them failed, the highest memory of the server, the processor time of the server and of
//! all callers, and the time from the end of the attack until a new connection has been answered, within a second. That time includes the
//! answer itself, so it is an upper bound of the recovery. `missed` names the targets that were missed; one of them is enough for the
//! measurement to fail.
//!
//! `UNDERTONE_HOSTILE_SERVER` names another program of the server, also an older one, for a comparison: it is set up by calls that all
//! versions have. `UNDERTONE_HOSTILE_ATTACKS` chooses attacks by name, with commas. `UNDERTONE_HOSTILE_DIVISOR` (1) divides every number of callers, `UNDERTONE_HOSTILE_SECONDS` (15) is the time of an
//! attack.

mod attack;
mod confinement;
mod probe;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::client::TestClient;
use support::stage::{ServerLaunch, TestDatabase, TestResult};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;
use undertone_api::member::Role;

use self::attack::{HostileAttack, TargetServer};
use self::confinement::ServerConfinement;
use super::progress::SceneProgress;
use super::record::{RecordSummary, RequestRecord};
use super::usage::ProcessorTime;
use super::{LONGEST_SET_UP, LoadSizes, LoadedConsortium, account, measured_program, one, set_up, tell, usage};
use crate::report::{Outcome, Report};

/// The number of honest browsers, and of honest workers.
const HONEST: usize = 50;
/// The least number of honest callers: a job has four participants.
const FEWEST: usize = 4;
/// The limit of the honest requests' 99th percentile.
const MOST_P99: Duration = Duration::from_secs(1);
/// The limit of the server's memory, MiB.
const MOST_MEMORY: u64 = 1024;
/// The limit of the time until a new connection is answered again.
const MOST_RECOVERY: Duration = Duration::from_secs(10);
/// The nice value of the attackers' threads.
const LOW_PRIORITY: &str = "10";
/// Time between two looks at the server.
const EVERY: Duration = Duration::from_millis(250);

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = Runtime::new()?;
    let attackers = Builder::new_multi_thread().enable_all().on_thread_start(lower_priority).build()?;
    runtime.block_on(measure(report, attackers.handle())).map_err(|error| -> Box<dyn std::error::Error> { error })
}

/// Lowers the priority of the calling thread by the system's command. A failure is printed: the attackers then compete with the server.
fn lower_priority() {
    let lowered = fs::read_link("/proc/thread-self").and_then(|thread| {
        let number = thread.file_name().unwrap_or_default().to_owned();
        Command::new("renice").args(["-n", LOW_PRIORITY, "-p"]).arg(number).stdout(Stdio::null()).status()
    });
    if !lowered.as_ref().is_ok_and(ExitStatus::success) {
        eprintln!("hostile: a thread of the attackers keeps its priority: {lowered:?}");
    }
}

async fn measure(report: &mut Report, attackers: &Handle) -> TestResult<()> {
    let divisor: usize = one("UNDERTONE_HOSTILE_DIVISOR", 1)?;
    let divisor = divisor.max(1);
    let time = Duration::from_secs(one("UNDERTONE_HOSTILE_SECONDS", 15)?);
    let honest = (HONEST / divisor).max(FEWEST);
    let attacks = HostileAttack::ALL.len() as u32;
    // For so long the jobs have rounds.
    let seconds = attacks * (time + 2 * MOST_RECOVERY).as_secs() as u32;
    let sizes = LoadSizes { workers: honest, browsers: honest, seconds };
    let progress = SceneProgress::begin("hostile");
    // Dropped after the server, whose limits it holds.
    let confinement = ServerConfinement::new()?;
    let program = measured_program("UNDERTONE_HOSTILE_SERVER");
    let launch = ServerLaunch { program, wrapper: confinement.wrapper() };
    let path = launch.path()?;
    // The server's own rates are in force: the attacks meet them too.
    let ground = LoadedConsortium::lay(launch, TestDatabase::Sqlite, 1, &[]).await?;
    let process = ground.stage.server()?.id();
    tell(
        report,
        json!({
            "what": "a server under attack", "server": path, "profile": profile_of(&path),
            "limits": confinement.figures(process), "browsers": honest, "workers": honest,
            "divisor": divisor, "seconds": time.as_secs(),
        }),
    )?;
    let record = RequestRecord::default();
    let mut everybody = JoinSet::new();
    let coming = set_up(&ground, sizes, &mut everybody, &record, progress);
    tokio::time::timeout(LONGEST_SET_UP, coming).await.map_err(|_| "the scene was not set up in time")??;
    let mut target = TargetServer::new(&ground, divisor).await?;
    progress.say("the attackers have their accounts");
    everybody.spawn(probe::connect_again_and_again(target.health(), record.clone()));
    let stranger = TestClient::new(ground.address());
    let (email, _) = account(&stranger, &ground.stage.sites[0], "honest".to_owned(), &[Role::Researcher]).await?;
    everybody.spawn(probe::sign_in_again_and_again(target.sessions(), email, record.clone()));
    let mut missed = Vec::new();
    let calm = measure_attack(&mut JoinSet::new(), &target, time, process, &record).await?;
    tell(report, calm.line("none", 0))?;
    let chosen = HostileAttack::choose(&std::env::var("UNDERTONE_HOSTILE_ATTACKS").unwrap_or_default())?;
    for attack in chosen {
        progress.say(format!("{}: {} s", attack.name(), time.as_secs()));
        if attack.needs_sessions() {
            target.sign_in().await?;
        }
        let mut run = attack.begin(&target, divisor, attackers);
        let figures = measure_attack(&mut run, &target, time, process, &record).await;
        let figures = figures.map_err(|error| format!("{}: {error}", attack.name()))?;
        missed.extend(figures.missed().into_iter().map(|name| format!("{} ({name})", attack.name())));
        tell(report, figures.line(attack.name(), attack.callers(divisor)))?;
    }
    everybody.shutdown().await;
    drop(ground);
    drop(confinement);
    if missed.is_empty() { Ok(()) } else { Err(format!("targets were missed: {}", missed.join(", ")).into()) }
}

/// Returns the profile by which a program was built: cargo names the folder by it.
fn profile_of(program: &Path) -> String {
    let folder = program.parent().and_then(Path::file_name).unwrap_or_default();
    folder.to_string_lossy().into_owned()
}

/// What was measured during an attack.
#[derive(Debug)]
struct AttackFigures {
    summary: RecordSummary,
    memory_mib: u64,
    recovery: Option<Duration>,
    /// The processor time of the server and of all callers.
    processors: Value,
}

impl AttackFigures {
    /// Returns the 99th percentile of all honest requests, in seconds.
    fn p99(&self) -> Option<f64> {
        Some(self.summary.latencies()["all"]["p99"].as_f64()? / 1e3)
    }

    /// Returns the kind of request with the highest 99th percentile, and its latency.
    fn slowest(&self) -> Value {
        let kinds = self.summary.kinds().max_by(|a, b| a.1.p99.total_cmp(&b.1.p99));
        kinds.map_or(Value::Null, |(kind, latency)| {
            json!({ "kind": kind, "requests": latency.count, "p99_seconds": latency.p99 / 1e3, "most_seconds": latency.most / 1e3 })
        })
    }

    fn errors(&self) -> u64 {
        self.summary.errors().as_object().map_or(0, |kinds| kinds.values().filter_map(Value::as_u64).sum())
    }

    /// Returns the names of the targets that were missed.
    fn missed(&self) -> Vec<&'static str> {
        let is_fast = self.p99().is_some_and(|p99| p99 <= MOST_P99.as_secs_f64());
        let is_recovered = self.recovery.is_some_and(|recovery| recovery <= MOST_RECOVERY);
        let targets = [
            ("honest_p99_seconds", is_fast),
            ("honest_errors", self.errors() == 0),
            ("memory_mib", self.memory_mib <= MOST_MEMORY),
            ("recovery_seconds", is_recovered),
        ];
        targets.into_iter().filter(|(_, is_met)| !is_met).map(|(name, _)| name).collect()
    }

    fn line(&self, attack: &str, callers: usize) -> Value {
        let sign_ins = self.summary.latency(probe::SIGN_IN);
        let missed = self.missed();
        json!({
            "attack": attack, "callers": callers, "processors": self.processors,
            "honest_requests": self.summary.requests(), "honest_p99_seconds": self.p99(), "honest_errors": self.errors(),
            "first_errors": self.summary.first_errors(), "memory_mib": self.memory_mib, "slowest": self.slowest(),
            "honest_sign_ins": sign_ins.map(|latency| latency.count),
            "honest_sign_in_p99_seconds": sign_ins.map(|latency| latency.p99 / 1e3),
            "recovery_seconds": self.recovery.map(|recovery| recovery.as_secs_f64()),
            "missed": missed, "passed": missed.is_empty(),
        })
    }
}

/// Measures the server until an attack has lasted its time, ends the attack, and returns the figures.
async fn measure_attack(
    attackers: &mut JoinSet<()>,
    target: &TargetServer,
    time: Duration,
    process: u32,
    record: &RequestRecord,
) -> TestResult<AttackFigures> {
    let to_error = |_| "the server's process has ended";
    let before = ProcessorTime::now(&[process]).map_err(to_error)?;
    record.begin();
    let ends = Instant::now() + time;
    let mut memory_mib = 0;
    while Instant::now() < ends {
        memory_mib = memory_mib.max(usage::ProcessMemory::read(process).map_err(to_error)?.resident_mib());
        tokio::time::sleep(EVERY).await;
    }
    let summary = record.end();
    let processors = ProcessorTime::now(&[process]).map_err(to_error)?.since(&before).figures(time.as_secs_f64());
    attackers.shutdown().await;
    let recovery = probe::recovery(&target.health(), 2 * MOST_RECOVERY).await;
    memory_mib = memory_mib.max(usage::ProcessMemory::read(process).map_err(to_error)?.resident_mib());
    Ok(AttackFigures { summary, memory_mib, recovery, processors })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::super::record::RequestRecord;
    use super::AttackFigures;

    fn figures(took: Duration, memory_mib: u64, recovery: Option<u64>) -> AttackFigures {
        let record = RequestRecord::default();
        record.begin();
        record.took("page", took);
        AttackFigures {
            summary: record.end(),
            memory_mib,
            recovery: recovery.map(Duration::from_secs),
            processors: Value::Null,
        }
    }

    #[test]
    fn missed_targets_are_named() {
        assert!(figures(Duration::from_secs(1), 1024, Some(10)).missed().is_empty(), "each at its value");
        let slow = figures(Duration::from_millis(1001), 1025, None);
        assert_eq!(slow.missed(), ["honest_p99_seconds", "memory_mib", "recovery_seconds"]);
        let record = RequestRecord::default();
        record.begin();
        record.failed("page", &"no answer");
        let failed = AttackFigures {
            summary: record.end(),
            memory_mib: 0,
            recovery: Some(Duration::ZERO),
            processors: Value::Null,
        };
        assert_eq!(failed.missed(), ["honest_p99_seconds", "honest_errors"], "nothing was answered");
    }
}
