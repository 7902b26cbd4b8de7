//! A voice converter that is a server: a piece as WAV by POST, the same in the target voice as the answer.
//!
//! It hears true voices before anything is charged, so it must be the site's own: on this machine or in a private network.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;

use super::{MOST_BYTES, OneVoice, VoiceError, fitted};
use crate::speech::transcribe::inside::Inside;
use crate::speech::transcribe::wav;
use crate::speech::transcribe::web::{self, WebError};

/// A server with its address.
#[derive(Debug)]
pub struct Remote {
    place: Inside,
    http: reqwest::Client,
}

impl Remote {
    /// The server at `url`, with `limit` for a piece.
    ///
    /// # Errors
    /// [`VoiceError`] when that is no address, or not of the site's own network.
    pub fn new(url: &str, limit: Duration) -> Result<Self, VoiceError> {
        let place = Inside::find(url)?;
        let http = place.client(limit)?;
        Ok(Self { place, http })
    }
}

impl OneVoice for Remote {
    fn name(&self) -> String {
        format!("converter at {}", self.place.address())
    }

    fn convert(&self, samples: &[f32]) -> Result<Vec<f32>, VoiceError> {
        // A runtime for one answer: whoever calls this waits anyway, on a thread that may.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(WebError::Runtime)?;
        let answer = runtime.block_on(async {
            let request = self.http.post(self.place.address().url()).header(CONTENT_TYPE, "audio/wav");
            let response = request.body(wav::write(samples)).send().await.map_err(WebError::from)?;
            if !response.status().is_success() {
                return Err(VoiceError::Refused(response.status().as_u16()));
            }
            Ok(web::body(response, MOST_BYTES).await?)
        })?;
        fitted(wav::read(&answer)?, samples.len())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use super::{OneVoice as _, Remote, VoiceError};
    use crate::speech::transcribe::web::AddressError;

    /// A converter that answers one request with its own body, under this status.
    fn echo(status: &'static str) -> (String, thread::JoinHandle<String>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}/convert", listener.local_addr().unwrap());
        let served = thread::spawn(move || {
            let (mut line, _) = listener.accept().unwrap();
            let (mut request, mut buffer) = (Vec::new(), [0; 4_096]);
            let end = loop {
                let read = line.read(&mut buffer).unwrap();
                request.extend(&buffer[..read]);
                if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
                    break end + 4;
                }
            };
            let head = String::from_utf8(request[..end].to_vec()).unwrap().to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let length: usize = length.parse().unwrap();
            while request.len() < end + length {
                let read = line.read(&mut buffer).unwrap();
                request.extend(&buffer[..read]);
            }
            write!(line, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n").unwrap();
            line.write_all(&request[end..]).unwrap();
            head
        });
        (url, served)
    }

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn a_server_converts_what_it_is_sent_and_learns_nothing_beside_it() {
        let (url, served) = echo("200 OK");
        let sound: Vec<f32> = (0..8_000).map(|n| (n as f32 * 0.05).sin() * 0.5).collect();
        let same = Remote::new(&url, LIMIT).unwrap().convert(&sound).unwrap();
        assert!(same.len() == sound.len() && same.iter().zip(&sound).all(|(one, other)| (one - other).abs() < 1e-4));
        let head = served.join().unwrap();
        assert!(head.starts_with("post /convert http/1.1") && !head.contains("user-agent") && !head.contains("cookie"));
    }

    #[test]
    fn a_server_that_refuses_is_no_converter() {
        let (url, served) = echo("503 Service Unavailable");
        assert!(matches!(Remote::new(&url, LIMIT).unwrap().convert(&[0.1; 100]), Err(VoiceError::Refused(503))));
        served.join().unwrap();
    }

    #[test]
    fn a_server_that_is_not_the_sites_own_hears_nobody() {
        for (url, expected) in
            [("http://converter.example/", AddressError::Plain), ("https://192.0.2.7/convert", AddressError::Outside)]
        {
            assert!(matches!(Remote::new(url, LIMIT), Err(VoiceError::Address(error)) if error == expected), "{url}");
        }
    }
}
