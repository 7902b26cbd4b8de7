//! Ten tasks of people at the dashboard of `make demo`, at desktop and phone width: steps, seconds, scrolled distance and
//! dead ends. Each task begins on the overview, signed in, and finds its way by the texts of links, buttons and fields
//! alone. Seconds are those of a script: they count the pages that load, not the person who reads.

mod scripts;
mod walk;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use support::browser::{EmulatedScreen, TestBrowser};
use support::process::TestProcess;
use support::stage::TestResult;
use support::workspace;
use tempfile::TempDir;

use crate::report::{Outcome, Report};
use walk::{TaskCost, TaskWalk};

/// The time limit of the demonstration's jobs.
const PATIENCE: Duration = Duration::from_mins(20);
/// A demonstration whose jobs have ended.
struct Demo {
    address: String,
    /// Its folder, with the keys of the stewards.
    folder: PathBuf,
}

/// A task: its name, and the account that has it.
#[derive(Clone, Copy)]
struct Task {
    name: &'static str,
    account: usize,
}

/// The place of each account on the sign-in page.
const FIRST: usize = 0;
const SECOND: usize = 1;

const TASKS: [Task; 10] = [
    Task { name: "understand", account: FIRST },
    Task { name: "launch", account: FIRST },
    Task { name: "approve", account: SECOND },
    Task { name: "budget", account: SECOND },
    Task { name: "verify a certificate", account: SECOND },
    Task { name: "invite", account: FIRST },
    Task { name: "enrol", account: SECOND },
    Task { name: "answer", account: FIRST },
    Task { name: "transcribe", account: SECOND },
    Task { name: "use a model", account: FIRST },
];

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(report)).map_err(|error| -> Box<dyn std::error::Error> { error })
}

async fn measure(report: &mut Report) -> TestResult<()> {
    // A demonstration that runs already, to try a task again without its jobs.
    let (demo, _running) = if let Ok(address) = std::env::var("UNDERTONE_TASKS_ADDRESS") {
        (Demo { address, folder: std::env::var("UNDERTONE_TASKS_FOLDER")?.into() }, None)
    } else {
        let (demo, running) = start_demo()?;
        (demo, Some(running))
    };
    let only = std::env::var("UNDERTONE_TASKS_ONLY").ok();
    for screen in [EmulatedScreen::Desktop, EmulatedScreen::Phone] {
        for task in TASKS.iter().filter(|task| only.as_deref().is_none_or(|only| only == task.name)) {
            let browser = TestBrowser::open(screen).await?;
            let organization = enter(&browser, &demo.address, task.account).await?;
            let mut walk = TaskWalk::begin(&browser);
            let outcome = perform(task.name, (screen, &organization), &demo, &browser, &mut walk).await;
            let (cost, problem) = match outcome {
                Ok(()) => (walk.finish(), None),
                Err(error) => {
                    (TaskCost { dead_ends: walk.cost().dead_ends.max(1), ..walk.finish() }, Some(describe(&*error)))
                }
            };
            let height = browser.run("return innerHeight", Vec::new()).await?.as_f64().unwrap_or(1.0);
            tell(
                report,
                json!({
                    "task": task.name,
                    "screen": if screen == EmulatedScreen::Desktop { "desktop" } else { "phone" },
                    "steps": cost.steps,
                    "terminal_commands": cost.commands,
                    "seconds": cost.seconds,
                    "scrolled_px": cost.scrolled,
                    "scrolled_screens": cost.scrolled as f64 / height,
                    "dead_ends": cost.dead_ends,
                    "problem": problem,
                }),
            )?;
        }
    }
    Ok(())
}

/// Returns an error with its causes.
fn describe(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn tell(report: &mut Report, line: serde_json::Value) -> TestResult<()> {
    report.line(line).map_err(|error| error.to_string().into())
}

/// Starts the demonstration, and waits until its jobs have ended.
fn start_demo() -> TestResult<(Demo, (TestProcess, TempDir))> {
    let folder = TempDir::new()?;
    let own = folder.path().join("demo");
    let mut command = Command::new(workspace::program("undertone-demo")?);
    command.arg("--dir").arg(&own).args(["--port", "0"]);
    command.env("UNDERTONE_DIST", workspace::root().join("app/dist"));
    let demo = TestProcess::start("undertone-demo", &mut command)?;
    let line = demo.wait_for("Undertone is at ", PATIENCE)?;
    let address = line.split_whitespace().last().ok_or("an address")?.to_owned();
    demo.wait_for("keeps serving", PATIENCE)?;
    Ok((Demo { address, folder: own }, (demo, folder)))
}

/// Signs in by the button of an account, and waits for the overview. Returns the name of its organization.
async fn enter(browser: &TestBrowser, address: &str, account: usize) -> TestResult<String> {
    browser.goto(&format!("{address}/sign-in")).await?;
    let button = format!(".offered li:nth-child({}) button", account + 1);
    let organization = browser.text(&button).await?.replace("Enter as ", "");
    browser.click(&button).await?;
    browser.see("h1", "Demo consortium").await?;
    // Its parts wait for their script.
    browser.see(".connection", "Live").await?;
    Ok(organization)
}

/// Performs a task.
async fn perform(
    task: &str,
    (screen, organization): (EmulatedScreen, &str),
    demo: &Demo,
    browser: &TestBrowser,
    walk: &mut TaskWalk<'_>,
) -> TestResult<()> {
    let (title, worker) = match screen {
        EmulatedScreen::Desktop => ("A job from a desk", "ward at the desk"),
        EmulatedScreen::Phone => ("A job from a phone", "ward on the phone"),
    };
    match task {
        "understand" => scripts::understand(walk).await,
        "launch" => scripts::launch(walk, title).await,
        "approve" => scripts::approve(walk, browser, (&demo.folder, organization), title).await,
        "budget" => scripts::raise_budget(walk).await,
        "verify a certificate" => scripts::verify(walk).await,
        "invite" => scripts::invite(walk).await,
        "enrol" => scripts::enrol(walk, organization, worker).await,
        "answer" => scripts::answer(walk).await,
        "transcribe" => scripts::transcribe(walk).await,
        _ => scripts::use_model(walk).await,
    }
}
