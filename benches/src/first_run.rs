//! The waiting time of a new user: from one command to a signed-in dashboard with a running job and its first round,
//! and from an invitation to a site connected to its server. The programs are built before and not part of the
//! measurement.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use support::browser::{BrowserError, EmulatedScreen, TestBrowser};
use support::client::TestClient;
use support::process::TestProcess;
use support::stage::{PASSWORD, TestConsortium, TestDatabase, TestResult};
use support::workspace;
use tempfile::TempDir;
use undertone_api::id::JobId;
use undertone_api::job::{Job, JobState};
use undertone_api::member::NewMember;
use undertone_api::organization::{InvitationPurpose, NewInvitation};

use crate::report::{Outcome, Report};

/// The time limit of each step.
const PATIENCE: Duration = Duration::from_mins(10);
/// The polling interval.
const PACE: Duration = Duration::from_millis(20);
/// The number of sites, enrolled one after the other.
const SITES: usize = 5;

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    let measured = runtime.block_on(async {
        demo(report).await?;
        enrol(report).await
    });
    measured.map_err(|error| -> Box<dyn std::error::Error> { error })
}

/// Measures one command in an empty folder, up to the first round.
async fn demo(report: &mut Report) -> TestResult<()> {
    let folder = TempDir::new()?;
    // A user has a browser open already.
    let browser = match TestBrowser::open(EmulatedScreen::Desktop).await {
        Ok(browser) => Some(browser),
        Err(error) => {
            tell(report, json!({ "what": "browser", "left_out": true, "because": error.to_string() }))?;
            None
        }
    };
    let mut command = Command::new(workspace::program("undertone-demo")?);
    command.arg("--dir").arg(folder.path().join("demo")).args(["--port", "0"]);
    command.env("UNDERTONE_DIST", workspace::root().join("app/dist"));
    let began = Instant::now();
    let since = || began.elapsed().as_secs_f64();
    let demo = TestProcess::start("undertone-demo", &mut command)?;
    let address = last_word(&demo.wait_for("Undertone is at ", PATIENCE)?)?;
    let printed = since();
    let person = demo.wait_for("@", PATIENCE)?;
    let words: Vec<&str> = person.split_whitespace().collect();
    let [.., email, password] = words.as_slice() else { return Err("the demo names nobody who may sign in".into()) };
    let client = TestClient::new(&address).sign_in(email, password).await?;
    let signed_in = since();
    let mut dashboard = None;
    if let Some(browser) = &browser {
        sign_in(browser, &address, email, password).await?;
        dashboard = Some(since());
    }
    let page = last_word(&demo.wait_for("the job is proposed and approved: ", PATIENCE)?)?;
    let proposed = since();
    let job: JobId = page.rsplit('/').next().unwrap_or_default().parse().map_err(|_| "the job's address has no id")?;
    until(&client, job, |now| now.summary.state == JobState::Running).await?;
    let running = since();
    let mut display_seconds = None;
    if let Some(browser) = &browser {
        browser.goto(&page).await?;
        browser.see(".job-head .connection", "Live").await?;
        display_seconds = Some(since());
    }
    until(&client, job, |now| now.summary.rounds_done > 0).await?;
    let first_round = since();
    tell(
        report,
        json!({
            "what": "from nothing to a running job", "programs": "built before",
            "profile": if cfg!(debug_assertions) { "dev" } else { "release" },
            "command": "undertone-demo, as `make demo` starts it", "commands": 1,
            "then": ["open the printed address", "sign in with the printed password"],
            "seconds": {
                "address printed": printed, "signed in by REST": signed_in, "signed in in Chromium": dashboard,
                "data prepared, sites enrolled, job approved": proposed, "job running": running,
                "running job shown in Chromium": display_seconds, "first round done": first_round,
            },
        }),
    )
}

async fn sign_in(browser: &TestBrowser, address: &str, email: &str, password: &str) -> Result<(), BrowserError> {
    browser.goto(&format!("{address}/sign-in")).await?;
    browser.fill("input[name=email]", email).await?;
    browser.fill("input[name=password]", password).await?;
    browser.click("main button[type=submit]").await?;
    browser.see(".rail", "Overview").await
}

/// Waits until a job is in the expected state.
async fn until(client: &TestClient, job: JobId, enough: impl Fn(&Job) -> bool) -> TestResult<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = client.job(job).await?;
        if enough(&now) {
            return Ok(());
        }
        if now.summary.state.is_over() || Instant::now() > deadline {
            return Err(
                format!("the demo's job is {}: {}", now.summary.state.label(), now.reason.unwrap_or_default()).into()
            );
        }
        tokio::time::sleep(PACE).await;
    }
}

/// The time at which each step of an enrolment was completed, in seconds since the beginning.
struct EnrolmentTimes {
    invited: f64,
    joined: f64,
    token: f64,
    enrolled: f64,
    connected: f64,
    commands: usize,
}

/// Measures organizations that join a running server, each with its site.
async fn enrol(report: &mut Report) -> TestResult<()> {
    let stage = TestConsortium::set(TestDatabase::Sqlite, &["Library"]).await?;
    let mut sites = Vec::new();
    for number in 1..=SITES {
        sites.push(site(&stage, number).await?);
    }
    let step = |of: fn(&EnrolmentTimes) -> f64| {
        let mut all: Vec<f64> = sites.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        json!({ "median": all.get(all.len() / 2), "best": all.first() })
    };
    tell(
        report,
        json!({
            "what": "from an invitation to a site that the server has heard of", "sites": sites.len(), "programs": "installed before",
            "commands_at_the_site": sites.first().map(|site| site.commands),
            "commands": ["undertone-worker enroll <token>", "undertone-worker run"],
            "forms_in_the_dashboard": ["invite an organization", "join by the link", "make a token for a worker"],
            "seconds": {
                "invited": step(|site| site.invited), "joined and signed in": step(|site| site.joined),
                "token made": step(|site| site.token), "enrolled": step(|site| site.enrolled),
                "listed as online": step(|site| site.connected),
            },
        }),
    )
}

/// Measures one organization and its site, in the order in which people act; forms are replaced by their REST calls.
async fn site(stage: &TestConsortium, number: usize) -> TestResult<EnrolmentTimes> {
    let folder = TempDir::new()?;
    let began = Instant::now();
    let since = || began.elapsed().as_secs_f64();
    let name = format!("Hospital {number}");
    let purpose = InvitationPurpose::Organization { consortium: stage.consortium };
    let invitation = stage.operator.invite(&NewInvitation { purpose, label: name.clone() }).await?;
    let link = invitation.link.ok_or("a new invitation shows its link")?;
    let invited = since();
    let member = NewMember {
        name: "Steward".to_owned(),
        email: format!("steward-{number}@example.org"),
        password: PASSWORD.to_owned(),
        organization: Some(name.clone()),
    };
    let client = TestClient::new(stage.address()).accept(&link, &member).await?;
    let joined = since();
    let organizations = client.organizations(stage.consortium).await?.items;
    let own = organizations
        .iter()
        .find(|organization| organization.name == name)
        .ok_or("an organization that joined is listed")?
        .id;
    let secret = client.enrolment(own, "worker").await?.token;
    let token = since();

    let mut commands = 0;
    let mut at_the_site = |arguments: &[&str]| -> TestResult<Command> {
        commands += 1;
        Ok(worker(folder.path(), arguments)?)
    };
    let enrolling = at_the_site(&["enroll", secret.as_str()])?.output()?;
    if !enrolling.status.success() {
        return Err(format!("the site is not enrolled: {}", String::from_utf8_lossy(&enrolling.stderr)).into());
    }
    let enrolled = since();
    let daemon = TestProcess::start("undertone-worker run", &mut at_the_site(&["run"])?)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let organizations = client.organizations(stage.consortium).await?.items;
        let own = organizations.iter().find(|organization| organization.id == own);
        if own.is_some_and(|own| own.workers.iter().any(|worker| worker.online)) {
            break;
        }
        if Instant::now() > deadline {
            return Err(format!("the server has not heard of the site; its worker said:\n{}", daemon.output()).into());
        }
        tokio::time::sleep(PACE).await;
    }
    Ok(EnrolmentTimes { invited, joined, token, enrolled, connected: since(), commands })
}

/// Returns the worker's program with its site in `folder`.
fn worker(folder: &Path, arguments: &[&str]) -> std::io::Result<Command> {
    let mut command = Command::new(workspace::program("undertone-worker")?);
    command.arg("--site").arg(folder.join("site")).args(arguments);
    Ok(command)
}

fn last_word(line: &str) -> TestResult<String> {
    line.split_whitespace().last().map(ToOwned::to_owned).ok_or_else(|| "the demo says nothing".into())
}

fn tell(report: &mut Report, figures: serde_json::Value) -> TestResult<()> {
    report.line(figures).map_err(|error| error.to_string().into())
}
