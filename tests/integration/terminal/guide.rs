//! The guide: its commands are run as they stand there.

use std::fs;

use support::scene;
use support::stage::{PASSWORD, TestResult};
use support::workspace;

use super::program::{TestProgram, run_with_input};
use super::{JOB, open_stage};
use crate::documentation::extract_fenced;

/// The guide.
const GUIDE: &str = "docs/src/how-to/use-the-command-line.md";
/// The address and the member of the guide.
const ADDRESS: &str = "https://undertone.example.org";
const MEMBER: &str = "ada@example.org";

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_the_guide_run_a_job() -> TestResult<()> {
    let stage = open_stage().await?;
    let program = TestProgram::new()?;
    let job = serde_json::to_string(&scene::small_job(&stage, 2, 300).await?.job())?;
    fs::write(program.folder().join("job.json"), job)?;
    let guide = fs::read_to_string(workspace::root().join(GUIDE))?;
    let blocks: Vec<String> =
        extract_fenced(&guide, "sh").into_iter().filter(|block| !block.starts_with("make ")).collect();
    let (mut outputs, mut approved) = (Vec::new(), false);
    for block in &blocks {
        let block = block.replace(ADDRESS, &stage.address()).replace(MEMBER, "operator@example.org");
        // A reader keeps one shell open: its variables go on to the next block.
        let script = format!("[ ! -f variables ] || . ./variables\n{block}\necho \"JOB=${{JOB:-}}\" >variables\n");
        let mut shell = program.command("sh")?;
        let run = run_with_input(shell.args(["-euc", script.as_str()]), &format!("{PASSWORD}\n"))?;
        assert_eq!(run.code, Some(0), "{block}\n{run:?}");
        outputs.push(run.output);
        let variables = fs::read_to_string(program.folder().join("variables"))?;
        if let (Some(id), false) = (variables.trim().strip_prefix("JOB=").filter(|id| !id.is_empty()), approved) {
            scene::approve(&stage, id.parse()?).await?;
            approved = true;
        }
    }
    let outputs = outputs.join("\n");
    for part in [
        "Signed in to ",
        "Stage",
        "The budgets admit this plan.",
        "finished, round 2 of 2",
        "No check failed.",
        "Signed out of ",
    ] {
        assert!(outputs.contains(part), "{part}\n{outputs}");
    }
    assert!(blocks.len() >= 8, "only {} blocks: the test is blind", blocks.len());
    assert!(program.folder().join("results/model.safetensors").exists());
    assert!(!program.folder().join("config/undertone/sign-in.json").exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn dossier_of_a_finished_job_is_complete() -> TestResult<()> {
    let stage = open_stage().await?;
    let job = scene::start_small_job(&stage, 2).await?;
    stage.finish(job, JOB).await?;
    // The certificate is made right after the end; a request waits for it.
    stage.operator.certificate(job).await?;
    let folder = tempfile::tempdir()?;
    let page = folder.path().join("dossier.html");
    let id = job.to_string();
    let run = run_with_input(stage.server_command()?.args(["dossier", id.as_str(), "--output"]).arg(&page), "")?;
    assert_eq!(run.code, Some(0), "{run:?}");
    let page = fs::read_to_string(page)?;
    let json = run_with_input(stage.server_command()?.args(["dossier", id.as_str(), "--json"]), "")?;
    let foreign = "00".repeat(32);
    let run =
        run_with_input(stage.server_command()?.args(["dossier", id.as_str(), "--site-key", foreign.as_str()]), "")?;
    assert_eq!(run.code, Some(3), "a site has none of the given keys: {run:?}");
    let dossier: serde_json::Value = serde_json::from_str(&json.output)?;
    let items = dossier["items"].as_array().ok_or("items")?;
    assert_eq!(items.len(), 12);
    for item in items {
        let word = item["id"].as_str().ok_or("an id")?;
        assert!(page.contains(&format!("<article id=\"{word}\">")), "{word}");
        assert!(item["proofs"].as_array().is_some_and(|proofs| !proofs.is_empty()), "{word}");
    }
    let guide = fs::read_to_string(workspace::root().join("docs/src/how-to/approve-egress.md"))?;
    for item in items {
        let row = format!("\n| `{}` | ", item["id"].as_str().ok_or("an id")?);
        assert!(guide.contains(&row), "the guide has no row {row}");
    }
    Ok(())
}
