//! Recordings in a browser, at desktop and phone width: their page, their planner with live costs, and the steward's
//! decision.

use std::fs;

use support::browser::EmulatedScreen;
use support::stage::{SiteDataset, TestConsortium, TestDatabase, TestResult};
use undertone_api::budget::NewBudget;
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};
use undertone_worker::speech::transcribe::wav;

use super::visitor::PageVisitor;

/// The index of the clinic among the sites, and its dataset.
const CLINIC: usize = 1;
const DATASET: &str = "dictations";
const TITLE: &str = "Letters of a week";
/// The number of silent samples, two seconds: pages do not use the sound.
const SILENCE: usize = 32_000;

#[tokio::test(flavor = "multi_thread")]
async fn recordings_are_planned_and_approved_on_desktop_and_phone() -> TestResult<()> {
    let stage = clinic().await?;
    let home = format!("/c/{}", stage.consortium);
    let dataset = stage.dataset(DATASET).await?.id;
    for screen in [EmulatedScreen::Desktop, EmulatedScreen::Phone] {
        let visitor = PageVisitor::open(screen, stage.address()).await?;
        let browser = &visitor.browser;
        visitor.sign_in("clinic").await?;
        visitor.visit(&format!("{home}/datasets/{dataset}")).await?;
        browser.see("h1", DATASET).await?;
        browser.see("main", "Budget for counts of pieces by word").await?;
        visitor.sound("dataset-of-recordings").await?;

        // The recordings make one kind possible, whose form the page shows at once.
        visitor.visit(&format!("{home}/plan")).await?;
        browser.see(".planner-cost", "The word list is empty").await?;
        visitor.sound("planner-of-recordings").await?;
        // The numbers follow the form.
        browser.fill("textarea[name='hear[words]']", "fever garden letter").await?;
        browser.see(".planner-cost .facts", "3 words").await?;
        browser.fill("input[name='hear[title]']", TITLE).await?;
        browser.click(".planner button.primary").await?;
        browser.see("h1", TITLE).await?;
        browser.see(".decide", "companies outside this consortium").await?;
        visitor.sound("job-of-recordings").await?;
    }
    Ok(())
}

/// Sets up a library without data and a clinic with one recording and a budget for its words.
async fn clinic() -> TestResult<TestConsortium> {
    let mut stage = TestConsortium::set(TestDatabase::Sqlite, &["Library", "Clinic"]).await?;
    let site = &mut stage.sites[CLINIC];
    site.edit_policy("kinds = [\"dp_sgd\"]", "kinds = [\"transcription\"]")?;
    site.edit_policy("[budget.record]", "[budget.words]\nepsilon = 16.0\ndelta = 1e-3\n\n[budget.record]")?;
    let recordings = site.folder().join("recordings");
    fs::create_dir(&recordings)?;
    fs::write(recordings.join("letter.wav"), wav::write(&vec![0.0; SILENCE]))?;
    let input = recordings.to_string_lossy().into_owned();
    site.command(&["data", "add-recordings", "--input", &input, "--name", DATASET, "--visibility", "private"])?;
    site.holdings.push(SiteDataset::new(DATASET, "private", &[]));
    stage.open().await?;
    let budget =
        NewBudget { unit: PrivacyUnit::Words, epsilon: Epsilon::new(16.0)?, delta: Delta::new(1e-3)?, filter: None };
    stage.sites[CLINIC].client.set_budget(stage.dataset(DATASET).await?.id, &budget).await?;
    Ok(stage)
}
