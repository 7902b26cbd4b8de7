use std::path::Path;

use undertone_api::dataset::{Content, Dataset, SizeClass, Visibility};
use undertone_api::job::Spec;
use undertone_api::job::transcription::window::{SOUND, SPAN};
use undertone_privacy::PrivacyUnit;

use super::super::{Policy, PolicyError, PolicyRefusal, Rules, TEMPLATE};
use super::{CostRefusal, MostCost, most_cost};
use crate::fixture::{self, ORGANIZATION, OURS, WORKER, local};
use crate::site::datasets::Local;
use crate::speech::transcribe::provider::settings::Settings;
use crate::speech::transcribe::segment::Limits;

fn policy_of(text: &str) -> Result<Policy, PolicyError> {
    Policy::parse(text, Path::new("policy.toml"))
}

/// A policy that names a limit as it stands in the file.
fn rules(limit: &str) -> Rules {
    let text = TEMPLATE.replacen("[jobs]\n", &format!("[jobs]\nmost_cost_per_job = {limit}\n"), 1);
    policy_of(&text).expect("it is a policy").rules("ward-7")
}

/// Two providers, each with its price, as the configuration has them.
fn providers(prices: [&str; 2]) -> Vec<Settings> {
    let provider = |(name, price): (&str, &str)| {
        let text = format!("name = \"{name}\"\nprotocol = \"deepgram\"\nurl = \"https://{name}.example\"\n{price}\n");
        toml::from_str(&text).expect("it is a provider")
    };
    ["one", "two"].into_iter().zip(prices).map(provider).collect()
}

const DOLLARS: &str = r#"price = { currency = "USD", per_minute = "0.006" }"#;
const EUROS: &str = r#"price = { currency = "EUR", per_minute = "0.006" }"#;

/// A job of the two at so small an ε, by the server with prices of its own.
fn job(epsilon: f64) -> Spec {
    let text = format!(
        r#"{{"kind": "transcription", "spec": {{
            "participant": {{ "dataset": "{}", "epsilon": {epsilon}, "delta": 0.0000001, "distance": 6 }},
            "providers": [
                {{ "name": "one", "protocol": "deepgram", "price": {{ "currency": "USD", "per_minute": "0" }} }},
                {{ "name": "two", "protocol": "deepgram" }}
            ],
            "vocabulary": {{ "from": "public", "words": ["insulin", "surgery"] }}
        }}}}"#,
        OURS.0
    );
    serde_json::from_str(&text).expect("it is a spec")
}

/// Our recordings: so many seconds.
fn recordings(seconds: u64) -> Dataset {
    let local = Local {
        content: Content::Recordings,
        seconds: Some(seconds),
        units: vec![PrivacyUnit::Words],
        ..local(Visibility::Private)
    };
    local.as_seen(OURS, ORGANIZATION, WORKER)
}

/// The most that a job costs, as the policy's file would have it.
fn most(spec: &Spec, dataset: &Dataset, providers: &[Settings]) -> u64 {
    let Spec::Transcription(spec) = spec else { panic!("it is one") };
    let all = most_cost(spec, dataset, providers).expect("there are prices");
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].nanos
}

fn dollars(nanos: u64) -> String {
    format!("{{ USD = \"{}.{:09}\" }}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

#[test]
fn a_job_may_cost_what_the_policy_says_and_not_a_billionth_more() {
    let (spec, dataset, providers) = (job(1.0), recordings(3_600), providers([DOLLARS; 2]));
    let most = most(&spec, &dataset, &providers);
    assert!(most > 0);
    assert_eq!(rules(&dollars(most)).judge_cost(&spec, &dataset, &providers), Ok(()));
    let refused = rules(&dollars(most - 1)).judge_cost(&spec, &dataset, &providers);
    assert!(matches!(refused, Err(PolicyRefusal::Cost(CostRefusal::Over { .. }))), "{refused:?}");
    let said = refused.expect_err("it is over").to_string();
    assert!(said.contains("`jobs.most_cost_per_job`"), "{said}");
    // The price that a server signs is nobody's here, and what says nothing of it has no limit.
    assert_eq!(policy_of(TEMPLATE).expect("it is one").rules("").judge_cost(&spec, &dataset, &providers), Ok(()));
    // Another kind costs no money.
    assert_eq!(rules("{}").judge_cost(&fixture::spec(), &dataset, &providers), Ok(()));
}

#[test]
fn more_dummies_and_longer_recordings_may_cost_more() {
    let providers = providers([DOLLARS; 2]);
    let of = |epsilon: f64, seconds: u64| most(&job(epsilon), &recordings(seconds), &providers);
    assert!(of(0.1, 3_600) > of(1.0, 3_600) && of(1.0, 36_000) > of(1.0, 3_600));
    // Rough sizes alone decide: what is told in one class costs the same.
    assert_eq!(SizeClass::of(3_600), SizeClass::of(5_000));
    assert_eq!(of(1.0, 3_600), of(1.0, 5_000));
}

#[test]
fn where_a_price_is_not_known_or_in_no_currency_of_the_limit_nothing_runs() {
    let (spec, dataset) = (job(1.0), recordings(3_600));
    let judge = |limit: &str, prices: [&str; 2]| rules(limit).judge_cost(&spec, &dataset, &providers(prices));
    let unpriced =
        |name: &str| -> Result<(), PolicyRefusal> { Err(PolicyRefusal::Cost(CostRefusal::Unpriced(name.to_owned()))) };
    let plenty = r#"{ USD = "999999" }"#;
    assert_eq!(judge(plenty, [DOLLARS, DOLLARS]), Ok(()));
    assert_eq!(judge(plenty, [DOLLARS, ""]), unpriced("two"));
    assert_eq!(judge(plenty, [EUROS, DOLLARS]), unpriced("one"));
    assert_eq!(judge("{}", [DOLLARS, DOLLARS]), unpriced("one"));
    assert_eq!(judge(r#"{ USD = "999999", EUR = "999999" }"#, [EUROS, DOLLARS]), Ok(()));
    assert!(judge(r#"{ USD = "999999", EUR = "0.01" }"#, [EUROS, DOLLARS]).is_err(), "each currency by itself");
    assert_eq!(rules(plenty).judge_cost(&spec, &dataset, &[]), unpriced("one"));
}

#[test]
fn a_limit_that_is_no_sum_refuses_the_whole_file() {
    for limit in [r#"{ USD = "many" }"#, r#"{ usd = "1" }"#, r#"{ USD = "1000000" }"#, "{ USD = 50 }", "50"] {
        let text = TEMPLATE.replacen("[jobs]\n", &format!("[jobs]\nmost_cost_per_job = {limit}\n"), 1);
        assert_ne!(text, TEMPLATE);
        assert!(policy_of(&text).is_err(), "{limit}");
    }
}

#[test]
fn the_windows_that_are_counted_are_those_that_are_cut() {
    let limits = Limits::default();
    assert_eq!(limits.most_samples(), (SOUND * 16_000.0) as usize);
    assert_eq!(limits.span(), (SPAN * 16_000.0) as u64);
}

#[test]
fn a_limit_is_written_as_it_was_read() {
    let rules = rules(r#"{ EUR = "45", USD = "50.25" }"#);
    let most = rules.most_cost_per_job.expect("it was just written");
    assert_eq!(most.to_string(), "EUR 45.0000, USD 50.2500");
    let json = serde_json::to_string(&most).expect("it has a JSON form");
    assert_eq!(serde_json::from_str::<MostCost>(&json).expect("it is one"), most);
}
