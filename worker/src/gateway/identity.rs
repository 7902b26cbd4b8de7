//! The server's statements about itself and this site: its certificates, its time, its receipts of the site.

use undertone_api::signed::{CertificatePins, Signed};
use undertone_proto::v1;

use super::{CALL, Gateway, GatewayError, announcement};
use crate::site::server_trust::ServerTrust;

impl Gateway {
    /// Asks for the server's certificates, accepts those that it has signed, and returns them with the server's time;
    /// `None` if no key may announce others.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn pins(&self) -> Result<Option<CertificatePins>, GatewayError> {
        match &self.trust {
            None => Ok(None),
            Some(trust) => announcement::request_pins(self.client.clone(), trust).await.map(Some),
        }
    }

    /// Returns the server's keys, which every part of the site follows together; `None` for a connection without a
    /// site's folder.
    pub const fn server_keys(&self) -> Option<&ServerTrust> {
        self.server_keys.as_ref()
    }

    /// Asks the server's key to confirm an unknown certificate after a failed call. Returns true when it has announced
    /// its certificates, so that the call may be repeated.
    pub(super) async fn refresh_trust(&self) -> bool {
        let Some(trust) = self.trust.as_ref().filter(|trust| trust.may_be_renewed()) else { return false };
        match announcement::request_pins_unverified(&self.server, trust).await {
            Ok(_) => true,
            Err(error) => {
                tracing::error!(error = %error, "the server's key does not confirm the shown certificate; the worker sends nothing there");
                false
            }
        }
    }

    /// Returns the site's own receipts with numbers after `after`, as the server has them: at most 500.
    ///
    /// # Errors
    /// [`GatewayError`].
    pub async fn receipts(&self, after: u64) -> Result<Vec<Signed>, GatewayError> {
        let make = || v1::ReceiptsRequest { after };
        let reply = self.call(CALL, make, |mut client, request| async move { client.receipts(request).await }).await?;
        Ok(reply.receipts.into_iter().map(Signed::from).collect())
    }

    /// Signs in anew and returns the server's time, in seconds since 1970.
    ///
    /// # Errors
    /// [`GatewayError`] when the server cannot be reached or does not know the site's key.
    pub async fn time(&self) -> Result<i64, GatewayError> {
        self.sign_in().await.map(|(_, now)| now)
    }
}
