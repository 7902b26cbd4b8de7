//! Sign-ins: two-factor, API keys, the renewal of a session, and the file that holds it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use support::stage::{PASSWORD, TestConsortium, TestDatabase, TestResult};
use totp_rs::{Builder, Secret};

use super::program::{TestProgram, run_with_input};

/// Returns a server with one organization, whose member is the operator.
async fn open_server() -> TestResult<TestConsortium> {
    TestConsortium::set(TestDatabase::Sqlite, &["Library"]).await
}

fn saved_path(program: &TestProgram) -> std::path::PathBuf {
    program.folder().join("config/undertone/sign-in.json")
}

fn read_saved(program: &TestProgram) -> TestResult<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(saved_path(program))?)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_session_is_renewed_once() -> TestResult<()> {
    let stage = open_server().await?;
    let program = TestProgram::new()?;
    let wrong = program.run(&["sign-in", &stage.address(), "--email", "operator@example.org"], "not it\n")?;
    assert!(wrong.code == Some(1) && wrong.errors.contains("wrong_credentials"), "{wrong:?}");
    assert!(!saved_path(&program).exists(), "nothing is saved");
    program.succeed(&["sign-in", &stage.address(), "--email", "operator@example.org"], &format!("{PASSWORD}\n"))?;
    assert_eq!(fs::metadata(saved_path(&program))?.permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(saved_path(&program))?.contains(PASSWORD));

    // As after its fifteen minutes: the server no longer accepts the access token.
    let mut saved = read_saved(&program)?;
    let refresh = saved["credential"]["tokens"]["refresh_token"].clone();
    saved["credential"]["tokens"]["access_token"] = json!("expired");
    fs::write(saved_path(&program), saved.to_string())?;
    assert!(program.succeed(&["consortia"], "")?.contains("Stage"));
    let renewed = read_saved(&program)?;
    assert_ne!(renewed["credential"]["tokens"]["refresh_token"], refresh);
    assert_eq!(fs::metadata(saved_path(&program))?.permissions().mode() & 0o777, 0o600);
    assert!(program.succeed(&["consortia"], "")?.contains("Stage"));
    assert_eq!(read_saved(&program)?, renewed, "a valid session is not renewed");

    program.succeed(&["sign-out"], "")?;
    fs::write(saved_path(&program), renewed.to_string())?;
    fs::set_permissions(saved_path(&program), fs::Permissions::from_mode(0o600))?;
    let ended = program.run(&["consortia"], "")?;
    assert!(ended.code == Some(1) && ended.errors.contains("the session has ended"), "{ended:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn second_factor_is_asked_for() -> TestResult<()> {
    let stage = open_server().await?;
    let program = TestProgram::new()?;
    let offer: Value = stage.operator.post("/me/second-factor", &json!({})).await?;
    let secret = Secret::try_from_base32(offer["secret"].as_str().ok_or("a secret")?.replace(' ', ""));
    let secret = secret.map_err(|error| error.to_string())?;
    let authenticator = Builder::new().with_secret(secret).build().map_err(|error| error.to_string())?;
    #[expect(clippy::disallowed_methods, reason = "the server in its own process has the real clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let confirm = json!({ "code": authenticator.generate(now).to_string() });
    let _: Value = stage.operator.send(reqwest::Method::PUT, "/me/second-factor", Some(&confirm)).await?;
    let address = stage.address();
    let arguments = ["sign-in", address.as_str(), "--email", "operator@example.org"];
    let without = program.run(&arguments, &format!("{PASSWORD}\n"))?;
    assert!(without.code == Some(1) && without.errors.contains("no line for: Code"), "{without:?}");
    let wrong = program.run(&arguments, &format!("{PASSWORD}\n000000\n"))?;
    assert!(wrong.code == Some(1) && wrong.errors.contains("wrong_code"), "{wrong:?}");
    // A code works once; the next one is accepted early.
    let next = authenticator.generate(now + 30).to_string();
    let signed_in = program.succeed(&arguments, &format!("{PASSWORD}\n{next}\n"))?;
    assert!(signed_in.starts_with("Signed in to "), "{signed_in}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn api_key_replaces_a_session() -> TestResult<()> {
    let stage = open_server().await?;
    let program = TestProgram::new()?;
    let new = json!({ "name": "a program", "scopes": ["read"], "days": 1 });
    let reply: Value = stage.operator.post("/keys", &new).await?;
    let key = reply["secret"].as_str().ok_or("the answer that made the key holds it")?;

    let mut command = program.command("undertone")?;
    let by_environment = command.env("UNDERTONE_URL", stage.address()).env("UNDERTONE_KEY", key).arg("consortia");
    assert!(String::from_utf8(by_environment.output()?.stdout)?.contains("Stage"));
    assert!(!saved_path(&program).exists(), "a key of the environment is not saved");
    let mut command = program.command("undertone")?;
    let without_address = command.env("UNDERTONE_KEY", key).arg("consortia").output()?;
    assert!(String::from_utf8(without_address.stderr)?.contains("UNDERTONE_KEY needs UNDERTONE_URL"));

    let mut command = program.command("undertone")?;
    command.env("UNDERTONE_KEY", key).args(["sign-in", stage.address().as_str(), "--api-key"]);
    let signed_in = run_with_input(&mut command, &format!("{key}\n"))?;
    assert_eq!(signed_in.code, Some(0), "{signed_in:?}");
    assert!(signed_in.errors.contains("warning: UNDERTONE_KEY is set"), "{signed_in:?}");
    let mut command = program.command("undertone")?;
    let other_server = command.env("UNDERTONE_URL", "https://undertone.example").arg("consortia").output()?;
    let message = String::from_utf8(other_server.stderr)?;
    assert!(message.contains("the saved sign-in is for") && message.contains(&stage.address()), "{message}");
    let mut command = program.command("undertone")?;
    let same_server = command.env("UNDERTONE_URL", stage.address()).arg("consortia").output()?;
    assert!(String::from_utf8(same_server.stdout)?.contains("Stage"));
    assert!(program.succeed(&["consortia"], "")?.contains("Stage"));
    let spec = json!({ "unit": "user", "participants": [], "columns": [], "queries": [], "noise_multiplier": 4.0, "quorum": 2,
        "deadline_seconds": 100 });
    let job = json!({ "title": "Not within its scope", "kind": "analytics", "spec": spec });
    let refused = program.run(&["propose", "-"], &job.to_string())?;
    assert!(refused.code == Some(1) && refused.errors.contains("forbidden"), "{refused:?}");
    let path = format!("/keys/{}", reply["id"].as_str().ok_or("an id")?);
    let _: Value = stage.operator.send(reqwest::Method::DELETE, &path, None::<&()>).await?;
    let revoked = program.run(&["consortia"], "")?;
    assert!(revoked.code == Some(1) && revoked.errors.contains("the API key is not valid"), "{revoked:?}");
    assert!(program.succeed(&["sign-out"], "")?.contains("It stays valid"));
    assert!(program.succeed(&["sign-out"], "")?.contains("No sign-in is saved."));
    Ok(())
}

/// Returns the number of the operator's open sessions.
async fn count_sessions(stage: &TestConsortium) -> TestResult<usize> {
    let page: Value = stage.operator.get("/me/sessions").await?;
    Ok(page["items"].as_array().ok_or("a list")?.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_and_unsaved_sessions_are_ended() -> TestResult<()> {
    let stage = open_server().await?;
    let program = TestProgram::new()?;
    let address = stage.address();
    let arguments = ["sign-in", address.as_str(), "--email", "operator@example.org"];
    let password = format!("{PASSWORD}\n");
    let before = count_sessions(&stage).await?;
    program.succeed(&arguments, &password)?;
    assert_eq!(count_sessions(&stage).await?, before + 1);
    let again = program.run(&arguments, &password)?;
    assert!(again.code == Some(0) && again.errors.is_empty(), "{again:?}");
    assert_eq!(count_sessions(&stage).await?, before + 1, "the earlier session is ended");
    assert!(program.succeed(&["consortia"], "")?.contains("Stage"), "the new session is open");
    program.succeed(&["sign-out"], "")?;

    // A file in the place of the folder: the sign-in cannot be saved.
    let folder = program.folder().join("config/undertone");
    fs::remove_dir_all(&folder)?;
    fs::write(&folder, "")?;
    let unsaved = program.run(&arguments, &password)?;
    assert!(unsaved.code == Some(1) && unsaved.errors.contains("cannot use"), "{unsaved:?}");
    assert_eq!(count_sessions(&stage).await?, before, "the new session is ended");
    Ok(())
}
