use std::collections::BTreeSet;

use super::page;
use crate::rest::openapi::described;
use crate::testing::on_both;

/// Returns the texts between `before` and the next `"`, for all occurrences.
fn values<'a>(page: &'a str, before: &str) -> Vec<&'a str> {
    page.split(before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn reference_page_has_every_operation_and_valid_links() {
    let document = described();
    let page = page(&document);
    let ids: Vec<&str> = values(&page, " id=\"");
    let places: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), places.len(), "two places have one name");
    for methods in document["paths"].as_object().expect("paths").values() {
        for operation in methods.as_object().expect("methods").values() {
            let id = operation["operationId"].as_str().expect("an id");
            assert!(places.contains(id), "{id}");
        }
    }
    for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
        assert!(places.contains(format!("schema-{name}").as_str()), "{name}");
    }
    for link in values(&page, " href=\"") {
        let is_known = link.strip_prefix('#').map_or(link.starts_with("/api/v1/"), |place| places.contains(place));
        assert!(is_known, "{link}");
    }
}

#[test]
fn tags_close_in_the_order_in_which_they_open() {
    let page = page(&described());
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap_or_default();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
        } else if !["!doctype", "meta", "link"].contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, [""; 0]);
}

#[test]
fn description_is_escaped_in_the_page() {
    let mut document = described();
    document["paths"]["/me"]["get"]["summary"] = "<script>alert(1)</script> & \"`<b>`\"".into();
    let page = page(&document);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;") && page.contains("<code>&lt;b&gt;</code>"));
}

on_both! {
    async fn the_page_needs_nothing_from_elsewhere_and_no_script(app: &TestApp) {
        let response = app.server.get("/api/v1/reference").await;
        response.assert_status_ok();
        assert!(response.header("content-type").to_str().is_ok_and(|kind| kind.starts_with("text/html")));
        let policy = response.header("content-security-policy").to_str().expect("text").to_owned();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe") && !policy.contains("script-src"));
        let text = response.text();
        assert_eq!(text, page(&described()));
        assert!(!text.contains("<script") && !text.contains("style=") && !text.contains("src="));
        let style = app.server.get("/api/v1/reference.css").await;
        style.assert_status_ok();
        assert!(style.header("content-type").to_str().is_ok_and(|kind| kind.starts_with("text/css")));
        assert!(!style.text().contains("url(") && !style.text().contains("@import"));
    }
}
