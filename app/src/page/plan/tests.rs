//! A draft opened in the planner, in a browser without wasm.

use crate::fixture::life::{BEGUN, COMPLETE, QUESTIONS};
use crate::fixture::{CONSORTIUM, PROPOSED, render, send};
use crate::page::tests::planner_fields;
use crate::path;

async fn render_page(address: &str) -> String {
    let page = render(address, true, "").await;
    assert_eq!(page.status, 200, "{address}: {}", page.body);
    page.body
}

/// Returns the posted fields of the planner with the opened draft: the form's fields and those outside it.
async fn posted_form(version: u64) -> String {
    let form = planner_fields(&render_page(&path::reopen(CONSORTIUM, COMPLETE)).await);
    format!("{form}&draft={COMPLETE}&version={version}")
}

#[tokio::test]
async fn draft_opens_with_its_values_and_links_back() {
    let draft = render_page(&path::draft(CONSORTIUM, COMPLETE)).await;
    assert!(draft.contains(&format!("href=\"{}\"", path::reopen(CONSORTIUM, COMPLETE))), "{draft}");
    let planner = render_page(&path::reopen(CONSORTIUM, COMPLETE)).await;
    assert!(planner.contains("Draft Dysarthric speech, third try"), "{planner}");
    assert!(planner.contains("name=\"plan[title]\"") && planner.contains("value=\"Dysarthric speech, third try\""));
    for field in [format!("name=\"draft\" value=\"{COMPLETE}\""), "name=\"version\" value=\"3\"".to_owned()] {
        assert!(planner.contains(&format!("form=\"plan-dp-sgd\" {field}")), "{field} is missing: {planner}");
    }
    assert!(planner.contains("formaction=\"/ui/draft-dp-sgd\"") && planner.contains("id=\"plan-dp-sgd\""));
    assert!(!planner.contains("id=\"plan-active-learning\""), "only its own kind is planned");
    assert!(!planner.contains("has no field for these values"), "the planner made this draft: {planner}");
}

#[tokio::test]
async fn saving_updates_the_opened_draft() {
    let came = send("draft-dp-sgd", &posted_form(3).await, true).await;
    assert_eq!(came.location(), path::draft(CONSORTIUM, COMPLETE), "{}", came.body);
    let new = planner_fields(&render_page(&path::plan(CONSORTIUM)).await);
    let came = send("draft-dp-sgd", &new, true).await;
    assert_eq!(came.location(), path::draft(CONSORTIUM, BEGUN), "{}", came.body);
}

#[tokio::test]
async fn conflict_keeps_the_posted_input() {
    let changed = posted_form(2).await.replace("plan%5Brounds%5D=40", "plan%5Brounds%5D=41");
    let came = send("draft-dp-sgd", &changed, true).await;
    let back = came.location().to_owned();
    assert!(back.starts_with(&path::reopen(CONSORTIUM, COMPLETE)) && back.contains("&version=2&"), "{back}");
    let cookies = came.cookies();
    let word = cookies.first().and_then(|cookie| cookie.split(';').next()).expect("word is left for the next page");
    let planner = render(&back, true, word).await.body;
    assert!(planner.contains("Somebody changed this draft since you read it."), "{planner}");
    assert!(planner.contains("The draft was changed after you opened it."), "{planner}");
    let again = planner_fields(&planner);
    assert!(again.contains("plan%5Brounds%5D=41"), "what was written stands there: {again}");
    assert!(planner.contains("name=\"version\" value=\"3\""), "the next saving has read what there is");
    let saved = send("draft-dp-sgd", &format!("{again}&draft={COMPLETE}&version=3"), true).await;
    assert_eq!(saved.location(), path::draft(CONSORTIUM, COMPLETE));
}

#[tokio::test]
async fn invalid_plan_returns_as_posted() {
    let wrong = posted_form(3).await.replace("plan%5Bparts%5D%5B0%5D%5Brate%5D=", "plan%5Bparts%5D%5B0%5D%5Brate%5D=7");
    let came = send("draft-dp-sgd", &wrong, true).await;
    assert!(came.location().starts_with(&path::reopen(CONSORTIUM, COMPLETE)), "{}", came.location());
    assert!(came.location().contains("=70."), "{}", came.location());
}

#[tokio::test]
async fn proposing_an_opened_draft_makes_it_the_job() {
    let came = send("propose-dp-sgd", &posted_form(3).await, true).await;
    assert_eq!(came.location(), path::job(CONSORTIUM, PROPOSED), "{}", came.body);
    let late = send("propose-dp-sgd", &posted_form(2).await, true).await;
    assert!(late.location().starts_with(&path::reopen(CONSORTIUM, COMPLETE)), "{}", late.location());
}

#[tokio::test]
async fn incomplete_draft_opens_over_the_first_plan() {
    let planner = render_page(&path::reopen(CONSORTIUM, BEGUN)).await;
    assert!(planner.contains("Draft (untitled)") && planner.contains("id=\"plan-dp-sgd\""), "{planner}");
}

#[tokio::test]
async fn question_draft_opens_with_labels_and_guidelines() {
    let planner = render_page(&path::reopen(CONSORTIUM, QUESTIONS)).await;
    assert!(planner.contains("form=\"plan-active-learning\" name=\"draft\""), "{planner}");
    assert!(planner.contains("formaction=\"/ui/draft-active-learning\"") && !planner.contains("id=\"plan-dp-sgd\""));
    for said in ["Appointment | a | Anything about a time at the clinic", "Label what the person wants done"] {
        assert!(planner.contains(said), "{said} is missing: {planner}");
    }
}

#[tokio::test]
async fn invalid_draft_address_is_refused_by_name() {
    for (query, field) in [("draft=x", "draft"), (format!("draft={COMPLETE}&version=x").as_str(), "version")] {
        let came = render(&format!("{}?{query}", path::plan(CONSORTIUM)), true, "").await;
        assert_eq!(came.status.as_u16(), 422, "{}", came.body);
        assert!(came.body.contains(&format!("<code>{field}</code>")), "{}", came.body);
    }
    let unknown = path::reopen(CONSORTIUM, undertone_api::id::DraftId(uuid::Uuid::nil()));
    assert_eq!(render(&unknown, true, "").await.status.as_u16(), 404);
}
