//! Questions released by real sites, answered in a browser by two people with only their keyboards, at desktop and
//! phone width: labels, skip, unsure, undo, progress and agreement. Texts below a site's gate are on no page.

use std::time::Duration;

use serde_json::{Value, json};
use support::browser::{EmulatedScreen, PATIENCE};
use support::stage::{QueryLog, TestConsortium, TestDatabase, TestResult};
use undertone_api::id::JobId;
use undertone_api::job::{Report, Spec};

use super::visitor::PageVisitor;
use support::scene::queries::{self as scene, BATCH, PRIVATE};

/// The time limit for the sites' selection and the lead's training.
const JOB: Duration = Duration::from_mins(3);
const TITLE: &str = "What patients ask";
/// The list of keys, while it is open.
const LIST: &str = "return document.querySelector('.keys:not([hidden])')?.innerText ?? ''";
const ASKED: &str = "return document.querySelector('.asked-text')?.innerText ?? ''";
const ESCAPE: &str = "\u{e00c}";
/// The time within which the page reacts to the key that opens the list, if it handles keys yet.
const HEARD: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn two_annotators_answer_released_questions_by_keyboard() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 2.5).await?;
    let job = propose(&stage).await?;
    let page = format!("/c/{}/questions/{job}", stage.consortium);
    let logs = PRIVATE.map(QueryLog::generate);

    // The page waits, and shows a question when there is one.
    let desk = person(&stage, "reader", EmulatedScreen::Desktop).await?;
    desk.visit(&page).await?;
    desk.browser.run("window.kept = true", Vec::new()).await?;
    desk.browser.see(".asked", "The job has not begun").await?;
    the_keys_are_listed(&desk).await?;
    desk.sound("annotate-keys").await?;
    the_list_closes(&desk).await?;
    for (site, name) in stage.sites.iter().skip(1).zip(PRIVATE) {
        site.client.approve(job, stage.dataset(name).await?.id).await?;
    }
    desk.wait("the first question", ASKED, Vec::new(), JOB, |text| text != "").await?;

    let questions = answer_by_keyboard(&desk, &page, &logs).await?;
    let phone = person(&stage, "second-reader", EmulatedScreen::Phone).await?;
    phone.visit(&page).await?;
    phone.browser.run("window.kept = true", Vec::new()).await?;
    the_keys_are_listed(&phone).await?;
    the_list_closes(&phone).await?;
    on_the_phone(&phone, &page, &logs, &questions).await?;

    // The round is full, so the lead trains, and the job ends: both pages report it by themselves.
    for visitor in [&desk, &phone] {
        let over = "return document.querySelector('.asked')?.innerText ?? ''";
        let is_over = |text: &Value| text.as_str().is_some_and(|text| text.contains("The job is over. Thank you"));
        visitor.wait("the end of the job", over, Vec::new(), JOB, is_over).await?;
        nothing_is_below_the_gate(visitor, &page, &logs).await?;
        visitor.sound("annotate-over").await?;
        let marker = visitor.browser.run("return window.kept", Vec::new()).await?;
        assert_eq!(marker, json!(true), "the page was not loaded again");
    }
    check_counts(&stage, job).await?;
    check_downloads(&stage, &page, &logs).await
}

/// Proposes the scene's job in one round, with two answers to each question and a custom key for a label; not yet
/// approved.
async fn propose(stage: &TestConsortium) -> TestResult<JobId> {
    let mut job = scene::job(stage).await?;
    let Spec::ActiveLearning(spec) = &mut job.spec else { return Err("another kind".into()) };
    (spec.rounds, spec.annotators, spec.deadline_seconds) = (1, 2, 900);
    spec.labels[0].key = Some('a');
    "Somebody wants to be seen".clone_into(&mut spec.labels[0].hint);
    Ok(stage.sites[0].client.propose(stage.consortium, &job).await?.summary.id)
}

/// Opens a browser for a member who may only answer questions.
async fn person(stage: &TestConsortium, name: &str, screen: EmulatedScreen) -> TestResult<PageVisitor> {
    stage.annotator(name).await?;
    let visitor = PageVisitor::open(screen, stage.address()).await?;
    visitor.sign_in(name).await?;
    assert_eq!(visitor.place().await?, format!("/c/{}/questions", stage.consortium), "where who only answers lands");
    visitor.browser.see("table.cards", TITLE).await?;
    visitor.sound("questions-to-answer").await?;
    Ok(visitor)
}

/// Opens the list of keys with `?`, and so waits until the page handles keys.
async fn the_keys_are_listed(visitor: &PageVisitor) -> TestResult<()> {
    let listed = |text: &Value| text.as_str().is_some_and(|text| text.contains("undo the last answer"));
    let mut tries = PATIENCE.as_secs() / HEARD.as_secs();
    loop {
        visitor.browser.press("?").await?;
        match visitor.browser.until(LIST, Vec::new(), HEARD, listed).await? {
            Ok(_) => return Ok(()),
            Err(text) if tries == 0 => return Err(format!("no key opens the list of keys: {text}").into()),
            Err(_) => tries -= 1,
        }
    }
}

async fn the_list_closes(visitor: &PageVisitor) -> TestResult<()> {
    visitor.browser.press(ESCAPE).await?;
    visitor.wait("the list to close", LIST, Vec::new(), PATIENCE, |text| text == "").await?;
    Ok(())
}

/// Uses every key in one round; returns the questions in the order in which they were shown.
async fn answer_by_keyboard(desk: &PageVisitor, page: &str, logs: &[QueryLog; 2]) -> TestResult<Vec<String>> {
    let mut questions = vec![now_asked(desk, "").await?];
    far(desk, 0).await?;
    desk.browser.see(".standing", "No two people have answered the same question yet.").await?;
    desk.browser.see(".label-hints", "Somebody wants to be seen").await?;
    nothing_is_below_the_gate(desk, page, logs).await?;
    desk.sound("annotate").await?;

    // A label by its own key; unsure, undone and answered; a skip, undone and answered.
    let second = press(desk, "a", &questions[0]).await?;
    questions.push(second);
    far(desk, 1).await?;
    let third = press(desk, "u", &questions[1]).await?;
    far(desk, 2).await?;
    assert_eq!(press(desk, "z", &third).await?, questions[1], "what is taken back is asked again");
    desk.browser.see(".taken", "Taken back.").await?;
    far(desk, 1).await?;
    desk.sound("annotate-taken-back").await?;
    assert_eq!(press(desk, "1", &questions[1]).await?, third);
    questions.push(third);
    let fourth = press(desk, "s", &questions[2]).await?;
    // A skip does not count, and the skipped question returns after the others.
    far(desk, 2).await?;
    assert_eq!(press(desk, "z", &fourth).await?, questions[2], "so is what was skipped");
    far(desk, 2).await?;

    // The remaining questions, each with a label whose key the page assigned.
    while questions.len() < BATCH as usize {
        let next = press(desk, "2", &questions[questions.len() - 1]).await?;
        far(desk, questions.len()).await?;
        questions.push(next);
        nothing_is_below_the_gate(desk, page, logs).await?;
    }
    desk.browser.press("2").await?;
    desk.browser.see(".asked", "You have answered all of this round, 1 of 1.").await?;
    far(desk, BATCH as usize).await?;
    desk.sound("annotate-waiting").await?;
    let often: Vec<&String> = logs.iter().flat_map(|log| &log.often).collect();
    assert!(questions.iter().all(|text| often.contains(&text)), "{questions:?}");
    Ok(questions)
}

/// Answers the same questions as the second person, agrees once and disagrees once, and checks the displayed agreement.
async fn on_the_phone(phone: &PageVisitor, page: &str, logs: &[QueryLog; 2], questions: &[String]) -> TestResult<()> {
    let mut text = now_asked(phone, "").await?;
    far(phone, 0).await?;
    phone.sound("annotate").await?;
    for (number, known) in questions.iter().enumerate() {
        assert_eq!(&text, known, "the most uncertain first, to everybody");
        nothing_is_below_the_gate(phone, page, logs).await?;
        // Two of four labels agree, where chance alone gives five of eight: Fleiss' κ is −1/3.
        if number == 2 {
            phone.browser.see(".standing", "Agreement κ −0.33").await?;
            phone.sound("annotate-agreement").await?;
        }
        if number + 1 == questions.len() {
            return Ok(phone.browser.press("2").await?);
        }
        text = press(phone, if number < 2 { "a" } else { "2" }, &text).await?;
        far(phone, number + 1).await?;
    }
    Ok(())
}

/// Presses a key, and returns the question that then replaces `last`.
async fn press(visitor: &PageVisitor, key: &str, last: &str) -> TestResult<String> {
    visitor.browser.press(key).await?;
    now_asked(visitor, last).await
}

/// Returns the displayed question, once it differs from `last` and the page accepts an answer.
async fn now_asked(visitor: &PageVisitor, last: &str) -> TestResult<String> {
    let script = "const form = document.querySelector('.answering');
        return form?.getAttribute('aria-busy') === 'false' ? form.querySelector('.asked-text')?.innerText ?? '' : ''";
    let other = |text: &Value| text.as_str().is_some_and(|text| !text.is_empty() && text != last);
    let text = visitor.wait("another question", script, Vec::new(), PATIENCE, other).await?;
    Ok(text.as_str().unwrap_or_default().to_owned())
}

/// Checks the page's number of completed questions of the round.
async fn far(visitor: &PageVisitor, done: usize) -> TestResult<()> {
    Ok(visitor.browser.see(".standing", &format!("{done} of {BATCH} of this round")).await?)
}

/// Checks that no text below a gate, no user and no unreadable row is on the page, with and without scripts.
async fn nothing_is_below_the_gate(visitor: &PageVisitor, page: &str, logs: &[QueryLog; 2]) -> TestResult<()> {
    let stands = visitor.browser.run("return document.documentElement.outerHTML", Vec::new()).await?;
    let plain = visitor.plain(page).await?;
    assert!(plain.contains(TITLE), "{plain}");
    for text in [stands.as_str().unwrap_or_default(), plain.as_str()] {
        hold_no_secret(text, logs);
    }
    Ok(())
}

fn hold_no_secret(text: &str, logs: &[QueryLog; 2]) {
    for secret in logs.iter().flat_map(|log| &log.secret) {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
}

/// Checks that every valid answer was counted, once per person.
async fn check_counts(stage: &TestConsortium, job: JobId) -> TestResult<()> {
    let job = stage.finish(job, JOB).await?;
    let Some(Report::ActiveLearning(report)) = job.report else { return Err("a finished job has its report".into()) };
    let annotations: Vec<u64> = report.annotators.iter().map(|annotator| annotator.annotations).collect();
    assert_eq!(annotations, [u64::from(BATCH); 2]);
    Ok(())
}

/// Checks that the researcher's downloads contain the asked questions, and nothing below a gate.
async fn check_downloads(stage: &TestConsortium, page: &str, logs: &[QueryLog; 2]) -> TestResult<()> {
    let visitor = PageVisitor::open(EmulatedScreen::Desktop, stage.address()).await?;
    visitor.sign_in("operator").await?;
    visitor.visit(page).await?;
    visitor.browser.see("main", "Export and import").await?;
    nothing_is_below_the_gate(&visitor, page, logs).await?;
    visitor.sound("annotate-files").await?;
    let fetch = "const done = arguments[arguments.length - 1];
        const links = Array.from(document.querySelectorAll(\"a[download^='questions-']\"));
        Promise.all(links.map(link => fetch(link.href).then(answer => answer.text()))).then(done);";
    let files = visitor.browser.run_async(fetch, Vec::new()).await?;
    let files: Vec<&str> = files.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(files.len(), 3, "JSON Lines, CSV, Label Studio");
    for file in files {
        assert!(file.contains(" about "), "{file}");
        hold_no_secret(file, logs);
    }
    Ok(())
}
