//! The report of a transcription, on the page and as a file; and the other pages about its recordings and its approval.

use crate::testing::TestDashboard;
use crate::{path, report_document};

/// Renders a page by its address.
async fn render_page(dashboard: &TestDashboard, address: &str) -> String {
    dashboard.render(address, true, "").await.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_recordings_report_has_promises_and_local_files() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let heard = dashboard.heard;
    let page = render_page(&dashboard, &path::report(consortium, heard)).await;
    let folder = format!("transcripts/{heard}/");
    for said in [
        "The transcript stays at the site.",
        "ε by number of colluding recognizers",
        "Count of a word at one recognizer",
        "undertone-worker received ",
        "Omitted data and their location",
        folder.as_str(),
        "histogram.tsv",
        "report.json",
        "None of it was ever sent to this server.",
    ] {
        assert!(page.contains(said), "the report does not say {said:?}: {page}");
    }
    for untold in [
        ">Word error rate<",
        "Word error rate on ",
        "Attacks by a recognizer",
        "Untried attacks",
        "Counts of words",
        "Topic distance",
        ">NaN",
    ] {
        let shown = page.split_once(untold).map(|(_, rest)| rest.chars().take(200).collect::<String>());
        assert_eq!(shown, None, "{untold:?} is shown for private recordings");
    }
    assert_eq!(
        page.matches("<figure class=\"chart still").count(),
        2,
        "promises and noise are drawn, and nothing else"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn public_recordings_report_draws_the_outcome() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let heard_public = dashboard.heard_public;
    let page = render_page(&dashboard, &path::report(consortium, heard_public)).await;
    for said in [
        "of the words are wrong.",
        ">Word error rate<",
        "Word error rate on ",
        "cloud alone",
        "offline alone",
        "Counts of words, as said and as heard by cloud-b",
        "Topic distance",
        "Attacks by a recognizer",
        "Vertical line: guessing",
        "Untried attacks:",
        "cloud-c: fewer than 10 true pieces or fewer than 10 dummies were answered: too few to learn from.",
        "Money by recognizer, USD",
        "Time by step",
    ] {
        assert!(page.contains(said), "the report does not say {said:?}: {page}");
    }
    let drawings = page.matches("<figure class=\"chart still").count();
    assert_eq!(drawings, 10, "promises, noise, errors, three histograms, topics, attacks, money, time");
    assert_eq!(page.matches("download=\"").count() - 2, 2 * drawings, "each has two files, the report two of its own");
    for drawing in page.split("<figure class=\"chart still").skip(1) {
        let label = drawing.split("aria-label=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        assert!(label.len() > 20 && label.ends_with('.'), "{label:?}");
        assert!(drawing.contains("<table") && drawing.contains("data:image/svg+xml;base64,"));
    }
    assert!(!page.contains(">NaN") && !page.contains("\"NaN"), "every number is one");
    assert!(!page.contains("Omitted data and their location"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_file_has_every_drawing_and_no_resources() {
    let dashboard = TestDashboard::open().await;
    let heard_public = dashboard.heard_public;
    let file = report_document(&dashboard.report(heard_public).await);
    for foreign in ["<script", "src=", "url(", "<link", "<form", "javascript:"] {
        assert!(!file.contains(foreign), "{foreign}");
    }
    assert_eq!(file.matches("<figure class=\"chart still").count(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_job_has_no_result_and_finished_one_has() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let hearing = dashboard.hearing;
    let heard = dashboard.heard;
    let hearing = render_page(&dashboard, &path::report(consortium, hearing)).await;
    assert!(
        hearing.contains("3 recognizers, each for one part.") && !hearing.contains("Recognition and protection"),
        "{hearing}"
    );
    let finished = render_page(&dashboard, &path::job(consortium, heard)).await;
    for said in
        ["The transcript of dictations stays at its site", "Not shown here", "one recognizer, as charged", "Dummies"]
    {
        assert!(finished.contains(said), "{said:?} is not in {finished}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decision_on_recordings_names_the_recipients() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let offered = dashboard.offered;
    let page = render_page(&dashboard, &path::job(consortium, offered)).await;
    for said in [
        "Decide for dictations",
        "for cloud-a, cloud-b and cloud-c: companies outside this consortium",
        "Approve and reserve ε",
        "Refuse the job",
    ] {
        assert!(page.contains(said), "{said:?} is not in {page}");
    }
    let review = dashboard.render(&path::review(consortium, offered, dashboard.recordings_id(1)), true, "").await.body;
    assert!(review.contains("Disclosures") && review.contains("Privacy cost"), "{review}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recordings_page_states_their_length_only() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = render_page(&dashboard, &path::dataset(consortium, dashboard.recordings_id(1))).await;
    for said in [
        "Recordings to transcribe",
        "Total length",
        "about 14 hours",
        "Budget for counts of pieces by word",
        "Compared are counts of pieces by word that differ by as many as a job states",
    ] {
        assert!(page.contains(said), "{said:?} is not in {page}");
    }
    assert!(!page.contains("Frames") && !page.contains("held out"), "{page}");
}
