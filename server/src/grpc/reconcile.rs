//! The call by which a site returns receipts to the server.

use tonic::Status;
use undertone_api::id::WorkerId;
use undertone_proto::v1;

use super::convert::fail;
use super::documents::{malformed, parse_all_signed, parse_signed, signed};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::restoration::{self, ReconciledPart, ReturnedReceipts};

/// Accepts receipts from a site, and returns the server's countersignatures.
///
/// # Errors
/// As [`read`] and [`restoration::reconcile`].
pub(super) async fn reconcile(
    ctx: &Ctx,
    caller: WorkerId,
    request: v1::ReconcileRequest,
) -> Result<v1::ReconcileReply, Status> {
    let countersigned = restoration::reconcile(ctx, caller, &read(request)?).await.map_err(fail)?;
    Ok(v1::ReconcileReply { countersignatures: countersigned.into_iter().map(v1::Signed::from).collect() })
}

/// Reads the request.
///
/// # Errors
/// `malformed` and `validation_failed` for an unreadable request.
fn read(request: v1::ReconcileRequest) -> Result<ReturnedReceipts, Status> {
    let v1::ReconcileRequest { parts, receipts, head, complete } = request;
    let part = |part: v1::ReconciledPart| {
        let dataset = part.dataset_id.parse().map_err(|_| malformed("parts.dataset_id is not an id"))?;
        Ok(ReconciledPart { manifest: signed(part.manifest, "parts.manifest")?, dataset, has_ended: part.ended })
    };
    Ok(ReturnedReceipts {
        parts: parts.into_iter().map(part).collect::<Result<_, Status>>()?,
        receipts: parse_all_signed(receipts)?,
        head: head.map(parse_signed).transpose()?,
        is_complete: complete,
    })
}
