//! The planner's form becomes a job, its numbers equal the ledger's, and the steward's text matches the spec.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use leptos::prelude::{Owner, RenderHtml as _};
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, DatasetContent, SizeClass, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::JobKind as _;
use undertone_api::job::active_learning::{LearningPoint, Report, Spec};
use undertone_api::job::evaluation::ScoredExample;
use undertone_privacy::kanon::Shown;
use undertone_privacy::ledger::{Balance, Budget, GridKind};
use undertone_privacy::{Adjacency, Delta, Epsilon, PrivacyUnit, mechanism};

use super::description::{describe_consent, list_facts};
use super::plan::QuestionPlan;
use super::planner::cost;
use super::result;
use crate::path;
use crate::testing::TestDashboard;
use crate::testing::example::{self, CONSORTIUM};

/// Returns a public labelled log that leads, and a private one with users.
fn datasets() -> Vec<Dataset> {
    let [mut lead, mut ours, ..] = <[Dataset; 4]>::try_from(example::datasets()).unwrap();
    for dataset in [&mut lead, &mut ours] {
        (dataset.content, dataset.inputs, dataset.speakers) = (DatasetContent::Queries, 0, SizeClass(1));
        dataset.units = vec![PrivacyUnit::Record, PrivacyUnit::User];
    }
    (lead.classes, ours.classes, ours.users) = (3, 0, Some(SizeClass(1000)));
    ours.records = SizeClass(100_000);
    vec![lead, ours]
}

fn standings(epsilon: f64, delta: f64) -> Vec<(DatasetId, Vec<AccountStanding>)> {
    let limit = Epsilon::new(epsilon).unwrap();
    let budget = Budget::new(limit, Delta::new(delta).unwrap(), GridKind::for_epsilon(limit)).unwrap();
    let balance = Balance::new(Some(budget));
    let standing = AccountStanding { unit: PrivacyUnit::User, adjacency: Adjacency::AddRemove, balance };
    vec![(datasets()[1].id, vec![standing])]
}

fn plan(change: impl FnOnce(&mut QuestionPlan)) -> QuestionPlan {
    let mut plan = QuestionPlan::first(&datasets(), &standings(2.0, 1e-6)).unwrap();
    "billing | b | what something costs\r\ncard|c\r\n\r\nsomething else".clone_into(&mut plan.labels);
    change(&mut plan);
    plan
}

fn spec(change: impl FnOnce(&mut QuestionPlan)) -> Spec {
    let spec = plan(change).spec(&datasets()).unwrap();
    assert_eq!(spec.check(&datasets()), Vec::new());
    spec
}

fn render_cost(plan: &QuestionPlan, epsilon: f64, delta: f64) -> String {
    Owner::new().with(|| cost::render_cost(plan, &datasets(), &standings(epsilon, delta), CONSORTIUM))
}

#[test]
fn first_plan_with_labels_is_valid() {
    let spec = spec(|_| ());
    assert_eq!((spec.unit, spec.participants[0].gate), (PrivacyUnit::User, None));
    let labels: Vec<_> =
        spec.labels.iter().map(|label| (label.name.as_str(), label.key, label.hint.as_str())).collect();
    assert_eq!(
        labels,
        [("billing", Some('b'), "what something costs"), ("card", Some('c'), ""), ("something else", None, "")]
    );
    let charge = spec.cost(&datasets()[1]).unwrap();
    let (_, delta) = mechanism::guarantee(&charge.event, charge.adjacency).unwrap();
    assert!(delta.get() <= 1e-7, "a tenth of the account's: {delta:?}");
}

#[test]
fn planned_spec_opens_as_its_plan() {
    let rehearsed = plan(|plan| (plan.trials.on, plan.parts[0].asks, plan.hours) = (true, true, 1.5));
    let page = plan(|plan| {
        (plan.title, plan.parts[1].shown, plan.parts[1].rows) = ("other".to_owned(), Shown::Set, 3);
        plan.guidelines = "One line.\nAnother.".to_owned();
    });
    for planned in [plan(|_| ()), rehearsed, page] {
        let spec = planned.spec(&datasets()).unwrap();
        let plan =
            QuestionPlan::from_spec("a title", &spec, QuestionPlan::first(&datasets(), &standings(2.0, 1e-6)).unwrap());
        assert_eq!(plan.title, "a title");
        assert_eq!(plan.spec(&datasets()).unwrap(), spec);
    }
}

#[test]
fn plan_link_round_trips() {
    let plan = plan(|plan| {
        (plan.title, plan.trials.on, plan.parts[1].shown) = ("what, & why?".to_owned(), true, Shown::CountsTight);
        plan.guidelines = "One line.\r\nAnother: 100 %".to_owned();
    });
    let link = plan.link(CONSORTIUM);
    assert_eq!(QuestionPlan::from_query(link.split_once('?').unwrap().1), Some(plan));
    assert_eq!(QuestionPlan::from_query("plan%5Btitle%5D=of+another+kind"), None);
}

/// Returns the posted form of a valid plan with the consortium's own logs, and a change.
async fn posted_form(dashboard: &TestDashboard, title: &str, change: impl FnOnce(&mut QuestionPlan)) -> String {
    let mut plan = QuestionPlan::first(&dashboard.logs().await, &[]).unwrap();
    plan.labels = (0..40).map(|n| format!("label {n}")).collect::<Vec<_>>().join("\n");
    plan.unit = PrivacyUnit::User;
    title.clone_into(&mut plan.title);
    change(&mut plan);
    let link = plan.link(dashboard.consortium);
    format!("consortium={}&{}", dashboard.consortium, link.split_once('?').unwrap().1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_form_proposes_a_job() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let body = posted_form(&dashboard, "what callers ask", |_| ()).await;
    let came = dashboard.send("propose-active-learning", &body, true).await;
    let job = dashboard.newest_job().await;
    assert_eq!(job.title, "what callers ask", "{}", came.body);
    assert_eq!((came.status.as_u16(), came.location()), (302, path::job(consortium, job.id).as_str()));
    let dear = |plan: &mut QuestionPlan| plan.parts.iter_mut().for_each(|part| part.threshold = part.threshold.min(2));
    let body = posted_form(&dashboard, "too much", dear).await;
    let rejection = dashboard.send("propose-active-learning", &body, true).await;
    assert_eq!(rejection.location(), "/from?x=1", "a refusal goes back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_plan_is_priced_by_the_server() {
    let dashboard = TestDashboard::open().await;
    let body = posted_form(&dashboard, "", |_| ()).await;
    let came = dashboard.send("weigh-active-learning", &body, false).await;
    let html: String = serde_json::from_str(&came.body).unwrap();
    assert!(html.contains("Fits every budget.") && html.contains("helpdesk-south"), "{html}");
    let wrong = posted_form(&dashboard, "", |plan| plan.golden = 0).await;
    let html = dashboard.send("weigh-active-learning", &wrong, false).await;
    assert!(html.status == 200 && html.body.contains("golden"), "{}", html.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planner_shows_each_kind_its_own_data() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let asking = dashboard.render(&path::plan_of(consortium, "questions"), true, "").await.body;
    for said in [
        "action=\"/ui/propose-active-learning\"",
        "name=\"ask[parts][2][threshold]\"",
        "helpdesk-south",
        "Recalculate",
        "<code>labels</code>",
        "δ at these numbers, by form of release",
    ] {
        assert!(asking.contains(said), "{said:?} is not in {asking}");
    }
    let training = dashboard.render(&path::plan_of(consortium, "speech"), true, "").await.body;
    assert!(training.contains("action=\"/ui/propose-dp-sgd\"") && training.contains("ward-a"), "{training}");
    assert!(!training.contains("helpdesk-south") && !asking.contains("ward-a"), "each kind sees its own data");
    assert!(!training.contains("plan[parts][4]"), "speech is four datasets");
}

#[test]
fn plan_cost_is_displayed() {
    let page = render_cost(&plan(|_| ()), 2.0, 1e-6);
    for said in [
        "Fits every budget.",
        "Public: it is the lead, and contributes no questions.",
        "About 10,000 of 100,000 rows are kept",
        "a tenth of the account’s: the least k at this β and ε is 16;",
        "more such pools",
    ] {
        assert!(page.contains(said), "{said:?} is not in {page}");
    }
    let narrow = render_cost(&plan(|plan| (plan.parts[1].rate, plan.parts[1].shown) = (0.6, Shown::Set)), 2.0, 1e-6);
    assert!(narrow.contains("none; needs ε 0.9163 or more"), "counts cannot be shown at this rate: {narrow}");
}

#[test]
fn invalid_fields_are_named_by_path() {
    let one = plan(|plan| plan.labels = "only".to_owned());
    assert!(render_cost(&one, 2.0, 1e-6).contains("<code>labels</code>"), "{}", render_cost(&one, 2.0, 1e-6));
    let garbled = plan(|plan| {
        (plan.parts[1].rate, plan.parts[1].threshold, plan.hours) = (0.0, 0, f64::NAN);
        (plan.trials.on, plan.trials.rates) = (true, "few".to_owned());
        plan.labels = "a | bc".to_owned();
    });
    let fields: Vec<_> = garbled.spec(&datasets()).unwrap_err().into_iter().map(|violation| violation.field).collect();
    let places = ["sampling_rate", "threshold"].map(|field| format!("spec.participants.1.gate.{field}"));
    let all = ["spec.labels.0.key", "spec.rehearsal.rates", "spec.deadline_seconds"].map(str::to_owned);
    assert_eq!(fields, [&places[..], &all[..]].concat());
}

#[test]
fn refused_plan_links_to_fitting_plans() {
    let dear = plan(|plan| plan.parts[1].threshold = 3);
    let page = render_cost(&dear, 2.0, 1e-6);
    assert!(page.contains("Over the limit.") && page.contains("It exceeds the remaining budget."), "{page}");
    let links: Vec<_> = page.split("<a href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(links.len() >= 2, "a threshold and a rate: {page}");
    for link in links {
        let query = link.replace("&amp;", "&");
        let offer = QuestionPlan::from_query(query.split_once('?').unwrap().1).unwrap();
        assert!(render_cost(&offer, 2.0, 1e-6).contains("Fits every budget."), "{link}");
    }
}

#[test]
fn displayed_least_threshold_is_the_least() {
    let page = render_cost(&plan(|plan| plan.parts[1].rate = 0.2), 2.0, 1e-6);
    let rest = page.split("the least k at this β and ε is ").nth(1).unwrap();
    let k: u32 = rest.split(';').next().unwrap().parse().unwrap();
    let delta = |k: u32| {
        let spec = spec(|plan| (plan.parts[1].rate, plan.parts[1].threshold) = (0.2, k));
        let charge = spec.cost(&datasets()[1]).unwrap();
        mechanism::guarantee(&charge.event, charge.adjacency).unwrap().1.get()
    };
    assert!(delta(k) <= 1e-7 && delta(k - 1) > 1e-7, "{k}");
}

#[test]
fn consent_describes_the_release() {
    let spec = spec(|plan| {
        (plan.parts[1].rate, plan.parts[1].threshold, plan.parts[1].rows) = (0.05, 60, 3);
        plan.parts[1].shown = Shown::Set;
    });
    let ours = &datasets()[1];
    let consent = describe_consent(&spec, ours.id, spec.cost(ours).as_ref()).join(" ");
    for words in [
        "One list of texts leaves your log, once: each text once, without its count.",
        "At most 3 different texts of each user enter, each counted once.",
        "keeps each row with probability 0.05",
        "only a text with at least 60 kept rows is in the list",
        "leaves word for word, even if it names a person",
        "1 release is charged.",
    ] {
        assert!(consent.contains(words), "{words:?} is not in {consent}");
    }
    assert_eq!(describe_consent(&spec, datasets()[0].id, None), Vec::<String>::new(), "the lead pays nothing");
    let facts = list_facts(&spec);
    let fact = |term: &str| {
        facts.iter().find(|(known, _)| *known == term).map(|(_, description)| description.as_str()).unwrap()
    };
    assert_eq!(fact("Protects"), "each user of every private log");
    assert_eq!(fact("Labels"), "billing, card and something else");
    assert!(fact("Questions").starts_with("5 rounds of up to 50 questions"));
    assert_eq!(datasets()[0].visibility, Visibility::Public);
}

/// Returns a private labelled log that leads, and another that asks.
fn private_logs() -> Vec<Dataset> {
    let [mut lead, ours] = <[Dataset; 2]>::try_from(datasets()).unwrap();
    (lead.visibility, lead.users, lead.records) = (Visibility::Private, Some(SizeClass(2000)), SizeClass(5000));
    vec![lead, ours]
}

#[test]
fn private_lead_is_planned_priced_and_described() {
    let logs = private_logs();
    let mut plan = QuestionPlan::first(&logs, &[]).unwrap();
    assert_eq!(plan.lead, logs[0].id, "the one labelled log leads");
    "billing\ncard\ncalls".clone_into(&mut plan.labels);
    plan.unit = PrivacyUnit::User;
    plan.parts[0].tests = false;
    let spec = plan.spec(&logs).unwrap();
    assert_eq!(spec.check(&logs), Vec::new());
    assert_eq!((spec.golden, spec.participants[0].gate, spec.tests.len()), (2000, None, 0));
    let opened = QuestionPlan::from_spec("", &spec, QuestionPlan::first(&logs, &[]).unwrap());
    assert_eq!(opened.spec(&logs).unwrap(), spec);
    let charge = spec.cost(&logs[0]).unwrap();
    assert_eq!(charge.releases, 6);
    let consent = describe_consent(&spec, logs[0].id, Some(&charge)).join(" ");
    for words in
        ["A classifier leaves your site 6 times", "the sum of 40 steps", "6 releases are charged", "not measured"]
    {
        assert!(consent.contains(words), "{words:?} is not in {consent}");
    }
    let start = list_facts(&spec).into_iter().find(|(term, _)| *term == "Starts with").unwrap().1;
    assert!(start.starts_with("DP-SGD on the labelled rows") && start.contains("q 0.1, z 2, C 1"), "{start}");
    let budgets = |epsilon| {
        let all: Vec<_> = standings(epsilon, 1e-6).into_iter().flat_map(|(_, accounts)| accounts).collect();
        logs.iter().map(|log| (log.id, all.clone())).collect::<Vec<_>>()
    };
    let page = |epsilon| Owner::new().with(|| cost::render_cost(&plan, &logs, &budgets(epsilon), CONSORTIUM));
    assert!(
        page(20.0).contains("6 trainings of 40 noisy steps each are charged; about 200 of 2,000 users"),
        "{}",
        page(20.0)
    );
    assert!(page(20.0).contains("Fits every budget.") && page(0.5).contains("Over the limit."), "{}", page(0.5));
    assert_eq!(plan.measured().count(), 0);
    plan.training.noise = 0.0;
    let fields: Vec<_> = plan.spec(&logs).unwrap_err().into_iter().map(|violation| violation.field).collect();
    assert_eq!(fields, ["spec.private_lead.noise_multiplier"]);
}

/// Returns a public log that leads, one that asks, and a private labelled one.
fn measured_logs() -> Vec<Dataset> {
    let [lead, ours] = <[Dataset; 2]>::try_from(datasets()).unwrap();
    let kept = example::datasets().pop().unwrap();
    let kept =
        Dataset { classes: 3, test_records: 0, ..Dataset { id: kept.id, lineage: kept.lineage, ..ours.clone() } };
    vec![lead, ours, Dataset { name: "golden-test".to_owned(), ..kept }]
}

#[test]
fn private_test_set_is_planned_priced_and_described() {
    let logs = measured_logs();
    let mut plan = QuestionPlan::first(&logs, &[]).unwrap();
    "billing\ncard\ncalls".clone_into(&mut plan.labels);
    (plan.unit, plan.lead) = (PrivacyUnit::User, logs[0].id);
    (plan.parts[2].measures, plan.measurement.count) = (true, 2);
    let spec = plan.spec(&logs).unwrap();
    assert_eq!(spec.check(&logs), Vec::new());
    assert_eq!((spec.participants.len(), spec.private_test.unwrap().dataset), (2, logs[2].id), "it does not ask");
    let opened = QuestionPlan::from_spec("", &spec, QuestionPlan::first(&logs, &[]).unwrap());
    assert_eq!(opened.spec(&logs).unwrap(), spec);
    let charge = spec.cost(&logs[2]).unwrap();
    let consent = describe_consent(&spec, logs[2].id, Some(&charge)).join(" ");
    for words in [
        "measured on your log 2 times, before the questions and after round 5.",
        "for each of 3 labels the histogram",
        "noise of deviation 16",
        "2 releases are charged.",
    ] {
        assert!(consent.contains(words), "{words:?} is not in {consent}");
    }
    let facts = list_facts(&spec);
    let measurement = &facts.iter().find(|(term, _)| *term == "Measurement").unwrap().1;
    assert!(measurement.starts_with("on a private log, 2 times with noise"), "{measurement}");
    let budgets = |epsilon| {
        let all: Vec<_> = standings(epsilon, 1e-6).into_iter().flat_map(|(_, accounts)| accounts).collect();
        logs.iter().map(|log| (log.id, all.clone())).collect::<Vec<_>>()
    };
    let page = |plan: &QuestionPlan, epsilon| {
        Owner::new().with(|| cost::render_cost(plan, &logs, &budgets(epsilon), CONSORTIUM))
    };
    let page_of_two = page(&plan, 4.0);
    for words in ["golden-test", "the classifier is measured on it 2 times", "about 1,000 users"] {
        assert!(page_of_two.contains(words), "{words:?} is not in {page_of_two}");
    }
    assert!(page_of_two.contains("Fits every budget."), "{page_of_two}");
    plan.measurement.noise = 1.0;
    let dear = page(&plan, 2.0);
    let link = dear.split("<a href=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().replace("&amp;", "&");
    let offer = QuestionPlan::from_query(link.split_once('?').unwrap().1).unwrap();
    assert!(offer.measurement.noise > 1.0 && page(&offer, 2.0).contains("Fits every budget."), "{link}");
    plan.measurement.noise = 0.0;
    plan.parts[1].measures = true;
    let fields: Vec<_> = plan.spec(&logs).unwrap_err().into_iter().map(|violation| violation.field).collect();
    assert_eq!(fields, ["spec.private_test.dataset", "spec.private_test.noise_multiplier"]);
}

#[test]
fn job_page_shows_released_accuracy_with_its_interval() {
    let logs = measured_logs();
    let mut plan = QuestionPlan::first(&logs, &[]).unwrap();
    "billing\ncard\ncalls".clone_into(&mut plan.labels);
    plan.parts[2].measures = true;
    let spec = plan.spec(&logs).unwrap();
    let test = spec.private_test.unwrap();
    let layout = test.histograms(&spec.labels).layout();
    let mut sums = vec![0.0; layout.length()];
    for n in 0..6_000_u32 {
        let (label, is_correct) = (n as usize % 3, n % 4 > 0);
        let chosen = if is_correct { label } else { (label + 1) % 3 };
        let logits: Vec<f64> = (0..3).map(|class| if class == chosen { 1.0 } else { -1.5 }).collect();
        layout.add_example(ScoredExample { logits: &logits, label: Some(label), is_correct }, 1.0, &mut sums);
    }
    let point = |round, private_test| LearningPoint { round, asked: 0, labelled: 0, tests: Vec::new(), private_test };
    let learning = |sums: &[f64]| vec![point(0, None), point(1, Some(test.measure(&spec.labels, sums).unwrap()))];
    let render = |sums: &[f64]| {
        let report = Report { learning: learning(sums), best: Some(1), ..Report::default() };
        Owner::new().with(|| result::render_result(&spec, &report, &[]).to_html())
    };
    let page = render(&sums);
    for words in
        ["private test, with 95 % interval", "0.750 (0.7", "after round 1", "Each label against the rest", "billing"]
    {
        assert!(page.contains(words), "{words:?} is not in {page}");
    }
    let small = render(&vec![0.0; layout.length()]);
    assert!(small.contains("too small for the noise") && !small.contains("NaN"), "{small}");
}
