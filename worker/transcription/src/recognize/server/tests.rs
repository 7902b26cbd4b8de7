#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;
use undertone_worker_site::testing::fixture;
use undertone_worker_speech::synthesize::synthesize_text;

/// A server with PocketSphinx behind it, for both protocols.
const SERVER: &str = include_str!("tests/server.py");
/// One second of sound.
static SOUND: [f32; 16_000] = [0.25; 16_000];

fn config(url: String, protocol: ServerProtocol) -> ServerConfig {
    ServerConfig { url, protocol, model: None, language: Some("en".to_owned()), key: None, seconds: 60, requests: 2 }
}

/// Answers one request with `answer`; the task returns the request.
async fn once(answer: String) -> (String, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let request = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut request, mut buffer) = (Vec::new(), [0; 4_096]);
        // A form ends with its boundary and two hyphens.
        while !request.ends_with(b"--\r\n") {
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "the request ends");
            request.extend_from_slice(&buffer[..read]);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        request
    });
    (url, request)
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Returns the text lines of a request.
fn text(request: &[u8]) -> String {
    String::from_utf8_lossy(request).into_owned()
}

#[tokio::test]
async fn openai_request_holds_sound_and_asks_for_word_times() {
    let words = r#"{"text":"go on","words":[{"word":"go","start":0.1,"end":0.4},{"word":"on","start":0.5,"end":0.9}]}"#;
    let (url, request) = once(answer("200 OK", words)).await;
    let key = Some(Zeroizing::new("sk-1".to_owned()));
    let server = RecognizerServer::find(ServerConfig { key, ..config(url, ServerProtocol::OpenAi) }).await.unwrap();
    assert_eq!(server.transcribe(&SOUND).await.unwrap().text(), "go on");
    let request = request.await.unwrap();
    let request_text = text(&request);
    assert!(request_text.starts_with("POST /v1/audio/transcriptions HTTP/1.1\r\n"), "{request_text}");
    assert!(request_text.to_lowercase().contains("authorization: bearer sk-1\r\n"), "{request_text}");
    for (field, value) in [
        ("model", "whisper-1"),
        ("response_format", "verbose_json"),
        ("timestamp_granularities[]", "word"),
        ("language", "en"),
    ] {
        assert!(
            request_text.contains(&format!("name=\"{field}\"\r\n\r\n{value}\r\n")),
            "{field} is not there: {request_text}"
        );
    }
    let wav = wav::write(&SOUND);
    assert!(request.windows(wav.len()).any(|window| window == wav), "the sound is there as it is");
    assert!(!server.name().contains("127.0.0.1"), "reports name no address");
}

#[tokio::test]
async fn whisper_cpp_request_uses_its_own_path() {
    let (url, request) = once(answer("200 OK", r#"{"text":"","segments":[]}"#)).await;
    let server = RecognizerServer::find(config(format!("{url}/below/"), ServerProtocol::WhisperCpp)).await.unwrap();
    assert_eq!(server.transcribe(&[0.0; 1_600]).await.unwrap(), Recognition::default());
    let request_text = text(&request.await.unwrap());
    assert!(
        request_text.starts_with("POST /below/inference HTTP/1.1\r\n") && !request_text.contains("name=\"model\""),
        "{request_text}"
    );
}

#[tokio::test]
async fn refusals_name_a_remedy_and_repeat_no_answer() {
    for (status, remedy) in [
        ("401 Unauthorized", "`key`"),
        ("404 Not Found", "`protocol`"),
        ("422 Unprocessable Entity", "`model`"),
        ("429 Too Many Requests", "`requests`"),
        ("307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/", "not followed"),
        ("500 Internal Server Error", "its own log"),
    ] {
        let (url, _asked) = once(answer(status, "the secret")).await;
        let server = RecognizerServer::find(config(url, ServerProtocol::OpenAi)).await.unwrap();
        let refused = server.transcribe(&[0.0; 1_600]).await.unwrap_err();
        assert!(refused.to_string().contains(remedy), "{refused}");
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }
}

#[tokio::test]
async fn absent_verbose_or_silent_server_is_an_error() {
    let hear = async |url: String| {
        let server =
            RecognizerServer::find(ServerConfig { seconds: 1, ..config(url, ServerProtocol::OpenAi) }).await.unwrap();
        server.transcribe(&[0.0; 1_600]).await.unwrap_err().to_string()
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
async fn settings_out_of_range_are_refused_by_field() {
    let usual = config("http://127.0.0.1:1".to_owned(), ServerProtocol::OpenAi);
    for (wrong, field) in [
        (ServerConfig { seconds: 0, ..usual.clone() }, "seconds: 0: choose between 1 and 600"),
        (ServerConfig { requests: 257, ..usual.clone() }, "requests: 257: choose between 1 and 256"),
        (ServerConfig { model: Some(String::new()), ..usual.clone() }, "model: "),
        (ServerConfig { language: Some("e n".to_owned()), ..usual.clone() }, "language: "),
        (ServerConfig { key: Some(Zeroizing::new("a\r\nb".to_owned())), ..usual.clone() }, "key: "),
        (ServerConfig { url: "https://192.0.2.1".to_owned(), ..usual.clone() }, "url: it leads outside"),
        (ServerConfig { url: "ws://127.0.0.1:1".to_owned(), ..usual.clone() }, "url: not an address"),
        (
            ServerConfig { url: "wss://192.0.2.1".to_owned(), protocol: ServerProtocol::Vosk, ..usual.clone() },
            "url: it leads outside",
        ),
        (
            ServerConfig { url: "ws://10.0.0.7".to_owned(), protocol: ServerProtocol::Vosk, ..usual.clone() },
            "url: plain",
        ),
        (
            ServerConfig { protocol: ServerProtocol::Vosk, model: Some("small".to_owned()), ..usual },
            "model: vosk-server has",
        ),
    ] {
        let refused = RecognizerServer::find(wrong).await.err().unwrap().to_string();
        assert!(refused.starts_with(field), "{refused}");
    }
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and flite; passes without either.
#[tokio::test]
async fn real_server_transcribes_over_both_protocols() {
    let Some(command) = fixture::aligner() else { return };
    let Some(sentence) = synthesize_text("the patient will visit the hospital") else { return };
    let mut program = tokio::process::Command::new(command)
        .args(["-I", "-c", SERVER])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let port = lines.next_line().await.unwrap().expect("it says its port");
    for protocol in [ServerProtocol::OpenAi, ServerProtocol::WhisperCpp] {
        let server = RecognizerServer::find(config(format!("http://127.0.0.1:{port}"), protocol)).await.unwrap();
        let (recognition, again) = tokio::join!(server.transcribe(&sentence), server.transcribe(&sentence));
        let recognition = recognition.unwrap();
        assert_eq!(recognition.text(), "the patient will visit the hospital", "{protocol:?}");
        assert!(recognition.words[5].start > 0.5 && recognition.words[5].end < 5.0, "{recognition:?}");
        assert_eq!(again.unwrap(), recognition);
    }
    program.kill().await.unwrap();
}
