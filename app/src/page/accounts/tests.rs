//! The accounts' page in a browser without wasm.

use crate::path;
use crate::testing::{Caller, TestDashboard};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_page_retires_and_restores_with_a_reason() {
    let dashboard = TestDashboard::open().await;
    let operator = Caller::Member(dashboard.operator_session);
    let page = dashboard.render_for(&operator, path::ACCOUNTS, "").await.body;
    for form in ["/ui/retire-account", "/ui/restore-account", "/ui/invite-operator"] {
        assert!(page.contains(&format!("action=\"{form}\"")), "{form} is missing: {page}");
    }
    assert!(page.contains("left the clinic"), "the reason of a retirement is shown");
    assert!(page.contains("name=\"reason\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn security_page_asks_for_a_proof_of_identity() {
    let dashboard = TestDashboard::open().await;
    let page = dashboard.render(path::SECURITY, true, "").await.body;
    let form = page.split("action=\"/ui/prove-identity\"").nth(1).expect("there is a form");
    let form = form.split("</form>").next().unwrap_or_default();
    assert!(form.contains("name=\"password\""), "{form}");
}
