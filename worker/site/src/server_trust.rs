//! The server's keys as known to this site: the first key, from the enrolment, and the root that certifies the others,
//! once a signature has introduced it. The site stores new keys before it uses the document that introduced them, so
//! that no later signature can revert to older keys: `server-keys.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ed25519_dalek::VerifyingKey;
use undertone_api::signed::{SignatureScope, SignedError, SigningAuthority, TrustedServer, key_id};

use super::folder::{Folder, FolderError, write_durably};

/// The reason why the server's keys cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ServerTrustError {
    /// The file cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The file is invalid, or of another server.
    #[error("{0} is not about the server of this site's enrolment: restore it from a backup")]
    Foreign(PathBuf),
}

/// The server's keys, followed as they change. Clones share their state.
#[derive(Debug, Clone)]
pub struct ServerTrust(Arc<TrustParts>);

#[derive(Debug)]
struct TrustParts {
    first: VerifyingKey,
    path: Option<PathBuf>,
    state: RwLock<TrustedServer>,
}

impl ServerTrust {
    /// Returns a server known by its first key alone; later keys are kept in memory.
    pub fn new(first: &VerifyingKey) -> Self {
        Self::with(first, None, TrustedServer::new(first))
    }

    /// Returns a server whose root is known too; later keys are kept in memory.
    pub fn with_root(first: &VerifyingKey, root: &VerifyingKey) -> Self {
        Self::with(first, None, TrustedServer::with_root(first, root))
    }

    /// Stores the root from an enrolment token, before the site has accepted any document.
    ///
    /// # Errors
    /// [`ServerTrustError`] when the folder has keys of another server, or the disk fails.
    pub fn pin(folder: &Folder, first: &VerifyingKey, root: &VerifyingKey) -> Result<(), ServerTrustError> {
        let trust = Self::with(first, Some(folder.server_keys()), TrustedServer::with_root(first, root));
        trust.store(&trust.with_stored(&trust.state())?)
    }

    /// Reads the stored keys of the server whose first key is `first` from the site in `folder`.
    ///
    /// # Errors
    /// [`ServerTrustError`] when the file cannot be read or is of another server.
    pub fn load(folder: &Folder, first: &VerifyingKey) -> Result<Self, ServerTrustError> {
        let path = folder.server_keys();
        let state = read(&path, first)?.unwrap_or_else(|| TrustedServer::new(first));
        Ok(Self::with(first, Some(path), state))
    }

    fn with(first: &VerifyingKey, path: Option<PathBuf>, state: TrustedServer) -> Self {
        Self(Arc::new(TrustParts { first: *first, path, state: RwLock::new(state) }))
    }

    /// Returns the first key. It verifies documents that were accepted earlier, regardless of later key changes.
    pub fn first(&self) -> &VerifyingKey {
        &self.0.first
    }

    /// Returns the present state.
    pub fn state(&self) -> TrustedServer {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Merges a state with the stored one, which other parts of this process may have extended; the stored root stays.
    fn with_stored(&self, state: &TrustedServer) -> Result<TrustedServer, ServerTrustError> {
        let stored = self.0.path.as_ref().map(|path| read(path, &self.0.first)).transpose()?.flatten();
        Ok(stored.map_or_else(|| state.clone(), |stored| stored.merge(state)))
    }

    fn store(&self, state: &TrustedServer) -> Result<(), ServerTrustError> {
        let Some(path) = &self.0.path else { return Ok(()) };
        // The state always has a JSON form.
        Ok(write_durably(path, &serde_json::to_vec_pretty(state).unwrap_or_default())?)
    }
}

impl SigningAuthority for ServerTrust {
    fn verify_message(&self, message: &[u8], signature: &str, scope: SignatureScope) -> Result<(), SignedError> {
        let failed = |error: ServerTrustError| SignedError::Unavailable(error.to_string());
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.examine(message, signature, scope)?.is_none() {
            return Ok(());
        }
        *state = self.with_stored(&state).map_err(failed)?;
        let Some(next) = state.examine(message, signature, scope)? else { return Ok(()) };
        self.store(&next).map_err(failed)?;
        tracing::info!(
            root = next.root(),
            least_serial = next.least_serial(),
            "the server's certified keys are followed"
        );
        *state = next;
        Ok(())
    }

    fn log_id(&self) -> String {
        key_id(&self.0.first)
    }
}

fn read(path: &Path, first: &VerifyingKey) -> Result<Option<TrustedServer>, ServerTrustError> {
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(path).map_err(FolderError::io("read", path))?;
    let state: Option<TrustedServer> = serde_json::from_str(&text).ok();
    let own = state.filter(|state| state.first().as_ref() == Ok(first));
    own.map(Some).ok_or_else(|| ServerTrustError::Foreign(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signer as _, SigningKey};
    use time::{Duration, OffsetDateTime};
    use undertone_api::signed::server_keys::certified_signature;
    use undertone_api::signed::{
        DocumentSigner, KeyCertificate, KeyPurpose, LogHead, RootIntroduction, SignatureChain, SignatureScope, Signed,
        SignedError, SignedIntroduction, key_id,
    };

    use super::{ServerTrust, ServerTrustError};
    use crate::folder::Folder;

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    struct OnlineSigner(SigningKey, SignatureChain);

    impl DocumentSigner for OnlineSigner {
        fn sign_message(&self, message: &[u8], _: SignatureScope) -> Result<String, SignedError> {
            certified_signature(&self.0.sign(message), &self.1)
        }
    }

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_bytes(&[seed; 32])
    }

    fn hex_of(seed: u8) -> String {
        hex::encode(key(seed).verifying_key().to_bytes())
    }

    /// Certifies key `seed` by root 2 of the server whose first key is 1.
    fn online(seed: u8, serial: u64, least_serial: u64) -> OnlineSigner {
        let introduction = RootIntroduction { first: hex_of(1), root: hex_of(2) };
        let sign = |key: &SigningKey| Signed::new(&introduction, key).expect("it has a JSON form");
        let introduction = SignedIntroduction { by_first: sign(&key(1)), by_root: sign(&key(2)).signature };
        let certificate = KeyCertificate {
            serial,
            least_serial,
            key: hex_of(seed),
            purpose: KeyPurpose::Log,
            from: NOW,
            until: NOW + Duration::days(1),
        };
        let certificate = Signed::new(&certificate, &key(2)).expect("it has a JSON form");
        OnlineSigner(key(seed), SignatureChain { certificate, introduction })
    }

    fn head(signer: &dyn DocumentSigner) -> Signed {
        let head = LogHead { size: 1, root: String::new(), at: NOW, server: key_id(&key(1).verifying_key()) };
        Signed::new(&head, signer).expect("it has a JSON form")
    }

    #[test]
    fn site_follows_the_root_through_a_restart() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let first = key(1).verifying_key();
        let trust = ServerTrust::load(&folder, &first).expect("nothing is stored yet");
        head(&key(1)).open::<LogHead>(&trust).expect("the first key signs");
        assert!(!folder.server_keys().exists(), "nothing was learned");
        head(&online(3, 1, 0)).open::<LogHead>(&trust).expect("certified");
        let again = ServerTrust::load(&folder, &first).expect("stored");
        assert_eq!(again.state(), trust.state());
        assert_eq!(again.state().root(), Some(&*hex_of(2)));
        assert!(head(&key(1)).open::<LogHead>(&again).is_err(), "the first key does not sign any more");
        assert!(head(&key(1)).open::<LogHead>(again.first()).is_ok(), "what was accepted before stays verifiable");
    }

    #[test]
    fn revocation_holds_in_every_part_of_the_site() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let first = key(1).verifying_key();
        let trust = ServerTrust::load(&folder, &first).expect("nothing is stored yet");
        let other = ServerTrust::load(&folder, &first).expect("nothing is stored yet");
        head(&online(4, 2, 2)).open::<LogHead>(&trust).expect("certified");
        assert_eq!(other.state().least_serial(), 0, "it has seen nothing of the revocation");
        for part in [&trust, &other, &ServerTrust::load(&folder, &first).expect("stored")] {
            assert!(matches!(head(&online(3, 1, 0)).open::<LogHead>(part), Err(SignedError::Chain(_))));
        }
    }

    #[test]
    fn pinned_root_refuses_the_first_key_from_the_start() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let (first, root) = (key(1).verifying_key(), key(2).verifying_key());
        ServerTrust::pin(&folder, &first, &root).expect("stored");
        let trust = ServerTrust::load(&folder, &first).expect("stored");
        assert!(matches!(head(&key(1)).open::<LogHead>(&trust), Err(SignedError::Chain(_))));
        head(&online(3, 1, 0)).open::<LogHead>(&trust).expect("certified");
    }

    #[test]
    fn file_of_another_server_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let trust = ServerTrust::load(&folder, &key(1).verifying_key()).expect("nothing is stored yet");
        head(&online(3, 1, 0)).open::<LogHead>(&trust).expect("certified");
        let refused = ServerTrust::load(&folder, &key(9).verifying_key());
        assert!(matches!(refused, Err(ServerTrustError::Foreign(_))));
        std::fs::write(folder.server_keys(), "{}").expect("writable");
        assert!(ServerTrust::load(&folder, &key(1).verifying_key()).is_err());
    }
}
