//! A consortium on stage: a real server, a real worker at each site, founded by the documented ways only — the printed
//! link, REST, the worker's command line. What a scenario then does with it is the scenario's.

mod cluster;
mod corpus;
mod database;
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
use undertone_api::job::{Job, State};
use undertone_api::member::NewMember;
use undertone_api::organization::{NewInvitation, Purpose};

use crate::client::Client;
use crate::process::Process;
use crate::{port, workspace};

pub use cluster::Cluster;
pub use corpus::Corpus;
pub use database::Database;
pub use log::{LABELS, QueryLog, truth};
pub use plan::{Plan, Rounds};
pub use replica::Replica;
pub use site::{Holding, Site};

/// How a scenario ends.
pub type Staged<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Everybody's password.
pub const PASSWORD: &str = "correct horse battery";

/// How long anything but a job may take. Generous, because tests share their machine.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// A server with its consortium and sites.
#[derive(Debug)]
pub struct Stage {
    server: Option<Process>,
    http: u16,
    grpc: u16,
    /// Whether the server speaks TLS.
    secure: bool,
    environment: Vec<(String, String)>,
    /// Founder, operator and consortium admin; the first site is of their organization.
    pub operator: Client,
    /// The consortium.
    pub consortium: ConsortiumId,
    /// The sites; the first is the founder's.
    pub sites: Vec<Site>,
    // Dropped last: what the processes write to.
    database: Database,
    folder: TempDir,
}

impl Stage {
    /// A fresh server on `database` that nobody has come to yet, and the link it printed for its operator.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn vacant(database: Database) -> Staged<(Self, String)> {
        Self::vacant_with(database, &[])
    }

    /// As [`Self::vacant`], with variables of the server's environment.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn vacant_with(database: Database, environment: &[(&str, &str)]) -> Staged<(Self, String)> {
        let folder = TempDir::with_prefix("undertone-stage-")?;
        let (http, grpc) = (port::free()?, port::free()?);
        let secure = environment.contains(&("UNDERTONE_TLS__MODE", "on"));
        let mut stage = Self {
            folder,
            database,
            http,
            grpc,
            environment: environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            server: None,
            secure,
            operator: Client::new(format!("{}://127.0.0.1:{http}", if secure { "https" } else { "http" })),
            consortium: ConsortiumId(uuid::Uuid::nil()),
            sites: Vec::new(),
        };
        stage.start_server()?;
        // The standard output is no terminal: it names the file that holds the link.
        let line = stage.server()?.wait_for("operator-link", PATIENCE)?;
        let path = line.split_whitespace().find(|word| word.ends_with("operator-link")).unwrap_or_default();
        let link = std::fs::read_to_string(path)?.trim().to_owned();
        Ok((stage, link))
    }

    /// A fresh server on `database` and a consortium of the organizations
    /// named, each with an enrolled worker that is not running yet.
    ///
    /// # Errors
    /// Whatever does not work as documented.
    pub async fn set(database: Database, organizations: &[&str]) -> Staged<Self> {
        Self::set_with(database, organizations, &[]).await
    }

    /// As [`Self::set`], with variables of the server's environment.
    ///
    /// # Errors
    /// Whatever does not work as documented.
    pub async fn set_with(database: Database, organizations: &[&str], environment: &[(&str, &str)]) -> Staged<Self> {
        let [first, others @ ..] = organizations else { return Err("a consortium needs an organization".into()) };
        let (mut stage, link) = Self::vacant_with(database, environment)?;
        let stranger = stage.operator.clone();
        stage.operator = stranger.accept(&link, &person("operator", None)).await?;
        let founded = NewConsortium {
            name: "Stage".to_owned(),
            description: String::new(),
            organization: None,
            organization_name: Some((*first).to_owned()),
        };
        stage.consortium = stage.operator.found(&founded).await?.id;
        let mut clients = vec![((*first).to_owned(), stage.operator.clone())];
        for name in others {
            let purpose = Purpose::Organization { consortium: stage.consortium };
            let invitation = NewInvitation { purpose, label: (*name).to_owned() };
            let link = stage.operator.invite(&invitation).await?.link.ok_or("a new invitation shows its link")?;
            let email = name.to_lowercase().replace(' ', "-");
            clients.push(((*name).to_owned(), stranger.accept(&link, &person(&email, Some(name))).await?));
        }
        let known = stage.operator.organizations(stage.consortium).await?.items;
        for (name, client) in clients {
            let organization = known.iter().find(|organization| organization.name == name);
            let organization = organization.ok_or("an organization that joined is listed")?.id;
            let folder = stage.folder.path().join(name.to_lowercase().replace(' ', "-"));
            let token = client.enrolment(organization, "worker").await?.token;
            stage.sites.push(Site::enrol(&name, organization, client, folder, &token)?);
        }
        Ok(stage)
    }

    /// Somebody who may answer questions and nothing else, invited and come.
    ///
    /// # Errors
    /// When the invitation is not taken.
    pub async fn annotator(&self, name: &str) -> Staged<Client> {
        let purpose = Purpose::Annotator { consortium: self.consortium };
        let invitation = NewInvitation { purpose, label: name.to_owned() };
        let link = self.operator.invite(&invitation).await?.link.ok_or("a new invitation shows its link")?;
        Ok(Client::new(self.address()).accept(&link, &person(name, None)).await?)
    }

    /// The address of REST and dashboard.
    pub fn address(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.secure { "https" } else { "http" }, self.http)
    }

    /// The address of the workers' gateway.
    pub fn gateway(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.grpc).into()
    }

    /// Where the server keeps its data.
    pub fn server_folder(&self) -> PathBuf {
        self.folder.path().join("server")
    }

    /// The running server.
    ///
    /// # Errors
    /// When it was killed.
    pub fn server(&self) -> Staged<&Process> {
        self.server.as_ref().ok_or_else(|| "the server is not running".into())
    }

    /// Starts the server, again on the same ports, database and data.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_server(&mut self) -> Staged<()> {
        let server = Process::start("undertone-server", self.server_command()?.arg("serve"))?;
        server.wait_for("serving", PATIENCE)?;
        self.server = Some(server);
        Ok(())
    }

    /// Adds variables to the server's environment, from its next start on.
    pub fn configure(&mut self, environment: Vec<(&'static str, String)>) {
        self.environment.extend(environment.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }

    /// The server's program with its configuration, for one command.
    ///
    /// # Errors
    /// When it was not built.
    pub fn server_command(&self) -> Staged<Command> {
        let mut command = Command::new(workspace::program("undertone-server")?);
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

    /// Stops the server as an administrator does, and gives what it ended with.
    ///
    /// # Errors
    /// When it is not running, or does not end within `within`.
    pub fn stop_server(&mut self, within: Duration) -> Staged<ExitStatus> {
        let mut server = self.server.take().ok_or("the server is not running")?;
        server.terminate()?;
        Ok(server.wait(within)?)
    }

    /// Returns the server's database.
    pub const fn database(&self) -> &Database {
        &self.database
    }

    /// Puts another database in the place of the server's, which must not run.
    pub fn replace_database(&mut self, database: Database) {
        self.database = database;
    }

    /// Kills the server as a power cut does.
    pub fn kill_server(&mut self) {
        self.server = None;
    }

    /// Starts every site's worker and waits until all their datasets are registered.
    ///
    /// # Errors
    /// When a dataset does not appear.
    pub async fn open(&mut self) -> Staged<()> {
        for site in &mut self.sites {
            site.start(&[])?;
        }
        let wanted: usize = self.sites.iter().map(|site| site.holdings.len()).sum();
        let deadline = Instant::now() + PATIENCE;
        while self.datasets().await?.len() < wanted {
            if Instant::now() > deadline {
                let said: Vec<String> = self.sites.iter().map(Site::said).collect();
                return Err(format!("not all datasets were registered; the workers said:\n{}", said.join("\n")).into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// All datasets.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn datasets(&self) -> Staged<Vec<Dataset>> {
        Ok(self.operator.datasets(self.consortium).await?.items)
    }

    /// The dataset with this name.
    ///
    /// # Errors
    /// When there is none.
    pub async fn dataset(&self, name: &str) -> Staged<Dataset> {
        let all = self.datasets().await?;
        all.into_iter().find(|dataset| dataset.name == name).ok_or_else(|| format!("no dataset {name}").into())
    }

    /// Waits until the job satisfies `enough`, or is over.
    ///
    /// # Errors
    /// When it is over, or the time is, before.
    pub async fn wait_until(
        &self,
        job: undertone_api::id::JobId,
        within: Duration,
        enough: impl Fn(&Job) -> bool,
    ) -> Staged<Job> {
        let deadline = Instant::now() + within;
        loop {
            let now = self.operator.job(job).await?;
            if enough(&now) {
                return Ok(now);
            }
            if now.summary.state.is_over() || Instant::now() > deadline {
                let said: Vec<String> = self.sites.iter().map(Site::said).collect();
                let server = self.server.as_ref().map(Process::said).unwrap_or_default();
                return Err(format!(
                    "the job is {:?} ({:?}), {} of {} rounds; the server said:\n{server}\nthe workers said:\n{}",
                    now.summary.state,
                    now.reason,
                    now.summary.rounds_done,
                    now.summary.rounds,
                    said.join("\n")
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
    pub async fn finish(&self, job: undertone_api::id::JobId, within: Duration) -> Staged<Job> {
        self.wait_until(job, within, |job| job.summary.state == State::Finished).await
    }
}

fn person(name: &str, organization: Option<&str>) -> NewMember {
    NewMember {
        name: name.to_owned(),
        email: format!("{name}@example.org"),
        password: PASSWORD.to_owned(),
        organization: organization.map(ToOwned::to_owned),
    }
}
