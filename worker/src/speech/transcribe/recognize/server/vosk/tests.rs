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

use super::super::{Config, Protocol, Server};
use super::*;
use crate::speech::fixture;
use crate::speech::synthesize::spoken;
use crate::speech::transcribe::recognize::Recognizer as _;
use crate::speech::transcribe::recognize::pocketsphinx::PocketSphinx;

type Socket = WebSocketStream<TcpStream>;

/// A second of sound, sent in four pieces.
static SOUND: [f32; 16_000] = [0.25; 16_000];
const PARTIAL: &str = "{\n  \"partial\" : \"\"\n}";
const LAST: &str = r#"{"result" : [{"conf" : 0.5, "end" : 0.9, "start" : 0.6, "word" : "on"}], "text" : "on"}"#;

/// What a server was asked.
#[derive(Default)]
struct Asked {
    head: String,
    config: Value,
    sound: Vec<u8>,
    pieces: usize,
}

/// Takes one connection and talks over it.
async fn once<F, T>(talk: F) -> (String, JoinHandle<T::Output>)
where
    F: FnOnce(Socket, Asked) -> T + Send + 'static,
    T: Future<Output: Send + 'static> + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let talked = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut asked = Asked::default();
        let head = &mut asked.head;
        let see = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
            let key = request.headers().get("authorization").map_or("", |key| key.to_str().unwrap());
            *head = format!("{} {key}", request.uri().path());
            Ok(response)
        };
        let socket = accept_hdr_async(stream, see).await.unwrap();
        talk(socket, asked).await
    });
    (url, talked)
}

/// Reads as vosk-server does until the sound ends; pieces are answered with `answers` in turn, and then with partial ones.
async fn listen(socket: &mut Socket, asked: &mut Asked, answers: &[&str]) {
    while let Some(message) = socket.next().await {
        match message.unwrap() {
            Message::Text(text) if text.as_str() == r#"{"eof" : 1}"# => return,
            Message::Text(text) => asked.config = serde_json::from_str(text.as_str()).unwrap(),
            Message::Binary(piece) => {
                let answer = answers.get(asked.pieces).copied().unwrap_or(PARTIAL);
                asked.sound.extend_from_slice(&piece);
                asked.pieces += 1;
                socket.send(Message::text(answer)).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("the sound does not end");
}

/// Answers the end of the sound with `last`, and waits until the other side is gone.
async fn talk_to_the_end(mut socket: Socket, mut asked: Asked, last: Vec<Message>) {
    listen(&mut socket, &mut asked, &[]).await;
    for message in last {
        // Who refuses a message does not wait for the next.
        if socket.send(message).await.is_err() {
            return;
        }
    }
    while let Some(Ok(_)) = socket.next().await {}
}

async fn server(url: String, seconds: u32) -> Server {
    let config = Config {
        url,
        protocol: Protocol::Vosk,
        model: None,
        language: Some("en".to_owned()),
        key: Some(Zeroizing::new("sk-1".to_owned())),
        seconds,
        requests: 2,
    };
    Server::find(config).await.unwrap()
}

async fn refusal(url: String) -> RecognizerError {
    server(url, 30).await.hear(&SOUND).await.unwrap_err()
}

#[tokio::test]
async fn words_before_and_after_a_pause_are_one_answer_and_nothing_but_sound_is_sent() {
    let pause = r#"{"result" : [{"conf" : 0.875, "end" : 0.4, "start" : 0.1, "word" : "go"}], "text" : "go"}"#;
    let (url, talked) = once(move |mut socket, mut asked| async move {
        listen(&mut socket, &mut asked, &[PARTIAL, PARTIAL, pause]).await;
        socket.send(Message::text(LAST)).await.unwrap();
        socket.close(None).await.unwrap();
        asked
    })
    .await;
    let server = server(format!("{url}/asr"), 30).await;
    let heard = server.hear(&SOUND).await.unwrap();
    assert_eq!(heard.text(), "go on");
    let words: Vec<_> = heard.words.iter().map(|word| (word.start, word.end, word.confidence)).collect();
    assert_eq!(words, [(0.1, 0.4, Some(0.875)), (0.6, 0.9, Some(0.5))]);
    let asked = talked.await.unwrap();
    assert_eq!(asked.head, "/asr Bearer sk-1");
    assert_eq!(asked.config, json!({ "config": { "sample_rate": 16_000, "words": 1, "max_alternatives": 0 } }));
    assert!(asked.sound == wav::write(&SOUND)[wav::HEADER..], "the samples are there as they are, without a header");
    assert_eq!(asked.pieces, 4);
    assert!(!server.name().contains("127.0.0.1"), "reports name no address");
}

/// As the server in C++ does: it takes the configuration for sound, and leaves the farewell to us.
#[tokio::test]
async fn a_server_that_is_one_answer_behind_is_heard_out() {
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
    assert_eq!(server(url, 30).await.hear(&SOUND).await.unwrap().text(), "on");
    talked.await.unwrap();
}

#[tokio::test]
async fn who_does_not_open_a_websocket_is_refused_with_what_to_do() {
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
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut asked, mut buffer) = (Vec::new(), [0; 4_096]);
            while !asked.ends_with(b"\r\n\r\n") {
                let read = stream.read(&mut buffer).await.unwrap();
                assert!(read > 0, "the request ends");
                asked.extend_from_slice(&buffer[..read]);
            }
            stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let refused = refusal(url).await;
        assert!(matches!(&refused, RecognizerError::Status { .. }), "{refused}");
        assert!(refused.to_string().contains(remedy), "{refused}");
        asked.await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_closes_early_costs_one_piece() {
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
        let refused = refusal(url).await;
        assert!(matches!(&refused, RecognizerError::Failed(_)), "{refused}");
        assert!(refused.to_string().contains("closed the connection before it had answered"), "{refused}");
    }
}

#[tokio::test]
async fn answers_that_cannot_be_are_refused_and_not_repeated() {
    let late = r#"{"result" : [{"conf" : 1, "end" : 31, "start" : 30, "word" : "secret"}], "text" : "secret"}"#;
    for (answer, expected) in [
        ("secret", "`protocol`"),
        (r#"{"error" : "the secret"}"#, "`protocol`"),
        (r#"{"text" : "the secret"}"#, "no times"),
        (late, "not within the audio"),
    ] {
        let (url, _talked) =
            once(move |socket, asked| talk_to_the_end(socket, asked, vec![Message::text(answer)])).await;
        let refused = refusal(url).await;
        assert!(matches!(&refused, RecognizerError::Failed(_)), "{refused}");
        assert!(refused.to_string().contains(expected), "{refused}");
        assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
    }
}

#[tokio::test]
async fn an_answer_has_a_largest_message_a_largest_sum_and_a_most_messages() {
    let large = |bytes: usize| Message::text(format!("{{\"partial\":\"{}\"}}", "a".repeat(bytes - 14)));
    for (messages, expected) in [
        (vec![large(MESSAGE + 1)], "larger than 1048576 bytes"),
        (vec![large(MESSAGE); 5], "larger than 4194304 bytes"),
        (vec![Message::text(PARTIAL); MESSAGES], "more than 1000 messages"),
        (vec![Message::Ping(Bytes::new()); MESSAGES], "more than 1000 messages"),
    ] {
        let (url, _talked) = once(move |socket, asked| talk_to_the_end(socket, asked, messages)).await;
        let refused = refusal(url).await.to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    let most = vec![large(MESSAGE), Message::Ping(Bytes::new()), Message::text(LAST)];
    let (url, _talked) = once(move |socket, asked| talk_to_the_end(socket, asked, most)).await;
    assert_eq!(server(url, 30).await.hear(&SOUND).await.unwrap().text(), "on", "what is at the limits is heard");
}

#[tokio::test]
async fn a_server_that_never_ends_is_given_up() {
    let (url, _talked) = once(|socket, asked| talk_to_the_end(socket, asked, Vec::new())).await;
    let begun = std::time::Instant::now();
    let refused = server(url, 1).await.hear(&SOUND).await.unwrap_err();
    assert!(refused.to_string().contains("no whole answer in time"), "{refused}");
    assert!(begun.elapsed() >= Duration::from_millis(900), "not before its second is over");
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`) and flite; passes without either.
#[tokio::test]
async fn a_real_recognizer_hears_over_a_websocket_what_it_hears_beside_us() {
    let Some(command) = fixture::aligner() else { return };
    let Some(sentence) = spoken("the patient will visit the hospital") else { return };
    let ears = PocketSphinx::new(command).start(1).unwrap();
    let behind = ears.clone();
    let (url, talked) = once(move |mut socket, mut asked| async move {
        listen(&mut socket, &mut asked, &[]).await;
        let sample = |pair: &[u8]| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32_768.0;
        let heard = behind.hear(&asked.sound.chunks(2).map(sample).collect::<Vec<f32>>()).await.unwrap();
        let words: Vec<Value> = heard
            .words
            .iter()
            .map(|word| json!({ "conf": word.confidence, "end": word.end, "start": word.start, "word": word.text }))
            .collect();
        let answer = json!({ "result": words, "text": heard.text() });
        socket.send(Message::text(answer.to_string())).await.unwrap();
        socket.close(None).await.unwrap();
    })
    .await;
    let heard = server(url, 60).await.hear(&sentence).await.unwrap();
    talked.await.unwrap();
    assert_eq!(heard.text(), "the patient will visit the hospital");
    assert_eq!(heard, ears.hear(&sentence).await.unwrap());
}
