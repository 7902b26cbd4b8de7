//! A full disk: a real file system of a few mebibytes.

#[expect(unreachable_pub, reason = "the same file is a module of the library of the end-to-end tests")]
#[path = "../../../../tests/support/small_disk.rs"]
mod small_disk;

use axum::http::{StatusCode, header};
use serde_json::json;
use undertone_api::api_key::{KeyScope, NewApiKey};
use undertone_api::problem::Code;

use self::small_disk::SmallDisk;
use super::problem;
use crate::testing::TestApp;
use undertone_server_core::service::api_key;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_answers_unavailable_until_there_is_room() {
    let Some(disk) = SmallDisk::mount(24).expect("a temporary folder") else { return };
    let app = TestApp::sqlite_with(|config| config.data_dir = disk.path().join("data")).await;
    let operator = app.operator().await;
    let new = NewApiKey { name: "reader".to_owned(), scopes: vec![KeyScope::Read], days: 30 };
    let key = api_key::create(&app.ctx, &operator.actor(&app).await, &new).await.expect("made");
    let key = format!("Bearer {}", key.secret.expect("the answer that made it holds it"));
    let create = async || {
        let body = json!({ "name": "Speech", "organization_name": "Centre" });
        app.server.post("/api/v1/consortia").add_header(header::AUTHORIZATION, operator.bearer()).json(&body).await
    };

    app.ctx.db.truncate_log().await.expect("truncated");
    disk.fill().expect("a file can be created");
    let refused = create().await;
    let refused_problem = problem(&refused, Code::Unavailable);
    assert!(refused_problem.detail.contains("disk is full"), "{}", refused_problem.detail);
    assert_eq!(refused.header(header::RETRY_AFTER), "5");
    let unready = problem(&app.server.get("/health/ready").await, Code::Unavailable);
    assert!(unready.detail.contains("disk is full"), "{}", unready.detail);
    app.server.get("/api/v1/me").add_header(header::AUTHORIZATION, &key).await.assert_status_ok();

    disk.make_room().expect("removed");
    create().await.assert_status(StatusCode::CREATED);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while app.server.get("/health/ready").await.status_code() != StatusCode::NO_CONTENT {
        assert!(std::time::Instant::now() < end, "the server is ready once there is room");
        tokio::task::yield_now().await;
    }
    app.close().await;
}
