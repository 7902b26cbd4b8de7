#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::align::{LabelOptions, read};
use crate::synthesize::synthesize_text;
use undertone_worker_site::testing::fixture;

/// Returns a program that replies as the shell script `answers` defines, with the request in `$request`.
fn program(dir: &Path, answers: &str) -> PocketSphinx {
    let path = dir.join("program");
    let script = format!(
        "#!/bin/sh\necho '{{\"ready\":{{\"program\":\"sh\",\"identity\":\"00\",\"classes\":9}}}}'\n\
         echo started >>{}\nwhile read -r request; do head -c 800 >/dev/null\n{answers}\ndone\n",
        dir.join("starts").display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    PocketSphinx::new(path)
}

/// 25 ms, the minimum length of an utterance.
const SAMPLES: [f32; 400] = [0.0; 400];

fn starts(dir: &Path) -> usize {
    std::fs::read_to_string(dir.join("starts")).unwrap().lines().count()
}

#[test]
fn crash_fails_one_utterance_with_the_last_message() {
    let dir = tempfile::tempdir().unwrap();
    let answers = "case $request in *boom*) echo 'out of memory' >&2; exit 3;; *) echo '{\"runs\":[[4,2]]}';; esac";
    let mut aligner = program(dir.path(), answers).start().unwrap();
    assert_eq!(aligner.align(&SAMPLES, "fine").unwrap().runs(), [(4, 2)]);
    let lost = aligner.align(&SAMPLES, "boom").unwrap_err().to_string();
    assert!(lost.contains("crashed (out of memory)"), "{lost}");
    assert_eq!(aligner.align(&SAMPLES, "fine").unwrap().runs(), [(4, 2)]);
    assert_eq!(starts(dir.path()), 2, "it was started again, once");
}

#[test]
fn hang_fails_one_utterance_within_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let answers = "case $request in *stall*) exec sleep 1000;; *) echo '{\"runs\":[[4,2]]}';; esac";
    let mut process = Process::start(Start::new(&program(dir.path(), answers).command)).unwrap();
    process.hear(LOADING).unwrap();
    let limit = Duration::from_millis(200);
    assert_eq!(process.ask(question(&SAMPLES, "stall", 1.0), limit), Err(super::super::process::Silence::Late(0)));
    // The whole process group has ended, otherwise this would wait for the sleep.
    drop(process);
}

#[test]
fn invalid_reply_fails_one_utterance() {
    let dir = tempfile::tempdir().unwrap();
    let answers = "case $request in *class*) echo '{\"runs\":[[9,2]]}';; *empty*) echo '{\"runs\":[]}';; \
                   *gibberish*) echo hello;; *word*) echo '{\"unknown\":[\"XYZZY\"]}';; *) echo '{\"failed\":\"no\"}';; esac";
    let mut aligner = program(dir.path(), answers).start().unwrap();
    let mut failure = |text: &str| aligner.align(&SAMPLES, text).unwrap_err().to_string();
    assert!(failure("class").contains("class 9 of a model with 9"));
    assert!(failure("empty").contains("0 frames"));
    assert!(failure("gibberish").contains("cannot be read"));
    assert_eq!(failure("word"), "the dictionary lacks XYZZY");
    assert_eq!(failure("other"), "no");
}

#[test]
fn invalid_aligner_is_refused_with_the_remedy() {
    for command in ["/nowhere/python", "/bin/false", "/bin/echo"] {
        let refused = PocketSphinx::new(command).start().err().unwrap().to_string();
        assert!(refused.contains(command) && refused.contains("pip install pocketsphinx"), "{refused}");
    }
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`); passes without it.
#[test]
fn missing_model_or_dictionary_is_refused_by_name() {
    let Some(command) = fixture::aligner() else { return };
    let bare = PocketSphinx::new(command);
    let model = PocketSphinx { model: Some("/nowhere/model".into()), ..bare.clone() };
    let dictionary = PocketSphinx { dictionary: Some("/nowhere/words".into()), ..bare };
    for (program, what) in [(model, "no model /nowhere/model"), (dictionary, "no dictionary /nowhere/words")] {
        let refused = program.start().err().unwrap().to_string();
        assert!(refused.contains(what), "{refused}");
    }
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and speech data, or flite without; passes without either.
#[test]
fn alignment_of_real_speech_matches_the_shared_labels() {
    let Some(command) = fixture::aligner() else { return };
    let mut aligner = PocketSphinx::new(command).start().unwrap();
    assert_eq!(aligner.identity().classes, 5_126);
    let Some((input, labels)) = fixture::data("speech_tiny").zip(fixture::data("speech")) else {
        // Without data, a synthetic voice is used. Its words must be aligned, and other words must not.
        let samples = synthesize_text("go forward ten meters").unwrap();
        let alignment = aligner.align(&samples, "GO FORWARD TEN METERS").unwrap();
        assert!(alignment.frames().abs_diff(samples.len() / 160) < 5);
        return;
    };
    let labels = read(&labels.join("alignments/pocketsphinx-en-us-senones.jsonl"), &LabelOptions::default()).unwrap();
    let mut utterances = Vec::new();
    for subset in ["an4-train", "librispeech-test-other"] {
        for speaker in std::fs::read_dir(input.join(subset)).unwrap() {
            for chapter in std::fs::read_dir(speaker.unwrap().path()).unwrap() {
                let chapter = chapter.unwrap().path();
                let files = std::fs::read_dir(&chapter).unwrap().map(|entry| entry.unwrap().path());
                let file = files.filter(|path| path.to_string_lossy().ends_with(".trans.txt")).min().unwrap();
                let line = std::fs::read_to_string(file).unwrap().lines().next().unwrap().to_owned();
                let (id, text) = line.split_once(' ').unwrap();
                utterances.push((id.to_owned(), text.to_owned(), chapter.join(format!("{id}.flac"))));
            }
        }
    }
    assert!(utterances.len() >= 9, "of every speaker one");
    utterances.sort();
    let (mut agreed, mut frames, mut first) = (0, 0, Vec::new());
    for (id, text, path) in &utterances {
        let samples = crate::audio::read(path, 60.0).unwrap().samples;
        let Some(expected) = labels.alignments.by_id.get(id) else {
            // No labels were made for utterances with missing words.
            assert!(matches!(aligner.align(&samples, text), Err(AlignFailure::Words(_))), "{id}");
            first.push(None);
            continue;
        };
        let alignment = aligner.align(&samples, text).unwrap();
        let (found_labels, expected) =
            (alignment.labels(alignment.frames(), 0).unwrap(), expected.labels(expected.frames(), 0).unwrap());
        agreed += found_labels.iter().zip(&expected).filter(|(a, b)| a == b).count();
        frames += found_labels.len().max(expected.len());
        first.push(Some(alignment));
    }
    // The shared labels were made by the same program and model, one utterance at a time, so all frames agree. Rounding
    // of another build may move a boundary; a wrong window, rate or state does far more.
    assert!(agreed as f64 >= 0.99 * frames as f64, "{agreed} of {frames} frames agree");
    for ((id, text, path), before) in utterances.iter().zip(&first).rev() {
        let samples = crate::audio::read(path, 60.0).unwrap().samples;
        assert_eq!(aligner.align(&samples, text).ok(), *before, "{id} depends on what was aligned before it");
    }
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and flite; passes without either.
#[test]
fn endless_search_ends_by_the_scripts_limit() {
    let Some(command) = fixture::aligner() else { return };
    let Some(samples) = synthesize_text("go forward ten meters") else { return };
    let options = r#"{"model": null, "dictionary": null}"#;
    let mut process = Process::start(Start::new(&command).args(["-I", "-c", SCRIPT, options])).unwrap();
    process.hear(LOADING).unwrap();
    let mut reply = |seconds| {
        let question = question(&samples, "go forward ten meters", seconds);
        String::from_utf8(process.ask(question, LOADING).unwrap()).unwrap()
    };
    // No search ends within a millisecond.
    assert_eq!(reply(0.001), r#"{"failed": "not aligned within 0.001 s"}"#);
    assert!(reply(60.0).starts_with(r#"{"runs": [["#));
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and flite; passes without either.
#[test]
fn unknown_words_are_named_and_wrong_text_fails() {
    let Some(command) = fixture::aligner() else { return };
    let Some(samples) = synthesize_text("go forward ten meters") else { return };
    let mut aligner = PocketSphinx::new(command.clone()).start().unwrap();
    let Err(AlignFailure::Words(words)) = aligner.align(&samples, "GO XYZZY TEN PLUGH XYZZY") else { panic!("words") };
    assert_eq!(words, ["PLUGH", "XYZZY"]);
    assert!(aligner.align(&samples, "go forward ten meters").is_ok(), "case is the dictionary's");
    let long = "four score and seven years ago our fathers brought forth on this continent a new nation ".repeat(4);
    let Err(AlignFailure::Failed(_)) = aligner.align(&samples, &long) else { panic!("it cannot fit") };
    let dir = tempfile::tempdir().unwrap();
    let dictionary = dir.path().join("words.dict");
    std::fs::write(&dictionary, "xyzzy Z IH Z IY\nten T EH N\n").unwrap();
    let own = PocketSphinx { dictionary: Some(dictionary), ..PocketSphinx::new(command) };
    let mut own = own.start().unwrap();
    assert_ne!(own.identity().identity, aligner.identity().identity);
    let Err(AlignFailure::Words(words)) = own.align(&samples, "XYZZY FORWARD") else { panic!("words") };
    assert_eq!(words, ["FORWARD"]);
}
