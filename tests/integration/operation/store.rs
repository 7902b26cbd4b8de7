//! Objects in an S3-compatible store: a job runs as on a disk, and a bucket without access is reported immediately.

use support::s3::TestObjectStore;
use support::stage::{PATIENCE, TestDatabase, TestResult};

use support::scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_with_its_vectors_and_models_in_a_bucket() -> TestResult<()> {
    let Some(s3) = TestObjectStore::start()? else {
        eprintln!("no S3-compatible store: set UNDERTONE_S3 to what .ci/s3.sh prints, or run `make test`");
        return Ok(());
    };
    let environment = s3.environment("a/prefix");
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut stage = scene::set_with(TestDatabase::Sqlite, &pairs).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let job = scene::run_small_job(&stage, 2).await?;
    let artifacts = stage.operator.artifacts(job).await?;
    let model = artifacts.iter().find(|artifact| artifact.name == "model.safetensors").ok_or("a model")?;
    assert_eq!(stage.operator.content(model.id).await?.len() as u64, model.size);
    assert!(s3.objects()? >= artifacts.len(), "they are in the store");
    assert!(!stage.server_folder().join("objects").exists(), "and nowhere else");

    stage.stop_server(PATIENCE)?;
    let refused = stage
        .server_command()?
        .arg("serve")
        .env("UNDERTONE_STORE__SECRET_ACCESS_KEY", "wrong")
        .env("UNDERTONE_HTTP", "127.0.0.1:0")
        .env("UNDERTONE_GRPC", "127.0.0.1:0")
        .output()?;
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && message.contains("object store"), "{message}");
    assert!(!message.contains("wrong"), "the key stays secret: {message}");
    Ok(())
}
