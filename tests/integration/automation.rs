//! Third-party tools on the REST description: a generated Python client, and thousands of requests of every form that
//! the description permits.
//!
//! `UNDERTONE_CLIENT` names a Python with both tools (`.ci/client.sh`); without it these tests print a note and pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use support::client::TestClient;
use support::stage::{TestConsortium, TestDatabase, TestResult};
use support::workspace;

use support::scene;

/// The scopes of every API key in these tests.
const SCOPES: [&str; 8] = ["read", "jobs", "approvals", "datasets", "questions", "ledger", "models", "consortia"];
/// The number of requests for each operation in a run of the tests; `.ci/client.sh fuzz` makes more.
const EXAMPLES: &str = "16";

/// Returns a Python with the generator and the fuzzer, where there is one.
fn python() -> Option<PathBuf> {
    let executable = std::env::var_os("UNDERTONE_CLIENT").map(PathBuf::from).filter(|path| path.is_file());
    if executable.is_none() {
        println!("UNDERTONE_CLIENT names no Python with the tools (.ci/client.sh makes one): nothing is tried");
    }
    executable
}

async fn key(client: &TestClient) -> TestResult<String> {
    let answer: Value = client.post("/keys", &json!({ "name": "a program", "scopes": SCOPES, "days": 1 })).await?;
    Ok(answer["secret"].as_str().ok_or("the answer that made the key holds it")?.to_owned())
}

/// Returns the output of a successful program.
fn successful_output(name: &str, output: &Output) -> TestResult<String> {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(out.into_owned()) } else { Err(format!("{name} failed:\n{out}\n{err}").into()) }
}

/// Generates a package `undertone_client` in `folder` from the server's address alone.
fn generate(python: &Path, stage: &TestConsortium, folder: &Path) -> TestResult<()> {
    let config = workspace::root().join("tests/integration/automation/generator.yml");
    let source = folder.join("source");
    let generated = Command::new(python)
        .args(["-m", "openapi_python_client", "generate", "--meta", "setup", "--url"])
        .arg(format!("{}/api/v1/openapi.json", stage.address()))
        .arg("--config")
        .arg(config)
        .arg("--output-path")
        .arg(&source)
        .output()?;
    // Warnings are on the standard error.
    let warnings = String::from_utf8_lossy(&generated.stderr).into_owned();
    let text = successful_output("the generator", &generated)? + &warnings;
    for lost in ["Endpoint will not be generated", "response will be omitted"] {
        assert!(!text.contains(lost), "the generator leaves something out:\n{text}");
    }
    let installed = Command::new(python)
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target"])
        .arg(folder.join("installed"))
        .arg(&source)
        .output()?;
    successful_output("pip", &installed)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_client_plans_proposes_and_reads_a_job() -> TestResult<()> {
    let Some(python) = python() else { return Ok(()) };
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 20.0).await?;
    let folder = tempfile::tempdir()?;
    generate(&python, &stage, folder.path())?;
    let job = scene::small_job(&stage, 3, 300).await?.job();
    let program = Command::new(&python)
        .arg(workspace::root().join("tests/integration/automation/program.py"))
        .env("PYTHONPATH", folder.path().join("installed"))
        .env("UNDERTONE", stage.address())
        .env("KEY", key(&stage.sites[0].client).await?)
        .env("CONSORTIUM", stage.consortium.to_string())
        .env("JOB", serde_json::to_string(&job)?)
        .output()?;
    let result: Value = serde_json::from_str(successful_output("the program", &program)?.trim())?;
    assert_eq!(result["organizations"], json!(["Library", "Odd", "One", "Two"]));
    assert_eq!(
        (&result["admitted"], &result["state"], &result["title"]),
        (&json!(true), &json!("proposed"), &json!("Small"))
    );
    assert_eq!(result["once"], json!(true), "a proposal with a key was made once");
    assert_eq!(result["refused"], json!("validation_failed"), "refusals are read as problems");
    let id = result["job"].as_str().ok_or("the job's id")?.parse()?;
    let job = stage.operator.job(id).await?;
    assert_eq!(job.participants.len(), 5);
    Ok(())
}

/// Returns the description with existing ids as parameters, so that requests reach data, and without the default
/// response, so that every response must be described.
async fn strict(stage: &TestConsortium, client: &TestClient) -> TestResult<Value> {
    let mut document: Value = client.get("/openapi.json").await?;
    let job = client.propose(stage.consortium, &scene::small_job(stage, 3, 300).await?.job()).await?.summary.id;
    let dataset = stage.dataset("one").await?.id;
    let organization = stage.sites[0].organization;
    for (path, operations) in document["paths"].as_object_mut().into_iter().flatten() {
        let real = match path.split('/').nth(1) {
            Some("consortia") => stage.consortium.to_string(),
            Some("organizations") => organization.to_string(),
            Some("datasets") => dataset.to_string(),
            Some("jobs") => job.to_string(),
            _ => String::new(),
        };
        for operation in operations.as_object_mut().into_iter().flatten().map(|(_, operation)| operation) {
            if let Some(responses) = operation["responses"].as_object_mut() {
                responses.remove("default");
            }
            let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
            for parameter in parameters.into_iter().flatten() {
                let value = match parameter["name"].as_str() {
                    Some("id") if !real.is_empty() => real.clone(),
                    Some("dataset") if parameter["in"] == "path" => dataset.to_string(),
                    _ => continue,
                };
                parameter["schema"] = json!({ "type": "string", "enum": [value, uuid::Uuid::nil()] });
            }
        }
    }
    Ok(document)
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_description_allows_is_answered_as_it_says() -> TestResult<()> {
    let Some(python) = python() else { return Ok(()) };
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 20.0).await?;
    let client = stage.sites[0].client.clone();
    let folder = tempfile::tempdir()?;
    let description = folder.path().join("openapi.json");
    std::fs::write(&description, serde_json::to_vec(&strict(&stage, &client).await?)?)?;
    let fuzzed = Command::new(&python)
        .current_dir(folder.path())
        .env("PYTHONPATH", workspace::root().join("tests/integration/automation"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SCHEMATHESIS_HOOKS", "fuzzer")
        .args(["-m", "schemathesis.cli", "run"])
        .arg(&description)
        .args(["--url", &format!("{}/api/v1", stage.address())])
        .args(["--header", &format!("Authorization: Bearer {}", key(&client).await?)])
        // Event streams do not end by themselves.
        .args(["--exclude-path-regex", "events$"])
        // The boundary values of every field take minutes: `.ci/client.sh fuzz` covers them.
        .args(["--phases", "examples,fuzzing", "--max-examples", EXAMPLES, "--seed", "7", "--workers", "2"])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"])
        .args(["--checks", "response_schema_conformance,response_headers_conformance,ignored_auth"])
        // The speed of generating requests depends on the machine.
        .args(["--suppress-health-check", "too_slow"])
        .args(["--rate-limit", "auto", "--continue-on-failure", "--no-color"])
        .output()?;
    successful_output("schemathesis", &fuzzed)?;
    stage.server()?;
    assert_eq!(client.me().await?.name, "operator", "the server still answers");
    Ok(())
}
