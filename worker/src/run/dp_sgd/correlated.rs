//! Correlated noise of a participant over the rounds of a job, and its state on disk.
//!
//! Each round draws a fresh seed of the operating system. The seeds lie in the job's folder, which no backup contains,
//! each on disk before the vector of its round is. After a crash the noise of all rounds is drawn again from them. A round
//! that has a seed and no stored vector gets another seed: nothing of it has left. A seed is never used for another job,
//! other data, other terms or another computation: the file names these. The file is removed after the participant's last
//! round, and at the end of its part, whatever the end is.
//!
//! A released round without its seed ends the part: the noise of later rounds could not be computed, and noise without it
//! would not have the price of the job. Its charge stands.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use undertone_api::job::dp_sgd::{Party, Spec};
use zeroize::Zeroizing;

use super::error::TrainingError;
use crate::dp::clip::Clip;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::{CorrelatedNoise, DrawnNoise};
use crate::run::{Averaging, RoundKey, RoundProgress, RunContext, RunError, check_cancelled};
use crate::site::folder::{hidden, sync_folder, write_durably};

/// The file of the seeds in the folder of a part.
const SEEDS: &str = "noise.seeds";
/// The bytes of a digest, and of a seed.
const BYTES: usize = 32;
/// The bytes of a row: the round and its seed.
const ROW: usize = 4 + BYTES;

/// The correlated noise of one participant's private rounds.
pub(super) struct CorrelatedRounds {
    path: PathBuf,
    /// The digest of job, dataset, data and terms.
    terms: [u8; BYTES],
    seeds: BTreeMap<u32, Zeroizing<[u8; BYTES]>>,
    noise: CorrelatedNoise,
    /// The rounds before this one have a seed, or nothing of them was released.
    checked: u32,
}

/// Returns the bands and the number of releases of a party with correlated noise.
pub(super) fn banded_terms(spec: &Spec, party: &Party) -> Option<(NonZeroU32, NonZeroU32)> {
    let bands = party.noise?.banded?.bands;
    Some((bands, NonZeroU32::new(spec.rounds_of(party))?))
}

impl CorrelatedRounds {
    /// Opens the noise of a party's private rounds with vectors of `length` numbers, from the stored seeds of earlier
    /// processes; `None` for independent noise. `data` is the digest of the participant's data.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the stored seeds are damaged, or belong to another job, other data or other terms.
    pub(super) fn open(
        spec: &Spec,
        party: &Party,
        clip: Clip,
        length: usize,
        data: &str,
        exchange: &dyn RunContext,
    ) -> Result<Option<Self>, RunError> {
        let Some((bands, releases)) = banded_terms(spec, party) else { return Ok(None) };
        let noise = CorrelatedNoise::new(clip, bands, releases, length)?;
        let mut terms = Sha256::new_with_prefix("undertone/correlated-noise/1\0");
        terms.update(exchange.manifest().job.0);
        terms.update(party.dataset.0);
        terms.update(Sha256::digest(data));
        for number in [bands.get(), releases.get()] {
            terms.update(number.to_le_bytes());
        }
        terms.update(clip.bound().to_le_bytes());
        terms.update(clip.noise_multiplier().get().to_le_bytes());
        terms.update((length as u64).to_le_bytes());
        // The noise of earlier rounds is computed again from their seeds: by the same numbers, or not at all.
        terms.update(CorrelatedNoise::VERSION.to_le_bytes());
        terms.update(noise.deviation().to_le_bytes());
        for weight in noise.weights() {
            terms.update(weight.to_le_bytes());
        }
        let path = exchange.folder().join(SEEDS);
        let terms: [u8; BYTES] = terms.finalize().into();
        let seeds = match fs::read(&path).map(Zeroizing::new) {
            Ok(file) => read_seeds(&file, &terms).ok_or_else(|| TrainingError::DamagedNoise(path.clone()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => return Err(TrainingError::UnreadableNoise { path, source }.into()),
        };
        let mut rounds = Self { path, terms, seeds, noise, checked: 1 };
        for (round, seed) in &rounds.seeds {
            check_cancelled(exchange)?;
            let _ = rounds.noise.draw(*round, &Randomness::restore_step(seed.clone()));
        }
        Ok(Some(rounds))
    }

    /// Draws the noise of a round from a fresh seed, which is on disk when this returns.
    ///
    /// # Errors
    /// [`RunError::Failed`] when an earlier round was released and its seed is gone, when a later round has a seed
    /// already, or when the disk refuses.
    pub(super) fn draw(&mut self, key: RoundKey<'_>, exchange: &mut dyn Averaging) -> Result<DrawnNoise<'_>, RunError> {
        let round = key.round;
        if let Some((last, _)) = self.seeds.last_key_value().filter(|(last, _)| **last > round) {
            return Err(TrainingError::NoiseOrder { last: *last, round }.into());
        }
        for earlier in self.checked..round {
            let is_known = self.seeds.contains_key(&earlier);
            if !is_known && exchange.round_progress(RoundKey::new(key.series, earlier))? != RoundProgress::Untouched {
                return Err(TrainingError::LostNoise { path: self.path.clone(), round: earlier }.into());
            }
        }
        self.checked = round;
        let fresh = exchange.draw_randomness(Purpose::CorrelatedNoise);
        let seed = fresh.step_secret().ok_or(TrainingError::NotStepSecret)?;
        self.seeds.insert(round, seed);
        write_durably(&self.path, &self.to_file())?;
        Ok(self.noise.draw(round, &fresh))
    }

    /// Removes the seeds: no further round is released.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk refuses.
    pub(super) fn destroy(self) -> Result<(), RunError> {
        forget(self.path.parent().unwrap_or(&self.path))
    }

    fn to_file(&self) -> Zeroizing<Vec<u8>> {
        let mut body = Zeroizing::new(Vec::with_capacity(2 * BYTES + self.seeds.len() * ROW));
        body.extend([0; BYTES]);
        body.extend(self.terms);
        for (round, seed) in &self.seeds {
            body.extend(round.to_le_bytes());
            body.extend(seed.iter());
        }
        let digest = Sha256::digest(&body[BYTES..]);
        body[..BYTES].copy_from_slice(&digest);
        body
    }
}

/// Removes the seeds of a part from its folder, and what a failed write of them left.
///
/// # Errors
/// [`RunError::Failed`] when the disk refuses.
pub(super) fn forget(folder: &Path) -> Result<(), RunError> {
    let path = folder.join(SEEDS);
    for path in [hidden(&path), path] {
        match fs::remove_file(&path) {
            Ok(()) => sync_folder(folder)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(TrainingError::UnreadableNoise { path, source }.into()),
        }
    }
    Ok(())
}

/// Reads the seeds of a file: its digest, the digest of the terms, and the rows. `None` when it is damaged or of other
/// terms.
fn read_seeds(file: &[u8], terms: &[u8; BYTES]) -> Option<BTreeMap<u32, Zeroizing<[u8; BYTES]>>> {
    let (digest, body) = file.split_at_checked(BYTES)?;
    let rows = body.strip_prefix(terms)?;
    if Sha256::digest(body).as_slice() != digest || !rows.len().is_multiple_of(ROW) {
        return None;
    }
    let row = |row: &[u8]| {
        let (round, seed) = row.split_at_checked(4)?;
        Some((u32::from_le_bytes(round.try_into().ok()?), Zeroizing::new(seed.try_into().ok()?)))
    };
    rows.chunks_exact(ROW).map(row).collect()
}
