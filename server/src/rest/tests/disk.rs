//! A full disk: a real file system of a few mebibytes.

use std::io::Write as _;
use std::process::Command;

use axum::http::{StatusCode, header};
use serde_json::json;
use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::problem::Code;

use super::problem;
use crate::testing::TestApp;
use undertone_server_core::service::api_key;

/// A file system in memory with a limited size.
struct SmallDisk {
    mount: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts a file system; `None` if the tests lack the permission.
    fn mount() -> Option<Self> {
        let mount = tempfile::tempdir().expect("a temporary folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"])
            .arg(mount.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self { mount })
    }

    fn ballast(&self) -> std::path::PathBuf {
        self.mount.path().join("ballast")
    }

    fn fill(&self) {
        let mut file = std::fs::File::create(self.ballast()).expect("created");
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.ballast()).expect("removed");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.mount.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "the file system can be unmounted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_answers_unavailable_until_there_is_room() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: only root may mount a file system for this test");
        return;
    };
    let app = TestApp::sqlite_with(|config| config.data_dir = disk.mount.path().join("data")).await;
    let operator = app.operator().await;
    let new = NewApiKey { name: "reader".to_owned(), scopes: vec![KeyScope::Read], days: 30 };
    let key = api_key::create(&app.ctx, &operator.actor(&app).await, &new).await.expect("made");
    let key = format!("Bearer {}", key.secret.expect("the answer that made it holds it"));
    let found = async || {
        let body = json!({ "name": "Speech", "organization_name": "Centre" });
        app.server.post("/api/v1/consortia").add_header(header::AUTHORIZATION, operator.bearer()).json(&body).await
    };

    app.ctx.db.truncate_log().await.expect("truncated");
    disk.fill();
    let refused = found().await;
    let refused_problem = problem(&refused, Code::Unavailable);
    assert!(refused_problem.detail.contains("disk is full"), "{}", refused_problem.detail);
    assert_eq!(refused.header(header::RETRY_AFTER), "5");
    let unready = problem(&app.server.get("/health/ready").await, Code::Unavailable);
    assert!(unready.detail.contains("disk is full"), "{}", unready.detail);
    app.server.get("/api/v1/me").add_header(header::AUTHORIZATION, &key).await.assert_status_ok();

    disk.make_room();
    found().await.assert_status(StatusCode::CREATED);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while app.server.get("/health/ready").await.status_code() != StatusCode::NO_CONTENT {
        assert!(std::time::Instant::now() < end, "the server is ready once there is room");
        tokio::task::yield_now().await;
    }
    app.close().await;
}
