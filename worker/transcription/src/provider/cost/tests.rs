use std::path::Path;

use undertone_api::dataset::{Dataset, SizeClass, Visibility};
use undertone_api::job::Spec;
use undertone_api::job::transcription::window::SPAN;

use undertone_worker_site::policy::{
    CostRefusal, DatasetRules, MostCost, Policy, PolicyError, PolicyRefusal, TEMPLATE, most_cost,
};
use undertone_worker_site::testing::{self as fixture, ORGANIZATION, OURS, WORKER, local_recordings};

use crate::provider::settings::ProviderSettings;
use crate::segment::SegmentLimits;

fn policy_of(text: &str) -> Result<Policy, PolicyError> {
    Policy::parse(text, Path::new("policy.toml"))
}

/// Rules with a limit in the form of the policy file.
fn rules(limit: &str) -> DatasetRules {
    let text = TEMPLATE.replacen("[jobs]\n", &format!("[jobs]\nmost_cost_per_job = {limit}\n"), 1);
    policy_of(&text).expect("it is a policy").rules("ward-7")
}

/// Two providers with their prices, in the form of the configuration.
fn providers(prices: [&str; 2]) -> Vec<ProviderSettings> {
    let provider = |(name, price): (&str, &str)| {
        let text = format!("name = \"{name}\"\nprotocol = \"deepgram\"\nurl = \"https://{name}.example\"\n{price}\n");
        toml::from_str(&text).expect("it is a provider")
    };
    ["one", "two"].into_iter().zip(prices).map(provider).collect()
}

const DOLLARS: &str = r#"price = { currency = "USD", per_minute = "0.006" }"#;
const EUROS: &str = r#"price = { currency = "EUR", per_minute = "0.006" }"#;

/// A job for both providers at a small ε; the server signed prices of its own.
fn job(epsilon: f64) -> Spec {
    let text = format!(
        r#"{{"kind": "transcription", "spec": {{
            "participant": {{ "dataset": "{}", "epsilon": {epsilon}, "delta": 0.0000001, "distance": 10 }},
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

/// A dataset of recordings with a total length of `seconds`.
fn recordings(seconds: u64) -> Dataset {
    local_recordings(Visibility::Private, seconds).to_dataset(OURS, ORGANIZATION, WORKER)
}

/// Returns the largest cost of a job, in billionths of a dollar.
fn most(spec: &Spec, dataset: &Dataset, providers: &[ProviderSettings]) -> u64 {
    let Spec::Transcription(spec) = spec else { panic!("it is one") };
    let all = most_cost(spec, dataset, providers).expect("there are prices");
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].nanos
}

fn dollars(nanos: u64) -> String {
    format!("{{ USD = \"{}.{:09}\" }}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

#[test]
fn job_over_the_policy_limit_by_a_billionth_is_refused() {
    let spec = job(1.0);
    let dataset = recordings(3_600);
    let providers = providers([DOLLARS; 2]);
    let most = most(&spec, &dataset, &providers);
    assert!(most > 0);
    assert_eq!(rules(&dollars(most)).judge_cost(&spec, &dataset, &providers), Ok(()));
    let refused = rules(&dollars(most - 1)).judge_cost(&spec, &dataset, &providers);
    assert!(matches!(refused, Err(PolicyRefusal::Cost(CostRefusal::Over { .. }))), "{refused:?}");
    let message = refused.expect_err("it is over").to_string();
    assert!(message.contains("`jobs.most_cost_per_job`"), "{message}");
    // The prices that the server signed have no effect, and a policy without a money rule has no limit.
    assert_eq!(policy_of(TEMPLATE).expect("it is one").rules("").judge_cost(&spec, &dataset, &providers), Ok(()));
    // Other kinds of jobs cost no money.
    assert_eq!(rules("{}").judge_cost(&fixture::spec(), &dataset, &providers), Ok(()));
}

#[test]
fn cost_grows_with_dummies_and_recordings() {
    let providers = providers([DOLLARS; 2]);
    let of = |epsilon: f64, seconds: u64| most(&job(epsilon), &recordings(seconds), &providers);
    assert!(of(0.1, 3_600) > of(1.0, 3_600) && of(1.0, 36_000) > of(1.0, 3_600));
    // The cost depends on rough sizes only: sizes of one class cost the same.
    assert_eq!(SizeClass::from_count(3_600), SizeClass::from_count(5_000));
    assert_eq!(of(1.0, 3_600), of(1.0, 5_000));
}

#[test]
fn unknown_price_or_currency_is_refused() {
    let spec = job(1.0);
    let dataset = recordings(3_600);
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
    assert_eq!(rules(plenty).judge_cost::<ProviderSettings>(&spec, &dataset, &[]), unpriced("one"));
}

#[test]
fn invalid_limit_refuses_the_policy_file() {
    for limit in [r#"{ USD = "many" }"#, r#"{ usd = "1" }"#, r#"{ USD = "1000000" }"#, "{ USD = 50 }", "50"] {
        let text = TEMPLATE.replacen("[jobs]\n", &format!("[jobs]\nmost_cost_per_job = {limit}\n"), 1);
        assert_ne!(text, TEMPLATE);
        assert!(policy_of(&text).is_err(), "{limit}");
    }
}

#[test]
fn stated_span_is_within_that_of_the_segmentation() {
    assert!((SPAN * 16_000.0) as u64 <= SegmentLimits::default().span());
}

#[test]
fn limit_round_trips() {
    let rules = rules(r#"{ EUR = "45", USD = "50.25" }"#);
    let most = rules.most_cost_per_job.expect("it was just written");
    assert_eq!(most.to_string(), "EUR 45.0000, USD 50.2500");
    let json = serde_json::to_string(&most).expect("it has a JSON form");
    assert_eq!(serde_json::from_str::<MostCost>(&json).expect("it is one"), most);
}
