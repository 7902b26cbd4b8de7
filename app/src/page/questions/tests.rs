//! Questions in a browser without wasm: plain pages, plain forms.

use std::collections::BTreeMap;

use undertone_api::id::QuestionId;

use crate::path;
use crate::testing::TestDashboard;

/// Returns the value of a hidden field.
fn hidden_value<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    page.split(&format!("name=\"{name}\" value=\"")).nth(1).and_then(|rest| rest.split('"').next())
}

fn posted_form(dashboard: &TestDashboard, question: Option<QuestionId>, trail: &str, answer: &str) -> String {
    let consortium = dashboard.consortium;
    let asking = dashboard.asking;
    let question = question.map_or_else(String::new, |id| format!("&question={id}"));
    format!("consortium={consortium}&job={asking}&trail={trail}&answer={answer}{question}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_list_shows_progress_and_links() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let asking = dashboard.asking;
    let page = dashboard.render(&path::questions(consortium), true, "").await.body;
    for said in ["What callers want", "6 of 10", "1 of 5 done", "3 people, 16 answers", ">κ</abbr>", "0.77"] {
        assert!(page.contains(said), "the list does not say {said:?}: {page}");
    }
    assert!(page.contains(&format!("href=\"{}\"", path::annotate(consortium, asking))), "{page}");
    let here = page.split("aria-current=\"page\"").nth(1).unwrap_or_default();
    assert!(here.split("</a>").next().is_some_and(|link| link.contains("Questions")), "the rail shows where this is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_page_has_a_button_and_key_for_each_label() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let asking = dashboard.asking;
    let page = dashboard.render(&path::annotate(consortium, asking), true, "").await.body;
    assert!(page.contains("can you move my appointment to the week after next"), "{page}");
    assert_eq!(hidden_value(&page, "question"), Some(dashboard.question(0).to_string().as_str()));
    for (label, key) in [("Appointment", "a"), ("Medication", "m"), ("Record or letter", "1"), ("Something else", "0")]
    {
        assert!(page.contains(&format!("value=\"label:{label}\"")), "{label}: {page}");
        assert!(page.contains(&format!("aria-keyshortcuts=\"{key}\"")), "{label} has no key: {page}");
    }
    for said in [
        "aria-keyshortcuts=\"u\"",
        "aria-keyshortcuts=\"s\"",
        "2 of 6 of this round",
        "Label what the person wants done",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains("name=\"typed\""), "every label has a key, so nothing is typed");
    assert!(page.contains("undo the last answer</dd>"), "the list of keys has the page's own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_text_is_escaped() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let asking = dashboard.asking;
    let first = dashboard.question(1);
    let page = dashboard.render(&format!("{}?first={first}", path::annotate(consortium, asking)), true, "").await.body;
    assert_eq!(hidden_value(&page, "question"), Some(first.to_string().as_str()), "what was taken back is shown first");
    assert!(page.contains("14th &lt;or&gt; later?") && !page.contains("<or>"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_answer_leads_to_next_question_and_can_be_undone() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let asking = dashboard.asking;
    let came = dashboard
        .send("annotate", &posted_form(&dashboard, Some(dashboard.question(0)), "", "label%3AAppointment"), true)
        .await;
    let next = format!("{}?trail={}", path::annotate(consortium, asking), dashboard.question(0));
    assert_eq!((came.status.as_u16(), came.location()), (302, next.as_str()), "{}", came.body);
    let page = dashboard.render(came.location(), true, "").await.body;
    assert_eq!(hidden_value(&page, "trail"), Some(dashboard.question(0).to_string().as_str()));
    let back = dashboard
        .send(
            "annotate",
            &posted_form(&dashboard, Some(dashboard.question(1)), &dashboard.question(0).to_string(), "undo"),
            true,
        )
        .await;
    let address = format!("{}?trail=&first={}", path::annotate(consortium, asking), dashboard.question(0));
    assert_eq!((back.status.as_u16(), back.location()), (302, address.as_str()), "{}", back.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn island_gets_the_next_turn_and_refusals() {
    let dashboard = TestDashboard::open().await;
    let came =
        dashboard.send("annotate", &posted_form(&dashboard, Some(dashboard.question(0)), "", "unsure"), false).await;
    let text: String = serde_json::from_str(&came.body).expect("a text");
    let turn: crate::answer::Turn = serde_json::from_str(&text).expect("a turn");
    assert!(came.status.is_success() && turn.open && turn.undo && turn.again.is_empty(), "{turn:?}");
    assert!(turn.question.contains(&dashboard.question(0).to_string()), "what was answered can be taken back");
    let closed = posted_form(&dashboard, Some(dashboard.closed_question), "", "skip");
    let response = dashboard.send("annotate", &closed, false).await;
    let text: String = serde_json::from_str(&response.body).expect("a text");
    assert!(response.status.is_client_error() && text.contains("he round of this question is closed"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_answer_is_refused() {
    let dashboard = TestDashboard::open().await;
    for (question, answer) in [
        (Some(dashboard.question(0)), "label%3ANone+of+these"),
        (Some(dashboard.question(0)), "typed"),
        (Some(dashboard.question(0)), "maybe"),
        (None, "skip"),
        (Some(dashboard.question(0)), "undo"),
    ] {
        let came = dashboard.send("annotate", &posted_form(&dashboard, question, "", answer), true).await;
        assert_eq!((came.status.as_u16(), came.location()), (302, "/from?x=1"), "{answer}: {}", came.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_without_a_question_gives_the_reason() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let finished = dashboard.finished;
    let asked = dashboard.asked;
    let page = dashboard.render(&path::annotate(consortium, asked), true, "").await.body;
    assert!(page.contains("The job is over. Thank you") && hidden_value(&page, "question").is_none(), "{page}");
    assert_eq!(
        dashboard.render(&path::annotate(consortium, finished), true, "").await.status,
        404,
        "that job asks nothing"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_are_exported_and_labels_imported() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let asking = dashboard.asking;
    let page = dashboard.render(&path::annotate(consortium, asking), true, "").await.body;
    for format in ["jsonl", "csv", "label_studio"] {
        let href = format!("href=\"/api/v1/jobs/{asking}/questions/export?format={format}\"");
        assert!(page.contains(&href), "{href}: {page}");
    }
    assert!(page.contains("action=\"/ui/import-labels\""), "{page}");
    let labels = [("where do i park", "Getting there"), ("how do i get a copy of my letter", "b")]
        .map(|(text, label)| serde_json::json!({ "text": text, "label": label }).to_string());
    let (consortium, asking) = (consortium.to_string(), asking.to_string());
    let fields = [("consortium", consortium), ("job", asking), ("labels", labels.join("\n"))];
    let body = serde_qs::to_string(&BTreeMap::from(fields)).expect("a form");
    let came = dashboard.send("import-labels", &body, true).await;
    let page = dashboard.render(came.location(), true, came.message_cookie()).await.body;
    assert!(page.contains("1 label taken. Left out: 1 with labels that the job does not have."), "{page}");
}
