//! An organization's page in a browser without wasm.

use crate::path;
use crate::testing::TestDashboard;

#[tokio::test]
async fn key_changes_are_listed_with_dates() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let own = dashboard.own;
    let page = dashboard.render(&path::organization(consortium, own), true, "").await.body;
    let changes = page.split("Key changes").nth(1).expect("the site's key was changed");
    for told in ["worker-1", "datetime=\"2026-11-13", "51b7aa0c", "9f2c41d0", "1,240"] {
        assert!(changes.contains(told), "{told} is missing: {changes}");
    }
}
