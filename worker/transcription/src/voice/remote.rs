//! A voice converter that is a server: it receives a piece as WAV by POST and answers with the piece in the target voice.
//!
//! It receives true voices before anything is charged, so it must be the site's own: on this machine or in a private network.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;

use super::{MOST_BYTES, OneVoice, VoiceError, fit_length};
use crate::private_host::PrivateHost;
use crate::wav;
use crate::web::{self, WebError};

/// A server with its address.
#[derive(Debug)]
pub struct RemoteConverter {
    place: PrivateHost,
    http: reqwest::Client,
}

impl RemoteConverter {
    /// Creates a converter for the server at `url`, with `limit` for each piece.
    ///
    /// # Errors
    /// [`VoiceError`] when the address is invalid, or outside the site's own network.
    pub fn new(url: &str, limit: Duration) -> Result<Self, VoiceError> {
        let place = PrivateHost::find(url)?;
        let http = place.client(limit)?;
        Ok(Self { place, http })
    }
}

impl OneVoice for RemoteConverter {
    fn name(&self) -> String {
        format!("converter at {}", self.place.address())
    }

    fn convert(&self, samples: &[f32]) -> Result<Vec<f32>, VoiceError> {
        // A runtime for one answer: the caller blocks anyway, on a thread outside the runtime.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(WebError::Runtime)?;
        let answer = runtime.block_on(async {
            let request = self.http.post(self.place.address().url()).header(CONTENT_TYPE, "audio/wav");
            let response = request.body(wav::write(samples)).send().await.map_err(WebError::from)?;
            if !response.status().is_success() {
                return Err(VoiceError::Refused(response.status().as_u16()));
            }
            Ok(web::body(response, MOST_BYTES).await?)
        })?;
        fit_length(wav::read(&answer)?, samples.len())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    use super::{OneVoice as _, RemoteConverter, VoiceError};
    use crate::web::AddressError;

    /// Serves one request, with its own body as the answer, under this status.
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
    fn server_receives_the_sound_and_nothing_else() {
        let (url, served) = echo("200 OK");
        let sound: Vec<f32> = (0..8_000).map(|n| (n as f32 * 0.05).sin() * 0.5).collect();
        let same = RemoteConverter::new(&url, LIMIT).unwrap().convert(&sound).unwrap();
        assert!(same.len() == sound.len() && same.iter().zip(&sound).all(|(one, other)| (one - other).abs() < 1e-4));
        let head = served.join().unwrap();
        assert!(head.starts_with("post /convert http/1.1") && !head.contains("user-agent") && !head.contains("cookie"));
    }

    #[test]
    fn refusing_server_is_an_error() {
        let (url, served) = echo("503 Service Unavailable");
        assert!(matches!(
            RemoteConverter::new(&url, LIMIT).unwrap().convert(&[0.1; 100]),
            Err(VoiceError::Refused(503))
        ));
        served.join().unwrap();
    }

    #[test]
    fn server_outside_the_site_is_refused() {
        for (url, expected) in
            [("http://converter.example/", AddressError::Plain), ("https://192.0.2.7/convert", AddressError::Outside)]
        {
            assert!(
                matches!(RemoteConverter::new(url, LIMIT), Err(VoiceError::Address(error)) if error == expected),
                "{url}"
            );
        }
    }
}
