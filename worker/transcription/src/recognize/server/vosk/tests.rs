#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Bytes;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use zeroize::Zeroizing;

use super::super::{RecognizerServer, ServerConfig, ServerProtocol};
use super::*;
use crate::recognize::SpeechRecognizer as _;
use crate::recognize::pocketsphinx::PocketSphinx;
use undertone_worker_site::testing::fixture;
use undertone_worker_speech::synthesize::synthesize_text;

type Socket = WebSocketStream<TcpStream>;

/// One second of sound, sent in four messages.
static SOUND: [f32; 16_000] = [0.25; 16_000];
const PARTIAL: &str = "{\n  \"partial\" : \"\"\n}";
const LAST: &str = r#"{"result" : [{"conf" : 0.5, "end" : 0.9, "start" : 0.6, "word" : "on"}], "text" : "on"}"#;

/// A request as the test server received it.
#[derive(Default)]
struct ServedRequest {
    head: String,
    config: Value,
    sound: Vec<u8>,
    pieces: usize,
}

/// Accepts one connection and runs `talk` on it.
async fn once<F, T>(talk: F) -> (String, JoinHandle<T::Output>)
where
    F: FnOnce(Socket, ServedRequest) -> T + Send + 'static,
    T: Future<Output: Send + 'static> + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let talked = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut request = ServedRequest::default();
        let head = &mut request.head;
        let see = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
            let key = request.headers().get("authorization").map_or("", |key| key.to_str().unwrap());
            *head = format!("{} {key}", request.uri().path());
            Ok(response)
        };
        let socket = accept_hdr_async(stream, see).await.unwrap();
        talk(socket, request).await
    });
    (url, talked)
}

/// Reads as vosk-server does until the sound ends. Answers each message with the next of `answers`, then with partial ones.
async fn listen(socket: &mut Socket, request: &mut ServedRequest, answers: &[&str]) {
    while let Some(message) = socket.next().await {
        match message.unwrap() {
            Message::Text(text) if text.as_str() == r#"{"eof" : 1}"# => return,
            Message::Text(text) => request.config = serde_json::from_str(text.as_str()).unwrap(),
            Message::Binary(piece) => {
                let answer = answers.get(request.pieces).copied().unwrap_or(PARTIAL);
                request.sound.extend_from_slice(&piece);
                request.pieces += 1;
                socket.send(Message::text(answer)).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("the sound does not end");
}

/// Answers the end of the sound with `last`, and waits until the client disconnects.
async fn talk_to_the_end(mut socket: Socket, mut request: ServedRequest, last: Vec<Message>) {
    listen(&mut socket, &mut request, &[]).await;
    for message in last {
        // A client that refuses a message does not read the next.
        if socket.send(message).await.is_err() {
            return;
        }
    }
    while let Some(Ok(_)) = socket.next().await {}
}

async fn server(url: String, seconds: u32) -> RecognizerServer {
    let config = ServerConfig {
        url,
        protocol: ServerProtocol::Vosk,
        model: None,
        language: Some("en".to_owned()),
        key: Some(Zeroizing::new("sk-1".to_owned())),
        seconds,
        requests: 2,
    };
    RecognizerServer::find(config).await.unwrap()
}

async fn transcribe_refused(url: String) -> RecognizerError {
    server(url, 30).await.transcribe(&SOUND).await.unwrap_err()
}

#[tokio::test]
async fn words_around_a_pause_are_joined_and_only_sound_is_sent() {
    let pause = r#"{"result" : [{"conf" : 0.875, "end" : 0.4, "start" : 0.1, "word" : "go"}], "text" : "go"}"#;
    let (url, talked) = once(move |mut socket, mut request| async move {
        listen(&mut socket, &mut request, &[PARTIAL, PARTIAL, pause]).await;
        socket.send(Message::text(LAST)).await.unwrap();
        socket.close(None).await.unwrap();
        request
    })
    .await;
    let server = server(format!("{url}/asr"), 30).await;
    let recognition = server.transcribe(&SOUND).await.unwrap();
    assert_eq!(recognition.text(), "go on");
    let words: Vec<_> = recognition.words.iter().map(|word| (word.start, word.end, word.confidence)).collect();
    assert_eq!(words, [(0.1, 0.4, Some(0.875)), (0.6, 0.9, Some(0.5))]);
    let request = talked.await.unwrap();
    assert_eq!(request.head, "/asr Bearer sk-1");
    assert_eq!(request.config, json!({ "config": { "sample_rate": 16_000, "words": 1, "max_alternatives": 0 } }));
    assert!(request.sound == wav::write(&SOUND)[wav::HEADER..], "the samples are there as they are, without a header");
    assert_eq!(request.pieces, 4);
    assert!(!server.name().contains("127.0.0.1"), "reports name no address");
}

/// Behaves as the server in C++: it treats the configuration as sound, and leaves closing to the client.
#[tokio::test]
async fn server_one_answer_behind_is_read_to_the_end() {
    let (url, talked) = once(|mut socket, _| async move {
        loop {
            match socket.next().await.unwrap().unwrap() {
                Message::Text(text) if text.as_str() == r#"{"eof" : 1}"# => {
                    socket.send(Message::binary(LAST)).await.unwrap();
                }
                Message::Text(_) | Message::Binary(_) => socket.send(Message::binary(PARTIAL)).await.unwrap(),
                Message::Close(_) => return,
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert_eq!(server(url, 30).await.transcribe(&SOUND).await.unwrap().text(), "on");
    talked.await.unwrap();
}

#[tokio::test]
async fn failed_websocket_handshake_names_a_remedy() {
    let proofless =
        "101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: c2VjcmV0";
    for (status, remedy) in [
        ("401 Unauthorized", "`key`"),
        ("200 OK", "`protocol`"),
        ("426 Upgrade Required", "`protocol`"),
        (proofless, "`protocol`"),
        ("503 Service Unavailable", "`requests`"),
    ] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let request = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut request, mut buffer) = (Vec::new(), [0; 4_096]);
            while !request.ends_with(b"\r\n\r\n") {
                let read = stream.read(&mut buffer).await.unwrap();
                assert!(read > 0, "the request ends");
                request.extend_from_slice(&buffer[..read]);
            }
            stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let refused = transcribe_refused(url).await;
        assert!(matches!(&refused, RecognizerError::Status { .. }), "{refused}");
        assert!(refused.to_string().contains(remedy), "{refused}");
        request.await.unwrap();
    }
}

#[tokio::test]
async fn server_that_closes_early_fails_one_piece() {
    let (politely, _talked) = once(|mut socket, _| async move {
        socket.next().await.unwrap().unwrap();
        socket.close(None).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    let (suddenly, _talked) = once(|mut socket, _| async move {
        socket.next().await.unwrap().unwrap();
    })
    .await;
    for url in [politely, suddenly] {
        let refused = transcribe_refused(url).await;
        assert!(matches!(&refused, RecognizerError::Failed(_)), "{refused}");
        assert!(refused.to_string().contains("closed the connection before it had answered"), "{refused}");
    }
}

#[tokio::test]
async fn impossible_answers_are_refused_and_not_repeated() {
    let late = r#"{"result" : [{"conf" : 1, "end" : 31, "start" : 30, "word" : "secret"}], "text" : "secret"}"#;
    for (answer, expected) in [
        ("secret", "`protocol`"),
        (r#"{"error" : "the secret"}"#, "`protocol`"),
        (r#"{"text" : "the secret"}"#, "no times"),
        (late, "not within the audio"),
    ] {
        let (url, _talked) =
            once(move |socket, request| talk_to_the_end(socket, request, vec![Message::text(answer)])).await;
        let refused = transcribe_refused(url).await;
        assert!(matches!(&refused, RecognizerError::Failed(_)), "{refused}");
        assert!(refused.to_string().contains(expected), "{refused}");
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }
}

#[tokio::test]
async fn message_size_total_size_and_count_are_bounded() {
    let large = |bytes: usize| Message::text(format!("{{\"partial\":\"{}\"}}", "a".repeat(bytes - 14)));
    for (messages, expected) in [
        (vec![large(MESSAGE + 1)], "larger than 1048576 bytes"),
        (vec![large(MESSAGE); 5], "larger than 4194304 bytes"),
        (vec![Message::text(PARTIAL); MESSAGES], "more than 1000 messages"),
        (vec![Message::Ping(Bytes::new()); MESSAGES], "more than 1000 messages"),
    ] {
        let (url, _talked) = once(move |socket, request| talk_to_the_end(socket, request, messages)).await;
        let refused = transcribe_refused(url).await.to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    let most = vec![large(MESSAGE), Message::Ping(Bytes::new()), Message::text(LAST)];
    let (url, _talked) = once(move |socket, request| talk_to_the_end(socket, request, most)).await;
    assert_eq!(server(url, 30).await.transcribe(&SOUND).await.unwrap().text(), "on", "what is at the limits is heard");
}

#[tokio::test]
async fn server_that_never_ends_times_out() {
    let (url, _talked) = once(|socket, request| talk_to_the_end(socket, request, Vec::new())).await;
    let start = std::time::Instant::now();
    let refused = server(url, 1).await.transcribe(&SOUND).await.unwrap_err();
    assert!(refused.to_string().contains("no whole answer in time"), "{refused}");
    assert!(start.elapsed() >= Duration::from_millis(900), "not before its second is over");
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and flite; passes without either.
#[tokio::test]
async fn websocket_answers_equal_direct_recognition() {
    let Some(command) = fixture::aligner() else { return };
    let Some(sentence) = synthesize_text("the patient will visit the hospital") else { return };
    let recognizer = PocketSphinx::new(command).start(1).unwrap();
    let served_recognizer = recognizer.clone();
    let (url, talked) = once(move |mut socket, mut request| async move {
        listen(&mut socket, &mut request, &[]).await;
        let sample = |pair: &[u8]| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32_768.0;
        let recognition =
            served_recognizer.transcribe(&request.sound.chunks(2).map(sample).collect::<Vec<f32>>()).await.unwrap();
        let words: Vec<Value> = recognition
            .words
            .iter()
            .map(|word| json!({ "conf": word.confidence, "end": word.end, "start": word.start, "word": word.text }))
            .collect();
        let answer = json!({ "result": words, "text": recognition.text() });
        socket.send(Message::text(answer.to_string())).await.unwrap();
        socket.close(None).await.unwrap();
    })
    .await;
    let recognition = server(url, 60).await.transcribe(&sentence).await.unwrap();
    talked.await.unwrap();
    assert_eq!(recognition.text(), "the patient will visit the hospital");
    assert_eq!(recognition, recognizer.transcribe(&sentence).await.unwrap());
}
