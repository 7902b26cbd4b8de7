//! The calls about the server's log: its head with proofs, and the return of receipts to a restored server.

use undertone_api::log::witness::WitnessAnswer;
use undertone_api::signed::Signed;
use undertone_proto::v1;

use super::{CALL, Gateway, GatewayError};
use crate::site::witness::restoration::{ReturnBatch, ReturnedPart};

impl Gateway {
    /// Asks for the server's newest signed head and the proof that it continues the `known` head. Asks also for the
    /// restorations after the one with the digest `restored`, and for the proofs that these `receipts` are in its log
    /// (at most [`MOST_RECEIPTS`](undertone_api::log::witness::MOST_RECEIPTS)).
    ///
    /// # Errors
    /// [`GatewayError`]; [`GatewayError::Protocol`] when the answer has another form.
    pub async fn witness(
        &self,
        known: Option<&Signed>,
        receipts: &[u64],
        restored: Option<&str>,
    ) -> Result<WitnessAnswer, GatewayError> {
        let make = || v1::WitnessRequest {
            known: known.cloned().map(Into::into),
            receipts: receipts.to_vec(),
            restored: restored.map(str::to_owned),
        };
        let reply = self.call(CALL, make, |mut client, request| async move { client.witness(request).await }).await?;
        WitnessAnswer::try_from(reply).map_err(|error| GatewayError::Protocol(error.to_string()))
    }

    /// Returns receipts to a server that was restored from an older copy. The result is its countersignatures of them,
    /// in their order.
    ///
    /// # Errors
    /// [`GatewayError`] with `budget_exceeded` when a limit at the server does not admit the expenses, `wrong_state`
    /// when the server does not wait for receipts.
    pub async fn reconcile(&self, batch: &ReturnBatch) -> Result<Vec<Signed>, GatewayError> {
        let part = |part: &ReturnedPart| v1::ReconciledPart {
            manifest: Some(part.manifest.clone().into()),
            dataset_id: part.dataset.to_string(),
            ended: part.has_ended,
        };
        let make = || v1::ReconcileRequest {
            parts: batch.parts.iter().map(part).collect(),
            receipts: batch.receipts.iter().cloned().map(Into::into).collect(),
            head: batch.head.clone().map(Into::into),
            complete: batch.is_complete(),
        };
        let reply = self.call(CALL, make, |mut client, request| async move { client.reconcile(request).await }).await?;
        Ok(reply.countersignatures.into_iter().map(Signed::from).collect())
    }
}
