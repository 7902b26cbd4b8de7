//! The actions on a job in a browser without wasm.

use crate::path;
use crate::testing::TestDashboard;

async fn render_page(dashboard: &TestDashboard, address: &str) -> String {
    let page = dashboard.render(address, true, "").await;
    assert_eq!(page.status, 200, "{address}: {}", page.body);
    page.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_job_lists_holds_for_their_holders() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let paused = dashboard.paused;
    let body = render_page(&dashboard, &path::job(consortium, paused)).await;
    for said in [
        "Reason for the pause",
        "the model&#x27;s learning rate is being thought over",
        "the ward&#x27;s disk is being replaced",
        "action=\"/ui/resume\"",
        "action=\"/ui/release\"",
        "undertone-worker jobs",
    ] {
        let plain = said.replace("&#x27;", "'");
        assert!(body.contains(said) || body.contains(&plain), "{said} is missing: {body}");
    }
    assert!(!body.contains("action=\"/ui/pause\""), "it is paused as a whole already");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_actions_depend_on_its_state() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let running = dashboard.running;
    let finished = dashboard.finished;
    let running = render_page(&dashboard, &path::job(consortium, running)).await;
    for form in ["pause", "hold", "cancel", "clone"] {
        assert!(running.contains(&format!("action=\"/ui/{form}\"")), "{form} is missing");
    }
    let finished = render_page(&dashboard, &path::job(consortium, finished)).await;
    assert!(finished.contains("action=\"/ui/clone\""));
    for form in ["pause", "hold", "cancel", "retry"] {
        assert!(!finished.contains(&format!("action=\"/ui/{form}\"")), "{form} is no use any more");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_covers_the_displayed_manifest() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let proposed = dashboard.proposed;
    let manifest = dashboard.job(proposed).await.manifest;
    let job = render_page(&dashboard, &path::job(consortium, proposed)).await;
    assert!(job.contains(&format!("name=\"manifest\" value=\"{manifest}\"")), "{job}");
    assert!(job.contains(&path::review(consortium, proposed, dashboard.dataset(1))), "{job}");
    assert!(job.contains("Reason for the request: with what has passed by the limit before"), "{job}");
    let body = format!("consortium={consortium}&job={proposed}&dataset={}&manifest=", dashboard.dataset(1));
    let other = dashboard.send("approve", &format!("{body}00"), true).await;
    assert_eq!(other.location(), "/from?x=1", "back to the page with the problem");
    let this = dashboard.send("approve", &format!("{body}{manifest}"), true).await;
    assert_eq!(this.location(), path::job(consortium, proposed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn review_lists_disclosures_and_the_manifest() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let proposed = dashboard.proposed;
    let body = render_page(&dashboard, &path::review(consortium, proposed, dashboard.dataset(1))).await;
    for said in ["this server", "the other participants", "whoever gets the model", "Left for all other jobs"] {
        assert!(body.contains(said), "{said} is missing: {body}");
    }
    let manifest = dashboard.job(proposed).await.manifest;
    assert!(body.contains(&manifest) && body.contains("&lt;b&gt;second"), "byte for byte, and never as HTML");
    assert!(!body.contains("<b>second"), "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn complete_draft_is_proposed_and_incomplete_is_not() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let complete = dashboard.complete;
    let page = render_page(&dashboard, &path::draft(consortium, complete)).await;
    assert!(page.contains("action=\"/ui/propose-draft\"") && page.contains("Ready to propose"));
    assert!(page.contains("Projected cost") && page.contains("name=\"version\" value=\"3\""));
    let incomplete = render_page(&dashboard, &path::draft(consortium, dashboard.begun)).await;
    assert!(
        !incomplete.contains("action=\"/ui/propose-draft\"") && incomplete.contains("missing field"),
        "{incomplete}"
    );

    let ids = format!("consortium={consortium}&draft={complete}");
    let came = dashboard.send("propose-draft", &ids, true).await;
    let job = dashboard.newest_job().await;
    assert_eq!(job.title, "Dysarthric speech, third try", "{}", came.body);
    assert_eq!(came.location(), path::job(consortium, job.id));
    // A proposed draft is gone.
    let dashboard = TestDashboard::open().await;
    for (version, spec, lands) in [
        ("3", "%7B%7D", path::draft(consortium, complete)),
        ("2", "%7B%7D", "/from?x=1".to_owned()),
        ("3", "%7B", "/from?x=1".to_owned()),
    ] {
        let body = format!("{ids}&version={version}&title=x&kind=dp_sgd&spec={spec}");
        assert_eq!(dashboard.send("write-draft", &body, true).await.location(), lands, "{version} {spec}");
    }
    assert_eq!(dashboard.send("delete-draft", &ids, true).await.location(), path::jobs(consortium));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plan_is_saved_as_a_draft_without_a_script() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let planner = render_page(&dashboard, &path::plan_of(consortium, "speech")).await;
    assert!(planner.contains("formaction=\"/ui/draft-dp-sgd\""), "{planner}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steward_sets_and_withdraws_the_approval_limit() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let body = render_page(&dashboard, &path::dataset(consortium, dashboard.dataset(1))).await;
    assert!(
        body.contains("set by Steward of North") && body.contains("action=\"/ui/withdraw-approval-limit\""),
        "{body}"
    );
    assert!(
        body.contains("2 jobs approved automatically: together ε ") && body.contains(" of 2.10 at δ"),
        "how much of the total is used: {body}"
    );
    assert!(body.contains("name=\"total_epsilon\""), "no limit is set here without a total: {body}");
    let ids = format!("consortium={consortium}&dataset={}", dashboard.dataset(1));
    let landed = path::dataset(consortium, dashboard.dataset(1));
    let form =
        |total: f64, days: u32| format!("{ids}&epsilon=0.5&total_epsilon={total}&days={days}&kinds%5B%5D=dp_sgd");
    let set = dashboard.send("set-approval-limit", &form(0.5, 30), true).await;
    assert_eq!(set.location(), landed, "{}", set.body);
    for wrong in [form(2.0, 366), form(0.4, 30)] {
        let wrong = dashboard.send("set-approval-limit", &wrong, true).await;
        assert_eq!(wrong.location(), "/from?x=1", "{}", wrong.body);
    }
    assert_eq!(dashboard.send("withdraw-approval-limit", &ids, true).await.location(), landed);
}
