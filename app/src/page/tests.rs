//! The pages in a browser without wasm.

use undertone_api::organization::InvitationPurpose;
use undertone_server_core::service::session;
use undertone_server_core::testing::PASSWORD;

use crate::path;
use crate::testing::{Caller, TestDashboard};

/// Returns every page that a member can open.
fn addresses(dashboard: &TestDashboard) -> Vec<(&'static str, String)> {
    let c = dashboard.consortium;
    vec![
        ("settings", path::SETTINGS.to_owned()),
        ("security", path::SECURITY.to_owned()),
        ("accounts", path::ACCOUNTS.to_owned()),
        ("keys", path::KEYS.to_owned()),
        ("notifications", path::NOTIFICATIONS.to_owned()),
        ("job-log", path::job_log(c, dashboard.running)),
        ("found", path::FOUND.to_owned()),
        ("thresholds", path::THRESHOLDS.to_owned()),
        ("overview", path::overview(c)),
        ("jobs", path::jobs(c)),
        ("plan", path::plan(c)),
        ("plan-speech", path::plan_of(c, "speech")),
        ("plan-evaluation", path::plan_of(c, "evaluation")),
        ("plan-questions", path::plan_of(c, "questions")),
        ("plan-transcription", path::plan_of(c, "transcription")),
        ("job-proposed", path::job(c, dashboard.proposed)),
        ("job-running", path::job(c, dashboard.running)),
        ("job-finished", path::job(c, dashboard.finished)),
        ("job-paused", path::job(c, dashboard.paused)),
        ("review", path::review(c, dashboard.proposed, dashboard.dataset(1))),
        ("draft", path::draft(c, dashboard.complete)),
        ("draft-begun", path::draft(c, dashboard.begun)),
        ("datasets", path::datasets(c)),
        ("dataset", path::dataset(c, dashboard.dataset(1))),
        ("dataset-public", path::dataset(c, dashboard.dataset(0))),
        ("organizations", path::organizations(c)),
        ("organization", path::organization(c, dashboard.own)),
        ("models", path::models(c)),
        ("model", path::model(c, dashboard.model)),
        ("certificate", path::certificate(c, dashboard.finished)),
        ("report", path::report(c, dashboard.finished)),
        ("report-running", path::report(c, dashboard.running)),
        ("ledger", path::ledger(c)),
        ("questions", path::questions(c)),
        ("annotate", format!("{}?trail={}", path::annotate(c, dashboard.asking), dashboard.question(3))),
        ("annotate-over", path::annotate(c, dashboard.asked)),
        ("job-asking", path::job(c, dashboard.asking)),
        ("job-asked", path::job(c, dashboard.asked)),
        ("report-asking", path::report(c, dashboard.asking)),
        ("report-asked", path::report(c, dashboard.asked)),
        ("dataset-recordings", path::dataset(c, dashboard.recordings_id(1))),
        ("dataset-recordings-public", path::dataset(c, dashboard.recordings_id(0))),
        ("job-offered", path::job(c, dashboard.offered)),
        ("review-offered", path::review(c, dashboard.offered, dashboard.recordings_id(1))),
        ("job-hearing", path::job(c, dashboard.hearing)),
        ("job-heard", path::job(c, dashboard.heard)),
        ("job-heard-public", path::job(c, dashboard.heard_public)),
        ("report-hearing", path::report(c, dashboard.hearing)),
        ("report-heard", path::report(c, dashboard.heard)),
        ("report-heard-public", path::report(c, dashboard.heard_public)),
    ]
}

/// Returns who opens a page: the operator for the accounts of the server, the steward for everything else.
fn caller_of(dashboard: &TestDashboard, address: &str) -> Caller {
    Caller::Member(if address == path::ACCOUNTS { dashboard.operator_session } else { dashboard.session })
}

/// Writes the pages to the folder `UNDERTONE_PAGES`, if it is set, for inspection.
fn keep(name: &str, page: &str) {
    if let Ok(folder) = std::env::var("UNDERTONE_PAGES") {
        let folder = std::path::Path::new(&folder);
        for asset in crate::assets() {
            let file = folder.join(asset.path.trim_start_matches('/'));
            file.parent().map(std::fs::create_dir_all).transpose().expect("the folder can be made");
            std::fs::write(file, asset.bytes).expect("the folder can be written");
        }
        std::fs::write(folder.join(format!("{name}.html")), page).expect("the folder can be written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_complete_without_a_script() {
    let dashboard = TestDashboard::open().await;
    for (name, address) in addresses(&dashboard) {
        let page = dashboard.render_for(&caller_of(&dashboard, &address), &address, "").await;
        assert_eq!(page.status, 200, "{address}: {}", page.body);
        assert!(page.body.contains("<h1>"), "{address} has no heading");
        assert!(page.body.contains("</html>"), "{address} ends early");
        assert!(page.body.contains("id=\"main\""), "{address} has no main part");
        keep(name, &page.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entry_pages_need_no_session() {
    let dashboard = TestDashboard::open().await;
    let link = dashboard.make_link(InvitationPurpose::Organization { consortium: dashboard.consortium }).await;
    let reset = dashboard.make_reset("steward-of-north@example.org").await;
    for (name, address) in [
        ("sign-in", "/sign-in".to_owned()),
        ("accept", format!("/accept/{link}")),
        ("code", "/sign-in/code".to_owned()),
        ("reset", format!("/reset/{reset}")),
    ] {
        let page = dashboard.render(&address, false, "").await;
        assert_eq!(page.status, 200, "{address}: {}", page.body);
        assert!(page.body.contains("<form"), "{address} has no form");
        keep(name, &page.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signed_out_visitor_is_redirected_to_sign_in() {
    let dashboard = TestDashboard::open().await;
    for (_, address) in addresses(&dashboard) {
        let page = dashboard.render(&address, false, "").await;
        assert_eq!(page.status, 302, "{address}");
        assert!(page.location().starts_with("/sign-in?to=%2F"), "{address} leads to {}", page.location());
    }
    let back = dashboard.render("/sign-in?to=%2Fc%2F1", false, "").await;
    assert!(back.body.contains("name=\"to\" value=\"/c/1\""), "{}", back.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_address_is_not_found() {
    let dashboard = TestDashboard::open().await;
    for address in ["/c/00000000-0000-0000-0000-000000000999", "/nowhere", "/c/x/jobs"] {
        assert_eq!(dashboard.render(address, true, "").await.status, 404, "{address}");
    }
    assert_eq!(dashboard.render("/accept/spent", false, "").await.status, 410);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_forbids_foreign_scripts() {
    let dashboard = TestDashboard::open().await;
    let page = dashboard.render("/settings", true, "").await;
    let policy = page.headers.get("content-security-policy").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let nonce = policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).unwrap_or_default();
    assert!(nonce.len() >= 16, "{policy}");
    assert!(!policy.contains("unsafe-inline"), "{policy}");
    for script in page.body.split("<script").skip(1) {
        let tag = script.split('>').next().unwrap_or_default();
        assert!(
            tag.contains(&format!("nonce=\"{nonce}\"")) || tag.contains("src="),
            "an inline script has no nonce: {tag}"
        );
    }
    assert!(!page.body.contains(" style=\""), "inline styles are forbidden by the page's own policy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_cookies_are_passed_on_unchanged() {
    let dashboard = TestDashboard::open().await;
    let body = format!("email=deputy-of-north%40example.org&password={}&to=%2Fc%2F1", PASSWORD.replace(' ', "+"));
    let came = dashboard.send_for(&Caller::Visitor, "sign-in", &body, true).await;
    assert_eq!((came.status.as_u16(), came.location()), (302, "/c/1"));
    let cookies = came.cookies();
    assert!(cookies.iter().all(|cookie| cookie.contains("; HttpOnly; SameSite=Lax; Path=/")), "{cookies:?}");
    let value = |name: &str| {
        let pairs = cookies.iter().filter_map(|cookie| cookie.split(';').next()?.split_once('='));
        pairs.filter(|(own, _)| *own == name).map(|(_, value)| value).next().expect("the cookie is set")
    };
    let entered = session::signed_in(dashboard.ctx(), value("undertone-access")).await.expect("the token is whole");
    assert_eq!(entered.id(), dashboard.colleague);
    session::refresh(dashboard.ctx(), value("undertone-refresh")).await.expect("the token is whole");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_form_returns_with_the_reason() {
    let dashboard = TestDashboard::open().await;
    let came = dashboard.send_for(&Caller::Visitor, "sign-in", "email=a%40b.example&password=wrong", true).await;
    assert_eq!((came.status.as_u16(), came.location()), (302, "/from?x=1"));
    let page = dashboard.render("/sign-in", false, came.message_cookie()).await;
    assert!(page.body.contains("E-mail or password is wrong"), "{}", page.body);
    assert!(page.cookies().iter().any(|cookie| cookie.starts_with("undertone-word=;")), "the word is said once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_states_costs_signers_and_verification() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let running = dashboard.running;
    let finished = dashboard.finished;
    let page = dashboard.render(&path::certificate(consortium, finished), true, "").await.body;
    for said in [
        "At most",
        "for any one speaker",
        "One person may be in the data of up to 2 organizations",
        "Declared by Steward of North",
        "Rényi, for this job alone",
        "a job that stopped early is priced in full",
        "Tight, for this job alone",
        "with that part emptied; how many speakers there are is public",
        "clipped to norm",
        "4 paid, of 8 planned; the figures count all planned releases",
        "Treated as public, not covered by any ε",
        "the expected batch of",
        "canaries measured at least",
        "undertone-server certificate verify certificate-",
        "Approved by the server's word: the site verified no signature of a steward.",
        "href=\"/api/v1/schemas/certificate.json\"",
        "Verify now",
        "data-point=\"receipts\"",
        "Each receipt is charged in the log of the server, under the signed head.",
        "src=\"/assets/verify.js\"",
        "undertone-worker certificate FILE",
    ] {
        assert!(page.contains(said), "the certificate does not say {said:?}: {page}");
    }
    for attribute in ["href", "data-verify"] {
        let file = format!("{attribute}=\"/api/v1/jobs/{finished}/certificate\"");
        assert!(page.contains(&file), "{file}");
    }
    assert!(page.contains(&format!("data-job=\"{finished}\"")), "the script compares the job of the file");
    assert!(page.contains(" --server-key HEX"), "the command does not pin the key of the file");
    let running = dashboard.render(&path::certificate(consortium, running), true, "").await;
    assert_eq!(running.status, 409, "there is none of a job that is not over");
    for leads in [path::job(consortium, finished), path::models(consortium)] {
        let way = format!("href=\"{}\"", path::certificate(consortium, finished));
        assert!(
            dashboard.render(&leads, true, "").await.body.contains(&way),
            "{leads} does not lead to the certificate"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raised_limit_shows_the_sum_of_its_promises() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = dashboard.render(&path::dataset(consortium, dashboard.dataset(1)), true, "").await.body;
    assert!(page.contains("each limit is a separate guarantee") && page.contains(" + ε 8"), "{page}");
    let other = dashboard.render(&path::dataset(consortium, dashboard.dataset(3)), true, "").await.body;
    assert!(!other.contains("each limit is a separate guarantee"), "one limit is one promise: {other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admin_declares_the_overlap_rule() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let overview = dashboard.render(&path::overview(consortium), true, "").await.body;
    assert!(overview.contains("action=\"/ui/attest-overlap\""), "{overview}");
    let rule = "One person may be in the data of up to 2 organizations";
    assert!(overview.contains(rule), "{overview}");
    assert!(dashboard.render(&path::dataset(consortium, dashboard.dataset(1)), true, "").await.body.contains(rule));
    let body = format!("consortium={consortium}&overlap=disjoint&most=2&statement=different+countries");
    let came = dashboard.send("attest-overlap", &body, true).await;
    assert_eq!((came.status.as_u16(), came.location()), (302, path::overview(consortium).as_str()), "{}", came.body);
    let bare = dashboard.send("attest-overlap", &body.replace("different+countries", ""), true).await;
    assert_eq!(bare.location(), "/from?x=1", "a claim without grounds goes back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enrolment_token_is_shown_with_its_command() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let own = dashboard.own;
    let came = dashboard.send("enrol", &format!("consortium={consortium}&organization={own}&name=ward+7"), true).await;
    let cookies = came.cookies();
    assert!(cookies.iter().all(|cookie| cookie.contains("HttpOnly")), "{cookies:?}");
    let page = dashboard.render(came.location(), true, came.message_cookie()).await;
    assert!(page.body.contains("undertone-worker enroll ute1.eyJzZXJ2ZXIi"), "{}", page.body);
    keep("organization-token", &page.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_link_has_the_selected_roles() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let own = dashboard.own;
    let page = dashboard.render(&path::organization(consortium, own), true, "").await.body;
    for role in ["data_steward", "researcher", "organization_admin", "auditor", "annotator"] {
        assert!(page.contains(&format!("name=\"roles[]\" value=\"{role}\"")), "{role}: {page}");
    }
    let body = format!("consortium={consortium}&organization={own}&label=ward+7");
    let came =
        dashboard.send("invite-member", &format!("{body}&roles%5B%5D=annotator&roles%5B%5D=auditor"), true).await;
    assert_eq!(
        (came.status.as_u16(), came.location()),
        (302, path::organization(consortium, own).as_str()),
        "{}",
        came.body
    );
    let none = dashboard.send("invite-member", &body, true).await;
    assert_eq!(none.location(), "/from?x=1", "a link without a role goes back");
    let annotator = dashboard.send("invite-annotator", &format!("consortium={consortium}&label=ward+7"), true).await;
    assert_eq!(annotator.location(), path::questions(consortium), "{}", annotator.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_proposal_shows_the_budget_figures() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = dashboard.render(&path::plan_of(consortium, "speech"), true, "").await;
    let came = dashboard.send("propose-dp-sgd", &excessive_plan(&page.body), true).await;
    assert_eq!((came.status.as_u16(), came.location()), (302, "/from?x=1"), "{}", came.body);
    let page = dashboard.render(&path::plan_of(consortium, "speech"), true, came.message_cookie()).await;
    assert!(page.body.contains(" releases of this kind would fit"), "{}", page.body);
    keep("plan-refused", &page.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_planner_form_proposes_a_job() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = dashboard.render(&path::plan_of(consortium, "speech"), true, "").await;
    let body = planner_fields(&page.body).replace("plan%5Btitle%5D=", "plan%5Btitle%5D=by+hand");
    let came = dashboard.send("propose-dp-sgd", &body, true).await;
    let job = dashboard.newest_job().await;
    assert_eq!(job.title, "by hand", "{}", came.body);
    assert_eq!((came.status.as_u16(), came.location()), (302, path::job(consortium, job.id).as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn island_gets_values_and_problems_not_redirects() {
    let dashboard = TestDashboard::open().await;
    let came = dashboard.send("propose-dp-sgd", "consortium=x", false).await;
    assert!(came.status.is_server_error() || came.status.is_client_error());
    assert!(came.location().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_island_gets_html_and_status() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = dashboard.render(&path::plan_of(consortium, "speech"), true, "").await.body;
    let came = dashboard.send("propose-dp-sgd", &excessive_plan(&page), false).await;
    assert_eq!(came.status, 409, "{}", came.body);
    let text: String = serde_json::from_str(&came.body).expect("a text");
    assert!(
        text.contains("class=\"refusals\"") && text.contains("ward-a (speaker): ε ") && text.contains(" of 8.00"),
        "{text}"
    );
}

/// Returns the planner's form with more rounds than any budget has room for.
fn excessive_plan(page: &str) -> String {
    let fields = planner_fields(page).replace("plan%5Btitle%5D=", "plan%5Btitle%5D=too+much");
    fields.replace("plan%5Brounds%5D=40", "plan%5Brounds%5D=9000")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_form_lists_its_effects() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let proposed = dashboard.proposed;
    let running = dashboard.running;
    let page = dashboard.render(&path::job(consortium, proposed), true, "").await.body;
    assert!(page.contains("action=\"/ui/approve\"") && page.contains("action=\"/ui/refuse\""));
    assert!(page.contains("Reserves 44 releases of ward-a"), "{page}");
    assert!(page.contains("left for all other jobs, for life"));
    let running = dashboard.render(&path::job(consortium, running), true, "").await.body;
    assert!(!running.contains("action=\"/ui/approve\""), "there is nothing to approve in a running job");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_shows_claim_beside_measurement() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let running = dashboard.running;
    let finished = dashboard.finished;
    let page = dashboard.render(&path::job(consortium, finished), true, "").await.body;
    assert!(page.contains("Passed: no measurement exceeds its claim."), "{page}");
    assert!(page.contains("261 of 500 guesses correct about 1,000 gradients"), "{page}");
    assert!(page.contains("Below the claim; it could have disproved the claim.") && page.contains("at least ε"));
    let running = dashboard.render(&path::job(consortium, running), true, "").await.body;
    assert!(!running.contains("<h2>Audit</h2>"), "nothing is said where nothing was promised");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_dataset_shows_reason_and_clear_form() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let measured = "an audit measured at least ε 3.370 where at most 1.310 was claimed";
    dashboard.freeze(dashboard.running, dashboard.dataset(2), measured).await;
    let overview = dashboard.render(&path::overview(consortium), true, "").await.body;
    assert!(overview.contains("<h2>Frozen</h2>"), "everybody is told: {overview}");
    let page = dashboard.render(&path::dataset(consortium, dashboard.dataset(2)), true, "").await.body;
    assert!(page.contains("No job can reserve budget on this dataset."), "{page}");
    assert!(page.contains("where at most 1.310 was claimed") && page.contains("action=\"/ui/clear-freeze\""));
    let ids = format!("consortium={consortium}&dataset={}", dashboard.dataset(2));
    let came = dashboard.send("clear-freeze", &format!("{ids}&reason=the+noise+was+compiled+out"), true).await;
    assert_eq!(
        (came.status.as_u16(), came.location()),
        (302, path::dataset(consortium, dashboard.dataset(2)).as_str())
    );
    let short = dashboard.send("clear-freeze", &format!("{ids}&reason=ok"), true).await;
    assert_eq!(short.location(), "/from?x=1", "a word without grounds goes back");
}

/// Returns the fields that a browser would post for the planner's form: named, enabled fields, checked boxes, texts.
pub(super) fn planner_fields(page: &str) -> String {
    let form = page
        .split("action=\"/ui/propose-dp-sgd\"")
        .nth(1)
        .and_then(|rest| rest.split("</form>").next())
        .expect("the planner");
    let attribute = |tag: &str, name: &str| {
        tag.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned)
    };
    let encode = |text: &str| {
        text.bytes()
            .map(|b| {
                if b.is_ascii_alphanumeric() || b"-._".contains(&b) {
                    char::from(b).to_string()
                } else {
                    format!("%{b:02X}")
                }
            })
            .collect::<String>()
    };
    let mut pairs = Vec::new();
    for tag in form.split('<') {
        let Some(name) = attribute(tag, "name") else { continue };
        if tag.starts_with("input ") && !tag.contains(" disabled") {
            let boxed = tag.contains("type=\"checkbox\"");
            if !boxed || tag.contains(" checked") {
                pairs.push((name, attribute(tag, "value").unwrap_or_default()));
            }
        } else if tag.starts_with("select") {
            let options = form.split(tag).nth(1).and_then(|rest| rest.split("</select>").next()).unwrap_or_default();
            let selection = options
                .split("<option")
                .find(|option| option.contains(" selected"))
                .or(options.split("<option").nth(1));
            pairs.push((name, selection.and_then(|option| attribute(option, "value")).unwrap_or_default()));
        } else if tag.starts_with("textarea") {
            pairs.push((name, tag.split_once('>').map(|(_, text)| text.to_owned()).unwrap_or_default()));
        }
    }
    pairs.into_iter().map(|(name, value)| format!("{}={}", encode(&name), encode(&value))).collect::<Vec<_>>().join("&")
}

/// Two compilers build the two halves of an island; its id must be the same in both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bundle_has_every_island_of_the_pages() {
    let dashboard = TestDashboard::open().await;
    let dist = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("dist");
    let read = |name: &str| std::fs::read_to_string(dist.join(format!("{name}.js")));
    let (Ok(most), Ok(planner)) = (read("undertone"), read(path::PLANNER_BUNDLE)) else {
        eprintln!("no bundle in app/dist: run .ci/bundle.sh to have this checked");
        return;
    };
    let mut islands = 0;
    for (_, address) in addresses(&dashboard) {
        let page = dashboard.render_for(&caller_of(&dashboard, &address), &address, "").await.body;
        let loader = if page.contains("/pkg/planner.js") { &planner } else { &most };
        for island in page.split("data-component=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(
                loader.contains(&format!("function {island}(")),
                "{island} of {address} is not in the bundle: run .ci/bundle.sh"
            );
            islands += 1;
        }
    }
    assert!(islands > 0, "pages have islands");
}
