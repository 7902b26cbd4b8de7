//! The planner's form becomes a job, its numbers equal the contract's, and the steward's text matches the spec.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use leptos::prelude::*;
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, DatasetContent, SizeClass, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::JobKind as _;
use undertone_api::job::transcription::{
    CostEstimate, HistogramBin, OutputVoice, ProviderResult, Report, Spec, TranscriptErrors, TranscriptionAttack,
    TranscriptionOutcome, UntriedAttack, Vocabulary, WordErrors,
};
use undertone_privacy::ledger::{Balance, Budget, GridKind};
use undertone_privacy::{Adjacency, Delta, Epsilon, PrivacyUnit};

use super::description::{describe_consent, list_facts};
use super::plan::TranscriptionPlan;
use super::planner::cost;
use crate::kind::Card;
use crate::path;
use crate::testing::TestDashboard;
use crate::testing::example::{self, CONSORTIUM};

/// Returns the recordings of a ward, about an hour and a half.
fn datasets() -> Vec<Dataset> {
    let mut ward = example::datasets().remove(1);
    (ward.content, ward.inputs, ward.classes, ward.speakers) = (DatasetContent::Recordings, 0, 0, SizeClass(1));
    (ward.visibility, ward.seconds) = (Visibility::Private, Some(SizeClass(5000)));
    ward.units = vec![PrivacyUnit::Words];
    vec![ward]
}

fn standings(epsilon: f64, delta: f64) -> Vec<(DatasetId, Vec<AccountStanding>)> {
    let limit = Epsilon::new(epsilon).unwrap();
    let budget = Budget::new(limit, Delta::new(delta).unwrap(), GridKind::for_epsilon(limit)).unwrap();
    let balance = Balance::new(Some(budget));
    vec![(
        datasets()[0].id,
        vec![AccountStanding { unit: PrivacyUnit::Words, adjacency: Adjacency::AddRemove, balance }],
    )]
}

fn plan(change: impl FnOnce(&mut TranscriptionPlan)) -> TranscriptionPlan {
    let mut plan = TranscriptionPlan::first(&datasets(), &standings(10.0, 1e-4)).unwrap();
    "diabetes, insulin\r\nsurgery".clone_into(&mut plan.words);
    "0.0060".clone_into(&mut plan.providers[0].per_minute);
    "0.016".clone_into(&mut plan.providers[1].per_minute);
    change(&mut plan);
    plan
}

fn spec(change: impl FnOnce(&mut TranscriptionPlan)) -> Spec {
    let spec = plan(change).spec().unwrap();
    assert_eq!(spec.check(&datasets()), Vec::new());
    spec
}

fn render_cost(plan: &TranscriptionPlan, epsilon: f64, delta: f64) -> String {
    Owner::new().with(|| cost::render_cost(plan, &datasets(), &standings(epsilon, delta), CONSORTIUM))
}

fn render_result(spec: &Spec, report: &Report) -> String {
    Owner::new().with(|| spec.result(report, &[]).to_html())
}

#[test]
fn first_plan_with_words_is_valid() {
    let spec = spec(|_| ());
    assert!((spec.participant.epsilon.get() - 1.0).abs() < 1e-9, "a tenth of the account's");
    assert!((spec.participant.delta.get() - 2.5e-6).abs() < 1e-15, "a tenth of the side part of 1e-4");
    assert_eq!(spec.vocabulary.listed(), ["diabetes", "insulin", "surgery"]);
    assert_eq!(
        spec.providers.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["one", "two"],
        "empty rows are none"
    );
    assert_eq!(TranscriptionPlan::first(&[], &[]), None);
}

#[test]
fn planned_spec_opens_as_its_plan() {
    let from_data = plan(|plan| (plan.from, plan.above) = ("data".to_owned(), String::new()));
    let voiced = plan(|plan| {
        (plan.voice, plan.colluding, plan.distance) = ("command".to_owned(), 2, 7);
        plan.providers[1].per_minute = String::new();
    });
    let cloned = plan(|plan| "cloned".clone_into(&mut plan.voice));
    for planned in [plan(|_| ()), from_data, plan(choose_words), voiced, cloned] {
        let spec = planned.spec().unwrap();
        let plan = TranscriptionPlan::from_spec("a title", &spec, TranscriptionPlan::first(&datasets(), &[]).unwrap());
        assert_eq!(plan.title, "a title");
        assert_eq!(plan.spec().unwrap(), spec);
    }
}

/// Has two of four candidates chosen.
fn choose_words(plan: &mut TranscriptionPlan) {
    "selected".clone_into(&mut plan.from);
    "insulin fever, garden\nletter".clone_into(&mut plan.candidates);
    "diabetes".clone_into(&mut plan.words);
    plan.choose = 2;
}

#[test]
fn plan_with_chosen_words_states_their_price() {
    let spec = spec(choose_words);
    let facts = list_facts(&spec);
    let vocabulary = facts.iter().find(|(term, _)| *term == "Vocabulary").map(|(_, said)| said.as_str()).unwrap();
    assert!(vocabulary.starts_with("2 words of 4 public candidates"), "{vocabulary}");
    let dataset = &datasets()[0];
    let charge = spec.cost(dataset).unwrap();
    let consent = describe_consent(&spec, dataset.id, Some(&charge)).join(" ");
    assert!(consent.contains("learn the chosen words") && consent.contains("ε 0.50 of the whole"), "{consent}");
    let page = render_cost(&plan(choose_words), 10.0, 1e-4);
    assert!(page.contains("Fits the budget.") && page.contains("3 words"), "{page}");
    assert!(page.contains("1 spoken word anywhere in the recordings"), "{page}");
}

/// Returns `count` different words.
fn make_words(count: usize) -> String {
    (0..count).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn plan_link_round_trips_unless_too_long() {
    let short = plan(|plan| (plan.title, plan.colluding) = ("what, & why?".to_owned(), 2));
    let link = short.link(CONSORTIUM).unwrap();
    assert_eq!(TranscriptionPlan::from_query(link.split_once('?').unwrap().1), Some(short));
    assert_eq!(TranscriptionPlan::from_query("ask%5Btitle%5D=of+another+kind"), None);
    let long = plan(|plan| plan.words = make_words(2000));
    assert_eq!(long.link(CONSORTIUM), None);
}

/// Returns the posted form of a plan for the consortium's own private recordings, and a change.
fn posted_form(dashboard: &TestDashboard, title: &str, change: fn(&mut TranscriptionPlan)) -> String {
    let plan = plan(|plan| {
        title.clone_into(&mut plan.title);
        plan.dataset = dashboard.recordings_id(1);
        change(plan);
    });
    let link = plan.link(dashboard.consortium).unwrap();
    format!("consortium={}&{}", dashboard.consortium, link.split_once('?').unwrap().1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_form_proposes_a_job() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let body = posted_form(&dashboard, "dictated letters", |_| ());
    let came = dashboard.send("propose-transcription", &body, true).await;
    let job = dashboard.newest_job().await;
    assert_eq!(job.title, "dictated letters", "{}", came.body);
    assert_eq!((came.status.as_u16(), came.location()), (302, path::job(consortium, job.id).as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_plan_is_priced_by_the_server() {
    let dashboard = TestDashboard::open().await;
    let price = async |change: fn(&mut TranscriptionPlan)| {
        let came = dashboard.send("weigh-transcription", &posted_form(&dashboard, "", change), false).await;
        serde_json::from_str::<String>(&came.body).unwrap()
    };
    let html = price(|_| ()).await;
    assert!(html.contains("Fits the budget.") && html.contains("dictations, North clinic"), "{html}");
    let wrong = price(|plan| plan.distance = 0).await;
    assert!(wrong.contains("<code>participant.distance</code>"), "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn form_has_every_field_without_a_script() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = dashboard.render(&path::plan_of(consortium, "transcription"), true, "").await.body;
    let form = page.split_once(<Spec as Card>::TITLE).unwrap().1;
    for said in [
        "id=\"plan-transcription\"",
        "action=\"/ui/propose-transcription\"",
        "formaction=\"/ui/draft-transcription\"",
        "name=\"hear[epsilon]\"",
        "name=\"hear[delta]\"",
        "name=\"hear[distance]\"",
        "name=\"hear[providers][3][name]\"",
        "name=\"hear[colluding]\"",
        "name=\"hear[words]\"",
        "name=\"hear[size]\"",
        "name=\"hear[voice]\"",
        "dictations of North clinic, private, about 14 hours",
        "Recalculate",
    ] {
        assert!(form.contains(said), "{said:?} is not in {form}");
    }
    assert!(!form.contains("ward-a") && !form.contains("helpdesk-south"), "each kind sees its own data");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_plan_explains_the_missing_words() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let page = dashboard.render(&path::plan_of(consortium, "transcription"), true, "").await.body;
    let form = page.split_once(<Spec as Card>::TITLE).unwrap().1;
    for said in [
        "The word list is empty",
        "for a list of 200 words",
        "200 words as planned; the list is empty",
        "Fits the budget.",
        "Dummies of a word at one recognizer",
        "2 together",
        "Variants of the plan",
    ] {
        assert!(form.contains(said), "{said:?} is not in {form}");
    }
    assert!(!form.contains("notice bad"), "nothing is wrong yet: {form}");
}

#[test]
fn planned_words_are_estimated_like_written_ones() {
    let written = plan(|plan| plan.words = make_words(50));
    let planned = plan(|plan| (plan.words, plan.size) = (String::new(), 50));
    let dummies = |plan: &TranscriptionPlan| {
        let spec = plan.spec().unwrap();
        CostEstimate::from_word_count(&spec, plan.size(&spec), 5000).unwrap()
    };
    assert_eq!(dummies(&written), dummies(&planned));
    let more = plan(|plan| (plan.words, plan.size) = (String::new(), 100));
    assert!(dummies(&more).dummies > 1.9 * dummies(&planned).dummies);
    let page = render_cost(&written, 10.0, 1e-4);
    assert!(!page.contains("word list is empty") && page.contains("50 words"), "{page}");
}

#[test]
fn variants_change_the_expected_numbers() {
    let page = render_cost(&plan(|_| ()), 10.0, 1e-4);
    let rows = page.split("The same plan with one number changed").nth(1).unwrap();
    let row = |name: &str| {
        let row = rows.split("<tr>").find(|row| row.contains(&format!(">{name}</th>"))).unwrap();
        let dummies = row.split("class=\"number\">").nth(1).unwrap().split('<').next().unwrap();
        dummies.parse::<f64>().unwrap()
    };
    let here = row("these numbers");
    assert!(row("ε 0.50") > here && here > row("ε 2.00"), "more ε is less noise");
    assert!(row("d 20") > here && here > row("d 5"), "a greater distance is more noise");
    assert!(row("δ 2.5·10⁻⁷") > here, "a smaller δ is more noise");
    assert!((row("6 words") - here).abs() < 1e-9, "the list’s length changes no word’s dummies");
    for said in ["one recognizer fewer", "another recognizer"] {
        assert!(rows.contains(said), "{said}: {rows}");
    }
}

#[test]
fn plan_cost_and_estimate_are_displayed() {
    let planned = plan(|_| ());
    let page = render_cost(&planned, 10.0, 1e-4);
    let spec = planned.spec().unwrap();
    let estimate = CostEstimate::from_spec(&planned.spec().unwrap(), 5000).unwrap();
    let promises = spec.promises().unwrap();
    for said in [
        "Fits the budget.".to_owned(),
        format!("{:.1} ± {:.1}", estimate.each, estimate.deviation),
        crate::words::count(estimate.dummies.round() as u64),
        estimate.cost()[0].to_string(),
        estimate.bare()[0].to_string(),
        crate::words::epsilon(promises[1].epsilon),
        "2 together".to_owned(),
        "on the worker’s own processor".to_owned(),
        "Of its δ 10⁻⁴ the account keeps 2.5·10⁻⁵ for releases with their own δ, such as this one: 0 of that is spent"
            .to_owned(),
    ] {
        assert!(page.contains(&said), "{said:?} is not in {page}");
    }
    let by_server = render_cost(&plan(|plan| "url".clone_into(&mut plan.voice)), 10.0, 1e-4);
    assert!(by_server.contains("at the speed of the site’s server"), "{by_server}");
    let cloned = render_cost(&plan(|plan| "cloned".clone_into(&mut plan.voice)), 10.0, 1e-4);
    assert!(cloned.contains("none: voices leave unchanged") && !cloned.contains("own processor"), "{cloned}");
    let none = Owner::new().with(|| cost::render_cost(&planned, &datasets(), &[], CONSORTIUM));
    assert!(none.contains("has not set a budget for counts of pieces"), "{none}");
}

#[test]
fn invalid_fields_are_named_by_path() {
    let page = render_cost(&plan(|plan| plan.words = String::new()), 10.0, 1e-4);
    assert!(page.contains("<code>vocabulary.words</code>"), "{page}");
    let page = render_cost(&plan(|plan| plan.from = "data".to_owned()), 10.0, 1e-4);
    assert!(page.contains("<code>vocabulary.from</code>") && page.contains("no noise covers"), "{page}");
    let garbled = plan(|plan| (plan.epsilon, plan.delta, plan.distance, plan.colluding) = (-1.0, 2.0, 0, 0));
    let fields: Vec<_> = garbled.spec().unwrap_err().into_iter().map(|violation| violation.field).collect();
    let places = ["participant.epsilon", "participant.delta", "participant.distance", "colluding"];
    assert_eq!(fields, places.map(|place| format!("spec.{place}")));
}

#[test]
fn refused_plan_links_to_fitting_plans() {
    let page = render_cost(&plan(|plan| plan.epsilon = 4.0), 1.0, 1e-3);
    assert!(page.contains("Over the limit.") && page.contains("It exceeds the remaining budget."), "{page}");
    let links: Vec<_> = page.split("<a href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(!links.is_empty(), "{page}");
    for link in links {
        let query = link.replace("&amp;", "&");
        let offer = TranscriptionPlan::from_query(query.split_once('?').unwrap().1).unwrap();
        assert!(render_cost(&offer, 1.0, 1e-3).contains("Fits the budget."), "{link}");
    }
}

/// Selects unchanged voices, which are charged for all recognizers together.
fn use_own_voices(plan: &mut TranscriptionPlan) {
    "cloned".clone_into(&mut plan.voice);
    plan.colluding = 2;
}

#[test]
fn consent_describes_protection_and_its_limits() {
    let ward = &datasets()[0];
    let spec = spec(|_| ());
    let consent = describe_consent(&spec, ward.id, spec.cost(ward).as_ref()).join(" ");
    for part in [
        "for one and two: companies outside this consortium",
        "from a reader of these counts only: up to 10 counts more or less in all your recordings together, that is, one spoken word",
        "which hear them in clear speech",
        "Not covered by any ε: information in the sound of a piece, or in the words around",
        "There is no guarantee for a whole recording, or for a person",
        "You are charged for each separately.",
        "2 together ε 1.49",
        "reveals nothing of your recordings",
        "stays at your site",
        "1 release is charged",
        "gives each piece another random voice",
        "an attack that knew the engine distinguished them from pieces of seven readers in 92 to 98 of 100 cases",
    ] {
        assert!(consent.contains(part), "{part:?} is not in {consent}");
    }
    let double = self::spec(|plan| plan.distance = 20);
    let consent = describe_consent(&double, ward.id, double.cost(ward).as_ref()).join(" ");
    assert!(
        consent.contains("up to 20 counts more or less") && consent.contains("that is, up to 2 spoken words"),
        "{consent}"
    );
    assert!(!consent.contains("imitation"), "one voice imitates nobody: {consent}");
    let vocoder = self::spec(|plan| {
        "vocoder".clone_into(&mut plan.voice);
        plan.detail = 8;
    });
    assert_eq!(vocoder.voice, OutputVoice::Vocoder { detail: 8, varied: false });
    assert!(list_facts(&vocoder).contains(&("Voice conversion", "vocoder of 8 coefficients".to_owned())));
    let consent = describe_consent(&vocoder, ward.id, vocoder.cost(ward).as_ref()).join(" ");
    assert!(
        consent.contains("in converted voices")
            && consent.contains("identified 19 to 40 %")
            && !consent.contains("McAdams"),
        "{consent}"
    );
    let cloned = self::spec(use_own_voices);
    let consent = describe_consent(&cloned, ward.id, cloned.cost(ward).as_ref()).join(" ");
    for part in [
        "in the recorded voices, mixed with dummies in imitations of these voices",
        "the recognizers can identify the speakers",
        "Made-up sentences leave in imitations of these voices",
        "only if every recorded person has agreed to both",
        "`voices_may_leave`",
        "The quality of the imitations depends on your site’s program",
    ] {
        assert!(consent.contains(part), "{part:?} is not in {consent}");
    }
    assert!(!consent.contains("one voice"), "{consent}");
    assert_eq!(describe_consent(&spec, ward.id, None), Vec::<String>::new(), "public recordings pay nothing");
}

#[test]
fn facts_name_recognizers_and_vocabulary() {
    let facts = list_facts(&spec(|_| ()));
    let fact = |term: &str| facts.iter().find(|(known, _)| *known == term).map(|(_, said)| said.as_str()).unwrap();
    assert_eq!(
        fact("Protects"),
        "10 counts of pieces by word, added and removed together; one spoken word changes at most 10"
    );
    assert_eq!(fact("Recognizers"), "one (OpenAI-compatible) and two (OpenAI-compatible)");
    assert_eq!(fact("Vocabulary"), "a public list of 3 words (en): diabetes, insulin and surgery");
    assert!(fact("Noise").starts_with("on average 100.0 dummies of each word"), "{}", fact("Noise"));
    assert_eq!(fact("Voice conversion"), "vocoder of 13 coefficients, another random voice for each piece");
    let from_data = Spec {
        vocabulary: Vocabulary::Data { top_percent: 5.0, above: None, most: 100, words: Vec::new() },
        voice: OutputVoice::Url,
        ..spec(|_| ())
    };
    let facts = list_facts(&from_data);
    assert!(facts.iter().any(|(_, said)| said.contains("reveals what was said")), "{facts:?}");
    let cloned = list_facts(&self::spec(self::use_own_voices));
    assert!(
        cloned.iter().any(|(term, said)| *term == "Voices" && said.contains("can identify the speakers")),
        "{cloned:?}"
    );
}

#[test]
fn private_recordings_result_has_only_promises() {
    let spec = spec(|_| ());
    let page = render_result(&spec, &Report::from_plan(&spec).unwrap());
    assert!(page.contains("1.49") && page.contains("one recognizer, as charged"), "{page}");
    assert!(page.contains("in the site’s report beside the transcripts") && page.contains("transcripts/"), "{page}");
    assert!(!page.contains("Word error rate") && !page.contains("Attacks"), "{page}");
}

#[test]
fn public_recordings_result_has_the_outcome() {
    let spec = spec(|_| ());
    let wrong = |substitutions| WordErrors { words: 200, substitutions, insertions: 0, deletions: 0 };
    let outcome = TranscriptionOutcome {
        words: 3,
        recordings: 2,
        seconds: 600.0,
        pieces: 400,
        errors: Some(TranscriptErrors { ours: wrong(20), offline: wrong(60), cloud: Some(wrong(10)) }),
        providers: vec![ProviderResult {
            name: "one".to_owned(),
            pieces: 200,
            dummies: 140,
            seconds: 510.0,
            cost: Some(undertone_api::job::transcription::Money { currency: "USD".to_owned(), nanos: 51_000_000 }),
            histogram: vec![
                HistogramBin { occurrences: 0, said: 2, heard: 0 },
                HistogramBin { occurrences: 32, said: 0, heard: 3 },
            ],
            topic_distance: Some(0.25),
        }],
        attacks: vec![TranscriptionAttack {
            name: "true or dummy".to_owned(),
            accuracy: 0.6,
            interval: [0.55, 0.65],
            chance: 0.5,
        }],
        untried: vec![UntriedAttack { provider: "two".to_owned(), why: "a sound cannot be read".to_owned() }],
        ..TranscriptionOutcome::default()
    };
    let page = render_result(&spec, &Report::from_plan(&spec).unwrap().with_outcome(outcome));
    for said in [
        "10.0",
        "30.0",
        "5.0",
        "ours",
        "offline alone",
        "cloud alone",
        "USD 0.0510",
        "0.250",
        "32 to 63 times",
        "60.0 %",
        "55.0 % to 65.0 %",
        "Untried attacks:",
        "two: a sound cannot be read.",
    ] {
        assert!(page.contains(said), "{said:?} is not in {page}");
    }
}
