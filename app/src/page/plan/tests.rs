//! The planner in a browser without wasm: its numbers, and a draft that is opened in it.

mod kinds;

use crate::page::tests::planner_fields;
use crate::path;
use crate::testing::TestDashboard;

async fn render_page(dashboard: &TestDashboard, address: &str) -> String {
    let page = dashboard.render(address, true, "").await;
    assert_eq!(page.status, 200, "{address}: {}", page.body);
    page.body
}

/// Returns the posted fields of the planner with the opened draft: the form's fields and those outside it.
async fn posted_form(dashboard: &TestDashboard, version: u64) -> String {
    let consortium = dashboard.consortium;
    let complete = dashboard.complete;
    let form = planner_fields(&render_page(dashboard, &path::reopen(consortium, complete)).await);
    format!("{form}&draft={complete}&version={version}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draft_opens_with_its_values_and_links_back() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let complete = dashboard.complete;
    let draft = render_page(&dashboard, &path::draft(consortium, complete)).await;
    assert!(draft.contains(&format!("href=\"{}\"", path::reopen(consortium, complete))), "{draft}");
    let planner = render_page(&dashboard, &path::reopen(consortium, complete)).await;
    assert!(planner.contains("Draft Dysarthric speech, third try"), "{planner}");
    assert!(planner.contains("name=\"plan[title]\"") && planner.contains("value=\"Dysarthric speech, third try\""));
    for field in [format!("name=\"draft\" value=\"{complete}\""), "name=\"version\" value=\"3\"".to_owned()] {
        assert!(planner.contains(&format!("form=\"plan-dp-sgd\" {field}")), "{field} is missing: {planner}");
    }
    assert!(planner.contains("formaction=\"/ui/draft-dp-sgd\"") && planner.contains("id=\"plan-dp-sgd\""));
    assert!(!planner.contains("id=\"plan-active-learning\""), "only its own kind is planned");
    assert!(!planner.contains("has no field for these values"), "the planner made this draft: {planner}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saving_updates_the_opened_draft() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let complete = dashboard.complete;
    let came = dashboard.send("draft-dp-sgd", &posted_form(&dashboard, 3).await, true).await;
    assert_eq!(came.location(), path::draft(consortium, complete), "{}", came.body);
    let new = planner_fields(&render_page(&dashboard, &path::plan_of(consortium, "speech")).await);
    let came = dashboard.send("draft-dp-sgd", &new, true).await;
    let draft = dashboard.newest_draft().await;
    assert!(draft.id != complete && draft.version == 1, "another draft is made");
    assert_eq!(came.location(), path::draft(consortium, draft.id), "{}", came.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflict_keeps_the_posted_input() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let complete = dashboard.complete;
    let changed = posted_form(&dashboard, 2).await.replace("plan%5Brounds%5D=40", "plan%5Brounds%5D=41");
    let came = dashboard.send("draft-dp-sgd", &changed, true).await;
    let back = came.location().to_owned();
    assert!(back.starts_with(&path::reopen(consortium, complete)) && back.contains("&version=2&"), "{back}");
    let planner = dashboard.render(&back, true, came.message_cookie()).await.body;
    assert!(planner.contains("omebody changed this draft since you read it"), "{planner}");
    assert!(planner.contains("The draft was changed after you opened it."), "{planner}");
    let again = planner_fields(&planner);
    assert!(again.contains("plan%5Brounds%5D=41"), "what was written stands there: {again}");
    assert!(planner.contains("name=\"version\" value=\"3\""), "the next saving has read what there is");
    let saved = dashboard.send("draft-dp-sgd", &format!("{again}&draft={complete}&version=3"), true).await;
    assert_eq!(saved.location(), path::draft(consortium, complete));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_plan_returns_as_posted() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let complete = dashboard.complete;
    let wrong = posted_form(&dashboard, 3)
        .await
        .replace("plan%5Bparts%5D%5B0%5D%5Brate%5D=", "plan%5Bparts%5D%5B0%5D%5Brate%5D=7");
    let came = dashboard.send("draft-dp-sgd", &wrong, true).await;
    assert!(came.location().starts_with(&path::reopen(consortium, complete)), "{}", came.location());
    assert!(came.location().contains("=70."), "{}", came.location());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proposing_an_opened_draft_makes_it_the_job() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let complete = dashboard.complete;
    let came = dashboard.send("propose-dp-sgd", &posted_form(&dashboard, 3).await, true).await;
    let job = dashboard.newest_job().await;
    assert_eq!(job.title, "Dysarthric speech, third try", "{}", came.body);
    assert_eq!(came.location(), path::job(consortium, job.id));
    // A proposed draft is gone.
    let dashboard = TestDashboard::open().await;
    let late = dashboard.send("propose-dp-sgd", &posted_form(&dashboard, 2).await, true).await;
    assert!(late.location().starts_with(&path::reopen(consortium, complete)), "{}", late.location());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incomplete_draft_opens_over_the_first_plan() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let begun = dashboard.begun;
    let planner = render_page(&dashboard, &path::reopen(consortium, begun)).await;
    assert!(planner.contains("Draft (untitled)") && planner.contains("id=\"plan-dp-sgd\""), "{planner}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_draft_opens_with_labels_and_guidelines() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let question_draft = dashboard.question_draft;
    let planner = render_page(&dashboard, &path::reopen(consortium, question_draft)).await;
    assert!(planner.contains("form=\"plan-active-learning\" name=\"draft\""), "{planner}");
    assert!(planner.contains("formaction=\"/ui/draft-active-learning\"") && !planner.contains("id=\"plan-dp-sgd\""));
    for said in ["Appointment | a | Anything about a time at the clinic", "Label what the person wants done"] {
        assert!(planner.contains(said), "{said} is missing: {planner}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_draft_address_is_refused_by_name() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let complete = dashboard.complete;
    for (query, field) in [("draft=x", "draft"), (format!("draft={complete}&version=x").as_str(), "version")] {
        let came = dashboard.render(&format!("{}?{query}", path::plan(consortium)), true, "").await;
        assert_eq!(came.status.as_u16(), 422, "{}", came.body);
        assert!(came.body.contains(&format!("<code>{field}</code>")), "{}", came.body);
    }
    let unknown = path::reopen(consortium, undertone_api::id::DraftId(uuid::Uuid::nil()));
    assert_eq!(dashboard.render(&unknown, true, "").await.status.as_u16(), 404);
}

/// Renders the planner with one of the plan's numbers replaced.
async fn planner_with(dashboard: &TestDashboard, field: &str, value: &str) -> String {
    let consortium = dashboard.consortium;
    let page = dashboard.render(&path::plan_of(consortium, "speech"), true, "").await.body;
    let query: Vec<String> = planner_fields(&page)
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, _)) if name == field => format!("{name}={value}"),
            _ => pair.to_owned(),
        })
        .collect();
    dashboard.render(&format!("{}?{}", path::plan(consortium), query.join("&")), true, "").await.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plan_shows_remainder_bottleneck_and_round_costs() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = dashboard.render(&path::plan_of(consortium, "speech"), true, "").await.body;
    let texts = [
        "Fits every budget.",
        " limits the plan: its budget admits ",
        "passes over the data",
        ": room for ",
        "; the least noise for the requested rounds is z ",
    ];
    for text in texts {
        assert!(page.contains(text), "{text}");
    }
    assert!(page.contains("ε of ward-a against rounds; this plan, rounds 40: budget "), "the chart can be heard");
    assert!(page.contains("Tight, by itself") && page.contains("Rényi bound, by itself"));
    assert!(page.contains("up to 2 of the charged organizations"), "the consortium's rule is applied");
    assert!(!page.contains("Nearest plans within the budgets"), "nothing has to be changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_plan_links_to_three_fitting_plans() {
    let dashboard = TestDashboard::open().await;
    let page = planner_with(&dashboard, "plan%5Brounds%5D", "100").await;
    assert!(page.contains("Over the limit of ") && page.contains("instead of 100, with this noise."), "{page}");
    let offers = page.split("Nearest plans within the budgets").nth(1).and_then(|rest| rest.split("</section>").next());
    let links: Vec<_> =
        offers.expect("offers").split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links.len(), 3, "{links:?}");
    for link in links {
        let page = dashboard.render(&link.replace("&amp;", "&"), true, "").await.body;
        assert!(page.contains("Fits every budget."), "{link}");
        assert!(!page.contains("Nearest plans within the budgets"), "{link}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_plan_gets_tight_numbers_from_the_server() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = dashboard.render(&path::plan_of(consortium, "speech"), true, "").await.body;
    let came = dashboard.send("weigh-dp-sgd", &planner_fields(&page), false).await;
    let text: String = serde_json::from_str(&came.body).expect("a text");
    assert!(text.contains("ward-a") && text.contains("Budget with it"), "{text}");
    let wrong = planner_fields(&page).replace("plan%5Bhidden%5D=200", "plan%5Bhidden%5D=0");
    assert_eq!(dashboard.send("weigh-dp-sgd", &wrong, false).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rehearsal_is_requested_from_the_planner_and_shown_beside_its_plan() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let planner = render_page(&dashboard, &path::plan_of(consortium, "speech")).await;
    assert!(planner.contains("formaction=\"/ui/rehearse-dp-sgd\"") && !planner.contains("Rehearsed on public data"));
    let fields = planner_fields(&planner).replace("plan%5Btitle%5D=", "plan%5Btitle%5D=Digits");
    let wrong = dashboard.send("rehearse-dp-sgd", &fields.replace("minutes=60", "minutes=0"), true).await;
    assert!(wrong.location().starts_with(&path::plan(consortium)), "{}", wrong.location());
    let back = dashboard.render(wrong.location(), true, wrong.message_cookie()).await.body;
    assert!(back.contains("rehearsal.minutes") && back.contains("value=\"Digits\""), "{back}");

    let came = dashboard.send("rehearse-dp-sgd", &fields, true).await;
    let job = dashboard.newest_job().await;
    assert_eq!((job.title.as_str(), came.location()), ("Rehearsal: Digits", path::job(consortium, job.id).as_str()));
    let page = render_page(&dashboard, came.location()).await;
    assert!(page.contains("parts of the lead’s public data take the roles"), "{page}");
    let link = page.split("Open the rehearsed plan").next().and_then(|rest| rest.rsplit("href=\"").next());
    let link = link.and_then(|rest| rest.split('"').next()).expect("a link").replace("&amp;", "&");
    let planner = render_page(&dashboard, &link).await;
    assert!(planner.contains("Rehearsed on public data") && planner.contains("the rehearsal is queued."), "{planner}");
    assert!(planner.contains("value=\"Digits\""), "{planner}");
}
