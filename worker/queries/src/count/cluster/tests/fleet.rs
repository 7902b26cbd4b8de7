//! The processes of a cluster: this program, started again with its role in the environment. The roles run the same
//! start functions as Ballista's own programs.

use std::env;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::start_server;
use tempfile::TempDir;

const PART: &str = "UNDERTONE_CLUSTER_PART";
const ADDRESS: &str = "UNDERTONE_CLUSTER_PORTS";
const FOLDER: &str = "UNDERTONE_CLUSTER_FOLDER";
/// The full name of the test below.
const AS_PART: &str = concat!(module_path!(), "::part");

/// A scheduler with two executors. All end when this is dropped, and when this program ends.
pub(super) struct TestCluster {
    port: u16,
    _scheduler: ClusterProcess,
    pub(super) executors: Vec<ExecutorProcess>,
}

/// A process that ends when its standard input closes: when this is dropped, or when this program ends in any way.
struct ClusterProcess {
    child: Child,
    _input: ChildStdin,
}

impl ClusterProcess {
    fn start(part: &str, ports: &[u16], folder: &Path) -> Self {
        let (_, name) = AS_PART.split_once("::").expect("it begins with the crate");
        let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        let mut child = Command::new(env::current_exe().expect("this program has a path"))
            .args([name, "--exact", "--ignored", "--nocapture"])
            .envs([(PART, part), (ADDRESS, &ports)])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("this program starts again");
        let input = child.stdin.take().expect("it was asked for");
        Self { child, _input: input }
    }

    fn kill(&mut self) {
        self.child.kill().expect("it is a child of this process");
        self.child.wait().expect("it is a child of this process");
    }
}

impl Drop for ClusterProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An executor, with the folder that it writes to.
pub(super) struct ExecutorProcess {
    process: ClusterProcess,
    folder: TempDir,
}

impl ExecutorProcess {
    /// Returns the number of files that the executor has written and not deleted.
    pub(super) fn files(&self) -> usize {
        fn count_files(folder: &Path) -> usize {
            let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
            entries.flatten().map(|entry| if entry.path().is_dir() { count_files(&entry.path()) } else { 1 }).sum()
        }
        count_files(self.folder.path())
    }

    /// Kills the executor, and deletes its files.
    pub(super) fn destroy(mut self) {
        self.process.kill();
        self.folder.close().expect("its folder is this test's");
    }
}

impl TestCluster {
    /// Starts the processes and waits until both executors have reported to the scheduler.
    pub(super) fn start() -> Self {
        let folder = || TempDir::new().expect("a temporary folder");
        let [port, ports @ ..] = free_ports();
        let scheduler = ClusterProcess::start("scheduler", &[port], Path::new(""));
        let executors = ports.chunks(2).map(|own| {
            let folder = folder();
            ExecutorProcess {
                process: ClusterProcess::start("executor", &[port, own[0], own[1]], folder.path()),
                folder,
            }
        });
        let fleet = Self { port, _scheduler: scheduler, executors: executors.collect() };
        let deadline = Instant::now() + Duration::from_mins(2);
        while !fleet.is_ready() {
            assert!(Instant::now() < deadline, "no cluster within two minutes");
            std::thread::sleep(Duration::from_millis(20));
        }
        fleet
    }

    pub(super) fn scheduler(&self) -> String {
        format!("df://127.0.0.1:{}", self.port)
    }

    /// Returns true once the scheduler has registered all executors.
    fn is_ready(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}

/// Returns five ports that were free a moment ago.
fn free_ports() -> [u16; 5] {
    let listeners = [(); 5].map(|()| TcpListener::bind(("127.0.0.1", 0)).expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("it is bound").port())
}

#[test]
#[ignore = "a process of the cluster, started by the tests beside it"]
fn part() {
    let variable = |name: &str| env::var(name).expect("the tests beside it start this");
    let ports: Vec<u16> = variable(ADDRESS).split(',').map(|port| port.parse().expect("a port")).collect();
    // Errors only, unless RUST_LOG asks for more.
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    // The same stack size as Ballista's own scheduler.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(32 << 20).build();
    let ended = runtime.expect("threads").block_on(async {
        match (variable(PART).as_str(), ports.as_slice()) {
            ("scheduler", [port]) => schedule(*port).await,
            ("executor", [scheduler, data, control]) => execute(*scheduler, *data, *control, variable(FOLDER)).await,
            other => panic!("no part of a cluster: {other:?}"),
        }
    });
    ended.expect("it serves until it is killed");
}

async fn schedule(port: u16) -> Result<(), ballista_core::error::BallistaError> {
    let config = SchedulerConfig {
        bind_port: port,
        external_host: "127.0.0.1".to_owned(),
        task_distribution: TaskDistributionPolicy::RoundRobin,
        min_ready_executors: 2,
        // The scheduler detects a lost executor within seconds instead of minutes.
        executor_timeout_seconds: 5,
        expire_dead_executor_interval_seconds: 1,
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config).await?;
    start_server(cluster, ([127, 0, 0, 1], port).into(), Arc::new(config)).await
}

async fn execute(
    scheduler: u16,
    data: u16,
    control: u16,
    folder: String,
) -> Result<(), ballista_core::error::BallistaError> {
    let config = ExecutorProcessConfig {
        port: data,
        grpc_port: control,
        scheduler_host: "127.0.0.1".to_owned(),
        scheduler_port: scheduler,
        scheduler_connect_timeout_seconds: 60,
        vcores: 2,
        work_dir: Some(folder),
        executor_heartbeat_interval_seconds: 1,
        memory_pool_size: Some(512 << 20),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config)).await
}
