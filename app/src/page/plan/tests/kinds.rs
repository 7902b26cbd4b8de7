//! The cards of the kinds, and the decision for the form of one kind.

use serde_json::json;
use undertone_api::consortium::NewConsortium;
use undertone_api::dataset::{DatasetContent, DatasetRegistration, SizeClass, Visibility};
use undertone_api::id::ConsortiumId;
use undertone_api::job::NewDraft;
use undertone_api::member::JoinRequest;
use undertone_api::organization::{InvitationPurpose, NewInvitation};
use undertone_api::signed::{ApprovalRule, SiteApproval};
use undertone_privacy::PrivacyUnit;
use undertone_server_core::service::{consortium, invitation, job};
use undertone_server_core::testing::TestWorker;

use super::render_page;
use crate::kind::PlannerKind;
use crate::page::tests::planner_fields;
use crate::path;
use crate::testing::{Caller, TestDashboard, example};

/// The kinds that the datasets of the test consortium suffice for.
const POSSIBLE: [PlannerKind; 4] =
    [PlannerKind::Speech, PlannerKind::Evaluation, PlannerKind::Questions, PlannerKind::Transcription];

/// Registers a public and a private table of the steward's organization.
async fn add_tables(dashboard: &TestDashboard) {
    let steward = dashboard.actor(dashboard.session).await;
    let worker = TestWorker::enrol(dashboard.ctx(), &steward, dashboard.own, "worker-of-tables").await;
    let table = example::tables().swap_remove(0).table;
    for (name, visibility) in [("visits-public", Visibility::Public), ("visits", Visibility::Private)] {
        let registration = DatasetRegistration {
            name: name.to_owned(),
            lineage: dashboard.ctx().id(),
            visibility,
            content: DatasetContent::Table,
            inputs: 0,
            classes: 0,
            records: SizeClass(5000),
            speakers: SizeClass(1),
            test_records: 0,
            seconds: None,
            users: Some(SizeClass(1000)),
            table: table.clone(),
            units: vec![PrivacyUnit::User],
            approval: Some(SiteApproval { rule: ApprovalRule::Server, keys: Vec::new() }),
        };
        worker.register(dashboard.ctx(), &registration).await;
    }
}

/// Founds another consortium.
async fn found(dashboard: &TestDashboard) -> ConsortiumId {
    let new = NewConsortium {
        name: "Second".to_owned(),
        description: String::new(),
        organization: None,
        organization_name: None,
    };
    let operator = dashboard.actor(dashboard.operator_session).await;
    consortium::create(dashboard.ctx(), &operator, &new).await.expect("an operator may found").id
}

/// Founds another consortium with the steward's organization. Of its datasets, the recordings alone can begin a job.
async fn found_with_own(dashboard: &TestDashboard) -> ConsortiumId {
    let consortium = found(dashboard).await;
    let operator = dashboard.actor(dashboard.operator_session).await;
    let new = NewInvitation { purpose: InvitationPurpose::Organization { consortium }, label: "for a test".to_owned() };
    let link = invitation::create(dashboard.ctx(), &operator, &new).await.expect("a founder may invite").link;
    let link = link.expect("the answer that made it holds it");
    let secret = link.rsplit('/').next().expect("a link has parts");
    let own = JoinRequest { organization: Some(dashboard.own), organization_name: None };
    let steward = dashboard.actor(dashboard.session).await;
    invitation::join(dashboard.ctx(), &steward, secret, &own).await.expect("an admin may join");
    consortium
}

/// Returns the number of planners on a page, and asserts that the form of the kind is there.
fn count_forms(page: &str, form: &str) -> usize {
    assert!(page.contains(&format!("id=\"{form}\"")), "{form} is not in {page}");
    page.matches(" class=\"planner").count() - page.matches(" class=\"planner-").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_possible_kinds_are_cards() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = render_page(&dashboard, &path::plan(consortium)).await;
    assert!(!page.contains("action=\"/ui/propose-") && !page.contains("role=\"alert\""), "no form: {page}");
    for kind in PlannerKind::ALL {
        assert!(page.contains(kind.purpose()), "{kind:?}: {page}");
        let link = format!("<h2><a href=\"{}\">{}</a></h2>", path::plan_of(consortium, kind.word()), kind.title());
        assert_eq!(page.contains(&link), POSSIBLE.contains(&kind), "{kind:?}: {page}");
        assert_eq!(page.contains(kind.requirement()), !POSSIBLE.contains(&kind), "{kind:?}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_has_its_own_form_and_its_tab() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let forms = ["plan-dp-sgd", "plan-evaluation", "plan-active-learning", "plan-transcription"];
    for (kind, form) in POSSIBLE.into_iter().zip(forms) {
        let page = render_page(&dashboard, &path::plan_of(consortium, kind.word())).await;
        assert_eq!(count_forms(&page, form), 1, "{kind:?}: {page}");
        let tabs = page.split("<nav aria-label=\"Kinds of jobs\">").nth(1).and_then(|rest| rest.split("</nav>").next());
        let tabs = tabs.expect("the tabs of the kinds");
        assert!(tabs.contains(&format!("<a href=\"{}\">Kinds of jobs</a>", path::plan(consortium))), "{tabs}");
        for other in PlannerKind::ALL {
            let link = format!("<a href=\"{}\"", path::plan_of(consortium, other.word()));
            assert_eq!(tabs.contains(&link), POSSIBLE.contains(&other), "{other:?}: {tabs}");
        }
        let present = format!("<a href=\"{}\" aria-current=\"page\">", path::plan_of(consortium, kind.word()));
        assert!(tabs.contains(&present) && tabs.matches("aria-current").count() == 1, "{tabs}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_or_impossible_kind_shows_the_cards_with_a_notice() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let unknown = render_page(&dashboard, &path::plan_of(consortium, "%3Cb%3E")).await;
    assert!(unknown.contains("The planner has no kind of job “&lt;b&gt;”"), "{unknown}");
    let impossible = render_page(&dashboard, &path::plan_of(consortium, "rows")).await;
    let notice = format!("not possible in this consortium. {}", PlannerKind::Rows.requirement());
    assert!(impossible.contains(&notice), "{impossible}");
    let saved = render_page(&dashboard, &format!("{}?analytics[sql]=SELECT", path::plan(consortium))).await;
    assert!(saved.contains(PlannerKind::Analytics.requirement()) && saved.contains("role=\"alert\""), "{saved}");
    for page in [unknown, impossible, saved] {
        assert!(page.contains("kind-cards") && !page.contains("action=\"/ui/propose-"), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_possible_kind_opens_its_form_at_once() {
    let dashboard = TestDashboard::open().await;
    let consortium = found_with_own(&dashboard).await;
    let page = render_page(&dashboard, &path::plan(consortium)).await;
    assert_eq!(count_forms(&page, "plan-transcription"), 1, "{page}");
    assert!(!page.contains("kind-cards") && !page.contains("aria-label=\"Kinds of jobs\""), "no choice: {page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_of_questions_leads_to_their_own_form() {
    let dashboard = TestDashboard::open().await;
    let consortium = found_with_own(&dashboard).await;
    let page = render_page(&dashboard, &path::questions(consortium)).await;
    let link = path::plan_of(consortium, PlannerKind::Questions.word());
    assert!(page.contains(&format!("href=\"{link}\"")), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consortium_without_datasets_shows_every_requirement() {
    let dashboard = TestDashboard::open().await;
    let consortium = found(&dashboard).await;
    let page = dashboard.render_for(&Caller::Member(dashboard.operator_session), &path::plan(consortium), "").await;
    assert_eq!(page.status, 200, "{}", page.body);
    for kind in PlannerKind::ALL {
        assert!(page.body.contains(kind.requirement()), "{kind:?}: {}", page.body);
    }
    let datasets = format!("<a href=\"{}\">See the datasets</a>", path::datasets(consortium));
    assert!(page.body.contains(&datasets) && !page.body.contains("?kind="), "{}", page.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trainings_on_speech_and_on_tables_are_planned_beside_each_other() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    add_tables(&dashboard).await;
    let cards = render_page(&dashboard, &path::plan(consortium)).await;
    assert_eq!(cards.matches("?kind=").count(), PlannerKind::ALL.len(), "{cards}");
    let speech = render_page(&dashboard, &path::plan_of(consortium, "speech")).await;
    assert!(speech.contains("ward-a") && !speech.contains("visits"), "{speech}");
    let rows = render_page(&dashboard, &path::plan_of(consortium, "rows")).await;
    assert!(rows.contains("visits-public") && !rows.contains("ward-a"), "{rows}");
    assert!(rows.contains("name=\"plan[rows]\"") && !speech.contains("name=\"plan[rows]\""), "{rows}");
    let evaluation = render_page(&dashboard, &path::plan_of(consortium, "evaluation")).await;
    assert!(evaluation.contains("visits") && evaluation.contains("ward-a"), "{evaluation}");

    // The form of rows, sent to the page again without a word, stays the form of rows.
    let fields = planner_fields(&rows).replace("plan%5Btitle%5D=", "plan%5Btitle%5D=Returns");
    let again = render_page(&dashboard, &format!("{}?{fields}", path::plan(consortium))).await;
    assert!(again.contains("value=\"Returns\"") && again.contains("name=\"plan[rows]\""), "{again}");
    // A plan of rows has no place in the form of speech.
    let speech = render_page(&dashboard, &format!("{}&{fields}", path::plan_of(consortium, "speech"))).await;
    assert!(speech.contains("ward-a") && !speech.contains("value=\"Returns\""), "{speech}");

    let came = dashboard.send("draft-dp-sgd", &fields, true).await;
    let draft = dashboard.newest_draft().await;
    assert_eq!(came.location(), path::draft(consortium, draft.id), "{}", came.body);
    let opened = render_page(&dashboard, &path::reopen(consortium, draft.id)).await;
    assert!(opened.contains("Draft Returns") && opened.contains("name=\"plan[rows]\""), "{opened}");
    assert!(!opened.contains("ward-a") && !opened.contains("has no field for these values"), "{opened}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plan_over_tables_is_rehearsed_from_the_planner() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    add_tables(&dashboard).await;
    let planner = render_page(&dashboard, &path::plan_of(consortium, "rows")).await;
    assert!(planner.contains("formaction=\"/ui/rehearse-dp-sgd\""), "{planner}");
    let fields = planner_fields(&planner).replace("plan%5Btitle%5D=", "plan%5Btitle%5D=Returns");
    let came = dashboard.send("rehearse-dp-sgd", &fields, true).await;
    let job = dashboard.newest_job().await;
    assert_eq!(job.title, "Rehearsal: Returns", "{}", came.body);
    assert_eq!(came.location(), path::job(consortium, job.id));
    let page = render_page(&dashboard, came.location()).await;
    assert!(page.contains("parts of the lead’s public data take the roles"), "{page}");
    let link = page.split("Open the rehearsed plan").next().and_then(|rest| rest.rsplit("href=\"").next());
    let link = link.and_then(|rest| rest.split('"').next()).expect("a link").replace("&amp;", "&");
    let planner = render_page(&dashboard, &link).await;
    assert!(planner.contains("name=\"plan[rows]\"") && planner.contains("value=\"Returns\""), "{planner}");
    assert!(planner.contains("Rehearsed on public data") && planner.contains("the rehearsal is queued."), "{planner}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saved_plan_opens_its_kind_without_a_word() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    for (field, form) in [
        ("plan[rounds]", "plan-dp-sgd"),
        ("evaluation[title]", "plan-evaluation"),
        ("ask[title]", "plan-active-learning"),
        ("hear[title]", "plan-transcription"),
    ] {
        let page = render_page(&dashboard, &format!("{}?{field}=1", path::plan(consortium))).await;
        assert_eq!(count_forms(&page, form), 1, "{field}: {page}");
    }
    let form = render_page(&dashboard, &path::plan_of(consortium, "speech")).await;
    let fields = planner_fields(&form).replace("plan%5Btitle%5D=", "plan%5Btitle%5D=Kept");
    let page = render_page(&dashboard, &format!("{}?{fields}", path::plan(consortium))).await;
    assert!(page.contains("value=\"Kept\"") && count_forms(&page, "plan-dp-sgd") == 1, "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draft_without_its_datasets_leads_back() {
    let dashboard = TestDashboard::open().await;
    let consortium = found_with_own(&dashboard).await;
    let steward = dashboard.actor(dashboard.session).await;
    let new = NewDraft { title: "Later".to_owned(), kind: "dp_sgd".to_owned(), spec: json!({}) };
    let draft = job::draft_create(dashboard.ctx(), &steward, consortium, &new).await.expect("a researcher may draft");
    let page = render_page(&dashboard, &path::reopen(consortium, draft.id)).await;
    assert!(page.contains(PlannerKind::Speech.requirement()), "{page}");
    let back = format!("<a href=\"{}\">Back to the draft</a>", path::draft(consortium, draft.id));
    assert!(page.contains(&back) && !page.contains("action=\"/ui/propose-"), "{page}");
}
