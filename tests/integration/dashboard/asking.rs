//! Planning of questions in a browser, at desktop and phone width: the cost to a log's owner follows β, k and ε as they
//! are typed, and equals the server's own plan for the same numbers.

use serde_json::{Value, json};
use support::browser::{EmulatedScreen, PATIENCE};
use support::stage::{LABELS, TestConsortium, TestDatabase, TestResult};
use undertone_api::id::JobId;
use undertone_api::job::Spec;
use undertone_api::job::active_learning::Gate;
use undertone_api::plan::{NewPlan, Plan, PlanParty};
use undertone_privacy::{Epsilon, SamplingRate, mechanism};

use super::visitor::PageVisitor;
use support::scene::queries as scene;

/// The log of the plan.
const LOG: &str = "north";
const TITLE: &str = "What people ask for";
const BACKSPACE: &str = "\u{e003}";
const FORM: &str = "#plan-active-learning";
/// The owner's cost, once the server has evaluated the form.
const PAYS: &str = "const planner = document.querySelector('#plan-active-learning .planner-cost');
    const all = Array.from(planner.querySelectorAll('.costs li'));
    const own = all.find(e => e.querySelector('h3')?.innerText.startsWith('north,'));
    return planner.getAttribute('aria-busy') === 'false' ? own?.innerText ?? '' : ''";

#[tokio::test(flavor = "multi_thread")]
async fn displayed_question_cost_follows_form_and_server_plan() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 2.5).await?;
    for screen in [EmulatedScreen::Desktop, EmulatedScreen::Phone] {
        let visitor = PageVisitor::open(screen, stage.address()).await?;
        let browser = &visitor.browser;
        visitor.sign_in("operator").await?;
        // The query logs make one kind possible, whose form the page shows at once.
        visitor.visit(&format!("/c/{}/plan", stage.consortium)).await?;
        browser.run("window.kept = true", Vec::new()).await?;
        let of_log = log(&visitor).await?;
        let gate = typed(&visitor, &of_log).await?;
        let mut text = pays(&visitor, "").await?;
        compare(&text, &planned(&stage, gate).await?)?;

        let threshold = (gate.threshold.get() + 20).to_string();
        for (field, entry) in [("rate", "0.05"), ("threshold", threshold.as_str()), ("epsilon", "0.75")] {
            browser.overwrite(&format!("{of_log} input[name$='[{field}]']"), entry).await?;
            text = pays(&visitor, &text).await?;
            compare(&text, &planned(&stage, typed(&visitor, &of_log).await?).await?)?;
        }

        browser.fill(&format!("{FORM} input[name='ask[title]']"), TITLE).await?;
        browser.fill(&format!("{FORM} textarea[name='ask[labels]']"), &LABELS.join("\n")).await?;
        browser.see(&format!("{FORM} .headline-small"), "Fits every budget").await?;
        visitor.sound("planner-of-questions").await?;

        // Without a number there is no cost: the page requests nothing and says why.
        let epsilon = format!("{of_log} input[name$='[epsilon]']");
        browser.overwrite(&epsilon, BACKSPACE).await?;
        browser.see(&format!("{FORM} .planner-cost .notice"), "A number is empty or out of range").await?;
        assert_eq!(browser.complaints().await?, Vec::<String>::new());

        // More than the budget allows: refused here and at the server, and the nearest plans that fit are shown.
        browser.overwrite(&epsilon, "5").await?;
        browser.see(&format!("{FORM} .headline-small"), "Over the limit").await?;
        browser.see(&format!("{FORM} .offers"), "Nearest plans within the budgets").await?;
        assert!(pays(&visitor, &text).await?.contains("It exceeds the remaining budget."));
        let over = planned(&stage, typed(&visitor, &of_log).await?).await?;
        assert!(over.left.is_none_or(|left| left < 0.0), "{over:?}");
        visitor.sound("planner-of-questions-over-the-limit").await?;
        browser.overwrite(&epsilon, "0.75").await?;
        browser.see(&format!("{FORM} .headline-small"), "Fits every budget").await?;
        assert_eq!(pays(&visitor, "").await?, text, "the same numbers, the same cost");
        assert_eq!(browser.run("return window.kept", Vec::new()).await?, json!(true), "the page was not loaded again");

        // The proposal contains the typed values.
        let gate = typed(&visitor, &of_log).await?;
        browser.click(&format!("{FORM} button.primary")).await?;
        browser.see("h1", TITLE).await?;
        let job: JobId = visitor.place().await?.rsplit('/').next().unwrap_or_default().parse()?;
        let Spec::ActiveLearning(spec) = stage.operator.job(job).await?.spec else { return Err("another kind".into()) };
        let dataset = stage.dataset(LOG).await?.id;
        assert_eq!(spec.party(dataset).and_then(|party| party.gate), Some(gate));
        visitor.sound("job-of-questions").await?;
    }
    Ok(())
}

/// Returns the selector of the log's fields.
async fn log(visitor: &PageVisitor) -> TestResult<String> {
    let find = "return Array.from(document.querySelectorAll('#plan-active-learning .party strong'), e => e.innerText)
        .indexOf(arguments[0]) + 1";
    let place = visitor.browser.run(find, vec![json!(LOG)]).await?;
    Ok(format!("{FORM} .parties > .party:nth-child({place})"))
}

/// Returns the gate in the form.
async fn typed(visitor: &PageVisitor, of_log: &str) -> TestResult<Gate> {
    let script = "const party = document.querySelector(arguments[0]);
        return ['rate', 'threshold', 'epsilon', 'rows', 'shown'].map(name => party.querySelector(`[name$='[${name}]']`).value)";
    let fields = visitor.browser.run(script, vec![json!(of_log)]).await?;
    let text = |place: usize| fields[place].as_str().unwrap_or_default();
    Ok(Gate {
        sampling_rate: SamplingRate::new(text(0).parse()?)?,
        threshold: text(1).parse()?,
        epsilon: Epsilon::new(text(2).parse()?)?,
        rows_per_unit: text(3).parse()?,
        shown: serde_json::from_value(fields[4].clone())?,
    })
}

/// Returns the page's text about the log; waits until it differs from `last`.
async fn pays(visitor: &PageVisitor, last: &str) -> TestResult<String> {
    let other = |text: &Value| text.as_str().is_some_and(|text| !text.is_empty() && text != last);
    let text = visitor.wait("what it costs", PAYS, Vec::new(), PATIENCE, other).await?;
    Ok(text.as_str().unwrap_or_default().to_owned())
}

/// Returns the server's plan for the log with this gate.
async fn planned(stage: &TestConsortium, gate: Gate) -> TestResult<PlanParty> {
    let mut job = scene::job(stage).await?;
    let dataset = stage.dataset(LOG).await?.id;
    let Spec::ActiveLearning(spec) = &mut job.spec else { return Err("another kind".into()) };
    for party in spec.participants.iter_mut().filter(|party| party.dataset == dataset) {
        party.gate = Some(gate);
    }
    let plan: Plan = stage.operator.post("/plans", &NewPlan { consortium: stage.consortium, job }).await?;
    let own = plan.parties.into_iter().find(|party| party.dataset == dataset);
    own.ok_or_else(|| "the owner of a private log pays".into())
}

/// Checks that the page agrees with the plan: costs rounded up, the remaining budget rounded down.
fn compare(text: &str, plan: &PlanParty) -> TestResult<()> {
    let (epsilon, delta) = mechanism::guarantee(&plan.charge.event, plan.charge.adjacency)?;
    let promise = text_between(text, "For each row ε ", ", once.")?;
    let (shown_epsilon, shown_delta) = promise.split_once(" at δ ").ok_or("ε at δ")?;
    let over = shown_epsilon.parse::<f64>()? - epsilon.get();
    assert!((0.0..0.01).contains(&over), "{text}: {epsilon:?}");
    // Three digits are shown.
    assert!((power(shown_delta)? / delta.get() - 1.0).abs() < 0.006, "{text}: {delta:?}");

    let shown_left = text_between(text, "Leaves ε ", ": room for ")?;
    let left = plan.left.ok_or("a plan that fits")?;
    let under = left - shown_left.parse::<f64>()?;
    assert!((0.0..0.01).contains(&under), "{text}: {left}");
    let further = match plan.rounds_left {
        0 => "no other such pool".to_owned(),
        1 => "room for 1 more such pool.".to_owned(),
        pools => format!("room for {pools} more such pools."),
    };
    assert!(text.contains(&further), "{text}: {further}");
    Ok(())
}

fn text_between<'a>(text: &'a str, before: &str, after: &str) -> TestResult<&'a str> {
    let middle = text.split_once(before).and_then(|(_, rest)| rest.split_once(after));
    middle.map(|(middle, _)| middle).ok_or_else(|| format!("nothing between {before:?} and {after:?}: {text}").into())
}

/// Parses a number in the form `2.5·10⁻⁷` or `10⁻⁶`.
fn power(text: &str) -> TestResult<f64> {
    let (digits, raised) = text.split_once("·10").unwrap_or_else(|| ("1", text.trim_start_matches("10")));
    let plain = |letter: char| match letter {
        '⁻' => '-',
        letter => {
            "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().zip('0'..='9').find(|(raised, _)| *raised == letter).map_or(letter, |(_, digit)| digit)
        }
    };
    Ok(format!("{digits}e{}", raised.chars().map(plain).collect::<String>()).parse()?)
}
