//! The report in a browser without wasm, and as a file.

use super::document;
use crate::path;
use crate::testing::TestDashboard;

/// Writes the file to the folder `UNDERTONE_PAGES`, if it is set, for inspection.
fn keep(page: &str) {
    if let Ok(folder) = std::env::var("UNDERTONE_PAGES") {
        std::fs::write(std::path::Path::new(&folder).join("report-file.html"), page)
            .expect("the folder can be written");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_shows_arms_and_costs_at_both_levels() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let finished = dashboard.finished;
    let page = dashboard.render(&path::report(consortium, finished), true, "").await.body;
    for said in [
        "Comparison of the arms",
        "the private arm gains",
        "Public + open private",
        "Share of open pooling’s gain",
        "Membership inference by arm",
        "one speaker",
        "One-run audit",
        "It can never prove",
        "For each speaker, the protected unit",
        "For each record, not the protected unit",
        "replaced",
        "Full spec, as signed",
        "Digests of private data",
        "Seeds of sampling and noise",
        "action=\"/ui/propose-again\"",
        "/jobs/again",
    ] {
        assert!(page.contains(said), "the report does not say {said:?}: {page}");
    }
    let job = dashboard.render(&path::job(consortium, finished), true, "").await.body;
    assert!(job.contains(&format!("href=\"{}\"", path::report(consortium, finished))), "the job leads to its report");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_of_unfinished_job_lists_omissions() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let proposed = dashboard.proposed;
    let running = dashboard.running;
    for (job, missing) in [(running, "The final result"), (proposed, "The certificate")] {
        let page = dashboard.render(&path::report(consortium, job), true, "").await;
        assert_eq!(page.status, 200);
        assert!(page.body.contains("Omitted data and reasons") && page.body.contains(missing), "{}", page.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_file_has_no_scripts_or_resources() {
    let dashboard = TestDashboard::open().await;
    let finished = dashboard.finished;
    let file = document(&dashboard.report(finished).await);
    keep(&file);
    for foreign in ["<script", "src=", "url(", "<link", "<form", "@import", "javascript:", "http-equiv"] {
        assert!(!file.contains(foreign), "{foreign} in {file}");
    }
    // The only links are to the tables' own files.
    for link in file.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(link.starts_with("data:text/csv"), "{link}");
    }
    assert!(file.contains("</svg>") && file.contains("<style>") && file.ends_with("</html>\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_file_escapes_the_title() {
    let dashboard = TestDashboard::open().await;
    let finished = dashboard.finished;
    let mut report = dashboard.report(finished).await;
    report.job.title = "</title><script>alert(1)</script>".to_owned();
    let file = document(&report);
    assert!(!file.contains("<script"), "{file}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn propose_again_leads_to_the_new_job() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let finished = dashboard.finished;
    let came = dashboard.send("propose-again", &format!("consortium={consortium}&job={finished}"), true).await;
    let job = dashboard.newest_job().await;
    assert!(job.id != finished && job.title == "First model of the consortium", "{}", came.body);
    assert_eq!((came.status.as_u16(), came.location()), (302, path::job(consortium, job.id).as_str()));
}
