//! The rings of a running server. Their files are read again while it runs, so that every replica uses a new key
//! without a restart.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use time::OffsetDateTime;

use super::ring::KeyRing;
use super::{FACTOR_FILE, TOKEN_FILE, load_or_make_ring, read_ring};
use crate::ctx::Random;

/// The keys that sign and verify access tokens, refresh tokens and device cookies, and encrypt data that browsers
/// store.
#[derive(Debug, Clone)]
pub struct TokenKeys(pub Arc<KeyRing>);

/// The keys that encrypt the secrets of members' second factors (XChaCha20-Poly1305).
#[derive(Debug, Clone)]
pub struct FactorKeys(pub Arc<KeyRing>);

impl std::ops::Deref for TokenKeys {
    type Target = KeyRing;

    fn deref(&self) -> &KeyRing {
        &self.0
    }
}

impl std::ops::Deref for FactorKeys {
    type Target = KeyRing;

    fn deref(&self) -> &KeyRing {
        &self.0
    }
}

/// The current rings, which may change while the server runs.
#[derive(Debug, Clone)]
pub struct LiveKeys(Arc<[LiveRing; 2]>);

#[derive(Debug)]
struct LiveRing {
    path: PathBuf,
    ring: RwLock<Arc<KeyRing>>,
}

impl LiveRing {
    fn load(path: PathBuf, random: &Random) -> io::Result<Self> {
        let ring = RwLock::new(Arc::new(load_or_make_ring(&path, random)?));
        Ok(Self { path, ring })
    }

    fn get(&self) -> Arc<KeyRing> {
        Arc::clone(&self.ring.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn reload(&self, now: OffsetDateTime) {
        match read_ring(&self.path) {
            Ok(Some(ring)) if ring != *self.get() => {
                tracing::info!(file = %self.path.display(), keys = ring.keys().len(), key.id = ring.current(now).id(), "keys were read again");
                *self.ring.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(ring);
            }
            Ok(Some(_)) => {}
            Ok(None) => tracing::error!(file = %self.path.display(), "the file of keys is gone: those in force stay"),
            Err(error) => {
                tracing::error!(file = %self.path.display(), %error, "the file of keys cannot be used: those in force stay");
            }
        }
    }
}

impl LiveKeys {
    /// Reads the rings of a data folder; creates missing ones.
    ///
    /// # Errors
    /// If a file cannot be read or created, or contains no keys.
    pub fn load(data_dir: &Path, random: &Random) -> io::Result<Self> {
        let load = |name| LiveRing::load(data_dir.join(name), random);
        Ok(Self(Arc::new([load(TOKEN_FILE)?, load(FACTOR_FILE)?])))
    }

    /// Returns the token keys.
    pub fn token(&self) -> TokenKeys {
        TokenKeys(self.0[0].get())
    }

    /// Returns the keys of second factors.
    pub fn factor(&self) -> FactorKeys {
        FactorKeys(self.0[1].get())
    }

    /// Reads the files again. An unusable file changes nothing and is logged.
    pub fn reload(&self, now: OffsetDateTime) {
        for ring in self.0.iter() {
            ring.reload(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};

    use super::LiveKeys;
    use crate::ctx::Random;
    use crate::keys::{TOKEN_FILE, write_secret};

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    #[test]
    fn changed_file_is_used_without_a_restart() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let keys = LiveKeys::load(dir.path(), &Random::seeded(1)).expect("made");
        let before = keys.token();
        let next = before.with_next([9; 32], NOW + Duration::HOUR).expect("it follows");
        write_secret(&dir.path().join(TOKEN_FILE), next.to_text().as_bytes()).expect("written");
        assert_eq!(*keys.token().0, *before.0, "not read yet");
        keys.reload(NOW);
        assert_eq!(*keys.token().0, next);
        assert_eq!(keys.factor().keys().len(), 1, "the other file is as it was");
    }

    #[test]
    fn unusable_file_leaves_the_keys_in_force() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let keys = LiveKeys::load(dir.path(), &Random::seeded(1)).expect("made");
        let before = keys.token();
        write_secret(&dir.path().join(TOKEN_FILE), b"not a key").expect("written");
        keys.reload(NOW);
        assert_eq!(*keys.token().0, *before.0);
        std::fs::remove_file(dir.path().join(TOKEN_FILE)).expect("it is there");
        keys.reload(NOW);
        assert_eq!(*keys.token().0, *before.0);
    }
}
