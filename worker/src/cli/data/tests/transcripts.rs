//! Datasets from the transcripts of a finished job: their content, their lineage, and their independence of other
//! speakers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;
use undertone_api::id::JobId;
use undertone_privacy::PrivacyUnit;
use uuid::Uuid;

use super::data;
use crate::queries::dataset::{Reader, Subset};
use crate::site::datasets::{dataset_lineages, scan};
use crate::site::folder::Folder;
use crate::site::policy::Policy;
use crate::site::store::Store;
use crate::speech::dataset::{Dataset, Utterance};
use crate::speech::recordings::Recordings;
use crate::speech::synthesize::synthesize_text;
use crate::speech::transcribe::wav;

const JOB: JobId = JobId(Uuid::from_u128(7));
/// The recordings, each with the text of its sound.
const RECORDINGS: [(&str, &str); 4] = [
    ("anna/monday", "the patient will visit the ward"),
    ("anna/tuesday", "nobody came back from the mountains"),
    ("ben/monday", "go forward ten meters"),
    ("letter", "what a day it was"),
];

/// Adds these recordings to the site in `dir`, with the transcripts of a finished job; returns `None` without flite.
fn finished_site(dir: &Path, recordings: &[(&str, &str)]) -> Option<()> {
    let mut lengths = Vec::new();
    for (name, text) in recordings {
        let mut sound = vec![0.000_1; 8_000];
        for part in [text, text] {
            sound.extend(synthesize_text(part)?);
            sound.extend(vec![0.000_1; 24_000]);
        }
        let path = dir.join("in").join(format!("{name}.wav"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, wav::write(&sound)).unwrap();
        lengths.push((*name, sound.len() as f64 / 16_000.0));
    }
    data(dir, "add-recordings --input {}/in --name letters").unwrap();
    let site = Folder::new(dir.join("site"));
    let results = site.transcripts(JOB);
    for (name, seconds) in lengths {
        let middle = seconds / 2.0;
        let mut words = Vec::new();
        let mut start = 0.1;
        while start + 0.2 < seconds {
            // A pause of two seconds in the middle; sensitive words behind it in one recording.
            if (start - middle).abs() > 1.0 {
                let is_sensitive = name == "anna/tuesday" && start > middle;
                let (source, mark) = if is_sensitive { ("offline", "why") } else { ("provider", "provider") };
                let mark_value = if is_sensitive { json!("sensitive") } else { json!(0) };
                words.push(json!({
                    "word": "Go", "start": start, "end": start + 0.2, "source": source, mark: mark_value,
                    "sensitive": is_sensitive
                }));
            }
            start += 0.3;
        }
        let path = results.join("recordings").join(format!("{name}.json"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, json!({ "version": 1, "words": words }).to_string()).unwrap();
    }
    let recordings = Recordings::open(&site.dataset("letters").unwrap()).unwrap();
    write_report(dir, &recordings.meta().digest);
    Some(())
}

/// Writes the job's report about recordings with this digest.
fn write_report(dir: &Path, digest: &str) {
    let planned = json!({
        "dataset": Uuid::from_u128(1), "rate": 1.0, "shift": 1, "distance": 10, "promises": [], "colluding": 1,
        "providers": [], "words": 1, "dummies": 1.0
    });
    let outcome = json!({
        "words": 1, "recordings": 3, "seconds": 1.0, "pieces": 1, "sensitive": 0, "crowded": 0, "unanswered": 0,
        "providers": []
    });
    let report = json!({
        "version": 1, "job": JOB, "tools": [], "digest": digest, "planned": planned, "outcome": outcome, "providers": []
    });
    let results = Folder::new(dir.join("site")).transcripts(JOB);
    fs::create_dir_all(&results).unwrap();
    fs::write(results.join("report.json"), report.to_string()).unwrap();
    fs::write(dir.join("characters.json"), r#"{"characters":" go"}"#).unwrap();
}

fn command(name: &str) -> String {
    match name {
        "spelled" => {
            format!(
                "label-transcripts --job {JOB} --recordings letters --name spelled --characters {{}}/characters.json"
            )
        }
        _ => format!("log-transcripts --job {JOB} --recordings letters --name {name} --pause 1.5"),
    }
}

#[test]
fn transcripts_become_labels_and_rows_in_the_recordings_lineage() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let Some(()) = finished_site(dir, &RECORDINGS) else { return };
    let report = data(dir, &command("spelled")).unwrap();
    assert!(report.contains("of 4 recordings have words"), "{report}");
    let dataset = Dataset::open(&dir.join("site/data/spelled")).unwrap();
    assert_eq!(dataset.meta().classes, 4, "three characters and the blank");
    assert!(dir.join("site/data/spelled/characters.json").is_file());
    let log = data(dir, &command("rows")).unwrap();
    assert!(log.contains("7 utterances became rows, and 1 with sensitive content"), "{log}");
    let rows = Reader::open(&dir.join("site/data/rows")).unwrap();
    assert_eq!(rows.meta().train.rows, 7);
    assert!(rows.rows(Subset::Train).all(|row| row.unwrap().text.split(' ').all(|word| word == "go")));
    // Both are charged to the accounts of the recordings, and protect speakers.
    let site = Folder::new(dir.join("site"));
    let store = Store::create(&site.ledger()).unwrap();
    let lineages = dataset_lineages(&store).unwrap();
    assert_eq!(lineages.len(), 3);
    assert!(lineages.iter().all(|(lineage, _)| *lineage == lineages[0].0), "{lineages:?}");
    let policy = Policy::load_or_template(&site.policy()).unwrap();
    let (datasets, unusable) = scan(&site, &store, &policy).unwrap();
    assert!(unusable.is_empty());
    let units = |name: &str| datasets.iter().find(|local| local.name == name).unwrap().facts.units.clone();
    assert_eq!(
        (units("letters"), units("spelled"), units("rows")),
        (vec![PrivacyUnit::Words], vec![PrivacyUnit::Speaker], vec![PrivacyUnit::User])
    );
    let hidden = fs::read_dir(dir.join("site/data")).unwrap();
    let left = hidden.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.')).count();
    assert_eq!(left, 0, "no transcript is left beside the datasets");
}

#[test]
fn rows_of_a_speaker_do_not_depend_on_other_speakers() {
    let whole = tempfile::tempdir().unwrap();
    let part = tempfile::tempdir().unwrap();
    let Some(()) = finished_site(whole.path(), &RECORDINGS) else { return };
    finished_site(part.path(), &RECORDINGS[..2]).unwrap();
    let utterances = |dir: &Path| {
        data(dir, &command("spelled")).unwrap();
        let dataset = Dataset::open(&dir.join("site/data/spelled")).unwrap();
        let rows = (0..dataset.len()).map(|number| dataset.utterance(number));
        let row = |row: Utterance<'_>| {
            let features: Vec<u32> = row.features.iter().map(|feature| feature.to_bits()).collect();
            (row.id.to_owned(), (row.labels.to_vec(), features))
        };
        rows.map(row).collect::<BTreeMap<_, _>>()
    };
    let (whole, part) = (utterances(whole.path()), utterances(part.path()));
    assert!(part.len() >= 2 && whole.len() > part.len());
    assert!(part.iter().all(|(id, row)| whole.get(id) == Some(row)), "{:?} {:?}", part.keys(), whole.keys());
}

#[test]
fn transcripts_of_other_recordings_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::create_dir_all(dir.join("in")).unwrap();
    fs::write(dir.join("in/one.wav"), wav::write(&vec![0.1; 16_000])).unwrap();
    data(dir, "add-recordings --input {}/in --name letters").unwrap();
    assert!(data(dir, &command("rows")).unwrap_err().contains("no transcripts of such a job"));
    write_report(dir, "another digest");
    for name in ["rows", "spelled"] {
        let message = data(dir, &command(name)).unwrap_err();
        assert!(message.contains("--recordings letters: the job transcribed other recordings"), "{message}");
        assert!(!dir.join("site/data").join(name).exists());
    }
    assert!(data(dir, &command("letters")).unwrap_err().contains("choose another one"));
    let no_characters = format!("label-transcripts --job {JOB} --recordings letters --name x");
    assert!(data(dir, &no_characters).unwrap_err().contains("--characters: missing"));
    let pause = command("rows").replace("1.5", "0.05");
    assert!(data(dir, &pause).unwrap_err().contains("--pause"));
}
