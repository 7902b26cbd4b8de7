//! An organization's page in a browser without wasm.

use crate::fixture::{CONSORTIUM, OWN, render};
use crate::path;

#[tokio::test]
async fn key_changes_are_listed_with_dates() {
    let page = render(&path::organization(CONSORTIUM, OWN), true, "").await.body;
    let changes = page.split("Key changes").nth(1).expect("the site's key was changed");
    for told in ["worker-1", "datetime=\"2026-11-13", "51b7aa0c", "9f2c41d0", "1,240"] {
        assert!(changes.contains(told), "{told} is missing: {changes}");
    }
}
