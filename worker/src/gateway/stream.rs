//! Vectors and files in pieces: a header that says what comes, then data, checked against the header's digest.

use sha2::{Digest, Sha256};
use tokio_stream::Stream;
use tonic::Streaming;
use undertone_proto::{CHUNK, v1};

use super::GatewayError;
use crate::run::Average;

/// Most bytes that are taken from the server in one answer: 1 GiB.
const MOST: u64 = 1 << 30;

/// A vector on its way out.
pub(super) fn submit(header: v1::SubmitHeader, bytes: Vec<u8>) -> impl Stream<Item = v1::SubmitChunk> {
    use v1::submit_chunk::Part;
    pieces(Part::Header(header), bytes, Part::Data, |part| v1::SubmitChunk { part: Some(part) })
}

/// A file on its way out.
pub(super) fn put(header: v1::PutArtifactHeader, bytes: Vec<u8>) -> impl Stream<Item = v1::PutArtifactChunk> {
    use v1::put_artifact_chunk::Part;
    pieces(Part::Header(header), bytes, Part::Data, |part| v1::PutArtifactChunk { part: Some(part) })
}

fn pieces<P, C>(
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

/// A round's average; `None` while the round is open.
pub(super) async fn average(mut chunks: Streaming<v1::AverageChunk>) -> Result<Option<Average>, GatewayError> {
    use v1::average_chunk::Part;
    let Some(Part::Header(header)) = chunks.message().await?.and_then(|chunk| chunk.part) else {
        return Err(GatewayError::Protocol("an average without a header".to_owned()));
    };
    if !header.ready {
        return Ok(None);
    }
    let mut intake = Intake::new(header.length.saturating_mul(size_of::<f32>() as u64), header.digest)?;
    while let Some(chunk) = chunks.message().await? {
        match chunk.part {
            Some(Part::Data(data)) => intake.take(&data)?,
            _ => return Err(GatewayError::Protocol("a second header".to_owned())),
        }
    }
    let (numbers, _) = intake.finish()?;
    let (numbers, _) = numbers.as_chunks::<4>();
    let mean = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    Ok(Some(Average { mean, contributors: header.contributors }))
}

/// A file; `None` while it is not there.
pub(super) async fn get(mut chunks: Streaming<v1::GetArtifactChunk>) -> Result<Option<Vec<u8>>, GatewayError> {
    use v1::get_artifact_chunk::Part;
    let Some(Part::Header(header)) = chunks.message().await?.and_then(|chunk| chunk.part) else {
        return Err(GatewayError::Protocol("a file without a header".to_owned()));
    };
    if !header.ready {
        return Ok(None);
    }
    let mut intake = Intake::new(header.size, header.digest)?;
    while let Some(chunk) = chunks.message().await? {
        match chunk.part {
            Some(Part::Data(data)) => intake.take(&data)?,
            _ => return Err(GatewayError::Protocol("a second header".to_owned())),
        }
    }
    Ok(Some(intake.finish()?.0))
}

/// Bytes on their way in: never more than was announced, and believed only when their digest is the announced one.
struct Intake {
    bytes: Vec<u8>,
    expected: u64,
    digest: String,
}

impl Intake {
    fn new(expected: u64, digest: String) -> Result<Self, GatewayError> {
        if expected > MOST {
            return Err(GatewayError::Protocol(format!("{expected} bytes are announced, {MOST} are the most")));
        }
        Ok(Self { bytes: Vec::new(), expected, digest })
    }

    fn take(&mut self, data: &[u8]) -> Result<(), GatewayError> {
        if (self.bytes.len() + data.len()) as u64 > self.expected {
            return Err(GatewayError::Protocol("more bytes than announced".to_owned()));
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn finish(self) -> Result<(Vec<u8>, String), GatewayError> {
        let found = hex::encode(Sha256::digest(&self.bytes));
        if self.bytes.len() as u64 != self.expected {
            // A stream that was cut arrives as its end: ask again.
            return Err(GatewayError::Unreachable("fewer bytes than announced".to_owned()));
        }
        if !found.eq_ignore_ascii_case(&self.digest) {
            return Err(GatewayError::Protocol("the bytes are not those of the announced digest".to_owned()));
        }
        Ok((self.bytes, found))
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};
    use tokio_stream::StreamExt;
    use undertone_proto::{CHUNK, v1};

    use super::{Intake, submit};

    #[tokio::test]
    async fn a_vector_travels_in_pieces_that_join_to_it() {
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
    fn bytes_are_believed_only_by_their_digest_and_length() {
        let digest = hex::encode(Sha256::digest([1, 2, 3]));
        let taken = |bytes: &[u8]| {
            let mut intake = Intake::new(3, digest.clone()).expect("it is small");
            intake.take(bytes).and_then(|()| intake.finish().map(|(bytes, _)| bytes))
        };
        assert_eq!(taken(&[1, 2, 3]).expect("it is what was announced"), [1, 2, 3]);
        assert!(taken(&[1, 2, 4]).is_err_and(|error| !error.is_transient()));
        assert!(taken(&[1, 2]).is_err_and(|error| error.is_transient()));
        assert!(taken(&[1, 2, 3, 4]).is_err());
        assert!(Intake::new(u64::MAX, digest.clone()).is_err());
    }
}
