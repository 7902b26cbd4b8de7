//! Vectors, pools and files in chunks: a header that announces the content, then data, checked against the header's
//! digest.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use tokio_stream::Stream;
use tonic::Streaming;
use undertone_api::job::dp_sgd::Precision;
use undertone_proto::vector::{VectorError, VectorForm, read};
use undertone_proto::{CHUNK, v1};

use super::GatewayError;
use crate::run::RoundAverage;

/// The highest number of accepted bytes in one answer of the server: 1 GiB.
pub(crate) const MOST: u64 = 1 << 30;

/// Returns the chunks of an outgoing vector.
pub(super) fn submit(header: v1::SubmitHeader, bytes: Vec<u8>) -> impl Stream<Item = v1::SubmitChunk> {
    use v1::submit_chunk::Part;
    split_chunks(Part::Header(header), bytes, Part::Data, |part| v1::SubmitChunk { part: Some(part) })
}

/// Returns the chunks of an outgoing pool of questions.
pub(super) fn ask(header: v1::AskHeader, bytes: Vec<u8>) -> impl Stream<Item = v1::AskChunk> {
    use v1::ask_chunk::Part;
    split_chunks(Part::Header(header), bytes, Part::Data, |part| v1::AskChunk { part: Some(part) })
}

/// Returns the chunks of an outgoing file.
pub(super) fn put(header: v1::PutArtifactHeader, bytes: Vec<u8>) -> impl Stream<Item = v1::PutArtifactChunk> {
    use v1::put_artifact_chunk::Part;
    split_chunks(Part::Header(header), bytes, Part::Data, |part| v1::PutArtifactChunk { part: Some(part) })
}

fn split_chunks<P, C>(
    header: P,
    bytes: Vec<u8>,
    data: impl Fn(Vec<u8>) -> P + Send + 'static,
    chunk: impl Fn(P) -> C + Send + 'static,
) -> impl Stream<Item = C> {
    let count = bytes.len().div_ceil(CHUNK);
    let parts = (0..count).map(move |index| {
        let start = index * CHUNK;
        data(bytes[start..(start + CHUNK).min(bytes.len())].to_vec())
    });
    tokio_stream::iter(std::iter::once(header).chain(parts).map(chunk))
}

/// Reads a round's average; returns `None` while the round is open.
pub(super) async fn read_average(
    mut chunks: Streaming<v1::AverageChunk>,
    precision: Precision,
    download: &Download,
) -> Result<Option<RoundAverage>, GatewayError> {
    use v1::average_chunk::Part;
    let Some(Part::Header(header)) = chunks.message().await?.and_then(|chunk| chunk.part) else {
        return Err(GatewayError::Protocol("an average without a header".to_owned()));
    };
    if !header.ready {
        return Ok(None);
    }
    let vector = |error: VectorError| GatewayError::Protocol(error.to_string());
    let form = VectorForm::new(precision, header.length).map_err(vector)?;
    if header.size > form.bytes() {
        return Err(vector(VectorError::TooLong { found: header.size, most: form.bytes() }));
    }
    let mut intake = download.begin(header.size, &header.digest)?;
    while let Some(chunk) = chunks.message().await? {
        match chunk.part {
            Some(Part::Data(data)) => intake.append(&data)?,
            _ => return Err(GatewayError::Protocol("a second header".to_owned())),
        }
    }
    let mean = read(&intake.finish()?, form).map_err(vector)?;
    Ok(Some(RoundAverage { mean, contributors: header.contributors }))
}

/// Reads a file; returns `None` while it does not exist.
pub(super) async fn read_file(
    mut chunks: Streaming<v1::GetArtifactChunk>,
    download: &Download,
) -> Result<Option<Vec<u8>>, GatewayError> {
    use v1::get_artifact_chunk::Part;
    let Some(Part::Header(header)) = chunks.message().await?.and_then(|chunk| chunk.part) else {
        return Err(GatewayError::Protocol("a file without a header".to_owned()));
    };
    if !header.ready {
        return Ok(None);
    }
    let mut intake = download.begin(header.size, &header.digest)?;
    while let Some(chunk) = chunks.message().await? {
        match chunk.part {
            Some(Part::Data(data)) => intake.append(&data)?,
            _ => return Err(GatewayError::Protocol("a second header".to_owned())),
        }
    }
    intake.finish().map(Some)
}

/// The received part of one vector or file; interrupted attempts leave their bytes here.
#[derive(Debug, Default)]
pub struct Download(Mutex<PartialContent>);

#[derive(Debug, Default)]
struct PartialContent {
    /// The announced SHA-256 of the whole; empty before the first answer.
    digest: String,
    bytes: Vec<u8>,
}

impl Download {
    fn content(&self) -> MutexGuard<'_, PartialContent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the offset of the next request.
    pub fn offset(&self) -> u64 {
        self.content().bytes.len() as u64
    }

    /// Begins an answer with data from the requested offset.
    pub(super) fn begin(&self, size: u64, digest: &str) -> Result<ChunkIntake<'_>, GatewayError> {
        if size > MOST {
            return Err(GatewayError::Protocol(format!(
                "the server announces {size} bytes; at most {MOST} are accepted"
            )));
        }
        let mut content = self.content();
        if content.digest != digest && !content.bytes.is_empty() {
            *content = PartialContent::default();
            let problem = "the content changed during the transfer, which restarts".to_owned();
            return Err(GatewayError::Unreachable(problem));
        }
        digest.clone_into(&mut content.digest);
        Ok(ChunkIntake { download: self, expected: size })
    }
}

/// Incoming bytes: never more than announced, and accepted only if their digest is the announced one.
pub(super) struct ChunkIntake<'a> {
    download: &'a Download,
    expected: u64,
}

impl ChunkIntake<'_> {
    pub(super) fn append(&mut self, data: &[u8]) -> Result<(), GatewayError> {
        let mut content = self.download.content();
        if (content.bytes.len() + data.len()) as u64 > self.expected {
            *content = PartialContent::default();
            return Err(GatewayError::Protocol("more bytes than announced".to_owned()));
        }
        content.bytes.extend_from_slice(data);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Vec<u8>, GatewayError> {
        let (bytes, digest) = self.into_parts()?;
        check_digest(&bytes, &digest)?;
        Ok(bytes)
    }

    /// Returns all bytes, and the digest, which the caller checks.
    pub(super) fn into_parts(self) -> Result<(Vec<u8>, String), GatewayError> {
        let mut content = self.download.content();
        if content.bytes.len() as u64 != self.expected {
            // An interrupted stream arrives as a short one: request the rest.
            return Err(GatewayError::Unreachable("fewer bytes than announced".to_owned()));
        }
        let PartialContent { digest, bytes } = std::mem::take(&mut *content);
        Ok((bytes, digest))
    }
}

/// Checks the bytes against a digest (SHA-256, hex).
pub(super) fn check_digest(bytes: &[u8], digest: &str) -> Result<(), GatewayError> {
    if hex::encode(Sha256::digest(bytes)).eq_ignore_ascii_case(digest) {
        return Ok(());
    }
    Err(GatewayError::Protocol("the bytes do not match the announced digest".to_owned()))
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};
    use tokio_stream::StreamExt;
    use undertone_proto::{CHUNK, v1};

    use super::{Download, MOST, submit};

    #[tokio::test]
    async fn chunks_of_a_vector_join_to_the_vector() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            let bytes: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let chunks: Vec<_> = submit(v1::SubmitHeader::default(), bytes.clone()).collect().await;
            let mut joined = Vec::new();
            for (index, chunk) in chunks.into_iter().enumerate() {
                match chunk.part {
                    Some(v1::submit_chunk::Part::Header(_)) => assert_eq!(index, 0),
                    Some(v1::submit_chunk::Part::Data(data)) => {
                        assert!(index > 0 && data.len() <= CHUNK);
                        joined.extend(data);
                    }
                    None => panic!("every chunk has a part"),
                }
            }
            assert_eq!(joined, bytes);
        }
    }

    #[test]
    fn bytes_with_another_digest_or_length_are_rejected() {
        let digest = hex::encode(Sha256::digest([1, 2, 3]));
        let receive = |bytes: &[u8]| {
            let download = Download::default();
            let mut intake = download.begin(3, &digest).expect("it is small");
            intake.append(bytes).and_then(|()| intake.finish())
        };
        assert_eq!(receive(&[1, 2, 3]).expect("it is what was announced"), [1, 2, 3]);
        assert!(receive(&[1, 2, 4]).is_err_and(|error| !error.is_transient()));
        assert!(receive(&[1, 2]).is_err_and(|error| error.is_transient()));
        assert!(receive(&[1, 2, 3, 4]).is_err());
        assert!(Download::default().begin(MOST, &digest).is_ok());
        assert!(Download::default().begin(MOST + 1, &digest).is_err());
    }

    #[test]
    fn interrupted_download_resumes_only_the_same_content() {
        let digest = hex::encode(Sha256::digest([1, 2, 3]));
        let download = Download::default();
        let mut first = download.begin(3, &digest).expect("it is small");
        first.append(&[1, 2]).expect("less than announced");
        assert!(first.finish().is_err_and(|error| error.is_transient()));
        assert_eq!(download.offset(), 2);
        let mut second = download.begin(3, &digest).expect("the same");
        second.append(&[3]).expect("the rest");
        assert_eq!(second.finish().expect("all of it"), [1, 2, 3]);
        assert_eq!(download.offset(), 0, "the next one begins at its start");

        download.begin(3, &digest).and_then(|mut intake| intake.append(&[9])).expect("less than announced");
        assert!(download.begin(3, &"0".repeat(64)).is_err_and(|error| error.is_transient()));
        assert_eq!(download.offset(), 0);
    }
}
