//! Consent: stewards' as the server relays it, with announcements of changed credentials, and the site's own statements.

use time::OffsetDateTime;
use undertone_api::signed::{MOST_APPROVAL_BYTES, Signed, SignedApproval};
use undertone_proto::v1;
use uuid::Uuid;

use super::{CALL, Gateway, GatewayError, parse_id};
use crate::site::consent::CredentialNotice;

/// Parses the approval that came with work; an empty text is `None`.
pub(super) fn parse_approval(text: &str) -> Result<Option<SignedApproval>, GatewayError> {
    if text.is_empty() {
        return Ok(None);
    }
    let approval = (text.len() <= MOST_APPROVAL_BYTES).then(|| serde_json::from_str(text).ok()).flatten();
    approval.map(Some).ok_or_else(|| GatewayError::Protocol("`approval` is not a signed approval".to_owned()))
}

impl Gateway {
    /// Sends the site's signed answer to a proposed job.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn decide(&self, decision: &Signed) -> Result<(), GatewayError> {
        let make = || v1::DecideRequest { decision: Some(decision.clone().into()), hold: None, departure: None };
        self.call(CALL, make, |mut client, request| async move { client.decide(request).await }).await.map(|_| ())
    }

    /// Sends the site's signed hold of a job, or its end.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn hold(&self, hold: &Signed) -> Result<(), GatewayError> {
        let make = || v1::DecideRequest { decision: None, hold: Some(hold.clone().into()), departure: None };
        self.call(CALL, make, |mut client, request| async move { client.decide(request).await }).await.map(|_| ())
    }

    /// Sends the site's signed departure from a job.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn leave(&self, departure: &Signed) -> Result<(), GatewayError> {
        let make = || v1::DecideRequest { decision: None, hold: None, departure: Some(departure.clone().into()) };
        self.call(CALL, make, |mut client, request| async move { client.decide(request).await }).await.map(|_| ())
    }

    /// Asks for changes of stewards' credentials after the notice with the id `after`, oldest first.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn credential_notices(&self, after: &str) -> Result<Vec<CredentialNotice>, GatewayError> {
        let make = || v1::CredentialNoticesRequest { after: after.to_owned() };
        let reply = self
            .call(CALL, make, |mut client, request| async move { client.credential_notices(request).await })
            .await?;
        reply
            .notices
            .into_iter()
            .map(|notice| {
                let at = OffsetDateTime::from_unix_timestamp(notice.at_unix)
                    .map_err(|_| GatewayError::Protocol("`at_unix` is not a time".to_owned()))?;
                Ok(CredentialNotice { id: parse_id::<Uuid>("id", &notice.id)?, text: notice.text, at })
            })
            .collect()
    }
}
