//! A test consortium: a real server and a real worker at each site, set up only in documented ways: the printed link,
//! REST, the worker's command line. Scenarios build on it.

mod cluster;
mod corpus;
mod database;
mod launch;
mod log;
mod plan;
mod replica;
mod site;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use undertone_api::consortium::NewConsortium;
use undertone_api::dataset::Dataset;
use undertone_api::id::ConsortiumId;
use undertone_api::job::{Job, JobState};
use undertone_api::member::NewMember;
use undertone_api::organization::{InvitationPurpose, NewInvitation};

use crate::client::TestClient;
use crate::process::TestProcess;
use crate::{port, workspace};

pub use cluster::PostgresCluster;
pub use corpus::SpeechCorpus;
pub use database::TestDatabase;
pub use launch::ServerLaunch;
pub use log::{LABELS, QueryLog, truth};
pub use plan::{ArmRounds, JobPlan};
pub use replica::ServerReplica;
pub use site::{SiteDataset, TestSite};

/// The result of a scenario.
pub type TestResult<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The password of every member.
pub const PASSWORD: &str = "correct horse battery";

/// The time limit of everything except a job. Generous, because tests share their machine.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// A server with its consortium and sites.
#[derive(Debug)]
pub struct TestConsortium {
    server: Option<TestProcess>,
    http: u16,
    grpc: u16,
    /// Whether the server speaks TLS.
    secure: bool,
    environment: Vec<(String, String)>,
    launch: ServerLaunch,
    /// Founder, operator and consortium admin; the first site belongs to their organization.
    pub operator: TestClient,
    /// The consortium.
    pub consortium: ConsortiumId,
    /// The sites; the first is the founder's.
    pub sites: Vec<TestSite>,
    // Dropped last, because the processes write to them.
    database: TestDatabase,
    folder: TempDir,
}

impl TestConsortium {
    /// Starts a fresh server on `database` without members; returns it with its operator's link.
    ///
    /// # Errors
    /// When it does not start.
    pub fn vacant(database: TestDatabase) -> TestResult<(Self, String)> {
        Self::vacant_with(database, &[])
    }

    /// Starts a server as [`Self::vacant`], with variables of the server's environment.
    ///
    /// # Errors
    /// When it does not start.
    pub fn vacant_with(database: TestDatabase, environment: &[(&str, &str)]) -> TestResult<(Self, String)> {
        Self::vacant_by(ServerLaunch::default(), database, environment)
    }

    /// As [`Self::vacant_with`], by a program or command of the caller's choice.
    fn vacant_by(
        launch: ServerLaunch,
        database: TestDatabase,
        environment: &[(&str, &str)],
    ) -> TestResult<(Self, String)> {
        let folder = TempDir::with_prefix("undertone-stage-")?;
        let (http, grpc) = (port::free()?, port::free()?);
        let secure = environment.contains(&("UNDERTONE_TLS__MODE", "on"));
        let mut stage = Self {
            folder,
            database,
            http,
            grpc,
            launch,
            environment: environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            server: None,
            secure,
            operator: TestClient::new(format!("{}://127.0.0.1:{http}", if secure { "https" } else { "http" })),
            consortium: ConsortiumId(uuid::Uuid::nil()),
            sites: Vec::new(),
        };
        stage.start_server()?;
        // The standard output is no terminal: it names the file that holds the link. Older programs, which may be measured, print it.
        let line = stage.server()?.wait_for_any(&["operator-link", "/accept/"], PATIENCE)?;
        let printed = line.split_whitespace().find(|word| word.contains("/accept/"));
        let path = line.split_whitespace().find(|word| word.ends_with("operator-link")).unwrap_or_default();
        let link = match printed {
            Some(link) => link.to_owned(),
            None => std::fs::read_to_string(path)?.trim().to_owned(),
        };
        Ok((stage, link))
    }

    /// Starts a fresh server on `database` and creates a consortium of these organizations, each with an enrolled
    /// worker that is not running yet.
    ///
    /// # Errors
    /// Any step that does not work as documented.
    pub async fn set(database: TestDatabase, organizations: &[&str]) -> TestResult<Self> {
        Self::set_with(database, organizations, &[]).await
    }

    /// Sets up a consortium as [`Self::set`], with variables of the server's environment.
    ///
    /// # Errors
    /// Any step that does not work as documented.
    pub async fn set_with(
        database: TestDatabase,
        organizations: &[&str],
        environment: &[(&str, &str)],
    ) -> TestResult<Self> {
        Self::set_by(ServerLaunch::default(), database, organizations, environment).await
    }

    /// As [`Self::set_with`], by a program or command of the caller's choice.
    ///
    /// # Errors
    /// Whatever does not work as documented.
    pub async fn set_by(
        launch: ServerLaunch,
        database: TestDatabase,
        organizations: &[&str],
        environment: &[(&str, &str)],
    ) -> TestResult<Self> {
        let [first, others @ ..] = organizations else { return Err("a consortium needs an organization".into()) };
        let (mut stage, link) = Self::vacant_by(launch, database, environment)?;
        let stranger = stage.operator.clone();
        stage.operator = stranger.accept(&link, &person("operator", None)).await?;
        let founded = NewConsortium {
            name: "Stage".to_owned(),
            description: String::new(),
            organization: None,
            organization_name: Some((*first).to_owned()),
        };
        stage.consortium = stage.operator.create_consortium(&founded).await?.id;
        let mut clients = vec![((*first).to_owned(), stage.operator.clone())];
        for name in others {
            let purpose = InvitationPurpose::Organization { consortium: stage.consortium };
            let invitation = NewInvitation { purpose, label: (*name).to_owned() };
            let link = stage.operator.invite(&invitation).await?.link.ok_or("a new invitation shows its link")?;
            let email = name.to_lowercase().replace(' ', "-");
            clients.push(((*name).to_owned(), stranger.accept(&link, &person(&email, Some(name))).await?));
        }
        let organizations = stage.operator.organizations(stage.consortium).await?.items;
        for (name, client) in clients {
            let organization = organizations.iter().find(|organization| organization.name == name);
            let organization = organization.ok_or("an organization that joined is listed")?.id;
            let folder = stage.folder.path().join(name.to_lowercase().replace(' ', "-"));
            let token = client.enrolment(organization, "worker").await?.token;
            stage.sites.push(TestSite::enrol(&name, organization, client, folder, &token)?);
        }
        Ok(stage)
    }

    /// Invites a member who may only answer questions, and returns their client.
    ///
    /// # Errors
    /// When the invitation cannot be accepted.
    pub async fn annotator(&self, name: &str) -> TestResult<TestClient> {
        let purpose = InvitationPurpose::Annotator { consortium: self.consortium };
        let invitation = NewInvitation { purpose, label: name.to_owned() };
        let link = self.operator.invite(&invitation).await?.link.ok_or("a new invitation shows its link")?;
        Ok(TestClient::new(self.address()).accept(&link, &person(name, None)).await?)
    }

    /// Returns the address of REST and dashboard.
    pub fn address(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.secure { "https" } else { "http" }, self.http)
    }

    /// Returns the address of the workers' gateway.
    pub fn gateway(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.grpc).into()
    }

    /// Returns the folder of the server's data.
    pub fn server_folder(&self) -> PathBuf {
        self.folder.path().join("server")
    }

    /// Returns the running server.
    ///
    /// # Errors
    /// When it was killed.
    pub fn server(&self) -> TestResult<&TestProcess> {
        self.server.as_ref().ok_or_else(|| "the server is not running".into())
    }

    /// Starts the server, again on the same ports, database and data.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_server(&mut self) -> TestResult<()> {
        let server = TestProcess::start("undertone-server", self.server_command()?.arg("serve"))?;
        server.wait_for("serving", PATIENCE)?;
        self.server = Some(server);
        Ok(())
    }

    /// Adds variables to the server's environment, from its next start on.
    pub fn configure(&mut self, environment: Vec<(&'static str, String)>) {
        self.environment.extend(environment.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }

    /// Returns the server's program with its configuration, for one command.
    ///
    /// # Errors
    /// When it was not built.
    pub fn server_command(&self) -> TestResult<Command> {
        let mut command = self.launch.command()?;
        command
            .env("UNDERTONE_HTTP", format!("127.0.0.1:{}", self.http))
            .env("UNDERTONE_GRPC", format!("127.0.0.1:{}", self.grpc))
            .env("UNDERTONE_DATA_DIR", self.server_folder())
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(url) = self.database.url() {
            command.env("UNDERTONE_DATABASE_URL", url);
        }
        let dist: PathBuf = workspace::root().join("app/dist");
        if dist.is_dir() {
            command.env("UNDERTONE_DIST", dist);
        }
        Ok(command)
    }

    /// Stops the server with SIGTERM, and returns its exit status.
    ///
    /// # Errors
    /// When it is not running, or does not end within `within`.
    pub fn stop_server(&mut self, within: Duration) -> TestResult<ExitStatus> {
        let mut server = self.server.take().ok_or("the server is not running")?;
        server.terminate()?;
        Ok(server.wait(within)?)
    }

    /// Returns the server's database.
    pub const fn database(&self) -> &TestDatabase {
        &self.database
    }

    /// Replaces the database of the server, which must not run.
    pub fn replace_database(&mut self, database: TestDatabase) {
        self.database = database;
    }

    /// Kills the server as in a power failure.
    pub fn kill_server(&mut self) {
        self.server = None;
    }

    /// Starts every site's worker and waits until all their datasets are registered.
    ///
    /// # Errors
    /// When a dataset does not appear.
    pub async fn open(&mut self) -> TestResult<()> {
        for site in &mut self.sites {
            site.start(&[])?;
        }
        let expected: usize = self.sites.iter().map(|site| site.holdings.len()).sum();
        let deadline = Instant::now() + PATIENCE;
        while self.datasets().await?.len() < expected {
            if Instant::now() > deadline {
                let outputs: Vec<String> = self.sites.iter().map(TestSite::output).collect();
                return Err(
                    format!("not all datasets were registered; the workers said:\n{}", outputs.join("\n")).into()
                );
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Returns all datasets.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn datasets(&self) -> TestResult<Vec<Dataset>> {
        Ok(self.operator.datasets(self.consortium).await?.items)
    }

    /// Returns the dataset with this name.
    ///
    /// # Errors
    /// When there is none.
    pub async fn dataset(&self, name: &str) -> TestResult<Dataset> {
        let all = self.datasets().await?;
        all.into_iter().find(|dataset| dataset.name == name).ok_or_else(|| format!("no dataset {name}").into())
    }

    /// Waits until the job satisfies `enough`.
    ///
    /// # Errors
    /// When the job or the time ends before.
    pub async fn wait_until(
        &self,
        job: undertone_api::id::JobId,
        within: Duration,
        enough: impl Fn(&Job) -> bool,
    ) -> TestResult<Job> {
        let deadline = Instant::now() + within;
        loop {
            let now = self.operator.job(job).await?;
            if enough(&now) {
                return Ok(now);
            }
            if now.summary.state.is_over() || Instant::now() > deadline {
                let outputs: Vec<String> = self.sites.iter().map(TestSite::output).collect();
                let server = self.server.as_ref().map(TestProcess::output).unwrap_or_default();
                return Err(format!(
                    "the job is {:?} ({:?}), {} of {} rounds; the server said:\n{server}\nthe workers said:\n{}",
                    now.summary.state,
                    now.reason,
                    now.summary.rounds_done,
                    now.summary.rounds,
                    outputs.join("\n")
                )
                .into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits for the job to finish.
    ///
    /// # Errors
    /// When it ends otherwise, or not in time.
    pub async fn finish(&self, job: undertone_api::id::JobId, within: Duration) -> TestResult<Job> {
        self.wait_until(job, within, |job| job.summary.state == JobState::Finished).await
    }
}

/// Waits until the condition holds, and describes it as `what` otherwise.
///
/// # Errors
/// When it does not hold within [`PATIENCE`].
pub async fn wait_until_so(what: &str, is_so: impl Fn() -> bool) -> TestResult<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > deadline {
            return Err(format!("within {} seconds it was not so: {what}", PATIENCE.as_secs()).into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

fn person(name: &str, organization: Option<&str>) -> NewMember {
    NewMember {
        name: name.to_owned(),
        email: format!("{name}@example.org"),
        password: PASSWORD.to_owned(),
        organization: organization.map(ToOwned::to_owned),
    }
}
