//! Averaging: reads vectors of f32 and writes their weighted mean in its wire format; memory holds only segments of two
//! vectors.
//!
//! The mean is Σ wᵢ xᵢ / Σ wᵢ in f64, summed in the order of the parts, rounded to f32 once, and then to the precision
//! of the wire format. The seed of stochastic rounding is derived from the path of the mean: equal inputs in equal
//! order give equal bits on every machine, and all participants get the same ones. This module must not know the owners
//! of the parts.

use std::ops::Range;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, WriteMultipart};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use undertone_api::job::dp_sgd::Precision;
use undertone_proto::vector::pack::VectorPacker;
use undertone_proto::vector::{self, VectorError, VectorForm, WeightedSum, code};

use super::object::{ObjectError, PARTS_UNDER_WAY, Store, failing, run_blocking};
use crate::fault;

/// The number of values of a part in memory at a time, 2 MiB; whole blocks of every precision.
const STRETCH: u64 = 8 * vector::SLICE as u64;
/// The number of segments that are read concurrently: the next part is read while one is added.
const READ_AHEAD: usize = 2;
/// Bytes of a value.
const WIDTH: u64 = 4;

/// One part of a mean.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanPart {
    /// The path of the vector.
    pub path: Path,
    /// Its weight: positive.
    pub weight: f64,
}

/// Writes the weighted mean of vectors to `to`, in a form, compressed if that is smaller; returns the SHA-256 of its
/// bytes, hex.
///
/// # Errors
/// [`ObjectError`] if a part cannot be read, is shorter than the form, or the mean cannot be written.
pub async fn mean(store: &Store, parts: &[MeanPart], form: VectorForm, to: &Path) -> Result<String, ObjectError> {
    let packed = WrittenMean::write(store, parts, form, to, Some(VectorPacker::new(&form)?)).await?;
    let whole = if packed.size < form.bytes() {
        packed
    } else {
        // Noise always shrinks by compression, so only data without noise are written twice.
        packed.writer.abort().await?;
        WrittenMean::write(store, parts, form, to, None).await?
    };
    failing(fault::BEFORE_STORE)?;
    whole.writer.finish().await?;
    failing(fault::AFTER_STORE)?;
    Ok(whole.digest)
}

/// A written mean that is not visible yet.
struct WrittenMean {
    writer: WriteMultipart,
    size: u64,
    digest: String,
}

impl WrittenMean {
    async fn write(
        store: &Store,
        parts: &[MeanPart],
        form: VectorForm,
        to: &Path,
        packer: Option<VectorPacker>,
    ) -> Result<Self, ObjectError> {
        let mut writer = WriteMultipart::new(store.put_multipart(to).await?);
        match write_mean(store, parts, form, MeanEncoder::new(form.precision(), packer, to), &mut writer).await {
            Ok((size, digest)) => Ok(Self { writer, size, digest }),
            Err(error) => {
                writer.abort().await?;
                Err(error)
            }
        }
    }
}

async fn write_mean(
    store: &Store,
    parts: &[MeanPart],
    form: VectorForm,
    mut encoder: MeanEncoder,
    writer: &mut WriteMultipart,
) -> Result<(u64, String), ObjectError> {
    let length = form.length();
    let weights: f64 = parts.iter().map(|part| part.weight).sum();
    let mut start = 0;
    while start < length {
        let end = (start + STRETCH).min(length);
        let sum = sum(store, parts, length, start..end).await?;
        let (next, bytes) = run_blocking(move || {
            let bytes = encoder.take(&sum.mean(weights))?;
            Ok((encoder, bytes))
        })
        .await?;
        encoder = next;
        writer.wait_for_capacity(PARTS_UNDER_WAY).await?;
        writer.put(bytes.into());
        start = end;
    }
    let (bytes, size, digest) = encoder.finish()?;
    writer.put(bytes.into());
    Ok((size, digest))
}

/// Returns the sum of a segment of all parts, in their order.
async fn sum(store: &Store, parts: &[MeanPart], length: u64, stretch: Range<u64>) -> Result<WeightedSum, ObjectError> {
    let mut sum = WeightedSum::new((stretch.end - stretch.start) as usize);
    let range = stretch.start * WIDTH..stretch.end * WIDTH;
    let places: Vec<_> = parts.iter().map(|part| (part.path.clone(), part.weight)).collect();
    let (store, bytes) = (store.clone(), range.clone());
    let reading = move |(path, weight): (Path, f64)| {
        let (store, bytes) = (store.clone(), bytes.clone());
        async move { Ok::<_, ObjectError>((weight, store.get_range(&path, bytes).await?)) }
    };
    let mut read = stream::iter(places).map(reading).buffered(READ_AHEAD);
    while let Some((weight, bytes)) = read.try_next().await? {
        sum.add(weight, &bytes).map_err(|error| match error {
            VectorError::TooShort { found, .. } => {
                ObjectError::Size { announced: length * WIDTH, received: range.start + found }
            }
            other => other.into(),
        })?;
    }
    Ok(sum)
}

/// The conversion of values into the bytes of the wire format.
struct MeanEncoder {
    precision: Precision,
    packer: Option<VectorPacker>,
    rng: ChaCha20Rng,
    hasher: Sha256,
    size: u64,
}

impl MeanEncoder {
    fn new(precision: Precision, packer: Option<VectorPacker>, to: &Path) -> Self {
        let seed = Sha256::digest(format!("undertone/rounding/1 {to}"));
        let rng = ChaCha20Rng::from_seed(seed.into());
        Self { precision, packer, rng, hasher: Sha256::new(), size: 0 }
    }

    fn take(&mut self, numbers: &[f32]) -> Result<Vec<u8>, ObjectError> {
        let mut encoded = Vec::new();
        code::encode(numbers, self.precision, || self.rng.next_u32(), &mut encoded);
        let bytes = match &mut self.packer {
            Some(packer) => {
                let mut packed = Vec::with_capacity(encoded.len());
                packer.take(&encoded, &mut packed)?;
                packed
            }
            None => encoded,
        };
        self.count(&bytes);
        Ok(bytes)
    }

    fn count(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
    }

    /// Returns the last bytes, the total number of bytes, and their SHA-256, hex.
    fn finish(mut self) -> Result<(Vec<u8>, u64, String), ObjectError> {
        let mut bytes = Vec::new();
        if let Some(packer) = self.packer.take() {
            packer.finish(&mut bytes)?;
        }
        self.count(&bytes);
        Ok((bytes, self.size, hex::encode(self.hasher.finalize())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use sha2::{Digest as _, Sha256};
    use undertone_api::job::dp_sgd::Precision;
    use undertone_proto::vector::{VectorForm, read, write};

    use super::{MeanPart, STRETCH, mean};
    use crate::exchange::object::{Store, digest};

    async fn store_vector(store: &Store, path: &str, vector: &[f32]) -> Path {
        let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
        store.put(&Path::from(path), bytes.into()).await.expect("memory has room");
        Path::from(path)
    }

    async fn bytes(store: &Store, path: &str) -> Vec<u8> {
        store.get(&Path::from(path)).await.expect("it is there").bytes().await.expect("it can be read").to_vec()
    }

    fn form(precision: Precision, length: usize) -> VectorForm {
        VectorForm::new(precision, length as u64).expect("a length")
    }

    #[tokio::test]
    async fn the_mean_is_weighted() {
        let store: Store = Arc::new(InMemory::new());
        let a = store_vector(&store, "a", &[1.0, -2.0, 0.5]).await;
        let b = store_vector(&store, "b", &[5.0, 2.0, 0.5]).await;
        let parts = [MeanPart { path: a, weight: 3.0 }, MeanPart { path: b, weight: 1.0 }];
        let form = form(Precision::F32, 3);
        let digest_of_mean = mean(&store, &parts, form, &Path::from("m")).await.expect("both are there");
        let bytes = bytes(&store, "m").await;
        assert_eq!(read(&bytes, form).expect("a vector"), [2.0, -1.0, 0.5]);
        assert_eq!(digest_of_mean, digest(&bytes));
    }

    #[tokio::test]
    async fn long_vector_is_averaged_alike_each_time() {
        let store: Store = Arc::new(InMemory::new());
        let length = STRETCH as usize + 5;
        let (mut parts, mut vectors) = (Vec::new(), Vec::new());
        for party in 0..3_u32 {
            let vector: Vec<f32> = (0..length).map(|i| ((i as f32 * 0.37 + party as f32).sin()) / 3.0).collect();
            let path = store_vector(&store, &format!("p{party}"), &vector).await;
            parts.push(MeanPart { path, weight: 0.1 + f64::from(party) });
            vectors.push(vector);
        }
        for (precision, error) in [(Precision::F32, 1e-7), (Precision::Bf16, 1e-3), (Precision::Int8, 3e-3)] {
            let form = form(precision, length);
            let first = mean(&store, &parts, form, &Path::from("m1")).await.expect("all are there");
            let again = mean(&store, &parts, form, &Path::from("m1")).await.expect("all are there");
            assert_eq!(first, again, "{precision:?}");
            let bytes = bytes(&store, "m1").await;
            assert!((bytes.len() as u64) < form.bytes(), "{precision:?} is packed");
            let averaged = read(&bytes, form).expect("a vector");
            for i in [0, STRETCH as usize - 1, STRETCH as usize, length - 1] {
                let expected: f64 = (0..3).map(|p| (0.1 + p as f64) * f64::from(vectors[p][i])).sum::<f64>() / 3.3;
                assert!((f64::from(averaged[i]) - expected).abs() < error, "{precision:?} {i}");
            }
        }
    }

    /// In one piece, as a site writes it: the bytes do not depend on the way of their creation.
    #[tokio::test]
    async fn mean_is_encoded_like_a_vector_of_a_site() {
        let length = STRETCH as usize + 300;
        let vector: Vec<f32> = (0..length).map(|i| ((i * i) as f32 * 0.618).sin()).collect();
        for precision in [Precision::F32, Precision::Bf16] {
            let store: Store = Arc::new(InMemory::new());
            let parts = [MeanPart { path: store_vector(&store, "a", &vector).await, weight: 1.0 }];
            mean(&store, &parts, form(precision, length), &Path::from("m")).await.expect("it is there");
            assert!(bytes(&store, "m").await == write(&vector, precision, || 0).expect("finite"), "{precision:?}");
        }
    }

    #[tokio::test]
    async fn a_mean_that_packing_makes_no_smaller_is_kept_as_it_is() {
        let store: Store = Arc::new(InMemory::new());
        // Digests cannot be compressed.
        let bits = (0..600_u32).flat_map(|n| {
            let digest: [u8; 32] = Sha256::digest(n.to_le_bytes()).into();
            digest.as_chunks::<4>().0.to_vec()
        });
        let vector: Vec<f32> = bits.map(f32::from_le_bytes).filter(|number| number.is_finite()).collect();
        let parts = [MeanPart { path: store_vector(&store, "a", &vector).await, weight: 1.0 }];
        let form = form(Precision::F32, vector.len());
        let digest_of_mean = mean(&store, &parts, form, &Path::from("m")).await.expect("it is there");
        let stored = bytes(&store, "m").await;
        assert_eq!((stored.len() as u64, digest_of_mean), (form.bytes(), digest(&stored)));
        assert_eq!(read(&stored, form).expect("a vector"), vector);
    }

    #[tokio::test]
    async fn a_part_that_is_too_short_leaves_no_mean() {
        let store: Store = Arc::new(InMemory::new());
        let parts = [MeanPart { path: store_vector(&store, "a", &[1.0]).await, weight: 1.0 }];
        assert!(mean(&store, &parts, form(Precision::F32, 2), &Path::from("m")).await.is_err());
        assert!(store.get(&Path::from("m")).await.is_err());
    }
}
