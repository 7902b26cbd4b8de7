#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use backon::BackoffBuilder as _;
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use time::macros::datetime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{FIRST, LONGEST, LineError, ProviderLine, backoff, retry_after};
use crate::outbound::outgoing::OutgoingSound;
use crate::provider::loopback::{CloudFault, Ear, FakeCloud, KEY};
use crate::provider::settings::ProviderSettings;
use crate::recognize::SpeechRecognizer as _;
use crate::recognize::pocketsphinx::PocketSphinx;
use crate::wav;
use undertone_worker_site::clock::system;
use undertone_worker_site::testing::fixture;
use undertone_worker_speech::synthesize::synthesize_text;

const PROTOCOLS: [&str; 3] = ["openai", "google", "deepgram"];

/// A server that recognizes one word in any sound that is not silent.
async fn cloud() -> FakeCloud {
    let ear: Ear = Arc::new(|wav: &[u8]| {
        let silent = wav[44..].iter().all(|byte| *byte == 0);
        if silent { Vec::new() } else { vec![("forward".to_owned(), 0.125, 0.5)] }
    });
    FakeCloud::start(ear).await.unwrap()
}

fn line(cloud: &FakeCloud, protocol: &str, more: &str) -> ProviderLine {
    let text = format!(
        "name = \"one\"\nprotocol = \"{protocol}\"\nurl = \"{}\"\nkey_variable = \"SPEECH_KEY\"\nrequests_per_minute = 60000\n{more}",
        cloud.url()
    );
    let settings: ProviderSettings = toml::from_str(&text).unwrap();
    settings.line(Path::new("."), |_| Some(KEY.into()), system()).unwrap().without_pauses()
}

fn sound(level: f32) -> OutgoingSound {
    OutgoingSound::in_test(wav::write(&vec![level; 16_000]))
}

async fn transcribe_text(line: &ProviderLine) -> Result<String, LineError> {
    let recognition = line.transcribe(&sound(0.25), &CancellationToken::new()).await.unwrap()?;
    let words: Vec<_> =
        recognition.words.iter().map(|word| format!("{} {} {}", word.text, word.start, word.end)).collect();
    Ok(words.join(", "))
}

#[tokio::test]
async fn sound_arrives_bit_for_bit_over_each_protocol() {
    for protocol in PROTOCOLS {
        let cloud = cloud().await;
        let line = line(&cloud, protocol, "");
        assert_eq!(transcribe_text(&line).await.unwrap(), "forward 0.125 0.5", "{protocol}");
        let silence = line.transcribe(&sound(0.0), &CancellationToken::new()).await.unwrap().unwrap();
        assert!(silence.words.is_empty(), "{protocol}");
        let received = cloud.received();
        assert_eq!(
            received.iter().map(|one| one.wav.clone()).collect::<Vec<_>>(),
            [wav::write(&vec![0.25; 16_000]), wav::write(&vec![0.0; 16_000])]
        );
    }
}

#[tokio::test]
async fn requests_differ_in_their_sound_only() {
    let view = |headers: &HeaderMap| {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        // The boundary of a form is random.
        let headers = headers.map(|(name, value)| (name, value.split("; boundary=").next().unwrap().to_owned()));
        headers.collect::<Vec<_>>()
    };
    for (protocol, more) in [
        ("openai", vec!["accept", "authorization", "content-length", "content-type", "host"]),
        ("google", vec!["accept", "content-length", "content-type", "host", "x-goog-api-key"]),
        ("deepgram", vec!["accept", "authorization", "content-length", "content-type", "host"]),
    ] {
        let cloud = cloud().await;
        let line = line(&cloud, protocol, "");
        for level in [0.25, -0.5, 0.125] {
            line.transcribe(&sound(level), &CancellationToken::new()).await.unwrap().unwrap();
        }
        let received = cloud.received();
        let mut names: Vec<String> = view(&received[0].headers).into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, more, "{protocol}");
        for other in &received[1..] {
            assert_eq!(view(&other.headers), view(&received[0].headers), "{protocol}");
            assert_eq!((&other.fields, &other.line), (&received[0].fields, &received[0].line), "{protocol}");
            assert_eq!((other.body.len(), &other.wav[..44]), (received[0].body.len(), &received[0].wav[..44]));
        }
        assert!(!received[0].line.contains(KEY));
    }
}

#[tokio::test]
async fn transient_failures_are_retried_with_the_same_bits() {
    let cloud = cloud().await;
    let faults = [
        CloudFault::Status(500),
        CloudFault::Later(429, 0),
        CloudFault::HangUp,
        CloudFault::Status(503),
        CloudFault::Status(408),
    ];
    cloud.order(faults);
    assert!(transcribe_text(&line(&cloud, "deepgram", "")).await.is_ok());
    let received = cloud.received();
    assert!(received.len() >= 6 && received.iter().all(|one| one.wav == received[0].wav), "{}", received.len());
}

#[tokio::test]
async fn final_failures_are_not_retried_and_repeat_no_words() {
    for (fault, told) in [
        (CloudFault::Status(400), "refuses the request (status 400)"),
        (CloudFault::Status(413), "refuses the request (status 413)"),
        (CloudFault::Elsewhere, "refuses the request (status 302)"),
        (CloudFault::Status(401), "refuses the key"),
        (CloudFault::Status(403), "refuses the key"),
        (CloudFault::Nonsense, "does not have the form"),
    ] {
        let cloud = cloud().await;
        cloud.order([fault]);
        let error = transcribe_text(&line(&cloud, "openai", "")).await.unwrap_err();
        let whole = format!("{error} {error:?}");
        assert!(whole.contains(told), "{fault:?}: {whole}");
        assert!(!whole.contains("as ordered") && !whole.contains("proxy") && !whole.contains(KEY), "{whole}");
        assert_eq!(cloud.received().len(), 1, "{fault:?}");
    }
}

/// Answers are stored on disk, for every sound.
#[tokio::test]
async fn implausible_answer_is_refused() {
    let word = |length: usize| "a".repeat(length);
    for (words, length, fits) in [(50, 1, true), (51, 1, false), (1, 400, true), (1, 401, false)] {
        for protocol in PROTOCOLS {
            let words_of_answer = vec![(word(length), 0.25, 0.5); words];
            let ear: Ear = Arc::new(move |_: &[u8]| words_of_answer.clone());
            let cloud = FakeCloud::start(ear).await.unwrap();
            let recognition =
                line(&cloud, protocol, "").transcribe(&sound(0.25), &CancellationToken::new()).await.unwrap();
            match recognition {
                Ok(recognition) => assert!(fits && recognition.words.len() == words, "{protocol}: {words} of {length}"),
                Err(error) => assert!(!fits && matches!(error, LineError::Implausible(_)), "{protocol}: {error}"),
            }
            assert_eq!(cloud.received().len(), 1, "{protocol}");
        }
    }
}

#[tokio::test]
async fn wrong_key_is_reported() {
    let cloud = cloud().await;
    for protocol in PROTOCOLS {
        let text = format!("name = \"one\"\nprotocol = \"{protocol}\"\nurl = \"{}\"\n", cloud.url());
        let settings: ProviderSettings = toml::from_str(&text).unwrap();
        let line = settings.line(Path::new("."), |_| None, system()).unwrap().without_pauses();
        assert!(matches!(transcribe_text(&line).await, Err(LineError::Key(401))), "{protocol}");
    }
}

#[tokio::test]
async fn attempts_are_bounded() {
    let cloud = cloud().await;
    cloud.order([CloudFault::Status(503); 3]);
    let error = transcribe_text(&line(&cloud, "google", "attempts = 3")).await.unwrap_err();
    assert!(matches!(&error, LineError::Exhausted { attempts: 3, last } if matches!(**last, LineError::Busy(503))));
    assert_eq!(cloud.received().len(), 3);
}

#[tokio::test]
async fn retry_after_delays_every_request() {
    let cloud = cloud().await;
    cloud.order([CloudFault::Later(429, 90)]);
    let line = line(&cloud, "deepgram", "attempts = 1");
    assert!(transcribe_text(&line).await.is_err());
    let now = Instant::now();
    assert!(line.pace().place(now) - now > Duration::from_secs(80));
}

#[tokio::test]
async fn retry_after_is_capped_at_ten_minutes() {
    for (asks, waits) in [(600, 600), (601, 600), (1_000_000, 600)] {
        let cloud = cloud().await;
        cloud.order([CloudFault::Later(429, asks)]);
        let line = line(&cloud, "deepgram", "attempts = 1");
        assert!(transcribe_text(&line).await.is_err());
        let now = Instant::now();
        let pause = line.pace().place(now) - now;
        assert!((waits - 30..=waits).contains(&pause.as_secs()), "{asks} s asked for: {pause:?}");
    }
}

#[test]
fn pauses_grow_to_half_a_minute() {
    let pauses: Vec<Duration> = backoff(FIRST, 21).build().collect();
    assert!(pauses[0] <= FIRST && pauses.iter().all(|pause| *pause <= LONGEST), "{pauses:?}");
    assert!(pauses[10..].iter().all(|pause| *pause >= LONGEST / 2), "{pauses:?}");
}

#[test]
fn retry_after_is_parsed_as_seconds_or_date() {
    let now = datetime!(1994-11-06 08:49:07 UTC);
    for (text, expected) in [
        ("120", Some(Duration::from_mins(2))),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(Duration::from_secs(30))),
        ("Sun, 06 Nov 1994 08:00:00 GMT", Some(Duration::ZERO)),
        ("soon", None),
        ("-5", None),
    ] {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
        assert_eq!(retry_after(&headers, now), expected, "{text}");
    }
    assert_eq!(retry_after(&HeaderMap::new(), now), None);
}

#[tokio::test]
async fn concurrent_requests_reach_their_limit() {
    // The server answers only after three requests have arrived.
    let barrier = Arc::new(Barrier::new(3));
    let ear: Ear = Arc::new(move |_: &[u8]| {
        barrier.wait();
        Vec::new()
    });
    let cloud = FakeCloud::start(ear).await.unwrap();
    let line = line(&cloud, "deepgram", "concurrency = 3");
    let all = (0..12).map(|_| transcribe_text(&line));
    assert!(futures::future::join_all(all).await.iter().all(Result::is_ok));
    assert_eq!((cloud.most_at_a_time(), cloud.received().len()), (3, 12));
}

#[tokio::test]
async fn too_long_sound_is_not_sent() {
    let cloud = cloud().await;
    let line = line(&cloud, "google", "longest_seconds = 1");
    assert!(transcribe_text(&line).await.is_ok(), "a second is not too long");
    let long = OutgoingSound::in_test(wav::write(&vec![0.25; 16_001]));
    let error = line.transcribe(&long, &CancellationToken::new()).await.unwrap().unwrap_err();
    assert!(matches!(error, LineError::TooLong { longest: 1, .. }) && cloud.received().len() == 1);
}

#[tokio::test]
async fn cancelled_sound_is_not_sent() {
    let cloud = cloud().await;
    let stop = CancellationToken::new();
    stop.cancel();
    assert!(line(&cloud, "google", "").transcribe(&sound(0.25), &stop).await.is_none());
    assert!(cloud.received().is_empty());
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and flite; passes without either.
#[tokio::test]
async fn real_recognizer_transcribes_over_each_protocol() {
    let Some(command) = fixture::aligner() else { return };
    let Some(sentence) = synthesize_text("the patient will visit the hospital") else { return };
    let recognizer = PocketSphinx::new(command).start(1).unwrap();
    let runtime = tokio::runtime::Handle::current();
    let ear: Ear = Arc::new(move |file: &[u8]| {
        let recognition = runtime.block_on(recognizer.transcribe(&wav::read(file).unwrap())).unwrap();
        recognition.words.into_iter().map(|word| (word.text, word.start, word.end)).collect()
    });
    let cloud = FakeCloud::start(ear).await.unwrap();
    let sound = OutgoingSound::in_test(wav::write(&sentence));
    for protocol in PROTOCOLS {
        let recognition =
            line(&cloud, protocol, "").transcribe(&sound, &CancellationToken::new()).await.unwrap().unwrap();
        assert_eq!(recognition.text(), "the patient will visit the hospital", "{protocol}");
        assert!(
            recognition.words.is_sorted_by(|one, next| one.end <= next.start + 0.002),
            "{protocol}: {recognition:?}"
        );
    }
}
