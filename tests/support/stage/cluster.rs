//! A PostgreSQL cluster for one test, whose write-ahead log is archived, so that it can be recovered to a point in
//! time.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{PATIENCE, TestResult};
use crate::port;

/// A running cluster. Dropping it stops it and removes its files.
#[derive(Debug)]
pub struct PostgresCluster {
    home: TempDir,
    programs: PathBuf,
    port: u16,
    password: String,
}

impl PostgresCluster {
    /// Starts a fresh cluster; `None` where the tests run without PostgreSQL (`UNDERTONE_TEST_DATABASE_URL` is not
    /// set).
    ///
    /// # Errors
    /// When it does not start.
    pub fn start() -> TestResult<Option<Self>> {
        if std::env::var_os("UNDERTONE_TEST_DATABASE_URL").is_none() {
            return Ok(None);
        }
        let home = TempDir::with_prefix("undertone-cluster-")?;
        let password = uuid::Uuid::now_v7().simple().to_string();
        let cluster = Self { home, programs: programs()?, port: port::free()?, password };
        if is_root()? {
            // PostgreSQL does not run as root.
            succeed("chown", Command::new("chown").arg("postgres").arg(cluster.home.path()).output()?)?;
        }
        cluster.shell("umask 077; printf '%s\\n' \"$1\" > password; mkdir archive", &[&cluster.password])?;
        let data = cluster.data().display().to_string();
        let user = ["-U", "undertone", "--pwfile=password", "--auth=scram-sha-256", "--encoding=UTF8"];
        cluster.run("initdb", &[&["-D", &data, "--locale=C.UTF-8", "--no-sync"][..], &user[..]].concat())?;
        cluster.configure()?;
        cluster.control("start")?;
        Ok(Some(cluster))
    }

    /// Returns the address of its server for an administrator.
    pub fn address(&self) -> String {
        format!("postgres://undertone:{}@127.0.0.1:{}/postgres", self.password, self.port)
    }

    /// Copies the running cluster as the base of later recoveries.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn copy_base(&self) -> TestResult<()> {
        let (base, port) = (self.base().display().to_string(), self.port.to_string());
        self.run("pg_basebackup", &["-h", "127.0.0.1", "-p", &port, "-U", "undertone", "-D", &base, "-c", "fast"])
    }

    /// Creates a restore point with this name.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn mark(&self, name: &str) -> TestResult<()> {
        self.ask(&format!("SELECT pg_create_restore_point('{name}'), pg_switch_wal()")).map(drop)
    }

    /// Discards the present state and recovers the cluster from its base and its archive to a restore point.
    ///
    /// # Errors
    /// When it does not start.
    pub fn recover_to(&self, name: &str) -> TestResult<()> {
        self.control("stop")?;
        let (data, base) = (self.data().display().to_string(), self.base().display().to_string());
        self.shell("rm -rf \"$1\" && cp -a \"$2\" \"$1\" && touch \"$1/recovery.signal\"", &[&data, &base])?;
        let archive = self.archive().display().to_string();
        self.append(&format!(
            "restore_command = 'cp {archive}/%f \"%p\"'\nrecovery_target_name = '{name}'\nrecovery_target_action = 'promote'\n"
        ))?;
        self.control("start")?;
        let deadline = Instant::now() + PATIENCE;
        while self.ask("SELECT pg_is_in_recovery()")?.trim() != "f" {
            if Instant::now() > deadline {
                return Err("the cluster does not end its recovery".into());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    fn configure(&self) -> TestResult<()> {
        let (home, archive) = (self.home.path().display(), self.archive());
        let archive = archive.display();
        self.append(&format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = '{home}'\nfsync = off\nwal_level = replica\n\
             archive_mode = on\narchive_command = 'test ! -f {archive}/%f && cp \"%p\" {archive}/%f'\n",
            self.port
        ))
    }

    fn append(&self, lines: &str) -> TestResult<()> {
        let mut file = OpenOptions::new().append(true).open(self.data().join("postgresql.conf"))?;
        Ok(file.write_all(lines.as_bytes())?)
    }

    fn control(&self, action: &str) -> TestResult<()> {
        let (data, log) = (self.data().display().to_string(), self.home.path().join("log").display().to_string());
        self.run("pg_ctl", &["-D", &data, "-l", &log, "-m", "fast", "-w", "-t", "60", action])
    }

    fn ask(&self, statement: &str) -> TestResult<String> {
        let arguments = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--command", statement];
        let output = Command::new("psql").args(arguments).arg(self.address()).output()?;
        succeed("psql", output)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> TestResult<()> {
        let mut command = self.owner(&self.programs.join(program).display().to_string())?;
        succeed(program, command.args(arguments).output()?).map(drop)
    }

    fn shell(&self, script: &str, arguments: &[&str]) -> TestResult<()> {
        let mut command = self.owner("sh")?;
        succeed("sh", command.args(["-c", script, "sh"]).args(arguments).output()?).map(drop)
    }

    /// Returns a command to run as the user that owns the cluster.
    fn owner(&self, program: &str) -> TestResult<Command> {
        let mut command = if is_root()? {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--", program]);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.home.path()).env("PGPASSWORD", &self.password);
        Ok(command)
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn base(&self) -> PathBuf {
        self.home.path().join("base")
    }

    fn archive(&self) -> PathBuf {
        self.home.path().join("archive")
    }
}

impl Drop for PostgresCluster {
    fn drop(&mut self) {
        // The files of a cluster that did not start are removed with its folder.
        let _ = self.control("stop");
    }
}

/// Returns the folder of the newest PostgreSQL's programs.
fn programs() -> TestResult<PathBuf> {
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|path| path.join("initdb").exists())
        .collect();
    let version = |path: &Path| -> u32 {
        let name = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        name.and_then(|name| name.parse().ok()).unwrap_or_default()
    };
    versions.sort_by_key(|path| version(path));
    versions.pop().ok_or_else(|| "PostgreSQL's programs are not in /usr/lib/postgresql".into())
}

fn is_root() -> TestResult<bool> {
    Ok(succeed("id", Command::new("id").arg("-u").output()?)?.trim() == "0")
}

fn succeed(program: &str, output: Output) -> TestResult<String> {
    let Output { status, stdout, stderr } = output;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&stderr)).into())
}
