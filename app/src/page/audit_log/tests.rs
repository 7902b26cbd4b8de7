use super::{KINDS, LogForm, filter_query, format_detail};
use crate::testing::TestDashboard;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lists_actors_and_has_a_file() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let own = dashboard.own;
    let page = dashboard.render(&format!("/c/{consortium}/organizations/{own}/audit-log"), true, "").await.body;
    for wanted in ["set a budget", "Steward of North", "the server itself", "dataset ward-a", "epsilon: 8.0"] {
        assert!(page.contains(wanted), "{wanted} is not on the page");
    }
    let file = format!("/api/v1/organizations/{own}/audit-log/export?format=csv\"");
    assert!(page.contains(&file), "the file has everything: {page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filter_applies_to_page_and_file() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let own = dashboard.own;
    dashboard.freeze(dashboard.running, dashboard.dataset(2), "the audit's lower bound is above the claim").await;
    let address = format!("/c/{consortium}/organizations/{own}/audit-log?what=dataset_frozen&by=&since=");
    let page = dashboard.render(&address, true, "").await.body;
    let table = page.split("<tbody>").nth(1).expect("a table");
    assert!(table.contains("froze a dataset") && !table.contains("set a budget"), "{table}");
    assert!(page.contains("format=jsonl&amp;what=dataset_frozen"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chain_is_checked_on_request() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let own = dashboard.own;
    let page = dashboard.render(&format!("/c/{consortium}/organizations/{own}/audit-log?check=1"), true, "").await.body;
    let count = page.split("The chain of all ").nth(1).and_then(|rest| rest.split(" entries is valid").next());
    let count: u64 = count.and_then(|count| count.replace(',', "").parse().ok()).expect("the number of entries");
    assert!(count > 10, "every action above has its entry: {page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_filter_is_refused_by_name() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let came = dashboard.render(&format!("/c/{consortium}/audit-log?what=x&since=yesterday"), true, "").await;
    assert_eq!(came.status.as_u16(), 422);
    assert!(came.body.contains("<code>what</code>") && came.body.contains("<code>since</code>"), "{}", came.body);
}

#[test]
fn period_covers_whole_days() {
    let form = LogForm { since: "2026-11-20".to_owned(), until: "2026-11-20".to_owned(), ..LogForm::default() };
    let query = form.to_query().expect("two days");
    assert_eq!((query.until.expect("given") - query.since.expect("given")).whole_hours(), 24);
}

#[test]
fn subject_kinds_are_filtered_as_written() {
    for (kind, _) in KINDS {
        let form = LogForm { kind: kind.to_owned(), ..LogForm::default() };
        assert_eq!(form.to_query().expect("a filter").subject_kind.as_deref(), Some(kind));
        assert_eq!(filter_query(&form), format!("kind={kind}"));
    }
}

#[test]
fn digests_are_shortened_and_words_are_not() {
    let text =
        format_detail(&serde_json::json!({ "manifest": "df5ed1c0fd85".repeat(5) + "8a7b", "reason": "a".repeat(31) }));
    assert_eq!(text, format!("manifest: df5ed1c0fd85…; reason: {}", "a".repeat(31)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subject_kind_filter_stays_selected() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = dashboard.render(&format!("/c/{consortium}/audit-log?kind=job"), true, "").await.body;
    assert!(page.contains("<option value=\"job\" selected"), "{page}");
    assert!(page.contains("format=csv&amp;subject_kind=job"), "{page}");
    for what in
        ["job_admitted", "job_finished", "job_failed", "job_cancelled", "job_refused", "job_paused", "job_resumed"]
    {
        assert!(page.contains(&format!("<option value=\"{what}\"")), "{what} cannot be asked for");
    }
}
