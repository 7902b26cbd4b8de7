//! Averaging: vectors of f32 come in, their weighted mean goes out; never more than a slice of each is in memory.
//!
//! The mean is Σ wᵢ xᵢ / Σ wᵢ in f64, summed in the order in which the parts are given, rounded to f32 once. Equal inputs in
//! equal order give equal bits on every machine. It must not know who the parts belong to.

use object_store::path::Path;
use object_store::{ObjectStoreExt as _, WriteMultipart};
use sha2::{Digest as _, Sha256};

use super::object::{ObjectError, Store, Upload, failing};
use crate::fault;

/// Most numbers in a vector: 64 Mi (256 MiB).
pub const MAX_LENGTH: u64 = 64 << 20;
/// Numbers of each part held in memory at a time: 64 Ki (256 KiB).
const SLICE: u64 = 64 << 10;
/// Bytes of a number.
const WIDTH: u64 = 4;

/// A vector on its way in: every number must be finite.
pub struct VectorUpload {
    upload: Upload,
    /// Bytes of a number that was cut by a message's end.
    rest: Vec<u8>,
    index: u64,
}

impl VectorUpload {
    /// Begins a vector of `length` numbers with the SHA-256 `digest` (hex) of its little-endian bytes.
    ///
    /// # Errors
    /// [`ObjectError::Store`].
    pub async fn begin(store: &Store, path: &Path, length: u64, digest: &str) -> Result<Self, ObjectError> {
        Ok(Self { upload: Upload::begin(store, path, length * WIDTH, digest).await?, rest: Vec::new(), index: 0 })
    }

    /// Takes the next bytes, wherever they are cut.
    ///
    /// # Errors
    /// [`ObjectError::NotFinite`], and those of [`Upload::write`].
    pub async fn write(&mut self, data: &[u8]) -> Result<(), ObjectError> {
        self.rest.extend_from_slice(data);
        let (numbers, rest) = self.rest.as_chunks::<4>();
        if let Some(at) = numbers.iter().position(|bytes| !f32::from_le_bytes(*bytes).is_finite()) {
            return Err(ObjectError::NotFinite { index: self.index + at as u64 });
        }
        self.index += numbers.len() as u64;
        self.rest = rest.to_vec();
        self.upload.write(data).await
    }

    /// Makes the vector visible, if it is what was announced.
    ///
    /// # Errors
    /// Those of [`Upload::finish`].
    pub async fn finish(self) -> Result<(), ObjectError> {
        self.upload.finish().await
    }
}

/// One part of a mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Where the vector lies.
    pub path: Path,
    /// Its weight: positive.
    pub weight: f64,
}

/// Writes the weighted mean of vectors of `length` numbers to `to`; gives the SHA-256 of its bytes, hex.
///
/// # Errors
/// [`ObjectError`] when a part cannot be read, is shorter than `length`, or the mean cannot be written.
pub async fn mean(store: &Store, parts: &[Part], length: u64, to: &Path) -> Result<String, ObjectError> {
    let total: f64 = parts.iter().map(|part| part.weight).sum();
    let mut writer = WriteMultipart::new(store.put_multipart(to).await?);
    let mut hasher = Sha256::new();
    let mut start = 0;
    while start < length {
        let end = (start + SLICE).min(length);
        let mut sums = vec![0.0_f64; (end - start) as usize];
        for part in parts {
            let bytes = store.get_range(&part.path, start * WIDTH..end * WIDTH).await?;
            let (numbers, _) = bytes.as_chunks::<4>();
            if numbers.len() != sums.len() {
                writer.abort().await?;
                return Err(ObjectError::Size {
                    announced: length * WIDTH,
                    received: start * WIDTH + bytes.len() as u64,
                });
            }
            for (sum, number) in sums.iter_mut().zip(numbers) {
                *sum += part.weight * f64::from(f32::from_le_bytes(*number));
            }
        }
        let bytes: Vec<u8> = sums.iter().flat_map(|sum| ((sum / total) as f32).to_le_bytes()).collect();
        hasher.update(&bytes);
        writer.wait_for_capacity(1).await?;
        writer.write(&bytes);
        start = end;
    }
    failing(fault::BEFORE_STORE)?;
    writer.finish().await?;
    failing(fault::AFTER_STORE)?;
    Ok(hex::encode(hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;
    use object_store::path::Path;

    use super::{Part, SLICE, VectorUpload, mean};
    use crate::exchange::object::{ObjectError, Store, digest};

    fn bytes(vector: &[f32]) -> Vec<u8> {
        vector.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    async fn store_vector(store: &Store, path: &str, vector: &[f32]) -> Result<Path, ObjectError> {
        let (path, data) = (Path::from(path), bytes(vector));
        let mut upload = VectorUpload::begin(store, &path, vector.len() as u64, &digest(&data)).await?;
        // Pieces of 7 bytes cut numbers in two.
        for piece in data.chunks(7) {
            upload.write(piece).await?;
        }
        upload.finish().await?;
        Ok(path)
    }

    async fn read(store: &Store, path: &Path) -> Vec<f32> {
        let data = store.get(path).await.expect("it is there").bytes().await.expect("it can be read");
        data.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect()
    }

    #[tokio::test]
    async fn the_mean_is_weighted() {
        let store: Store = Arc::new(InMemory::new());
        let a = store_vector(&store, "a", &[1.0, -2.0, 0.5]).await.expect("finite");
        let b = store_vector(&store, "b", &[5.0, 2.0, 0.5]).await.expect("finite");
        let parts = [Part { path: a, weight: 3.0 }, Part { path: b, weight: 1.0 }];
        let digest_of_mean = mean(&store, &parts, 3, &Path::from("m")).await.expect("both are there");
        assert_eq!(read(&store, &Path::from("m")).await, [2.0, -1.0, 0.5]);
        assert_eq!(digest_of_mean, digest(&bytes(&[2.0, -1.0, 0.5])));
    }

    #[tokio::test]
    async fn a_vector_longer_than_a_slice_is_averaged_whole_and_alike_each_time() {
        let store: Store = Arc::new(InMemory::new());
        let length = SLICE as usize * 2 + 5;
        let (mut parts, mut vectors) = (Vec::new(), Vec::new());
        for party in 0..3_u32 {
            let vector: Vec<f32> = (0..length).map(|i| ((i as f32 * 0.37 + party as f32).sin()) / 3.0).collect();
            let path = store_vector(&store, &format!("p{party}"), &vector).await.expect("finite");
            parts.push(Part { path, weight: 0.1 + f64::from(party) });
            vectors.push(vector);
        }
        let first = mean(&store, &parts, length as u64, &Path::from("m1")).await.expect("all are there");
        let again = mean(&store, &parts, length as u64, &Path::from("m2")).await.expect("all are there");
        assert_eq!(first, again);
        let averaged = read(&store, &Path::from("m1")).await;
        for i in [0, SLICE as usize - 1, SLICE as usize, length - 1] {
            let expected: f64 = (0..3).map(|p| (0.1 + p as f64) * f64::from(vectors[p][i])).sum::<f64>() / 3.3;
            assert!((f64::from(averaged[i]) - expected).abs() < 1e-7, "{i}");
        }
    }

    #[tokio::test]
    async fn a_number_that_is_not_finite_is_named_and_nothing_is_stored() {
        let store: Store = Arc::new(InMemory::new());
        let refused = store_vector(&store, "a", &[1.0, 2.0, f32::NAN]).await;
        assert!(matches!(refused, Err(ObjectError::NotFinite { index: 2 })));
        assert!(store.get(&Path::from("a")).await.is_err());
    }
}
