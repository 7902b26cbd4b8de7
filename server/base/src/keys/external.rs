//! Private keys that are not the server's own: a program or a hardware module signs with them.
//!
//! The server knows a key by its public half alone, and verifies each signature before it uses it. A holder may hold several keys, so
//! that a new one is certified while the one before still signs. To add a kind of holder: implement [`KeyHolder`], and open it in
//! [`ExternalSigner::open`].

mod command;
mod holder;
mod module;

use std::sync::Arc;
use std::time::Duration;

use ed25519_dalek::{Signature, VerifyingKey};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use undertone_api::signed::{KeyPurpose, SignedError, public_key};

use self::command::SigningCommand;
use self::holder::{HolderError, KeyHolder, MOST_AT_ONCE};
use self::module::SigningModule;
use crate::config::{SignerConfig, SignerKind};

/// The configured holder, with bounds on time and number of its signatures.
#[derive(Clone)]
pub struct ExternalSigner(Arc<BoundedHolder>);

struct BoundedHolder {
    holder: Box<dyn KeyHolder>,
    limit: Duration,
    expected: Option<VerifyingKey>,
    connection_turns: Semaphore,
    other_turns: Semaphore,
}

impl ExternalSigner {
    /// Opens the configured holder; `None` when the keys are in the data folder. Nothing is signed yet.
    ///
    /// # Errors
    /// When a setting is unusable, or the PIN cannot be read.
    pub fn open(config: &SignerConfig) -> std::io::Result<Option<Self>> {
        let expected = config.public_key.as_deref().map(public_key).transpose().map_err(std::io::Error::other)?;
        let holder: Box<dyn KeyHolder> = match config.kind {
            SignerKind::File => return Ok(None),
            SignerKind::Command => Box::new(SigningCommand::new(config)?),
            SignerKind::Pkcs11 => Box::new(SigningModule::start(config)?),
        };
        Ok(Some(Self(Arc::new(BoundedHolder {
            holder,
            limit: Duration::from_secs(config.seconds.into()),
            expected,
            connection_turns: Semaphore::new(MOST_AT_ONCE),
            other_turns: Semaphore::new(MOST_AT_ONCE),
        }))))
    }

    /// Returns the public half of the key that new requests name.
    ///
    /// # Errors
    /// [`SignedError::Unavailable`] when the holder does not answer in time, or holds another key than the configured one.
    pub async fn public_key(&self) -> Result<VerifyingKey, SignedError> {
        let key = timeout(self.0.limit, self.0.holder.public_key()).await.map_err(|_| self.late())??;
        if self.0.expected.is_some_and(|expected| expected != key) {
            let detail = "the key of the signer is not `signer.public_key`";
            return Err(SignedError::Unavailable(detail.to_owned()));
        }
        Ok(key)
    }

    /// Signs a message with the private half of `key`, and verifies the signature.
    ///
    /// # Errors
    /// [`SignedError::Unavailable`] when there is no valid signature in time.
    pub async fn sign(
        &self,
        key: &VerifyingKey,
        message: &[u8],
        purpose: Option<KeyPurpose>,
    ) -> Result<Signature, SignedError> {
        let turns = match purpose {
            Some(KeyPurpose::Connection) => &self.0.connection_turns,
            _ => &self.0.other_turns,
        };
        let work = async {
            let _turn = turns.acquire().await.map_err(|_| HolderError::new("the signer is closed"))?;
            self.0.holder.sign(key, message).await
        };
        let bytes = timeout(self.0.limit, work).await.map_err(|_| self.late())??;
        let signature = Signature::from_bytes(&bytes);
        key.verify_strict(message, &signature).map_err(|_| {
            let id = hex::encode(key.to_bytes());
            SignedError::Unavailable(format!("the signer's signature does not hold for key {id}"))
        })?;
        Ok(signature)
    }

    fn late(&self) -> SignedError {
        SignedError::Unavailable(format!("the signer gave nothing within {} s", self.0.limit.as_secs()))
    }
}
