use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;
use crate::align::aligner::{AlignFailure, Aligner, AlignerProgram};
use crate::align::alignment::Alignment;
use crate::prepare::forced;
use crate::prepare::scan::{choose, scan};
use crate::synthesize::synthesize_text;

/// An aligner that labels each utterance with one class, fails as the transcript requests, and records the requests.
#[derive(Clone, Default)]
struct FakeAligner {
    asked: Arc<Mutex<Vec<String>>>,
    /// Number of utterances until it is gone.
    life: Option<usize>,
    version: &'static str,
}

struct RunningFake(FakeAligner, AlignerIdentity);

impl AlignerProgram for FakeAligner {
    fn start(&self) -> Result<Box<dyn Aligner>, AlignerError> {
        let identity =
            AlignerIdentity { program: "obedient".to_owned(), identity: self.version.to_owned(), classes: 9 };
        Ok(Box::new(RunningFake(self.clone(), identity)))
    }
}

impl Aligner for RunningFake {
    fn identity(&self) -> &AlignerIdentity {
        &self.1
    }

    fn align(&mut self, samples: &[f32], text: &str) -> Result<Alignment, AlignFailure> {
        let FakeAligner { asked, life, .. } = &self.0;
        let mut requests = asked.lock().unwrap();
        if life.is_some_and(|life| requests.len() >= life) {
            return Err(AlignerError::Changed("obedient".to_owned()).into());
        }
        requests.push(text.to_owned());
        match text {
            "lacks words" => Err(AlignFailure::Words(vec!["XYZZY".to_owned()])),
            "fails" => Err(AlignFailure::Failed("the aligner crashed".to_owned())),
            _ => {
                let line = format!(
                    r#"{{"u": "x", "frames": {0}, "runs": [[{1}, {0}]]}}"#,
                    samples.len() / 160,
                    text.len() % 9
                );
                Ok(align::parse(line.as_bytes()).unwrap().by_id.pop_first().unwrap().1)
            }
        }
    }
}
/// Returns four speakers with three utterances each, all with a transcript.
fn transcribed() -> (TestCorpus, BTreeMap<String, String>) {
    let corpus = TestCorpus::with_four_speakers();
    let mut texts = BTreeMap::new();
    for speaker in ["anna", "ben", "cleo", "dora"] {
        for u in 0..3 {
            texts.insert(format!("{speaker}-{u}"), format!("{} {u}", speaker.to_uppercase()));
        }
    }
    (corpus, texts)
}

fn write(corpus: &TestCorpus, texts: &BTreeMap<String, String>) {
    for (subset, speaker) in [("a", "anna"), ("a", "ben"), ("a", "cleo"), ("b", "dora")] {
        let own = texts.iter().filter(|(id, _)| id.starts_with(speaker));
        let lines: String = own.flat_map(|(id, text)| [id.as_str(), " ", text.as_str(), "\n"]).collect();
        let folder = corpus.place(subset, speaker, "x").parent().unwrap().to_path_buf();
        fs::write(folder.join(format!("{speaker}-1.trans.txt")), lines).unwrap();
    }
}

fn run(corpus: &TestCorpus, program: &FakeAligner, threads: usize) -> Result<ForcedLabels, PrepareError> {
    let options = PrepareOptions { alignments: corpus.path("kept.jsonl"), threads, ..corpus.options("x") };
    let chosen = choose(&scan(&options.input).unwrap().recordings, &options, None).unwrap();
    forced::align(program, &options, &chosen.recordings, &SilentProgress)
}

#[test]
fn unalignable_recordings_are_named_and_the_rest_aligned() {
    let (corpus, mut texts) = transcribed();
    texts.insert("anna-1".to_owned(), "lacks words".to_owned());
    texts.insert("ben-1".to_owned(), "fails".to_owned());
    texts.remove("cleo-1");
    write(&corpus, &texts);
    let folder = corpus.place("a", "ben", "x").parent().unwrap().to_path_buf();
    fs::write(folder.join("more.trans.txt"), "ben-0 ANOTHER TEXT\nalone\nben-2 BEN 2\n").unwrap();
    fs::write(corpus.place("b", "dora", "dora-2"), "RIFF").unwrap();
    for threads in [1, 3] {
        let labels = run(&corpus, &FakeAligner::default(), threads).unwrap();
        assert_eq!(labels.alignments.by_id.len(), 8);
        let problems: Vec<String> = labels.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert_eq!(problems[0], "anna-1: the dictionary lacks XYZZY");
        assert_eq!(problems[1], "ben-1: the aligner crashed");
        assert!(
            problems[2].starts_with("cleo-1: no transcript") && problems[3].starts_with("b/dora/1/dora-2.wav: "),
            "{problems:?}"
        );
        let bad: Vec<&str> = labels.alignments.bad_lines.iter().map(|bad| bad.reason.as_str()).collect();
        assert_eq!(bad.len(), 2, "{bad:?}");
        assert!(bad.iter().all(|reason| reason.starts_with("a/ben/1/")), "{bad:?}");
    }
}

#[test]
fn interrupted_alignment_continues_with_equal_result() {
    let (corpus, texts) = transcribed();
    write(&corpus, &texts);
    let whole = run(&corpus, &FakeAligner::default(), 1).unwrap();
    assert_eq!(whole.resumed, 0);
    fs::remove_file(corpus.path("kept.jsonl")).unwrap();
    let mortal = FakeAligner { life: Some(5), ..FakeAligner::default() };
    assert!(matches!(run(&corpus, &mortal, 2), Err(PrepareError::Aligner(AlignerError::Changed(_)))));
    let again = FakeAligner::default();
    let labels = run(&corpus, &again, 2).unwrap();
    assert_eq!((labels.resumed, again.asked.lock().unwrap().len()), (5, 7));
    assert_eq!(labels.alignments.by_id, whole.alignments.by_id);
    let idle = FakeAligner::default();
    assert_eq!(run(&corpus, &idle, 2).unwrap().alignments.by_id, whole.alignments.by_id);
    assert!(idle.asked.lock().unwrap().is_empty());
}

#[test]
fn changed_transcript_recording_or_model_is_realigned() {
    let (corpus, mut texts) = transcribed();
    write(&corpus, &texts);
    run(&corpus, &FakeAligner::default(), 1).unwrap();
    let realign = |corpus: &TestCorpus, version| {
        let program = FakeAligner { version, ..FakeAligner::default() };
        let labels = run(corpus, &program, 2).unwrap();
        assert_eq!(labels.alignments.by_id.len(), 12);
        let requests = program.asked.lock().unwrap().clone();
        (requests, labels.alignments.by_id["anna-0"].clone())
    };
    texts.insert("anna-0".to_owned(), "SOMETHING ELSE".to_owned());
    write(&corpus, &texts);
    let (again, labels) = realign(&corpus, "");
    assert_eq!((again, labels.runs()[0].0), (vec!["SOMETHING ELSE".to_owned()], 14 % 9));
    corpus.record("a", "ben", "ben-2", 16_000, 0.7);
    assert_eq!(realign(&corpus, "").0, ["BEN 2"]);
    assert_eq!(realign(&corpus, "").0, [""; 0]);
    assert_eq!(realign(&corpus, "another").0.len(), 12);
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and speech data, or flite without; passes without either.
#[test]
fn recordings_and_transcripts_alone_become_a_dataset() {
    let Some(command) = fixture::aligner() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let real = fixture::data("speech_tiny").zip(fixture::data("speech"));
    let (input, subsets) = if let Some((tiny, _)) = &real {
        (tiny.clone(), vec!["an4-train".to_owned()])
    } else {
        let Some(samples) = synthesize_text("go forward ten meters") else { return };
        let folder = path("corpus/flite/kal/1");
        fs::create_dir_all(&folder).unwrap();
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: 16_000,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut wav = hound::WavWriter::create(folder.join("kal-1.wav"), spec).unwrap();
        for sample in &samples {
            wav.write_sample((sample * 32_767.0) as i16).unwrap();
        }
        wav.finalize().unwrap();
        fs::write(folder.join("kal.trans.txt"), "kal-1 GO FORWARD TEN METERS\n").unwrap();
        (path("corpus"), Vec::new())
    };
    let options = PrepareOptions {
        aligner: Some(PocketSphinx::new(command)),
        subsets: subsets.clone(),
        threads: 2,
        ..PrepareOptions::new(&input, &path("made.alignments.jsonl"), &path("made"), "made")
    };
    let report = quietly(&options).unwrap();
    assert_eq!((report.kept, report.classes, report.problems.len()), (report.found.min(report.chosen), 5_126, 0));
    let by = report.aligner.unwrap();
    assert_eq!((by.program.as_str(), by.resumed), ("pocketsphinx 5.1.1", 0));
    let labels = Dataset::open(&path("made")).unwrap().meta().labels.clone();
    assert!(labels.contains("by pocketsphinx 5.1.1") && labels.contains(&by.identity[..12]), "{labels}");
    // A second run has nothing left to align and gives the same result, as does a run with the stored labels.
    let again = quietly(&PrepareOptions { replace: true, ..options.clone() }).unwrap();
    assert_eq!((again.aligner.unwrap().resumed, &again.digest), (report.kept, &report.digest));
    let classes = ClassOption::Count(5_126);
    let reused = PrepareOptions { aligner: None, output: path("kept"), classes: classes.clone(), ..options.clone() };
    assert_eq!(quietly(&reused).unwrap().digest, report.digest);
    if let Some((_, speech)) = real {
        let alignments = speech.join("alignments/pocketsphinx-en-us-senones.jsonl");
        quietly(&PrepareOptions { aligner: None, alignments, output: path("shared"), classes, ..options }).unwrap();
        let (ours, shared) = (Dataset::open(&path("made")).unwrap(), Dataset::open(&path("shared")).unwrap());
        let each = || (0..ours.len()).flat_map(|i| ours.utterance(i).labels.iter().zip(shared.utterance(i).labels));
        let (agreed, all) = (each().filter(|(a, b)| a == b).count(), ours.meta().frames as usize);
        assert_eq!(each().count(), all);
        assert!(agreed as f64 >= 0.99 * all as f64, "{agreed} of {all} frames have the shared labels");
    }
}
