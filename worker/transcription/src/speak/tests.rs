#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::likeness::{MeanSpectrum, SpectrumShaping};
use super::program::whole_header;
use super::*;
use crate::wav;

const LIMIT: Duration = Duration::from_secs(30);
const TEXT: &str = "the patient has a high fever";

fn espeak() -> SpeechEngine {
    SpeechEngine::espeak("en-us", LIMIT).unwrap()
}

/// Speaks `text` with an installed engine; returns `None`, with a line on stderr, if it is not installed.
fn speak_if_installed(engine: &SpeechEngine, text: &str, rate: f64) -> Option<Vec<f32>> {
    match engine.speak(text, rate) {
        Err(SpeakError::Program { program, .. }) => {
            eprintln!("passed over: {program} is not installed");
            None
        }
        other => Some(other.unwrap()),
    }
}

#[test]
fn engines_speak_at_sixteen_kilohertz_and_given_rate() {
    for engine in [espeak(), SpeechEngine::flite("slt", LIMIT).unwrap()] {
        let Some(usual) = speak_if_installed(&engine, TEXT, USUAL_RATE) else { continue };
        let seconds = usual.len() as f64 / 16_000.0;
        assert!((0.8..4.0).contains(&seconds), "{}: {seconds} s", engine.name());
        let fast = speak_if_installed(&engine, TEXT, 300.0).unwrap();
        assert!((fast.len() as f64) < 0.8 * usual.len() as f64, "{}", engine.name());
        assert_eq!(speak_if_installed(&engine, TEXT, USUAL_RATE).unwrap(), usual, "the same again: {}", engine.name());
    }
}

#[test]
fn any_program_that_writes_wav_is_an_engine() {
    // The text on the command line, and then on the input.
    for command in [
        &["espeak-ng", "-z", "-s", "{rate}", "--stdout", "{text}"][..],
        &["sh", "-c", "espeak-ng -z -s {rate} --stdout --stdin"],
    ] {
        let engine = SpeechEngine::command(command, LIMIT).unwrap();
        if speak_if_installed(&espeak(), TEXT, USUAL_RATE).is_some() {
            assert!(engine.speak(TEXT, USUAL_RATE).unwrap().len() > 8_000, "{}", engine.name());
        }
    }
}

#[test]
fn cloning_command_requires_a_reference() {
    let folder = tempfile::tempdir().unwrap();
    let references = reference::ReferenceFolder::begin(&folder.path().join("a folder of {text}s")).unwrap();
    let voice: Vec<f32> = (0..8_000_u16).map(|n| (f32::from(n) * 0.07).sin() * 0.5).collect();
    references.keep(3, &voice).unwrap();
    // The most faithful imitation: it outputs the reference itself.
    let engine = SpeechEngine::command(&["sh", "-c", "exec cat \"$1\"", "cat", "{reference}"], LIMIT).unwrap();
    assert!(engine.clones() && engine.name().contains("{reference}"), "{}", engine.name());
    let path = references.path(3);
    let imitation = engine.imitating(&path);
    assert_eq!(wav::write(&imitation.speak(TEXT, USUAL_RATE).unwrap()), wav::write(&voice));
    assert_eq!(imitation.name(), engine.name(), "nobody is told where a voice lies");
    let refused = engine.speak(TEXT, USUAL_RATE).unwrap_err();
    assert!(matches!(refused, SpeakError::Setting { field: "command", .. }), "{refused}");
    let same = folder.path().join("same.wav");
    std::fs::copy(&path, &same).unwrap();
    let plain = SpeechEngine::command(&["cat", same.to_str().unwrap()], LIMIT).unwrap();
    assert!(!plain.clones() && !espeak().clones());
    assert!(plain.imitating(Path::new("/nowhere")).speak(TEXT, USUAL_RATE).is_ok(), "it does not ask for a voice");
    // Placeholders in the text are not replaced.
    let echo = folder.path().join("echo");
    let written = format!("printf %s \"$1\" > {}; cat \"$2\"", echo.display());
    let engine = SpeechEngine::command(&["sh", "-c", &written, "echo", "{text}", "{reference}"], LIMIT).unwrap();
    assert!(engine.imitating(&path).speak("the {reference} of {rate}", USUAL_RATE).is_ok());
    assert_eq!(std::fs::read_to_string(&echo).unwrap(), "the {reference} of {rate}");
}

#[test]
fn hanging_invalid_or_missing_engine_is_an_error() {
    let speak =
        |command: &[&str], limit| SpeechEngine::command(command, limit).unwrap().speak(TEXT, 175.0).unwrap_err();
    assert!(matches!(speak(&["tail", "-f", "/dev/null"], Duration::from_millis(50)), SpeakError::Late(_)));
    assert!(matches!(speak(&["echo", "hello"], LIMIT), SpeakError::Sound(_)));
    assert!(matches!(speak(&["true"], LIMIT), SpeakError::Sound(_)));
    assert!(
        matches!(speak(&["no-such-engine"], LIMIT), SpeakError::Program { program, .. } if program == "no-such-engine")
    );
    let silence = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(silence.path(), wav::write(&[0.0; 800])).unwrap();
    assert!(matches!(speak(&["cat", silence.path().to_str().unwrap()], LIMIT), SpeakError::Silent));
}

/// A speech server on this machine with the real engine behind it. It answers `requests` requests; the thread returns them.
fn server(status: &'static str, requests: usize) -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}/tts", listener.local_addr().unwrap());
    let answer = move |listener: &TcpListener| {
        let (mut line, _) = listener.accept().unwrap();
        let (mut request, mut buffer) = (Vec::new(), [0; 4_096]);
        let whole = loop {
            let read = line.read(&mut buffer).unwrap();
            request.extend(&buffer[..read]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse().unwrap() {
                break format!("{head}\n{body}");
            }
        };
        let parsed: serde_json::Value = serde_json::from_str(whole.lines().last().unwrap()).unwrap();
        let input = parsed["input"].as_str().unwrap();
        let speech = std::process::Command::new("espeak-ng").args(["-z", "--stdout", input]).output().unwrap().stdout;
        let length = speech.len();
        write!(line, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n").unwrap();
        line.write_all(&speech).unwrap();
        whole
    };
    (url, thread::spawn(move || (0..requests).map(|_| answer(&listener)).collect()))
}

#[test]
fn server_request_follows_openai_protocol() {
    if speak_if_installed(&espeak(), TEXT, USUAL_RATE).is_none() {
        return;
    }
    let (url, served) = server("200 OK", 1);
    let key = Some(Zeroizing::new("secret-of-the-engine".to_owned()));
    let engine = SpeechEngine::http(&url, "tts-1", "alloy", key, &[], LIMIT).unwrap();
    assert!(engine.speak(TEXT, 350.0).unwrap().len() > 8_000);
    assert!(!engine.name().contains("secret"), "{}", engine.name());
    let request = served.join().unwrap().remove(0);
    assert!(request.starts_with("post /tts/v1/audio/speech http/1.1"), "{request}");
    assert!(
        request.contains("authorization: bearer secret-of-the-engine") && !request.contains("user-agent"),
        "{request}"
    );
    let body: serde_json::Value = serde_json::from_str(request.lines().last().unwrap()).unwrap();
    let expected = serde_json::json!({
        "model": "tts-1", "voice": "alloy", "input": TEXT, "response_format": "wav", "speed": 2.0,
    });
    assert_eq!(body, expected);

    let (url, served) = server("429 Too Many Requests", 1);
    let refused = SpeechEngine::http(&url, "tts-1", "alloy", None, &[], LIMIT).unwrap().speak(TEXT, 175.0);
    assert!(matches!(refused, Err(SpeakError::Refused(429))));
    served.join().unwrap();
}

#[test]
fn provider_address_is_refused_as_engine() {
    let providers = [Url::parse("https://10.0.0.7/v1/audio/transcriptions").unwrap()];
    let engine = |url| SpeechEngine::http(url, "tts-1", "alloy", None, &providers, LIMIT).map(|engine| engine.name());
    assert!(engine("https://10.0.0.7:443/other").unwrap_err().to_string().contains("provider"));
    assert!(engine("https://10.0.0.8/").is_ok());
    assert!(matches!(engine("https://192.0.2.7/"), Err(SpeakError::Address(AddressError::Outside))));
    assert!(matches!(engine("http://voice.example/"), Err(SpeakError::Address(_))));
}

#[test]
fn texts_are_spoken_concurrently_and_received_once() {
    struct EchoSynthesizer(AtomicUsize, AtomicUsize);
    impl SpeechSynthesizer for EchoSynthesizer {
        fn name(&self) -> String {
            "echo".to_owned()
        }
        fn speak(&self, text: &str, _: f64) -> Result<Vec<f32>, SpeakError> {
            let now = self.0.fetch_add(1, Ordering::SeqCst) + 1;
            self.1.fetch_max(now, Ordering::SeqCst);
            thread::yield_now();
            self.0.fetch_sub(1, Ordering::SeqCst);
            if text == "stop" { Err(SpeakError::Silent) } else { Ok(vec![0.5; text.len()]) }
        }
    }
    let texts: Vec<(String, f64)> = (1..200).map(|n| ("a".repeat(n), 175.0)).collect();
    let echo = EchoSynthesizer(AtomicUsize::new(0), AtomicUsize::new(0));
    let lengths = Mutex::new(Vec::new());
    let receive = |place: usize, sound: Vec<f32>| {
        lengths.lock().unwrap().push((place, sound.len()));
        Ok::<_, SpeakError>(())
    };
    all(&echo, &texts, 4, &receive).unwrap();
    let mut lengths = lengths.into_inner().unwrap();
    lengths.sort_unstable();
    assert_eq!(lengths, (0..199).map(|place| (place, place + 1)).collect::<Vec<_>>());
    assert!(echo.1.load(Ordering::SeqCst) <= 4, "no more at once than were asked for");

    let stopped = [("stop".to_owned(), 175.0)].into_iter().chain(texts).collect::<Vec<_>>();
    let ignore = |_: usize, _: Vec<f32>| Ok::<_, SpeakError>(());
    assert!(matches!(all(&echo, &stopped, 2, &ignore), Err(SpeakError::Silent)));
    for at_once in [0, MOST_AT_ONCE + 1] {
        assert!(matches!(all(&echo, &stopped, at_once, &ignore), Err(SpeakError::Setting { field: "at_once", .. })));
    }
}

/// Needs espeak-ng; passes without it.
#[test]
fn espeak_output_gets_the_mean_spectrum_of_speech() {
    let mut engine = MeanSpectrum::default();
    let mut raw = Vec::new();
    for phrase in ["nobody knows the name of it", "a little rain fell on the field", "take the letter to the office"] {
        let Some(sound) = speak_if_installed(&espeak(), phrase, 160.0) else { return };
        engine.add(&sound);
        raw.push(sound);
    }
    let shaping = SpectrumShaping::new(&engine);
    let speech = MeanSpectrum::speech();
    let mut shaped = MeanSpectrum::default();
    for sound in raw {
        let sound = shaping.shape(&sound, 1_600);
        assert!(sound.len() > 1_600 + 8_000);
        shaped.add(&sound);
    }
    let before = engine.distance(&speech);
    let after = shaped.distance(&speech);
    assert!(after < 0.6 * before, "{before} dB became {after} dB");
}

#[test]
fn pipe_header_gets_actual_length_others_are_unchanged() {
    let file = wav::write(&[0.25; 100]);
    for promised in [u32::MAX, 0x7fff_f000] {
        let mut streamed = file.clone();
        streamed[4..8].copy_from_slice(&promised.to_le_bytes());
        streamed[40..44].copy_from_slice(&promised.to_le_bytes());
        whole_header(&mut streamed);
        assert_eq!(streamed, file);
    }
    for other in [&file[..], b"RIFF", b"", b"RIFFxxxxWAVElistabcd", &file[..40]] {
        let mut corrected = other.to_vec();
        whole_header(&mut corrected);
        assert_eq!(corrected, other);
    }
}

#[test]
fn settings_out_of_range_are_named() {
    for voice in ["", "--stdin", "en us", &"x".repeat(65)] {
        assert!(
            matches!(SpeechEngine::espeak(voice, LIMIT), Err(SpeakError::Setting { field: "voice", .. })),
            "{voice}"
        );
    }
    assert!(matches!(SpeechEngine::command(&[], LIMIT), Err(SpeakError::Setting { field: "command", .. })));
    for limit in [Duration::ZERO, Duration::from_secs(601)] {
        assert!(matches!(SpeechEngine::command(&["true"], limit), Err(SpeakError::Setting { field: "seconds", .. })));
    }
    assert!(SpeechEngine::espeak(&"x".repeat(64), Duration::from_mins(10)).is_ok());
    for rate in [79.0, 401.0, f64::NAN] {
        assert!(matches!(espeak().speak(TEXT, rate), Err(SpeakError::Setting { field: "rate", .. })));
    }
}
