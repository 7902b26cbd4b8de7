//! Bytes in the object store: an upload becomes visible only when its size and digest are what was announced.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt as _, RetryConfig, WriteMultipart};
use sha2::{Digest as _, Sha256};
use undertone_proto::question::QuestionError;
use undertone_proto::vector::VectorError;

use crate::config::{Config, StoreConfig};
use crate::fault;

/// Where vectors and files are kept.
pub type Store = Arc<dyn ObjectStore>;

/// Parts of an upload that may be under way at a time; a part has 5 MiB.
pub(super) const PARTS_UNDER_WAY: usize = 2;

/// Where S3 is when nobody says it.
const REGION: &str = "us-east-1";
/// Times that a request is sent again to a bucket that does not answer, and for how long at most.
const TRIES: usize = 5;
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a store that forgets its objects with the process, for commands that store nothing.
pub(crate) fn nowhere() -> Store {
    Arc::new(object_store::memory::InMemory::new())
}

/// Opens the store of the configuration: a folder, whose files are durable once they are there, or a bucket of an S3-compatible
/// store, whose objects are. Keys that the configuration lacks are looked for where AWS's own programs look (`AWS_*`, the machine's
/// role).
///
/// # Errors
/// When the folder cannot be used, or the address names no bucket. Whether the bucket answers, [`answers`] tells.
pub fn open(config: &Config) -> Result<Store, object_store::Error> {
    let Some(url) = &config.store.url else {
        // A row that names an object is durable, so the object has to be durable before it.
        return Ok(Arc::new(LocalFileSystem::new_with_prefix(config.data_dir.join("objects"))?.with_fsync(true)));
    };
    let StoreConfig { endpoint, region, access_key_id, secret_access_key, .. } = &config.store;
    let (bucket, prefix) =
        url.trim_start_matches("s3://").split_once('/').unwrap_or((url.trim_start_matches("s3://"), ""));
    let patience = RetryConfig { max_retries: TRIES, retry_timeout: PATIENCE, ..RetryConfig::default() };
    let mut s3 = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(patience);
    s3 = s3.with_region(region.as_deref().unwrap_or(REGION));
    if let Some(endpoint) = endpoint {
        s3 = s3.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
    }
    if let (Some(id), Some(key)) = (access_key_id, secret_access_key) {
        s3 = s3.with_access_key_id(id).with_secret_access_key(key);
    }
    // TLS needs the process's provider of cryptography, which may be there already; both are ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(Arc::new(PrefixStore::new(s3.build()?, Path::from(prefix))))
}

/// Asks the store for something that is not there, which only a store that works can tell.
///
/// # Errors
/// When it does not answer, or does not let us in.
pub async fn answers(store: &Store) -> Result<(), object_store::Error> {
    match store.head(&Path::from("health/nothing")).await {
        Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Why bytes were not stored, or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The store does not do its work.
    #[error("the object store failed")]
    Store(#[from] object_store::Error),
    /// More or fewer bytes came than were announced.
    #[error("{announced} bytes were announced, {received} came: send the whole, and no more")]
    Size {
        /// Bytes announced.
        announced: u64,
        /// Bytes received, so far.
        received: u64,
    },
    /// Not all of what was sent is stored any more: another attempt has come to its end.
    #[error("the server has less of this vector than was sent: ask again how much it received")]
    Lost,
    /// The bytes have another SHA-256 than was announced.
    #[error("the SHA-256 of what came is not the one announced: send it again")]
    Digest,
    /// What came is no vector of the form that was announced.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The vector is longer than any that an honest party sends.
    #[error(
        "its L2 norm is {norm:.4e}, and what clip, noise and batch of the job allow is {most:.4e}: send what the job's training made, \
         or update the worker"
    )]
    Norm {
        /// The norm.
        norm: f64,
        /// The greatest that is taken.
        most: f64,
    },
    /// There was no turn for it.
    #[error(transparent)]
    Turn(Box<crate::error::Error>),
    /// What came is no pool of questions.
    #[error(transparent)]
    Questions(#[from] QuestionError),
}

/// An upload under way. Dropped or failed, it leaves nothing behind.
pub struct Upload {
    writer: WriteMultipart,
    hasher: Sha256,
    size: u64,
    received: u64,
    digest: String,
}

impl Upload {
    /// Begins an upload of `size` bytes with the SHA-256 `digest` (hex) to `path`.
    ///
    /// # Errors
    /// [`ObjectError::Store`].
    pub async fn begin(store: &Store, path: &Path, size: u64, digest: &str) -> Result<Self, ObjectError> {
        let writer = WriteMultipart::new(store.put_multipart(path).await?);
        Ok(Self { writer, hasher: Sha256::new(), size, received: 0, digest: digest.to_ascii_lowercase() })
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`ObjectError::Size`] as soon as too much has come, [`ObjectError::Store`].
    pub async fn write(&mut self, data: &[u8]) -> Result<(), ObjectError> {
        self.received += data.len() as u64;
        if self.received > self.size {
            return Err(ObjectError::Size { announced: self.size, received: self.received });
        }
        self.hasher.update(data);
        self.writer.wait_for_capacity(PARTS_UNDER_WAY).await?;
        self.writer.write(data);
        Ok(())
    }

    /// Makes the object visible, if it is what was announced.
    ///
    /// # Errors
    /// [`ObjectError::Size`] or [`ObjectError::Digest`] when it is not, [`ObjectError::Store`].
    pub async fn finish(self) -> Result<(), ObjectError> {
        let wrong = if self.received != self.size {
            Some(ObjectError::Size { announced: self.size, received: self.received })
        } else if hex::encode(self.hasher.finalize()) != self.digest {
            Some(ObjectError::Digest)
        } else {
            None
        };
        if let Some(error) = wrong {
            self.writer.abort().await?;
            return Err(error);
        }
        failing(fault::BEFORE_STORE)?;
        self.writer.finish().await?;
        failing(fault::AFTER_STORE)
    }
}

/// A point at which the simulation may have the disk fail.
pub(super) fn failing(point: &'static str) -> Result<(), ObjectError> {
    let store_says = |error| object_store::Error::Generic { store: "LocalFileSystem", source: Box::new(error) };
    fault::disk(point).map_err(|error| ObjectError::Store(store_says(error)))
}

/// Computes on a thread of its own, where it holds up nobody who waits for the network.
pub(super) async fn beside<T: Send + 'static>(
    compute: impl FnOnce() -> Result<T, ObjectError> + Send + 'static,
) -> Result<T, ObjectError> {
    // That it comes to no end can only be a defect, or the end of the process.
    tokio::task::spawn_blocking(compute).await.map_err(object_store::Error::from)?
}

/// Removes an object; one that is gone already is no error.
///
/// # Errors
/// [`ObjectError::Store`].
pub async fn remove(store: &Store, path: &Path) -> Result<(), ObjectError> {
    match store.delete(path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes everything under a prefix.
///
/// # Errors
/// [`ObjectError::Store`].
pub async fn remove_all(store: &Store, prefix: &Path) -> Result<(), ObjectError> {
    let found: Vec<_> = store.list(Some(prefix)).try_collect().await?;
    for object in found {
        remove(store, &object.location).await?;
    }
    Ok(())
}

/// SHA-256 of bytes, hex.
pub fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Whether a text can be a SHA-256 in hex.
pub fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;
    use object_store::path::Path;

    use super::{ObjectError, Store, Upload, digest};

    async fn upload(store: &Store, size: u64, announced: &str, data: &[u8]) -> Result<(), ObjectError> {
        let mut upload = Upload::begin(store, &Path::from("a/b"), size, announced).await?;
        for piece in data.chunks(3) {
            upload.write(piece).await?;
        }
        upload.finish().await
    }

    #[tokio::test]
    async fn what_was_announced_becomes_visible() {
        let store: Store = Arc::new(InMemory::new());
        upload(&store, 7, &digest(b"release"), b"release").await.expect("all is as announced");
        let read = store.get(&Path::from("a/b")).await.expect("it is there").bytes().await.expect("it can be read");
        assert_eq!(&read[..], b"release");
    }

    #[tokio::test]
    async fn what_differs_from_its_announcement_never_becomes_visible() {
        let store: Store = Arc::new(InMemory::new());
        let other = upload(&store, 7, &digest(b"release"), b"releasf").await;
        assert!(matches!(other, Err(ObjectError::Digest)));
        let short = upload(&store, 8, &digest(b"release"), b"release").await;
        assert!(matches!(short, Err(ObjectError::Size { announced: 8, received: 7 })));
        let long = upload(&store, 6, &digest(b"release"), b"release").await;
        assert!(matches!(long, Err(ObjectError::Size { announced: 6, .. })));
        assert!(store.get(&Path::from("a/b")).await.is_err());
    }
}
