use std::num::NonZeroU32;
use std::path::Path;

use undertone_api::dataset::Visibility;
use undertone_api::job::Spec;
use undertone_privacy::kanon::Shown;
use undertone_privacy::{Epsilon, Event, PrivacyUnit, SamplingRate};

use super::{DatasetRules, Policy, PolicyError, PolicyRefusal, RequiredApproval, TEMPLATE, declare};
use crate::testing::{charge, gaussian, spec};

fn policy(text: &str) -> Result<Policy, PolicyError> {
    Policy::parse(text, Path::new("policy.toml"))
}

fn rules() -> DatasetRules {
    policy(TEMPLATE).expect("the template is a policy").rules("ward-7")
}

#[test]
fn template_is_careful() {
    let rules = rules();
    assert_eq!((rules.visibility, rules.approval), (Visibility::Private, RequiredApproval::Steward));
    assert!(rules.limits.limit(PrivacyUnit::Speaker).is_some() && rules.limits.limit(PrivacyUnit::Record).is_none());
}

#[test]
fn unknown_or_invalid_line_refuses_the_whole_file() {
    for (from, to) in [
        ("approval = \"steward\"", "approval = \"nobody\""),
        ("kinds = [\"dp_sgd\"]", "kinds = \"dp_sgd\""),
        ("most_epsilon_per_job", "most_epsilon_per_jobb"),
        ("most_epsilon_automatic = 4.0", "most_epsilon_automatic = -1.0"),
        ("most_epsilon_automatic = 4.0", "most_epsilon_automatic = inf"),
        ("least_noise_multiplier = 0.5", "least_noise_multiplier = -1.0"),
        ("least_noise_multiplier = 0.5", "least_noise_multiplier = nan"),
        ("least_threshold = 10", "least_threshold = 0"),
        ("most_sampling_rate = 0.5", "most_sampling_rate = 0.0"),
        ("most_sampling_rate = 0.5", "most_sampling_rate = 1.5"),
        ("delta = 1e-6", "delta = 1.0"),
        ("delta = 1e-6", "delta = 0.0"),
        ("epsilon = 8.0", "epsilon = -8.0"),
        ("epsilon = 8.0", "epsilon = 1e-9"),
        ("least_distance = 10", "least_distance = 0"),
        ("least_colluding = 1", "least_colluding = 0"),
        ("voices_may_leave = false", "voices_may_leave = 0"),
        ("[budget.speaker]", "[budget.speak]"),
        ("# release_period_seconds = { dp_sgd = 2.0", "release_period_seconds = { dp_sgd = 0.01"),
        ("# release_period_seconds = { dp_sgd = 2.0", "release_period_seconds = { sgd = 2.0"),
        ("longest_unit_seconds = { record = 60.0", "longest_unit_seconds = { record = 0.0"),
        ("longest_unit_seconds = { record = 60.0", "longest_unit_seconds = { records = 60.0"),
    ] {
        let changed = TEMPLATE.replacen(from, to, 1);
        assert_ne!(changed, TEMPLATE, "{from} is in the template");
        assert!(policy(&changed).is_err(), "{to}");
    }
}

#[test]
fn budget_chooses_its_filter_and_the_limit_per_job_follows_it() {
    let with =
        |filter: &str| policy(&TEMPLATE.replacen("epsilon = 8.0", &format!("epsilon = 8.0\nfilter = \"{filter}\""), 1));
    let unknown = with("zcdp").expect_err("there is no such filter");
    let source = std::error::Error::source(&unknown).expect("its place").to_string();
    assert!(source.contains("unknown variant `zcdp`, expected `renyi` or `gaussian`"), "{source}");
    let long = charge(crate::testing::sampled_gaussian(0.05, 1.0), 89);
    let judged = |filter: &str| with(filter).expect("a policy").rules("ward-7").judge(&spec(), Some(&long));
    assert_eq!(judged("gaussian"), Ok(()), "ε is 4 for each job");
    assert!(matches!(judged("renyi"), Err(PolicyRefusal::PerJob { .. })));
    let stated = with("renyi").expect("a policy");
    assert_eq!(stated, policy(TEMPLATE).expect("a policy"), "the default");
    let text = toml::to_string(&stated).expect("TOML");
    assert!(!text.contains("filter"), "the default is not written: {text}");
}

#[test]
fn unknown_kind_is_refused_with_the_known_ones() {
    let changed = TEMPLATE.replacen("kinds = [\"dp_sgd\"]", "kinds = [\"dp_sgdd\"]", 1);
    let message = policy(&changed).expect_err("no such kind").to_string();
    assert!(message.contains("policy.toml") && message.contains("`dp_sgdd`"), "{message}");
    assert!(Spec::KINDS.iter().all(|kind| message.contains(&format!("`{kind}`"))), "{message}");
}

#[test]
fn kind_that_is_not_listed_may_not_run() {
    let rules = DatasetRules { kinds: vec!["count".to_owned()], ..rules() };
    assert_eq!(rules.judge(&spec(), None), Err(PolicyRefusal::Kind("dp_sgd".to_owned())));
}

#[test]
fn noise_below_the_least_is_refused_in_any_event() {
    let thin = gaussian(0.25);
    let wrapped = Event::Composed { events: vec![gaussian(2.0), thin.clone().times(3)] };
    for event in [thin, wrapped] {
        let refusal = rules().judge(&spec(), Some(&charge(event, 1)));
        assert_eq!(refusal, Err(PolicyRefusal::Noise { asked: 0.25, least: 0.5 }));
    }
    assert_eq!(rules().judge(&spec(), Some(&charge(gaussian(4.0), 1))), Ok(()));
}

/// Returns the release of queries that occur at least `k` times in a sample at rate `rate`, for ε = 1.
fn pool(rate: f64, k: u32) -> Event {
    Event::SampledThreshold {
        sampling_rate: SamplingRate::new(rate).expect("a probability"),
        threshold: NonZeroU32::new(k).expect("at least 1"),
        epsilon: Epsilon::new(1.0).expect("a finite number"),
        shown: Shown::Counts,
        rows_per_unit: NonZeroU32::MIN,
    }
}

#[test]
fn rare_or_oversampled_queries_are_refused_in_any_event() {
    let judge = |event: Event| rules().judge(&spec(), Some(&charge(event, 1)));
    assert_eq!(judge(pool(0.1, 20)), Ok(()));
    for wrapped in [pool(0.1, 9), Event::Composed { events: vec![gaussian(2.0), pool(0.1, 9).times(3)] }] {
        assert_eq!(judge(wrapped), Err(PolicyRefusal::Threshold { asked: 9, least: 10 }));
    }
    assert_eq!(judge(pool(0.625, 200)), Err(PolicyRefusal::Rate { asked: 0.625, most: 0.5 }));
    assert!(matches!(judge(pool(0.5, 10)), Err(PolicyRefusal::PerJob { .. })), "its delta is larger than any budget's");
}

#[test]
fn policy_without_rules_for_queries_uses_the_templates() {
    let silent = TEMPLATE.replace("least_threshold = 10\n", "").replace("most_sampling_rate = 0.5\n", "");
    let silent = silent.replace("voices_may_leave = false\n", "").replace("least_colluding = 1\n", "");
    assert!(!silent.contains("least_threshold =") && !silent.contains("most_sampling_rate ="));
    assert!(!silent.contains("voices_may_leave ="));
    assert_eq!(policy(&silent).expect("an older file is a policy").rules("ward-7"), rules());
}

#[test]
fn older_policy_has_no_total_and_the_template_has_one() {
    assert_eq!(rules().most_epsilon_automatic.map(Epsilon::get), Some(4.0));
    let silent = TEMPLATE.replace("most_epsilon_automatic = 4.0\n", "");
    assert_ne!(silent, TEMPLATE);
    assert_eq!(policy(&silent).expect("an older file is a policy").rules("ward-7").most_epsilon_automatic, None);
}

#[test]
fn one_job_may_not_cost_more_than_its_limit() {
    let rules = rules();
    assert_eq!(rules.judge(&spec(), Some(&charge(gaussian(4.0), 1))), Ok(()));
    assert!(matches!(
        rules.judge(&spec(), Some(&charge(gaussian(4.0), 1000))),
        Err(PolicyRefusal::PerJob { most: 4.0, .. })
    ));
}

#[test]
fn unit_without_a_budget_cannot_be_charged() {
    let mut charge = charge(gaussian(4.0), 1);
    charge.unit = PrivacyUnit::User;
    assert_eq!(rules().judge(&spec(), Some(&charge)), Err(PolicyRefusal::NoLimit(PrivacyUnit::User)));
}

#[test]
fn exact_results_leave_only_what_the_site_marks_open() {
    let hidden = Event::NonPrivate.times(1);
    for event in [Event::NonPrivate, hidden] {
        let charge = charge(event, 10);
        for visibility in [Visibility::Private, Visibility::Public] {
            let rules = DatasetRules { visibility, ..rules() };
            assert_eq!(rules.judge(&spec(), Some(&charge)), Err(PolicyRefusal::Exact), "{visibility:?}");
        }
        let open = DatasetRules { visibility: Visibility::Open, ..rules() };
        assert_eq!(open.judge(&spec(), Some(&charge)), Ok(()));
    }
}

#[test]
fn event_without_a_price_is_refused() {
    // Half of all rows are kept, and a row that is certainly kept loses more than ε.
    let Event::SampledThreshold { sampling_rate, threshold, shown, rows_per_unit, .. } = pool(0.5, 20) else {
        panic!("a pool")
    };
    let epsilon = Epsilon::new(0.5).expect("a finite number");
    let event = Event::SampledThreshold { sampling_rate, threshold, epsilon, shown, rows_per_unit };
    let charge = charge(event, 1);
    assert!(matches!(rules().judge(&spec(), Some(&charge)), Err(PolicyRefusal::Price(_))));
}

#[test]
fn dataset_may_have_rules_of_its_own() {
    let text = format!(
        "{TEMPLATE}\n[datasets.\"ward-7\"]\nvisibility = \"open\"\napproval = \"manual\"\n\
         budget.speaker = {{ epsilon = 2.0, delta = 1e-7 }}\n"
    );
    let policy = policy(&text).expect("it is well formed");
    let (own, other) = (policy.rules("ward-7"), policy.rules("ward-8"));
    assert_eq!((own.visibility, own.approval), (Visibility::Open, RequiredApproval::Manual));
    assert_eq!(own.limits.limit(PrivacyUnit::Speaker).map(|limit| limit.epsilon.get()), Some(2.0));
    assert_eq!(own.limits.limit(PrivacyUnit::Record), other.limits.limit(PrivacyUnit::Record));
    assert_eq!((other.visibility, other.approval), (Visibility::Private, RequiredApproval::Steward));
}

#[test]
fn declared_visibility_is_written_once_and_never_overwritten() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("policy.toml");
    for _ in 0..2 {
        declare(&path, "an4-public", Visibility::Public).expect("nothing was said of it before");
    }
    declare(&path, "ward-7", Visibility::Private).expect("what is not named is private");
    let text = std::fs::read_to_string(&path).expect("it is there");
    assert!(text.starts_with(TEMPLATE) && text.matches("an4-public").count() == 1);
    assert_eq!(Policy::load(&path).expect("it is a policy").rules("an4-public").visibility, Visibility::Public);
    assert!(matches!(declare(&path, "an4-public", Visibility::Open), Err(PolicyError::Declared { .. })));
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text);
}

#[test]
fn transcription_that_hides_less_than_one_word_may_not_run() {
    let histogram = |distance: u32| Event::TruncatedLaplace {
        rate: Epsilon::new(0.25).expect("a finite number"),
        shift: 80,
        distance: NonZeroU32::new(distance).expect("at least 1"),
        partition: undertone_privacy::histogram::Partition::NONE,
    };
    let judge = |event: Event, least: &str| {
        let charge = undertone_api::job::Charge { unit: PrivacyUnit::Words, ..charge(event, 1) };
        let text =
            TEMPLATE.replacen("[budget.speaker]", "[budget.words]", 1).replacen("least_distance = 10\n", least, 1);
        policy(&text).expect("it is a policy").rules("ward-7").judge(&spec(), Some(&charge))
    };
    // An older file with a smaller distance, or none, gets the distance of one word.
    for least in ["least_distance = 10\n", "least_distance = 2\n", ""] {
        assert_eq!(judge(histogram(10), least), Ok(()), "{least}");
        assert_eq!(judge(histogram(9), least), Err(PolicyRefusal::Distance { asked: 9, least: 10 }), "{least}");
    }
    assert_eq!(judge(histogram(11), "least_distance = 12\n"), Err(PolicyRefusal::Distance { asked: 11, least: 12 }));
    let refused = judge(histogram(4), "").expect_err("it is too little").to_string();
    assert!(refused.contains("one spoken word") && refused.contains("ask for 10"), "{refused}");
    let without = charge(histogram(10), 1);
    let without = undertone_api::job::Charge { unit: PrivacyUnit::Words, ..without };
    assert_eq!(rules().judge(&spec(), Some(&without)), Err(PolicyRefusal::NoLimit(PrivacyUnit::Words)));
}

#[test]
fn stricter_collusion_rule_of_a_site_is_applied() {
    let count = |count: u32| NonZeroU32::new(count).expect("at least 1");
    let judge = |least: u32, providers: u32, colluding: u32| {
        let partition = undertone_privacy::histogram::Partition::new(count(providers), count(colluding));
        let event = Event::TruncatedLaplace {
            rate: Epsilon::new(0.25).expect("a finite number"),
            shift: 80,
            distance: count(10),
            partition: partition.expect("no more than there are"),
        };
        let charge = undertone_api::job::Charge { unit: PrivacyUnit::Words, ..charge(event, 1) };
        let text = TEMPLATE.replacen("[budget.speaker]", "[budget.words]", 1).replacen(
            "least_colluding = 1",
            &format!("least_colluding = {least}"),
            1,
        );
        policy(&text).expect("it is a policy").rules("ward-7").judge(&spec(), Some(&charge))
    };
    assert_eq!(judge(1, 3, 1), Ok(()));
    assert_eq!(judge(2, 3, 1), Err(PolicyRefusal::Colluding { asked: 1, least: 2 }));
    assert_eq!((judge(2, 3, 2), judge(2, 3, 3)), (Ok(()), Ok(())));
    assert_eq!(judge(9, 3, 2), Err(PolicyRefusal::Colluding { asked: 2, least: 9 }));
    assert_eq!((judge(9, 3, 3), judge(2, 1, 1)), (Ok(()), Ok(())), "more than all is nobody");
}

#[test]
fn speakers_keep_their_voices_only_where_the_site_permits() {
    let spec = |voice: &str| {
        let text = format!(
            r#"{{"kind": "transcription", "spec": {{
                "participant": {{ "dataset": "00000000-0000-0000-0000-000000000002", "epsilon": 1.0, "delta": 0.00001, "distance": 10 }},
                "providers": [{{ "name": "one", "protocol": "deepgram" }}],
                "vocabulary": {{ "from": "public", "words": ["insulin"] }},
                "voice": {{ "kind": "{voice}" }}
            }}}}"#
        );
        serde_json::from_str::<Spec>(&text).expect("it is a spec")
    };
    let event = Event::TruncatedLaplace {
        rate: Epsilon::new(0.25).expect("a finite number"),
        shift: 80,
        distance: NonZeroU32::new(10).expect("at least 1"),
        partition: undertone_privacy::histogram::Partition::NONE,
    };
    let charge = undertone_api::job::Charge { unit: PrivacyUnit::Words, ..charge(event, 1) };
    let text = TEMPLATE.replacen("[budget.speaker]", "[budget.words]", 1).replacen(
        "kinds = [\"dp_sgd\"]",
        "kinds = [\"transcription\"]",
        1,
    );
    let judge = |text: &str, voice: &str, charge| {
        policy(text).expect("it is a policy").rules("ward-7").judge(&spec(voice), charge)
    };
    assert_eq!(judge(&text, "vocoder", Some(&charge)), Ok(()));
    let allowed = text.replacen("voices_may_leave = false", "voices_may_leave = true", 1);
    for voice in ["cloned", "mcadams"] {
        assert_eq!(judge(&text, voice, Some(&charge)), Err(PolicyRefusal::Voices), "{voice}");
        assert_eq!(judge(&text, voice, None), Ok(()), "public recordings are published with their voices");
        assert_eq!(judge(&allowed, voice, Some(&charge)), Ok(()), "{voice}");
    }
}

#[test]
fn job_whose_deadline_is_no_longer_than_the_period_is_refused() {
    let judge = |seconds: &str| {
        let text = TEMPLATE.replace(
            "# release_period_seconds = { dp_sgd = 2.0",
            &format!("release_period_seconds = {{ dp_sgd = {seconds}"),
        );
        let rules = policy(&text).expect("it is a policy").rules("ward-7");
        rules.judge(&spec(), Some(&charge(crate::testing::sampled_gaussian(0.125, 4.0), 10)))
    };
    // The job closes its rounds after 60 seconds.
    assert_eq!(judge("59.999"), Ok(()));
    assert_eq!(judge("60"), Err(PolicyRefusal::Period { period: 60.0, deadline: 60 }));
}
