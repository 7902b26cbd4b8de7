#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::phones::{TimedPhone, labels, line, parse};
use super::*;
use crate::align;
use crate::dataset::Dataset;
use crate::prepare::{ClassOption, PrepareOptions, prepare};
use undertone_worker_site::progress::SilentProgress;

fn config(output: &Path, subsets: &[(&str, usize, bool)], utterances: usize, seed: u64) -> CorpusConfig {
    let subset = |(name, speakers, outlier): &(&str, usize, bool)| SpeakerGroup {
        name: (*name).to_owned(),
        speakers: *speakers,
        outlier: *outlier,
    };
    let subsets = subsets.iter().map(subset).collect();
    CorpusConfig {
        output: output.to_path_buf(),
        subsets,
        utterances,
        seed,
        threads: 2,
        engines: SpeechEngines::default(),
    }
}

#[test]
fn a_corpus_is_what_prepare_reads() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("corpus");
    let report = corpus(&config(&folder, &[("one", 5, false), ("odd", 1, true)], 2, 7), &SilentProgress).unwrap();
    assert_eq!((report.utterances, report.speakers.len(), report.engines.len()), (12, 6, 2));
    assert!(report.engines[0].contains("2.") && report.engines[1].contains("1."), "{:?}", report.engines);
    let options = PrepareOptions {
        classes: ClassOption::Count(CLASSES),
        ..PrepareOptions::new(&folder, &folder.join(ALIGNMENTS_FILE), &dir.path().join("set"), "set")
    };
    let prepared = prepare(&options, &SilentProgress).unwrap();
    assert_eq!((prepared.kept, prepared.speakers, prepared.problems.len()), (12, 6, 0));
    assert_eq!((prepared.unlabelled_frames, prepared.surplus_labels), (0, 0));
    let dataset = Dataset::open(&dir.path().join("set")).unwrap();
    for i in 0..dataset.len() {
        let utterance = dataset.utterance(i);
        let phones: BTreeSet<u16> = utterance.labels.iter().map(|label| label / STATES as u16).collect();
        assert!(utterance.labels[0] < STATES as u16, "{} does not begin in silence", utterance.id);
        assert!(phones.len() >= 6, "{} has {} phones", utterance.id, phones.len());
    }
    assert!(folder.join("odd/s005/1/s005-1.trans.txt").exists());
    let saved: serde_json::Value = serde_json::from_slice(&fs::read(folder.join(CORPUS_FILE)).unwrap()).unwrap();
    assert_eq!(saved["speakers"][5]["outlier"], true);
}

/// Silence by label is silence by energy: labels match the audio for both engines and any warp.
#[test]
fn labels_lie_on_the_sound() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("corpus");
    corpus(&config(&folder, &[("one", 5, false), ("odd", 1, true)], 2, 3), &SilentProgress).unwrap();
    let alignments = align::read(&folder.join(ALIGNMENTS_FILE), &align::LabelOptions::default()).unwrap().alignments;
    for (id, alignment) in alignments.by_id {
        let speaker = id.split('-').next().unwrap();
        let subset = if speaker == "s005" { "odd" } else { "one" };
        let path = folder.join(subset).join(speaker).join("1").join(format!("{id}.wav"));
        let samples = crate::audio::read(&path, 60.0).unwrap().samples;
        let labels = alignment.labels(alignment.frames(), 0).unwrap();
        let energy =
            |frame: usize| samples[frame * 160..frame * 160 + 400].iter().map(|s| f64::from(s * s)).sum::<f64>();
        let mean = |silent: bool| {
            let frames = (0..labels.len()).filter(|frame| (labels[*frame] < STATES as u16) == silent);
            let energies: Vec<f64> = frames.map(energy).collect();
            energies.iter().sum::<f64>() / energies.len() as f64
        };
        let (silence, speech) = (mean(true), mean(false));
        assert!(speech > 10.0 * silence, "{id}: speech has {speech}, silence {silence}");
    }
}

#[test]
fn a_seed_decides_everything_and_another_changes_it() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, seed: u64, threads: usize| {
        let folder = dir.path().join(name);
        corpus(&CorpusConfig { threads, ..config(&folder, &[("one", 2, false)], 2, seed) }, &SilentProgress).unwrap();
        let wav = fs::read(folder.join("one/s001/1/s001-1-0001.wav")).unwrap();
        (wav, fs::read(folder.join(ALIGNMENTS_FILE)).unwrap(), fs::read(folder.join(CORPUS_FILE)).unwrap())
    };
    let first = make("a", 1, 1);
    assert!(first == make("b", 1, 2), "the same seed made another corpus");
    assert!(first.1 != make("c", 2, 1).1, "another seed made the same corpus");
}

#[test]
fn speakers_differ_and_belong_to_one_subset() {
    let subset = |name: &str, speakers, outlier| SpeakerGroup { name: name.to_owned(), speakers, outlier };
    let subsets = [subset("public", 8, false), subset("a", 6, false), subset("test", 4, false), subset("odd", 2, true)];
    let speakers = voice::roster(&subsets, 1);
    assert_eq!(speakers.len(), 20);
    assert_eq!(speakers.iter().map(|speaker| &speaker.id).collect::<BTreeSet<_>>().len(), 20);
    let voices: BTreeSet<String> =
        speakers.iter().map(|speaker| format!("{} {}", speaker.voice, speaker.warp)).collect();
    assert_eq!(voices.len(), 20);
    for speaker in &speakers {
        assert_eq!(speaker.outlier, speaker.subset == "odd");
        let far = speaker.warp < 0.8;
        assert_eq!(far, speaker.outlier, "{speaker:?}");
    }
    let four_voices: BTreeSet<String> =
        speakers[..5].iter().map(|speaker| speaker.voice.to_string().split(',').next().unwrap().to_owned()).collect();
    assert_eq!(four_voices.len(), 5, "five speakers have five base voices");
}

#[test]
fn missing_engine_is_named_with_its_package() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("corpus");
    let without = |flite: &str, espeak: &str| {
        let engines = SpeechEngines { flite: flite.into(), espeak: espeak.into() };
        corpus(&CorpusConfig { engines, ..config(&folder, &[("one", 5, false)], 1, 1) }, &SilentProgress)
            .unwrap_err()
            .to_string()
    };
    let missing = dir.path().join("missing").display().to_string();
    assert!(without(&missing, "espeak-ng").contains("apt-get install flite"));
    assert!(without("flite", &missing).contains("apt-get install espeak-ng"));
    assert!(without("flite", "false").contains("false failed"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_configuration_that_cannot_be_is_refused_by_argument() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |subsets: &[(&str, usize, bool)], utterances| {
        corpus(&config(&dir.path().join("corpus"), subsets, utterances, 1), &SilentProgress).unwrap_err().to_string()
    };
    assert!(refused(&[("Upper", 1, false)], 1).contains("--subset"));
    assert!(refused(&[("../up", 1, false)], 1).contains("--subset"));
    assert!(refused(&[("alignments", 1, false)], 1).contains("--subset"));
    assert!(refused(&[("a", 1, false), ("a", 1, true)], 1).contains("twice"));
    assert!(refused(&[("a", 0, false)], 1).contains("--speakers"));
    assert!(refused(&[("a", usize::MAX, false), ("b", usize::MAX, false)], 1).contains("--speakers"));
    assert!(refused(&[], 1).contains("--speakers"));
    assert!(refused(&[("a", 1, false)], 0).contains("--utterances"));
}

#[test]
fn phones_become_thirds() {
    let segments = parse("pau:0.060 s:0.090 eh:0.100 pau:0.2\n").unwrap();
    assert_eq!(segments[1], TimedPhone { phone: 31, end: 0.09 });
    // Frame centres are at 12.5, 22.5, ... ms: silence of 60 ms has one or two frames per state, s of 30 ms has one
    // each.
    let expected = [0, 1, 1, 2, 2, 93, 94, 95];
    assert_eq!(labels(&segments, 8, 1.0), expected);
    assert_eq!(labels(&segments, 1_000, 1.0)[999], 2);
    assert_eq!(labels(&segments, 3, 4.0), [2, 39, 0], "played four times as fast, centres are at 50, 90 and 130 ms");
    let alignment = align::parse(line("u", &expected).as_bytes()).unwrap();
    assert_eq!(alignment.by_id["u"].labels(8, 0).unwrap(), expected);
}

#[test]
fn invalid_phone_times_are_refused() {
    for said in ["", "pau", "pau:", "pau:x", "qq:0.1", "pau:0.2 s:0.1", "pau:inf", "pau:NaN"] {
        assert!(parse(said).is_err(), "{said:?} was taken");
    }
}

#[test]
fn every_word_is_once() {
    assert_eq!(text::WORDS.iter().collect::<BTreeSet<_>>().len(), text::WORDS.len());
}
