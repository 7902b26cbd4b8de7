//! Calls without a session: enrolment, and the change to the site's next key. Each is repeated once when the server
//! shows a certificate that only its key confirms.

use tonic::Request;
use undertone_api::id::{OrganizationId, WorkerId};
use undertone_api::signed::KeyRotation;
use undertone_proto::v1;

use super::{CALL, GatewayError, VERSION, announcement, build_client, call_within, open_trust, parse_id, trust};
use crate::config::{CheckedToken, Config};
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::server_trust::ServerTrust;

/// A newly enrolled worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolledWorker {
    /// The worker's id.
    pub id: WorkerId,
    /// The worker's name.
    pub name: String,
    /// The id of its organization.
    pub organization: OrganizationId,
    /// The organization's name.
    pub organization_name: String,
}

/// Spends an enrolment token: binds the site's public key to an organization.
///
/// # Errors
/// [`GatewayError`] when the server cannot be reached or does not accept the token.
pub async fn enroll(token: &CheckedToken, key: &SiteKey) -> Result<EnrolledWorker, GatewayError> {
    let request =
        v1::EnrollRequest { secret: token.secret.clone(), public_key: key.public_hex(), version: VERSION.to_owned() };
    let trust = open_trust(&token.server, &keys_in_token(token), None)?;
    let mut client = build_client(&token.server, trust.as_ref())?;
    let mut reply = call_within(CALL, client.enroll(Request::new(request.clone()))).await;
    if let (Err(GatewayError::Unreachable(_)), Some(trust)) = (&reply, &trust)
        && trust.may_be_renewed()
    {
        // The certificate may have changed since the token was made. Only the key in the token can confirm the new one.
        announcement::request_pins_unverified(&token.server, trust).await?;
        reply = call_within(CALL, client.enroll(Request::new(request))).await;
    }
    let reply = reply?.into_inner();
    Ok(EnrolledWorker {
        id: parse_id("worker_id", &reply.worker_id)?,
        name: reply.worker_name,
        organization: parse_id("organization_id", &reply.organization_id)?,
        organization_name: reply.organization_name,
    })
}

/// Returns the server's keys that a token contains.
fn keys_in_token(token: &CheckedToken) -> ServerTrust {
    match &token.server_root {
        Some(root) => ServerTrust::with_root(&token.server_key, root),
        None => ServerTrust::new(&token.server_key),
    }
}

/// Reports the change to the site's next key to the server. It needs no session: the present key has signed it.
///
/// # Errors
/// [`GatewayError`] when the server cannot be reached or does not accept it; it may be sent again.
pub async fn rotate_key(config: &Config, folder: &Folder, rotation: &KeyRotation) -> Result<(), GatewayError> {
    let keys = trust::server_keys(folder, &config.server_key)?;
    let trust = open_trust(&config.server, &keys, Some(folder))?;
    let request = || v1::RotateKeyRequest {
        by_old: Some(rotation.by_old.clone().into()),
        by_new: Some(rotation.by_new.clone().into()),
    };
    let mut client = build_client(&config.server, trust.as_ref())?;
    let mut reply = call_within(CALL, client.rotate_key(request())).await;
    if let (Err(GatewayError::Unreachable(_)), Some(trust)) = (&reply, &trust)
        && trust.may_be_renewed()
    {
        announcement::request_pins_unverified(&config.server, trust).await?;
        reply = call_within(CALL, client.rotate_key(request())).await;
    }
    reply.map(drop)
}
