//! An organization's page in a browser without wasm.

use undertone_server_core::service::worker;

use crate::path;
use crate::testing::TestDashboard;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_changes_are_listed_with_dates() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let own = dashboard.own;
    let page = dashboard.render(&path::organization(consortium, own), true, "").await.body;
    let changes = page.split("Key changes").nth(1).expect("the site's key was changed");
    let steward = dashboard.actor(dashboard.session).await;
    let workers = worker::list(dashboard.ctx(), &steward, own).await.expect("one's own organization");
    let change = workers.iter().flat_map(|worker| &worker.key_changes).next().expect("the site's key was changed");
    // Two exact releases and four private ones were made before.
    for part in ["worker-1", "datetime=\"2026-11-13", &change.old[..8], &change.new[..8], ">6<"] {
        assert!(changes.contains(part), "{part} is missing: {changes}");
    }
}
