//! The report of an active-learning job, on the page and as a file.

use crate::testing::TestDashboard;
use crate::{path, report_document};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_shows_learning_costs_and_agreement() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let asked = dashboard.asked;
    let page = dashboard.render(&path::report(consortium, asked), true, "").await.body;
    for said in [
        "of the examples are classified correctly after",
        "with the golden set alone it was",
        "Accuracy against labels",
        "Uncertainty of the remaining questions",
        "Confidence in the remaining questions",
        "round 5, kept",
        "Accuracy against β and k",
        "Released questions and δ against β and k",
        "As chosen, β 0.25 and k 20: ",
        "Of the tried gates with δ at most 10⁻⁴, none is more accurate.",
        "Accuracy against budget, β 0.25",
        "k 10, chosen",
        "Used for helpdesk-north: β 0.1, k 10; helpdesk-south: β 0.25, k 20.",
        "no released text has fewer than k kept rows",
        "Frequency of queries",
        "Annotator 3",
        "Questions by dataset, and their cost",
        "was kept with probability β, in secret",
    ] {
        assert!(page.contains(said), "the report does not say {said:?}: {page}");
    }
    assert!(
        !page.contains("Comparison of the arms") && !page.contains("of the frames"),
        "nothing is said of another kind"
    );
    assert!(!page.contains("NaN") && !page.contains("inf"), "every number is one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drawings_have_sentence_table_and_files() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let asked = dashboard.asked;
    let page = dashboard.render(&path::report(consortium, asked), true, "").await.body;
    let drawings = page.matches("<figure class=\"chart still").count();
    assert_eq!(drawings, 10, "a curve, two histograms, two heat maps, four rates, the frequencies");
    assert_eq!(page.matches("download=\"").count() - 2, 2 * drawings, "each has two files, the report two of its own");
    for drawing in page.split("<figure class=\"chart still").skip(1) {
        let label = drawing.split("aria-label=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        assert!(label.len() > 20 && label.ends_with('.'), "{label:?}");
        assert!(drawing.contains("<table") && drawing.contains("data:image/svg+xml;base64,"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_of_running_job_shows_its_curve() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let asking = dashboard.asking;
    let page = dashboard.render(&path::report(consortium, asking), true, "").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("No report yet.") && page.body.contains("Accuracy, held-out turns"), "{}", page.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_file_has_every_drawing_and_no_resources() {
    let dashboard = TestDashboard::open().await;
    let asked = dashboard.asked;
    let file = report_document(&dashboard.report(asked).await);
    for foreign in ["<script", "src=", "url(", "<link", "<form", "javascript:"] {
        assert!(!file.contains(foreign), "{foreign}");
    }
    for link in file.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(link.starts_with("data:text/csv") || link.starts_with("data:image/svg+xml"), "{link}");
    }
    assert_eq!(file.matches("<figure class=\"chart still").count(), 10);
}
