//! Objects in the store: an upload becomes visible only if its size and digest match the announcement.

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

/// The store of vectors and files.
pub type Store = Arc<dyn ObjectStore>;

/// The highest number of concurrent parts of an upload; a part has 5 MiB.
pub(super) const PARTS_UNDER_WAY: usize = 2;

/// The default region of S3.
const REGION: &str = "us-east-1";
/// The number of retries of a request to a bucket that does not answer, and their longest total time.
const TRIES: usize = 5;
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a store that forgets its objects with the process, for commands that store nothing.
pub fn nowhere() -> Store {
    Arc::new(object_store::memory::InMemory::new())
}

/// Opens the store of the configuration: a folder, whose files are durable as soon as they are visible, or a bucket of
/// an S3-compatible store, whose objects are durable. Credentials that the configuration lacks are searched where AWS's
/// own programs search (`AWS_*`, the machine's role).
///
/// # Errors
/// If the folder cannot be used, or the URL names no bucket. [`answers`] checks that the bucket answers.
pub fn open(config: &Config) -> Result<Store, object_store::Error> {
    let Some(url) = &config.store.url else {
        // A row that refers to an object is durable, so the object must be durable before it.
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
    // TLS needs a default provider of cryptography. The process may already have one, which is also ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(Arc::new(PrefixStore::new(s3.build()?, Path::from(prefix))))
}

/// Checks that the store answers, by a request for an object that does not exist.
///
/// # Errors
/// If it does not answer, or refuses the server's credentials.
pub async fn answers(store: &Store) -> Result<(), object_store::Error> {
    match store.head(&Path::from("health/nothing")).await {
        Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A reason why bytes were not stored or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The store failed.
    #[error("the object store failed")]
    Store(#[from] object_store::Error),
    /// The number of received bytes differs from the announcement.
    #[error("{announced} bytes were announced, {received} came: send the whole, and no more")]
    Size {
        /// The announced bytes.
        announced: u64,
        /// The received bytes, so far.
        received: u64,
    },
    /// A part of the sent bytes is no longer stored, because another attempt has ended.
    #[error("the server has less of this vector than was sent: ask again how much it received")]
    Lost,
    /// The SHA-256 of the bytes differs from the announcement.
    #[error("the SHA-256 of what came is not the one announced: send it again")]
    Digest,
    /// The bytes are not a vector of the announced form.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The vector is longer than any vector of an honest party.
    #[error(
        "its L2 norm is {norm:.4e}, and what clip, noise and batch of the job allow is {most:.4e}: send what the job's training made, \
         or update the worker"
    )]
    Norm {
        /// The norm.
        norm: f64,
        /// The limit.
        most: f64,
    },
    /// The queue had no turn for it.
    #[error(transparent)]
    Turn(Box<crate::error::Error>),
    /// The bytes are not a pool of questions.
    #[error(transparent)]
    Questions(#[from] QuestionError),
}

/// A running upload. If it is dropped or fails, no object remains.
pub struct ObjectUpload {
    writer: WriteMultipart,
    hasher: Sha256,
    size: u64,
    received: u64,
    digest: String,
}

impl ObjectUpload {
    /// Begins an upload of `size` bytes with the SHA-256 `digest` (hex) to `path`.
    ///
    /// # Errors
    /// [`ObjectError::Store`].
    pub async fn begin(store: &Store, path: &Path, size: u64, digest: &str) -> Result<Self, ObjectError> {
        let writer = WriteMultipart::new(store.put_multipart(path).await?);
        Ok(Self { writer, hasher: Sha256::new(), size, received: 0, digest: digest.to_ascii_lowercase() })
    }

    /// Appends the next bytes.
    ///
    /// # Errors
    /// [`ObjectError::Size`] as soon as there are too many, [`ObjectError::Store`].
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

    /// Makes the object visible, if it matches the announcement.
    ///
    /// # Errors
    /// [`ObjectError::Size`] or [`ObjectError::Digest`] if it does not, [`ObjectError::Store`].
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

/// Marks a point at which the simulation may let the disk fail.
pub(super) fn failing(point: &'static str) -> Result<(), ObjectError> {
    let store_says = |error| object_store::Error::Generic { store: "LocalFileSystem", source: Box::new(error) };
    fault::disk(point).map_err(|error| ObjectError::Store(store_says(error)))
}

/// Computes on a blocking thread, so that the network tasks continue.
pub(super) async fn run_blocking<T: Send + 'static>(
    compute: impl FnOnce() -> Result<T, ObjectError> + Send + 'static,
) -> Result<T, ObjectError> {
    // The task fails only by a defect, or at the end of the process.
    tokio::task::spawn_blocking(compute).await.map_err(object_store::Error::from)?
}

/// Removes an object; a missing object is not an error.
///
/// # Errors
/// [`ObjectError::Store`].
pub async fn remove(store: &Store, path: &Path) -> Result<(), ObjectError> {
    match store.delete(path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes all objects under a prefix.
///
/// # Errors
/// [`ObjectError::Store`].
pub async fn remove_all(store: &Store, prefix: &Path) -> Result<(), ObjectError> {
    let objects: Vec<_> = store.list(Some(prefix)).try_collect().await?;
    for object in objects {
        remove(store, &object.location).await?;
    }
    Ok(())
}

/// Returns the SHA-256 of bytes, hex.
pub fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Returns whether a text can be a SHA-256 in hex.
pub fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;
    use object_store::path::Path;

    use super::{ObjectError, ObjectUpload, Store, digest};

    async fn upload(store: &Store, size: u64, announced: &str, data: &[u8]) -> Result<(), ObjectError> {
        let mut upload = ObjectUpload::begin(store, &Path::from("a/b"), size, announced).await?;
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
