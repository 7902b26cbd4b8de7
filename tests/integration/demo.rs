//! `make demo EXIT=1`, run as by a new user.

use std::process::Command;
use std::time::Duration;

use support::process::TestProcess;
use support::stage::TestResult;
use support::workspace;

#[test]
fn the_demo_runs_the_main_job_and_prints_its_table() -> TestResult<()> {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(workspace::program("undertone-demo")?);
    command.arg("--exit").arg("--dir").arg(folder.path().join("demo")).arg("--port").arg("0");
    let mut demo = TestProcess::start("undertone-demo", &mut command)?;
    let status = demo.wait(Duration::from_mins(15))?;
    let output = demo.output();
    assert!(status.success(), "{output}");
    let is_transcribed = std::env::var_os("UNDERTONE_ALIGNER").is_none_or(|python| python.is_empty())
        || output.contains("the transcription is finished");
    assert!(is_transcribed, "two recognizers transcribe a clinic's recordings:\n{output}");
    assert!(output.contains("questions wait for an answer: http://"), "the second job asks people:\n{output}");
    assert!(output.contains("Table One is finished, "), "three tables are described together:\n{output}");
    for arm in ["public only", "by DP-SGD"] {
        assert!(output.contains(arm), "the table has this arm:\n{output}");
    }
    assert!(!output.contains("data in the clear"), "the open arm needs `--open`:\n{output}");
    Ok(())
}
