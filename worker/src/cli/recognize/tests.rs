//! The whole way from WAV files to words: three tones are the phones, and a model of them is trained here.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod site;

use std::path::Path;
use std::sync::OnceLock;

use clap::Parser;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::Value;
use undertone_api::job::dp_sgd::Optimizer as Rule;

use crate::cli::{CommandLine, format_error, run_command};
use crate::dp::optimizer::{Optimizer, StepDirection};
use crate::site::folder::Folder;
use crate::speech::audio::RATE;
use crate::speech::dataset::{Description, PreparationRecord, Split, Writer};
use crate::speech::features::{Treatment, subtract_mean};
use crate::speech::mfcc::{COEFFICIENTS, Mfcc, SHIFT, WINDOW};
use crate::speech::model::gradient::{Engine, Example};
use crate::speech::model::{Model, ModelShape, Normalizer};
use crate::speech::wav;

/// Frames of a phone.
const PHONE: usize = 12;
/// Silence and the frequency of each tone, Hz; the index is the class.
const TONES: [f32; 4] = [0.0, 500.0, 1_400.0, 3_200.0];

/// Returns the samples of classes, each for the frames of a phone.
fn speak(classes: &[usize], rng: &mut ChaCha20Rng) -> Vec<f32> {
    let phone = PHONE * SHIFT;
    let mut samples = Vec::new();
    for class in classes {
        let loudness = if *class == 0 { 0.0 } else { 0.3 };
        let radians = TONES[*class] * std::f32::consts::TAU / RATE as f32;
        samples.extend((0..phone).map(|n| {
            let noise = rng.next_u32() as f32 / u32::MAX as f32 - 0.5;
            loudness * (radians * n as f32).sin() + 0.01 * noise
        }));
    }
    samples
}

struct TestUtterance {
    features: Vec<f32>,
    labels: Vec<u16>,
}

fn utterance(classes: &[usize], rng: &mut ChaCha20Rng) -> TestUtterance {
    let samples = speak(classes, rng);
    let mut features = Mfcc::new().compute(&samples);
    subtract_mean(&mut features);
    let label = |frame: usize| classes[((frame * SHIFT + WINDOW / 2) / (PHONE * SHIFT)).min(classes.len() - 1)] as u16;
    let labels = (0..features.len() / COEFFICIENTS).map(label).collect();
    TestUtterance { features, labels }
}

fn utterances() -> Vec<TestUtterance> {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    (0..12)
        .map(|_| {
            let inner: Vec<usize> = (0..8).map(|_| rng.next_u32() as usize % TONES.len()).collect();
            utterance(&[&[0], inner.as_slice(), &[0]].concat(), &mut rng)
        })
        .collect()
}

/// Returns the file of a model of the tones, trained once.
fn model_file() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let utterances = utterances();
        let examples: Vec<Example<'_>> =
            utterances.iter().map(|one| Example { features: &one.features, labels: &one.labels }).collect();
        let frames: usize = examples.iter().map(|example| example.labels.len()).sum();
        let normalizer = Normalizer { mean: vec![0.0; COEFFICIENTS], deviation: vec![10.0; COEFFICIENTS] };
        let mut model = Model::initialize(ModelShape::plain(COEFFICIENTS, 12, TONES.len()), normalizer, 1);
        let mut optimizer = Optimizer::new(Rule::Adam { learning_rate: 0.03 }, model.parameters().len());
        let mut engine = Engine::new();
        let mut gradient = vec![0.0; model.parameters().len()];
        for _ in 0..60 {
            gradient.fill(0.0);
            engine.add_gradient(&model, &examples, 1.0 / frames as f32, &mut gradient);
            optimizer.step(model.parameters_mut(), StepDirection::exact(&gradient), 1.0);
        }
        model.to_safetensors().unwrap()
    })
}

/// A site with the dataset `tones`, a model, and the recording `spoken.wav` of the words ab, ba and cab.
struct TestSite {
    dir: tempfile::TempDir,
}

impl TestSite {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let site = Self { dir };
        let folder = Folder::new(site.path("site"));
        std::fs::create_dir_all(folder.datasets()).unwrap();
        let description = Description {
            name: "tones".to_owned(),
            inputs: COEFFICIENTS,
            classes: TONES.len(),
            sample_rate: RATE,
            features: "cepstra".to_owned(),
            labels: "tones".to_owned(),
            created: "2026-01-01T00:00:00Z".to_owned(),
            treatment: Treatment::default(),
            preparation: PreparationRecord::default(),
            unit_column: None,
        };
        let mut writer = Writer::create(&folder.datasets().join("tones"), description).unwrap();
        for (number, one) in utterances().iter().enumerate() {
            writer.push_of(&number.to_string(), ("s", None), Split::Train, &one.features, &one.labels).unwrap();
        }
        writer.finish(|_| Value::Null).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(9);
        let samples = speak(&[0, 1, 2, 0, 2, 1, 3, 1, 2, 0], &mut rng);
        site.write("spoken.wav", &wav::write(&samples));
        site.write("all.trans.txt", b"spoken AB BA CAB\nother AB\n");
        site.write("model", model_file());
        site.write("phones.txt", b"0 SIL\n1 A\n2 B\n3 C\n");
        site.write("words.dict", b"ab A1 B\nba B A0 # not ab\ncab C A B\n");
        site.write(
            "words.arpa",
            b"\\data\\\nngram 1=5\n\\1-grams:\n-99 <s>\n-0.6 </s>\n-0.6 ab\n-0.6 ba\n-0.6 cab\n\\end\\\n",
        );
        site
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.dir.path().join(name), content).unwrap();
    }

    /// Runs `recognize` with the model; names of files that begin with `@` are in the folder.
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let site = self.path("site");
        let model = self.path("model");
        let expand =
            |argument: &&str| argument.strip_prefix('@').map_or((*argument).to_owned(), |name| self.path(name));
        let fixed = ["undertone-worker", "--site", &site, "recognize", "--model", &model].map(str::to_owned);
        let all = fixed.into_iter().chain(arguments.iter().map(expand));
        let mut out = Vec::new();
        let line = CommandLine::try_parse_from(all).map_err(|error| error.to_string())?;
        run_command(&line, &mut out).map_err(|failure| format_error(&*failure.error))?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[arguments, &["--json"]].concat()).unwrap()).unwrap()
    }
}

fn words(report: &Value) -> Vec<&str> {
    let words = report["recordings"][0]["words"].as_array().unwrap();
    words.iter().map(|word| word["word"].as_str().unwrap()).collect()
}

#[test]
fn words_of_a_recording_have_times_and_confidence() {
    let site = TestSite::new();
    let lexicon = ["@spoken.wav", "--phone-map", "@phones.txt", "--lexicon", "@words.dict", "--references"];
    for more in [vec![], vec!["--lm", "@words.arpa"], vec!["--lm", "@words.arpa", "--dataset", "tones"]] {
        let report = site.json(&[lexicon.as_slice(), &more].concat());
        assert_eq!(words(&report), ["ab", "ba", "cab"], "{more:?}");
        assert_eq!((&report["word_error_rate"], &report["errors"]["words"]), (&Value::from(0.0), &Value::from(3)));
        // ab after one phone of silence, ba after two phones and one of silence, cab at once.
        let seconds = (PHONE * SHIFT) as f64 / f64::from(RATE);
        for (word, (first, phones)) in
            report["recordings"][0]["words"].as_array().unwrap().iter().zip([(1.0, 2.0), (4.0, 2.0), (6.0, 3.0)])
        {
            let number = |field: &str| word[field].as_f64().unwrap();
            assert!((number("start") - first * seconds).abs() < 0.06, "{word}");
            assert!((number("end") - (first + phones) * seconds).abs() < 0.06, "{word}");
            assert!((0.5..=1.0).contains(&number("confidence")), "{word}");
        }
    }
    let text = site.run(&[lexicon.as_slice(), &["--lm", "@words.arpa"]].concat()).unwrap();
    assert!(text.contains("START") && text.contains("cab"), "{text}");
    assert!(text.contains("phones, lexicon, language model") && text.contains("Word error rate  0.00 %"), "{text}");
}

#[test]
fn without_lexicon_the_best_path_is_printed() {
    let site = TestSite::new();
    let phones = site.json(&["@spoken.wav", "--phone-map", "@phones.txt"]);
    assert_eq!(words(&phones), ["SIL", "A", "B", "SIL", "B", "A", "C", "A", "B", "SIL"]);
    let classes = site.json(&["@spoken.wav"]);
    assert_eq!(words(&classes), ["0", "1", "2", "0", "2", "1", "3", "1", "2", "0"]);
    assert_eq!((&classes["system"], &phones["system"]), (&Value::from("classes"), &Value::from("phones")));
}

#[test]
fn personal_model_recognizes_at_its_site() {
    let site = TestSite::new();
    let arguments = ["@spoken.wav", "--phone-map", "@phones.txt"];
    let before = site.json(&arguments);
    site.write("model", &Model::from_safetensors(model_file()).unwrap().to_personal_file().unwrap());
    let after = site.json(&arguments);
    assert_eq!(after["recordings"], before["recordings"]);
    assert_ne!(after["model"], before["model"], "the mark is in the file");
}

#[test]
fn unusable_input_has_a_specific_error() {
    let site = TestSite::new();
    site.write("empty.wav", &wav::write(&[]));
    site.write("short.wav", &wav::write(&[0.1; WINDOW - 1]));
    site.write("text.wav", b"no recording");
    site.write("graph.onnx", b"\x08\x07\x12\x07pytorch");
    site.write("few.txt", b"0 SIL\n1 A\n");
    site.write("no-lexicon.dict", b"ab A B\nba B A\n");
    site.write("zoo.dict", b"ab A B\nzoo Z UW\n");
    site.write("slow.wav", &narrow_band());
    let named = ["@spoken.wav", "--phone-map", "@phones.txt"];
    for (arguments, expected) in [
        (vec!["@empty.wav"], "empty: it holds no sample"),
        (vec!["@short.wav"], "shorter than one frame of 25 ms"),
        (vec!["@text.wav"], "not a FLAC or WAV file"),
        (vec!["@absent.wav"], "cannot be opened"),
        (vec!["@slow.wav"], "recorded at 8000 Hz, and the features need 16000 Hz"),
        (vec!["@spoken.wav", "--longest", "0.5"], "the limit is 0.5 s"),
        (vec!["@spoken.wav", "--lexicon", "@words.dict"], "--lexicon needs the meaning of the model's classes"),
        (vec!["@spoken.wav", "--lm", "@words.arpa"], "--lm needs --lexicon"),
        (vec!["@spoken.wav", "--dataset", "unknown"], "no dataset `unknown`"),
        (vec!["@spoken.wav", "--phone-map", "@few.txt"], "name 2 classes, the model has 4"),
        (vec!["@spoken.wav", "--phone-map", "@model"], "line 1: "),
        (vec!["@model", "--beam", "0"], "a number from 1 to 100000"),
        ([&named[..], &["--lexicon", "@zoo.dict"]].concat(), "line 2: no class of the model stands for the phone `Z`"),
        (
            [&named[..], &["--lexicon", "@no-lexicon.dict", "--lm", "@words.arpa"]].concat(),
            "1 words that the lexicon lacks, such as `cab`",
        ),
        ([&named[..], &["--lexicon", "@words.arpa"]].concat(), "line 1: `\\data\\` has no phones"),
        ([&named[..], &["--lexicon", "@words.dict", "--lm", "@words.dict"]].concat(), "no line `\\data\\`"),
        (vec!["@short.wav", "--references"], "shorter than one frame"),
    ] {
        let error = site.run(&arguments).unwrap_err();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    site.write("all.trans.txt", b"other AB\n");
    assert!(site.run(&["@spoken.wav", "--references"]).unwrap_err().contains("has a line for it"));
    std::fs::copy(site.path("graph.onnx"), site.path("model")).unwrap();
    assert!(site.run(&["@spoken.wav"]).unwrap_err().contains("ONNX"));
    std::fs::remove_file(site.path("model")).unwrap();
    assert!(site.run(&["@spoken.wav"]).unwrap_err().contains("cannot read the model"));
    assert!(Path::new(&site.path("spoken.wav")).exists());
}

/// Returns a WAV file at 8,000 Hz.
fn narrow_band() -> Vec<u8> {
    let mut file = wav::write(&vec![0.1; 8_000]);
    // The rate and the bytes per second of the header.
    file[24..28].copy_from_slice(&8_000_u32.to_le_bytes());
    file[28..32].copy_from_slice(&16_000_u32.to_le_bytes());
    file
}
