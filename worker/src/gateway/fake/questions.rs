//! The fake server's calls for questions: accepts pools, returns pools and answers, interrupts where a test requests
//! it.

use sha2::{Digest, Sha256};
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};
use undertone_proto::{question, v1};

use super::FakeGateway;

impl FakeGateway {
    pub(super) async fn take_pool(&self, mut chunks: Streaming<v1::AskChunk>) -> Result<v1::AskReply, Status> {
        use v1::ask_chunk::Part;
        let mut header = v1::AskHeader::default();
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.next().await {
            match chunk?.part {
                Some(Part::Header(first)) => header = first,
                Some(Part::Data(data)) => bytes.extend(data),
                None => return Err(Status::invalid_argument("empty")),
            }
        }
        if hex::encode(Sha256::digest(&bytes)) != header.digest || bytes.len() as u64 != header.size {
            return Err(Status::invalid_argument("digest"));
        }
        let countersignatures = self.charge(header.receipts)?;
        let mut state = self.state();
        let place = (header.series, header.round);
        let repeated = state.posed.iter().any(|(known, _)| *known == place);
        state.posed.push((place, bytes));
        Ok(v1::AskReply { repeated, countersignatures })
    }

    pub(super) fn give_pools(&self, offset: u64) -> Vec<Result<v1::AskedChunk, Status>> {
        use v1::asked_chunk::Part;
        let mut state = self.state();
        let chunk = |part| Ok(v1::AskedChunk { part: Some(part) });
        if state.pools.is_empty() {
            return vec![chunk(Part::Header(v1::AskedHeader::default()))];
        }
        let lies = state.lies;
        let pools = state.pools.iter().map(|(dataset, bytes)| v1::Pool {
            dataset_id: dataset.to_string(),
            questions: 0,
            size: bytes.len() as u64,
            digest: if lies { "00".repeat(32) } else { hex::encode(Sha256::digest(bytes)) },
        });
        let header = v1::AskedHeader { ready: true, pools: pools.collect(), missing: Vec::new() };
        let all: Vec<u8> = state.pools.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let mut rest = all[offset as usize..].to_vec();
        let mut chunks = vec![chunk(Part::Header(header))];
        if state.cuts > 0 {
            state.cuts -= 1;
            rest.truncate(rest.len() / 2);
            state.carried += rest.len();
            chunks.extend([chunk(Part::Data(rest)), Err(Status::unavailable("the connection breaks"))]);
        } else {
            state.carried += rest.len();
            chunks.push(chunk(Part::Data(rest)));
        }
        chunks
    }

    pub(super) fn give_answers(&self, round: u32) -> Result<Vec<Result<v1::AnswersChunk, Status>>, Status> {
        use v1::answers_chunk::Part;
        let chunk = |part| Ok(v1::AnswersChunk { part: Some(part) });
        let state = self.state();
        let Some(answers) = state.answers.get(&round) else {
            return Ok(vec![chunk(Part::Header(v1::AnswersHeader::default()))]);
        };
        let bytes = question::write_answers(answers).map_err(|error| Status::internal(error.to_string()))?;
        let digest = if state.lies { "00".repeat(32) } else { hex::encode(Sha256::digest(&bytes)) };
        let header = v1::AnswersHeader { closed: true, asked: 0, answered: 0, size: bytes.len() as u64, digest };
        Ok(vec![chunk(Part::Header(header)), chunk(Part::Data(bytes))])
    }
}
