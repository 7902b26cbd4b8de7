//! Recordings of five speakers and four users, some of them damaged in every way that a corpus can be.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use undertone_privacy::PrivacyUnit;

use super::{DataKind, NeighbourSet, OptionCase, PreparedRows, Refused, Tried};
use crate::speech::dataset::{Dataset, Split};

/// Labels of class numbers, declared.
const RUNS: &str = "--alignments {}/labels.jsonl --classes 40";
/// Alignment by a program that answers as PocketSphinx does.
const ALIGNED: &str = "--align pocketsphinx --aligner-command {}/aligner";

/// The expectations for the options of recordings. Arguments that name labels are used alone; others go with [`RUNS`].
pub(super) const CASES: &[(&str, OptionCase)] = &[
    ("input", Tried(&[""])),
    (
        "alignments",
        Tried(&[
            "",
            "--alignments {}/labels.txt --classes 40 --tolerance 60",
            "--alignments {}/grids --phone-map {}/phones.json",
        ]),
    ),
    (
        "align",
        Tried(&[
            "--align pocketsphinx --aligner-command {}/aligner",
            "--align pocketsphinx --aligner-command {}/aligner --replace",
        ]),
    ),
    ("aligner-command", Tried(&["--align pocketsphinx --aligner-command {}/aligner --classes 5"])),
    ("model", Tried(&["--align pocketsphinx --aligner-command {}/aligner --model {}/m"])),
    ("dictionary", Tried(&["--align pocketsphinx --aligner-command {}/aligner --dictionary {}/d"])),
    ("align-seconds", Tried(&["--align pocketsphinx --aligner-command {}/aligner --align-seconds 9"])),
    ("label-step", Tried(&["--alignments {}/labels.txt --classes 40 --label-step 2 --tolerance 40"])),
    ("phone-frames", Refused("--alignments {}/labels.ctm --phone-frames 5", "--phone-map")),
    ("phone-map", Tried(&["--alignments {}/labels.ctm --phone-map {}/phones.json"])),
    ("name", Tried(&["--visibility private --units {}/units.csv --unit-column patient"])),
    ("continues", Tried(&["--continues first"])),
    ("output", Tried(&["--output {}/{name}"])),
    ("replace", Tried(&["--replace"])),
    ("visibility", Tried(&["--visibility private", "--visibility open"])),
    ("subset", Tried(&["--subset a", "--subset a --subset b"])),
    ("speakers", Tried(&["--speakers ben,cleo"])),
    ("speakers-from", Tried(&["--speakers-from {}/speakers.txt"])),
    ("speaker-range", Refused("--speaker-range 0..2", "--speakers")),
    ("first", Tried(&["--first 1", "--first 2 --units {}/units.csv --unit-column patient"])),
    ("skip", Tried(&["--skip 1", "--skip 1 --units {}/units.csv --unit-column patient"])),
    ("utterances", Tried(&["--utterances ben-0,cleo-1"])),
    ("utterances-from", Tried(&["--utterances-from {}/utterances.txt"])),
    ("units", Tried(&["--units {}/units.csv --unit-column patient"])),
    ("unit-column", Tried(&["--units {}/units.csv --unit-column patient --hold-out 0.3"])),
    ("hold-out", Tried(&["--hold-out 0.4", "--hold-out 1"])),
    ("classes", Tried(&["--alignments {}/labels.jsonl --classes 3", "--alignments {}/labels.jsonl --classes 65536"])),
    ("least-frames", Refused("--alignments {}/labels.jsonl --least-frames 30", "--class-map")),
    ("class-map", Tried(&["--alignments {}/labels.jsonl --class-map {}/classes.json"])),
    ("characters", Tried(&["--alignments {}/labels.jsonl --characters {}/characters.json"])),
    (
        "normalize",
        Tried(&[
            "--normalize none",
            "--normalize utterance",
            "--normalize speaker",
            "--normalize speaker --units {}/units.csv --unit-column patient",
        ]),
    ),
    ("deltas", Tried(&["--deltas 1", "--deltas 2 --normalize speaker"])),
    ("tolerance", Tried(&["--tolerance 2", "--tolerance 60"])),
    ("longest", Tried(&["--longest 0.4"])),
];

/// A recording with its properties.
struct SpeechSample {
    speaker: &'static str,
    number: usize,
    user: &'static str,
    seconds: f64,
    oddity: SampleOddity,
}

#[derive(Clone, Copy, PartialEq)]
enum SampleOddity {
    None,
    /// Not a WAV file.
    Broken,
    /// A label that is not a class.
    Label,
    /// Labels in another format than the file's.
    Form,
    /// A transcript that the aligner fails on.
    Fails,
}

impl SpeechSample {
    fn id(&self) -> String {
        format!("{}-{}", self.speaker, self.number)
    }

    fn subset(&self) -> &'static str {
        if self.speaker < "cleo" { "a" } else { "b" }
    }
}

/// Odd recordings come first, where they could affect others; users share speakers, and speakers share users.
const SAMPLES: [SpeechSample; 11] = {
    const fn sample(speaker: &'static str, number: usize, user: &'static str, oddity: SampleOddity) -> SpeechSample {
        SpeechSample { speaker, number, user, seconds: 0.25 + 0.03 * number as f64, oddity }
    }
    [
        sample("abel", 0, "p1", SampleOddity::Form),
        sample("abel", 1, "p2", SampleOddity::Label),
        sample("abel", 2, "p2", SampleOddity::Broken),
        sample("ben", 0, "p1", SampleOddity::None),
        sample("ben", 1, "p2", SampleOddity::None),
        sample("ben", 2, "p1", SampleOddity::None),
        sample("cleo", 0, "p2", SampleOddity::None),
        sample("cleo", 1, "p3", SampleOddity::Fails),
        sample("dora", 0, "p4", SampleOddity::None),
        sample("dora", 1, "p4", SampleOddity::None),
        SpeechSample { speaker: "dora", number: 2, user: "p4", seconds: 0.5, oddity: SampleOddity::None },
    ]
};

/// Makes the data with and without each record, speaker and user.
pub(super) fn write_neighbours(dir: &Path) -> NeighbourSet {
    NeighbourSet::new(
        dir,
        &SAMPLES,
        &[
            (PrivacyUnit::Record, SpeechSample::id),
            (PrivacyUnit::Speaker, |sample| sample.speaker.to_owned()),
            (PrivacyUnit::User, |sample| sample.user.to_owned()),
        ],
        write,
    )
}

/// Writes recordings, labels in every form, transcripts and the table of users.
fn write(dir: &Path, samples: &[&SpeechSample]) {
    fs::create_dir_all(dir.join("grids")).unwrap();
    let mut runs = String::new();
    let mut kaldi = String::new();
    let mut ctm = String::new();
    let mut units = "id,patient\n".to_owned();
    for (place, sample) in SAMPLES.iter().enumerate() {
        if !samples.iter().any(|other| other.id() == sample.id()) {
            continue;
        }
        let id = sample.id();
        let wav = recording(dir, sample, place);
        let frames = (sample.seconds * 100.0) as usize;
        let class = if sample.oddity == SampleOddity::Label { 50 } else { place % 5 };
        let as_runs = format!("{{\"u\":\"{id}\",\"frames\":{frames},\"runs\":[[{class},{}],[0,10]]}}\n", frames - 10);
        let as_kaldi = format!("{id}{}\n", format!(" {class}").repeat(frames / 2));
        let swap = sample.oddity == SampleOddity::Form;
        runs += if swap { &as_kaldi } else { &as_runs };
        kaldi += if swap { &as_runs } else { &as_kaldi };
        let phone = ["AA", "T", "ZH"][place % 3];
        if swap {
            ctm += &as_runs;
        } else {
            write!(ctm, "{id} 1 0.00 0.10 {phone}\n{id} 1 0.10 {:.2} T\n", sample.seconds - 0.1).unwrap();
        }
        fs::write(dir.join("grids").join(format!("{id}.TextGrid")), grid(sample.seconds, phone)).unwrap();
        writeln!(units, "{id},{}", sample.user).unwrap();
        let text = if sample.oddity == SampleOddity::Fails {
            "FAIL".to_owned()
        } else {
            format!("SAYS {}", "X".repeat(place))
        };
        let transcripts = wav.with_file_name(format!("{}.trans.txt", sample.speaker));
        // Each file also holds a transcript of another speaker's utterance, in the wrong folder.
        let line = format!("{id} {text}\nben-1 {}OTHERWISE\n", "O".repeat(place));
        let line = if sample.speaker == "ben" { format!("{id} {text}\n") } else { line };
        fs::write(&transcripts, fs::read_to_string(&transcripts).unwrap_or_default() + &line).unwrap();
    }
    let phones = r#"{"phone_classes":["AA.0","AA.1","AA.2","SIL.0","SIL.1","SIL.2","T.0","T.1","T.2"]}"#;
    for (name, text) in [
        ("labels.jsonl", runs.as_str()),
        ("labels.txt", &kaldi),
        ("labels.ctm", &ctm),
        ("units.csv", &units),
        ("phones.json", phones),
        ("classes.json", r#"{"frequent":[0,2,3]}"#),
        ("characters.json", r#"{"characters":" abc"}"#),
        ("speakers.txt", "ben\ndora\n"),
        ("utterances.txt", "ben-0\ncleo-0\ndora-2\n"),
        ("aligner", ALIGNER),
    ] {
        fs::write(dir.join(name), text).unwrap();
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(dir.join("aligner"), mode).unwrap();
}

/// Writes a tone, different for each sample, as a WAV.
fn recording(dir: &Path, sample: &SpeechSample, place: usize) -> PathBuf {
    let folder = dir.join("corpus").join(sample.subset()).join(sample.speaker).join("1");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{}.wav", sample.id()));
    if sample.oddity == SampleOddity::Broken {
        fs::write(&path, b"RIFF\x24\0\0\0WAVEfmt ").unwrap();
        return path;
    }
    let pitch = 200.0 + 37.0 * place as f64;
    let samples = (0..(16_000.0 * sample.seconds) as usize)
        .map(|i| (pitch * i as f64 / 16_000.0 * std::f64::consts::TAU).sin() as f32 / 3.0);
    fs::write(&path, crate::speech::transcribe::wav::write(&samples.collect::<Vec<f32>>())).unwrap();
    path
}

fn grid(seconds: f64, phone: &str) -> String {
    format!(
        "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\n0\n{seconds}\n<exists>\n1\n\"IntervalTier\"\n\"phones\"\n0\n\
         {seconds}\n2\n0\n0.1\n\"{phone}\"\n0.1\n{seconds}\n\"T\"\n"
    )
}

/// Uses the worker's protocol as the script for PocketSphinx does: one class per utterance, by the length of its text.
const ALIGNER: &str = r#"#!/bin/sh
printf '{"ready":{"program":"stand-in","identity":"1","classes":9}}\n'
while IFS= read -r line; do
  bytes=$(printf '%s' "$line" | sed 's/.*"bytes":\([0-9]*\).*/\1/')
  text=$(printf '%s' "$line" | sed 's/.*"text":"\([^"]*\)".*/\1/')
  head -c "$bytes" >/dev/null
  if [ "$text" = FAIL ]; then
    printf '{"failed":"asked to"}\n'
  else
    printf '{"runs":[[%d,%d]]}\n' $((${#text} % 9)) $((bytes / 320))
  fi
done
"#;

/// A row: its id, speaker, user, part, and its labels and features, compared bit by bit.
type SpeechRow = (String, String, Option<String>, bool, Vec<u16>, Vec<u32>);

pub(super) struct SpeechData;

impl DataKind for SpeechData {
    type Row = SpeechRow;

    fn command(&self, arguments: &str) -> String {
        let labelled = arguments.contains("--align");
        format!("--input {{}}/corpus {arguments} {}", if labelled { "" } else { RUNS })
    }

    fn read(&self, dataset: &Path) -> PreparedRows<SpeechRow> {
        let dataset = Dataset::open(dataset).unwrap();
        let row = |place: usize| {
            let utterance = dataset.utterance(place);
            let user = utterance.user.and_then(|user| dataset.user_name(user)).map(str::to_owned);
            let speaker = dataset.speaker_name(utterance.speaker).unwrap().to_owned();
            let features = utterance.features.iter().map(|value| value.to_bits()).collect();
            let held_out = utterance.split == Split::Test;
            (utterance.id.to_owned(), speaker, user, held_out, utterance.labels.to_vec(), features)
        };
        let mut rows: Vec<SpeechRow> = (0..dataset.len()).map(row).collect();
        rows.sort();
        PreparedRows { rows, units: dataset.meta().units.clone() }
    }

    fn is_of(&self, row: &SpeechRow, unit: PrivacyUnit, name: &str) -> bool {
        match unit {
            PrivacyUnit::Record => row.0 == name,
            PrivacyUnit::Speaker => row.1 == name,
            PrivacyUnit::User | PrivacyUnit::Words => row.2.as_deref() == Some(name),
        }
    }
}

/// An option removes exactly the expected units.
#[test]
fn options_claim_the_units_they_preserve() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    write(folder, &SAMPLES.iter().collect::<Vec<_>>());
    let users = "--units {}/units.csv --unit-column patient";
    let record = PrivacyUnit::Record;
    let speaker = PrivacyUnit::Speaker;
    let user = PrivacyUnit::User;
    for (number, (arguments, expected)) in [
        (String::new(), vec![record, speaker]),
        (users.to_owned(), vec![record, speaker, user]),
        (format!("--first 1 {users}"), vec![speaker, user]),
        ("--skip 1".to_owned(), vec![speaker]),
        (format!("--normalize speaker {users}"), vec![speaker, user]),
        ("--utterances ben-0,ben-1".to_owned(), vec![record, speaker]),
        (ALIGNED.to_owned(), vec![record, speaker]),
    ]
    .into_iter()
    .enumerate()
    {
        let dataset = super::prepare(&SpeechData, folder, &format!("v{number}"), &arguments).unwrap();
        assert_eq!(dataset.units, expected, "{arguments}");
    }
}

/// If two recordings share an id, each decides on the other, kept or not; classes must be declared. Public data may
/// have both.
#[test]
fn repeated_ids_and_undeclared_classes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    write(folder, &SAMPLES.iter().collect::<Vec<_>>());
    let prepare = |name: &str, arguments: &str| {
        let labels = "--input {}/corpus --alignments {}/labels.jsonl";
        super::data_at(
            &folder.join("site"),
            folder,
            &format!("prepare {labels} --name {name} --output {{}}/{name} {arguments}"),
        )
    };
    let message = prepare("ward", "").unwrap_err();
    assert!(message.contains("--classes N") && message.contains("--visibility public"), "{message}");
    assert!(prepare("counted", "--visibility public").unwrap().contains("51 classes"));
    fs::create_dir_all(folder.join("corpus/b/eve/1")).unwrap();
    fs::copy(folder.join("corpus/a/ben/1/ben-0.wav"), folder.join("corpus/b/eve/1/ben-0.wav")).unwrap();
    let message = prepare("ward", "--classes 40").unwrap_err();
    assert!(message.contains("a/ben/1/ben-0.wav") && message.contains("b/eve/1/ben-0.wav"), "{message}");
    assert!(!folder.join("ward").exists());
    prepare("ward", "--classes 40 --speakers ben,cleo").unwrap();
    assert!(prepare("repeated", "--visibility public").unwrap().contains("1 of an id seen before"));
    let meta = crate::speech::dataset::read_meta(&folder.join("repeated")).unwrap();
    assert!(meta.units.is_empty() && !meta.preparation.unwrap().across_units.is_empty());
}
