//! Stewards' consent as sent to sites: signed approvals, and announcements of changed credentials.

use tonic::Status;
use undertone_api::id::WorkerId;
use undertone_api::signed::SignedApproval;
use undertone_proto::v1;

use super::convert::fail;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::error::Error;
use undertone_server_core::service::notification::credential::{CredentialNotice, notices_after};

/// Converts a signed approval to JSON.
pub(super) fn written(approval: &SignedApproval) -> Result<String, Status> {
    serde_json::to_string(approval).map_err(|error| fail(Error::internal("writing an approval", error)))
}

/// Returns the announcements for a worker's site after the one with the id `after`.
pub(super) async fn notices(ctx: &Ctx, worker: WorkerId, after: &str) -> Result<v1::CredentialNoticesReply, Status> {
    let notice = |notice: CredentialNotice| v1::CredentialNotice {
        id: notice.id.to_string(),
        text: notice.text,
        at_unix: notice.at.unix_timestamp(),
    };
    let notices = notices_after(ctx, worker, after).await.map_err(fail)?;
    Ok(v1::CredentialNoticesReply { notices: notices.into_iter().map(notice).collect() })
}
