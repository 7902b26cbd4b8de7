//! Outgoing questions, and pools, choices and answers at the lead.

use std::time::Duration;

use tonic::Streaming;
use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::signed::Signed;
use undertone_proto::question::{AnswerLine, MAX_SIZE, read_answers};
use undertone_proto::v1;

use super::{
    AcceptedSubmission, CALL, Download, Gateway, GatewayError, TRANSFER, parse_id, stream, transfer_within_limit,
};
use crate::site::outbox::StoredVector;

/// The server's pools of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionPools {
    /// The bytes of each pool as its site sent them, each with its announced digest.
    pub pools: Vec<(DatasetId, Vec<u8>)>,
    /// The datasets without a pool at the deadline, and those that gave up.
    pub missing: Vec<DatasetId>,
}

impl Gateway {
    /// Sends one pool with its receipts.
    ///
    /// # Errors
    /// [`GatewayError`] with `round_closed` when it comes too late.
    pub async fn submit_pool(
        &self,
        lease: &str,
        series: &str,
        round: u32,
        parcel: &StoredVector,
        receipts: &[Signed],
    ) -> Result<AcceptedSubmission, GatewayError> {
        let header = v1::AskHeader {
            lease: lease.to_owned(),
            series: series.to_owned(),
            round,
            receipts: receipts.iter().cloned().map(Into::into).collect(),
            size: parcel.bytes.len() as u64,
            digest: parcel.digest.clone(),
        };
        let make = || stream::ask(header.clone(), parcel.bytes.clone());
        let reply = self.call(TRANSFER, make, |mut client, request| async move { client.ask(request).await }).await?;
        let countersignatures = reply.countersignatures.into_iter().map(Signed::from).collect();
        Ok(AcceptedSubmission { is_repeated: reply.repeated, countersignatures })
    }

    /// Waits up to `wait` for the pools of all asking participants; returns `None` while some are missing. Bytes that
    /// arrived before an interruption stay in `download`, for the next attempt.
    ///
    /// # Errors
    /// [`GatewayError::Protocol`] when the bytes do not match their digests.
    pub async fn fetch_pools(
        &self,
        lease: &str,
        wait: Duration,
        download: &Download,
    ) -> Result<Option<QuestionPools>, GatewayError> {
        let make = || v1::AskedRequest {
            lease: lease.to_owned(),
            wait_seconds: wait.as_secs() as u32,
            offset: download.offset(),
        };
        let streaming =
            self.call(wait + CALL, make, |mut client, request| async move { client.asked(request).await }).await?;
        transfer_within_limit(read_pools(streaming, download)).await
    }

    /// Sends a choice of questions to the annotators.
    ///
    /// # Errors
    /// [`GatewayError`] when the server does not accept the choice.
    pub async fn choose(&self, lease: &str, round: u32, chosen: &[(QuestionId, f64)]) -> Result<(), GatewayError> {
        let choice = |(question, uncertainty): &(QuestionId, f64)| v1::Chosen {
            question: question.to_string(),
            uncertainty: *uncertainty,
        };
        let make = || v1::ChooseRequest { lease: lease.to_owned(), round, chosen: chosen.iter().map(choice).collect() };
        self.call(TRANSFER, make, |mut client, request| async move { client.choose(request).await }).await.map(|_| ())
    }

    /// Waits up to `wait` for a round of questions to close; returns its answers, or `None` while it is open.
    ///
    /// # Errors
    /// [`GatewayError::Protocol`] when the bytes do not match their digest.
    pub async fn fetch_answers(
        &self,
        lease: &str,
        round: u32,
        wait: Duration,
    ) -> Result<Option<Vec<AnswerLine>>, GatewayError> {
        let make = || v1::AnswersRequest { lease: lease.to_owned(), round, wait_seconds: wait.as_secs() as u32 };
        let streaming =
            self.call(wait + CALL, make, |mut client, request| async move { client.answers(request).await }).await?;
        transfer_within_limit(read_answers_of_round(streaming)).await
    }
}

/// Reads all pools; returns `None` while some are missing.
async fn read_pools(
    mut chunks: Streaming<v1::AskedChunk>,
    download: &Download,
) -> Result<Option<QuestionPools>, GatewayError> {
    use v1::asked_chunk::Part;
    let Some(Part::Header(header)) = chunks.message().await?.and_then(|chunk| chunk.part) else {
        return Err(GatewayError::Protocol("pools without a header".to_owned()));
    };
    if !header.ready {
        return Ok(None);
    }
    if let Some(pool) = header.pools.iter().find(|pool| pool.size > MAX_SIZE) {
        return Err(GatewayError::Protocol(format!(
            "the server announces a pool of {} bytes; at most {MAX_SIZE} are accepted",
            pool.size
        )));
    }
    // An interrupted transfer resumes only with exactly the same pools.
    let digests: Vec<&str> = header.pools.iter().map(|pool| pool.digest.as_str()).collect();
    let size = header.pools.iter().map(|pool| pool.size).sum();
    let mut intake = download.begin(size, &digests.join(" "))?;
    while let Some(chunk) = chunks.message().await? {
        match chunk.part {
            Some(Part::Data(data)) => intake.append(&data)?,
            _ => return Err(GatewayError::Protocol("a second header".to_owned())),
        }
    }
    let (mut rest, _) = intake.into_parts()?;
    let mut pools = Vec::with_capacity(header.pools.len());
    for pool in &header.pools {
        let remainder = rest.split_off(pool.size as usize);
        stream::check_digest(&rest, &pool.digest)?;
        pools.push((parse_id("dataset_id", &pool.dataset_id)?, std::mem::replace(&mut rest, remainder)));
    }
    let missing = header.missing.iter().map(|id| parse_id("missing", id)).collect::<Result<_, _>>()?;
    Ok(Some(QuestionPools { pools, missing }))
}

/// Reads the answers of a round; returns `None` while it is open.
async fn read_answers_of_round(
    mut chunks: Streaming<v1::AnswersChunk>,
) -> Result<Option<Vec<AnswerLine>>, GatewayError> {
    use v1::answers_chunk::Part;
    let Some(Part::Header(header)) = chunks.message().await?.and_then(|chunk| chunk.part) else {
        return Err(GatewayError::Protocol("answers without a header".to_owned()));
    };
    if !header.closed {
        return Ok(None);
    }
    if header.size > MAX_SIZE {
        return Err(GatewayError::Protocol(format!(
            "the server announces {} bytes; at most {MAX_SIZE} are accepted",
            header.size
        )));
    }
    let download = Download::default();
    let mut intake = download.begin(header.size, &header.digest)?;
    while let Some(chunk) = chunks.message().await? {
        match chunk.part {
            Some(Part::Data(data)) => intake.append(&data)?,
            _ => return Err(GatewayError::Protocol("a second header".to_owned())),
        }
    }
    let answers = read_answers(&intake.finish()?);
    Ok(Some(answers.map_err(|error| GatewayError::Protocol(error.to_string()))?))
}
