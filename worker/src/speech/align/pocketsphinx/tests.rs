#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::speech::align::{Reading, read};
use crate::speech::fixture;
use crate::speech::synthesize::spoken;

/// A program that answers as the shell script `answers` says, which finds the request's samples in `$samples`.
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

/// 25 ms, as short as an utterance may be.
const SAMPLES: [f32; 400] = [0.0; 400];

fn starts(dir: &Path) -> usize {
    std::fs::read_to_string(dir.join("starts")).unwrap().lines().count()
}

#[test]
fn a_crash_costs_one_utterance_and_names_what_was_said_last() {
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
fn a_hang_costs_one_utterance_and_no_more_time_than_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let answers = "case $request in *stall*) exec sleep 1000;; *) echo '{\"runs\":[[4,2]]}';; esac";
    let mut process = Process::start(&mut Command::new(program(dir.path(), answers).command)).unwrap();
    process.hear(LOADING).unwrap();
    let limit = Duration::from_millis(200);
    assert_eq!(process.ask(question(&SAMPLES, "stall", 1.0), limit), Err(super::super::process::Silence::Late(0)));
    // The whole program is gone with it, or this would wait for the sleep.
    drop(process);
}

#[test]
fn answers_that_cannot_be_are_refused_and_the_next_is_asked_anew() {
    let dir = tempfile::tempdir().unwrap();
    let answers = "case $request in *class*) echo '{\"runs\":[[9,2]]}';; *empty*) echo '{\"runs\":[]}';; \
                   *gibberish*) echo hello;; *word*) echo '{\"unknown\":[\"XYZZY\"]}';; *) echo '{\"failed\":\"no\"}';; esac";
    let mut aligner = program(dir.path(), answers).start().unwrap();
    let mut said = |text: &str| aligner.align(&SAMPLES, text).unwrap_err().to_string();
    assert!(said("class").contains("class 9 of a model with 9"));
    assert!(said("empty").contains("0 frames"));
    assert!(said("gibberish").contains("cannot be read"));
    assert_eq!(said("word"), "the dictionary lacks XYZZY");
    assert_eq!(said("other"), "no");
}

#[test]
fn a_program_that_is_none_is_refused_with_the_remedy() {
    for command in ["/nowhere/python", "/bin/false", "/bin/echo"] {
        let refused = PocketSphinx::new(command).start().err().unwrap().to_string();
        assert!(refused.contains(command) && refused.contains("pip install pocketsphinx"), "{refused}");
    }
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`); passes without it.
#[test]
fn a_model_or_dictionary_that_is_none_is_refused_by_name() {
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
fn real_speech_is_aligned_as_the_shared_labels_say_whatever_was_aligned_before() {
    let Some(command) = fixture::aligner() else { return };
    let mut aligner = PocketSphinx::new(command).start().unwrap();
    assert_eq!(aligner.identity().classes, 5_126);
    let Some((input, labels)) = fixture::data("speech_tiny").zip(fixture::data("speech")) else {
        // No data: a synthetic voice. Its words must be found, and a stranger's must not.
        let samples = spoken("go forward ten meters").unwrap();
        let alignment = aligner.align(&samples, "GO FORWARD TEN METERS").unwrap();
        assert!(alignment.frames().abs_diff(samples.len() / 160) < 5);
        return;
    };
    let labels = read(&labels.join("alignments/pocketsphinx-en-us-senones.jsonl"), &Reading::default()).unwrap();
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
        let samples = crate::speech::audio::read(path, 60.0).unwrap().samples;
        let Some(expected) = labels.alignments.by_id.get(id) else {
            // Labels were not made where words are missing.
            assert!(matches!(aligner.align(&samples, text), Err(Unaligned::Words(_))), "{id}");
            first.push(None);
            continue;
        };
        let found = aligner.align(&samples, text).unwrap();
        let (found_labels, expected) =
            (found.labels(found.frames(), 0).unwrap(), expected.labels(expected.frames(), 0).unwrap());
        agreed += found_labels.iter().zip(&expected).filter(|(a, b)| a == b).count();
        frames += found_labels.len().max(expected.len());
        first.push(Some(found));
    }
    // The shared labels were made by the same program and model, one utterance at a time: all frames agree. Another
    // build's rounding may move a boundary; a wrong window, rate or state does far more.
    assert!(agreed as f64 >= 0.99 * frames as f64, "{agreed} of {frames} frames agree");
    for ((id, text, path), before) in utterances.iter().zip(&first).rev() {
        let samples = crate::speech::audio::read(path, 60.0).unwrap().samples;
        assert_eq!(aligner.align(&samples, text).ok(), *before, "{id} depends on what was aligned before it");
    }
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and flite; passes without either.
#[test]
fn an_endless_search_ends_by_the_scripts_own_clock_and_the_next_is_aligned() {
    let Some(command) = fixture::aligner() else { return };
    let Some(samples) = spoken("go forward ten meters") else { return };
    let options = r#"{"model": null, "dictionary": null}"#;
    let mut process = Process::start(Command::new(command).args(["-I", "-c", SCRIPT, options])).unwrap();
    process.hear(LOADING).unwrap();
    let mut said = |seconds| {
        let question = question(&samples, "go forward ten meters", seconds);
        String::from_utf8(process.ask(question, LOADING).unwrap()).unwrap()
    };
    // No search is over in a millisecond.
    assert_eq!(said(0.001), r#"{"failed": "not aligned within 0.001 s"}"#);
    assert!(said(60.0).starts_with(r#"{"runs": [["#));
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and flite; passes without either.
#[test]
fn words_it_does_not_know_are_named_and_a_stranger_text_or_no_time_fails() {
    let Some(command) = fixture::aligner() else { return };
    let Some(samples) = spoken("go forward ten meters") else { return };
    let mut aligner = PocketSphinx::new(command.clone()).start().unwrap();
    let Err(Unaligned::Words(words)) = aligner.align(&samples, "GO XYZZY TEN PLUGH XYZZY") else { panic!("words") };
    assert_eq!(words, ["PLUGH", "XYZZY"]);
    assert!(aligner.align(&samples, "go forward ten meters").is_ok(), "case is the dictionary's");
    let long = "four score and seven years ago our fathers brought forth on this continent a new nation ".repeat(4);
    let Err(Unaligned::Failed(_)) = aligner.align(&samples, &long) else { panic!("it cannot fit") };
    let dir = tempfile::tempdir().unwrap();
    let dictionary = dir.path().join("words.dict");
    std::fs::write(&dictionary, "xyzzy Z IH Z IY\nten T EH N\n").unwrap();
    let own = PocketSphinx { dictionary: Some(dictionary), ..PocketSphinx::new(command) };
    let mut own = own.start().unwrap();
    assert_ne!(own.identity().identity, aligner.identity().identity);
    let Err(Unaligned::Words(words)) = own.align(&samples, "XYZZY FORWARD") else { panic!("words") };
    assert_eq!(words, ["FORWARD"]);
}
