//! Transfers of vectors and files in both directions; an interrupted transfer resumes at its offset.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use undertone_api::job::dp_sgd::Precision;
use undertone_api::signed::Signed;
use undertone_proto::{CHUNK, v1};

use super::{AcceptedSubmission, CALL, Download, Gateway, GatewayError, TRANSFER, stream, transfer_within_limit};
use crate::run::RoundAverage;
use crate::site::outbox::StoredVector;

/// A question for the average of a round.
#[derive(Debug, Clone, Copy)]
pub struct AverageQuery<'a> {
    /// The series.
    pub series: &'a str,
    /// The round, from 1.
    pub round: u32,
    /// The precision in which the server sends it.
    pub precision: Precision,
    /// The longest wait for the end of the round.
    pub wait: Duration,
}

impl Gateway {
    /// Sends one vector with its receipts; after an interrupted attempt, from the server's offset.
    ///
    /// # Errors
    /// [`GatewayError`] with `round_closed` when it comes too late.
    pub async fn submit(
        &self,
        lease: &str,
        series: &str,
        round: u32,
        parcel: &StoredVector,
        receipts: &[Signed],
    ) -> Result<AcceptedSubmission, GatewayError> {
        let size = parcel.bytes.len();
        // A vector in a single message is sent completely or not at all.
        let offset = if size > CHUNK { self.count_received(lease, series, round, parcel).await?.min(size) } else { 0 };
        if offset > 0 {
            tracing::info!(series, round, offset, size, "the server has the beginning of this vector");
        }
        let header = v1::SubmitHeader {
            lease: lease.to_owned(),
            series: series.to_owned(),
            round,
            receipts: receipts.iter().cloned().map(Into::into).collect(),
            length: parcel.length,
            digest: parcel.digest.clone(),
            size: size as u64,
            offset: offset as u64,
        };
        let make = || stream::submit(header.clone(), parcel.bytes[offset..].to_vec());
        let reply =
            self.call(TRANSFER, make, |mut client, request| async move { client.submit(request).await }).await?;
        let countersignatures = reply.countersignatures.into_iter().map(Signed::from).collect();
        Ok(AcceptedSubmission { is_repeated: reply.repeated, countersignatures })
    }

    /// Returns the number of bytes of a vector that the server has from earlier attempts.
    async fn count_received(
        &self,
        lease: &str,
        series: &str,
        round: u32,
        parcel: &StoredVector,
    ) -> Result<usize, GatewayError> {
        let make = || v1::ReceivedRequest {
            lease: lease.to_owned(),
            series: series.to_owned(),
            round,
            digest: parcel.digest.clone(),
        };
        let reply = self.call(CALL, make, |mut client, request| async move { client.received(request).await }).await?;
        Ok(usize::try_from(reply.bytes).unwrap_or(usize::MAX))
    }

    /// Waits for a round to close; returns its average, or `None` while it is open after the wait of `query`. Bytes that arrived before an interruption stay in `download`, for the next attempt.
    ///
    /// # Errors
    /// [`GatewayError::Protocol`] when the bytes do not match their digest.
    pub async fn average(
        &self,
        lease: &str,
        query: AverageQuery<'_>,
        download: &Download,
    ) -> Result<Option<RoundAverage>, GatewayError> {
        let AverageQuery { series, round, precision, wait } = query;
        let make = || v1::AverageRequest {
            lease: lease.to_owned(),
            series: series.to_owned(),
            round,
            wait_seconds: wait.as_secs() as u32,
            offset: download.offset(),
        };
        let streaming =
            self.call(wait + CALL, make, |mut client, request| async move { client.average(request).await }).await?;
        transfer_within_limit(stream::read_average(streaming, precision, download)).await
    }

    /// Stores a named file of the job.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn put(&self, lease: &str, name: &str, content: &[u8]) -> Result<(), GatewayError> {
        let header = v1::PutArtifactHeader {
            lease: lease.to_owned(),
            name: name.to_owned(),
            size: content.len() as u64,
            digest: hex::encode(Sha256::digest(content)),
        };
        let make = || stream::put(header.clone(), content.to_vec());
        self.call(TRANSFER, make, |mut client, request| async move { client.put_artifact(request).await })
            .await
            .map(|_| ())
    }

    /// Waits up to `wait` for a named file of the job; returns `None` while it does not exist. Bytes that arrived
    /// before an interruption stay in `download`, for the next attempt.
    ///
    /// # Errors
    /// [`GatewayError::Protocol`] when the bytes do not match their digest.
    pub async fn get(
        &self,
        lease: &str,
        name: &str,
        wait: Duration,
        download: &Download,
    ) -> Result<Option<Vec<u8>>, GatewayError> {
        let make = || v1::GetArtifactRequest {
            lease: lease.to_owned(),
            name: name.to_owned(),
            wait_seconds: wait.as_secs() as u32,
            offset: download.offset(),
        };
        let streaming = self
            .call(wait + CALL, make, |mut client, request| async move { client.get_artifact(request).await })
            .await?;
        transfer_within_limit(stream::read_file(streaming, download)).await
    }
}
