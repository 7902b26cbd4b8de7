#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use time::macros::datetime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{FIRST, LONGEST, Line, LineError, pause, retry_after};
use crate::site::clock::system;
use crate::speech::fixture;
use crate::speech::synthesize::spoken;
use crate::speech::transcribe::outbound::Outgoing;
use crate::speech::transcribe::provider::loopback::{Cloud, Ear, Fault, KEY};
use crate::speech::transcribe::provider::settings::Settings;
use crate::speech::transcribe::recognize::Recognizer as _;
use crate::speech::transcribe::recognize::pocketsphinx::PocketSphinx;
use crate::speech::transcribe::wav;

const PROTOCOLS: [&str; 3] = ["openai", "google", "deepgram"];

/// Hears one word wherever there is sound.
async fn cloud() -> Cloud {
    let ear: Ear = Arc::new(|wav: &[u8]| {
        let silent = wav[44..].iter().all(|byte| *byte == 0);
        if silent { Vec::new() } else { vec![("forward".to_owned(), 0.125, 0.5)] }
    });
    Cloud::start(ear).await.unwrap()
}

fn line(cloud: &Cloud, protocol: &str, more: &str) -> Line {
    let text = format!(
        "name = \"one\"\nprotocol = \"{protocol}\"\nurl = \"{}\"\nkey_variable = \"SPEECH_KEY\"\nrequests_per_minute = 60000\n{more}",
        cloud.url()
    );
    let settings: Settings = toml::from_str(&text).unwrap();
    settings.line(Path::new("."), |_| Some(KEY.into()), system()).unwrap().without_pauses()
}

fn sound(level: f32) -> Outgoing {
    Outgoing::in_test(wav::write(&vec![level; 16_000]))
}

async fn hear(line: &Line) -> Result<String, LineError> {
    let heard = line.hear(&sound(0.25), &CancellationToken::new()).await.unwrap()?;
    let words: Vec<_> = heard.words.iter().map(|word| format!("{} {} {}", word.text, word.start, word.end)).collect();
    Ok(words.join(", "))
}

#[tokio::test]
async fn each_protocol_is_spoken_and_the_sound_arrives_bit_for_bit() {
    for protocol in PROTOCOLS {
        let cloud = cloud().await;
        let line = line(&cloud, protocol, "");
        assert_eq!(hear(&line).await.unwrap(), "forward 0.125 0.5", "{protocol}");
        let silence = line.hear(&sound(0.0), &CancellationToken::new()).await.unwrap().unwrap();
        assert!(silence.words.is_empty(), "{protocol}");
        let received = cloud.received();
        assert_eq!(
            received.iter().map(|one| one.wav.clone()).collect::<Vec<_>>(),
            [wav::write(&vec![0.25; 16_000]), wav::write(&vec![0.0; 16_000])]
        );
    }
}

#[tokio::test]
async fn a_request_holds_the_sound_and_nothing_that_tells_one_from_another() {
    let view = |headers: &HeaderMap| {
        let told = headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        // The boundary of a form is random.
        let told = told.map(|(name, value)| (name, value.split("; boundary=").next().unwrap().to_owned()));
        told.collect::<Vec<_>>()
    };
    for (protocol, more) in [
        ("openai", vec!["accept", "authorization", "content-length", "content-type", "host"]),
        ("google", vec!["accept", "content-length", "content-type", "host", "x-goog-api-key"]),
        ("deepgram", vec!["accept", "authorization", "content-length", "content-type", "host"]),
    ] {
        let cloud = cloud().await;
        let line = line(&cloud, protocol, "");
        for level in [0.25, -0.5, 0.125] {
            line.hear(&sound(level), &CancellationToken::new()).await.unwrap().unwrap();
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
async fn what_may_work_later_is_tried_until_it_does_with_the_same_bits() {
    let cloud = cloud().await;
    let faults = [Fault::Status(500), Fault::Later(429, 0), Fault::HangUp, Fault::Status(503), Fault::Status(408)];
    cloud.order(faults);
    assert!(hear(&line(&cloud, "deepgram", "")).await.is_ok());
    let received = cloud.received();
    assert!(received.len() >= 6 && received.iter().all(|one| one.wav == received[0].wav), "{}", received.len());
}

#[tokio::test]
async fn what_cannot_work_is_tried_once_and_told_without_what_was_said() {
    for (fault, told) in [
        (Fault::Status(400), "refuses the request (status 400)"),
        (Fault::Status(413), "refuses the request (status 413)"),
        (Fault::Elsewhere, "refuses the request (status 302)"),
        (Fault::Status(401), "refuses the key"),
        (Fault::Status(403), "refuses the key"),
        (Fault::Nonsense, "does not have the form"),
    ] {
        let cloud = cloud().await;
        cloud.order([fault]);
        let error = hear(&line(&cloud, "openai", "")).await.unwrap_err();
        let whole = format!("{error} {error:?}");
        assert!(whole.contains(told), "{fault:?}: {whole}");
        assert!(!whole.contains("as ordered") && !whole.contains("proxy") && !whole.contains(KEY), "{whole}");
        assert_eq!(cloud.received().len(), 1, "{fault:?}");
    }
}

/// An answer is kept on disk, for as many sounds as there are.
#[tokio::test]
async fn an_answer_that_nobody_can_have_said_is_not_believed() {
    let word = |length: usize| "a".repeat(length);
    for (words, length, fits) in [(50, 1, true), (51, 1, false), (1, 400, true), (1, 401, false)] {
        for protocol in PROTOCOLS {
            let said = vec![(word(length), 0.25, 0.5); words];
            let ear: Ear = Arc::new(move |_: &[u8]| said.clone());
            let cloud = Cloud::start(ear).await.unwrap();
            let heard = line(&cloud, protocol, "").hear(&sound(0.25), &CancellationToken::new()).await.unwrap();
            match heard {
                Ok(heard) => assert!(fits && heard.words.len() == words, "{protocol}: {words} of {length}"),
                Err(error) => assert!(!fits && matches!(error, LineError::Implausible(_)), "{protocol}: {error}"),
            }
            assert_eq!(cloud.received().len(), 1, "{protocol}");
        }
    }
}

#[tokio::test]
async fn a_wrong_key_is_found_out() {
    let cloud = cloud().await;
    for protocol in PROTOCOLS {
        let text = format!("name = \"one\"\nprotocol = \"{protocol}\"\nurl = \"{}\"\n", cloud.url());
        let settings: Settings = toml::from_str(&text).unwrap();
        let line = settings.line(Path::new("."), |_| None, system()).unwrap().without_pauses();
        assert!(matches!(hear(&line).await, Err(LineError::Key(401))), "{protocol}");
    }
}

#[tokio::test]
async fn patience_has_an_end() {
    let cloud = cloud().await;
    cloud.order([Fault::Status(503); 3]);
    let error = hear(&line(&cloud, "google", "attempts = 3")).await.unwrap_err();
    assert!(matches!(&error, LineError::Exhausted { attempts: 3, last } if matches!(**last, LineError::Busy(503))));
    assert_eq!(cloud.received().len(), 3);
}

#[tokio::test]
async fn a_pause_that_the_provider_asks_for_holds_every_request() {
    let cloud = cloud().await;
    cloud.order([Fault::Later(429, 90)]);
    let line = line(&cloud, "deepgram", "attempts = 1");
    assert!(hear(&line).await.is_err());
    let now = Instant::now();
    assert!(line.pace().place(now) - now > Duration::from_secs(80));
}

#[tokio::test]
async fn nobody_is_left_alone_for_longer_than_ten_minutes() {
    for (asks, waits) in [(600, 600), (601, 600), (1_000_000, 600)] {
        let cloud = cloud().await;
        cloud.order([Fault::Later(429, asks)]);
        let line = line(&cloud, "deepgram", "attempts = 1");
        assert!(hear(&line).await.is_err());
        let now = Instant::now();
        let pause = line.pace().place(now) - now;
        assert!((waits - 30..=waits).contains(&pause.as_secs()), "{asks} s asked for: {pause:?}");
    }
}

#[test]
fn pauses_grow_to_half_a_minute_and_no_further() {
    let pauses: Vec<Duration> = (1..=20).map(|attempt| pause(FIRST, attempt)).collect();
    assert!(pauses[0] <= FIRST && pauses.iter().all(|pause| *pause <= LONGEST), "{pauses:?}");
    assert!(pauses[10..].iter().all(|pause| *pause >= LONGEST / 2), "{pauses:?}");
}

#[test]
fn a_pause_is_asked_for_in_seconds_or_until_a_date() {
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
async fn as_many_requests_are_made_at_a_time_as_are_allowed() {
    // Nobody is answered before three have asked, and each time the cloud counts.
    let barrier = Arc::new(Barrier::new(3));
    let ear: Ear = Arc::new(move |_: &[u8]| {
        barrier.wait();
        Vec::new()
    });
    let cloud = Cloud::start(ear).await.unwrap();
    let line = line(&cloud, "deepgram", "concurrency = 3");
    let all = (0..12).map(|_| hear(&line));
    assert!(futures::future::join_all(all).await.iter().all(Result::is_ok));
    assert_eq!((cloud.most_at_a_time(), cloud.received().len()), (3, 12));
}

#[tokio::test]
async fn a_sound_that_is_too_long_is_not_sent() {
    let cloud = cloud().await;
    let line = line(&cloud, "google", "longest_seconds = 1");
    assert!(hear(&line).await.is_ok(), "a second is not too long");
    let long = Outgoing::in_test(wav::write(&vec![0.25; 16_001]));
    let error = line.hear(&long, &CancellationToken::new()).await.unwrap().unwrap_err();
    assert!(matches!(error, LineError::TooLong { longest: 1, .. }) && cloud.received().len() == 1);
}

#[tokio::test]
async fn nothing_is_sent_for_whom_nobody_waits() {
    let cloud = cloud().await;
    let stop = CancellationToken::new();
    stop.cancel();
    assert!(line(&cloud, "google", "").hear(&sound(0.25), &stop).await.is_none());
    assert!(cloud.received().is_empty());
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and flite; passes without either.
#[tokio::test]
async fn real_recognizers_hear_over_each_protocol_what_was_said() {
    let Some(command) = fixture::aligner() else { return };
    let Some(sentence) = spoken("the patient will visit the hospital") else { return };
    let recognizer = PocketSphinx::new(command).start(1).unwrap();
    let runtime = tokio::runtime::Handle::current();
    let ear: Ear = Arc::new(move |file: &[u8]| {
        let heard = runtime.block_on(recognizer.hear(&wav::read(file).unwrap())).unwrap();
        heard.words.into_iter().map(|word| (word.text, word.start, word.end)).collect()
    });
    let cloud = Cloud::start(ear).await.unwrap();
    let sound = Outgoing::in_test(wav::write(&sentence));
    for protocol in PROTOCOLS {
        let heard = line(&cloud, protocol, "").hear(&sound, &CancellationToken::new()).await.unwrap().unwrap();
        assert_eq!(heard.text(), "the patient will visit the hospital", "{protocol}");
        assert!(heard.words.is_sorted_by(|one, next| one.end <= next.start + 0.002), "{protocol}: {heard:?}");
    }
}
