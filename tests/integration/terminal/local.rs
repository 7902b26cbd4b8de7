//! Failures before any request: files, folders and outputs of this machine. No server runs.

use std::fs;
use std::process::Command;

use support::stage::TestResult;

use super::program::{TestProgram, run_with_input};

/// An address without a server.
const NO_SERVER: &str = "http://127.0.0.1:1";

/// A certificate without a signature.
const UNSIGNED: &str =
    r#"{"payload":"{}","signature":"","evidence":{"manifest":{"payload":"","signature":""},"receipts":[]}}"#;

/// Returns the program with a key of the environment.
fn command_with_key(program: &TestProgram) -> TestResult<Command> {
    let mut command = program.command("undertone")?;
    command.env("UNDERTONE_URL", NO_SERVER).env("UNDERTONE_KEY", "a key");
    Ok(command)
}

#[test]
fn invalid_certificates_of_the_environment_are_refused() -> TestResult<()> {
    let program = TestProgram::new()?;
    let path = program.folder().join("ca.pem");
    let mut command = command_with_key(&program)?;
    let missing = run_with_input(command.env("UNDERTONE_CA", &path).arg("consortia"), "")?;
    assert!(missing.code == Some(1) && missing.errors.contains("cannot read the certificates"), "{missing:?}");
    assert!(missing.errors.contains("ca.pem"), "{missing:?}");
    fs::write(&path, "no certificate")?;
    let mut command = command_with_key(&program)?;
    let invalid = run_with_input(command.env("UNDERTONE_CA", &path).arg("consortia"), "")?;
    assert!(invalid.code == Some(1) && invalid.errors.contains("has no valid certificate"), "{invalid:?}");
    Ok(())
}

#[test]
fn missing_folder_is_refused_before_a_request() -> TestResult<()> {
    let program = TestProgram::new()?;
    let mut command = command_with_key(&program)?;
    command.args(["fetch", "00000000-0000-0000-0000-000000000001", "--into", "results"]);
    let refused = run_with_input(&mut command, "")?;
    assert!(refused.code == Some(1) && refused.errors.contains("--into: results is no folder"), "{refused:?}");
    Ok(())
}

#[test]
fn closed_pipe_keeps_the_exit_status() -> TestResult<()> {
    let program = TestProgram::new()?;
    fs::write(program.folder().join("certificate.json"), UNSIGNED)?;
    assert_eq!(program.run(&["verify", "certificate.json"], "")?.code, Some(3));
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let mut command = program.command("undertone")?;
    let status = command.args(["verify", "certificate.json"]).stdout(writer).status()?;
    assert_eq!(status.code(), Some(3), "the reader left before the report");
    Ok(())
}

#[test]
fn copy_of_a_certificate_file_is_refused() -> TestResult<()> {
    let program = TestProgram::new()?;
    fs::write(program.folder().join("certificate.json"), UNSIGNED)?;
    let refused = program.run(&["verify", "certificate.json", "--save", "copy.json"], "")?;
    assert!(refused.code == Some(1) && refused.errors.contains("--save needs the id of a job"), "{refused:?}");
    assert!(!program.folder().join("copy.json").exists());
    Ok(())
}
