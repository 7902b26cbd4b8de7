//! Conversions between wire messages and contract types.

use tonic::metadata::MetadataValue;
use tonic::{Code as GrpcCode, Status};
use undertone_api::log::TreeHash;
use undertone_api::log::peers::PeerHead;
use undertone_api::log::witness::{
    ChargeProof, KeyProof, MOST_RESTORATIONS, RestorationProof, WitnessAnswer, WitnessError,
};
use undertone_api::problem::{Code, Problem};
use undertone_api::signed;

use crate::{PROBLEM_METADATA, v1};

impl From<signed::Signed> for v1::Signed {
    fn from(value: signed::Signed) -> Self {
        Self { payload: value.payload, signature: value.signature }
    }
}

impl From<v1::Signed> for signed::Signed {
    fn from(value: v1::Signed) -> Self {
        Self { payload: value.payload, signature: value.signature }
    }
}

impl From<WitnessAnswer> for v1::WitnessReply {
    fn from(answer: WitnessAnswer) -> Self {
        let bytes = |hashes: Vec<TreeHash>| hashes.into_iter().map(|hash| hash.to_vec()).collect();
        let proof = |proof: ChargeProof| v1::ReceiptProof {
            sequence: proof.sequence,
            countersignature: Some(proof.countersignature.into()),
            position: proof.position,
            leaf: proof.leaf,
            inclusion: bytes(proof.inclusion),
        };
        let restoration = |restoration: RestorationProof| v1::RestorationProof {
            statement: Some(restoration.statement.into()),
            consistency: bytes(restoration.consistency),
            inclusion: bytes(restoration.inclusion),
        };
        let key = |proof: KeyProof| v1::KeyProof {
            position: proof.position,
            leaf: proof.leaf,
            inclusion: bytes(proof.inclusion),
        };
        Self {
            head: answer.head.map(v1::Signed::from),
            consistency: bytes(answer.consistency),
            receipts: answer.receipts.into_iter().map(proof).collect(),
            restorations: answer.restorations.into_iter().map(restoration).collect(),
            must_reconcile: answer.must_reconcile,
            key: answer.key.map(key),
        }
    }
}

impl TryFrom<v1::WitnessReply> for WitnessAnswer {
    type Error = WitnessError;

    fn try_from(reply: v1::WitnessReply) -> Result<Self, WitnessError> {
        let malformed = |what: &str| WitnessError::Malformed(what.to_owned());
        let hashes = |all: Vec<Vec<u8>>| {
            let hashes: Result<Vec<TreeHash>, _> = all.into_iter().map(TreeHash::try_from).collect();
            hashes.map_err(|_| malformed("a hash is not of 32 bytes"))
        };
        let proof = |proof: v1::ReceiptProof| {
            let countersignature = proof.countersignature.ok_or_else(|| malformed("a countersignature is missing"))?;
            Ok(ChargeProof {
                sequence: proof.sequence,
                countersignature: countersignature.into(),
                position: proof.position,
                leaf: proof.leaf,
                inclusion: hashes(proof.inclusion)?,
            })
        };
        let restoration = |restoration: v1::RestorationProof| {
            let statement =
                restoration.statement.ok_or_else(|| malformed("the statement of a restoration is missing"))?;
            Ok(RestorationProof {
                statement: statement.into(),
                consistency: hashes(restoration.consistency)?,
                inclusion: hashes(restoration.inclusion)?,
            })
        };
        let key = |proof: v1::KeyProof| {
            Ok(KeyProof { position: proof.position, leaf: proof.leaf, inclusion: hashes(proof.inclusion)? })
        };
        if reply.restorations.len() > MOST_RESTORATIONS {
            return Err(malformed("there are too many restorations in one answer"));
        }
        Ok(Self {
            head: reply.head.map(signed::Signed::from),
            consistency: hashes(reply.consistency)?,
            receipts: reply.receipts.into_iter().map(proof).collect::<Result<_, _>>()?,
            restorations: reply.restorations.into_iter().map(restoration).collect::<Result<_, _>>()?,
            must_reconcile: reply.must_reconcile,
            key: reply.key.map(key).transpose()?,
        })
    }
}

impl From<PeerHead> for v1::PeerHead {
    fn from(peer: PeerHead) -> Self {
        let rotations = peer.rotations.into_iter().map(|rotation| v1::SignedRotation {
            by_old: Some(rotation.by_old.into()),
            by_new: Some(rotation.by_new.into()),
        });
        Self {
            worker: peer.worker.to_string(),
            worker_name: peer.worker_name,
            organization_name: peer.organization_name,
            public_key: peer.public_key,
            rotations: rotations.collect(),
            observation: Some(peer.observation.into()),
            consistency: peer.consistency.into_iter().map(|hash| hash.to_vec()).collect(),
            position: peer.position.map(Into::into),
            sighting: peer.sighting.map(Into::into),
        }
    }
}

impl TryFrom<v1::PeerHead> for PeerHead {
    /// The name of the invalid field.
    type Error = &'static str;

    fn try_from(peer: v1::PeerHead) -> Result<Self, Self::Error> {
        let rotations = peer.rotations.into_iter().map(|rotation| {
            let by_old = rotation.by_old.ok_or("rotations.by_old")?.into();
            let by_new = rotation.by_new.ok_or("rotations.by_new")?.into();
            Ok(signed::KeyRotation { by_old, by_new })
        });
        let consistency: Result<Vec<TreeHash>, _> = peer.consistency.into_iter().map(TreeHash::try_from).collect();
        Ok(Self {
            worker: peer.worker.parse().map_err(|_| "worker")?,
            worker_name: peer.worker_name,
            organization_name: peer.organization_name,
            public_key: peer.public_key,
            rotations: rotations.collect::<Result<_, Self::Error>>()?,
            observation: peer.observation.ok_or("observation")?.into(),
            consistency: consistency.map_err(|_| "consistency")?,
            position: peer.position.map(Into::into),
            sighting: peer.sighting.map(Into::into),
        })
    }
}

/// Returns the gRPC status of a problem; the metadata contain the problem itself.
pub fn to_status(problem: &Problem) -> Status {
    let mut status = Status::new(GrpcCode::from_i32(problem.code.grpc_code()), problem.detail.clone());
    if let Ok(json) = serde_json::to_vec(problem) {
        status.metadata_mut().insert_bin(PROBLEM_METADATA, MetadataValue::from_bytes(&json));
    }
    status
}

/// Returns the problem of a gRPC status: the one in its metadata, or the nearest one for the status code.
pub fn to_problem(status: &Status) -> Problem {
    let carried = status
        .metadata()
        .get_bin(PROBLEM_METADATA)
        .and_then(|value| value.to_bytes().ok())
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    carried.unwrap_or_else(|| {
        let code = match status.code() {
            GrpcCode::Unauthenticated => Code::Unauthenticated,
            GrpcCode::PermissionDenied => Code::Forbidden,
            GrpcCode::NotFound => Code::NotFound,
            GrpcCode::InvalidArgument => Code::Malformed,
            GrpcCode::ResourceExhausted => Code::TooLarge,
            GrpcCode::Unavailable | GrpcCode::DeadlineExceeded | GrpcCode::Cancelled => Code::Unavailable,
            _ => Code::Internal,
        };
        Problem::new(code, status.message())
    })
}

#[cfg(test)]
mod tests {
    use super::{to_problem, to_status};
    use undertone_api::problem::{Code, Problem};

    #[test]
    fn every_problem_survives_the_wire() {
        for code in Code::ALL {
            let problem = Problem::new(*code, "what happened");
            assert_eq!(to_problem(&to_status(&problem)), problem);
        }
    }
}
