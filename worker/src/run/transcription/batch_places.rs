//! The inputs of a batch, the places of its sounds, and their way there.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rand_chacha::rand_core::Rng;

use super::TranscriptionError;
use super::pieces::PieceCatalog;
use super::tools::JobTools;
use crate::run::{RunError, RunProblem};
use crate::speech::recordings::Recordings;
use crate::speech::transcribe::outbound::BatchDraft;
use crate::speech::transcribe::plan::{BatchItem, Plan};
use crate::speech::transcribe::speak::likeness::pad;
use crate::speech::transcribe::wav;

/// The number of pieces in memory at a time during the conversion to the one voice.
pub(crate) const AT_ONCE: usize = 32;

/// The inputs of a batch.
pub(super) struct BatchInputs<'a> {
    pub(super) recordings: &'a Recordings,
    pub(super) catalog: &'a PieceCatalog,
    pub(super) plan: &'a Plan,
    pub(super) tools: &'a JobTools,
    pub(super) work: &'a Path,
}

/// The position of each piece and each dummy: provider and place.
pub(super) struct BatchPlaces {
    pub(super) pieces: HashMap<u32, (u32, u32)>,
    dummies: HashMap<u32, (u32, u32)>,
}

impl BatchPlaces {
    /// Returns the place of the dummy with a number.
    ///
    /// # Errors
    /// [`TranscriptionError::DummyPlace`] for one that the plan does not have.
    pub(super) fn dummy(&self, number: usize) -> Result<(u32, u32), TranscriptionError> {
        let place = u32::try_from(number).ok().and_then(|number| self.dummies.get(&number));
        place.copied().ok_or(TranscriptionError::DummyPlace(number))
    }

    /// Returns the places of a plan.
    pub(super) fn from_plan(plan: &Plan) -> Self {
        let mut places = Self { pieces: HashMap::new(), dummies: HashMap::new() };
        for provider in 0..plan.providers() {
            for (place, item) in (0_u32..).zip(plan.batch(provider)) {
                match item {
                    BatchItem::Piece(number) => places.pieces.insert(*number, (provider, place)),
                    BatchItem::Dummy(number) => places.dummies.insert(*number, (provider, place)),
                };
            }
        }
        places
    }
}

/// Puts a sound in its place.
///
/// # Errors
/// [`RunError::Failed`] when there is no such place, or the disk refuses.
pub(super) fn add(draft: &Mutex<BatchDraft>, (provider, place): (u32, u32), file: &[u8]) -> Result<(), RunError> {
    Ok(draft.lock().unwrap_or_else(PoisonError::into_inner).add(provider, place, file)?)
}

/// Writes an outgoing sound as a file, padded to the public length.
///
/// # Errors
/// [`TranscriptionError::LongSound`] for one that is longer.
pub(super) fn write_file(sound: Vec<f32>, rng: &mut impl Rng) -> Result<Vec<u8>, TranscriptionError> {
    let sound = pad(sound, rng).ok_or(TranscriptionError::LongSound)?;
    Ok(wav::write(&sound))
}

/// Reads the sounds of the `known` items, in their order, and calls `each` for every part; at most [`AT_ONCE`] sounds
/// are in memory.
///
/// # Errors
/// [`RunError::Failed`] for a sound that cannot be read, and any error of `each`.
pub(super) fn for_each_part<K, S, E: Into<TranscriptionError>>(
    known: &[K],
    sounds: &mut impl Iterator<Item = Result<S, E>>,
    mut each: impl FnMut(&[K], Vec<S>) -> Result<(), RunError>,
) -> Result<(), RunError> {
    for part in known.chunks(AT_ONCE) {
        let sounds: Result<Vec<S>, E> = sounds.by_ref().take(part.len()).collect();
        let sounds = sounds.map_err(|error| RunError::Failed(RunProblem::Transcription(error.into())))?;
        each(part, sounds)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::{AT_ONCE, for_each_part};
    use crate::run::transcription::TranscriptionError;

    #[test]
    fn at_most_thirty_two_sounds_are_in_memory() {
        assert_eq!(AT_ONCE, 32);
        for (count, parts) in [(31, vec![31]), (32, vec![32]), (33, vec![32, 1]), (65, vec![32, 32, 1])] {
            let sound = Rc::new(());
            let mut sizes = Vec::new();
            let known: Vec<usize> = (0..count).collect();
            let mut sounds = (0..count).map(|number| Ok::<_, TranscriptionError>((number, Rc::clone(&sound))));
            let result = for_each_part(&known, &mut sounds, |part, sounds| {
                assert!(part.iter().eq(sounds.iter().map(|(number, _)| number)), "each sound with its item");
                sizes.push(Rc::strong_count(&sound) - 1);
                Ok(())
            });
            assert!(result.is_ok());
            assert_eq!(sizes, parts);
        }
    }
}
