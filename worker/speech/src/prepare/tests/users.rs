use super::*;

/// Returns a table of three patients: one of anna and ben, one of cleo and dora's first recording, and one of dora's
/// others.
fn table(corpus: &TestCorpus, rows: impl Fn(&str) -> Option<&'static str>) -> UnitTable {
    let mut text = "utterance,ward,patient\n".to_owned();
    for speaker in ["anna", "ben", "cleo", "dora"] {
        for u in 0..3 {
            let id = format!("{speaker}-{u}");
            if let Some(patient) = rows(&id) {
                text.extend([&id, ",7,", patient, "\n"]);
            }
        }
    }
    let path = corpus.path("patients.csv");
    fs::write(&path, text + "nobody-0,7,P9\n").unwrap();
    UnitTable { path, column: "patient".to_owned() }
}

fn patient(id: &str) -> &'static str {
    match id {
        "dora-1" | "dora-2" => "P3",
        _ if id.starts_with("anna") || id.starts_with("ben") => "P1",
        _ => "P2",
    }
}

#[test]
fn a_table_of_units_becomes_the_column_of_users() {
    let corpus = TestCorpus::with_four_speakers();
    let options = PrepareOptions { units: Some(table(&corpus, |id| Some(patient(id)))), ..corpus.options("all") };
    let report = quietly(&options).unwrap();
    assert!(report.to_string().contains("3 to learn from, 0 held out (column patient)"), "{report}");
    let dataset = Dataset::open(&corpus.path("all")).unwrap();
    let meta = dataset.meta();
    assert_eq!((meta.unit_column.as_deref(), meta.train.users), (Some("patient"), 3));
    assert_eq!(meta.units, [PrivacyUnit::Record, PrivacyUnit::Speaker, PrivacyUnit::User]);
    let units = dataset.units(PrivacyUnit::User, Split::Train).unwrap();
    assert_eq!(units, [(0..6).collect::<Vec<_>>(), (6..10).collect(), vec![10, 11]]);
    let name = |i: usize| dataset.user_name(dataset.utterance(i).user.unwrap()).unwrap();
    assert_eq!((name(0), name(9), name(11)), ("P1", "P2", "P3"));
}

#[test]
fn an_utterance_without_a_unit_stops_everything() {
    let corpus = TestCorpus::with_four_speakers();
    let missing = table(&corpus, |id| (id != "cleo-2").then(|| patient(id)));
    let options = PrepareOptions { units: Some(missing), ..corpus.options("all") };
    let refused = quietly(&options).unwrap_err().to_string();
    assert!(refused.contains("1 of the 12") && refused.contains("cleo-2"), "{refused}");
    assert!(!corpus.path("all").exists());
    // A recording that is not chosen needs no unit.
    let others = PrepareOptions { speakers: SpeakerChoice::Named(vec!["anna".to_owned()]), ..options };
    assert_eq!(quietly(&others).unwrap().kept, 3);
}

#[test]
fn a_line_of_versions_keeps_its_users() {
    let corpus = TestCorpus::with_four_speakers();
    let patients = table(&corpus, |id| Some(patient(id)));
    let options = PrepareOptions { replace: true, units: Some(patients.clone()), ..corpus.options("all") };
    quietly(&options).unwrap();
    quietly(&options).unwrap();
    let wards = PrepareOptions { units: Some(UnitTable { column: "ward".to_owned(), ..patients }), ..options.clone() };
    let refused = quietly(&wards).unwrap_err().to_string();
    assert!(refused.contains("keep --unit-column patient"), "{refused}");
    let elsewhere = PrepareOptions { output: corpus.path("other"), ..wards };
    assert_eq!(quietly(&elsewhere).unwrap().unit_column.as_deref(), Some("ward"));
}

/// Means and selections are over a speaker's recordings of one user, so users who share a speaker stay separate.
#[test]
fn speaker_means_and_choices_are_per_user() {
    let corpus = TestCorpus::with_four_speakers();
    let units = Some(table(&corpus, |id| Some(patient(id))));
    let treatment = plain(Normalization::Speaker);
    let prepared = |options: &PrepareOptions| {
        quietly(options).unwrap();
        Dataset::open(&options.output).unwrap()
    };
    let shared = prepared(&PrepareOptions { treatment, units: units.clone(), ..corpus.options("shared") });
    assert_eq!(shared.meta().units, [PrivacyUnit::Speaker, PrivacyUnit::User]);
    assert_eq!(shared.units(PrivacyUnit::User, Split::Train).unwrap().len(), 3);
    // One of dora's three recordings belongs to P2: it is bit-identical when P3 is removed.
    let own = UtteranceChoice::Named(BTreeSet::from(["dora-0".to_owned()]));
    let alone = prepared(&PrepareOptions { treatment, units: units.clone(), take: own, ..corpus.options("alone") });
    let at = (0..12).find(|i| shared.utterance(*i).id == "dora-0").unwrap();
    assert_eq!(shared.utterance(at).features, alone.utterance(0).features);
    let first = prepared(&PrepareOptions { take: UtteranceChoice::First(1), units, ..corpus.options("first") });
    assert_eq!(ids(&first), ["anna-0", "ben-0", "cleo-0", "dora-0", "dora-1"]);
    assert_eq!(first.meta().units, [PrivacyUnit::Speaker, PrivacyUnit::User]);
}
