//! The opening of a masked sum: the vectors are added, and the revealed shares remove the remaining masks.

use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use undertone_api::id::DatasetId;

use super::super::object_error;
use super::phase::MaskedRows;
use super::{MaskedRound, PlannedSeries};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::exchange::object::Store;
use crate::model::job;
use undertone_secure_aggregation::modulus::Modulus;

/// The coordinates of a vector in memory at a time, a multiple of 8: their bits fill whole bytes.
const STRETCH: u64 = 1 << 19;

/// The vector of a survivor.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::service::round) struct MaskedPart {
    pub(in crate::service::round) dataset: DatasetId,
    /// The path of its masked vector.
    pub(in crate::service::round) path: Path,
    /// Its expected batch.
    pub(in crate::service::round) weight: f64,
}

/// The mean of a group, as an object.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::service::round) struct OpenedSum {
    /// The path of the mean.
    pub(in crate::service::round) path: Path,
    /// The expected batch of the group.
    pub(in crate::service::round) weight: f64,
}

/// Opens the sum of the survivors' vectors, and writes γ times the sum over the expected batch to `to`, as plain f32.
///
/// # Errors
/// `wrong_state` when the shares do not open it, or it is longer than any sum of honest sites: then the round can never
/// close. Otherwise an error of the database or the store.
pub(in crate::service::round) async fn open_sum(
    ctx: &Ctx,
    row: &job::Model,
    planned: &PlannedSeries,
    number: u32,
    parts: &[MaskedPart],
    to: Path,
) -> Result<OpenedSum, Error> {
    let of = MaskedRound::new(row, planned.clone(), number)?;
    let rows = MaskedRows::load(ctx.db.read(), &of).await?;
    let rows = rows.ok_or_else(|| Error::internal("opening a masked sum", "its round is closed"))?;
    let mut sum = vec![0_u32; of.context.length()];
    for part in parts {
        add_vector(&ctx.store, &part.path, of.context.modulus(), &mut sum).await?;
    }
    let weight: f64 = parts.iter().map(|part| part.weight).sum();
    let bound = most_norm(planned, parts, weight);
    let worth = of.group.step / weight;
    let opened = tokio::task::spawn_blocking(move || {
        let values = open(&of, &rows, sum)?;
        let mean: Vec<f32> = values.into_iter().map(|value| (f64::from(value) * worth) as f32).collect();
        let norm = mean.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        if bound.is_some_and(|bound| norm > bound) {
            let why = format!("its L2 norm is {norm:.4e}, more than honest sites send");
            return Err(spoiled(&of, &why));
        }
        Ok::<Vec<u8>, Error>(mean.iter().flat_map(|value| value.to_le_bytes()).collect())
    });
    let bytes = opened.await.map_err(|error| Error::internal("opening a masked sum", error))??;
    ctx.store.put(&to, bytes.into()).await.map_err(|error| object_error(error.into()))?;
    Ok(OpenedSum { path: to, weight })
}

/// Returns the greatest norm of the mean of honest sites; `None` where none is known.
fn most_norm(planned: &PlannedSeries, parts: &[MaskedPart], weight: f64) -> Option<f64> {
    let norms: Option<Vec<f64>> =
        parts.iter().map(|part| Some(part.weight * planned.most_norm_of(part.dataset)?)).collect();
    Some(norms?.iter().sum::<f64>() / weight)
}

/// Removes the remaining masks of a sum.
fn open(of: &MaskedRound, rows: &MaskedRows, sum: Vec<u32>) -> Result<Vec<i32>, Error> {
    let mut phase = rows.signature_phase(of)?;
    for signature in rows.signatures()? {
        phase.receive(signature).map_err(|error| spoiled(of, &error.to_string()))?;
    }
    let mut phase = phase.close().map_err(|error| spoiled(of, &error.to_string()))?;
    for reveal in rows.reveals()? {
        phase.receive(reveal).map_err(|error| spoiled(of, &error.to_string()))?;
    }
    phase.open_sum(sum).map_err(|error| spoiled(of, &error.to_string()))
}

fn spoiled(of: &MaskedRound, why: &str) -> Error {
    let (number, series) = (of.number, &of.planned.series.name);
    Error::wrong_state(format!(
        "the sum of round {number} of `{series}` cannot be used: {why}; a site of the group is faulty or dishonest: cancel the \
         job, and propose it without that site"
    ))
}

/// Adds a stored vector to the sum, modulo 2³².
async fn add_vector(store: &Store, path: &Path, modulus: Modulus, sum: &mut [u32]) -> Result<(), Error> {
    let length = sum.len();
    let mut start = 0;
    for stretch in sum.chunks_mut(STRETCH as usize) {
        let size = modulus.bytes(stretch.len()) as u64;
        let bytes = store.get_range(path, start..start + size).await.map_err(|error| object_error(error.into()))?;
        start += size;
        let mut bytes = Vec::from(bytes);
        let used = (stretch.len() * usize::from(modulus.bits())) % 8;
        if let Some(last) = bytes.last_mut().filter(|_| used > 0) {
            // Bits after the last coordinate mean nothing.
            *last &= (1 << used) - 1;
        }
        modulus.add_packed(&bytes, stretch).map_err(|error| Error::internal("adding a masked vector", error))?;
        tokio::task::yield_now().await;
    }
    debug_assert_eq!(start, modulus.bytes(length) as u64, "stretches fill whole bytes");
    Ok(())
}
