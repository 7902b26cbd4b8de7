//! The program `undertone` against a real server and real workers: the guide's commands as they stand there, documents
//! against their schemas, refusals, and sign-ins of each form.

mod guide;
mod local;
mod program;
mod sign_in;

use std::time::Duration;

use boon::{Compiler, Schemas};
use serde_json::{Value, json};
use support::scene;
use support::stage::{PASSWORD, TestConsortium, TestDatabase, TestResult};

use program::TestProgram;

/// The time limit of a small job.
const JOB: Duration = Duration::from_secs(400);

/// Returns a server with four sites whose workers run, and whose budgets admit small jobs.
async fn open_stage() -> TestResult<TestConsortium> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 20.0).await?;
    Ok(stage)
}

/// Returns the mismatch between a document and the schema that the program shows for it.
fn find_mismatch(program: &TestProgram, command: &str, document: &Value) -> TestResult<Option<String>> {
    const AT: &str = "https://undertone.example/schema.json";
    let schema: Value = serde_json::from_str(&program.succeed(&["schema", command], "")?)?;
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.enable_format_assertions();
    compiler.add_resource(AT, schema).map_err(|error| error.to_string())?;
    let schema = compiler.compile(AT, &mut schemas).map_err(|error| format!("{command}: {error:#}"))?;
    Ok(schemas.validate(document, schema).err().map(|error| format!("{error:#}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_a_job_agree_with_their_schemas() -> TestResult<()> {
    let stage = open_stage().await?;
    let program = TestProgram::new()?;
    let mut documents = Vec::new();
    let mut run = |command: &str, arguments: &[&str], input: &str| -> TestResult<Value> {
        let text = program.succeed(&[&[command][..], arguments, &["--json"][..]].concat(), input)?;
        // `watch` prints a document in each line, and the others one.
        let document: Value = match serde_json::from_str(&text) {
            Ok(document) => document,
            Err(_) => serde_json::from_str(text.lines().last().ok_or("no document")?)?,
        };
        documents.push((command.to_owned(), document.clone()));
        Ok(document)
    };
    let password = format!("{PASSWORD}\n");
    run("sign-in", &[&stage.address(), "--email", "operator@example.org"], &password)?;
    let consortia = run("consortia", &[], "")?;
    assert_eq!(consortia[0]["id"], json!(stage.consortium));
    assert_eq!(run("datasets", &["--consortium", "Stage"], "")?.as_array().map(Vec::len), Some(5));
    let job = serde_json::to_string(&scene::small_job(&stage, 2, 300).await?.job())?;
    let plan = run("plan", &["-"], &job)?;
    assert_eq!((&plan["admitted"], &plan["expected_errors"]), (&json!(true), &json!([])));
    let id = run("propose", &["-"], &job)?["id"].as_str().ok_or("an id")?.to_owned();
    assert_eq!(run("jobs", &["--state", "proposed"], "")?[0]["id"], json!(id));
    scene::approve(&stage, id.parse()?).await?;
    assert_eq!(run("watch", &[&id], "")?["job"]["state"], json!("finished"));
    let folder = program.folder().to_string_lossy().into_owned();
    let files = run("fetch", &[&id, "--into", &folder], "")?;
    assert!(
        files.as_array().is_some_and(|files| files.iter().all(|file| file["is_downloaded"] == json!(true))),
        "{files}"
    );
    let again = run("fetch", &[&id, "model.safetensors", "--into", &folder], "")?;
    assert_eq!(again[0]["is_downloaded"], json!(false), "{again}");
    let model = program.folder().join("model.safetensors");
    let verdict = run("verify", &[&id, "--model", &model.to_string_lossy()], "")?;
    let point = |name: &str| {
        verdict["points"]
            .as_array()
            .and_then(|points| points.iter().find(|point| point["point"] == json!(name)))
            .cloned()
    };
    assert_eq!(point("model").ok_or("a point")?["result"], json!("holds"), "{verdict}");
    assert_eq!(run("sign-out", &[], "")?["is_ended"], json!(true));
    for (command, document) in documents {
        assert_eq!(find_mismatch(&program, &command, &document)?, None, "{command}: {document}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_name_field_budget_and_remedy() -> TestResult<()> {
    let stage = open_stage().await?;
    let program = TestProgram::new()?;
    let signed_out = program.run(&["consortia"], "")?;
    assert!(signed_out.code == Some(1) && signed_out.errors.contains("undertone sign-in URL"), "{signed_out:?}");
    program.succeed(&["sign-in", &stage.address(), "--email", "operator@example.org"], &format!("{PASSWORD}\n"))?;

    let mut job = json!(scene::small_job(&stage, 2, 300).await?.job());
    job["spec"]["private"]["rounds"] = json!(0);
    let invalid = program.run(&["propose", "-"], &job.to_string())?;
    assert!(invalid.code == Some(1) && invalid.errors.contains("validation_failed"), "{invalid:?}");
    assert!(invalid.errors.contains("  spec.private.rounds: "), "{invalid:?}");
    let document = program.run(&["propose", "-", "--json"], &job.to_string())?;
    let problem: Value = serde_json::from_str(&document.errors)?;
    assert_eq!((document.code, &problem["code"]), (Some(1), &json!("validation_failed")));
    assert_eq!(find_mismatch(&program, "problem", &problem)?, None, "{problem}");

    let large = serde_json::to_string(&scene::small_job(&stage, 2000, 300).await?.job())?;
    let plan = program.run(&["plan", "-"], &large)?;
    assert_eq!(plan.code, Some(3), "{plan:?}");
    for part in ["This plan cannot be proposed.", "The nearest plans that fit:", "Rounds: 2000 requested"] {
        assert!(plan.output.contains(part), "{part}\n{}", plan.output);
    }
    let elsewhere = program.run(&["jobs", "--consortium", "Elsewhere"], "")?;
    assert!(elsewhere.code == Some(1) && elsewhere.errors.contains("yours are: Stage"), "{elsewhere:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_of_a_cancelled_job_has_a_negative_answer() -> TestResult<()> {
    let stage = open_stage().await?;
    let program = TestProgram::new()?;
    program.succeed(&["sign-in", &stage.address(), "--email", "operator@example.org"], &format!("{PASSWORD}\n"))?;
    let job = serde_json::to_string(&scene::small_job(&stage, 2, 300).await?.job())?;
    let id = program.succeed(&["propose", "-"], &job)?.lines().next().ok_or("an id")?.to_owned();
    let mut watching = program.start(&["watch", &id])?;
    stage.operator.cancel(id.parse()?).await?;
    let status = tokio::task::spawn_blocking(move || watching.wait()).await??;
    assert_eq!(status.code(), Some(3));
    let missing = program.run(&["fetch", &id], "")?;
    assert!(missing.code == Some(1) && missing.errors.contains("has no files"), "{missing:?}");
    let uncertified = program.run(&["verify", &id], "")?;
    assert!(uncertified.code == Some(1) && uncertified.errors.contains("wrong_state"), "{uncertified:?}");
    Ok(())
}
