//! Extracts known pieces from a recording that is read again.

use super::SpokenPiece;
use crate::piece::{Piece, seconds};
use undertone_worker_speech::audio::AudioError;

/// Reasons that a piece cannot be extracted.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// The recording cannot be read.
    #[error(transparent)]
    Audio(#[from] AudioError),
    /// The pieces are not from one recording, in order of time.
    #[error("piece {0} is empty or begins before the one ahead of it ends: give pieces in order of time")]
    Order(u32),
    /// The recording has changed.
    #[error(
        "the recording ends at {end:.3} s, before the end of piece {id}: it changed since it was cut; cut it again"
    )]
    Ended {
        /// Number of the piece.
        id: u32,
        /// End of the recording, in seconds.
        end: f64,
    },
}

/// Extracts the sound of `pieces`, which are in order of time and do not overlap, from the blocks of their recording. Holds
/// one piece and one block at a time, and reads no further than the last piece. Ends after an error.
pub fn extract_pieces<B, P>(blocks: B, pieces: P) -> PieceCutter<B, P::IntoIter>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
    P: IntoIterator<Item = Piece>,
{
    PieceCutter { blocks, pieces: pieces.into_iter(), held: Vec::new(), base: 0, over: false }
}

/// Iterator of [`extract_pieces`].
pub struct PieceCutter<B, P> {
    blocks: B,
    pieces: P,
    held: Vec<f32>,
    /// Index of the first buffered sample.
    base: u64,
    over: bool,
}

impl<B, P> PieceCutter<B, P>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
{
    fn take(&mut self, piece: Piece) -> Result<SpokenPiece, CutError> {
        let start = piece.samples.start;
        let end = piece.samples.end;
        if start < self.base || end <= start {
            return Err(CutError::Order(piece.id));
        }
        loop {
            let passed = (start - self.base).min(self.held.len() as u64);
            self.held.drain(..passed as usize);
            self.base += passed;
            let there = self.base + self.held.len() as u64;
            if there >= end {
                break;
            }
            match self.blocks.next() {
                Some(block) => self.held.extend(block?),
                None => return Err(CutError::Ended { id: piece.id, end: seconds(there) }),
            }
        }
        self.base = end;
        let audio = self.held.drain(..(end - start) as usize).collect();
        Ok(SpokenPiece { piece, audio })
    }
}

impl<B, P> Iterator for PieceCutter<B, P>
where
    B: Iterator<Item = Result<Vec<f32>, AudioError>>,
    P: Iterator<Item = Piece>,
{
    type Item = Result<SpokenPiece, CutError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let piece = self.pieces.next()?;
        let sound = self.take(piece);
        self.over = sound.is_err();
        Some(sound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(samples: usize, block: usize) -> impl Iterator<Item = Result<Vec<f32>, AudioError>> {
        let samples: Vec<f32> = (0..samples).map(|number| number as f32).collect();
        samples.chunks(block).map(|block| Ok(block.to_vec())).collect::<Vec<_>>().into_iter()
    }

    fn pieces(ranges: &[std::ops::Range<u64>]) -> Vec<Piece> {
        (0..).zip(ranges).map(|(id, samples)| Piece { id, samples: samples.clone() }).collect()
    }

    #[test]
    fn pieces_are_extracted_for_any_block_size() {
        let requested = pieces(&[3..10, 10..11, 500..1_000]);
        for block in [1, 7, 64, 1_000] {
            let extracted: Vec<SpokenPiece> =
                extract_pieces(blocks(1_000, block), requested.clone()).map(Result::unwrap).collect();
            for (SpokenPiece { piece, audio }, requested) in extracted.iter().zip(&requested) {
                assert_eq!(piece, requested);
                let numbers: Vec<f32> = piece.samples.clone().map(|number| number as f32).collect();
                assert_eq!(audio, &numbers, "blocks of {block}");
            }
            assert_eq!(extracted.len(), 3);
        }
    }

    #[test]
    fn shorter_recording_and_unordered_pieces_are_refused() {
        let short: Vec<_> = extract_pieces(blocks(100, 10), pieces(&[0..50, 60..101, 101..102])).collect();
        assert_eq!(short.len(), 2, "it is over after the error");
        assert!(matches!(short[1], Err(CutError::Ended { id: 1, .. })), "{short:?}");
        let order: Vec<_> = extract_pieces(blocks(100, 10), pieces(&[0..50, 49..60])).collect();
        assert!(matches!(order[1], Err(CutError::Order(1))), "{order:?}");
        let empty = Piece { id: 9, samples: 5..5 };
        assert!(matches!(extract_pieces(blocks(100, 10), [empty]).next(), Some(Err(CutError::Order(9)))));
    }
}
