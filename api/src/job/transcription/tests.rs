//! The charge equals the release, once; the noise matches the vectors; and the documentation is correct.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::num::NonZeroU32;

use undertone_privacy::{Adjacency, Delta, Epsilon, Event, PrivacyUnit, mechanism};
use uuid::Uuid;

use super::{
    CostEstimate, HISTOGRAM, OutputVoice, Provider, Report, Spec, TranscriptionOutcome, Vocabulary, WordErrors,
    WordWeight,
};
use crate::dataset::{Dataset, DatasetContent, SizeClass, Visibility};
use crate::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::spec_page::unnamed_fields;
use crate::job::{DisclosureForm, JobKind as _, Observer, Report as AnyReport, Spec as AnySpec, disclosures};
use crate::vectors;

/// Returns the documentation's example and the event that it states.
pub(crate) fn example() -> (Spec, Event) {
    let mut blocks = include_str!("spec.md").split("```json").skip(1).map(|rest| rest.split("```").next().unwrap());
    let spec = serde_json::from_str(blocks.next().unwrap()).unwrap();
    let event = serde_json::from_str(blocks.next().unwrap()).unwrap();
    assert!(blocks.next().is_none());
    (spec, event)
}

/// Returns the recordings of the example.
pub(crate) fn ward() -> Dataset {
    Dataset {
        id: DatasetId(Uuid::from_u128(2)),
        lineage: LineageId(Uuid::from_u128(102)),
        organization: OrganizationId(Uuid::from_u128(202)),
        organization_name: "a clinic".to_owned(),
        worker: WorkerId(Uuid::from_u128(302)),
        name: "ward".to_owned(),
        visibility: Visibility::Private,
        content: DatasetContent::Recordings,
        inputs: 0,
        classes: 0,
        records: SizeClass(50),
        speakers: SizeClass(1),
        test_records: 0,
        seconds: Some(SizeClass(5000)),
        users: None,
        table: None,
        units: vec![PrivacyUnit::Words],
        approval: None,
        accounts: Vec::new(),
        created_at: time::OffsetDateTime::UNIX_EPOCH,
    }
}

#[test]
fn spec_page_names_each_field() {
    let (spec, _) = example();
    let words = vec!["insulin".to_owned()];
    let vocabulary = Vocabulary::Data { top_percent: 1.0, above: Some(0.5), most: 100, words };
    let of_data =
        Spec { vocabulary, voice: OutputVoice::Mcadams { alpha: 0.8, speakers_identifiable: true }, ..spec.clone() };
    let page = include_str!("spec.md");
    assert_eq!(unnamed_fields(page, &spec), [""; 0]);
    assert_eq!(unnamed_fields(page, &of_data), [""; 0]);
    assert_eq!(unnamed_fields(page, &Spec { vocabulary: chosen(1, 0.5, 3), ..spec }), [""; 0]);
}

/// Returns a choice of `choose` of `candidates` words with noise.
pub(crate) fn chosen(choose: u32, epsilon: f64, candidates: usize) -> Vocabulary {
    Vocabulary::Selected {
        choose,
        epsilon: Epsilon::new(epsilon).unwrap(),
        weight: WordWeight::TfIdf,
        candidates: (0..candidates).map(|number| format!("c{number}")).collect(),
        words: vec!["insulin".to_owned()],
    }
}

#[test]
fn choice_with_noise_is_charged_within_the_stated_epsilon() {
    let (spec, public) = example();
    for share in [0.01, 0.3, 0.99] {
        let with = Spec { vocabulary: chosen(2, share, 40), ..spec.clone() };
        assert_eq!(with.check(&[ward()]), Vec::new(), "{share}");
        let charge = with.cost(&ward()).unwrap();
        let Event::Composed { events } = &charge.event else { panic!("{charge:?}") };
        let [choice, counts] = events.as_slice() else { panic!("{charge:?}") };
        assert_eq!(*choice, Event::Pure { epsilon: Epsilon::new(share).unwrap() });
        let (rest, _) = mechanism::guarantee(counts, charge.adjacency).unwrap();
        let (whole, delta) = mechanism::guarantee(&charge.event, charge.adjacency).unwrap();
        let promise = with.promises().unwrap()[0];
        assert_eq!((whole.get(), delta.get()), (promise.epsilon, promise.delta));
        assert!(whole.get() <= 1.0 + 1e-12 && whole.get() > 0.98 && whole.get() >= share + rest.get(), "{whole:?}");
        assert!(delta.get() <= 1e-5 * (1.0 + 1e-9));
        assert!(with.noise().unwrap().mean() > spec.noise().unwrap().mean(), "the counts have the rest of ε");
        let both = with.promises().unwrap()[1].epsilon;
        assert!(both > promise.epsilon && both < share + 1.49, "the choice is not partitioned: {both}");
        // The Rényi accounts add the same parts.
        let grid = undertone_privacy::OrderGrid::standard();
        let curve = |event: &Event| mechanism::curve(event, charge.adjacency, &grid).unwrap();
        assert_eq!(curve(&charge.event), curve(choice).add(&curve(counts)).unwrap());
    }
    let event = |vocabulary| Spec { vocabulary, ..spec.clone() }.event().unwrap();
    assert_eq!(event(Vocabulary::Public { words: vec!["one".to_owned()] }), public);
    assert_eq!(Report::from_plan(&Spec { vocabulary: chosen(2, 0.5, 40), ..spec.clone() }).unwrap().words, 3);
}

#[test]
fn choice_with_noise_is_disclosed_to_each_recognizer() {
    let (spec, _) = example();
    let with = AnySpec::Transcription(Spec { vocabulary: chosen(2, 0.5, 40), ..spec.clone() });
    let learns = |spec: &AnySpec| {
        let learned = disclosures(spec, &ward(), &[ward()]);
        learned.iter().any(|one| one.observer == Observer::Providers && one.what.contains("learns the words"))
    };
    assert!(learns(&with) && !learns(&AnySpec::Transcription(spec)));
}

#[test]
fn documented_example_is_valid_at_its_stated_cost() {
    let (spec, event) = example();
    assert_eq!(spec.check(&[ward()]), Vec::new());
    let charge = spec.cost(&ward()).unwrap();
    assert_eq!((charge.releases, charge.unit, charge.adjacency), (1, PrivacyUnit::Words, Adjacency::ZeroOut));
    assert_eq!(serde_json::to_value(&event).unwrap(), serde_json::to_value(&charge.event).unwrap());
    let (epsilon, delta) = mechanism::guarantee(&charge.event, charge.adjacency).unwrap();
    assert!(
        (0.99..1.0 + 1e-12).contains(&epsilon.get()) && delta.get() <= 1e-5 * (1.0 + 1e-9),
        "{epsilon:?} {delta:?}"
    );
    let both = spec.promises().unwrap()[1];
    assert_eq!(format!("{:.2} {:.0}", both.epsilon, spec.noise().unwrap().mean()), "1.49 91", "as the text says");
}

#[test]
fn histogram_is_charged_once_as_it_is_released() {
    let (spec, event) = example();
    assert_eq!(spec.release(&ward(), HISTOGRAM), Some(event.clone()));
    assert_eq!(spec.release(&ward(), "pool"), None);
    let public = Dataset { visibility: Visibility::Public, ..ward() };
    assert_eq!((spec.cost(&public), spec.release(&public, HISTOGRAM)), (None, None));
    let stranger = Dataset { id: DatasetId(Uuid::from_u128(9)), ..ward() };
    assert_eq!(spec.cost(&stranger), None);
    let opened = Dataset { visibility: Visibility::Open, ..ward() };
    assert_eq!(spec.cost(&opened).unwrap().event, event, "opened for gradients, not for listening");
}

#[test]
fn processing_and_vocabulary_do_not_change_the_cost() {
    let (spec, event) = example();
    let changed = Spec {
        vocabulary: Vocabulary::Public { words: vec!["one".to_owned()] },
        voice: OutputVoice::Command,
        language: "de".to_owned(),
        ..spec
    };
    assert_eq!(changed.cost(&ward()).unwrap().event, event);
}

#[test]
fn spec_without_noise_has_unpayable_price() {
    let (spec, _) = example();
    let none = Spec { providers: Vec::new(), ..spec };
    let charge = none.cost(&Dataset { visibility: Visibility::Open, ..ward() }).unwrap();
    assert_ne!(charge.event, Event::NonPrivate, "which data marked open would pay without limit");
    let grid = undertone_privacy::OrderGrid::standard();
    let curve = mechanism::curve(&charge.event, charge.adjacency, &grid).unwrap();
    assert!(curve.losses().all(|(_, loss)| loss.to_f64_up().is_infinite()));
}

/// Makes a spec with the numbers of a case of the vectors.
fn spec_of_case(case: &serde_json::Value, colluding: u32) -> Spec {
    let number = |field: &str| case[field].as_f64().unwrap();
    let count = |field: &str| u32::try_from(case[field].as_u64().unwrap()).unwrap();
    let (mut spec, _) = example();
    let one = Provider { name: String::new(), price: None, ..spec.providers[0].clone() };
    spec.providers = (0..count("n_csps")).map(|n| Provider { name: format!("p{n}"), ..one.clone() }).collect();
    spec.colluding = NonZeroU32::new(colluding).unwrap();
    spec.participant.epsilon = Epsilon::new(number("target_epsilon")).unwrap();
    spec.participant.delta = Delta::new(number("target_delta")).unwrap();
    spec.participant.distance = NonZeroU32::new(count("d")).unwrap();
    spec.vocabulary = Vocabulary::Public { words: (0..count("vocab")).map(|n| format!("w{n}")).collect() };
    spec
}

#[test]
fn noise_promises_and_dummies_are_those_of_the_vectors() {
    // The file's other cases are about bounds that jobs do not use, and are tested where they are computed.
    let cases = vectors::select_kind("preech", "calibrate", &["unpartitioned", "thm42", "thm44_cmin"]);
    assert!(cases.len() > 10, "{} cases", cases.len());
    for case in &cases {
        let spec = spec_of_case(case, 1);
        let noise = spec.noise().unwrap();
        // The rate is rounded down to one that can be drawn, so the shift may be one more at an exact boundary.
        let expected = case["eta0_corrected_mixed"].as_u64().unwrap();
        let actual = u64::from(noise.shift());
        let least = if spec.providers.len() == 1 { case["eta0_corrected"].as_u64().unwrap() } else { expected };
        assert!((least..=expected + 1).contains(&actual), "{}: {actual}, not {least} to {expected}", case["id"]);
        for promise in spec.promises().unwrap() {
            let guarantee = &case["collusion"][promise.colluding.get().to_string()];
            let Some(epsilon) = guarantee[0].as_f64() else { continue };
            assert!((promise.epsilon / epsilon - 1.0).abs() < 1e-6, "{}: {promise:?}, not {guarantee}", case["id"]);
        }
        let words = spec.vocabulary.most();
        let all = f64::from(words + 1) * spec.providers.len() as f64 * noise.mean();
        assert!((spec.expected_dummies(words).unwrap() / all - 1.0).abs() < 1e-12);
    }
}

#[test]
fn promises_grow_with_collusion_and_the_assumed_one_is_charged() {
    let (mut spec, _) = example();
    let one = spec.providers[0].clone();
    spec.providers = (0..5).map(|n| Provider { name: format!("p{n}"), ..one.clone() }).collect();
    spec.colluding = NonZeroU32::new(2).unwrap();
    let promises = spec.promises().unwrap();
    assert_eq!(promises.iter().map(|promise| promise.colluding.get()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(promises.is_sorted_by(|few, many| few.epsilon < many.epsilon));
    let event = spec.event().unwrap();
    let (epsilon, delta) = mechanism::guarantee(&event, Adjacency::ZeroOut).unwrap();
    assert!((epsilon.get(), delta.get()) == (promises[1].epsilon, promises[1].delta), "{event:?} {promises:?}");
}

#[test]
fn estimate_adds_up() {
    let (spec, _) = example();
    let all = CostEstimate::from_spec(&spec, 6000).unwrap();
    let noise = spec.noise().unwrap();
    assert!((all.each - noise.mean()).abs() < 1e-12 && (all.per_word - 2.0 * noise.mean()).abs() < 1e-12);
    assert!((all.dummies - 6.0 * all.per_word).abs() < 1e-9, "five words, and none of them");
    assert!((all.extra - 4.5 * all.dummies).abs() < 1e-9);
    let [one, two] = &all.providers[..] else { panic!("{all:?}") };
    assert!((one.pieces - 1200.0).abs() < 1e-9 && (one.dummies - all.dummies / 2.0).abs() < 1e-9);
    // 4.5 s are billed as 5 s by both.
    let requests = (one.pieces + one.dummies).ceil() as u64;
    let tariff = |provider: &Provider| provider.price.as_ref().unwrap().tariff().unwrap();
    assert_eq!(one.cost.as_ref(), Some(&tariff(&spec.providers[0]).alike(requests, 80_000)));
    let [sum] = &all.cost()[..] else { panic!("one currency") };
    assert_eq!(sum.nanos, one.cost.as_ref().unwrap().nanos + two.cost.as_ref().unwrap().nanos);
    let [bare] = &all.bare()[..] else { panic!("one currency") };
    assert_eq!(bare.to_string(), "USD 0.7700", "100 minutes at the cheaper one");
    assert!(bare.nanos < sum.nanos);
    let free =
        Spec { providers: spec.providers.iter().map(|p| Provider { price: None, ..p.clone() }).collect(), ..spec };
    assert!(CostEstimate::from_spec(&free, 6000).unwrap().cost().is_empty());
}

#[test]
fn disclosures_name_recognizers_and_uncovered_facts() {
    let (spec, _) = example();
    let any = AnySpec::Transcription(spec.clone());
    let learned = disclosures(&any, &ward(), &[ward()]);
    let outside = learned.iter().find(|one| one.observer == Observer::Providers).unwrap();
    assert_eq!((outside.form, outside.times), (DisclosureForm::Protected, 1));
    for part in ["one, two", "10 counts", "not covered"] {
        assert!(outside.what.contains(part), "{part}: {}", outside.what);
    }
    assert!(!outside.what.contains("who speaks"), "{}", outside.what);
    let cloned = AnySpec::Transcription(Spec { voice: OutputVoice::Cloned, ..spec.clone() });
    let with_cloned = disclosures(&cloned, &ward(), &[ward()]);
    assert!(
        with_cloned.iter().any(|one| one.observer == Observer::Providers && one.what.contains("can tell who speaks"))
    );
    let server = learned.iter().find(|one| one.observer == Observer::Server).unwrap();
    assert_eq!(server.form, DisclosureForm::Fact, "nothing of the recordings comes to the server");
    assert!(!learned.iter().any(|one| one.observer == Observer::Recipients), "there is no model");
    let public = Dataset { visibility: Visibility::Public, ..ward() };
    let learned = disclosures(&any, &public, std::slice::from_ref(&public));
    assert!(learned.iter().any(|one| one.observer == Observer::Providers && one.form == DisclosureForm::Exact));
}

#[test]
fn server_learns_the_external_release_only() {
    let (spec, _) = example();
    let any = AnySpec::Transcription(spec.clone());
    let outside = any.external_release().unwrap();
    assert_eq!((outside.series.as_str(), &outside.sending[..]), (HISTOGRAM, &[spec.participant.dataset][..]));
    assert_eq!(
        (outside.recipients, outside.colluding, outside.distance),
        (vec!["one".to_owned(), "two".to_owned()], 1, 10)
    );
    let voices = |voice| AnySpec::Transcription(Spec { voice, ..spec.clone() }).external_release().unwrap().voices;
    let one = [
        OutputVoice::default(),
        OutputVoice::Vocoder { detail: 8, varied: false },
        OutputVoice::Command,
        OutputVoice::Url,
    ];
    let mcadams = OutputVoice::Mcadams { alpha: 0.8, speakers_identifiable: true };
    assert_eq!((one.map(voices), [OutputVoice::Cloned, mcadams].map(voices)), ([false; 4], [true; 2]));
    assert_eq!((any.series(&[ward()]), any.questions(), any.model(0)), (Vec::new(), None, None));
    assert_eq!(any.clone().settle(&[ward()]), any, "a spec leaves nothing to the datasets");
}

#[test]
fn report_of_private_recordings_follows_from_the_spec() {
    let (spec, _) = example();
    let report = Report::from_plan(&spec).unwrap();
    let value = serde_json::to_value(AnyReport::Transcription(report.clone())).unwrap();
    assert_eq!((&value["kind"], value["report"].get("outcome")), (&"transcription".into(), None));
    assert_eq!((report.words, report.colluding, report.distance), (5, 1, 10));
    let spec = AnySpec::Transcription(spec);
    assert!(AnyReport::Transcription(report.clone()).tells_no_more(&spec));
    let changed = Report { dummies: report.dummies + 1.0, ..report.clone() };
    assert!(!AnyReport::Transcription(changed).tells_no_more(&spec), "how many dummies were drawn is a secret");
    assert!(
        !AnyReport::Transcription(report.clone().with_outcome(TranscriptionOutcome::default())).tells_no_more(&spec)
    );
    let public = report.with_outcome(TranscriptionOutcome { words: 4, ..TranscriptionOutcome::default() });
    assert_eq!((public.words, public.outcome.is_some()), (4, true));
    let errors = WordErrors { words: 8, substitutions: 1, insertions: 2, deletions: 1 };
    assert_eq!((errors.rate(), WordErrors::default().rate()), (Some(0.5), None));
}

#[test]
fn a_spec_survives_the_wire_and_a_strange_field_is_refused() {
    let any = AnySpec::Transcription(example().0);
    let text = serde_json::to_string(&any).unwrap();
    assert!(text.starts_with(r#"{"kind":"transcription","spec":{"participant":{"dataset":"#), "{text}");
    assert_eq!(serde_json::from_str::<AnySpec>(&text).unwrap(), any);
    let strange = text.replace(r#""protocol":"google""#, r#""protocol":"google","url":"http://somewhere""#);
    assert_ne!(strange, text);
    assert!(
        serde_json::from_str::<AnySpec>(&strange).unwrap_err().to_string().contains("url"),
        "addresses are the site's"
    );
}

#[test]
fn earlier_voice_reads_back_to_the_same_bytes() {
    let earlier = r#"{"kind":"mcadams","alpha":0.8}"#;
    let voice: OutputVoice = serde_json::from_str(earlier).unwrap();
    assert_eq!(voice, OutputVoice::Mcadams { alpha: 0.8, speakers_identifiable: false });
    assert_eq!(serde_json::to_string(&voice).unwrap(), earlier, "digests of earlier specs stay valid");
    let vocoder = r#"{"kind":"vocoder","detail":13}"#;
    let voice: OutputVoice = serde_json::from_str(vocoder).unwrap();
    assert_eq!(voice, OutputVoice::Vocoder { detail: 13, varied: false });
    assert_eq!(serde_json::to_string(&voice).unwrap(), vocoder);
    let accepted = r#"{"kind":"mcadams","alpha":0.8,"speakers_identifiable":true}"#;
    let voice: OutputVoice = serde_json::from_str(accepted).unwrap();
    assert_eq!(serde_json::to_string(&voice).unwrap(), accepted);
}

#[test]
fn omitted_fields_have_their_documented_defaults() {
    let (spec, _) = example();
    let mut value = serde_json::to_value(&spec).unwrap();
    let fields = value.as_object_mut().unwrap();
    for field in ["colluding", "language", "dummies", "voice", "crowded", "recognizer"] {
        assert!(fields.remove(field).is_some(), "{field}");
    }
    assert_eq!(serde_json::from_value::<Spec>(value).unwrap(), spec, "the example writes the defaults");
}
