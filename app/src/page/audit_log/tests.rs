use super::{Form, encoded};
use crate::fixture::{CONSORTIUM, OWN, render};

#[tokio::test]
async fn the_log_says_who_did_what_and_can_be_taken_away() {
    let page = render(&format!("/c/{CONSORTIUM}/audit-log"), true, "").await.body;
    for wanted in ["set a budget", "Steward of North", "the server itself", "dataset ward-a", "epsilon: 8.0"] {
        assert!(page.contains(wanted), "{wanted} is not on the page");
    }
    assert!(page.contains("/api/v1/audit-log/export?format=csv\""), "the file has everything: {page}");
}

#[tokio::test]
async fn a_filter_shows_what_it_names_and_the_file_has_the_same() {
    let page = render(&format!("/c/{CONSORTIUM}/audit-log?what=dataset_frozen&by=&since="), true, "").await.body;
    let table = page.split("<tbody>").nth(1).expect("a table");
    assert!(table.contains("froze a dataset") && !table.contains("set a budget"), "{table}");
    assert!(page.contains("format=jsonl&amp;what=dataset_frozen"), "{page}");
}

#[tokio::test]
async fn the_chain_is_checked_when_asked() {
    let page = render(&format!("/c/{CONSORTIUM}/organizations/{OWN}/audit-log?check=1"), true, "").await.body;
    assert!(page.contains("The chain of all 3 entries holds"), "{page}");
}

#[tokio::test]
async fn a_strange_filter_is_refused_by_name() {
    let came = render(&format!("/c/{CONSORTIUM}/audit-log?what=x&since=yesterday"), true, "").await;
    assert_eq!(came.status.as_u16(), 422);
    assert!(came.body.contains("<code>what</code>") && came.body.contains("<code>since</code>"), "{}", came.body);
}

#[test]
fn the_last_day_is_meant_to_its_end() {
    let form = Form { since: "2026-11-20".to_owned(), until: "2026-11-20".to_owned(), ..Form::default() };
    let query = form.query().expect("two days");
    assert_eq!((query.until.expect("given") - query.since.expect("given")).whole_hours(), 24);
    assert_eq!(encoded("a b&c"), "a%20b%26c");
}
