#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use crate::speech::fixture;
use crate::speech::synthesize::spoken;

/// A server with PocketSphinx behind it, of both protocols.
const SERVER: &str = include_str!("tests/server.py");
/// A second of it.
static SOUND: [f32; 16_000] = [0.25; 16_000];

fn config(url: String, protocol: Protocol) -> Config {
    Config { url, protocol, model: None, language: Some("en".to_owned()), key: None, seconds: 60, requests: 2 }
}

/// Answers one request with `answer`, and says what it was asked.
async fn once(answer: String) -> (String, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut asked, mut buffer) = (Vec::new(), [0; 4_096]);
        // A form ends with its boundary and two hyphens.
        while !asked.ends_with(b"--\r\n") {
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "the request ends");
            asked.extend_from_slice(&buffer[..read]);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        asked
    });
    (url, asked)
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The lines of a request that are text.
fn text(asked: &[u8]) -> String {
    String::from_utf8_lossy(asked).into_owned()
}

#[tokio::test]
async fn a_server_of_the_openai_protocol_is_asked_for_words_and_sent_nothing_but_sound() {
    let words = r#"{"text":"go on","words":[{"word":"go","start":0.1,"end":0.4},{"word":"on","start":0.5,"end":0.9}]}"#;
    let (url, asked) = once(answer("200 OK", words)).await;
    let key = Some(Zeroizing::new("sk-1".to_owned()));
    let server = Server::find(Config { key, ..config(url, Protocol::OpenAi) }).await.unwrap();
    assert_eq!(server.hear(&SOUND).await.unwrap().text(), "go on");
    let asked = asked.await.unwrap();
    let said = text(&asked);
    assert!(said.starts_with("POST /v1/audio/transcriptions HTTP/1.1\r\n"), "{said}");
    assert!(said.to_lowercase().contains("authorization: bearer sk-1\r\n"), "{said}");
    for (field, value) in [
        ("model", "whisper-1"),
        ("response_format", "verbose_json"),
        ("timestamp_granularities[]", "word"),
        ("language", "en"),
    ] {
        assert!(said.contains(&format!("name=\"{field}\"\r\n\r\n{value}\r\n")), "{field} is not there: {said}");
    }
    let wav = wav::write(&SOUND);
    assert!(asked.windows(wav.len()).any(|window| window == wav), "the sound is there as it is");
    assert!(!server.name().contains("127.0.0.1"), "reports name no address");
}

#[tokio::test]
async fn a_server_of_whisper_cpp_is_asked_by_its_own_path() {
    let (url, asked) = once(answer("200 OK", r#"{"text":"","segments":[]}"#)).await;
    let server = Server::find(config(format!("{url}/below/"), Protocol::WhisperCpp)).await.unwrap();
    assert_eq!(server.hear(&[0.0; 1_600]).await.unwrap(), Heard::default());
    let said = text(&asked.await.unwrap());
    assert!(said.starts_with("POST /below/inference HTTP/1.1\r\n") && !said.contains("name=\"model\""), "{said}");
}

#[tokio::test]
async fn refusals_say_what_to_do_and_repeat_nothing() {
    for (status, remedy) in [
        ("401 Unauthorized", "`key`"),
        ("404 Not Found", "`protocol`"),
        ("422 Unprocessable Entity", "`model`"),
        ("429 Too Many Requests", "`requests`"),
        ("307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/", "not followed"),
        ("500 Internal Server Error", "its own log"),
    ] {
        let (url, _asked) = once(answer(status, "the secret")).await;
        let server = Server::find(config(url, Protocol::OpenAi)).await.unwrap();
        let refused = server.hear(&[0.0; 1_600]).await.unwrap_err();
        assert!(refused.to_string().contains(remedy), "{refused}");
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_says_too_much_or_never_answers_is_an_error() {
    let hear = async |url: String| {
        let server = Server::find(Config { seconds: 1, ..config(url, Protocol::OpenAi) }).await.unwrap();
        server.hear(&[0.0; 1_600]).await.unwrap_err().to_string()
    };
    let free = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    assert!(hear(format!("http://{free}")).await.contains("cannot be reached"));
    let (url, _asked) = once(answer("200 OK", &format!("{{\"text\":\"{}\"}}", "a".repeat(LARGEST)))).await;
    let large = hear(url).await;
    assert!(large.contains("larger than 4194304 bytes"), "{large}");
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let late = hear(format!("http://{}", silent.local_addr().unwrap())).await;
    assert!(late.contains("in time"), "{late}");
}

#[tokio::test]
async fn settings_that_cannot_be_are_refused_by_field() {
    let usual = config("http://127.0.0.1:1".to_owned(), Protocol::OpenAi);
    for (wrong, field) in [
        (Config { seconds: 0, ..usual.clone() }, "seconds: 0: choose between 1 and 600"),
        (Config { requests: 257, ..usual.clone() }, "requests: 257: choose between 1 and 256"),
        (Config { model: Some(String::new()), ..usual.clone() }, "model: "),
        (Config { language: Some("e n".to_owned()), ..usual.clone() }, "language: "),
        (Config { key: Some(Zeroizing::new("a\r\nb".to_owned())), ..usual.clone() }, "key: "),
        (Config { url: "https://192.0.2.1".to_owned(), ..usual.clone() }, "url: it leads outside"),
        (Config { url: "ws://127.0.0.1:1".to_owned(), ..usual.clone() }, "url: not an address"),
        (
            Config { url: "wss://192.0.2.1".to_owned(), protocol: Protocol::Vosk, ..usual.clone() },
            "url: it leads outside",
        ),
        (Config { url: "ws://10.0.0.7".to_owned(), protocol: Protocol::Vosk, ..usual.clone() }, "url: plain"),
        (Config { protocol: Protocol::Vosk, model: Some("small".to_owned()), ..usual }, "model: vosk-server has"),
    ] {
        let refused = Server::find(wrong).await.err().unwrap().to_string();
        assert!(refused.starts_with(field), "{refused}");
    }
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and flite; passes without either.
#[tokio::test]
async fn a_real_server_hears_a_sentence_over_both_protocols() {
    let Some(command) = fixture::aligner() else { return };
    let Some(sentence) = spoken("the patient will visit the hospital") else { return };
    let mut program = tokio::process::Command::new(command)
        .args(["-I", "-c", SERVER])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let port = lines.next_line().await.unwrap().expect("it says its port");
    for protocol in [Protocol::OpenAi, Protocol::WhisperCpp] {
        let server = Server::find(config(format!("http://127.0.0.1:{port}"), protocol)).await.unwrap();
        let (heard, again) = tokio::join!(server.hear(&sentence), server.hear(&sentence));
        let heard = heard.unwrap();
        assert_eq!(heard.text(), "the patient will visit the hospital", "{protocol:?}");
        assert!(heard.words[5].start > 0.5 && heard.words[5].end < 5.0, "{heard:?}");
        assert_eq!(again.unwrap(), heard);
    }
    program.kill().await.unwrap();
}
