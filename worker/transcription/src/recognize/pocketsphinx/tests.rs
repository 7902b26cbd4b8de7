#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::segment::{SegmentLimits, SpokenPiece, segment};
use undertone_worker_site::testing::fixture;
use undertone_worker_speech::audio::{LONGEST, read};
use undertone_worker_speech::synthesize::synthesize_text;

/// A program that answers with the shell script `answers`.
fn program(dir: &Path, answers: &str) -> PocketSphinx {
    let path = dir.join("program");
    let script = format!(
        "#!/bin/sh\necho '{{\"ready\":{{\"program\":\"sh\",\"identity\":\"00\"}}}}'\necho started >>{}\n\
         while read -r request; do head -c 32000 >/dev/null\n{answers}\ndone\n",
        dir.join("starts").display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    PocketSphinx::new(path)
}

/// One second.
static SAMPLES: [f32; 16_000] = [0.0; 16_000];

#[tokio::test]
async fn crash_fails_one_piece_and_reports_last_message() {
    let dir = tempfile::tempdir().unwrap();
    // The first process dies at its first request; the second survives.
    let answers = format!(
        "if [ $(wc -l <{}) = 1 ]; then echo 'out of memory' >&2; exit 3; fi\n\
         echo '{{\"words\":[[\"go\",0.1,0.4,0.9]]}}'",
        dir.path().join("starts").display()
    );
    let recognizer = program(dir.path(), &answers).start(1).unwrap();
    let lost = recognizer.transcribe(&SAMPLES).await.unwrap_err().to_string();
    assert!(lost.contains("crashed (out of memory)"), "{lost}");
    for _ in 0..2 {
        assert_eq!(recognizer.transcribe(&SAMPLES).await.unwrap().text(), "go");
    }
    let starts = std::fs::read_to_string(dir.path().join("starts")).unwrap();
    assert_eq!(starts.lines().count(), 2, "it was started again, once");
    assert_eq!(recognizer.name(), "sh");
}

#[tokio::test]
async fn crash_without_a_message_reports_the_signal() {
    let dir = tempfile::tempdir().unwrap();
    let recognizer = program(dir.path(), "kill -9 $$").start(1).unwrap();
    let lost = recognizer.transcribe(&SAMPLES).await.unwrap_err().to_string();
    assert!(lost.contains("crashed (signal: 9"), "{lost}");
}

#[tokio::test]
async fn impossible_answers_are_refused() {
    for (answer, expected) in [
        ("{\"words\":[[\"go\",0.1,30.0,0.9]]}", "times"),
        ("{\"words\":[[\"go on\",0.1,0.3,0.9]]}", "a word is empty, or two"),
        ("{\"failed\":\"no\"}", "failed: no"),
        ("hello", "cannot be read"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let recognizer = program(dir.path(), &format!("echo '{answer}'")).start(1).unwrap();
        let message = recognizer.transcribe(&SAMPLES).await.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn hang_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let recognizer = program(dir.path(), "exec sleep 1000").start(1).unwrap();
    let lost = recognizer.pool.ask(question(&SAMPLES, 1.0), Duration::from_millis(100)).unwrap_err().to_string();
    assert!(lost.contains("no answer within 0 s"), "{lost}");
    assert!(recognizer.pool.idle.lock().unwrap().is_empty(), "nobody asks the one that hangs again");
}

#[test]
fn missing_program_and_zero_processes_name_a_remedy() {
    for command in ["/nowhere/python", "/bin/false", "/bin/echo"] {
        let refused = PocketSphinx::new(command).start(1).err().unwrap().to_string();
        assert!(refused.contains(command) && refused.contains("pip install"), "{refused}");
    }
    for processes in [0, 257] {
        let refused = PocketSphinx::new("/bin/false").start(processes).err().unwrap().to_string();
        assert!(refused.contains("processes") && refused.contains("between 1 and 256"), "{refused}");
    }
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`); passes without it.
#[test]
fn invalid_model_is_refused_by_name() {
    let Some(command) = fixture::aligner() else { return };
    let bare = PocketSphinx::new(command);
    let nowhere = || Some(PathBuf::from("/nowhere/it"));
    for (program, what) in [
        (PocketSphinx { model: nowhere(), ..bare.clone() }, "no model /nowhere/it"),
        (PocketSphinx { dictionary: nowhere(), ..bare.clone() }, "no dictionary /nowhere/it"),
        (PocketSphinx { language_model: nowhere(), ..bare.clone() }, "no language model /nowhere/it"),
    ] {
        let refused = program.start(1).err().unwrap().to_string();
        assert!(refused.contains(what), "{refused}");
    }
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and flite; passes without either.
#[tokio::test]
async fn sentence_is_recognized_independently_of_earlier_audio() {
    let Some(command) = fixture::aligner() else { return };
    let Some(sentence) = synthesize_text("the patient will visit the hospital") else { return };
    let Some(other) = synthesize_text("go forward ten meters") else { return };
    let recognizer = PocketSphinx::new(command).start(2).unwrap();
    let first = recognizer.transcribe(&sentence).await.unwrap();
    assert_eq!(first.text(), "the patient will visit the hospital");
    let seconds = sentence.len() as f64 / 16_000.0;
    assert!(first.words.is_sorted_by(|a, b| a.end <= b.start + 1e-9) && first.words[5].end <= seconds, "{first:?}");
    assert!(first.words[5].start > 0.5, "the last word is not at the beginning: {first:?}");
    let (again, between) = tokio::join!(recognizer.transcribe(&sentence), recognizer.transcribe(&other));
    let between = between.unwrap();
    assert!(!between.words.is_empty() && between != first, "another sentence has other words: {between:?}");
    assert_eq!(recognizer.transcribe(&other).await.unwrap(), between);
    assert_eq!(again.unwrap(), first);
    assert_eq!(recognizer.transcribe(&sentence).await.unwrap(), first);
    assert_eq!(recognizer.transcribe(&[0.0; 400]).await.unwrap(), Recognition::default(), "silence has no words");
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and speech data (`UNDERTONE_DATA`); passes without either.
#[tokio::test]
async fn words_of_real_recordings_lie_in_their_pieces() {
    let Some((command, data)) = fixture::aligner().zip(fixture::data("speech_tiny")) else { return };
    let recognizer = PocketSphinx::new(command).start(2).unwrap();
    let mut folders = vec![data.join("librispeech-test-other")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "flac") {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut words = 0;
    let mut covered = 0;
    for path in files.iter().step_by(files.len().div_ceil(4)) {
        let samples = read(path, LONGEST).unwrap().samples;
        let recognition = recognizer.transcribe(&samples).await.unwrap();
        let pieces: Vec<SpokenPiece> =
            segment([Ok(samples)].into_iter(), SegmentLimits::default()).unwrap().map(Result::unwrap).collect();
        words += recognition.words.len();
        covered += recognition.words.iter().filter(|word| pieces.iter().any(|spoken| spoken.piece.holds(word))).count();
    }
    assert!(words > 20, "only {words} words were heard");
    assert!(covered * 100 >= words * 98, "{covered} of {words} words lie in a piece");
}
