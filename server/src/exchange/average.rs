//! Averaging: vectors of f32 come in, their weighted mean goes out, as it travels; never more than a slice of each is in memory.
//!
//! The mean is Σ wᵢ xᵢ / Σ wᵢ in f64, summed in the order in which the parts are given, rounded to f32 once, and then to the
//! precision in which it travels. Where that is by chance, the chance follows from where the mean is written: equal inputs in
//! equal order give equal bits on every machine, and all participants get the same ones. It must not know who the parts
//! belong to.

use object_store::path::Path;
use object_store::{ObjectStoreExt as _, WriteMultipart};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use undertone_proto::vector::pack::Packer;
use undertone_proto::vector::{self, Form, code};

use super::object::{ObjectError, Store, failing};
use crate::fault;

/// Numbers of each part held in memory at a time; whole blocks of every precision.
const SLICE: u64 = vector::SLICE as u64;
/// Bytes of a number.
const WIDTH: u64 = 4;

/// One part of a mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Where the vector lies.
    pub path: Path,
    /// Its weight: positive.
    pub weight: f64,
}

/// Writes the weighted mean of vectors to `to`, in a form, packed where that is smaller; gives the SHA-256 of its bytes, hex.
///
/// # Errors
/// [`ObjectError`] when a part cannot be read, is shorter than the form says, or the mean cannot be written.
pub async fn mean(store: &Store, parts: &[Part], form: Form, to: &Path) -> Result<String, ObjectError> {
    let mut plain = Writing::begin(store, to).await?;
    let mut packed = Writing::begin(store, to).await?;
    let made = write_mean(store, parts, form, to, &mut plain, &mut packed).await;
    let (keep, drop) = if packed.size < plain.size { (packed, plain) } else { (plain, packed) };
    drop.writer.abort().await?;
    if let Err(error) = made {
        keep.writer.abort().await?;
        return Err(error);
    }
    failing(fault::BEFORE_STORE)?;
    keep.writer.finish().await?;
    failing(fault::AFTER_STORE)?;
    Ok(hex::encode(keep.hasher.finalize()))
}

/// One of the two ways in which a mean may be kept.
struct Writing {
    writer: WriteMultipart,
    hasher: Sha256,
    size: u64,
}

impl Writing {
    async fn begin(store: &Store, to: &Path) -> Result<Self, ObjectError> {
        let writer = WriteMultipart::new(store.put_multipart(to).await?);
        Ok(Self { writer, hasher: Sha256::new(), size: 0 })
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), ObjectError> {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        self.writer.wait_for_capacity(1).await?;
        self.writer.write(bytes);
        Ok(())
    }
}

async fn write_mean(
    store: &Store,
    parts: &[Part],
    form: Form,
    to: &Path,
    plain: &mut Writing,
    packed: &mut Writing,
) -> Result<(), ObjectError> {
    let length = form.length();
    let total: f64 = parts.iter().map(|part| part.weight).sum();
    let mut packer = Packer::new(&form)?;
    let mut chance = ChaCha20Rng::from_seed(Sha256::digest(format!("undertone/rounding/1 {to}")).into());
    let (mut encoded, mut small) = (Vec::new(), Vec::new());
    let mut start = 0;
    while start < length {
        let end = (start + SLICE).min(length);
        let mut sums = vec![0.0_f64; (end - start) as usize];
        for part in parts {
            let bytes = store.get_range(&part.path, start * WIDTH..end * WIDTH).await?;
            let (numbers, _) = bytes.as_chunks::<4>();
            if numbers.len() != sums.len() {
                return Err(ObjectError::Size {
                    announced: length * WIDTH,
                    received: start * WIDTH + bytes.len() as u64,
                });
            }
            for (sum, number) in sums.iter_mut().zip(numbers) {
                *sum += part.weight * f64::from(f32::from_le_bytes(*number));
            }
        }
        let numbers: Vec<f32> = sums.iter().map(|sum| (sum / total) as f32).collect();
        code::encode(&numbers, form.precision(), || chance.next_u32(), &mut encoded);
        packer.take(&encoded, &mut small)?;
        plain.write(&std::mem::take(&mut encoded)).await?;
        packed.write(&std::mem::take(&mut small)).await?;
        start = end;
    }
    packer.finish(&mut small)?;
    packed.write(&small).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use undertone_api::job::dp_sgd::Precision;
    use undertone_proto::vector::{Form, read};

    use super::{Part, SLICE, mean};
    use crate::exchange::object::{Store, digest};

    async fn store_vector(store: &Store, path: &str, vector: &[f32]) -> Path {
        let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
        store.put(&Path::from(path), bytes.into()).await.expect("memory has room");
        Path::from(path)
    }

    async fn bytes(store: &Store, path: &str) -> Vec<u8> {
        store.get(&Path::from(path)).await.expect("it is there").bytes().await.expect("it can be read").to_vec()
    }

    fn form(precision: Precision, length: usize) -> Form {
        Form::new(precision, length as u64).expect("a length")
    }

    #[tokio::test]
    async fn the_mean_is_weighted() {
        let store: Store = Arc::new(InMemory::new());
        let a = store_vector(&store, "a", &[1.0, -2.0, 0.5]).await;
        let b = store_vector(&store, "b", &[5.0, 2.0, 0.5]).await;
        let parts = [Part { path: a, weight: 3.0 }, Part { path: b, weight: 1.0 }];
        let form = form(Precision::F32, 3);
        let digest_of_mean = mean(&store, &parts, form, &Path::from("m")).await.expect("both are there");
        let bytes = bytes(&store, "m").await;
        assert_eq!(read(&bytes, form).expect("a vector"), [2.0, -1.0, 0.5]);
        assert_eq!(digest_of_mean, digest(&bytes));
    }

    #[tokio::test]
    async fn a_vector_longer_than_a_slice_is_averaged_whole_and_alike_each_time() {
        let store: Store = Arc::new(InMemory::new());
        let length = SLICE as usize * 2 + 5;
        let (mut parts, mut vectors) = (Vec::new(), Vec::new());
        for party in 0..3_u32 {
            let vector: Vec<f32> = (0..length).map(|i| ((i as f32 * 0.37 + party as f32).sin()) / 3.0).collect();
            let path = store_vector(&store, &format!("p{party}"), &vector).await;
            parts.push(Part { path, weight: 0.1 + f64::from(party) });
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
            for i in [0, SLICE as usize - 1, SLICE as usize, length - 1] {
                let expected: f64 = (0..3).map(|p| (0.1 + p as f64) * f64::from(vectors[p][i])).sum::<f64>() / 3.3;
                assert!((f64::from(averaged[i]) - expected).abs() < error, "{precision:?} {i}");
            }
        }
    }

    #[tokio::test]
    async fn a_part_that_is_too_short_leaves_no_mean() {
        let store: Store = Arc::new(InMemory::new());
        let parts = [Part { path: store_vector(&store, "a", &[1.0]).await, weight: 1.0 }];
        assert!(mean(&store, &parts, form(Precision::F32, 2), &Path::from("m")).await.is_err());
        assert!(store.get(&Path::from("m")).await.is_err());
    }
}
