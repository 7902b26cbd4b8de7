//! The dashboard in a real browser, at desktop and phone width, with a real server and real workers.

mod accounts;
mod answering;
mod asking;
mod life;
mod live;
mod passkey;
mod passkey_sign_in;
mod provider;
mod recordings;
mod verifying;
mod visitor;

use std::time::Duration;

use serde_json::json;
use support::browser::{EmulatedScreen, PATIENCE};
use support::stage::{PASSWORD, TestConsortium, TestDatabase, TestResult};
use undertone_api::budget::NewBudget;
use undertone_privacy::{Delta, Epsilon, PrivacyUnit};

use support::scene;
use visitor::PageVisitor;

/// The time limit of the job.
const JOB: Duration = Duration::from_secs(400);
/// Enough rounds for the page, which updates at most twice a second, to show several of them.
const ROUNDS: &str = "24";
/// Longer than the planner waits after a change before it requests the tight numbers.
const TYPING_PAUSE: Duration = Duration::from_millis(1200);
const TITLE: &str = "Seen in a browser";
const TAB: &str = "\u{e004}";
const HOME: &str = "\u{e011}";
const RIGHT: &str = "\u{e014}";

#[tokio::test(flavor = "multi_thread")]
async fn job_page_follows_a_job_to_its_model_without_reload() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    let visitor = PageVisitor::open(EmulatedScreen::Desktop, stage.address()).await?;
    visitor.sign_in("one").await?;
    set_budgets(&stage, &visitor).await?;
    let promised = plan(&stage, &visitor).await?;
    let job = visitor.place().await?;
    the_page_survives_the_server(&mut stage, &visitor, &job).await?;
    approve(&stage, &visitor, &job, &promised).await?;
    watch(&visitor).await?;
    take_the_model(&stage, &visitor, &job).await?;
    verifying::verify_certificate(&stage, &visitor, &job).await?;
    visitor.sign_in("one").await?;
    every_page_is_sound(&stage, &visitor, &job).await?;
    let phone = PageVisitor::open(EmulatedScreen::Phone, stage.address()).await?;
    phone.sign_in("one").await?;
    each_kind_is_proposed_by_its_own_bar(&stage, &phone).await?;
    every_page_is_sound(&stage, &phone, &job).await
}

/// The planner has a card for each kind, and the page of a kind has its form alone. On a phone the bar at the bottom
/// belongs to that form while it is in sight.
async fn each_kind_is_proposed_by_its_own_bar(stage: &TestConsortium, phone: &PageVisitor) -> TestResult<()> {
    let cards = format!("/c/{}/plan", stage.consortium);
    phone.visit(&cards).await?;
    let links = "return Array.from(document.querySelectorAll('.kind-card a'), link => {
            const card = link.closest('.kind-card');
            card.scrollIntoView({ block: 'center', behavior: 'instant' });
            const box = card.getBoundingClientRect();
            const hit = document.elementFromPoint(box.left + box.width / 2, box.bottom - 8);
            return [new URL(link.href).search, hit === link];
        })";
    let links = phone.browser.run(links, Vec::new()).await?;
    assert_eq!(links, json!([["?kind=speech", true], ["?kind=evaluation", true]]), "the whole card is a link");
    assert_eq!(phone.browser.run("return document.querySelectorAll('.planner').length", Vec::new()).await?, json!(0));
    for (kind, form, title) in [
        ("speech", "plan-dp-sgd", "Federated acoustic model"),
        ("evaluation", "plan-evaluation", "Private evaluation of a model"),
    ] {
        phone.visit(&cards).await?;
        phone.browser.click(&format!(".kind-card a[href$='?kind={kind}']")).await?;
        phone.browser.see(".kind-tabs [aria-current=page]", title).await?;
        phone.awake().await?;
        let ready = "return Array.from(document.querySelectorAll('.planner.live'), form => form.id)";
        phone.wait("one form with its script", ready, Vec::new(), PATIENCE, |forms| *forms == json!([form])).await?;
        let bars = "return Array.from(document.querySelectorAll('.planner'), form => {
                form.scrollIntoView({ block: 'start', behavior: 'instant' });
                const bars = form.querySelectorAll('.planner-cost .actions button.primary');
                const own = bars[0].getBoundingClientRect();
                const hit = document.elementFromPoint(own.left + own.width / 2, own.top + own.height / 2);
                return [bars.length, form.getAttribute('action'), hit === bars[0]];
            })";
        let bars = phone.browser.run(bars, Vec::new()).await?;
        let action = form.replace("plan-", "/ui/propose-");
        assert_eq!(bars, json!([[1, action, true]]), "{kind}");
    }
    Ok(())
}

/// Sets one budget in the browser as a steward, the others over REST.
async fn set_budgets(stage: &TestConsortium, visitor: &PageVisitor) -> TestResult<()> {
    let browser = &visitor.browser;
    let dataset = stage.dataset("one").await?;
    visitor.visit(&format!("/c/{}/datasets/{}", stage.consortium, dataset.id)).await?;
    browser.see(".headline", "No budget is set").await?;
    browser.click(".decide details:nth-of-type(2) summary").await?;
    browser.fill(".decide details:nth-of-type(2) input[name=epsilon]", "60").await?;
    browser.click(".decide details:nth-of-type(2) button[type=submit]").await?;
    browser.see(".notice", "The lifetime limit for each record is now ε 60.00 at δ 10⁻⁶.").await?;
    browser.see(".gauge-text", "0.00 of 60.00").await?;
    visitor.sound("budget").await?;
    let account = &stage.dataset("one").await?.accounts[0];
    assert_eq!((account.unit, account.epsilon.get()), (PrivacyUnit::Record, 60.0));
    let budget =
        NewBudget { unit: PrivacyUnit::Record, epsilon: Epsilon::new(60.0)?, delta: Delta::new(1e-6)?, filter: None };
    for (site, name) in stage.sites.iter().skip(1).zip(scene::PRIVATE).skip(1) {
        site.client.set_budget(stage.dataset(name).await?.id, &budget).await?;
    }
    Ok(())
}

/// Plans the job and proposes it; returns the planner's ε for `one`.
async fn plan(stage: &TestConsortium, visitor: &PageVisitor) -> TestResult<String> {
    let browser = &visitor.browser;
    let path = format!("/c/{}/plan?kind=speech", stage.consortium);
    visitor.visit(&path).await?;
    let without_script = visitor.plain(&path).await?;
    assert!(without_script.contains("by itself for") && without_script.contains("Recalculate"), "{without_script}");

    // The cost follows the slider: it is computed in the page.
    let find = "return Array.from(document.querySelectorAll('.party strong'), e => e.innerText).indexOf('one') + 1";
    let party = format!(".parties > .party:nth-child({})", browser.run(find, Vec::new()).await?);
    let noise = format!("{party} input[aria-label='Noise z, slider']");
    let number = format!("{party} input[name$='[noise]']");
    let first = browser.find(&number).await?.prop("value").await?.unwrap_or_default();
    let before = cost(visitor, "").await?;
    browser.find(&noise).await?.send_keys(&RIGHT.repeat(30)).await?;
    let after = cost(visitor, &before).await?;
    assert!(value(&after)? < value(&before)?, "more noise costs less: {before} became {after}");

    // A plan over the limit is refused with figures, which the page shows.
    browser.find(&noise).await?.send_keys(HOME).await?;
    browser.see(".costs .gauge.over", "over the limit").await?;
    browser.fill("input[name='plan[title]']", TITLE).await?;
    visitor.sound("plan-over-the-limit").await?;
    browser.click(".planner-cost button.primary").await?;
    browser.see(".refusals", "one (record): ε 0.00 of 60.00 is spent or reserved").await?;
    browser.see(".refusals", "is left. The job requests ε").await?;
    let complaints = browser.complaints().await?;
    assert!(complaints.iter().all(|complaint| complaint.contains("/ui/propose-dp-sgd")), "{complaints:?}");
    visitor.sound("refused").await?;

    // The nearest plan that fits can be selected with one click.
    browser.see(".offers", "Nearest plans within the budgets").await?;
    browser.click(".offers li:first-child button").await?;
    browser.see(".headline-small", "Fits every budget").await?;
    browser.see(".decides", "limits the plan: its budget admits").await?;

    // A plan that fits is proposed.
    let over = cost(visitor, "").await?;
    browser.fill(&number, &format!("{first}{TAB}")).await?;
    cost(visitor, &over).await?;
    // A field is empty while a visitor types over it: the page requests nothing before it has a number again.
    browser.find("input[name='plan[rounds]']").await?.clear().await?;
    tokio::time::sleep(TYPING_PAUSE).await;
    assert_eq!(browser.complaints().await?, Vec::<String>::new());
    browser.fill("input[name='plan[rounds]']", &format!("{ROUNDS}{TAB}")).await?;
    browser.see(".costs", "for 28 releases").await?;
    browser.click(".planner details.advanced summary").await?;
    for (field, value) in [("hidden", "16"), ("epochs", "2"), ("deadline", "300")] {
        browser.fill(&format!("input[name='plan[{field}]']"), &format!("{value}{TAB}")).await?;
    }
    browser.see(".headline-small", "Fits every budget").await?;
    visitor.sound("plan").await?;
    let promised = cost(visitor, "").await?;
    browser.click(".planner-cost button.primary").await?;
    browser.see("h1", TITLE).await?;
    Ok(promised)
}

/// Returns the planner's cost of `one` by itself; waits until it differs from `last`.
async fn cost(visitor: &PageVisitor, last: &str) -> TestResult<String> {
    let script = "const all = Array.from(document.querySelectorAll('.costs li'));
        const own = all.find(e => e.querySelector('h3').innerText.startsWith('one,'));
        return /ε (\\S+) by itself/.exec(own?.innerText ?? '')?.[1] ?? ''";
    let other = |value: &serde_json::Value| value.as_str().is_some_and(|value| !value.is_empty() && value != last);
    let value = visitor.wait("another cost", script, Vec::new(), PATIENCE, other).await?;
    Ok(value.as_str().unwrap_or_default().to_owned())
}

fn value(epsilon: &str) -> TestResult<f64> {
    Ok(epsilon.replace(',', "").parse()?)
}

/// Checks that the page of a job reports the lost connection, and recovers by itself.
async fn the_page_survives_the_server(stage: &mut TestConsortium, visitor: &PageVisitor, job: &str) -> TestResult<()> {
    let browser = &visitor.browser;
    visitor.visit(job).await?;
    browser.see(".connection", "Live").await?;
    visitor.sound("proposed").await?;
    stage.kill_server();
    browser.see(".connection.lost", "Connection lost").await?;
    stage.start_server()?;
    browser.see(".connection", "Live").await?;
    let complaints = browser.complaints().await?;
    let expected = |complaint: &String| complaint.contains("/ui/events") || complaint.contains("/ui/watch");
    assert!(complaints.iter().all(expected), "{complaints:?}");
    Ok(())
}

/// Approves the planner's promise as every steward.
async fn approve(stage: &TestConsortium, visitor: &PageVisitor, job: &str, promised: &str) -> TestResult<()> {
    let browser = &visitor.browser;
    for name in scene::PRIVATE {
        visitor.sign_in(name).await?;
        visitor.visit(job).await?;
        browser.see(".decide h2", &format!("Decide for {name}")).await?;
        browser.see(".consequences", "can be cancelled while it runs").await?;
        if name == "one" {
            browser.see(".decide .primary", &format!("Approve and reserve ε {promised}")).await?;
            let without_script = visitor.plain(job).await?;
            assert!(without_script.contains("Decide for one") && without_script.contains("action=\"/ui/approve\""));
        }
        let site = stage.sites.iter().find(|site| site.name.eq_ignore_ascii_case(name)).ok_or("its site")?;
        visitor.approve_by_key_file(site, job, stage.dataset(name).await?.id).await?;
        visitor.sound("approved").await?;
    }
    Ok(())
}

/// Checks that the job's page follows the rounds to the result by itself.
async fn watch(visitor: &PageVisitor) -> TestResult<()> {
    // State in the page would not survive a reload.
    let keep = "window.seen = [];
        const note = () => {
            const now = document.querySelector('.headline').innerText;
            if (seen.at(-1) !== now) seen.push(now);
        };
        new MutationObserver(note).observe(document.querySelector('.job-head'), { subtree: true, childList: true, characterData: true });
        note();";
    visitor.browser.run(keep, Vec::new()).await?;
    let over =
        |headlines: &serde_json::Value| headlines.as_array().is_some_and(|headlines| headlines.iter().any(finished));
    let headlines = visitor.wait("the end of the job", "return window.seen", Vec::new(), JOB, over).await?;
    let rounds = headlines.as_array().into_iter().flatten().filter_map(|headline| headline.as_str());
    let rounds: Vec<_> = rounds.filter(|headline| headline.starts_with("Round ")).collect();
    assert!(rounds.len() > 1 && rounds[0].contains("of 24, private arm"), "{headlines}");
    let browser = &visitor.browser;
    browser.see(".result", "public + private by DP-SGD").await?;
    browser.see(".connection", "Job ended").await?;
    browser.see(".decisions-now", "Signed privacy cost").await?;
    browser.see(".party-list", "24 of 28 releases paid").await?;
    // SVG elements have no inner text.
    let label = "return Array.from(document.querySelectorAll('.chart .label'), e => e.textContent).join()";
    let has_private_line =
        |labels: &serde_json::Value| labels.as_str().is_some_and(|labels| labels.contains("private"));
    visitor.wait("the private arm's line", label, Vec::new(), PATIENCE, has_private_line).await?;
    visitor.sound("finished").await
}

fn finished(headline: &serde_json::Value) -> bool {
    headline.as_str().is_some_and(|headline| headline.starts_with("Finished in"))
}

/// Downloads the model with the browser's session.
async fn take_the_model(stage: &TestConsortium, visitor: &PageVisitor, job: &str) -> TestResult<()> {
    let fetch = "const done = arguments[arguments.length - 1];
        fetch(document.querySelector(\"a[download='model.safetensors']\").href)
            .then(answer => answer.arrayBuffer().then(body => done([answer.status, body.byteLength])));";
    let fetched = visitor.browser.client().execute_async(fetch, Vec::new()).await?;
    let id = job.rsplit('/').next().unwrap_or_default().parse()?;
    let artifacts = stage.operator.artifacts(id).await?;
    let model = artifacts.iter().find(|artifact| artifact.name == "model.safetensors").ok_or("a model")?;
    assert_eq!(fetched, json!([200, model.size]));
    Ok(())
}

async fn every_page_is_sound(stage: &TestConsortium, visitor: &PageVisitor, job: &str) -> TestResult<()> {
    let home = format!("/c/{}", stage.consortium);
    let dataset = format!("{home}/datasets/{}", stage.dataset("one").await?.id);
    let public = format!("{home}/datasets/{}", stage.dataset("public").await?.id);
    let organization = format!("{home}/organizations/{}", stage.sites[1].organization);
    let ledger = format!("{home}/ledger?dataset={}", stage.dataset("one").await?.id);
    let account = stage.dataset("one").await?.accounts.first().map(|account| account.id).ok_or("an account")?;
    let row = format!("{home}/ledger/{account}/2");
    let log = format!("{organization}/audit-log");
    let of = |name: &str| format!("{home}/{name}");
    for (name, path, shows) in [
        ("overview", home.clone(), "Stage"),
        ("jobs", of("jobs"), "Jobs"),
        ("planner", of("plan"), "Plan a job"),
        ("planner-of-speech", of("plan?kind=speech"), "Plan a job"),
        ("planner-of-evaluation", of("plan?kind=evaluation"), "Plan a job"),
        ("job", job.to_owned(), TITLE),
        ("datasets", of("datasets"), "Datasets"),
        ("dataset", dataset, "one"),
        ("public-dataset", public, "public"),
        ("organizations", of("organizations"), "Organizations"),
        ("organization", organization, "One"),
        ("models", of("models"), "Models"),
        ("questions", of("questions"), "Questions"),
        ("all-ledgers", of("ledger"), "Ledger"),
        ("ledger", ledger, "Ledger"),
        ("ledger-row", row, "Row 2 of one"),
        ("organization-log", log, "Audit log"),
        ("compare", of("models/compare"), "Compare models"),
        ("settings", "/settings".to_owned(), "Settings"),
        ("notifications", "/notifications".to_owned(), "Notifications"),
        ("job-log", format!("{job}/log"), "Log of"),
    ] {
        visitor.visit(&path).await?;
        visitor.browser.see("h1", shows).await?;
        let without_script = visitor.plain(&path).await?;
        assert!(without_script.contains("</main>") && without_script.contains(shows), "{name} without a script");
        visitor.sound(name).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consortium_is_founded_on_a_phone_by_links_alone() -> TestResult<()> {
    let (stage, link) = TestConsortium::vacant(TestDatabase::Sqlite)?;
    let phone = PageVisitor::open(EmulatedScreen::Phone, stage.address()).await?;
    let browser = &phone.browser;
    browser.goto(&link).await?;
    browser.see("h1", "Become the operator").await?;
    phone.sound("operator").await?;
    join(&phone, "operator", None).await?;
    browser.see("h1", "Welcome").await?;
    phone.sound("welcome").await?;
    browser.click("a[href='/found']").await?;
    browser.see("h1", "Create a consortium").await?;
    phone.sound("found").await?;
    browser.fill("input[name=name]", "Pocket").await?;
    browser.fill("input[name=organization]", "Library").await?;
    browser.click("main button[type=submit]").await?;
    browser.see("h1", "Pocket").await?;
    phone.sound("founded").await?;

    browser.click("a[href$='/organizations']").await?;
    browser.fill("input[name=label]", "Clinic").await?;
    browser.click("main form button[type=submit]").await?;
    browser.see(".notice", "Link for Clinic").await?;
    phone.sound("invited").await?;
    let link = browser.find(".notice .copyable input").await?.prop("value").await?.ok_or("a link")?;
    // The link is shown once.
    browser.click("a[href$='/organizations']").await?;
    browser.see("h1", "Organizations").await?;
    // The previous page has the same heading: wait until its link is gone.
    let script = "return document.querySelectorAll('.copyable').length";
    phone.wait("the link to be gone", script, Vec::new(), PATIENCE, |count| *count == json!(0)).await?;

    browser.click(".rail-foot button").await?;
    browser.see("h1", "Sign in").await?;
    phone.sound("sign-in").await?;
    browser.goto(&link).await?;
    browser.see("h1", "Join Pocket").await?;
    join(&phone, "clinic", Some("Clinic")).await?;
    browser.see("h1", "Pocket").await?;
    browser.click("a[href$='/organizations']").await?;
    browser.see(".cards", "Clinic").await?;
    browser.click(".cards tr:first-child a").await?;
    browser.see("h1", "Clinic").await?;
    browser.fill("form[action='/ui/enrol'] input[name=name]", "ward").await?;
    browser.click("form[action='/ui/enrol'] button").await?;
    browser.see(".notice", "Enrol ward").await?;
    let command = browser.find(".notice .copyable input").await?.prop("value").await?.unwrap_or_default();
    assert!(command.starts_with("undertone-worker enroll "), "{command}");
    phone.sound("enrolled").await?;

    phone.visit("/settings").await?;
    let colour = "return getComputedStyle(document.body).backgroundColor";
    let light = browser.run(colour, Vec::new()).await?;
    browser.click("input[name=theme][value=dark]").await?;
    browser.click("form[action='/ui/theme'] button").await?;
    phone.wait("darkness", colour, Vec::new(), PATIENCE, |now| *now != light).await?;
    phone.sound("dark").await
}

/// Fills in the form of a one-time link.
async fn join(visitor: &PageVisitor, name: &str, organization: Option<&str>) -> TestResult<()> {
    let browser = &visitor.browser;
    if let Some(organization) = organization {
        browser.fill("input[name=organization]", organization).await?;
    }
    browser.fill("input[name=name]", name).await?;
    browser.fill("input[name=email]", &format!("{name}@example.org")).await?;
    browser.fill("input[name=password]", PASSWORD).await?;
    Ok(browser.click("main button[type=submit]").await?)
}
